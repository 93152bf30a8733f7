/* What is made of the live state: the fleet, evaluations at sustained clocks, the limit to set, the observed traffic, drift.
   One GPU in eight held down at 0.6 of its clock is the story of most of them. */
#include "api/live.h"
#include "tests/api/live_fixtures.h"

#define EIGHT 8

/* Chat on Llama-3.1-70B with interactive targets; `more`: further members. */
static const char *sketch(const char *more)
{
  return scratch_printf(
      "{\"workload\": \"chat\", \"model\": \"llama-3.1-70b\", \"traffic\": {\"input_tokens\": 1024, "
      "\"output_tokens\": 256, \"requests_per_s\": 2}, \"profiles\": [\"h100-sxm-80gb\"], \"serving\": "
      "{\"tensor_parallel\": 8}, \"targets\": {\"ttft_ms\": {\"p99\": 700}}%s}",
      more);
}

static void put_workload(void)
{
  (void)ask("PUT", "/v1/workloads/chat", NULL, scratch_printf("{\"sketch\": %s}", sketch("")), 201);
}

static const json_t *evaluate(const char *more)
{
  return doc_at(ask("POST", "/v1/evaluations", NULL, sketch(more), 201), "scorecards.0");
}

/* Eight busy GPUs every 15 s; the last one at `clock` with `reasons`. */
static void run(double seconds, double clock_mhz, int reasons)
{
  for (double at = 0; at < seconds; at += 15) {
    struct observed_gpu gpus[EIGHT];
    for (int i = 0; i < EIGHT; i++)
      gpus[i] = i < EIGHT - 1 ? busy_gpu(scratch_printf("%d", i), 1980, 0) : busy_gpu("7", clock_mhz, reasons);
    pass_s(15);
    observe("node", gpus, EIGHT, NULL);
  }
}

static const json_t *fleet(const char *path)
{
  return doc_at(get("/v1/fleet"), path);
}

START_TEST(a_profile_is_its_devices)
{
  put_node("node", "");
  run(300, 1188, THROTTLE_SW_THERMAL); /* 0.6 × 1980 */
  ck_assert_str_eq(doc_text(fleet("profiles.0"), "profile"), "h100-sxm-80gb");
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "gpus_fresh"), 8);
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "throttled.gpus"), 1);
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "throttled.thermal"), 1);
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "throttled.power"), 0);
  ck_assert_double_eq_tol(doc_number(fleet("profiles.0"), "sustained_clock_fraction.slowest"), 0.6, 1e-9);
  ck_assert_double_eq_tol(doc_number(fleet("profiles.0"), "sustained_clock_fraction.mean"), 0.95,
                          1e-9); /* (7 + 0.6) / 8 */
  ck_assert_str_eq(doc_text(fleet("profiles.0"), "findings.0.code"), "thermally_throttled");
  ck_assert(doc_is_null(fleet("profiles.0"), "power_w"));
  pass_s(61);
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "gpus_fresh"), 0); /* stale: nothing is said of it */
  ck_assert_int_eq(doc_integer(fleet("profiles.0"), "gpus_seen"), 8);
  ck_assert(doc_is_null(fleet("profiles.0"), "sustained_clock_fraction.slowest"));
}
END_TEST

/* 690 of 700 W drawn: 0.986 of the limit, with the clock at 0.8. */
START_TEST(power_at_the_limit)
{
  put_node("node", "");
  for (int i = 0; i < 10; i++) {
    struct observed_gpu gpu = busy_gpu("0", 1584, THROTTLE_POWER_CAP);
    gpu.quantities[GPU_power_w] = 690;
    gpu.quantities[GPU_power_limit_w] = 700;
    pass_s(15);
    observe("node", &gpu, 1, NULL);
  }
  ck_assert_str_eq(doc_text(fleet("profiles.0"), "findings.0.code"), "power_capped");
  ck_assert_double_eq(doc_number(fleet("profiles.0"), "power_w"), 690);
  ck_assert_double_eq_tol(doc_number(fleet("profiles.0"), "power_of_limit_ratio"), 690.0 / 700, 1e-9);
}
END_TEST

