/* Knobs of the sketch and of the profile as tables, and the conversion between JSON's values and how a knob is stored.
   Those of the architecture are in core/knob_model.c. */
#include "core/knob_int.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- rows ---- */

static const struct knob workload_knobs[] = {
#define KNOB(storage, null, pointer, member, least, most)                                                              \
  {pointer, KNOB_##storage, null, offsetof(struct workload, member), sizeof((struct workload *)0)->member, least, most},
#include "core/knob.def"
#undef KNOB
};

/* A required property can not be taken back. */
static const struct knob profile_knobs[] = {
#define REQ false
#define OPT true
#define HARDWARE(need, member, pointer, unit, least, most, sentence)                                                   \
  {"/profile" pointer, KNOB_REAL, need, offsetof(struct hardware, member), sizeof(double), least, most},
#include "core/hardware.def"
#undef HARDWARE
#undef REQ
#undef OPT
};

const char *const knob_pointers[] = {
#define KNOB(storage, null, pointer, member, least, most) pointer,
#include "core/knob.def"
#undef KNOB
    KNOB_MODEL_OUTER
#define ATTENTION_COUNT(member, name, largest) "/model/" name,
#define ATTENTION_FLAG(member, name) "/model/" name,
#define ATTENTION_BIG(member, name, largest) "/model/" name,
#define FEED_FORWARD_COUNT(member, name, largest) "/model/" name,
#define FEED_FORWARD_FLAG(member, name) "/model/" name,
#include "core/model.def"
#define HARDWARE(need, member, pointer, unit, least, most, sentence) "/profile" pointer,
#include "core/hardware.def"
#undef HARDWARE
        NULL};

static const struct knob *find_in(const struct knob *rows, size_t count, const char *pointer)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(rows[i].pointer, pointer) == 0)
      return &rows[i];
  return NULL;
}

/* The row and the struct that it lies in; NULL where there is no such knob in this table. */
static const struct knob *find(void **base, const char *pointer, const struct knob_subject *subject)
{
  const struct knob *knob = find_in(workload_knobs, sizeof workload_knobs / sizeof workload_knobs[0], pointer);
  *base = subject->workload;
  if (knob == NULL) {
    knob = find_in(profile_knobs, sizeof profile_knobs / sizeof profile_knobs[0], pointer);
    *base = subject->hardware;
  }
  return *base != NULL ? knob : NULL;
}

/* ---- values ---- */

struct knob_value knob_number(double number)
{
  struct knob_value value;
  memset(&value, 0, sizeof value);
  value.type = KNOB_VALUE_NUMBER;
  value.number = number;
  return value;
}

struct knob_value knob_text(const char *text)
{
  struct knob_value value;
  memset(&value, 0, sizeof value);
  value.type = KNOB_VALUE_TEXT;
  value.text = text;
  return value;
}

static const char *const arrivals[] = {"poisson", "steady", "spiky"}; /* order of enum arrival_kind */

static const char *type_name(enum knob_type type)
{
  static const char *const names[] = {"null", "a number", "a flag", "a text", "an object"};
  return names[type];
}

enum err knob_wrong_type(struct error *e, const char *pointer, const char *expected, enum knob_type seen)
{
  return error_set(e, ERR_INVALID, pointer, "%s is expected, saw %s", expected, type_name(seen));
}

enum err knob_number_in(double *out, const char *pointer, const struct knob_value *value, bool is_whole, double least,
                        double most, struct error *e)
{
  if (value->type != KNOB_VALUE_NUMBER)
    return knob_wrong_type(e, pointer, is_whole ? "a whole number" : "a number", value->type);
  if (!(value->number >= least && value->number <= most))
    return error_set(e, ERR_INVALID, pointer, "%.15g is outside %.15g to %.15g", value->number, least, most);
  if (is_whole && value->number > floor(value->number))
    return error_set(e, ERR_INVALID, pointer, "%.15g is not a whole number", value->number);
  *out = value->number;
  return ERR_OK;
}

/* ---- storing ---- */

