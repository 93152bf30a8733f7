/* Series, annotations and the portfolio over what a daemon has stored. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <string.h>

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const char *sketch_for(const char *workload, double requests_per_s, const char *profiles)
{
  return sample_sketch(&(struct sample_sketch){
      .workload = workload, .requests_per_s = requests_per_s, .more = scratch_printf("\"profiles\":[%s]", profiles)});
}

static const json_t *series(const char *query)
{
  return doc_array(web_get_ok(&fitd, scratch_printf("/v1/series?%s", query)), "series");
}

START_TEST(points_are_what_the_scorecards_say)
{
  const json_t *one = doc_at(sample_evaluate(&fitd, sketch_for("chat", 2, "\"h100-sxm-80gb\"")), "scorecards.0");
  const json_t *two = doc_at(sample_evaluate(&fitd, sketch_for("chat", 20, "\"h100-sxm-80gb\"")), "scorecards.0");
  const double a = doc_number(one, "cost.monthly_usd"), b = doc_number(two, "cost.monthly_usd");
  const json_t *list;
  (void)sample_evaluate(&fitd, sketch_for("search", 2, "\"h100-sxm-80gb\""));
  ck_assert_double_lt(a, b);
  list = series("workload=chat&metric=cost.monthly_usd&metric=latency.tpot_ms.mean&bucket=1w");
  ck_assert_uint_eq(json_array_size(list), 2);
  ck_assert_str_eq(doc_text(list, "0.metric"), "cost.monthly_usd");
  ck_assert_str_eq(doc_text(list, "0.unit"), "USD");
  ck_assert_str_eq(doc_text(list, "0.source"), "predicted");
  ck_assert_str_eq(doc_text(list, "0.profile"), "h100-sxm-80gb");
  ck_assert_uint_eq(json_array_size(doc_array(list, "0.points")), 1);
  ck_assert_int_eq(doc_integer(list, "0.points.0.count"), 2);
  ck_assert_double_eq_tol(doc_number(list, "0.points.0.value"), (a + b) / 2, 1e-6 * b);
  ck_assert_double_eq_tol(doc_number(list, "0.points.0.min"), a, 1e-6 * b);
  ck_assert_double_eq_tol(doc_number(list, "0.points.0.max"), b, 1e-6 * b);
  ck_assert_str_eq(doc_text(list, "1.metric"), "latency.tpot_ms.mean");
}
END_TEST

START_TEST(series_part_by_workload_profile_and_more)
{
  (void)sample_evaluate(&fitd, sketch_for("chat", 2, "\"h100-sxm-80gb\",\"l40s-48gb\""));
  (void)web_post_created(&fitd, "/v1/evaluations?label=pr-7", sketch_for("search", 2, "\"h100-sxm-80gb\""));
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus")), 3);
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus&profile=h100-sxm-80gb")), 2);
  ck_assert_str_eq(doc_text(series("metric=configuration.gpus&workload=search&by=label"), "0.label"), "pr-7");
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus&by=model")), 3);
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus&bucket=15m&workload=chat")), 2);
  /* a path without a column */
  ck_assert_uint_eq(json_array_size(series("metric=phases.decode.step_ms&workload=chat")), 2);
  ck_assert(doc_is_null(series("metric=phases.decode.step_ms&workload=chat"), "0.unit"));
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus&until=2020-01-01")), 0);
  ck_assert_uint_eq(json_array_size(series("metric=configuration.gpus&source=observed")), 0);
}
END_TEST

START_TEST(csv_has_a_line_a_point)
{
  const struct reply *reply;
  (void)sample_evaluate(&fitd, sketch_for("chat", 2, "\"h100-sxm-80gb\""));
  reply = web_get(&fitd, "/v1/series?metric=cost.monthly_usd&format=csv");
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(strstr(reply_header(reply, "Content-Type"), "text/csv"));
  ck_assert_int_eq(
      strncmp(reply->body, "workload,profile,metric,unit,source,time,value,min,max,count\r\nchat,h100-", 72), 0);
}
END_TEST

static void assert_fault(const char *query, const char *pointer)
{
  const json_t *problem = reply_assert_problem(web_get(&fitd, scratch_printf("/v1/series?%s", query)), 422);
  ck_assert_msg(doc_fault(problem, pointer) != NULL, "%s: %s", query, doc_brief(problem));
}

START_TEST(faults_of_a_query)
{
  assert_fault("workload=chat", "?metric");
  assert_fault("metric=cost..usd", "?metric");
  assert_fault("metric=cost.monthly_usd'--", "?metric");
  assert_fault("metric=configuration.gpus&bucket=1y", "?bucket");
  assert_fault("metric=configuration.gpus&bucket=0d", "?bucket");
  assert_fault("metric=configuration.gpus&by=colour", "?by");
  assert_fault("metric=configuration.gpus&by=label&source=observed", "?by");
  assert_fault("metric=configuration.gpus&source=guessed", "?source");
  assert_fault("metric=configuration.gpus&since=yesterday", "?since");
  assert_fault("metric=configuration.gpus&since=2026-02-01&until=2026-01-01", "?until");
  assert_fault("metric=configuration.gpus&workload=a&workload=b", "?workload");
  assert_fault("metric=configuration.gpus&colour=red", "?colour");
}
END_TEST

/* ---- Annotations and the portfolio ---- */