/* The T4 of the sample: 91 % utilisation with 0.6 % of its tensor pipe. */
START_TEST(utilisation_can_mislead)
{
  struct observed_gpu gpu = busy_gpu("0", 1980, 0);
  put_node("node", "");
  gpu.quantities[GPU_utilisation_ratio] = 0.91;
  gpu.quantities[GPU_tensor_active_ratio] = 0.006;
  observe("node", &gpu, 1, NULL);
  ck_assert_uint_eq(json_array_size(doc_array(fleet("profiles.0"), "findings")), 0); /* memory is not known */
  gpu.quantities[GPU_dram_active_ratio] = 0.1;
  pass_s(60);
  observe("node", &gpu, 1, NULL);
  ck_assert_str_eq(doc_text(fleet("profiles.0"), "findings.0.code"), "utilisation_misleads");
}
END_TEST

static bool assumes(const json_t *card, const char *part)
{
  const json_t *all = doc_array(card, "assumptions");
  for (size_t i = 0; i < json_array_size(all); i++)
    if (strstr(json_string_value(json_array_get(all, i)), part) != NULL)
      return true;
  return false;
}

static double ttft(const json_t *card)
{
  return doc_number(card, "latency.ttft_ms.p50");
}

/* Prefill is bound by compute: at 0.6 of the clock it takes longer, at most 1/0.6 as long. */
START_TEST(live_hardware_is_slower_hardware)
{
  const double datasheet = ttft(evaluate(""));
  const json_t *card = evaluate(", \"hardware\": \"live\"");
  ck_assert(assumes(card, "no fresh node of h100-sxm-80gb"));
  ck_assert_double_eq(ttft(card), datasheet);
  put_node("node", "");
  run(120, 1980, 0);
  ck_assert_double_eq(ttft(evaluate(", \"hardware\": \"live\"")), datasheet);
  run(180, 1188, THROTTLE_SW_THERMAL);
  card = evaluate(", \"hardware\": \"live\"");
  ck_assert_double_gt(ttft(card), 1.1 * datasheet);
  ck_assert_double_le(ttft(card), datasheet / 0.6 * 1.001);
  ck_assert(assumes(card, "the slowest of 8 busy ones holds 0.6"));
  ck_assert_double_eq(ttft(evaluate("")), datasheet);
}
END_TEST

/* Days later the figures are still explained with the clock that they were made for. */
START_TEST(live_figures_stay_explained)
{
  const json_t *card, *explained;
  put_node("node", "");
  run(180, 1188, THROTTLE_SW_THERMAL);
  card = evaluate(", \"hardware\": \"live\"");
  ck_assert_double_eq_tol(doc_number(card, "live_hardware.slowest_clock_fraction"), 0.6, 1e-9);
  pass_s(86400);
  explained = get(scratch_printf("/v1/scorecards/%s/explain", doc_text(card, "id")));
  ck_assert_msg(json_array_size(doc_array(explained, "differences")) == 0, "%s",
                doc_brief(doc_at(explained, "differences")));
}
END_TEST

START_TEST(live_power_and_memory)
{
  struct observed_gpu gpu = blank_gpu("0");
  const json_t *before = evaluate(""), *card;
  put_node("node", "");
  gpu.quantities[GPU_power_limit_w] = 350;
  gpu.quantities[GPU_memory_total_gib] = 40;
  observe("node", &gpu, 1, NULL);
  card = evaluate(", \"hardware\": \"live\"");
  ck_assert(assumes(card, "power limit 350 W"));
  ck_assert_double_lt(doc_number(card, "memory.kv_cache_gib"), doc_number(before, "memory.kv_cache_gib") - 20);
}
END_TEST

/* ---- The limit ---- */

static long long limit_now(void)
{
  return doc_integer(get("/v1/workloads/chat/concurrency-limit"), "concurrency_limit");
}

