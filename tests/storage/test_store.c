/* The store as a whole: how its file is set up, who may open it, and what it says when the file can not be used. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/storage/fixture.h"

static void reopen(void)
{
  store_close(store);
  store = NULL;
  ck_assert_err(open_again(&store), ERR_OK);
}

/* ---- Settings, asked of the connections themselves ---- */

static const struct {
  const char *pragma;
  int64_t writer, reader;
} settings[] = {{"PRAGMA synchronous", 2, 2}, /* FULL */
                {"PRAGMA foreign_keys", 1, 1},         {"PRAGMA trusted_schema", 0, 0},
                {"PRAGMA cell_size_check", 1, 1},      {"PRAGMA busy_timeout", 5000, 5000},
                {"PRAGMA temp_store", 2, 2}, /* MEMORY */
                {"PRAGMA cache_size", -65536, -16384}, {"PRAGMA wal_autocheckpoint", 0, 0},
                {"PRAGMA page_size", 8192, 8192},      {"PRAGMA application_id", 0x66697464, 0x66697464}};

static int64_t ask(struct connection *c, const char *pragma)
{
  int64_t answer = -1;
  ck_assert_err(sql_number(&answer, c, pragma, &error), ERR_OK);
  return answer;
}

static bool is_on(struct connection *c, int option)
{
  int value = -1;
  ck_assert_int_eq(sqlite3_db_config(c->db, option, -1, &value), SQLITE_OK);
  return value == 1;
}

static void check_settings(struct connection *c, bool is_writer)
{
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    const int64_t expected = is_writer ? settings[i].writer : settings[i].reader;
    const int64_t answer = ask(c, settings[i].pragma);
    ck_assert_msg(answer == expected, "%s: %lld", settings[i].pragma, (long long)answer);
  }
  ck_assert(is_on(c, SQLITE_DBCONFIG_DEFENSIVE));
  ck_assert(!is_on(c, SQLITE_DBCONFIG_DQS_DML) && !is_on(c, SQLITE_DBCONFIG_DQS_DDL));
  ck_assert(is_on(c, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE) == !is_writer);
  ck_assert(sqlite3_db_readonly(c->db, "main") == (is_writer ? 0 : 1));
}

static enum err look_at_writer(struct store_tx *tx, void *cls, struct error *e)
{
  (void)cls;
  (void)e;
  check_settings(tx->connection, true);
  return ERR_OK;
}

START_TEST(test_settings)
{
  struct connection *reader = readers_take(&store->readers);
  check_settings(reader, false);
  readers_give(&store->readers, reader);
  ck_assert_err(write_row(look_at_writer, NULL), ERR_OK);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
}
END_TEST

START_TEST(test_files)
{
  struct stat status;
  const char *wal = scratch_printf("%s-wal", path);
  ck_assert_int_eq(stat(path, &status), 0);
  ck_assert_uint_eq(status.st_mode & 0777u, 0600u);
  ck_assert_int_eq(stat(wal, &status), 0);
  ck_assert_uint_eq(status.st_mode & 0777u, 0600u);
  ck_assert_int_eq(stat(scratch_printf("%s.lock", path), &status), 0);
  store_close(store);
  store = NULL;
  ck_assert_int_eq(stat(wal, &status), -1); /* folded into the one file that is worth copying */
  ck_assert_int_eq(stat(path, &status), 0);
}
END_TEST

START_TEST(test_reopen_keeps_rows)
{
  struct store_evaluation row = make_evaluation(T0_MS, 1, "chat"), got;
  ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
  reopen();
  ck_assert_err(store_evaluation_get(store, &got, row.id, &error), ERR_OK);
  store_evaluation_fini(&got);
  ck_assert_err(store_check(store, &error), ERR_OK);
}
END_TEST

START_TEST(test_one_process_at_a_time)
{
  struct store *second = NULL;
  char link_path[sizeof path];
  ck_assert_err(open_again(&second), ERR_BUSY);
  ck_assert_ptr_null(second);
  ck_assert_says("another process has the database");
  (void)snprintf(link_path, sizeof link_path, "%s/other-name.db", dir);
  ck_assert_int_eq(symlink(path, link_path), 0);
  (void)snprintf(path, sizeof path, "%s", link_path);
  ck_assert_err(open_again(&second), ERR_BUSY); /* the same file under another name */
  reopen();
}
END_TEST

START_TEST(test_places_without_a_database)
{
  (void)snprintf(path, sizeof path, "%s/missing/fit.db", dir);
  ck_assert_err(open_again(&store), ERR_UNAVAILABLE);
  ck_assert_says("No such file or directory");
  (void)snprintf(path, sizeof path, "%s", dir);
  ck_assert_err(open_again(&store), ERR_UNAVAILABLE);
}
END_TEST

/* ---- When the file can not be used ---- */

