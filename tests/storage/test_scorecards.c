/* Scorecards: what goes in comes out, and what does not belong into the history stays out. */
#include <math.h>

#include "tests/storage/fixture.h"

static void check_figure(double got, double put)
{
  ck_assert_mem_eq(&got, &put, sizeof got); /* the same 64 bits */
}

START_TEST(test_round_trip)
{
  struct store_scorecard row = make_scorecard(T0_MS, 7, "chat", "h100-sxm-80gb"), got;
  row.ordinal = 3;
  row.label = text("nightly");
  row.stack = text("vllm-0.19");
  row.context_ref = text("refs/heads/main");
  add_scorecard(&row);
  ck_assert_err(store_scorecard_get(store, &got, row.id, &error), ERR_OK);
  ck_assert_str_eq(got.id, row.id);
  ck_assert_str_eq(got.evaluation, row.evaluation);
  ck_assert_int_eq(got.ordinal, 3);
  ck_assert_int_eq(got.created_at_ms, T0_MS);
  ck_assert_str_eq(got.workload, "chat");
  ck_assert_str_eq(got.model, "llama-3.1-70b");
  ck_assert_int_eq(got.model_revision, 0);
  ck_assert_str_eq(got.profile, "h100-sxm-80gb");
  ck_assert_int_eq(got.profile_revision, 0);
  ck_assert_str_eq(got.verdict, "fit");
  ck_assert_str_eq(got.label, "nightly");
  ck_assert_str_eq(got.stack, "vllm-0.19");
  ck_assert_str_eq(got.context_ref, "refs/heads/main");
  ck_assert_str_eq(got.sketch_digest, "sha256:aa");
  ck_assert_str_eq(got.core_version, "0.1.0");
  check_figure(got.gpus, 8.0);
  check_figure(got.per_successful_request_usd, 0.0031);
  check_figure(got.monthly_usd, 14400.5);
  check_figure(got.ttft_ms_p50, 181.25);
  check_figure(got.itl_ms_p50, 21.5);
  check_figure(got.e2e_ms_p50, 5000.0);
  check_figure(got.output_tokens_per_s, STORE_FIGURE_ABSENT);
  ck_assert_str_eq(got.document, "{\"n\":7}");
  store_scorecard_fini(&got);
}
END_TEST

START_TEST(test_document_alone)
{
  struct store_scorecard row = make_scorecard(T0_MS, 7, "chat", "h100-sxm-80gb");
  char *document = NULL;
  size_t length = 0;
  ck_assert_err(store_scorecard_document(store, &document, &length, row.id, &error), ERR_NOT_FOUND);
  row.document = text("{\"name\":\"\xc3\xbc\"}"); /* 12 characters, 13 bytes */
  add_scorecard(&row);
  ck_assert_err(store_scorecard_document(store, &document, &length, row.id, &error), ERR_OK);
  ck_assert_str_eq(document, row.document);
  ck_assert_uint_eq(length, 13);
  free(document);
}
END_TEST

START_TEST(test_large_document)
{
  const size_t size = 3 * 1000 * 1000;
  struct store_scorecard row = make_scorecard(T0_MS, 7, "chat", "h100-sxm-80gb");
  char *document = NULL;
  size_t length = 0;
  row.document = scratch_alloc(size + 1);
  for (size_t i = 0; i < size; i++)
    row.document[i] = (char)('a' + i % 23);
  add_scorecard(&row);
  ck_assert_err(store_scorecard_document(store, &document, &length, row.id, &error), ERR_OK);
  ck_assert_uint_eq(length, size);
  ck_assert_mem_eq(document, row.document, size + 1);
  free(document);
}
END_TEST

START_TEST(test_refusals)
{
  struct store_scorecard row = make_scorecard(T0_MS, 7, "chat", "h100-sxm-80gb"), got;
  ck_assert_err(write_row(insert_scorecard, &row), ERR_CONFLICT); /* no such evaluation */
  add_scorecard(&row);
  ck_assert_err(write_row(insert_scorecard, &row), ERR_CONFLICT); /* twice */
  row.id = make_id(T0_MS, 8);
  ck_assert_err(write_row(insert_scorecard, &row), ERR_CONFLICT); /* the place in the answer is taken */
  row.ordinal = 1;
  row.verdict = text("maybe");
  ck_assert_err(write_row(insert_scorecard, &row), ERR_INTERNAL);
  row.verdict = text("no_fit");
  row.gpus = HUGE_VAL; /* would be Inf in the file, which no JSON can say */
  ck_assert_err(write_row(insert_scorecard, &row), ERR_INTERNAL);
  row.gpus = (double)NAN;
  ck_assert_err(write_row(insert_scorecard, &row), ERR_OK);
  ck_assert_err(store_scorecard_get(store, &got, row.id, &error), ERR_OK);
  check_figure(got.gpus, STORE_FIGURE_ABSENT);
  store_scorecard_fini(&got);
  ck_assert_err(store_scorecard_get(store, &got, "no such id", &error), ERR_NOT_FOUND);
  ck_assert_says("no such id");
}
END_TEST

START_TEST(test_order_of_the_answer)
{
  struct store_scorecard row = make_scorecard(T0_MS, 50, "chat", "h100-sxm-80gb");
  struct store_scorecards list;
  row.ordinal = 19;
  add_scorecard(&row);
  for (int i = 18; i >= 0; i--) { /* the order of arrival and of the ids must not matter */
    row.id = make_id(T0_MS, (unsigned)(30 - i));
    row.ordinal = i;
    ck_assert_err(write_row(insert_scorecard, &row), ERR_OK);
  }
  ck_assert_err(store_evaluation_scorecards(store, &list, row.evaluation, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 20);
  for (int i = 0; i < 20; i++)
    ck_assert_int_eq(list.rows[i].ordinal, i);
  store_scorecards_fini(&list);
  ck_assert_err(store_evaluation_scorecards(store, &list, "nothing", &error), ERR_OK);
  ck_assert_uint_eq(list.count, 0);
  store_scorecards_fini(&list);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/scorecards");
  TCase *tcase = suite_case(suite, "scorecards", setup, teardown);
  tcase_add_test(tcase, test_round_trip);
  tcase_add_test(tcase, test_document_alone);
  tcase_add_test(tcase, test_large_document);
  tcase_add_test(tcase, test_refusals);
  tcase_add_test(tcase, test_order_of_the_answer);
  return suite_run(suite);
}