/* On the one replica in use, with nothing left to the search. */
static bool meets(long long concurrency, const char *hardware)
{
  const long long batch =
      doc_integer(ask("GET", "/v1/scorecards", "limit=1", NULL, 200), "items.0.configuration.max_batch");
  const char *serving =
      scratch_printf("{\"tensor_parallel\": 8, \"pipeline_parallel\": 1, \"replicas\": 1, \"max_batch\": %lld}", batch);
  const char *body = scratch_printf(
      "{\"workload\": \"chat\", \"model\": \"llama-3.1-70b\", \"profiles\": [\"h100-sxm-80gb\"], \"traffic\": "
      "{\"input_tokens\": 1024, \"output_tokens\": 256, \"concurrency\": %lld}, \"serving\": %s, \"targets\": "
      "{\"ttft_ms\": {\"p99\": 700}}, \"hardware\": \"%s\"}",
      concurrency, serving, hardware);
  const json_t *card = doc_at(ask("POST", "/v1/evaluations", "store=false", body, 200), "scorecards.0");
  return json_is_true(doc_at(card, "targets.0.met"));
}

/* Held down: a lower limit, which just keeps the target that one more would miss. Over again only after the hysteresis. */
START_TEST(the_limit_follows_the_clocks)
{
  long long rated, held;
  const json_t *answer;
  put_workload();
  (void)evaluate("");
  put_node("node", ", \"workload\": \"chat\"");
  rated = limit_now();
  ck_assert_int_gt(rated, 1);
  run(120, 1980, 0);
  ck_assert_int_eq(limit_now(), rated);
  run(45, 990, THROTTLE_HW_THERMAL); /* not long enough to say so */
  run(195, 990, THROTTLE_HW_THERMAL);
  answer = get("/v1/workloads/chat/concurrency-limit");
  held = doc_integer(answer, "concurrency_limit");
  ck_assert_int_lt(held, rated);
  ck_assert_int_eq(doc_integer(answer, "basis.limit_at_datasheet"), rated);
  ck_assert_int_eq(doc_integer(answer, "basis.gpus_throttled"), 1);
  ck_assert_ptr_nonnull(strstr(doc_text(answer, "why"), "1 of 8 GPUs are held down"));
  ck_assert(meets(held, "live"));
  ck_assert(!meets(held + 1, "live"));
  ck_assert_int_eq(doc_integer(fleet("workloads.0"), "recommended_concurrency_limit.limit"), held);
  run(60, 1980, 0);
  ck_assert_int_lt(limit_now(), rated); /* 60 s are no recovery */
  run(420, 1980, 0);
  ck_assert_int_eq(limit_now(), rated);
}
END_TEST

/* ---- Limits that follow by themselves ---- */

/* What the daemon's schedule does. */
static void refresh(void)
{
  struct api_limits state = {.after = ""};
  bool again = true;
  struct error e;
  while (again)
    ck_assert_msg(api_refresh_limits(fake.api, &state, &again, &e) == ERR_OK, "%s", e.message);
}

static const json_t *last_limit(void)
{
  return fleet("workloads.0.recommended_concurrency_limit");
}

static bool metrics_have(const char *line)
{
  const struct fake_request request = {.method = "GET", .path = "/metrics", .scope = SCOPE_ADMIN};
  struct api_response response;
  bool is_there;
  fake_send(&fake, &request, &response);
  ck_assert_uint_eq(response.status, 200);
  is_there = memmem(response.bytes, response.bytes_len, line, strlen(line)) != NULL;
  api_response_fini(&response);
  return is_there;
}

/* Nobody asks: the limit falls when the GPU has been held down for a minute, stays while it may yet be held down again, and is
   lifted after two minutes without. Figures that did not change are not computed again. */
START_TEST(limits_follow_the_nodes_by_themselves)
{
  long long rated, held;
  const char *computed;
  put_workload();
  put_node("node", ", \"workload\": \"chat\"");
  run(120, 1980, 0);
  refresh(); /* nothing is evaluated yet */
  ck_assert(json_is_null(last_limit()));
  (void)evaluate("");
  refresh();
  rated = doc_integer(last_limit(), "limit");
  ck_assert_int_eq(doc_integer(last_limit(), "limit_at_datasheet"), rated);
  run(45, 990, THROTTLE_HW_THERMAL);
  refresh();
  ck_assert_int_eq(doc_integer(last_limit(), "limit"), rated); /* not long enough to say so */
  run(90, 990, THROTTLE_HW_THERMAL);
  refresh();
  held = doc_integer(last_limit(), "limit");
  computed = doc_text(last_limit(), "computed_at");
  ck_assert_int_lt(held, rated);
  ck_assert(metrics_have(
      scratch_printf("fitd_workload_concurrency_limit{workload=\"chat\",profile=\"h100-sxm-80gb\"} %lld\n", held)));
  ck_assert(metrics_have(scratch_printf(
      "fitd_workload_concurrency_limit_rated{workload=\"chat\",profile=\"h100-sxm-80gb\"} %lld\n", rated)));
  run(90, 1980, 0);
  refresh();
  ck_assert_str_eq(doc_text(last_limit(), "computed_at"), computed);
  ck_assert_int_eq(limit_now(), held); /* who asks gets the same */
  run(45, 1980, 0);
  refresh();
  ck_assert_int_eq(doc_integer(last_limit(), "limit"), rated);
  pass_s(600); /* stale: what is not known changes nothing */
  refresh();
  ck_assert_int_eq(doc_integer(last_limit(), "limit"), rated);
}
END_TEST

