/* Comparing scorecards: what differs, which inputs changed, and that blame adds up. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <math.h>
#include <string.h>

static struct daemon fitd;

/* An H100 with this memory bandwidth that is rented one by one at this price. */
static void put_ours(double memory_bandwidth_gb_s, const char *usd, long status)
{
  const char *plain = sample_profile(memory_bandwidth_gb_s, usd);
  (void)web_put_status(&fitd, "/v1/profiles/ours",
                       scratch_printf("%.*s,\"prices\":[{\"cloud\":\"us\",\"instance\":\"one\",\"commitment\":"
                                      "\"on_demand\",\"accelerators\":1,\"usd_per_accelerator_hour\":%s}]}",
                                      (int)strlen(plain) - 1, plain, usd),
                       status);
}

static void setup(void)
{
  daemon_start(&fitd);
  put_ours(3350, "2.0", 201);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const json_t *card_of(double requests_per_s, const char *more)
{
  return sample_scorecard(&fitd,
                          sample_sketch(&(struct sample_sketch){.requests_per_s = requests_per_s, .more = more}));
}

static const char *const ours = "\"profiles\":[\"ours\"]";

static const char *path_of(const json_t *before, const json_t *after, const char *format)
{
  return scratch_printf("/v1/scorecards/%s/compare/%s%s", doc_text(before, "id"), doc_text(after, "id"), format);
}

static const json_t *compare(const json_t *before, const json_t *after)
{
  return web_get_ok(&fitd, path_of(before, after, ""));
}

static const json_t *waterfall_of(const json_t *comparison, const char *metric)
{
  json_t *item;
  size_t i;
  json_array_foreach(doc_at(comparison, "waterfall"), i, item)
  {
    if (strcmp(doc_text(item, "metric"), metric) == 0)
      return item;
  }
  ck_abort_msg("%s is not in the waterfall: %s", metric, doc_brief(comparison));
}

static double step_of(const json_t *item, const char *input)
{
  json_t *step;
  size_t i;
  json_array_foreach(doc_at(item, "steps"), i, step)
  {
    if (strcmp(doc_text(step, "input"), input) == 0)
      return doc_number(step, "change");
  }
  ck_abort_msg("%s is no step: %s", input, doc_brief(item));
}

static void assert_inputs(const json_t *comparison, const char *expected)
{
  const char *seen = "";
  json_t *input;
  size_t i;
  json_array_foreach(doc_at(comparison, "inputs"), i, input)
  {
    seen = scratch_printf("%s%s ", seen, doc_text(input, "input"));
  }
  ck_assert_str_eq(seen, expected);
}

/* total = steps + interaction + not_reproduced for every figure; today's core reproduces what it has just computed. */
static void assert_adds_up(const json_t *comparison)
{
  json_t *item, *step;
  size_t i, k;
  json_array_foreach(doc_at(comparison, "waterfall"), i, item)
  {
    const double total = doc_number(item, "total");
    double sum = doc_number(item, "interaction") + doc_number(item, "not_reproduced");
    json_array_foreach(doc_at(item, "steps"), k, step)
    {
      sum += doc_number(step, "change");
    }
    ck_assert_double_eq_tol(sum, total, 1e-6 * (fabs(total) + 1));
    ck_assert_double_eq_tol(doc_number(item, "not_reproduced"), 0, 1e-6 * (fabs(total) + 1));
    ck_assert_double_eq_tol(doc_number(item, "after") - doc_number(item, "before"), total, 1e-9 * (fabs(total) + 1));
  }
}

START_TEST(nothing_changed)
{
  const json_t *comparison = compare(card_of(2, ours), card_of(2, ours));
  assert_inputs(comparison, "");
  ck_assert_uint_eq(json_object_size(doc_at(comparison, "figures")), 0);
  ck_assert_uint_eq(json_object_size(doc_at(comparison, "words")), 0);
  ck_assert_uint_eq(json_array_size(doc_at(comparison, "waterfall")), 0);
}
END_TEST

START_TEST(a_price_is_a_price_and_not_a_profile)
{
  const json_t *before = card_of(2, ours), *after, *comparison, *monthly;
  put_ours(3350, "3.0", 200);
  after = card_of(2, ours);
  comparison = compare(before, after);
  assert_inputs(comparison, "price ");
  assert_adds_up(comparison);
  monthly = json_object_get(doc_at(comparison, "figures"), "cost.monthly_usd");
  ck_assert_double_eq_tol(doc_number(monthly, "relative"), 0.5, 1e-9); /* 2 to 3 USD */
  monthly = waterfall_of(comparison, "cost.monthly_usd");
  ck_assert_double_eq_tol(step_of(monthly, "price"), doc_number(monthly, "total"), 1e-6);
  ck_assert_double_eq_tol(doc_number(monthly, "interaction"), 0, 1e-6);
  ck_assert_ptr_null(json_object_get(doc_at(comparison, "figures"), "latency.itl_ms.p50"));
}
END_TEST

/* 1 replica at 2 USD against n at 3: the sketch alone makes (n - 1) × 2, the price alone 3 - 2, both together n × 3 - 2, so
   that (n - 1) × (3 - 2) is their interaction; all per GPU of a replica and hour. */
START_TEST(interaction_is_what_is_left)
{
  const char *fixed =
      scratch_printf("%s,\"serving\":{\"tensor_parallel\":4,\"pipeline_parallel\":1,\"replicas\":1}", ours);
  const char *more =
      scratch_printf("%s,\"serving\":{\"tensor_parallel\":4,\"pipeline_parallel\":1,\"replicas\":3}", ours);
  const json_t *before = card_of(2, fixed), *after, *comparison, *monthly;
  const double hours = 730, gpus = 4;
  put_ours(3350, "3.0", 200);
  after = card_of(2, more);
  comparison = compare(before, after);
  assert_inputs(comparison, "sketch price ");
  assert_adds_up(comparison);
  monthly = waterfall_of(comparison, "cost.monthly_usd");
  ck_assert_double_eq_tol(doc_number(monthly, "total"), gpus * hours * (3 * 3 - 2), 1e-3);
  ck_assert_double_eq_tol(step_of(monthly, "sketch"), gpus * hours * 2 * 2, 1e-3);
  ck_assert_double_eq_tol(step_of(monthly, "price"), gpus * hours, 1e-3);
  ck_assert_double_eq_tol(doc_number(monthly, "interaction"), gpus * hours * 2, 1e-3);
}
END_TEST

START_TEST(device_model_and_stated_price)
{
  const json_t *before = card_of(2, ours), *after, *comparison;
  put_ours(2000, "2.0", 200);
  comparison = compare(before, card_of(2, ours));
  assert_inputs(comparison, "profile ");
  assert_adds_up(comparison);
  ck_assert_double_gt(step_of(waterfall_of(comparison, "latency.itl_ms.p50"), "profile"), 0); /* less bandwidth */
  after = card_of(2, "\"constraints\":{\"prices\":{\"ours\":5}},\"profiles\":[\"ours\"]");
  comparison = compare(before, after);
  assert_inputs(comparison, "profile price ");
  assert_adds_up(comparison);
  after = sample_scorecard(
      &fitd, sample_sketch(&(struct sample_sketch){.model = "qwen3-32b", .requests_per_s = 4, .more = ours}));
  comparison = compare(before, after);
  assert_inputs(comparison, "sketch model profile ");
  assert_adds_up(comparison);
}
END_TEST

START_TEST(other_profile_with_its_price)
{
  const json_t *before = card_of(2, "\"profiles\":[\"h100-sxm-80gb\"]");
  const json_t *comparison = compare(before, card_of(2, "\"profiles\":[\"l40s-48gb\"]"));
  assert_inputs(comparison, "profile price ");
  assert_adds_up(comparison);
  ck_assert_str_eq(doc_text(comparison, "before.profile"), "h100-sxm-80gb");
  ck_assert_str_eq(doc_text(comparison, "after.profile"), "l40s-48gb");
}
END_TEST

START_TEST(stack_and_calibration)
{
  const char *prod = scratch_printf("\"stack\":\"prod\",%s", ours);
  const json_t *before, *measurement, *comparison;
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"runtime\":\"vllm 0.10\"}", 201);
  before = card_of(2, ours);
  comparison = compare(before, card_of(2, prod));
  assert_inputs(comparison, "stack ");
  ck_assert_uint_eq(json_object_size(doc_at(comparison, "figures")), 0);
  measurement = web_post_created(
      &fitd, "/v1/measurements",
      scratch_printf("{\"sketch\":%s,\"profile\":\"ours\",\"measured\":{\"latency.tpot_ms.mean\":%f},\"source\":\"t\"}",
                     sample_sketch(&(struct sample_sketch){.more = prod}),
                     1.2 * doc_number(before, "latency.tpot_ms.mean")));
  (void)web_post_created(&fitd, "/v1/calibrations",
                         scratch_printf("{\"profile\":\"ours\",\"stack\":\"prod\",\"measurements\":[\"%s\"]}",
                                        doc_text(measurement, "id")));
  comparison = compare(before, card_of(2, prod));
  assert_inputs(comparison, "stack calibration ");
  assert_adds_up(comparison);
  ck_assert_double_gt(step_of(waterfall_of(comparison, "latency.tpot_ms.mean"), "calibration"), 0);
}
END_TEST