static enum err execute(struct store_tx *tx, void *cls, struct error *e)
{
  const char *sql = cls;
  ck_assert_int_eq(sqlite3_exec(tx->connection->db, sql, NULL, NULL, NULL), SQLITE_OK);
  (void)e;
  return ERR_OK;
}

static struct store_evaluation make_large(unsigned sequence)
{
  struct store_evaluation row = make_evaluation(T0_MS, sequence, "chat");
  row.document = scratch_alloc(400001);
  memset(row.document, 'x', 400000);
  return row;
}

/* The writer looks once a second whether writing works again. */
static bool gets_well(void)
{
  for (int i = 0; i < 100 && store_check(store, &error) != ERR_OK; i++)
    suite_sleep_s(0.1);
  return store_check(store, &error) == ERR_OK;
}

START_TEST(test_full)
{
  struct store_evaluation large = make_large(1), small = make_evaluation(T0_MS, 2, "chat");
  struct store_evaluation got;
  ck_assert_err(write_row(execute, text("PRAGMA max_page_count = 40")), ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &large), ERR_UNAVAILABLE);
  ck_assert_says("the disk is full");
  ck_assert_err(store_check(store, &error), ERR_UNAVAILABLE);
  ck_assert_says("the last write failed: the database can not grow: the disk is full");
  ck_assert_err(store_evaluation_get(store, &got, large.id, &error), ERR_NOT_FOUND); /* reading goes on */
  ck_assert_err(write_row(execute, text("PRAGMA max_page_count = 100000")), ERR_OK);
  ck_assert(gets_well());
  ck_assert_err(write_row(insert_evaluation, &large), ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &small), ERR_OK);
}
END_TEST

START_TEST(test_a_write_that_works_makes_it_well)
{
  struct store_evaluation large = make_large(1), small = make_evaluation(T0_MS, 2, "chat");
  ck_assert_err(write_row(execute, text("PRAGMA max_page_count = 40")), ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &large), ERR_UNAVAILABLE);
  ck_assert_err(write_row(execute, text("PRAGMA max_page_count = 100000")),
                ERR_OK); /* writes nothing, proves nothing */
  ck_assert_err(store_check(store, &error), ERR_UNAVAILABLE);
  ck_assert_err(write_row(insert_evaluation, &small), ERR_OK);
  ck_assert_err(store_check(store, &error), ERR_OK);
}
END_TEST

START_TEST(test_read_only)
{
  struct store_evaluation row = make_evaluation(T0_MS, 1, "chat");
  ck_assert_err(write_row(execute, text("PRAGMA query_only = ON")), ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &row), ERR_UNAVAILABLE); /* already its BEGIN is refused */
  ck_assert_says("can not be written");
  ck_assert_err(store_check(store, &error), ERR_UNAVAILABLE);
}
END_TEST