/* The agenda of the week says what to set. */
START_TEST(a_review_shows_the_limit)
{
  const json_t *items;
  bool is_found = false;
  put_workload();
  put_node("node", ", \"workload\": \"chat\"");
  (void)evaluate("");
  run(180, 990, THROTTLE_HW_THERMAL);
  refresh();
  (void)ask("POST", "/v1/reviews", NULL, "{\"week\": \"2026-W49\"}", 201);
  items = doc_array(get("/v1/reviews/2026-W49"), "items");
  for (size_t i = 0; i < json_array_size(items); i++) {
    const json_t *item = json_array_get(items, i);
    if (strcmp(doc_text(item, "kind"), "throttled") != 0)
      continue;
    is_found = true;
    ck_assert_int_eq(doc_integer(item, "recommended_concurrency_limit.limit"), doc_integer(last_limit(), "limit"));
    ck_assert_ptr_nonnull(strstr(doc_text(item, "title"), "let in"));
  }
  ck_assert(is_found);
}
END_TEST

/* ---- One throttled GPU in eight ---- */

/* The eight GPUs of the one replica work in step. Answers of many lengths, to clients that wait for 20 s and try twice more;
   what is over a limit is refused. `load`: of traffic, `serving`: what more is set. */
static const char *impatient(const char *profile, const char *load, const char *serving, const char *hardware)
{
  return scratch_printf(
      "{\"workload\": \"chat\", \"model\": \"llama-3.1-70b\", \"profiles\": [\"%s\"], \"traffic\": "
      "{\"input_tokens\": 1024, \"output_tokens\": {\"p50\": 200, \"p99\": 900}, \"sheddable_share\": 1, "
      "\"client\": {\"timeout_ms\": 20000, \"retries\": 2}, %s}, \"serving\": {\"tensor_parallel\": 8, "
      "\"pipeline_parallel\": 1, \"replicas\": 1%s}, \"targets\": {\"ttft_ms\": {\"p99\": 1000}, "
      "\"e2e_ms\": {\"p99\": 20000}}, \"hardware\": \"%s\"}",
      profile, load, serving, hardware);
}

static const json_t *card_of(const char *sketch_body, const char *store)
{
  return doc_at(
      ask("POST", "/v1/evaluations", scratch_printf("store=%s", store), sketch_body, store[0] == 't' ? 201 : 200),
      "scorecards.0");
}

static bool keeps_latency(const json_t *card)
{
  return json_is_true(doc_at(card, "targets.0.met")) && json_is_true(doc_at(card, "targets.1.met"));
}

/* h100-sxm-80gb as its makers describe it, at half its clock. */
static void put_half_clock(void)
{
  json_t *profile = json_copy(get("/v1/profiles/h100-sxm-80gb"));
  char *body;
  ck_assert_int_eq(json_object_set_new(profile, "sustained_clock_fraction", json_real(0.5)), 0);
  ck_assert_int_eq(json_object_set_new(profile, "id", json_string("half-clock")), 0);
  body = json_dumps(profile, 0);
  (void)ask("PUT", "/v1/profiles/half-clock", NULL, body, 201);
  free(body);
  json_decref(profile);
}

