/* The state of nodes and GPUs under scrapes at a virtual time: health, throttling with its hysteresis, restarts of counters,
   devices that come and go, roll-ups. */
#include "api/live.h"
#include "tests/api/live_fixtures.h"

static const char *state(void)
{
  return doc_text(get("/v1/nodes/n"), "health.state");
}

/* Scrapes every 15 s for so long. */
static void run(double seconds, double clock_mhz, int reasons)
{
  for (double at = 0; at < seconds; at += 15) {
    struct observed_gpu gpu = busy_gpu("0", clock_mhz, reasons);
    pass_s(15);
    observe("n", &gpu, 1, NULL);
  }
}

START_TEST(health_goes_through_its_states)
{
  struct observed_gpu gpu = busy_gpu("0", 1980, 0);
  put_node("n", "");
  ck_assert_str_eq(state(), "pending");
  observe_failure("n", "the name does not resolve");
  ck_assert_str_eq(state(), "down");
  ck_assert_str_eq(doc_text(get("/v1/nodes/n"), "health.last_error"), "the name does not resolve");
  pass_s(15);
  observe("n", &gpu, 1, NULL);
  ck_assert_str_eq(state(), "up");
  ck_assert(doc_is_null(get("/v1/nodes/n"), "health.last_error"));
  pass_s(15);
  observe_failure("n", "no answer within 5 s");
  ck_assert_str_eq(state(), "down");
  ck_assert_int_eq(doc_integer(get("/v1/nodes/n"), "health.consecutive_failures"), 1);
  pass_s(46); /* 61 s after the last page: three intervals are 45 s, the least is a minute */
  ck_assert_str_eq(state(), "stale");
  ck_assert(json_is_false(doc_at(get("/v1/nodes/n"), "gpus.0.fresh")));
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.throttled"));
}
END_TEST

START_TEST(a_long_interval_is_stale_later)
{
  struct observed_gpu gpu = busy_gpu("0", 1980, 0);
  put_node("n", ", \"interval_s\": 60");
  observe("n", &gpu, 1, NULL);
  pass_s(180);
  ck_assert_str_eq(state(), "up");
  pass_s(1);
  ck_assert_str_eq(state(), "stale");
}
END_TEST

START_TEST(an_empty_page_is_no_data)
{
  const struct observation nothing = {.gpus = NULL};
  const struct api_scrape scrape = {.node = "n", .at_ms = fake.now_ms, .observation = &nothing};
  put_node("n", "");
  api_observe(fake.api, &scrape);
  ck_assert_str_eq(state(), "no_data");
}
END_TEST

static bool is_throttled(void)
{
  return json_is_true(doc_at(get("/v1/nodes/n"), "gpus.0.throttled"));
}

/* Held down for 90 s: known after 60, over only after 120 s without. */
START_TEST(throttling_has_hysteresis)
{
  put_node("n", "");
  run(60, 1980, 0);
  ck_assert(!is_throttled());
  run(60, 1200, THROTTLE_SW_THERMAL); /* 45 s since the first of them */
  ck_assert(!is_throttled());
  run(15, 1200, THROTTLE_SW_THERMAL);
  ck_assert(is_throttled());
  ck_assert_str_eq(doc_text(get("/v1/nodes/n"), "gpus.0.throttle_reasons.0"), "sw_thermal");
  run(15, 1200, THROTTLE_SW_THERMAL);
  run(120, 1980, 0); /* 105 s since the first good one */
  ck_assert(is_throttled());
  run(15, 1980, 0);
  ck_assert(!is_throttled());
}
END_TEST

START_TEST(flicker_raises_nothing)
{
  put_node("n", "");
  for (int i = 0; i < 20; i++)
    run(15, 1200, i % 3 == 0 ? 0 : THROTTLE_POWER_CAP);
  ck_assert(!is_throttled());
}
END_TEST

START_TEST(idle_and_set_clocks_are_no_fault)
{
  put_node("n", "");
  run(120, 1200, THROTTLE_IDLE | THROTTLE_CLOCKS_SETTING);
  ck_assert(!is_throttled());
}
END_TEST

