/* Measurements, calibrations and quality results: what goes in comes out, lists filter, nothing is rewritten. */
#include "tests/storage/fixture.h"

static struct store_scorecard card;

static void setup_card(void)
{
  setup();
  card = make_scorecard(T0_MS, 1, "chat", "h100");
  add_scorecard(&card);
}

static struct store_measurement make_measurement(unsigned sequence, const char *stack)
{
  return (struct store_measurement){.id = make_id(T0_MS + sequence, sequence),
                                    .created_at_ms = T0_MS + sequence,
                                    .workload = text("chat"),
                                    .model = text("llama-3.1-70b"),
                                    .profile = text("h100"),
                                    .stack = text(stack),
                                    .scorecard = card.id,
                                    .document = scratch_printf("{\"n\":%u}", sequence)};
}

static enum err insert_measurement(struct store_tx *tx, void *cls, struct error *e)
{
  static const struct store_measured figures[] = {{"latency.tpot_ms.mean", 20, 18},
                                                  {"latency.itl_ms.p99", 40, STORE_FIGURE_ABSENT}};
  return store_measurement_insert(tx, cls, figures, 2, e);
}

START_TEST(test_measurements)
{
  struct store_measurement a = make_measurement(1, ""), b = make_measurement(2, "prod"), got;
  const struct store_history_filter all = {.workload = "chat"}, prod = {.stack = "prod", .profile = "h100"};
  const struct store_page page = {.limit = 10};
  struct store_measurements list;
  ck_assert_err(write_row(insert_measurement, &a), ERR_OK);
  ck_assert_err(write_row(insert_measurement, &b), ERR_OK);
  ck_assert_err(write_row(insert_measurement, &b), ERR_CONFLICT);
  ck_assert_err(store_measurement_get(store, &got, b.id, &error), ERR_OK);
  ck_assert_str_eq(got.stack, "prod");
  ck_assert_str_eq(got.scorecard, card.id);
  ck_assert_str_eq(got.document, "{\"n\":2}");
  store_measurement_fini(&got);
  ck_assert_err(store_measurement_get(store, &got, "none", &error), ERR_NOT_FOUND);
  ck_assert_err(store_measurement_list(store, &list, &all, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_str_eq(list.rows[0].id, b.id);
  store_measurements_fini(&list);
  ck_assert_err(store_measurement_list(store, &list, &prod, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  store_measurements_fini(&list);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM measurement_figure WHERE predicted IS NULL"), 2);
  b.id = make_id(T0_MS + 9, 9);
  b.created_at_ms = T0_MS + 9;
  b.scorecard = text("nothing");
  ck_assert_err(write_row(insert_measurement, &b), ERR_CONFLICT);
}
END_TEST

START_TEST(test_observed_series)
{
  struct store_measurement a = make_measurement(1, ""), b = make_measurement(2, "prod");
  struct store_series_query query = {.workload = "chat",
                                     .path = "latency.tpot_ms.mean",
                                     .is_observed = true,
                                     .by = STORE_BY_STACK,
                                     .bucket_ms = 86400000,
                                     .until_ms = T0_MS * 2,
                                     .points_max = 10};
  struct store_series_list list;
  ck_assert_err(write_row(insert_measurement, &a), ERR_OK);
  ck_assert_err(write_row(insert_measurement, &b), ERR_OK);
  ck_assert_err(store_series_list(store, &list, &query, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_str_eq(list.rows[1].by, "prod");
  ck_assert_double_eq_tol(list.rows[1].points[0].mean, 20, 1e-12);
  store_series_list_fini(&list);
}
END_TEST

static enum err insert_calibration(struct store_tx *tx, void *row, struct error *e)
{
  return store_calibration_insert(tx, row, e);
}

static enum err retire(struct store_tx *tx, void *id, struct error *e)
{
  return store_calibration_retire(tx, id, T0_MS + 50, e);
}

START_TEST(test_calibrations)
{
  struct store_calibration row = {.id = make_id(T0_MS, 3),
                                  .created_at_ms = T0_MS,
                                  .profile = text("h100"),
                                  .model = text(""),
                                  .stack = text("prod"),
                                  .document = text("{}")},
                           got;
  const struct store_history_filter filter = {.profile = "h100"};
  const struct store_page page = {.limit = 10};
  const uint64_t version = store_calibration_version(store);
  struct store_calibrations list;
  ck_assert_err(write_row(insert_calibration, &row), ERR_OK);
  ck_assert_uint_eq(store_calibration_version(store), version + 1);
  ck_assert_err(write_row(insert_calibration, &row), ERR_CONFLICT);
  ck_assert_err(write_row(retire, text("none")), ERR_NOT_FOUND);
  ck_assert_err(store_calibration_list(store, &list, &filter, true, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  store_calibrations_fini(&list);
  ck_assert_err(write_row(retire, row.id), ERR_OK);
  ck_assert_err(write_row(retire, row.id), ERR_CONFLICT);
  ck_assert_uint_eq(store_calibration_version(store), version + 2);
  ck_assert_err(store_calibration_list(store, &list, &filter, true, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 0);
  store_calibrations_fini(&list);
  ck_assert_err(store_calibration_list(store, &list, &filter, false, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  store_calibrations_fini(&list);
  ck_assert_err(store_calibration_get(store, &got, row.id, &error), ERR_OK);
  ck_assert_int_eq(got.retired_at_ms, T0_MS + 50);
  ck_assert_str_eq(got.stack, "prod");
  store_calibration_fini(&got);
}
END_TEST

static enum err insert_quality(struct store_tx *tx, void *row, struct error *e)
{
  return store_quality_insert(tx, row, e);
}

static void add_quality(unsigned sequence, const char *weights, const char *kv_cache, double score)
{
  struct store_quality row = {.id = make_id(T0_MS, sequence),
                              .created_at_ms = T0_MS,
                              .model = text("m"),
                              .weights = text(weights),
                              .kv_cache = text(kv_cache),
                              .stack = text(""),
                              .benchmark = text("ifeval"),
                              .slice = text("de"),
                              .score = score,
                              .document = text("{}")};
  ck_assert_err(write_row(insert_quality, &row), ERR_OK);
}

START_TEST(test_quality)
{
  const struct store_history_filter filter = {.model = "m"};
  const struct store_page page = {.limit = 10};
  struct store_qualities list;
  double score = 0;
  add_quality(1, "fp8", "", 0.7);
  add_quality(2, "fp8", "fp8", 0.8);
  add_quality(3, "bf16", "bf16", 0.9);
  ck_assert_err(store_quality_newest(store, &score, "m", "fp8", "fp8", "ifeval", "de", &error), ERR_OK);
  ck_assert_double_eq_tol(score, 0.8, 1e-12);
  ck_assert_err(store_quality_newest(store, &score, "m", "fp8", "bf16", "ifeval", "de", &error), ERR_OK);
  ck_assert_double_eq_tol(score, 0.7, 1e-12); /* the one that says nothing of the cache */
  ck_assert_err(store_quality_newest(store, &score, "m", "fp8", "fp8", "ifeval", "", &error), ERR_NOT_FOUND);
  ck_assert_err(store_quality_list(store, &list, &filter, "ifeval", &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 3);
  ck_assert_double_eq_tol(list.rows[0].score, 0.9, 1e-12);
  store_qualities_fini(&list);
  ck_assert_err(store_quality_list(store, &list, &filter, "mmlu", &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 0);
  store_qualities_fini(&list);
}
END_TEST

START_TEST(test_nothing_is_rewritten)
{
  static const char *const statements[] = {"UPDATE measurement SET document = '{}'",
                                           "UPDATE quality_result SET score = 1"};
  struct store_measurement a = make_measurement(1, "");
  sqlite3 *db;
  ck_assert_err(write_row(insert_measurement, &a), ERR_OK);
  add_quality(1, "fp8", "", 0.7);
  db = open_raw();
  for (size_t i = 0; i < 2; i++)
    ck_assert_int_eq(sqlite3_exec(db, statements[i], NULL, NULL, NULL), SQLITE_CONSTRAINT);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/measurements");
  TCase *tcase = suite_case(suite, "measurements", setup_card, teardown);
  tcase_add_test(tcase, test_measurements);
  tcase_add_test(tcase, test_observed_series);
  tcase_add_test(tcase, test_calibrations);
  tcase_add_test(tcase, test_quality);
  tcase_add_test(tcase, test_nothing_is_rewritten);
  return suite_run(suite);
}
