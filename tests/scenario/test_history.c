/* What fitd remembers: stored evaluations and scorecards, lists with filters and cursors, representations, and that a 201 is
   a promise a power cut does not break. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <string.h>

#define KILL_ROUNDS 20

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

static const char *sketch_for(const char *workload, const char *profiles)
{
  return sample_sketch(
      &(struct sample_sketch){.workload = workload, .more = scratch_printf("\"profiles\":[%s]", profiles)});
}

static const json_t *items_of(const char *path)
{
  return doc_array(web_get_ok(&fitd, path), "items");
}

static void assert_count(const char *path, size_t expected)
{
  const size_t count = json_array_size(items_of(path));
  ck_assert_msg(count == expected, "%s: %zu items instead of %zu", path, count, expected);
}

START_TEST(evaluation_is_kept_as_it_was_answered)
{
  const struct reply *posted =
      web_post(&fitd, "/v1/evaluations", sketch_for("chat", "\"h100-sxm-80gb\",\"l40s-48gb\""));
  const struct reply *kept;
  reply_assert_status(posted, 201);
  kept = web_get(&fitd, reply_header(posted, "Location"));
  reply_assert_status(kept, 200);
  ck_assert_str_eq(kept->body, posted->body);
}
END_TEST

START_TEST(sketch_is_kept_as_it_was_sent)
{
  const char *sketch = sketch_for("chat", "\"h100-sxm-80gb\"");
  const json_t *evaluation = sample_evaluate(&fitd, sketch);
  const json_t *kept = web_get_ok(&fitd, scratch_printf("/v1/evaluations/%s/sketch", doc_text(evaluation, "id")));
  ck_assert_msg(json_equal(kept, doc_parse(sketch)), "%s", doc_brief(kept));
}
END_TEST

START_TEST(scorecard_is_kept_as_it_was_answered)
{
  const json_t *evaluation = sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  const json_t *card = doc_at(evaluation, "scorecards.0");
  const json_t *kept = web_get_ok(&fitd, scratch_printf("/v1/scorecards/%s", doc_text(card, "id")));
  doc_assert_same(kept, card);
  ck_assert_str_eq(doc_text(kept, "evaluation"), doc_text(evaluation, "id"));
}
END_TEST

START_TEST(store_false_stores_nothing)
{
  const struct reply *reply = web_post(&fitd, "/v1/evaluations?store=false", sketch_for("chat", "\"h100-sxm-80gb\""));
  ck_assert_msg(reply->status == 201 || reply->status == 200, "%ld: %.300s", reply->status, reply->body);
  ck_assert_str_eq(doc_text(reply->json, "scorecards.0.verdict"), "fit");
  assert_count("/v1/evaluations", 0);
  assert_count("/v1/scorecards", 0);
}
END_TEST

START_TEST(label_marks_every_scorecard)
{
  const json_t *evaluation =
      web_post_created(&fitd, "/v1/evaluations?label=release-7", sketch_for("chat", "\"h100-sxm-80gb\",\"l40s-48gb\""));
  ck_assert_str_eq(doc_text(evaluation, "scorecards.0.label"), "release-7");
  ck_assert_str_eq(doc_text(evaluation, "scorecards.1.label"), "release-7");
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  assert_count("/v1/scorecards?label=release-7", 2);
  assert_count("/v1/scorecards?label=release-8", 0);
}
END_TEST

START_TEST(filters_narrow_the_list)
{
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\",\"l40s-48gb\""));
  (void)sample_evaluate(&fitd, sketch_for("search", "\"h100-sxm-80gb\""));
  (void)sample_evaluate(
      &fitd, sample_sketch(&(struct sample_sketch){
                 .workload = "search", .more = "\"profiles\":[\"t4-16gb\"],\"constraints\":{\"gpu_quota\":1}"}));
  assert_count("/v1/scorecards", 4);
  assert_count("/v1/scorecards?workload=chat", 2);
  assert_count("/v1/scorecards?workload=search&profile=h100-sxm-80gb", 1);
  assert_count("/v1/scorecards?model=llama-3.1-70b", 4);
  assert_count("/v1/scorecards?model=llama-3.1-8b", 0);
  assert_count("/v1/scorecards?verdict=no_fit", 1);
  assert_count("/v1/scorecards?verdict=no_fit&workload=chat", 0);
  assert_count("/v1/evaluations", 3);
}
END_TEST

START_TEST(since_and_until_cut_by_time)
{
  const char *when;
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  suite_sleep_s(1.1); /* whatever the resolution of created_at */
  when = doc_text(sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\"")), "created_at");
  suite_sleep_s(1.1); /* whatever the resolution of created_at */
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  assert_count("/v1/scorecards?since=2020-01-01T00:00:00Z", 3);
  assert_count("/v1/scorecards?until=2020-01-01T00:00:00Z", 0);
  assert_count("/v1/scorecards?since=2999-01-01T00:00:00Z", 0);
  assert_count(scratch_printf("/v1/scorecards?since=%s", when), 2);
}
END_TEST

