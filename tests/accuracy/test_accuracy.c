/* The gate: predictions of the open table must stay as right as figures.json says, out of sample. Also the command as its
   users call it: what it prints, and what it refuses. */
#include "api/api.h"
#include "tests/lib/command.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#define TOLERANCE 0.02 /* of a figure itself */

static void setup(void)
{
}

static void teardown(void)
{
  scratch_release();
}

static char *read_here(const char *name)
{
  return scratch_read_file(suite_source_path(scratch_printf("tests/accuracy/%s", name)));
}

/* Each group by the constants that were fitted without it. */
static json_t *report_out_of_sample(void)
{
  const char *table = read_here("measured_open.csv");
  struct api_accuracy request = {
      .csv = table, .csv_len = strlen(table), .parameters = read_here("folds.json"), .form = API_ACCURACY_JSON};
  struct error e = {.code = ERR_OK};
  char *answer = NULL;
  json_t *document;
  ck_assert_msg(api_accuracy(&answer, &request, &e) == ERR_OK, "%s", e.message);
  document = doc_parse(answer);
  free(answer);
  return document;
}

static double figure(const json_t *report, const char *path)
{
  if (strcmp(path, "answered") == 0)
    return doc_number(report, "answered") / doc_number(report, "rows");
  return doc_number(report, scratch_printf("metrics.%s", path));
}

START_TEST(no_figure_got_worse)
{
  const json_t *report = report_out_of_sample();
  json_t *figures = doc_at(doc_parse(read_here("figures.json")), "figures"), *row;
  const char *path;
  ck_assert_uint_ge(json_object_size(figures), 20);
  json_object_foreach(figures, path, row)
  {
    const double was = doc_number(row, "value"), is = figure(report, path);
    const bool lower_is_better = strcmp(doc_text(row, "better"), "lower") == 0;
    const bool is_worse = lower_is_better ? is > was * (1 + TOLERANCE) : is < was * (1 - TOLERANCE);
    ck_assert_msg(!is_worse, "%s was %.4f and is %.4f; `make accuracy` shows where", path, was, is);
  }
}
END_TEST

START_TEST(what_held_still_holds)
{
  const json_t *report = report_out_of_sample(), *row;
  const json_t *must = doc_array(doc_parse(read_here("figures.json")), "must");
  size_t i;
  ck_assert_uint_ge(json_array_size(must), 10);
  json_array_foreach(must, i, row)
  {
    const char *path = doc_text(row, "figure");
    const double is = figure(report, path), least = doc_number(row, "at_least"), most = doc_number(row, "at_most");
    if (json_is_true(doc_at(row, "is_reached")))
      ck_assert_msg(is >= least && is <= most, "%s is %.4f, outside of %.2f … %.2f", path, is, least, most);
  }
}
END_TEST

/* ---- The command ---- */

#define HEADER                                                                                                         \
  "id,model,hw,n_gpus,tp,pp,ep,attention_dp,weight_precision,kv_precision,isl,osl,length_scale,"                       \
  "concurrency_or_batch,arrival,metric,value,runtime,runtime_version\n"
#define LINE(id, model, hardware, metric, value)                                                                       \
  id "," model "," hardware ",1,1,1,,1,bf16,bf16,1024,256,1,8,closed-loop," metric "," value ",vllm,0.19.0\n"
#define GOOD LINE("a1", "meta-llama/Meta-Llama-3.1-8B", "h100-sxm-80gb", "tpot_ms_mean", "8.0")

static struct command_result run(const char *input, const char *first, const char *second, const char *third)
{
  const char *const arguments[] = {"accuracy", first, second, third, NULL};
  return command_run(arguments, input);
}

START_TEST(three_forms_of_one_answer)
{
  const struct command_result table = run(HEADER GOOD, "-", NULL, NULL);
  const struct command_result rows = run(HEADER GOOD, "-", "--rows", NULL);
  const struct command_result json = run(HEADER GOOD, "-", "--json", NULL);
  ck_assert_int_eq(table.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(table.out, "1 rows, 1 answered (100.0 %), 0 refused"));
  ck_assert_int_eq(rows.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(rows.out, "\na1,tpot,closed,h100-sxm-80gb,meta-llama/Meta-Llama-3.1-8B,8,"));
  ck_assert_int_eq(json.exit_status, 0);
  ck_assert_int_eq(doc_integer(doc_parse(json.out), "metrics.tpot.n"), 1);
}
END_TEST

START_TEST(rows_that_can_not_be_answered_are_refused_by_name)
{
  const struct command_result result =
      run(HEADER GOOD LINE("a2", "no/such", "h100-sxm-80gb", "tpot_ms_mean", "8")
              LINE("a3", "meta-llama/Meta-Llama-3.1-8B", "abacus", "tpot_ms_mean", "8")
                  LINE("a4", "meta-llama/Meta-Llama-3.1-8B", "h100-sxm-80gb", "smiles_per_s", "8")
                      LINE("a5", "meta-llama/Meta-Llama-3.1-8B", "h100-sxm-80gb", "tpot_ms_mean", "-1"),
          "-", "--json", NULL);
  const json_t *doc = doc_parse(result.out);
  ck_assert_int_eq(result.exit_status, 0);
  ck_assert_int_eq(doc_integer(doc, "answered"), 1);
  ck_assert_str_eq(doc_text(doc, "refused.0.reason"), "unknown model \"no/such\"");
  ck_assert_str_eq(doc_text(doc, "refused.1.reason"), "unknown hardware \"abacus\"");
  ck_assert_str_eq(doc_text(doc, "refused.2.reason"), "unknown metric \"smiles_per_s\"");
  ck_assert_str_eq(doc_text(doc, "refused.3.reason"), "value \"-1\" is not a positive number");
}
END_TEST

