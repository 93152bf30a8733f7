/* Samples become quantities: the name finds rows of the table, labels find the device, the row says what the value is. */
#include "server/exporters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BYTE_GIB (1.0 / 1073741824)
#define NOTES_MAX 20
#define SLOTS 1024 /* a power of two, several times the names */

enum exporter {
#define EXPORTER(id, identity) EXPORTER_##id,
#define GPU(...)
#define ENGINE(...)
#define HISTOGRAM(...)
#define INFO(...)
#include "server/exporters.def"
#undef EXPORTER
  EXPORTERS
};

#define EXPORTER(id, identity) identity,
static const char *const identities[EXPORTERS] = {
#include "server/exporters.def"
};
#undef EXPORTER
#undef GPU
#undef ENGINE
#undef HISTOGRAM
#undef INFO

enum target { TARGET_GPU, TARGET_ENGINE, TARGET_BUCKETS, TARGET_SUM, TARGET_INFO };
enum how { HOW_LAST, HOW_SUM, HOW_MEAN, HOW_MAX, HOW_BITS, HOW_MASK };

struct row {
  enum exporter exporter;
  enum target target;
  const char *name, *suffix; /* together the metric */
  const char *condition;
  unsigned quantity; /* or histogram */
  double factor;
  enum how how;
};

