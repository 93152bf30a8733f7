/* A bare config in, one screen out: over HTTP and as a command. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
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

static const char *config_path(const char *name)
{
  return suite_source_path(scratch_printf("tests/data/models/%s.json", name));
}

static json_t *advice(const char *query, const char *name)
{
  const struct reply *reply =
      web_post(&fitd, scratch_printf("/v1/advise%s", query), scratch_read_file(config_path(name)));
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(reply->json);
  return reply->json;
}

/* Llama-2-7B: 6,738,415,616 parameters, a KV head for every query head, stored in fp16: all four columns. */
START_TEST(every_gpu_has_its_variants)
{
  static const char *const variants[] = {"as_is", "gqa_8_1", "fp8", "gqa_8_1_fp8"};
  const json_t *document = advice("", "meta-llama--Llama-2-7b-hf"), *gpus = doc_array(document, "gpus");
  ck_assert_int_eq(doc_integer(document, "parameters"), 6738415616);
  ck_assert_str_eq(doc_text(document, "traffic.kind"), "chat");
  ck_assert_uint_eq(json_array_size(gpus), 8);
  for (size_t i = 0; i < json_array_size(gpus); i++)
    for (size_t k = 0; k < 4; k++) {
      const json_t *card = json_object_get(json_array_get(gpus, i), variants[k]);
      if (json_is_null(card) || strcmp(doc_text(card, "verdict"), "fit") != 0)
        continue;
      ck_assert_int_ge(doc_integer(card, "gpus"), 1);
      ck_assert_double_le(doc_number(card, "ttft_p99_ms"), 1000);
      ck_assert_double_le(doc_number(card, "itl_p99_ms"), 60);
      ck_assert_double_gt(doc_number(card, "monthly_usd"), 0);
      ck_assert_ptr_nonnull(doc_text(card, "limiter"));
    }
  ck_assert_str_eq(doc_text(json_array_get(gpus, 0), "fp8.verdict"), "fit");
}
END_TEST

/* Grouped by eight already. */
START_TEST(what_changes_nothing_has_no_column)
{
  const json_t *document = advice("?traffic=batch", "meta-llama--Meta-Llama-3-70B-Instruct");
  ck_assert(json_is_false(doc_at(document, "variants.1.applies")));
  ck_assert(json_is_true(doc_at(document, "variants.2.applies")));
  ck_assert(doc_is_null(document, "gpus.0.gqa_8_1"));
  ck_assert(doc_is_null(document, "traffic.ttft_p99_ms"));
}
END_TEST

START_TEST(the_rate_can_be_given)
{
  const json_t *little = advice("?traffic=batch&requests_per_s=0.5", "meta-llama--Llama-2-7b-hf");
  const json_t *much = advice("?traffic=batch&requests_per_s=100", "meta-llama--Llama-2-7b-hf");
  ck_assert_double_eq_tol(doc_number(much, "traffic.requests_per_s"), 100, 1e-9);
  ck_assert_double_gt(doc_number(much, "gpus.0.fp8.monthly_usd"), doc_number(little, "gpus.0.fp8.monthly_usd"));
}
END_TEST

START_TEST(markdown_is_a_table)
{
  const struct reply *reply =
      web_post(&fitd, "/v1/advise?format=md", scratch_read_file(config_path("meta-llama--Llama-2-7b-hf")));
  reply_assert_status(reply, 200);
  ck_assert_ptr_nonnull(strstr(reply->body, "| GPU "));
  ck_assert_ptr_nonnull(strstr(reply->body, "GQA 8:1 + FP8"));
}
END_TEST

static const struct {
  const char *query, *body, *pointer;
} REFUSALS[] = {
    {"?traffic=chatt", NULL, "?traffic"},
    {"?requests_per_s=fast", NULL, "?requests_per_s"},
    {"?requests_per_s=-1", NULL, "?requests_per_s"},
    {"?traffic=rag", NULL, "?traffic"}, /* 8,704 tokens; the model is made for 4,096 */
    {"", "{\"model_type\":\"llama\",\"hidden_size\":-4,\"num_hidden_layers\":2}", "/hidden_size"},
};

START_TEST(refusals_name_the_field)
{
  const char *body =
      REFUSALS[_i].body != NULL ? REFUSALS[_i].body : scratch_read_file(config_path("meta-llama--Llama-2-7b-hf"));
  const json_t *problem =
      reply_assert_problem(web_post(&fitd, scratch_printf("/v1/advise%s", REFUSALS[_i].query), body), 422);
  ck_assert_msg(doc_fault(problem, REFUSALS[_i].pointer) != NULL, "%s", doc_brief(problem));
}
END_TEST

START_TEST(the_command_prints_a_screen_or_json)
{
  const char *path = config_path("meta-llama--Llama-2-7b-hf");
  const struct command_result text = command_run((const char *const[]){"advise", path, NULL}, NULL);
  const struct command_result json =
      command_run((const char *const[]){"advise", "--traffic", "batch", "--json", path, NULL}, NULL);
  ck_assert_msg(text.exit_status == 0, "%s", text.err);
  ck_assert_ptr_nonnull(strstr(text.out, "| GPU "));
  ck_assert_int_eq(json.exit_status, 0);
  ck_assert_str_eq(doc_text(doc_parse(json.out), "traffic.kind"), "batch");
}
END_TEST

START_TEST(the_command_refuses_with_the_reason)
{
  const struct command_result none = command_run((const char *const[]){"advise", NULL}, NULL);
  const struct command_result bad = command_run((const char *const[]){"advise", "-", NULL}, "{\"model_type\":\"x\"}");
  const struct command_result word = command_run(
      (const char *const[]){"advise", "--traffic", "chatt", config_path("meta-llama--Llama-2-7b-hf"), NULL}, NULL);
  ck_assert_int_eq(none.exit_status, 2);
  ck_assert_int_eq(bad.exit_status, 2);
  ck_assert_int_eq(word.exit_status, 2);
  ck_assert_msg(strstr(word.err, "\"chat\"") != NULL, "%s", word.err);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("advise");
  TCase *tcase = suite_case(suite, "advise", setup, teardown);
  tcase_add_test(tcase, every_gpu_has_its_variants);
  tcase_add_test(tcase, what_changes_nothing_has_no_column);
  tcase_add_test(tcase, the_rate_can_be_given);
  tcase_add_test(tcase, markdown_is_a_table);
  tcase_add_loop_test(tcase, refusals_name_the_field, 0, sizeof REFUSALS / sizeof REFUSALS[0]);
  tcase_add_test(tcase, the_command_prints_a_screen_or_json);
  tcase_add_test(tcase, the_command_refuses_with_the_reason);
  return suite_run(suite);
}