static void start_half_throttled(void)
{
  const char *official = impatient("h100-sxm-80gb", "\"requests_per_s\": 9", "", "datasheet");
  (void)ask("PUT", "/v1/workloads/chat", NULL, scratch_printf("{\"sketch\": %s}", official), 201);
  (void)card_of(official, "true");
  put_node("node", ", \"workload\": \"chat\"");
  run(180, 990, THROTTLE_HW_THERMAL);
}

/* What is predicted with one GPU at half its clock is what the same evaluation says of a device that has no more. */
START_TEST(a_throttled_gpu_moves_the_tail_as_simulated)
{
  static const char *const load = "\"requests_per_s\": 6";
  const json_t *full, *live, *half;
  start_half_throttled();
  put_half_clock();
  full = card_of(impatient("h100-sxm-80gb", load, "", "datasheet"), "false");
  live = card_of(impatient("h100-sxm-80gb", load, "", "live"), "false");
  half = card_of(impatient("half-clock", load, "", "datasheet"), "false");
  ck_assert_double_gt(doc_number(live, "latency.e2e_ms.p99"), 1.1 * doc_number(full, "latency.e2e_ms.p99"));
  ck_assert_double_gt(doc_number(live, "latency.ttft_ms.p99"), 1.3 * doc_number(full, "latency.ttft_ms.p99"));
  ck_assert(json_equal(doc_at(live, "latency"), doc_at(half, "latency")));
  ck_assert(json_equal(doc_at(live, "success"), doc_at(half, "success")));
}
END_TEST

/* 9 requests a second, which the full clock carries. At half of it nearly all clients give up; let in no more than recommended,
   and those that are let in keep both targets. */
START_TEST(the_limit_restores_the_target)
{
  static const char *const load = "\"requests_per_s\": 9";
  const json_t *full, *live, *limited;
  start_half_throttled();
  full = card_of(impatient("h100-sxm-80gb", load, "", "datasheet"), "false");
  live = card_of(impatient("h100-sxm-80gb", load, "", "live"), "false");
  limited = card_of(
      impatient("h100-sxm-80gb", load, scratch_printf(", \"concurrency_limit\": %lld", limit_now()), "live"), "false");
  ck_assert(keeps_latency(full));
  ck_assert_double_gt(doc_number(full, "success.rate"), 0.95);
  ck_assert_double_lt(doc_number(live, "success.rate"), 0.1);
  ck_assert(keeps_latency(limited));
  ck_assert_double_lt(doc_number(limited, "success.timed_out"), 0.01);
  ck_assert_double_gt(doc_number(limited, "success.rate"), 0.6);
}
END_TEST

START_TEST(a_limit_needs_an_official_evaluation)
{
  (void)ask("GET", "/v1/workloads/chat/concurrency-limit", NULL, NULL, 404);
  put_workload();
  (void)ask("GET", "/v1/workloads/chat/concurrency-limit", NULL, NULL, 409);
}
END_TEST

/* ---- Engines ---- */

static double requests, tokens_in, tokens_out, itl_sum_ms, itl_count;

/* So many requests of 1000 and 200 tokens more, each token after `itl_ms`. */
static void serve(double more, double itl_ms, const struct observed_gpu *gpu)
{
  struct observed_engine engine;
  struct observed_gpu gpus[1];
  requests += more;
  tokens_in += 1000 * more;
  tokens_out += 200 * more;
  itl_count += 199 * more;
  itl_sum_ms += 199 * more * itl_ms;
  blank_engine(&engine);
  engine.quantities[ENGINE_requests_succeeded] = requests;
  engine.quantities[ENGINE_input_tokens_total] = tokens_in;
  engine.quantities[ENGINE_output_tokens_total] = tokens_out;
  engine.quantities[ENGINE_requests_running] = 10;
  (void)buckets_add(&engine.histograms[HISTOGRAM_itl_ms], 100, itl_count);
  (void)buckets_add(&engine.histograms[HISTOGRAM_itl_ms], (double)INFINITY, itl_count);
  engine.histograms[HISTOGRAM_itl_ms].sum = itl_sum_ms;
  if (gpu != NULL)
    gpus[0] = *gpu;
  observe("node", gpus, gpu != NULL ? 1 : 0, &engine);
}

static void start_serving(void)
{
  requests = tokens_in = tokens_out = itl_sum_ms = itl_count = 0;
  put_node("node", ", \"workload\": \"chat\", \"interval_s\": 60");
}

