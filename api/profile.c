/* Hardware profile documents ↔ struct hardware. Numbers come from core/hardware.def; what is only kept for people (notes,
   sources, quotes of prices) is checked for its type and carried along unchanged. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/read.h"
#include "api/write.h"
#include "core/timing.h"

#define FIELDS_MAX 64
#define LIST_MAX 256

static const struct profile_number {
  const char *pointer; /* "/peak_tflops_dense/bf16" */
  size_t offset;
} numbers[] = {
#define HARDWARE(need, member, pointer, unit, min, max, sentence) {pointer, offsetof(struct hardware, member)},
#include "core/hardware.def"
#undef HARDWARE
};
#define NUMBER_COUNT (sizeof numbers / sizeof numbers[0])

static const char *const confidences[] = {"high", "medium", "low", "recalled", NULL};

/* ---- Reading -------------------------------------------------------------------------------------------------------- */

/* Rows of the numbers that lie directly under `group` ("" or "/interconnect"). Bounds are hardware_check's business. */
static size_t number_fields(struct read_field *fields, const char *group, struct hardware *out)
{
  const size_t prefix = strlen(group);
  size_t i, count = 0;
  for (i = 0; i < NUMBER_COUNT; i++) {
    const char *pointer = numbers[i].pointer;
    if (strncmp(pointer, group, prefix) != 0 || pointer[prefix] != '/' || strchr(pointer + prefix + 1, '/') != NULL)
      continue;
    fields[count++] = (struct read_field){
        .name = pointer + prefix + 1, .kind = READ_NUMBER, .allows_null = true, .to = (char *)out + numbers[i].offset};
  }
  return count;
}

/* Kept for people: any text, the empty one too. */
static void check_note(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  (void)to;
  if (!json_is_string(value))
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; a string is expected", read_type_name(value));
}

static void check_notes(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  char at[160];
  size_t i;
  if (!json_is_array(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an array of strings is expected",
               read_type_name(value));
    return;
  }
  if (json_array_size(value) > LIST_MAX)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has %zu elements; at most %d are allowed",
               json_array_size(value), LIST_MAX);
  for (i = 0; i < json_array_size(value) && i < LIST_MAX; i++) {
    read_pointer_index(at, sizeof at, pointer, i);
    check_note(json_array_get(value, i), at, to, faults);
  }
}

