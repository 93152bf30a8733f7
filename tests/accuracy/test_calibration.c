/* What calibration is worth: half of the measured runs of every hardware × model group of the open table are fitted, as
   measurements of one profile, model and stack would be (the stack being the row's runtime), and the other half is predicted. */
#include "api/api.h"
#include "api/csv.h"
#include "core/calibration.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 2400
#define FITS_MAX 80
#define GROUP_ROWS_MIN 8
#define RUNTIMES_MAX 8

struct row {
  char id[32], hardware[65], model[129], runtime[32];
  const char *line; /* of the table */
  enum band_class class;
  struct calibration_observation observation;
  double first_predicted; /* with the shipped constants */
  bool is_fitted;         /* in the half that is fitted */
  bool is_wanted;         /* its group is large enough */
  size_t fit;
};
struct fit {
  const struct row *of; /* any of its rows */
  struct calibration calibration;
};

static struct row rows[ROWS_MAX];
static size_t row_count, fit_count, runtime_count;
static struct fit fits[FITS_MAX];
static const char *header, *runtimes[RUNTIMES_MAX];

static void setup(void)
{
}

static void teardown(void)
{
  scratch_release();
}

static struct row *row_of(const char *id)
{
  for (size_t i = 0; i < row_count; i++)
    if (strcmp(rows[i].id, id) == 0)
      return &rows[i];
  return NULL;
}

static void copy_field(char *to, size_t size, const struct csv *csv, size_t column)
{
  const char *text = csv_field(csv, column);
  ck_assert_uint_lt(strlen(text), size);
  memcpy(to, text, strlen(text) + 1);
}

/* Mean and median TPOT and ITL of every load. */
static bool is_tpot(const char *metric)
{
  return (strncmp(metric, "tpot_", 5) == 0 || strncmp(metric, "itl_", 4) == 0) && strstr(metric, "_p9") == NULL;
}

static size_t runtime_index(const char *runtime)
{
  size_t i;
  for (i = 0; i < runtime_count && strcmp(runtimes[i], runtime) != 0; i++)
    continue;
  ck_assert_uint_lt(i, RUNTIMES_MAX);
  if (i == runtime_count)
    runtimes[runtime_count++] = scratch_printf("%s", runtime);
  return i;
}

static void read_table(void)
{
  char *text = scratch_read_file(suite_source_path("tests/accuracy/measured_open.csv")), *line, *rest = NULL;
  struct error e = {.code = ERR_OK};
  struct csv csv;
  size_t id, hardware, model, metric, runtime;
  header = strtok_r(text, "\n", &rest);
  csv_init(&csv, header, strlen(header));
  ck_assert(csv_next(&csv, &e));
  id = csv_column(&csv, "id");
  hardware = csv_column(&csv, "hw");
  model = csv_column(&csv, "model");
  metric = csv_column(&csv, "metric");
  runtime = csv_column(&csv, "runtime");
  csv_fini(&csv);
  while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
    struct row *row = &rows[row_count];
    csv_init(&csv, line, strlen(line));
    ck_assert(csv_next(&csv, &e));
    if (is_tpot(csv_field(&csv, metric))) {
      ck_assert_uint_lt(row_count, ROWS_MAX);
      copy_field(row->id, sizeof row->id, &csv, id);
      copy_field(row->hardware, sizeof row->hardware, &csv, hardware);
      copy_field(row->model, sizeof row->model, &csv, model);
      copy_field(row->runtime, sizeof row->runtime, &csv, runtime);
      (void)runtime_index(row->runtime);
      row->line = line;
      row_count++;
    }
    csv_fini(&csv);
  }
}

static bool is_same_group(const struct row *a, const struct row *b)
{
  return strcmp(a->hardware, b->hardware) == 0 && strcmp(a->model, b->model) == 0;
}

static bool is_same_fit(const struct row *a, const struct row *b)
{
  return is_same_group(a, b) && strcmp(a->runtime, b->runtime) == 0;
}