static void expect_invalid(const struct command_result *result, const char *message)
{
  ck_assert_int_eq(result->exit_status, 2);
  ck_assert_msg(strstr(result->err, message) != NULL, "\"%s\" is not in: %s", message, result->err);
  ck_assert_str_eq(result->out, "");
}

START_TEST(tables_that_are_none)
{
  struct command_result result = run("id,model\n1,x\n", "-", NULL, NULL);
  expect_invalid(&result, "the table has no column \"hw\"");
  result = run("", "-", NULL, NULL);
  expect_invalid(&result, "the table is empty");
  result = run(HEADER GOOD "a2,\"open\n", "-", NULL, NULL);
  expect_invalid(&result, "line 3: a quoted field has no closing quote");
}
END_TEST

START_TEST(wrong_usage)
{
  struct command_result result = run(NULL, NULL, NULL, NULL);
  expect_invalid(&result, "accuracy needs a FILE");
  result = run(NULL, "/nowhere/table.csv", NULL, NULL);
  expect_invalid(&result, "/nowhere/table.csv can not be read: No such file");
  result = run(NULL, "-", "--speed", NULL);
  expect_invalid(&result, "\"--speed\" is not known here");
  result = run(HEADER GOOD, "-", "--models", "/nowhere");
  expect_invalid(&result, "/nowhere can not be read");
}
END_TEST

static const char *write_file(const char *name, const char *text)
{
  char dir[256];
  const char *path;
  FILE *file;
  suite_make_dir(dir, sizeof dir);
  path = scratch_printf("%s/%s", dir, name);
  file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(text, file), 0);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

static double predicted_with(const char *constants)
{
  const char *const arguments[] = {"accuracy", "-", "--rows", "--constants", write_file("c.json", constants), NULL};
  const struct command_result rows = command_run(arguments, HEADER GOOD);
  const char *at = strstr(rows.out, ",8,");
  ck_assert_msg(at != NULL, "%s%s", rows.out, rows.err);
  return strtod(at + 3, NULL);
}

/* step_us is time of every step: 1000 µs more of it are 1 ms more of TPOT in a batch that decodes alone, and a little more
   where prompts share the steps. A fold counts for its own hardware and model alone. */
START_TEST(constants_by_file)
{
  const double none = predicted_with("{\"constants\":{\"step_us\":0}}");
  const double more = predicted_with("{\"constants\":{\"step_us\":1000}}");
  const double fold = predicted_with("{\"constants\":{\"step_us\":0},\"folds\":[{\"hw\":\"h100-sxm-80gb\",\"model\":"
                                     "\"meta-llama/Meta-Llama-3.1-8B\",\"constants\":{\"step_us\":1000}}]}");
  const double other = predicted_with("{\"constants\":{\"step_us\":0},\"folds\":[{\"hw\":\"h200-sxm-141gb\",\"model\":"
                                      "\"meta-llama/Meta-Llama-3.1-8B\",\"constants\":{\"step_us\":1000}}]}");
  ck_assert_double_ge(more - none, 0.99);
  ck_assert_double_le(more - none, 1.2);
  ck_assert_double_eq_tol(fold, more, 1e-9);
  ck_assert_double_eq_tol(other, none, 1e-9);
}
END_TEST

START_TEST(constants_that_are_none)
{
  struct command_result result =
      run(HEADER GOOD, "-", "--constants", write_file("c.json", "{\"constants\":{\"x\":1}}"));
  expect_invalid(&result, "/constants/x: the field \"x\" is not known here");
  result = run(HEADER GOOD, "-", "--constants", write_file("c.json", "{\"step_us\":1}"));
  expect_invalid(&result, "/step_us: the field \"step_us\" is not known here");
  result = run(HEADER GOOD, "-", "--constants", write_file("c.json", "{\"folds\":[{\"hw\":\"a\"}]}"));
  expect_invalid(&result, "/folds/0/model");
  result = run(HEADER GOOD, "-", "--constants", write_file("c.json", "{"));
  expect_invalid(&result, "line 1");
}
END_TEST

/* A config in the folder goes before the catalogue, and one that can not be read refuses its rows. */
START_TEST(models_by_folder)
{
  const char *path = write_file("meta-llama--Meta-Llama-3.1-8B.json", "{\"model_type\": 3}");
  const char *const arguments[] = {
      "accuracy", "-", "--json", "--models", scratch_printf("%.*s", (int)(strrchr(path, '/') - path), path), NULL};
  const struct command_result bad = command_run(arguments, HEADER GOOD);
  const char *const shared[] = {"accuracy", "-", "--rows", "--models", suite_source_path("tests/data/models"), NULL};
  const struct command_result good = command_run(shared, HEADER GOOD);
  ck_assert_int_eq(bad.exit_status, 0);
  ck_assert_ptr_nonnull(
      strstr(doc_text(doc_parse(bad.out), "refused.0.reason"), "config of meta-llama/Meta-Llama-3.1-8B: /"));
  ck_assert_int_eq(good.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(good.out, "\na1,tpot"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("accuracy");
  TCase *gate = suite_case(suite, "gate", setup, teardown);
  TCase *command = suite_case(suite, "command", setup, teardown);
  tcase_add_test(gate, no_figure_got_worse);
  tcase_add_test(gate, what_held_still_holds);
  tcase_add_test(command, three_forms_of_one_answer);
  tcase_add_test(command, rows_that_can_not_be_answered_are_refused_by_name);
  tcase_add_test(command, tables_that_are_none);
  tcase_add_test(command, wrong_usage);
  tcase_add_test(command, constants_by_file);
  tcase_add_test(command, constants_that_are_none);
  tcase_add_test(command, models_by_folder);
  return suite_run(suite);
}