START_TEST(latest_keeps_the_newest_of_each_workload_and_profile)
{
  const json_t *newest;
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\",\"l40s-48gb\""));
  (void)sample_evaluate(&fitd, sketch_for("search", "\"h100-sxm-80gb\""));
  newest = sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  assert_count("/v1/scorecards?latest=true", 3);
  ck_assert_str_eq(doc_text(items_of("/v1/scorecards?latest=true&workload=chat&profile=h100-sxm-80gb"), "0.id"),
                   doc_text(newest, "scorecards.0.id"));
}
END_TEST

START_TEST(newest_comes_first_unless_asked)
{
  const char *first = doc_text(sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\"")), "id");
  const char *second = doc_text(sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\"")), "id");
  ck_assert_str_eq(doc_text(items_of("/v1/evaluations"), "0.id"), second);
  ck_assert_str_eq(doc_text(items_of("/v1/evaluations?order=asc"), "0.id"), first);
  ck_assert_str_eq(doc_text(items_of("/v1/scorecards?order=asc"), "0.evaluation"), first);
}
END_TEST

/* The path in `Link: <…>; rel="next"`, NULL without one. */
static const char *next_link(const struct reply *reply)
{
  const char *link = reply_header(reply, "Link");
  const char *path;
  if (link == NULL)
    return NULL;
  ck_assert_msg(strstr(link, "rel=\"next\"") != NULL, "%s", link);
  path = strstr(link, "/v1/");
  ck_assert_msg(path != NULL, "%s", link);
  return scratch_printf("%.*s", (int)strcspn(path, ">"), path);
}

/* Walks the list in pages of two, evaluating once more between pages; the ids in the order seen. */
static json_t *walk_while_inserting(const char *path)
{
  json_t *ids = scratch_json_steal(json_array());
  while (path != NULL) {
    const struct reply *page = web_get(&fitd, path);
    const json_t *items;
    reply_assert_status(page, 200);
    items = doc_array(page->json, "items");
    ck_assert_uint_le(json_array_size(items), 2);
    for (size_t i = 0; i < json_array_size(items); i++)
      ck_assert_int_eq(json_array_append_new(ids, json_string(doc_text(json_array_get(items, i), "id"))), 0);
    path = next_link(page);
    ck_assert_int_eq(path == NULL, json_is_null(doc_at(page->json, "next_cursor")));
    if (path != NULL)
      (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  }
  return ids;
}

START_TEST(cursors_are_stable_under_inserts)
{
  json_t *expected = scratch_json_steal(json_array());
  for (int i = 0; i < 5; i++) {
    const json_t *evaluation = sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
    ck_assert_int_eq(json_array_insert_new(expected, 0, json_string(doc_text(evaluation, "id"))), 0);
  }
  doc_assert_same(walk_while_inserting("/v1/evaluations?limit=2"), expected);
}
END_TEST

START_TEST(pages_keep_their_filter)
{
  for (int i = 0; i < 3; i++) {
    (void)sample_evaluate(&fitd, sketch_for("search", "\"h100-sxm-80gb\""));
    (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  }
  ck_assert_uint_eq(json_array_size(walk_while_inserting("/v1/scorecards?limit=2&workload=search")), 3);
}
END_TEST

START_TEST(bad_list_queries_are_refused)
{
  static const char *const queries[] = {"limit=0",         "limit=1001",      "limit=ten",
                                        "cursor=nonsense", "order=sideways",  "since=yesterday",
                                        "latest=maybe",    "verdict=perhaps", "limt=5"};
  for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
    const struct reply *reply = web_get(&fitd, scratch_printf("/v1/scorecards?%s", queries[i]));
    ck_assert_msg(reply->status == 422, "%s: %ld %.200s", queries[i], reply->status, reply->body);
    (void)reply_assert_problem(reply, 422);
  }
}
END_TEST

START_TEST(fields_picks)
{
  const json_t *item;
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  item = doc_at(items_of("/v1/scorecards?fields=id,profile,cost.per_successful_request_usd"), "0");
  ck_assert_uint_eq(json_object_size(item), 3);
  ck_assert_uint_eq(json_object_size(doc_at(item, "cost")), 1);
  ck_assert_str_eq(doc_text(item, "profile"), "h100-sxm-80gb");
  ck_assert_double_gt(doc_number(item, "cost.per_successful_request_usd"), 0);
}
END_TEST

static size_t count_text(const char *text, const char *part)
{
  size_t count = 0;
  while ((text = strstr(text, part)) != NULL) {
    count++;
    text += strlen(part);
  }
  return count;
}

static void assert_type(const struct reply *reply, const char *type)
{
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(reply_header(reply, "Content-Type"));
  ck_assert_msg(strncmp(reply_header(reply, "Content-Type"), type, strlen(type)) == 0, "%s",
                reply_header(reply, "Content-Type"));
}

START_TEST(list_as_csv)
{
  const struct reply *by_format, *by_accept;
  (void)sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\",\"l40s-48gb\""));
  by_format = web_get(&fitd, "/v1/scorecards?format=csv");
  by_accept = web_with(&fitd, "GET", "/v1/scorecards", "Accept: text/csv", NULL);
  assert_type(by_format, "text/csv");
  ck_assert_str_eq(by_accept->body, by_format->body);
  ck_assert_uint_eq(count_text(by_format->body, "\r\n"), 3); /* a head and two rows, RFC 4180 line ends */
  ck_assert_uint_eq(count_text(by_format->body, "cost.per_successful_request_usd"), 1);
  ck_assert_uint_eq(count_text(by_format->body, "h100-sxm-80gb"), 1);
}
END_TEST