START_TEST(unknown_reasons_are_unknown)
{
  struct observed_gpu gpu = blank_gpu("0");
  put_node("n", "");
  observe("n", &gpu, 1, NULL);
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.throttled"));
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.throttle_reasons"));
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.sustained_clock_fraction"));
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.quantities.power_w"));
}
END_TEST

/* Without reasons the clock of a busy GPU tells: 1200 of 1980 MHz is below 85 %. */
START_TEST(a_low_clock_tells_without_reasons)
{
  put_node("n", "");
  run(90, 1200, -1);
  ck_assert(is_throttled());
}
END_TEST

/* Mean of 1980 and 1386 while busy over 1980: 0.85. Idle scrapes at 345 MHz do not count. */
START_TEST(sustained_clock_is_of_busy_time)
{
  struct observed_gpu idle = busy_gpu("0", 345, 0);
  idle.quantities[GPU_engine_active_ratio] = 0.01;
  put_node("n", "");
  run(60, 1980, 0);
  run(60, 1386, 0);
  observe("n", &idle, 1, NULL);
  ck_assert_double_eq_tol(doc_number(get("/v1/nodes/n"), "gpus.0.sustained_clock_fraction"), 0.85, 1e-9);
  run(420, 1386, 0); /* the window is over: 0.7 */
  ck_assert_double_eq_tol(doc_number(get("/v1/nodes/n"), "gpus.0.sustained_clock_fraction"), 0.7, 1e-9);
}
END_TEST

START_TEST(devices_come_and_go)
{
  struct observed_gpu before[] = {busy_gpu("0", 1980, 0), busy_gpu("1", 1980, 0)};
  struct observed_gpu after[] = {busy_gpu("0", 1980, 0), busy_gpu("1.2", 1980, 0), busy_gpu("1.7", 1980, 0)};
  const json_t *node;
  put_node("n", "");
  observe("n", before, 2, NULL);
  pass_s(15);
  observe("n", after, 3, NULL); /* card 1 is in parts now */
  node = get("/v1/nodes/n");
  ck_assert_uint_eq(json_array_size(doc_at(node, "gpus")), 4);
  ck_assert(json_is_false(doc_at(node, "gpus.1.fresh")));
  ck_assert(json_is_true(doc_at(node, "gpus.3.fresh")));
  pass_s(3600);
  observe("n", after, 3, NULL);
  ck_assert_uint_eq(json_array_size(doc_at(get("/v1/nodes/n"), "gpus")), 3);
}
END_TEST

START_TEST(xid_is_remembered)
{
  struct observed_gpu gpu = busy_gpu("0", 1980, 0);
  put_node("n", "");
  gpu.quantities[GPU_xid] = 0;
  observe("n", &gpu, 1, NULL);
  ck_assert(doc_is_null(get("/v1/nodes/n"), "gpus.0.last_xid"));
  pass_s(15);
  gpu.quantities[GPU_xid] = 79;
  observe("n", &gpu, 1, NULL);
  pass_s(15);
  observe("n", &gpu, 1, NULL); /* sticky: the same event */
  ck_assert_int_eq(doc_integer(get("/v1/nodes/n"), "gpus.0.last_xid"), 79);
  ck_assert_str_eq(doc_text(get("/v1/nodes/n"), "gpus.0.last_xid_at"), "2026-11-30T12:00:15.000Z");
}
END_TEST

/* ---- Roll-ups ---- */

static const json_t *series(const char *query)
{
  return ask("GET", "/v1/nodes/n/gpus/0/series", query, NULL, 200);
}