static enum err store_precision(enum precision *to, const char *pointer, const struct knob_value *value,
                                struct error *e)
{
  enum precision precision;
  if (value->type != KNOB_VALUE_TEXT)
    return knob_wrong_type(e, pointer, "a number format (\"fp8\")", value->type);
  precision = precision_parse(value->text);
  if (precision == PRECISION_NONE)
    return error_set(e, ERR_INVALID, pointer, "\"%.48s\" is not a known number format", value->text);
  *to = precision;
  return ERR_OK;
}

static enum err store_arrival(enum arrival_kind *to, const char *pointer, const struct knob_value *value,
                              struct error *e)
{
  if (value->type != KNOB_VALUE_TEXT)
    return knob_wrong_type(e, pointer, "poisson, steady or spiky", value->type);
  for (size_t i = 0; i < sizeof arrivals / sizeof arrivals[0]; i++)
    if (strcmp(arrivals[i], value->text) == 0) {
      *to = (enum arrival_kind)i;
      return ERR_OK;
    }
  return error_set(e, ERR_INVALID, pointer, "\"%.48s\" is none of poisson, steady, spiky", value->text);
}

static enum err store_word(char *to, size_t size, const char *pointer, const struct knob_value *value, struct error *e)
{
  if (value->type != KNOB_VALUE_TEXT)
    return knob_wrong_type(e, pointer, "a text", value->type);
  if (strlen(value->text) >= size)
    return error_set(e, ERR_INVALID, pointer, "\"%.48s\" is longer than %zu bytes", value->text, size - 1);
  (void)snprintf(to, size, "%s", value->text);
  return ERR_OK;
}

/* A distribution keeps its kind of description; a number makes every request alike. */
static enum err store_length(struct length *to, const char *pointer, const struct knob_value *value,
                             const struct knob *knob, struct error *e)
{
  const struct length *given = &value->length;
  const bool by_quantiles = given->kind == LENGTH_QUANTILES;
  const double least = by_quantiles ? given->p50_tokens : given->mean_tokens;
  const double most = by_quantiles ? given->p99_tokens : given->mean_tokens;
  double tokens;
  enum err err;
  if (value->type == KNOB_VALUE_LENGTH) {
    if (given->kind == LENGTH_FIXED || given->kind == LENGTH_ABSENT || !(least >= knob->least && most <= knob->most) ||
        (!by_quantiles && !(given->cv_ratio >= 0 && given->cv_ratio <= 100)))
      return error_set(e, ERR_INVALID, pointer,
                       "lengths are {\"p50\", \"p99\"} or {\"mean\", \"cv\"} of %g to %g tokens", knob->least,
                       knob->most);
    *to = *given;
    return ERR_OK;
  }
  if ((err = knob_number_in(&tokens, pointer, value, true, knob->least, knob->most, e)) != ERR_OK)
    return err;
  memset(to, 0, sizeof *to);
  to->kind = LENGTH_FIXED;
  to->fixed_tokens = tokens;
  to->p50_tokens = to->p99_tokens = to->mean_tokens = to->cv_ratio = (double)NAN;
  return ERR_OK;
}

static void clear(void *at, const struct knob *knob)
{
  switch (knob->storage) {
  case KNOB_REAL:
  case KNOB_WHOLE: *(double *)at = (double)NAN; break;
  case KNOB_COUNT: *(unsigned *)at = 0; break;
  case KNOB_FLAG: *(int *)at = -1; break;
  case KNOB_SPREAD:
  case KNOB_FORMAT: *(enum precision *)at = PRECISION_NONE; break;
  case KNOB_ARRIVAL: *(enum arrival_kind *)at = ARRIVAL_POISSON; break;
  case KNOB_WORD: *(char *)at = '\0'; break;
  case KNOB_LENGTH: break; /* required */
  }
}

static enum err store_flag(int *to, const char *pointer, const struct knob_value *value, struct error *e)
{
  if (value->type != KNOB_VALUE_FLAG)
    return knob_wrong_type(e, pointer, "true or false", value->type);
  *to = value->number > 0;
  return ERR_OK;
}

