/* The writer: groups of jobs, what a failing one does to the others, and that an answered write outlives the process. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/storage/fixture.h"

/* A row without scratch, so that any thread can make one. */
struct small_row {
  struct store_evaluation row;
  char id[40];
};

static char words[] = "chat", none[] = "", document[] = "{\"a\":[1,2,3]}";

static struct store_evaluation *make_small(struct small_row *small, unsigned number)
{
  (void)snprintf(small->id, sizeof small->id, "%08x-%04x-7000-8000-0000%08x", (unsigned)(T0_MS >> 16),
                 (unsigned)(T0_MS & 0xffff), number);
  small->row = (struct store_evaluation){.id = small->id,
                                         .created_at_ms = T0_MS,
                                         .workload = words,
                                         .model = words,
                                         .label = none,
                                         .core_version = words,
                                         .sketch_digest = words,
                                         .sketch = document,
                                         .document = document};
  return &small->row;
}

static enum err write_small(struct store *to, unsigned number)
{
  struct small_row small;
  return store_write(to, "small", insert_evaluation, make_small(&small, number), NULL);
}

/* ---- Many writers and readers ---- */

#define WRITERS 8
#define ROWS_EACH 150

static atomic_bool is_writing;

static void *write_rows(void *cls)
{
  const unsigned first = *(const unsigned *)cls;
  size_t failed_count = 0;
  for (unsigned i = 0; i < ROWS_EACH; i++)
    failed_count += write_small(store, first + i) != ERR_OK;
  return failed_count == 0 ? NULL : cls;
}

/* Rows never disappear and a list is never torn: counts only grow, ids only fall. */
static void *read_rows(void *cls)
{
  const struct store_page page = {.limit = WRITERS * ROWS_EACH};
  const struct store_history_filter filter = {.workload = words};
  size_t last = 0;
  while (atomic_load(&is_writing)) {
    struct store_evaluations list;
    if (store_evaluation_list(store, &list, &filter, &page, NULL) != ERR_OK || list.count < last)
      return cls;
    last = list.count;
    for (size_t i = 1; i < list.count; i++)
      if (strcmp(list.rows[i - 1].id, list.rows[i].id) <= 0)
        return cls;
    store_evaluations_fini(&list);
  }
  return NULL;
}

START_TEST(test_threads)
{
  pthread_t writers[WRITERS], readers[4];
  unsigned firsts[WRITERS];
  void *failure;
  atomic_store(&is_writing, true);
  for (size_t i = 0; i < 4; i++) /* twice as many as there are connections */
    ck_assert_int_eq(pthread_create(&readers[i], NULL, read_rows, words), 0);
  for (unsigned i = 0; i < WRITERS; i++) {
    firsts[i] = i * ROWS_EACH;
    ck_assert_int_eq(pthread_create(&writers[i], NULL, write_rows, &firsts[i]), 0);
  }
  for (size_t i = 0; i < WRITERS; i++) {
    ck_assert_int_eq(pthread_join(writers[i], &failure), 0);
    ck_assert_ptr_null(failure);
  }
  atomic_store(&is_writing, false);
  for (size_t i = 0; i < 4; i++) {
    ck_assert_int_eq(pthread_join(readers[i], &failure), 0);
    ck_assert_ptr_null(failure);
  }
  ck_assert_int_eq(raw_number("SELECT count(DISTINCT id) FROM evaluation"), WRITERS * ROWS_EACH);
}
END_TEST

/* ---- One group, made by holding the writer until all jobs wait ---- */

enum deed { DEED_INSERT, DEED_INSERT_AND_REFUSE, DEED_LOOK, DEED_ROLL_BACK, DEED_END_SAVEPOINT };

struct member {
  enum deed deed;
  unsigned number;
  int64_t seen_inside, seen_outside; /* rows, by DEED_LOOK */
  pthread_t thread;
  enum err result;
  struct error error;
};

static sem_t is_held, is_let_go;
static sqlite3 *outside;