/* Every second row of a group is fitted, in the order of the table; `parity` says which. */
static void divide(size_t parity)
{
  fit_count = 0;
  for (size_t i = 0; i < row_count; i++) {
    size_t size = 0, place = 0, fit;
    for (size_t k = 0; k < row_count; k++)
      if (is_same_group(&rows[i], &rows[k])) {
        size++;
        place += k < i;
      }
    rows[i].is_wanted = size >= GROUP_ROWS_MIN;
    rows[i].is_fitted = place % 2 == parity;
    for (fit = 0; fit < fit_count && !is_same_fit(fits[fit].of, &rows[i]); fit++)
      continue;
    if (fit == fit_count && rows[i].is_wanted) {
      ck_assert_uint_lt(fit_count, FITS_MAX);
      fits[fit_count++] = (struct fit){&rows[i], calibration_none()};
    }
    rows[i].fit = fit;
  }
}

/* {"folds": [...]}: the constants of every fit of one runtime, as `fitd accuracy --constants` takes them. */
static char *parameters_of(const char *runtime, int moved)
{
  json_t *folds = json_array(), *document;
  for (size_t i = 0; i < fit_count; i++) {
    const struct calibration calibration =
        moved < 0 ? fits[i].calibration : calibration_moved(&fits[i].calibration, (enum calibration_factor)moved);
    const struct step_constants constants = calibration_constants(&calibration, &step_constants_default);
    json_t *members = json_object();
    if (strcmp(fits[i].of->runtime, runtime) == 0) {
#define STEP(name, unit, value, prior, spread, sentence) json_object_set_new(members, #name, json_real(constants.name));
#include "core/step.def"
#undef STEP
      json_array_append_new(folds, json_pack("{s:s, s:s, s:O}", "hw", fits[i].of->hardware, "model", fits[i].of->model,
                                             "constants", members));
    }
    json_decref(members);
  }
  document = scratch_json_steal(json_pack("{s:o}", "folds", folds));
  return scratch_printf("%s", doc_dump(document));
}

static char *table_of(const char *runtime)
{
  static char text[1 << 20];
  size_t length = (size_t)snprintf(text, sizeof text, "%s\n", header);
  for (size_t i = 0; i < row_count; i++)
    if (rows[i].is_wanted && strcmp(rows[i].runtime, runtime) == 0) {
      length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", rows[i].line);
      ck_assert_uint_lt(length, sizeof text);
    }
  return text;
}

static enum band_class class_named(const char *name)
{
  int class = 0;
  while (strcmp(band_class_name((enum band_class) class), name) != 0)
    ck_assert_int_lt(++class, BAND_CLASS_COUNT);
  return (enum band_class) class;
}

/* Predicts the rows of one runtime; moved < 0: with the factors as they stand. */
static void predict(const char *runtime, int moved)
{
  const char *table = table_of(runtime);
  struct api_accuracy request = {
      .csv = table, .csv_len = strlen(table), .parameters = parameters_of(runtime, moved), .form = API_ACCURACY_ROWS};
  struct error e = {.code = ERR_OK};
  char *answer = NULL;
  struct csv csv;
  ck_assert_msg(api_accuracy(&answer, &request, &e) == ERR_OK, "%s", e.message);
  csv_init(&csv, answer, strlen(answer));
  ck_assert(csv_next(&csv, &e)); /* id,metric,load,hw,model,measured,predicted,low,high,class */
  while (csv_next(&csv, &e)) {
    struct row *row = row_of(csv_field(&csv, 0));
    const double predicted = strtod(csv_field(&csv, 6), NULL);
    row->observation.metric = BAND_TPOT;
    row->observation.measured = strtod(csv_field(&csv, 5), NULL);
    row->class = class_named(csv_field(&csv, 9));
    if (moved < 0)
      row->observation.predicted = predicted;
    else
      row->observation.moved[moved] = predicted;
  }
  csv_fini(&csv);
  free(answer);
}

static void predict_all(int moved)
{
  for (size_t i = 0; i < runtime_count; i++)
    predict(runtimes[i], moved);
}

static size_t collect(struct calibration_observation *to, size_t fit)
{
  size_t count = 0;
  for (size_t i = 0; i < row_count; i++)
    if (rows[i].is_wanted && rows[i].fit == fit && rows[i].is_fitted)
      to[count++] = rows[i].observation;
  return count;
}

