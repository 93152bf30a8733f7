/* A review as Markdown against tests/golden/review.md, which is read by people when it changes (FITD_WRITE_GOLDEN=1 writes
   it), and what must not break a table. */
#include "api/review.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void teardown(void)
{
  scratch_release();
}

static const char *markdown_of(const json_t *review)
{
  char *text = review_markdown(review);
  const char *kept;
  ck_assert_ptr_nonnull(text);
  kept = scratch_printf("%s", text);
  free(text);
  return kept;
}

START_TEST(golden)
{
  const char *path = suite_source_path("tests/golden/review.md");
  const json_t *review =
      scratch_json_steal(json_load_file(suite_source_path("tests/golden/review.json"), JSON_REJECT_DUPLICATES, NULL));
  const char *text = markdown_of(review);
  if (getenv("FITD_WRITE_GOLDEN") != NULL) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
  }
  ck_assert_str_eq(text, scratch_read_file(path));
}
END_TEST

START_TEST(cells_hold_no_bars_and_lines)
{
  const json_t *review =
      scratch_json_steal(json_pack("{s:s, s:s, s:[{s:s, s:s}], s:[], s:[], s:[]}", "week", "2026-W50", "state", "open",
                                   "workloads", "workload", "chat", "team", "a|b\nc", "items", "sign_offs", "addenda"));
  ck_assert_ptr_nonnull(strstr(markdown_of(review), "| chat | a\\|b c | not evaluated |"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("review_text");
  TCase *tcase = suite_case(suite, "review_text", NULL, teardown);
  tcase_add_test(tcase, golden);
  tcase_add_test(tcase, cells_hold_no_bars_and_lines);
  return suite_run(suite);
}