static void check_modelled_tco(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  double unused;
  const struct read_field fields[] = {
      {.name = "hyperscaler", .kind = READ_NUMBER, .allows_null = true, .to = &unused, .min = 0, .max = 1e4},
      {.name = "neocloud", .kind = READ_NUMBER, .allows_null = true, .to = &unused, .min = 0, .max = 1e4},
      {.name = "rental_3yr", .kind = READ_NUMBER, .allows_null = true, .to = &unused, .min = 0, .max = 1e4},
      {.name = "source", .kind = READ_CALL, .call = check_note},
      {.name = "note", .kind = READ_CALL, .call = check_note},
  };
  (void)to;
  (void)read_object(value, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

static void read_price(const json_t *value, const char *pointer, struct hardware_price *price, struct faults *faults)
{
  double unused;
  const struct read_field fields[] = {
      {.name = "cloud", .kind = READ_TEXT, .is_required = true, .to = price->cloud, .size = sizeof price->cloud},
      {.name = "instance",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = price->instance,
       .size = sizeof price->instance},
      {.name = "region", .kind = READ_TEXT, .allows_null = true, .to = price->region, .size = sizeof price->region},
      {.name = "date", .kind = READ_TEXT, .allows_null = true, .to = price->date, .size = sizeof price->date},
      {.name = "commitment",
       .kind = READ_NAME,
       .allows_null = true,
       .to = price->commitment,
       .size = sizeof price->commitment},
      {.name = "accelerators",
       .kind = READ_NUMBER,
       .allows_null = true,
       .to = &price->accelerators,
       .min = 0.01,
       .max = 1e5},
      {.name = "usd_per_accelerator_hour",
       .kind = READ_NUMBER,
       .is_required = true,
       .to = &price->usd_per_accelerator_hour,
       .min = 1e-4,
       .max = 1e4},
      {.name = "instance_usd_per_hour",
       .kind = READ_NUMBER,
       .allows_null = true,
       .to = &unused,
       .min = 1e-4,
       .max = 1e7},
      {.name = "source", .kind = READ_CALL, .allows_null = true, .call = check_note},
  };
  (void)snprintf(price->commitment, sizeof price->commitment, "on_demand");
  price->accelerators = 1;
  (void)read_object(value, pointer, fields, sizeof fields / sizeof fields[0], faults);
}

static void read_prices(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct hardware *out = to;
  char at[160];
  size_t i;
  if (!json_is_array(value)) {
    faults_add(faults, FAULT_WRONG_TYPE, pointer, NULL, "is %s; an array is expected", read_type_name(value));
    return;
  }
  if (json_array_size(value) > HARDWARE_PRICES_MAX)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has %zu elements; at most %d are allowed",
               json_array_size(value), HARDWARE_PRICES_MAX);
  for (i = 0; i < json_array_size(value) && i < HARDWARE_PRICES_MAX; i++) {
    read_pointer_index(at, sizeof at, pointer, i);
    read_price(json_array_get(value, i), at, &out->prices[i], faults);
  }
  out->price_count = (unsigned)i;
}

static void read_peaks(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct read_field fields[FIELDS_MAX];
  const size_t count = number_fields(fields, "/peak_tflops_dense", to);
  (void)read_object(value, pointer, fields, count, faults);
}

static void read_interconnect(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct hardware *out = to;
  struct read_field fields[FIELDS_MAX];
  size_t count = number_fields(fields, "/interconnect", to);
  fields[count++] = (struct read_field){
      .name = "kind", .kind = READ_TEXT, .is_required = true, .to = out->link_kind, .size = sizeof out->link_kind};
  fields[count++] = (struct read_field){
      .name = "topology", .kind = READ_TEXT, .allows_null = true, .to = out->topology, .size = sizeof out->topology};
  (void)read_object(value, pointer, fields, count, faults);
}

static void read_family(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  const char *words[HARDWARE_FAMILY_COUNT + 1];
  struct hardware *out = to;
  int index = -1, i;
  const struct read_field field = {.kind = READ_WORD, .to = &index, .words = words};
  for (i = 0; i < HARDWARE_FAMILY_COUNT; i++)
    words[i] = hardware_family_name((enum hardware_family)i);
  words[i] = NULL;
  read_value(value, pointer, &field, faults);
  if (index < 0)
    return;
  out->family = (enum hardware_family)index;
  out->family_is_given = true;
}

static bool is_under(const char *pointer, const char *parent)
{
  const size_t length = strlen(parent);
  return strncmp(pointer, parent, length) == 0 && (pointer[length] == '\0' || pointer[length] == '/');
}

/* The checks of core under our pointers, without repeating what reading already said of a field or what contains it. */
static void check_resolved(const struct hardware *hardware, const char *pointer, size_t first, struct faults *faults)
{
  struct faults found = {.count = 0};
  const size_t read_count = faults->count;
  char at[160];
  size_t i, j;
  hardware_check(hardware, &found);
  for (i = 0; i < found.count; i++) {
    const struct fault *fault = &found.items[i];
    (void)snprintf(at, sizeof at, "%.60s%.90s", pointer, fault->pointer);
    for (j = first; j < read_count && !is_under(at, faults->items[j].pointer); j++)
      ;
    if (j == read_count)
      faults_add(faults, fault->code, at, fault->suggestion, "%s", fault->detail);
  }
}

void profile_read(struct hardware *out, const json_t *document, const char *pointer, struct faults *faults)
{
  const size_t first = faults->count;
  struct read_field fields[FIELDS_MAX];
  double unused;
  char vendor[64], capability[32];
  int confidence = -1, measured_as = -1;
  size_t count, i;
  hardware_init(out);
  const struct read_field others[] = {
      {.name = "id", .kind = READ_NAME, .to = out->name, .size = sizeof out->name},
      {.name = "name", .kind = READ_TEXT, .to = out->display_name, .size = sizeof out->display_name},
      {.name = "vendor", .kind = READ_TEXT, .allows_null = true, .to = vendor, .size = sizeof vendor},
      {.name = "architecture",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = out->architecture,
       .size = sizeof out->architecture},
      {.name = "compute_capability",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = capability,
       .size = sizeof capability},
      {.name = "family", .kind = READ_CALL, .allows_null = true, .to = out, .call = read_family},
      {.name = "measured_as",
       .kind = READ_WORD,
       .allows_null = true,
       .to = &measured_as,
       .words = timing_measured_devices},
      {.name = "memory_type",
       .kind = READ_TEXT,
       .allows_null = true,
       .to = out->memory_type,
       .size = sizeof out->memory_type},
      {.name = "peak_tflops_dense", .kind = READ_CALL, .is_required = true, .to = out, .call = read_peaks},
      {.name = "interconnect", .kind = READ_CALL, .is_required = true, .to = out, .call = read_interconnect},
      {.name = "confidence", .kind = READ_WORD, .allows_null = true, .to = &confidence, .words = confidences},
      {.name = "available", .kind = READ_BOOL, .to = &out->is_available},
      {.name = "prices", .kind = READ_CALL, .allows_null = true, .to = out, .call = read_prices},
      {.name = "ridge_flop_per_byte_16bit", .kind = READ_NUMBER, .allows_null = true, .to = &unused},
      {.name = "modelled_tco_usd_per_hour", .kind = READ_CALL, .allows_null = true, .call = check_modelled_tco},
      {.name = "supported_precisions", .kind = READ_CALL, .allows_null = true, .call = check_notes},
      {.name = "sources", .kind = READ_CALL, .allows_null = true, .call = check_notes},
      {.name = "notes", .kind = READ_CALL, .allows_null = true, .call = check_notes},
      {.name = "disagreements", .kind = READ_CALL, .allows_null = true, .call = check_notes},
      {.name = "single_source_fields", .kind = READ_CALL, .allows_null = true, .call = check_notes},
      {.name = "recalled_fields", .kind = READ_CALL, .allows_null = true, .call = check_notes},
  };
  count = number_fields(fields, "", out);
  for (i = 0; i < sizeof others / sizeof others[0]; i++)
    fields[count++] = others[i];
  if (!read_object(document, pointer, fields, count, faults))
    return;
  if (confidence >= 0)
    (void)snprintf(out->confidence, sizeof out->confidence, "%s", confidences[confidence]);
  if (measured_as >= 0)
    (void)snprintf(out->measured_as, sizeof out->measured_as, "%s", timing_measured_devices[measured_as]);
  if (out->display_name[0] == '\0')
    (void)snprintf(out->display_name, sizeof out->display_name, "%s", out->name);
  hardware_resolve(out);
  check_resolved(out, pointer, first, faults);
}

/* ---- Writing -------------------------------------------------------------------------------------------------------- */

/* Sets a member by a pointer of one or two segments, making the object on the way. */
static bool set_at(json_t *document, const char *pointer, json_t *value)
{
  const char *second = strchr(pointer + 1, '/');
  char group[64];
  json_t *object = document;
  if (second != NULL) {
    (void)snprintf(group, sizeof group, "%.*s", (int)(second - pointer - 1), pointer + 1);
    object = json_object_get(document, group);
    if (object == NULL) {
      object = json_object();
      if (json_object_set_new(document, group, object) != 0) {
        json_decref(value);
        return false;
      }
    }
  }
  return json_object_set_new(object, second != NULL ? second + 1 : pointer + 1, value) == 0;
}

static json_t *prices_write(const struct hardware *hardware)
{
  json_t *prices = json_array();
  unsigned i;
  for (i = 0; i < hardware->price_count; i++) {
    const struct hardware_price *price = &hardware->prices[i];
    json_t *row = json_object();
    if (json_array_append_new(prices, row) != 0 || json_object_set_new(row, "cloud", write_text(price->cloud)) != 0 ||
        json_object_set_new(row, "instance", write_text(price->instance)) != 0 ||
        json_object_set_new(row, "region", write_text(price->region)) != 0 ||
        json_object_set_new(row, "date", write_text(price->date)) != 0 ||
        json_object_set_new(row, "commitment", write_text(price->commitment)) != 0 ||
        json_object_set_new(row, "accelerators", write_number(price->accelerators)) != 0 ||
        json_object_set_new(row, "usd_per_accelerator_hour", write_number(price->usd_per_accelerator_hour)) != 0) {
      json_decref(prices);
      return NULL;
    }
  }
  return prices;
}

static bool write_texts(json_t *document, const struct hardware *hardware)
{
  const char *topology = hardware->topology[0] != '\0' ? hardware->topology : NULL;
  const char *architecture = hardware->architecture[0] != '\0' ? hardware->architecture : NULL;
  const char *memory_type = hardware->memory_type[0] != '\0' ? hardware->memory_type : NULL;
  const char *measured_as = hardware->measured_as[0] != '\0' ? hardware->measured_as : NULL;
  const char *confidence = hardware->confidence[0] != '\0' ? hardware->confidence : NULL;
  return set_at(document, "/name", write_text(hardware->display_name)) &&
         set_at(document, "/architecture", write_text(architecture)) &&
         set_at(document, "/family", write_text(hardware_family_name(hardware->family))) &&
         set_at(document, "/available", json_boolean(hardware->is_available)) &&
         set_at(document, "/confidence", write_text(confidence)) &&
         set_at(document, "/memory_type", write_text(memory_type)) &&
         set_at(document, "/measured_as", write_text(measured_as)) &&
         set_at(document, "/interconnect/kind", write_text(hardware->link_kind)) &&
         set_at(document, "/interconnect/topology", write_text(topology));
}

json_t *profile_write(const struct hardware *hardware, const json_t *source)
{
  json_t *document = json_object(), *prices = json_object_get(source, "prices");
  bool is_complete = write_texts(document, hardware);
  size_t i;
  for (i = 0; i < NUMBER_COUNT && is_complete; i++) {
    double value;
    memcpy(&value, (const char *)hardware + numbers[i].offset, sizeof value);
    is_complete = set_at(document, numbers[i].pointer, write_number(value));
  }
  /* Quotes keep what their source says beyond what is computed with. */
  if (json_is_array(prices))
    is_complete = is_complete && json_object_set(document, "prices", prices) == 0;
  else
    is_complete = is_complete && json_object_set_new(document, "prices", prices_write(hardware)) == 0;
  if (source != NULL)
    is_complete = is_complete && json_object_update_missing(document, read_iterable(source)) == 0;
  if (!is_complete) {
    json_decref(document);
    return NULL;
  }
  return document;
}
