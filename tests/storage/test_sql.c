/* The statement cache, what sticks in a query, and what SQLite's codes come out as. */
#include "tests/storage/fixture.h"

static struct connection connection;

static void setup_connection(void)
{
  const struct store_options options = {.path = path, .readers = 1, .log = keep_log};
  setup_dir();
  ck_assert_int_eq(sqlite3_close(open_raw()), SQLITE_OK);
  raw_execute("CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT NOT NULL CHECK (s <> 'bad'), x REAL) STRICT");
  ck_assert_err(connection_open(&connection, path, CONNECTION_WRITER, &options, &error), ERR_OK);
  connection.options = NULL;
}

static void teardown_connection(void)
{
  connection_close(&connection);
  teardown();
}

static enum err insert(int64_t n, const char *s, double x)
{
  struct query q;
  query_begin(&q, &connection, "INSERT INTO t (n, s, x) VALUES (?1, ?2, ?3)");
  query_bind_int(&q, 1, n);
  query_bind_text(&q, 2, s);
  query_bind_figure(&q, 3, x);
  return query_run(&q, &error);
}

START_TEST(test_statements_are_reused)
{
  for (int i = 0; i < 10; i++)
    ck_assert_err(insert(i, "s", 1.0), ERR_OK);
  ck_assert_uint_eq(connection.prepared_count, 1);
}
END_TEST

START_TEST(test_cache_makes_room)
{
  int64_t number = -1;
  ck_assert_err(insert(1, "s", 1.0), ERR_OK);
  for (int i = 0; i < 3 * STATEMENTS_MAX; i++) {
    ck_assert_err(sql_number(&number, &connection, scratch_printf("SELECT %d + n FROM t", i), &error), ERR_OK);
    ck_assert_int_eq(number, i + 1);
  }
  ck_assert_uint_eq(connection.prepared_count, STATEMENTS_MAX);
  ck_assert_err(insert(2, "s", 1.0), ERR_OK); /* its statement is long gone */
}
END_TEST

START_TEST(test_text_and_null)
{
  struct query q;
  char *s;
  ck_assert_err(insert(1, NULL, STORE_FIGURE_ABSENT), ERR_OK); /* NULL is "" */
  query_begin(&q, &connection, "SELECT s, x, n FROM t");
  ck_assert(query_row(&q));
  s = query_text(&q, 0);
  ck_assert_str_eq(s, "");
  free(s);
  s = query_text(&q, 1);
  ck_assert_str_eq(s, "");
  free(s);
  ck_assert(isnan(query_figure(&q, 1)));
  ck_assert_int_eq(query_int(&q, 2), 1);
  ck_assert(!query_row(&q));
  ck_assert_err(query_end(&q, &error), ERR_OK);
}
END_TEST

START_TEST(test_failures_stick)
{
  struct query q;
  query_begin(&q, &connection, "SELECT nothing FROM nowhere");
  query_bind_int(&q, 1, 5);
  query_bind_text(&q, 2, "x");
  query_bind_figure(&q, 3, 1.0);
  ck_assert(!query_row(&q));
  ck_assert_ptr_null(query_text(&q, 0));
  ck_assert_err(query_end(&q, &error), ERR_INTERNAL);
  ck_assert_ptr_null(strstr(error.message, "nowhere")); /* SQL is not for clients */
  query_begin(&q, &connection, "SELECT n FROM t WHERE n = ?1");
  query_bind_int(&q, 2, 5); /* there is no second parameter */
  ck_assert(!query_row(&q));
  ck_assert_err(query_end(&q, &error), ERR_INTERNAL);
  query_begin(&q, &connection, "SELECT n FROM t WHERE n = ?1");
  query_out_of_memory(&q);
  ck_assert_err(query_run(&q, &error), ERR_NOMEM);
}
END_TEST

START_TEST(test_constraints)
{
  ck_assert_err(insert(1, "s", 1.0), ERR_OK);
  ck_assert_err(insert(1, "s", 1.0), ERR_CONFLICT);
  ck_assert_err(insert(2, "bad", 1.0), ERR_INTERNAL);
}
END_TEST

START_TEST(test_double_quotes_are_no_strings)
{
  int64_t number;
  ck_assert_err(sql_number(&number, &connection, "SELECT \"nosuch\"", &error), ERR_INTERNAL);
}
END_TEST

static const struct {
  int code;
  enum err expected;
} codes[] = {{SQLITE_FULL, ERR_UNAVAILABLE},
             {SQLITE_IOERR_FSYNC, ERR_UNAVAILABLE},
             {SQLITE_READONLY, ERR_UNAVAILABLE},
             {SQLITE_CORRUPT_INDEX, ERR_UNAVAILABLE},
             {SQLITE_NOTADB, ERR_UNAVAILABLE},
             {SQLITE_CANTOPEN, ERR_UNAVAILABLE},
             {SQLITE_BUSY_SNAPSHOT, ERR_BUSY},
             {SQLITE_LOCKED, ERR_BUSY},
             {SQLITE_NOMEM, ERR_NOMEM},
             {SQLITE_INTERRUPT, ERR_CANCELLED},
             {SQLITE_TOOBIG, ERR_LIMIT},
             {SQLITE_CONSTRAINT_UNIQUE, ERR_CONFLICT},
             {SQLITE_MISUSE, ERR_INTERNAL},
             {SQLITE_CONSTRAINT_FOREIGNKEY, ERR_CONFLICT},
             {SQLITE_CONSTRAINT_CHECK, ERR_INTERNAL}};

START_TEST(test_codes)
{
  ck_assert_err(sql_error(&connection, codes[_i].code, "SELECT secret", &error), codes[_i].expected);
  ck_assert_int_gt((int)strlen(error.message), 10);
  ck_assert_ptr_null(strstr(error.message, "secret"));
}
END_TEST

START_TEST(test_rows_grow)
{
  int *rows = NULL;
  for (size_t i = 0; i < 1000; i++) {
    int *more = rows_grow(rows, i, sizeof *rows);
    ck_assert_ptr_nonnull(more);
    rows = more;
    rows[i] = (int)i; /* beyond its block for a sanitizer if it did not grow */
  }
  for (size_t i = 0; i < 1000; i++)
    ck_assert_int_eq(rows[i], (int)i);
  free(rows);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/sql");
  TCase *tcase = suite_case(suite, "sql", setup_connection, teardown_connection);
  tcase_add_test(tcase, test_statements_are_reused);
  tcase_add_test(tcase, test_cache_makes_room);
  tcase_add_test(tcase, test_text_and_null);
  tcase_add_test(tcase, test_failures_stick);
  tcase_add_test(tcase, test_constraints);
  tcase_add_test(tcase, test_double_quotes_are_no_strings);
  tcase_add_loop_test(tcase, test_codes, 0, (int)(sizeof codes / sizeof codes[0]));
  tcase_add_test(tcase, test_rows_grow);
  return suite_run(suite);
}