/* Permissions bind everybody but root, so a child gives that up where it has it. Opening must fail with these words. */
static void check_refused(mode_t file_mode, mode_t dir_mode, const char *words)
{
  int status = -1;
  pid_t child;
  store_close(store);
  store = NULL;
  ck_assert_int_eq(chmod(path, file_mode) | chmod(dir, dir_mode), 0);
  child = fork();
  if (child == 0) {
    const uid_t nobody = 65534;
    if (geteuid() == 0 && setresuid(nobody, nobody, nobody) != 0)
      _exit(2);
    _exit(open_again(&store) == ERR_UNAVAILABLE && strstr(error.message, words) != NULL ? 0 : 1);
  }
  ck_assert_int_gt(child, 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(chmod(path, 0600) | chmod(dir, 0700), 0);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
  ck_assert_err(open_again(&store), ERR_OK);
}

static void give_away(const char *suffix)
{
  const uid_t nobody = 65534;
  if (geteuid() == 0)
    ck_assert_int_eq(chown(scratch_printf("%s%s", path, suffix), nobody, nobody), 0);
}

START_TEST(test_read_only_places)
{
  give_away("");
  give_away(".lock");
  if (geteuid() == 0)
    ck_assert_int_eq(chown(dir, 65534, 65534) | chmod(suite_dir(), 0711), 0);
  check_refused(0400, 0700, "the database file can not be written");
  check_refused(0600, 0500, "the directory of the database can not be written");
}
END_TEST

/* The next two run in a process of their own, because the limit is the process's. They exit with the number of the step
   that went wrong. */
static bool limit_files(rlim_t bytes)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
    return false;
  limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
  return signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static int meet_file_limit(void)
{
  struct store_evaluation row = make_large(1);
  if (open_again(&store) != ERR_OK || !limit_files(300000))
    return 1;
  if (write_row(insert_evaluation, &row) != ERR_UNAVAILABLE)
    return 2;
  if (store_check(store, &error) != ERR_UNAVAILABLE)
    return 3;
  if (!limit_files(RLIM_INFINITY) || !gets_well())
    return 4;
  if (write_row(insert_evaluation, &row) != ERR_OK)
    return 5;
  store_close(store);
  return 0;
}

/* Has the checkpoint come at once, and lets it find no room. */
static enum err block_checkpoint(struct store_tx *tx, void *cls, struct error *e)
{
  (void)cls;
  tx->store->writer.wal_pages_max = 0;
  return limit_files(8192) ? ERR_OK : error_set(e, ERR_INTERNAL, "", "no limit can be set");
}

static bool is_failing(enum store_duty duty)
{
  bool answer;
  pthread_mutex_lock(&store->health_mutex);
  answer = store->health[duty].is_failing;
  pthread_mutex_unlock(&store->health_mutex);
  return answer;
}

static int meet_file_limit_at_checkpoint(void)
{
  struct store_evaluation row;
  if (open_again(&store) != ERR_OK)
    return 1;
  row = make_evaluation(T0_MS, 1, "chat");
  if (write_row(insert_evaluation, &row) != ERR_OK || write_row(block_checkpoint, NULL) != ERR_OK)
    return 2;
  for (int i = 0; i < 100 && !is_failing(DUTY_CHECKPOINT); i++)
    suite_sleep_s(0.1);
  if (!is_failing(DUTY_CHECKPOINT) || store_check(store, &error) != ERR_UNAVAILABLE)
    return 3;
  if (!limit_files(RLIM_INFINITY) || !gets_well())
    return 4;
  store_close(store);
  return 0;
}

static void check_in_child(int (*steps)(void))
{
  int status = -1;
  const pid_t child = fork();
  if (child == 0)
    _exit(steps());
  ck_assert_int_gt(child, 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "step %d, status %x", WEXITSTATUS(status), status);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM evaluation"), 1);
}

START_TEST(test_file_limit)
{
  check_in_child(meet_file_limit);
}
END_TEST

START_TEST(test_file_limit_at_checkpoint)
{
  check_in_child(meet_file_limit_at_checkpoint);
}
END_TEST

/* ---- Damage ---- */

static void overwrite_page(int64_t page)
{
  unsigned char garbage[8192];
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  ck_assert_int_ge(fd, 0);
  memset(garbage, 0xa5, sizeof garbage);
  ck_assert_int_eq(pwrite(fd, garbage, sizeof garbage, (off_t)((page - 1) * 8192)), sizeof garbage);
  ck_assert_int_eq(close(fd), 0);
}

START_TEST(test_damaged_page)
{
  struct store_evaluation row = make_evaluation(T0_MS, 1, "chat"), got;
  int64_t page;
  ck_assert_err(write_row(insert_evaluation, &row), ERR_OK);
  store_close(store);
  store = NULL;
  page = raw_number("SELECT rootpage FROM sqlite_schema WHERE name = 'evaluation'");
  overwrite_page(page);
  ck_assert_err(open_again(&store), ERR_OK);
  ck_assert_err(store_evaluation_get(store, &got, row.id, &error), ERR_UNAVAILABLE);
  ck_assert_says("damaged");
  ck_assert_ptr_null(got.id);
  row.id = make_id(T0_MS, 2);
  ck_assert_err(write_row(insert_evaluation, &row), ERR_UNAVAILABLE);
  ck_assert_err(store_check(store, &error), ERR_UNAVAILABLE);
  ck_assert_says("damaged");
}
END_TEST

START_TEST(test_damaged_first_page)
{
  store_close(store);
  store = NULL;
  overwrite_page(1);
  ck_assert_err(open_again(&store), ERR_UNAVAILABLE);
  ck_assert_says("first page is damaged");
}
END_TEST

START_TEST(test_check_reads)
{
  ck_assert_err(store_check(store, &error), ERR_OK);
  ck_assert_err(write_row(execute, text("UPDATE schema_migration SET version = 77 WHERE version = 1")), ERR_OK);
  ck_assert_err(store_check(store, &error), ERR_UNAVAILABLE);
  ck_assert_says(scratch_printf("schema version 77 where %zu was opened", store_migration_count));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/store");
  TCase *opened = suite_case(suite, "opened", setup, teardown);
  TCase *closed = suite_case(suite, "closed", setup_dir, teardown);
  tcase_add_test(opened, test_settings);
  tcase_add_test(opened, test_files);
  tcase_add_test(opened, test_reopen_keeps_rows);
  tcase_add_test(opened, test_one_process_at_a_time);
  tcase_add_test(opened, test_full);
  tcase_add_test(opened, test_a_write_that_works_makes_it_well);
  tcase_add_test(opened, test_read_only);
  tcase_add_test(opened, test_read_only_places);
  tcase_add_test(opened, test_damaged_page);
  tcase_add_test(opened, test_damaged_first_page);
  tcase_add_test(opened, test_check_reads);
  tcase_add_test(closed, test_places_without_a_database);
  tcase_add_test(closed, test_file_limit);
  tcase_add_test(closed, test_file_limit_at_checkpoint);
  return suite_run(suite);
}
