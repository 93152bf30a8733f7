/* Copies of the database: of one moment while it is written to, checked, never over another file; and the way back. */
#include "tests/storage/fixture.h"

#include <sys/stat.h>
#include <unistd.h>

static char copy[260];

static void name_copy(void)
{
  (void)snprintf(copy, sizeof copy, "%s/copy.db", dir);
}

static struct store_options options_for(const char *file)
{
  return (struct store_options){.path = file, .readers = 1, .log = keep_log};
}

static void put_evaluation(unsigned number)
{
  struct store_evaluation row = make_evaluation(T0_MS, number, "chat");
  ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
}

static size_t evaluations_in(const char *file)
{
  const struct store_options options = options_for(file);
  const struct store_history_filter filter = {.workload = "chat"};
  const struct store_page page = {.limit = 100};
  struct store_evaluations list;
  struct store *opened;
  size_t count;
  ck_assert_err(store_open(&opened, &options, &error), ERR_OK);
  ck_assert_err(store_evaluation_list(opened, &list, &filter, &page, &error), ERR_OK);
  count = list.count;
  store_evaluations_fini(&list);
  store_close(opened);
  return count;
}

/* The store is open and has rows in its journal only; what comes after the copy is not in it. */
START_TEST(test_copy_of_an_open_database)
{
  const struct store_options options = options_for(path);
  struct stat status;
  name_copy();
  put_evaluation(1);
  put_evaluation(2);
  ck_assert_err(store_backup(&options, copy, &error), ERR_OK);
  put_evaluation(3);
  ck_assert_uint_eq(evaluations_in(copy), 2);
  ck_assert_int_eq(stat(copy, &status), 0);
  ck_assert_uint_eq(status.st_mode & 0777, 0600);
}
END_TEST

START_TEST(test_nothing_is_overwritten)
{
  const struct store_options options = options_for(path);
  name_copy();
  ck_assert_err(store_backup(&options, copy, &error), ERR_OK);
  ck_assert_err(store_backup(&options, copy, &error), ERR_CONFLICT);
  ck_assert_says("exists already");
}
END_TEST

START_TEST(test_what_is_no_database_is_refused)
{
  const struct store_options options = options_for(path), missing = options_for("/nowhere/fit.db");
  char *aside;
  FILE *file;
  name_copy();
  ck_assert_err(store_backup(&missing, copy, &error), ERR_NOT_FOUND);
  file = fopen(copy, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs("this is a text and no database at all, however long it goes on", file), 0);
  ck_assert_int_eq(fclose(file), 0);
  store_close(store);
  store = NULL;
  ck_assert_err(store_restore(&aside, copy, &options, &error), ERR_UNAVAILABLE);
  ck_assert_says("not a database");
  ck_assert_ptr_nonnull(strstr(last_log, "not a database"));
  ck_assert_msg(strstr(last_log, "PRAGMA") == NULL, "%s", last_log); /* the statement has nothing to do with it */
  ck_assert_ptr_null(aside);
  ck_assert_uint_eq(evaluations_in(path), 0); /* still there */
}
END_TEST

static void damage(const char *file)
{
  char junk[64]; /* over the head of the fourth page: 0xff is no kind of page */
  FILE *to = fopen(file, "r+");
  memset(junk, 0xff, sizeof junk);
  ck_assert_ptr_nonnull(to);
  ck_assert_int_eq(fseek(to, 3 * STORE_PAGE_BYTES, SEEK_SET), 0);
  ck_assert_uint_eq(fwrite(junk, 1, sizeof junk, to), sizeof junk);
  ck_assert_int_eq(fclose(to), 0);
}

START_TEST(test_damaged_copy_is_not_restored)
{
  const struct store_options options = options_for(path);
  char *aside;
  name_copy();
  put_evaluation(1);
  ck_assert_err(store_backup(&options, copy, &error), ERR_OK);
  damage(copy);
  store_close(store);
  store = NULL;
  ck_assert_err(store_restore(&aside, copy, &options, &error), ERR_UNAVAILABLE);
  ck_assert_uint_eq(evaluations_in(path), 1);
}
END_TEST

START_TEST(test_restore_keeps_the_old_one)
{
  const struct store_options options = options_for(path);
  char *aside;
  name_copy();
  put_evaluation(1);
  ck_assert_err(store_backup(&options, copy, &error), ERR_OK);
  put_evaluation(2);
  ck_assert_err(store_restore(&aside, copy, &options, &error), ERR_BUSY);
  store_close(store);
  store = NULL;
  ck_assert_err(store_restore(&aside, copy, &options, &error), ERR_OK);
  ck_assert_ptr_nonnull(aside);
  ck_assert_uint_eq(evaluations_in(path), 1);
  ck_assert_uint_eq(evaluations_in(aside), 2);
  free(aside);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("backup");
  TCase *tcase = suite_case(suite, "backup", setup, teardown);
  tcase_add_test(tcase, test_copy_of_an_open_database);
  tcase_add_test(tcase, test_nothing_is_overwritten);
  tcase_add_test(tcase, test_what_is_no_database_is_refused);
  tcase_add_test(tcase, test_damaged_copy_is_not_restored);
  tcase_add_test(tcase, test_restore_keeps_the_old_one);
  return suite_run(suite);
}