static int64_t count_rows(sqlite3 *db)
{
  sqlite3_stmt *statement = NULL;
  int64_t count = -1;
  if (sqlite3_prepare_v2(db, "SELECT count(*) FROM evaluation", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    count = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return count;
}

static enum err do_deed(struct store_tx *tx, void *cls, struct error *e)
{
  struct member *member = cls;
  struct small_row small;
  sqlite3 *db = tx->connection->db;
  enum err result;
  if (member->deed == DEED_LOOK) {
    member->seen_inside = count_rows(db);
    member->seen_outside = count_rows(outside);
    return ERR_OK;
  }
  result = store_evaluation_insert(tx, make_small(&small, member->number), e);
  if (result != ERR_OK)
    return result;
  if (member->deed == DEED_INSERT_AND_REFUSE)
    return error_set(e, ERR_PRECONDITION, "", "not like this");
  if (member->deed == DEED_ROLL_BACK && sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
    return error_set(e, ERR_INTERNAL, "", "there is nothing to roll back");
  if (member->deed == DEED_END_SAVEPOINT && sqlite3_exec(db, "RELEASE job", NULL, NULL, NULL) != SQLITE_OK)
    return error_set(e, ERR_INTERNAL, "", "there is no savepoint");
  return ERR_OK;
}

static enum err hold(struct store_tx *tx, void *cls, struct error *e)
{
  (void)tx;
  (void)cls;
  (void)e;
  sem_post(&is_held);
  sem_wait(&is_let_go);
  return ERR_OK;
}

static void *hold_writer(void *cls)
{
  return store_write(store, "hold", hold, NULL, NULL) == ERR_OK ? NULL : cls;
}

static void *be_member(void *cls)
{
  struct member *member = cls;
  member->result = store_write(store, "member", do_deed, member, &member->error);
  return NULL;
}

static size_t queued_count(void)
{
  size_t count;
  pthread_mutex_lock(&store->writer.mutex);
  count = store->writer.queued_count;
  pthread_mutex_unlock(&store->writer.mutex);
  return count;
}

/* Runs the members as one group, in their order. */
static void run_members(struct member *members, size_t count)
{
  pthread_t holder;
  ck_assert_int_eq(sem_init(&is_held, 0, 0), 0);
  ck_assert_int_eq(sem_init(&is_let_go, 0, 0), 0);
  ck_assert_int_eq(pthread_create(&holder, NULL, hold_writer, words), 0);
  ck_assert_int_eq(sem_wait(&is_held), 0);
  for (size_t i = 0; i < count; i++) {
    ck_assert_int_eq(pthread_create(&members[i].thread, NULL, be_member, &members[i]), 0);
    while (queued_count() <= i)
      suite_sleep_s(0.001);
  }
  ck_assert_int_eq(sem_post(&is_let_go), 0);
  for (size_t i = 0; i < count; i++)
    ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
  ck_assert_int_eq(pthread_join(holder, NULL), 0);
}

static void setup_group(void)
{
  setup();
  store->writer.group_us = 60 * 1000000; /* on a loaded machine members may come late */
  outside = open_raw();
  ck_assert_int_eq(count_rows(outside), 0);
}

static void teardown_group(void)
{
  sqlite3_close(outside);
  teardown();
}

START_TEST(test_one_failing_job_leaves_the_others)
{
  struct member members[] = {{.deed = DEED_INSERT, .number = 1},
                             {.deed = DEED_INSERT_AND_REFUSE, .number = 2},
                             {.deed = DEED_INSERT, .number = 1}, /* stored already */
                             {.deed = DEED_INSERT, .number = 3},
                             {.deed = DEED_LOOK}};
  run_members(members, 5);
  ck_assert_err(members[0].result, ERR_OK);
  ck_assert_err(members[1].result, ERR_PRECONDITION);
  ck_assert_str_eq(members[1].error.message, "not like this");
  ck_assert_err(members[2].result, ERR_CONFLICT);
  ck_assert_err(members[3].result, ERR_OK);
  ck_assert_int_eq(members[4].seen_inside, 2);
  ck_assert_int_eq(members[4].seen_outside, 0); /* it was one transaction */
  ck_assert_int_eq(count_rows(outside), 2);
}
END_TEST

static int refuse_commit(void *cls)
{
  (void)cls;
  return 1;
}

static enum err set_hook(struct store_tx *tx, void *cls, struct error *e)
{
  (void)e;
  (void)sqlite3_commit_hook(tx->connection->db, *(const bool *)cls ? refuse_commit : NULL, NULL);
  return ERR_OK;
}

START_TEST(test_failed_commit_fails_all)
{
  struct member members[] = {{.deed = DEED_INSERT, .number = 1}, {.deed = DEED_INSERT, .number = 2}};
  bool is_on = true;
  ck_assert_err(store_write(store, "hook", set_hook, &is_on, &error), ERR_INTERNAL); /* by its own hook */
  run_members(members, 2);
  ck_assert_err(members[0].result, ERR_INTERNAL);
  ck_assert_err(members[1].result, ERR_INTERNAL);
  ck_assert_int_eq(count_rows(outside), 0);
  is_on = false;
  ck_assert_err(store_write(store, "hook", set_hook, &is_on, &error), ERR_OK);
  ck_assert_err(write_small(store, 3), ERR_OK);
  ck_assert_int_eq(count_rows(outside), 1);
}
END_TEST

START_TEST(test_lost_transaction_fails_what_was_in_it)
{
  struct member members[] = {
      {.deed = DEED_INSERT, .number = 1}, {.deed = DEED_ROLL_BACK, .number = 2}, {.deed = DEED_INSERT, .number = 3}};
  run_members(members, 3);
  ck_assert_err(members[0].result, ERR_INTERNAL);
  ck_assert_err(members[1].result, ERR_INTERNAL);
  ck_assert_err(members[2].result, ERR_OK); /* came into the next group */
  ck_assert_int_eq(count_rows(outside), 1);
}
END_TEST

START_TEST(test_lost_savepoint_fails_what_was_in_it)
{
  struct member members[] = {{.deed = DEED_INSERT, .number = 1},
                             {.deed = DEED_END_SAVEPOINT, .number = 2},
                             {.deed = DEED_INSERT, .number = 3}};
  run_members(members, 3);
  ck_assert_err(members[1].result, ERR_INTERNAL);
  ck_assert_err(members[2].result, ERR_OK);
  ck_assert_int_eq(count_rows(outside), 1);
}
END_TEST

START_TEST(test_more_than_a_group)
{
  static struct member members[150];
  for (unsigned i = 0; i < 150; i++)
    members[i] = (struct member){.deed = DEED_INSERT, .number = i};
  run_members(members, 150);
  for (size_t i = 0; i < 150; i++)
    ck_assert_err(members[i].result, ERR_OK);
  ck_assert_int_eq(count_rows(outside), 150);
}
END_TEST

static enum err forget_to_say_why(struct store_tx *tx, void *cls, struct error *e)
{
  (void)tx;
  (void)cls;
  (void)e;
  return ERR_LIMIT;
}

START_TEST(test_error_always_has_a_sentence)
{
  ck_assert_err(write_row(forget_to_say_why, NULL), ERR_LIMIT);
  ck_assert_int_eq(error.code, ERR_LIMIT);
  ck_assert_str_eq(error.message, "a stated limit is exceeded");
}
END_TEST

/* ---- Checkpoints ---- */

static int64_t file_bytes(const char *suffix)
{
  struct stat status;
  ck_assert_int_eq(stat(scratch_printf("%s%s", path, suffix), &status), 0);
  return status.st_size;
}

START_TEST(test_checkpoint_when_idle)
{
  const int64_t before = file_bytes("");
  for (unsigned i = 0; i < 200; i++)
    ck_assert_err(write_small(store, i), ERR_OK);
  for (int i = 0; i < 100 && file_bytes("") == before; i++)
    suite_sleep_s(0.1);
  ck_assert_int_gt(file_bytes(""), before);
}
END_TEST

static enum err lower_limit(struct store_tx *tx, void *cls, struct error *e)
{
  (void)cls;
  (void)e;
  tx->store->writer.wal_pages_max = 50;
  return ERR_OK;
}

START_TEST(test_log_stays_small)
{
  const int64_t before = file_bytes("-wal"); /* of the migrations; the file never shrinks while it is open */
  ck_assert_err(store_write(store, "limit", lower_limit, NULL, &error), ERR_OK);
  for (unsigned i = 0; i < 400; i++)
    ck_assert_err(write_small(store, i), ERR_OK);
  /* 400 commits of at least three pages each; the log starts again whenever it passes 50. */
  ck_assert_int_lt(file_bytes("-wal"), before + 100 * 8300);
}
END_TEST

/* ---- kill -9 ---- */

#define KILL_ROUNDS 10
#define KILL_THREADS 4

static int acknowledged_fd;
static atomic_uint next_number;

static void *write_and_acknowledge(void *cls)
{
  for (;;) {
    const unsigned number = atomic_fetch_add(&next_number, 1);
    if (write_small(cls, number) != ERR_OK || write(acknowledged_fd, &number, sizeof number) != (ssize_t)sizeof number)
      _exit(1);
  }
}

static void write_until_killed(int fd, unsigned first)
{
  pthread_t threads[KILL_THREADS];
  acknowledged_fd = fd;
  atomic_store(&next_number, first);
  if (open_again(&store) != ERR_OK)
    _exit(2);
  for (size_t i = 0; i < KILL_THREADS; i++)
    if (pthread_create(&threads[i], NULL, write_and_acknowledge, store) != 0)
      _exit(3);
  pthread_join(threads[0], NULL);
  _exit(4);
}

/* Reads acknowledged numbers from a child, kills it after `enough`, and remembers all it said. */
static size_t kill_one(unsigned *numbers, unsigned first, size_t enough, size_t room)
{
  int ends[2], status;
  size_t count = 0;
  pid_t child;
  ck_assert_int_eq(pipe(ends), 0);
  child = fork();
  if (child == 0)
    write_until_killed(ends[1], first);
  ck_assert_int_gt(child, 0);
  ck_assert_int_eq(close(ends[1]), 0);
  while (count < room && read(ends[0], &numbers[count], sizeof numbers[0]) == (ssize_t)sizeof numbers[0])
    if (++count == enough)
      ck_assert_int_eq(kill(child, SIGKILL), 0);
  ck_assert_int_eq(close(ends[0]), 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status), "the child ended by itself: %x", status);
  ck_assert_uint_ge(count, enough);
  return count;
}

static void check_all_there(const unsigned *numbers, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    struct small_row small;
    struct store_evaluation got;
    make_small(&small, numbers[i]);
    ck_assert_err(store_evaluation_get(store, &got, small.id, &error), ERR_OK);
    store_evaluation_fini(&got);
  }
}

START_TEST(test_kill)
{
  static unsigned numbers[100000];
  size_t count = 0;
  for (unsigned round = 0; round < KILL_ROUNDS; round++) {
    count += kill_one(numbers + count, round * 1000000, 20 + round * 37, 100000 - count);
    ck_assert_err(open_again(&store), ERR_OK);
    check_all_there(numbers, count);
    store_close(store);
    store = NULL;
  }
  ck_assert_int_eq(raw_number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
  ck_assert_int_ge(raw_number("SELECT count(*) FROM evaluation"), (int64_t)count);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/writer");
  TCase *threads = suite_case(suite, "threads", setup, teardown);
  TCase *group = suite_case(suite, "group", setup_group, teardown_group);
  TCase *killed = suite_case(suite, "kill", setup_dir, teardown);
  tcase_add_test(threads, test_threads);
  tcase_add_test(threads, test_error_always_has_a_sentence);
  tcase_add_test(threads, test_checkpoint_when_idle);
  tcase_add_test(threads, test_log_stays_small);
  tcase_add_test(group, test_one_failing_job_leaves_the_others);
  tcase_add_test(group, test_failed_commit_fails_all);
  tcase_add_test(group, test_lost_transaction_fails_what_was_in_it);
  tcase_add_test(group, test_lost_savepoint_fails_what_was_in_it);
  tcase_add_test(group, test_more_than_a_group);
  tcase_add_test(killed, test_kill);
  return suite_run(suite);
}