static void calibrate(void)
{
  static struct calibration_observation observations[ROWS_MAX];
  for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
    for (int moved = -1; moved < CALIBRATION_FACTOR_COUNT; moved++)
      predict_all(moved);
    for (size_t i = 0; round == 0 && i < row_count; i++)
      rows[i].first_predicted = rows[i].observation.predicted;
    for (size_t fit = 0; fit < fit_count; fit++)
      calibration_improve(&fits[fit].calibration, observations, collect(observations, fit));
  }
  predict_all(-1);
  for (size_t fit = 0; fit < fit_count; fit++)
    calibration_narrow(&fits[fit].calibration, observations, collect(observations, fit), fits[fit].of->class);
}

static int compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
  ck_assert_uint_gt(count, 0);
  qsort(values, count, sizeof *values, compare);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Errors of the rows that were not fitted, of one group or (NULL) of all. */
static size_t errors_of(double *to, const struct row *group, bool is_before)
{
  size_t count = 0;
  for (size_t i = 0; i < row_count; i++)
    if (rows[i].is_wanted && !rows[i].is_fitted && (group == NULL || is_same_group(group, &rows[i])))
      to[count++] = fabs(
          (is_before ? rows[i].first_predicted : rows[i].observation.predicted) / rows[i].observation.measured - 1);
  return count;
}

static size_t group_medians(double *to, bool is_before)
{
  static double errors[ROWS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < fit_count; i++) {
    bool is_first = true;
    for (size_t k = 0; k < i; k++)
      is_first = is_first && !is_same_group(fits[k].of, fits[i].of);
    if (is_first)
      to[count++] = median(errors, errors_of(errors, fits[i].of, is_before));
  }
  return count;
}

/* Rows of the other half inside the narrowed band. */
static double coverage(double *mean_scale)
{
  double inside = 0, all = 0, scale = 0;
  for (size_t i = 0; i < row_count; i++)
    if (rows[i].is_wanted && !rows[i].is_fitted) {
      const struct calibration *c = &fits[rows[i].fit].calibration;
      const struct band band = calibration_band(c, rows[i].class, BAND_TPOT);
      const double ratio = rows[i].observation.measured / rows[i].observation.predicted;
      inside += ratio >= band.low_ratio && ratio <= band.high_ratio;
      scale += c->band_scale[BAND_TPOT];
      all++;
    }
  *mean_scale = scale / all;
  return inside / all;
}

START_TEST(the_other_half_is_predicted_within_six_percent)
{
  static double errors[ROWS_MAX], groups[FITS_MAX];
  const size_t parity = (size_t)_i;
  double before, after, groups_before, groups_after, covered, scale;
  size_t group_count;
  row_count = runtime_count = 0;
  read_table();
  divide(parity);
  calibrate();
  before = median(errors, errors_of(errors, NULL, true));
  after = median(errors, errors_of(errors, NULL, false));
  group_count = group_medians(groups, true);
  groups_before = median(groups, group_count);
  group_count = group_medians(groups, false);
  groups_after = median(groups, group_count);
  covered = coverage(&scale);
  printf(
      "calibration, half %zu: %zu groups, %zu fits; TPOT of the other half: rows %.2f %% -> %.2f %%, groups %.2f %% -> "
      "%.2f %%; %.1f %% inside the band, which is %.2f as wide\n",
      parity, group_count, fit_count, 100 * before, 100 * after, 100 * groups_before, 100 * groups_after, 100 * covered,
      scale);
  ck_assert_uint_ge(group_count, 25);
  ck_assert_double_le(after, 0.06);
  ck_assert_double_le(groups_after, 0.06);
  ck_assert_double_lt(after, before);
  ck_assert_double_ge(covered, 0.77);
  ck_assert_double_lt(scale, 0.9);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("accuracy/calibration");
  TCase *tcase = suite_case(suite, "calibration", setup, teardown);
  tcase_add_loop_test(tcase, the_other_half_is_predicted_within_six_percent, 0, 2);
  return suite_run(suite);
}