static enum err store(void *at, const struct knob *knob, const struct knob_value *value, struct error *e)
{
  double number;
  enum err err;
  if (value->type == KNOB_VALUE_NULL) {
    if (!knob->is_nullable)
      return knob_wrong_type(e, knob->pointer, "a value", value->type);
    clear(at, knob);
    return ERR_OK;
  }
  switch (knob->storage) {
  case KNOB_REAL:
  case KNOB_WHOLE:
    return knob_number_in(at, knob->pointer, value, knob->storage == KNOB_WHOLE, knob->least, knob->most, e);
  case KNOB_COUNT:
    if ((err = knob_number_in(&number, knob->pointer, value, true, knob->least, knob->most, e)) == ERR_OK)
      *(unsigned *)at = (unsigned)number;
    return err;
  case KNOB_FLAG: return store_flag(at, knob->pointer, value, e);
  case KNOB_SPREAD:
  case KNOB_FORMAT: return store_precision(at, knob->pointer, value, e);
  case KNOB_ARRIVAL: return store_arrival(at, knob->pointer, value, e);
  case KNOB_WORD: return store_word(at, knob->size, knob->pointer, value, e);
  case KNOB_LENGTH: return store_length(at, knob->pointer, value, knob, e);
  }
  return ERR_OK;
}

/* ---- loading ---- */

static struct knob_value load_number(double number)
{
  struct knob_value value = knob_number(number);
  if (isnan(number))
    value.type = KNOB_VALUE_NULL;
  return value;
}

static struct knob_value load_length(const struct length *length)
{
  struct knob_value value = load_number(length->fixed_tokens);
  if (length->kind == LENGTH_ABSENT) {
    value.type = KNOB_VALUE_NULL;
  } else if (length->kind != LENGTH_FIXED) {
    value.type = KNOB_VALUE_LENGTH;
    value.length = *length;
  }
  return value;
}

static struct knob_value load(const void *at, const struct knob *knob)
{
  const double nothing = (double)NAN;
  struct knob_value value = load_number(nothing);
  switch (knob->storage) {
  case KNOB_REAL:
  case KNOB_WHOLE: return load_number(*(const double *)at);
  case KNOB_COUNT: return load_number(*(const unsigned *)at != 0 ? *(const unsigned *)at : nothing);
  case KNOB_FLAG:
    value.number = *(const int *)at;
    value.type = *(const int *)at >= 0 ? KNOB_VALUE_FLAG : KNOB_VALUE_NULL;
    return value;
  case KNOB_SPREAD:
  case KNOB_FORMAT:
    return *(const enum precision *)at != PRECISION_NONE ? knob_text(precision_name(*(const enum precision *)at))
                                                         : value;
  case KNOB_ARRIVAL: return knob_text(arrivals[*(const enum arrival_kind *)at]);
  case KNOB_WORD: return *(const char *)at != '\0' ? knob_text(at) : value;
  case KNOB_LENGTH: return load_length(at);
  }
  return value;
}

/* ---- the whole ---- */

bool knob_kind(enum knob_kind *kind, bool *is_nullable, const char *pointer, const struct knob_subject *subject)
{
  static const enum knob_kind kinds[] = {KNOB_KIND_REAL,      KNOB_KIND_COUNT, KNOB_KIND_COUNT,
                                         KNOB_KIND_LENGTH,    KNOB_KIND_FLAG,  KNOB_KIND_PRECISION,
                                         KNOB_KIND_PRECISION, KNOB_KIND_WORD,  KNOB_KIND_WORD};
  void *base;
  const struct knob *knob = find(&base, pointer, subject);
  if (is_nullable != NULL)
    *is_nullable = knob != NULL && knob->is_nullable;
  if (knob == NULL)
    return knob_model_kind(kind, pointer, subject->model);
  *kind = kinds[knob->storage];
  return true;
}

enum err knob_get(struct knob_value *out, const char *pointer, const struct knob_subject *subject, struct error *e)
{
  void *base;
  const struct knob *knob = find(&base, pointer, subject);
  if (knob == NULL)
    return knob_model_get(out, pointer, subject->model, e);
  *out = load((const char *)base + knob->offset, knob);
  return ERR_OK;
}