/* Energy 1000, 1100, 50 (restart), 80 J: grown by 100, 50 and 30. */
START_TEST(minutes_and_hours)
{
  static const double energies[] = {1000, 1100, 50, 80};
  const json_t *answer;
  put_node("n", "");
  for (int i = 0; i < 4; i++) {
    struct observed_gpu gpu = busy_gpu("0", 1500 + 100 * i, i == 2 ? THROTTLE_POWER_CAP : 0);
    gpu.quantities[GPU_energy_j] = energies[i];
    observe("n", &gpu, 1, NULL);
    pass_s(15);
  }
  store_observed();
  answer = series("metric=sm_clock_mhz,energy_j,throttle_reasons,power_w");
  ck_assert_int_eq(doc_integer(answer, "step_s"), 60);
  ck_assert_str_eq(doc_text(answer, "series.0.points.0.time"), "2026-11-30T12:00:00.000Z");
  ck_assert_double_eq(doc_number(answer, "series.0.points.0.value"), 1650);
  ck_assert_double_eq(doc_number(answer, "series.0.points.0.min"), 1500);
  ck_assert_double_eq(doc_number(answer, "series.0.points.0.max"), 1800);
  ck_assert_int_eq(doc_integer(answer, "series.0.points.0.count"), 4);
  ck_assert_double_eq(doc_number(answer, "series.1.points.0.value"), 180);
  ck_assert_str_eq(doc_text(answer, "series.2.points.0.value.0"), "power_cap");
  ck_assert_uint_eq(json_array_size(doc_array(answer, "series.3.points")), 0); /* never known */
  pass_s(3600);
  store_observed();
  answer = series("metric=sm_clock_mhz,energy_j&step=1h");
  ck_assert_int_eq(doc_integer(answer, "step_s"), 3600);
  ck_assert_double_eq(doc_number(answer, "series.0.points.0.value"), 1650);
  ck_assert_double_eq(doc_number(answer, "series.1.points.0.value"), 180);
  pass_s(3 * 86400.0);
  store_observed();
  ck_assert_uint_eq(
      json_array_size(doc_array(series("metric=sm_clock_mhz&since=2026-11-30&step=1m"), "series.0.points")), 0);
  ck_assert_uint_eq(
      json_array_size(doc_array(series("metric=sm_clock_mhz&since=2026-11-30&step=1h"), "series.0.points")), 1);
}
END_TEST

START_TEST(steps_are_stored_once)
{
  put_node("n", "");
  run(300, 1980, 0);
  store_observed();
  store_observed();
  ck_assert_uint_eq(json_array_size(doc_array(series("metric=sm_clock_mhz"), "series.0.points")), 5);
}
END_TEST

START_TEST(series_refuses_what_it_does_not_know)
{
  const json_t *problem;
  put_node("n", "");
  problem = ask("GET", "/v1/nodes/n/gpus/0/series", "metric=sm_clock&since=yesterday&step=2m", NULL, 422);
  ck_assert_str_eq(doc_text(doc_fault(problem, "?metric"), "suggestion"), "sm_clock_mhz");
  ck_assert_ptr_nonnull(doc_fault(problem, "?since"));
  ck_assert_ptr_nonnull(doc_fault(problem, "?step"));
  (void)ask("GET", "/v1/nodes/n/gpus/0/series", NULL, NULL, 422);
  (void)ask("GET", "/v1/nodes/m/gpus/0/series", "metric=sm_clock_mhz", NULL, 404);
}
END_TEST

/* ---- Engines ---- */

static void see(double count, double sum_s, double running)
{
  struct observed_engine engine;
  blank_engine(&engine);
  engine.quantities[ENGINE_requests_running] = running;
  engine.quantities[ENGINE_requests_succeeded] = count;
  (void)buckets_add(&engine.histograms[HISTOGRAM_ttft_ms], 250, count / 2);
  (void)buckets_add(&engine.histograms[HISTOGRAM_ttft_ms], 500, count);
  (void)buckets_add(&engine.histograms[HISTOGRAM_ttft_ms], (double)INFINITY, count);
  engine.histograms[HISTOGRAM_ttft_ms].sum = 1e3 * sum_s;
  observe("n", NULL, 0, &engine);
}