START_TEST(a_card_that_does_not_fit)
{
  const json_t *before = card_of(2, ours);
  const json_t *after = card_of(2, "\"profiles\":[\"t4-16gb\"],\"serving\":{\"tensor_parallel\":1,\"replicas\":1}");
  const json_t *comparison = compare(before, after);
  ck_assert_str_ne(doc_text(comparison, "words.verdict.after"), "fit");
  ck_assert_str_eq(doc_text(comparison, "words.no_fit_reason.after"), "weights_exceed_memory");
  ck_assert(doc_is_null(json_object_get(doc_at(comparison, "figures"), "latency.itl_ms.p50"), "after"));
}
END_TEST

START_TEST(other_forms)
{
  const json_t *before = card_of(2, ours), *after;
  const struct reply *reply;
  put_ours(3350, "3.0", 200);
  after = card_of(8, ours);
  reply = web_get(&fitd, path_of(before, after, "?format=csv"));
  reply_assert_status(reply, 200);
  ck_assert_int_eq(strncmp(reply->body, "metric,before,after,change,relative,sketch,trace,model,profile,price,", 69),
                   0);
  ck_assert_ptr_nonnull(strstr(reply->body, "\r\ncost.monthly_usd,"));
  reply = web_get(&fitd, path_of(before, after, "?format=md"));
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(strstr(reply->body, "| figure | before | sketch | price | interaction | after |"));
  (void)reply_assert_problem(web_get(&fitd, scratch_printf("/v1/scorecards/%s/compare/none", doc_text(before, "id"))),
                             404);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/compare");
  TCase *tcase = suite_case(suite, "compare", setup, teardown);
  tcase_add_test(tcase, nothing_changed);
  tcase_add_test(tcase, a_price_is_a_price_and_not_a_profile);
  tcase_add_test(tcase, interaction_is_what_is_left);
  tcase_add_test(tcase, device_model_and_stated_price);
  tcase_add_test(tcase, other_profile_with_its_price);
  tcase_add_test(tcase, stack_and_calibration);
  tcase_add_test(tcase, a_card_that_does_not_fit);
  tcase_add_test(tcase, other_forms);
  return suite_run(suite);
}