/* A load of another kind is not there to be changed. */
static enum err check_load(const struct workload *workload, const char *pointer, struct error *e)
{
  static const struct {
    const char *pointer;
    enum load_kind load;
  } loads[] = {{"/traffic/requests_per_s", LOAD_OPEN},
               {"/traffic/concurrency", LOAD_CLOSED},
               {"/traffic/trace/rate_scale", LOAD_TRACE}};
  for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
    if (strcmp(loads[i].pointer, pointer) == 0 && workload->traffic.load != loads[i].load)
      return error_set(e, ERR_INVALID, pointer, "the sketch gives its load in another way");
  return ERR_OK;
}

static enum err set_workload(struct workload *workload, const struct knob *knob, const struct knob_value *value,
                             struct error *e)
{
  enum err err = check_load(workload, knob->pointer, e);
  if (err == ERR_OK)
    err = store((char *)workload + knob->offset, knob, value, e);
  if (err != ERR_OK)
    return err;
  if (strncmp(knob->pointer, "/targets/", strlen("/targets/")) == 0)
    workload->targets.are_given = true;
  if (knob->storage == KNOB_ARRIVAL)
    workload->traffic.arrival_is_given = value->type != KNOB_VALUE_NULL;
  if (knob->storage == KNOB_SPREAD)
    workload_set_precision(workload, workload->weights);
  if (knob->storage == KNOB_FORMAT)
    workload->precision_is_word = false;
  return ERR_OK;
}

/* Engines read the most exact figure that a profile has, and bills quotes: a changed figure moves those with it. */
static void carry_over(struct hardware *hardware, const struct hardware *before, const char *pointer)
{
  const double ratio = hardware->memory_gib / before->memory_gib;
  struct hardware_price *quote = &hardware->prices[0];
  if (strcmp(pointer, "/profile/memory_gib") == 0) {
    hardware->memory_usable_mib *= ratio;
    hardware->memory_engine_mib *= ratio;
  } else if (strcmp(pointer, "/profile/price_usd_per_hour") == 0) {
    hardware->price_count = 0;
    if (isnan(hardware->price_usd_per_hour))
      return;
    memset(quote, 0, sizeof *quote);
    (void)snprintf(quote->cloud, sizeof quote->cloud, "price_usd_per_hour");
    quote->accelerators = 1;
    quote->usd_per_accelerator_hour = hardware->price_usd_per_hour;
    hardware->price_count = 1;
  }
}

enum err knob_set(const struct knob_subject *subject, const char *pointer, const struct knob_value *value,
                  struct error *e)
{
  void *base;
  const struct knob *knob = find(&base, pointer, subject);
  struct hardware before;
  enum err err;
  if (knob == NULL)
    return knob_model_set(subject->model, pointer, value, e);
  if (base == subject->workload)
    return set_workload(subject->workload, knob, value, e);
  before = *subject->hardware;
  err = store((char *)base + knob->offset, knob, value, e);
  if (err == ERR_OK)
    carry_over(subject->hardware, &before, pointer);
  return err;
}

static enum err first_fault(const struct faults *faults, const char *prefix, struct error *e)
{
  char pointer[sizeof e->pointer];
  if (faults->count == 0)
    return ERR_OK;
  (void)snprintf(pointer, sizeof pointer, "%s%.120s", prefix, faults->items[0].pointer);
  return error_set(e, ERR_INVALID, pointer, "%s", faults->items[0].detail);
}

enum err knob_check(const struct knob_subject *subject, struct error *e)
{
  struct faults faults;
  enum err err = ERR_OK;
  faults.count = 0;
  faults.is_truncated = false;
  if (subject->workload != NULL)
    workload_check(subject->workload, &faults);
  err = first_fault(&faults, "", e);
  faults.count = 0;
  if (err == ERR_OK && subject->model != NULL) {
    model_check(subject->model, &faults);
    err = first_fault(&faults, "/model", e);
  }
  faults.count = 0;
  if (err == ERR_OK && subject->hardware != NULL) {
    hardware_check(subject->hardware, &faults);
    err = first_fault(&faults, "/profile", e);
  }
  return err;
}