/* 1000 requests before anybody looked do not count; 100 since do, then 10 after a restart. */
START_TEST(engines_are_seen_by_what_grew)
{
  const json_t *node;
  put_node("n", ", \"workload\": \"chat\"");
  see(1000, 900, 8);
  pass_s(15);
  see(1100, 930, 12);
  node = get("/v1/nodes/n");
  ck_assert_double_eq(doc_number(node, "engine.quantities.requests_running"), 12);
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.count"), 100);
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.mean"), 300);
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.p50.at_most"), 250);
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.p90.above"), 250);
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.p90.at_most"), 500);
  ck_assert(doc_is_null(node, "engine.observed.itl_ms"));
  pass_s(15);
  see(10, 3, 1);
  node = get("/v1/nodes/n");
  ck_assert_double_eq(doc_number(node, "engine.observed.ttft_ms.count"), 110);
  ck_assert_int_eq(doc_integer(node, "health.engine_restarts"), 1);
}
END_TEST

START_TEST(engine_steps_are_stored)
{
  const struct store_sample_filter filter = {"n", NULL, LIVE_ENGINE_STEP_S, 0, INT64_MAX, 10};
  struct store_engine_samples list;
  struct live_engine_step step = {.time_ms = 0};
  struct error e;
  json_t *document;
  put_node("n", "");
  see(0, 0, 0);
  pass_s(15);
  see(40, 12, 4);
  pass_s(300);
  store_observed();
  ck_assert_int_eq(store_engine_sample_list(fake.store, &list, &filter, &e), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  document = doc_parse(list.rows[0].document);
  engine_step_read(&step, document);
  ck_assert_double_eq(buckets_total(&step.histograms[HISTOGRAM_ttft_ms]), 40);
  ck_assert(isinf(step.histograms[HISTOGRAM_ttft_ms].upper[2]));
  ck_assert_double_eq(step.histograms[HISTOGRAM_ttft_ms].sum, 12000);
  ck_assert_double_eq(step.gauge_sum[ENGINE_requests_succeeded], 40);
  store_engine_samples_fini(&list);
}
END_TEST

/* ---- Records ---- */

START_TEST(records_read_back)
{
  unsigned char bytes[ROLL_BYTES_MAX];
  struct roll roll, back = {.time_ms = 7};
  double now[GPU_QUANTITIES];
  size_t length;
  for (size_t q = 0; q < GPU_QUANTITIES; q++)
    now[q] = q % 3 == 0 ? (double)NAN : 1.5 * (double)q;
  roll_init(&roll, 7);
  roll_add(&roll, now, now);
  roll_add(&roll, now, now);
  length = roll_encode(bytes, &roll);
  ck_assert(roll_decode(&back, bytes, length));
  ck_assert_int_eq(memcmp(&roll, &back, sizeof roll), 0);
  for (size_t cut = 0; cut < length; cut++)
    if ((cut < 8 || (cut - 8) % 28 != 0))
      ck_assert(!roll_decode(&back, bytes, cut));
  bytes[0] = 99;
  ck_assert(!roll_decode(&back, bytes, length));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("live");
  TCase *states = suite_case(suite, "states", setup, teardown);
  TCase *rolls = suite_case(suite, "rolls", setup, teardown);
  tcase_add_test(states, health_goes_through_its_states);
  tcase_add_test(states, a_long_interval_is_stale_later);
  tcase_add_test(states, an_empty_page_is_no_data);
  tcase_add_test(states, throttling_has_hysteresis);
  tcase_add_test(states, flicker_raises_nothing);
  tcase_add_test(states, idle_and_set_clocks_are_no_fault);
  tcase_add_test(states, unknown_reasons_are_unknown);
  tcase_add_test(states, a_low_clock_tells_without_reasons);
  tcase_add_test(states, sustained_clock_is_of_busy_time);
  tcase_add_test(states, devices_come_and_go);
  tcase_add_test(states, xid_is_remembered);
  tcase_add_test(rolls, minutes_and_hours);
  tcase_add_test(rolls, steps_are_stored_once);
  tcase_add_test(rolls, series_refuses_what_it_does_not_know);
  tcase_add_test(rolls, engines_are_seen_by_what_grew);
  tcase_add_test(rolls, engine_steps_are_stored);
  tcase_add_test(rolls, records_read_back);
  return suite_run(suite);
}