START_TEST(scorecards_as_markdown)
{
  const json_t *evaluation = sample_evaluate(&fitd, sketch_for("chat", "\"h100-sxm-80gb\""));
  const struct reply *card =
      web_get(&fitd, scratch_printf("/v1/scorecards/%s?format=md", doc_text(evaluation, "scorecards.0.id")));
  const struct reply *whole = web_with(&fitd, "GET", scratch_printf("/v1/evaluations/%s", doc_text(evaluation, "id")),
                                       "Accept: text/markdown", NULL);
  assert_type(card, "text/markdown");
  assert_type(whole, "text/markdown");
  ck_assert_ptr_nonnull(strstr(card->body, "h100-sxm-80gb"));
  ck_assert_ptr_nonnull(strstr(whole->body, "h100-sxm-80gb"));
}
END_TEST

START_TEST(history_survives_a_clean_restart)
{
  const struct reply *posted = web_post(&fitd, "/v1/evaluations", sketch_for("chat", "\"h100-sxm-80gb\""));
  reply_assert_status(posted, 201);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  ck_assert_str_eq(web_get(&fitd, reply_header(posted, "Location"))->body, posted->body);
}
END_TEST

START_TEST(history_survives_kill_9_right_after_the_201)
{
  for (int round = 0; round < KILL_ROUNDS; round++) {
    const struct reply *posted = web_post(&fitd, "/v1/evaluations", sketch_for("chat", "\"h100-sxm-80gb\""));
    const struct reply *kept;
    daemon_kill(&fitd);
    reply_assert_status(posted, 201);
    daemon_launch(&fitd, NULL);
    kept = web_get(&fitd, reply_header(posted, "Location"));
    reply_assert_status(kept, 200);
    ck_assert_uint_eq(kept->body_bytes, posted->body_bytes);
    ck_assert_int_eq(memcmp(kept->body, posted->body, posted->body_bytes), 0);
  }
  assert_count("/v1/evaluations", KILL_ROUNDS);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("history");
  TCase *tcase = suite_case(suite, "history", setup, teardown);
  tcase_add_test(tcase, evaluation_is_kept_as_it_was_answered);
  tcase_add_test(tcase, sketch_is_kept_as_it_was_sent);
  tcase_add_test(tcase, scorecard_is_kept_as_it_was_answered);
  tcase_add_test(tcase, store_false_stores_nothing);
  tcase_add_test(tcase, label_marks_every_scorecard);
  tcase_add_test(tcase, filters_narrow_the_list);
  tcase_add_test(tcase, since_and_until_cut_by_time);
  tcase_add_test(tcase, latest_keeps_the_newest_of_each_workload_and_profile);
  tcase_add_test(tcase, newest_comes_first_unless_asked);
  tcase_add_test(tcase, cursors_are_stable_under_inserts);
  tcase_add_test(tcase, pages_keep_their_filter);
  tcase_add_test(tcase, bad_list_queries_are_refused);
  tcase_add_test(tcase, fields_picks);
  tcase_add_test(tcase, list_as_csv);
  tcase_add_test(tcase, scorecards_as_markdown);
  tcase_add_test(tcase, history_survives_a_clean_restart);
  tcase_add_test(tcase, history_survives_kill_9_right_after_the_201);
  return suite_run(suite);
}