#define EXPORTER(...)
#define GPU(exporter, name, condition, quantity, factor, how)                                                          \
  {EXPORTER_##exporter, TARGET_GPU, name, "", condition, GPU_##quantity, factor, HOW_##how},
#define ENGINE(exporter, name, condition, quantity, factor, how)                                                       \
  {EXPORTER_##exporter, TARGET_ENGINE, name, "", condition, ENGINE_##quantity, factor, HOW_##how},
#define HISTOGRAM(exporter, name, histogram, factor)                                                                   \
  {EXPORTER_##exporter, TARGET_BUCKETS, name, "_bucket", "", HISTOGRAM_##histogram, factor, HOW_SUM},                  \
      {EXPORTER_##exporter, TARGET_BUCKETS, name, "", "", HISTOGRAM_##histogram, factor, HOW_SUM},                     \
      {EXPORTER_##exporter, TARGET_SUM, name, "_sum", "", HISTOGRAM_##histogram, factor, HOW_SUM},
#define INFO(exporter, name) {EXPORTER_##exporter, TARGET_INFO, name, "", "", 0, 1, HOW_LAST},
static const struct row rows[] = {
#include "server/exporters.def"
};
#define ROWS (sizeof rows / sizeof rows[0])

/* ---- Finding rows by name ---- */

struct exporters {
  unsigned short slots[SLOTS]; /* number of the first row of a name, plus 1; 0 = free */
};

static char canonical(char c)
{
  return c == ':' ? '_' : c;
}

static uint32_t hash_more(uint32_t hash, const char *at, size_t length)
{
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)canonical(at[i])) * 16777619u;
  return hash;
}

#define HASH_START 2166136261u

static bool is_prefix(const char *at, const char *wanted, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (canonical(at[i]) != canonical(wanted[i]))
      return false;
  return true;
}

static bool has_name(const struct row *row, struct exposition_text name)
{
  const size_t base = strlen(row->name), end = strlen(row->suffix);
  return name.length == base + end && is_prefix(name.at, row->name, base) &&
         memcmp(name.at + base, row->suffix, end) == 0;
}

enum err exporters_open(struct exporters **out, struct error *e)
{
  struct exporters *exporters = calloc(1, sizeof *exporters);
  if (exporters == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the table of exporters");
  for (size_t i = 0; i < ROWS; i++) {
    const uint32_t base = hash_more(HASH_START, rows[i].name, strlen(rows[i].name));
    uint32_t slot = hash_more(base, rows[i].suffix, strlen(rows[i].suffix)) % SLOTS;
    if (i > 0 && strcmp(rows[i].name, rows[i - 1].name) == 0 && strcmp(rows[i].suffix, rows[i - 1].suffix) == 0)
      continue;
    while (exporters->slots[slot] != 0)
      slot = (slot + 1) % SLOTS;
    exporters->slots[slot] = (unsigned short)(i + 1);
  }
  *out = exporters;
  return ERR_OK;
}

void exporters_close(struct exporters *exporters)
{
  free(exporters);
}

/* The first row of a name, or ROWS. */
static size_t find_row(const struct exporters *exporters, struct exposition_text name)
{
  uint32_t slot = hash_more(HASH_START, name.at, name.length) % SLOTS;
  for (; exporters->slots[slot] != 0; slot = (slot + 1) % SLOTS)
    if (has_name(&rows[exporters->slots[slot] - 1], name))
      return exporters->slots[slot] - 1u;
  if (name.length > 4 && memcmp(name.at, "amd_", 4) == 0)
    return find_row(exporters, (struct exposition_text){name.at + 4, name.length - 4});
  return ROWS;
}

/* ---- A reading ---- */

/* A quantity while samples come in. */
struct cell {
  double sum;
  unsigned count; /* 0 = nothing yet */
  unsigned short row;
};

struct device {
  char key[96]; /* identity and partition */
  struct cell cells[GPU_QUANTITIES];
};

struct reading {
  const struct exporters *exporters;
  int only; /* index into observation_exporters; 0 = all */
  struct observation observation;
  struct device *devices; /* beside observation.gpus */
  size_t capacity, last_device;
  struct cell engine[ENGINE_QUANTITIES];
  unsigned short histogram_rows[ENGINE_HISTOGRAMS]; /* which metric gives it, plus 1; the base name's first row */
  bool is_seen[EXPORTERS];
  bool is_out_of_memory, has_too_many_devices;
  struct reading_note notes[NOTES_MAX];
  size_t note_count;
};

enum err reading_new(struct reading **out, const struct exporters *exporters, int exporter, struct error *e)
{
  struct reading *reading = calloc(1, sizeof *reading);
  if (reading == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to read a page");
  reading->exporters = exporters;
  reading->only = exporter;
  for (size_t i = 0; i < ENGINE_HISTOGRAMS; i++)
    buckets_init(&reading->observation.engine.histograms[i]);
  *out = reading;
  return ERR_OK;
}

void reading_free(struct reading *reading)
{
  if (reading == NULL)
    return;
  free(reading->observation.gpus);
  free(reading->devices);
  free(reading);
}

static void note(struct reading *reading, uint64_t line, const char *text)
{
  struct reading_note *to = &reading->notes[reading->note_count];
  if (reading->note_count == NOTES_MAX)
    return;
  reading->note_count++;
  to->line = line;
  (void)snprintf(to->text, sizeof to->text, "%s", text);
}

size_t reading_notes(const struct reading_note **notes, const struct reading *reading)
{
  *notes = reading->notes;
  return reading->note_count;
}

/* ---- Labels ---- */

static const struct exposition_text *find_label(const struct exposition_sample *sample, const char *name, size_t length)
{
  for (size_t i = 0; i < sample->label_count; i++)
    if (sample->labels[i].name.length == length && strncasecmp(sample->labels[i].name.at, name, length) == 0)
      return &sample->labels[i].value;
  return NULL;
}

/* The first label of a list "a,b,c" that is there and not empty. */
static const struct exposition_text *first_label(const struct exposition_sample *sample, const char *names)
{
  while (*names != '\0') {
    const size_t length = strcspn(names, ",");
    const struct exposition_text *value = find_label(sample, names, length);
    if (value != NULL && value->length > 0)
      return value;
    names += length + (names[length] == ',');
  }
  return NULL;
}

static bool meets(const struct exposition_sample *sample, const char *condition)
{
  const size_t length = strcspn(condition, "=");
  const struct exposition_text *value;
  if (*condition == '\0')
    return true;
  value = find_label(sample, condition, length);
  return value != NULL && exposition_is(*value, condition + length + 1);
}

/* Printable ASCII of a label; what a page sends is shown to people later. DCGM's blanks are no text. */
static void copy_label(char *to, size_t size, const struct exposition_sample *sample, const char *names)
{
  const struct exposition_text *value = to[0] == '\0' ? first_label(sample, names) : NULL;
  size_t used = 0;
  if (value == NULL || (value->length > 3 && memcmp(value->at, "<<<", 3) == 0))
    return;
  for (size_t i = 0; i < value->length && used + 1 < size; i++)
    if (value->at[i] >= ' ' && value->at[i] <= '~')
      to[used++] = value->at[i];
  to[used] = '\0';
}

/* ---- Devices ---- */

static bool make_room(struct reading *reading)
{
  const size_t capacity = reading->capacity == 0 ? 8 : 2 * reading->capacity;
  struct observed_gpu *gpus;
  struct device *devices;
  if (reading->observation.gpu_count < reading->capacity)
    return true;
  gpus = reallocarray(reading->observation.gpus, capacity, sizeof *gpus);
  if (gpus != NULL)
    reading->observation.gpus = gpus;
  devices = reallocarray(reading->devices, capacity, sizeof *devices);
  if (devices != NULL)
    reading->devices = devices;
  if (gpus == NULL || devices == NULL)
    return false;
  reading->capacity = capacity;
  return true;
}

/* Characters that a path segment takes; others become '-'. */
static void make_id(struct observed_gpu *gpu, const char *identity, const char *instance)
{
  (void)snprintf(gpu->id, sizeof gpu->id, "%s%s%s", identity, instance[0] != '\0' ? "." : "", instance);
  for (char *at = gpu->id; *at != '\0'; at++)
    if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *at) == NULL)
      *at = '-';
}

static void describe(struct observed_gpu *gpu, const struct exposition_sample *sample)
{
  copy_label(gpu->uuid, sizeof gpu->uuid, sample, "uuid,gpu_uuid,serial_number");
  copy_label(gpu->bus, sizeof gpu->bus, sample, "pci_bus_id,pci_bdf");
  copy_label(gpu->model, sizeof gpu->model, sample, "modelName,model_name,card_model,hw_name,name");
  copy_label(gpu->driver, sizeof gpu->driver, sample, "DCGM_FI_DRIVER_VERSION,driver_version");
  copy_label(gpu->partition, sizeof gpu->partition, sample, "GPU_I_PROFILE,gpu_compute_partition_type");
  if (strcasecmp(gpu->partition, "spx") == 0) /* AMD's word for a card in one part */
    gpu->partition[0] = '\0';
  gpu->is_partition = gpu->partition[0] != '\0';
}

/* Its place, or SIZE_MAX when it can not be told or kept. */
static size_t find_device(struct reading *reading, const struct exposition_sample *sample, enum exporter exporter)
{
  char identity[64] = "", instance[16] = "", key[96];
  size_t at = reading->last_device;
  struct observation *seen = &reading->observation;
  copy_label(identity, sizeof identity, sample, identities[exporter]);
  copy_label(instance, sizeof instance, sample, "GPU_I_ID");
  if (identity[0] == '\0')
    return SIZE_MAX;
  (void)snprintf(key, sizeof key, "%d/%s/%s", (int)exporter, identity, instance);
  if (at < seen->gpu_count && strcmp(reading->devices[at].key, key) == 0)
    return at;
  for (at = 0; at < seen->gpu_count; at++)
    if (strcmp(reading->devices[at].key, key) == 0)
      return reading->last_device = at;
  if (at == EXPORTER_GPUS_MAX || !make_room(reading)) {
    reading->has_too_many_devices = at == EXPORTER_GPUS_MAX;
    reading->is_out_of_memory = reading->is_out_of_memory || at < EXPORTER_GPUS_MAX;
    return SIZE_MAX;
  }
  seen->gpus[at] = (struct observed_gpu){.id = ""};
  reading->devices[at] = (struct device){.key = ""};
  memcpy(reading->devices[at].key, key, sizeof key);
  make_id(&seen->gpus[at], identity, instance);
  seen->gpu_count++;
  return reading->last_device = at;
}

/* ---- Values ---- */

/* Rows that set single flags share a cell. */
static bool shares(const struct row *row, const struct row *held)
{
  return row == held || (row->how == HOW_BITS && held->how == HOW_BITS);
}

/* The upper row wins. */
static void fill(struct cell *cell, const struct row *row, double value)
{
  const struct row *held = &rows[cell->row];
  if (cell->count > 0 && row > held && !shares(row, held))
    return;
  if (cell->count == 0 || !shares(row, held))
    *cell = (struct cell){0, 0, (unsigned short)(row - rows)};
  switch (row->how) {
  case HOW_LAST:
  case HOW_MASK: cell->sum = value; break;
  case HOW_SUM:
  case HOW_MEAN: cell->sum += value; break;
  case HOW_MAX: cell->sum = cell->count == 0 ? value : fmax(cell->sum, value); break;
  case HOW_BITS:
    if (value > 0)
      cell->sum = (double)((uint64_t)cell->sum | (uint64_t)row->factor);
    break;
  }
  cell->count++;
}

static double cell_value(const struct cell *cell)
{
  if (cell->count == 0)
    return (double)NAN;
  return rows[cell->row].how == HOW_MEAN ? cell->sum / cell->count : cell->sum;
}

/* In its unit and within its bounds. Flags are checked as they are. */
static bool convert(double *value, struct reading *reading, const struct row *row, const struct quantity *quantity,
                    double raw)
{
  char text[120];
  *value = row->how == HOW_BITS ? raw : raw * row->factor;
  if (row->how == HOW_BITS || (*value >= quantity->min && *value <= quantity->max))
    return isfinite(*value);
  reading->observation.out_of_range_count++;
  (void)snprintf(text, sizeof text, "%s of %s is outside %g to %g: taken for unknown", quantity->name, row->name,
                 quantity->min, quantity->max);
  note(reading, 0, text);
  return false;
}

/* Of a card in parts AMD reports power, clocks and activity on part 0; the others show 0. Their memory is their own. */
static bool is_other_part(const struct row *row, const struct exposition_sample *sample)
{
  const struct exposition_text *part;
  if (row->exporter != EXPORTER_AMD || (row->quantity >= GPU_memory_used_gib && row->quantity <= GPU_memory_total_gib))
    return false;
  part = first_label(sample, "gpu_partition_id");
  return part != NULL && !exposition_is(*part, "0");
}

static bool take_gpu(struct reading *reading, const struct row *row, const struct exposition_sample *sample)
{
  const size_t at = find_device(reading, sample, row->exporter);
  double value;
  if (at == SIZE_MAX)
    return false;
  describe(&reading->observation.gpus[at], sample);
  if (!is_other_part(row, sample) && convert(&value, reading, row, &gpu_quantities[row->quantity], sample->value))
    fill(&reading->devices[at].cells[row->quantity], row, value);
  return true;
}

static bool is_other_rank(const struct exposition_sample *sample)
{
  const struct exposition_text *rank = first_label(sample, "tp_rank");
  return rank != NULL && !exposition_is(*rank, "0");
}

/* Of two metrics for one histogram the upper row's is kept; series that came before are dropped. */
static bool keeps_histogram(struct reading *reading, const struct row *row)
{
  unsigned short *held = &reading->histogram_rows[row->quantity];
  const struct row *first = row;
  while (first > rows && strcmp(first[-1].name, row->name) == 0)
    first--;
  if (*held != 0 && &rows[*held - 1] < first)
    return false;
  if (*held == 0 || &rows[*held - 1] > first)
    buckets_init(&reading->observation.engine.histograms[row->quantity]);
  *held = (unsigned short)(first - rows + 1);
  return true;
}

static void take_histogram(struct reading *reading, const struct row *row, const struct exposition_sample *sample)
{
  struct buckets *buckets = &reading->observation.engine.histograms[row->quantity];
  const struct exposition_text *le = find_label(sample, "le", 2);
  double upper;
  if (row->target == TARGET_SUM) {
    buckets->sum = (isnan(buckets->sum) ? 0 : buckets->sum) + sample->value * row->factor;
    return;
  }
  if (le == NULL || !exposition_number(&upper, *le))
    return;
  if (!buckets_add(buckets, upper * row->factor, sample->value))
    note(reading, 0, "a histogram has too many buckets, or counts that are none");
}

static bool take_engine(struct reading *reading, const struct row *row, const struct exposition_sample *sample)
{
  struct observed_engine *engine = &reading->observation.engine;
  double value;
  if (is_other_rank(sample))
    return true;
  engine->is_seen = true;
  copy_label(engine->model, sizeof engine->model, sample, "model_name,model");
  if (row->target == TARGET_ENGINE) {
    if (convert(&value, reading, row, &engine_quantities[row->quantity], sample->value))
      fill(&reading->engine[row->quantity], row, value);
  } else if (keeps_histogram(reading, row)) {
    take_histogram(reading, row, sample);
  }
  return true;
}

static bool take_info(struct reading *reading, const struct row *row, const struct exposition_sample *sample)
{
  const size_t at = find_device(reading, sample, row->exporter);
  char index[24] = "";
  if (at == SIZE_MAX)
    return false;
  describe(&reading->observation.gpus[at], sample);
  copy_label(index, sizeof index, sample, "index");
  if (index[0] != '\0')
    make_id(&reading->observation.gpus[at], index, "");
  return true;
}

static bool take_row(struct reading *reading, const struct row *row, const struct exposition_sample *sample)
{
  switch (row->target) {
  case TARGET_GPU: return take_gpu(reading, row, sample);
  case TARGET_INFO: return take_info(reading, row, sample);
  case TARGET_ENGINE:
  case TARGET_BUCKETS:
  case TARGET_SUM: return take_engine(reading, row, sample);
  }
  return false;
}

static void take_sample(void *cls, const struct exposition_sample *sample)
{
  struct reading *reading = cls;
  const size_t first = find_row(reading->exporters, sample->name);
  reading->observation.sample_count++;
  for (size_t i = first;
       i < ROWS && strcmp(rows[i].name, rows[first].name) == 0 && strcmp(rows[i].suffix, rows[first].suffix) == 0;
       i++) {
    if (reading->only != 0 && reading->only != (int)rows[i].exporter + 1)
      continue;
    if (!meets(sample, rows[i].condition))
      continue;
    if (take_row(reading, &rows[i], sample)) {
      reading->is_seen[rows[i].exporter] = true;
      reading->observation.recognised_count++;
    }
    return;
  }
}

static void take_skipped(void *cls, uint64_t line, const char *reason)
{
  struct reading *reading = cls;
  reading->observation.skipped_count++;
  note(reading, line, reason);
}

struct exposition_sink reading_sink(struct reading *reading)
{
  return (struct exposition_sink){take_sample, take_skipped, reading};
}

/* ---- The end of a page ---- */

/* used + free + reserved is all of it. Reserved is absent from older exporters, and then free does not tell the total. */
static void derive_memory(double *quantities)
{
  const double parts =
      quantities[GPU_memory_used_gib] + quantities[GPU_memory_free_gib] + quantities[GPU_memory_reserved_gib];
  if (isnan(quantities[GPU_memory_total_gib]))
    quantities[GPU_memory_total_gib] = parts;
  if (isnan(quantities[GPU_memory_free_gib]) && quantities[GPU_memory_total_gib] >= quantities[GPU_memory_used_gib])
    quantities[GPU_memory_free_gib] = quantities[GPU_memory_total_gib] - quantities[GPU_memory_used_gib];
}

static void name_exporters(struct reading *reading)
{
  char *to = reading->observation.exporters;
  const size_t size = sizeof reading->observation.exporters;
  size_t used = 0;
  for (size_t i = 0; i < EXPORTERS; i++)
    if (reading->is_seen[i] && used + strlen(observation_exporters[i + 1]) + 2 < size)
      used += (size_t)snprintf(to + used, size - used, "%s%s", used > 0 ? "," : "", observation_exporters[i + 1]);
}

enum err reading_finish(const struct observation **out, struct reading *reading, struct error *e)
{
  struct observation *seen = &reading->observation;
  if (reading->is_out_of_memory)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the devices of a page");
  for (size_t i = 0; i < seen->gpu_count; i++) {
    for (size_t q = 0; q < GPU_QUANTITIES; q++)
      seen->gpus[i].quantities[q] = cell_value(&reading->devices[i].cells[q]);
    derive_memory(seen->gpus[i].quantities);
  }
  for (size_t q = 0; q < ENGINE_QUANTITIES; q++)
    seen->engine.quantities[q] = cell_value(&reading->engine[q]);
  if (reading->has_too_many_devices)
    note(reading, 0, "more devices than one page may have: the rest is left out");
  name_exporters(reading);
  *out = seen;
  return ERR_OK;
}