/* 30 requests a minute of 1000 and 200 tokens. */
START_TEST(observed_traffic_is_a_sketch)
{
  const json_t *answer;
  start_serving();
  for (int i = 0; i < 5; i++) {
    serve(30, 20, NULL);
    pass_s(60);
  }
  answer = get("/v1/workloads/chat/observed-sketch");
  ck_assert_double_eq(doc_number(answer, "traffic.input_tokens"), 1000);
  ck_assert_double_eq(doc_number(answer, "traffic.output_tokens"), 200);
  ck_assert_double_eq_tol(doc_number(answer, "traffic.requests_per_s"), 0.5, 1e-9);
  ck_assert_double_eq(doc_number(fleet("workloads.0"), "observed.requests_running"), 10);
  ck_assert_double_eq_tol(doc_number(fleet("workloads.0"), "observed.itl_ms.mean"), 20, 1e-9);
  (void)ask("GET", "/v1/workloads/other/observed-sketch", NULL, NULL, 404);
  pass_s(400);
  (void)ask("GET", "/v1/workloads/chat/observed-sketch", NULL, NULL, 503);
}
END_TEST

static const json_t *drift(void)
{
  return doc_at(get("/v1/drift"), "items.0");
}

/* Two hours at 20 ms, then one at 28 ms with a GPU held down by heat. */
START_TEST(drift_has_an_onset_and_suspects)
{
  struct observed_gpu cool = busy_gpu("0", 1980, 0), hot = busy_gpu("0", 1386, THROTTLE_SW_THERMAL);
  const json_t *seen;
  start_serving();
  ck_assert_str_eq(doc_text(drift(), "state"), "no_data");
  for (int i = 0; i < 120; i++) {
    serve(30, i == 60 ? 90 : 20 + 0.1 * (i % 3), &cool); /* one bad minute is no drift */
    pass_s(60);
    store_observed();
  }
  ck_assert_str_eq(doc_text(drift(), "state"), "steady");
  for (int i = 0; i < 60; i++) {
    serve(30, 28 + 0.1 * (i % 3), &hot);
    pass_s(60);
    store_observed();
  }
  seen = drift();
  ck_assert_str_eq(doc_text(seen, "state"), "shifted");
  ck_assert_str_eq(doc_text(seen, "onset"), "2026-11-30T14:00:00.000Z");
  ck_assert_str_eq(doc_text(seen, "metrics.1.metric"), "itl_ms");
  ck_assert_double_eq_tol(doc_number(seen, "metrics.1.before"), 20.1, 0.1);
  ck_assert_double_eq_tol(doc_number(seen, "metrics.1.after"), 28.1, 0.1);
  ck_assert_str_eq(doc_text(seen, "suspects.0.code"), "thermal_throttling");
  ck_assert_str_eq(doc_text(seen, "suspects.1.code"), "sm_clock");
  ck_assert_str_eq(doc_text(fleet("workloads.0"), "drift"), "shifted");
  pass_s(200);
  ck_assert_str_eq(doc_text(drift(), "state"), "no_data"); /* stale is never fine */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fleet");
  TCase *devices = suite_case(suite, "devices", setup, teardown);
  TCase *engines = suite_case(suite, "engines", setup, teardown);
  tcase_add_test(devices, a_profile_is_its_devices);
  tcase_add_test(devices, power_at_the_limit);
  tcase_add_test(devices, utilisation_can_mislead);
  tcase_add_test(devices, live_hardware_is_slower_hardware);
  tcase_add_test(devices, live_figures_stay_explained);
  tcase_add_test(devices, live_power_and_memory);
  tcase_add_test(devices, the_limit_follows_the_clocks);
  tcase_add_test(devices, limits_follow_the_nodes_by_themselves);
  tcase_add_test(devices, a_review_shows_the_limit);
  tcase_add_test(devices, a_throttled_gpu_moves_the_tail_as_simulated);
  tcase_add_test(devices, the_limit_restores_the_target);
  tcase_add_test(devices, a_limit_needs_an_official_evaluation);
  tcase_add_test(engines, observed_traffic_is_a_sketch);
  tcase_add_test(engines, drift_has_an_onset_and_suspects);
  return suite_run(suite);
}