static const json_t *marks(const char *query)
{
  return doc_array(web_get_ok(&fitd, scratch_printf("/v1/annotations?%s", query)), "items");
}

static const json_t *mark_of(const json_t *items, const char *kind)
{
  json_t *item;
  size_t i;
  json_array_foreach(items, i, item)
  {
    if (strcmp(doc_text(item, "kind"), kind) == 0)
      return item;
  }
  return NULL;
}

START_TEST(changes_become_marks)
{
  const json_t *items;
  (void)web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3350, "3.5"), 201);
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"570\"}", 201);
  (void)sample_evaluate(&fitd, sample_sketch(&(struct sample_sketch){
                                   .workload = "chat", .more = "\"stack\":\"prod\",\"profiles\":[\"ours\"]"}));
  ck_assert_uint_eq(json_array_size(marks("workload=chat")), 0);
  (void)web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3350, "2.9"), 200);
  (void)web_put_status(&fitd, "/v1/profiles/ours", sample_profile(3000, "2.9"), 200);
  (void)web_put_status(&fitd, "/v1/stacks/prod", "{\"driver\":\"575\"}", 200);
  (void)web_put_status(&fitd, "/v1/stacks/other", "{\"driver\":\"1\"}", 201);
  (void)web_put_status(&fitd, "/v1/stacks/other", "{\"driver\":\"2\"}", 200);
  items = marks("workload=chat");
  ck_assert_uint_eq(json_array_size(items), 3);
  ck_assert_str_eq(doc_text(mark_of(items, "price"), "link"), "/v1/profiles/ours/revisions/2");
  ck_assert_str_eq(doc_text(mark_of(items, "profile"), "link"), "/v1/profiles/ours/revisions/3");
  ck_assert_str_eq(doc_text(mark_of(items, "stack"), "name"), "prod");
  ck_assert_uint_eq(json_array_size(marks("workload=chat&until=2020-01-01")), 0);
  ck_assert_uint_eq(json_array_size(marks("workload=none")), 0);
  ck_assert_uint_eq(json_array_size(marks("limit=2")), 2);
}
END_TEST

START_TEST(decisions_become_marks)
{
  const json_t *items;
  (void)web_post_created(&fitd, "/v1/decisions",
                         "{\"date\":\"2026-03-02\",\"workload\":\"chat\",\"knob\":\"max_batch\",\"from\":32,\"to\":64,"
                         "\"rationale\":\"idle GPUs\",\"owner\":\"ana\",\"rollback_plan\":\"set it back\"}");
  items = marks("workload=chat");
  ck_assert_uint_eq(json_array_size(items), 1);
  ck_assert_str_eq(doc_text(items, "0.kind"), "decision");
  ck_assert_ptr_nonnull(strstr(doc_text(items, "0.title"), "max_batch from 32 to 64: idle GPUs"));
  ck_assert_uint_eq(json_array_size(marks("workload=search")), 0);
}
END_TEST

static void wait_for_verdict(void)
{
  const double until_s = suite_now_s() + 30;
  while (doc_is_null(web_get_ok(&fitd, "/v1/portfolio"), "workloads.0.verdict") && suite_now_s() < until_s)
    suite_sleep_s(0.05);
}

START_TEST(portfolio_adds_up)
{
  const json_t *portfolio, *card;
  double sum = 0;
  json_t *value;
  const char *key;
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/portfolio"), "workloads")), 0);
  (void)web_put_status(&fitd, "/v1/workloads/chat",
                       scratch_printf("{\"sketch\":%s,\"owner\":\"ana\",\"team\":\"t\",\"reevaluate\":\"never\"}",
                                      sketch_for("chat", 2, "\"h100-sxm-80gb\",\"l40s-48gb\"")),
                       201);
  wait_for_verdict();
  (void)sample_evaluate(&fitd, sketch_for("chat", 200, "\"l40s-48gb\"")); /* an experiment leaves it alone */
  portfolio = web_get_ok(&fitd, "/v1/portfolio");
  card = web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s", doc_text(portfolio, "workloads.0.scorecard")));
  ck_assert_str_eq(doc_text(portfolio, "workloads.0.verdict"), "fit");
  ck_assert_str_eq(doc_text(portfolio, "workloads.0.owner"), "ana");
  ck_assert_double_eq_tol(doc_number(portfolio, "workloads.0.monthly_usd"), doc_number(card, "cost.monthly_usd"), 1e-9);
  ck_assert_double_eq_tol(doc_number(portfolio, "total.monthly_usd"), doc_number(card, "cost.monthly_usd"), 1e-9);
  ck_assert_int_eq(doc_integer(portfolio, "total.fit"), 1);
  json_object_foreach(doc_at(portfolio, "total.by_bound"), key, value) sum += json_number_value(value);
  ck_assert_double_eq_tol(sum, 1, 1e-6);
  reply_assert_status(web_get(&fitd, "/v1/portfolio?format=csv"), 200);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/series");
  TCase *tcase = suite_case(suite, "series", setup, teardown);
  tcase_add_test(tcase, points_are_what_the_scorecards_say);
  tcase_add_test(tcase, series_part_by_workload_profile_and_more);
  tcase_add_test(tcase, csv_has_a_line_a_point);
  tcase_add_test(tcase, faults_of_a_query);
  tcase_add_test(tcase, changes_become_marks);
  tcase_add_test(tcase, decisions_become_marks);
  tcase_add_test(tcase, portfolio_adds_up);
  return suite_run(suite);
}
