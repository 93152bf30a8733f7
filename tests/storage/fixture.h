/* What every storage test starts from: a store on a real file in a directory of its own, rows to put into it, and a
   log that is kept. Header only: each test binary has its own. */
#ifndef FITD_TESTS_STORAGE_FIXTURE_H
#define FITD_TESTS_STORAGE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define T0_MS INT64_C(1795000000000) /* some moment of November 2026 */

static struct store *store;
static char dir[200];
static char path[240];
static char last_log[1024];
static struct error error;

#define ck_assert_err(result, expected) assert_err(result, expected, #result)
#define ck_assert_says(words) ck_assert_msg(strstr(error.message, words) != NULL, "message: %s", error.message)

static inline void assert_err(enum err got, enum err expected, const char *what)
{
  ck_assert_msg(got == expected, "%s: %s (%s), expected %s", what, error_slug(got), error.message,
                error_slug(expected));
}

static inline void keep_log(void *cls, const char *sentence)
{
  (void)cls;
  (void)snprintf(last_log, sizeof last_log, "%s", sentence);
}

static inline enum err open_again(struct store **out)
{
  const struct store_options options = {.path = path, .readers = 2, .log = keep_log};
  return store_open(out, &options, &error);
}

static inline void setup_dir(void)
{
  suite_make_dir(dir, sizeof dir);
  (void)snprintf(path, sizeof path, "%s/fit.db", dir);
  last_log[0] = '\0';
  error = (struct error){0};
  store = NULL;
}

static inline void setup(void)
{
  setup_dir();
  ck_assert_err(open_again(&store), ERR_OK);
}

static inline void teardown(void)
{
  store_close(store);
  store = NULL;
  scratch_release();
  suite_remove_dir(dir);
}

static inline enum err write_row(store_work *work, void *cls)
{
  return store_write(store, "test", work, cls, &error);
}

/* A connection beside the store's, for looking at the file and for spoiling it. */
static inline sqlite3 *open_raw(void)
{
  sqlite3 *db = NULL;
  ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
  return db;
}

static inline void raw_execute(const char *sql)
{
  sqlite3 *db = open_raw();
  ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

static inline int64_t raw_number(const char *sql)
{
  sqlite3 *db = open_raw();
  sqlite3_stmt *statement = NULL;
  int64_t number;
  ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
  ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
  number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
  return number;
}

/* A UUIDv7 of the given time whose tail is `sequence`: ids of one time sort by it. */
static inline char *make_id(int64_t time_ms, unsigned sequence)
{
  return scratch_printf("%08x-%04x-7%03x-8000-0000%08x", (unsigned)(time_ms >> 16), (unsigned)(time_ms & 0xffff),
                        sequence & 0xfff, sequence);
}

static inline char *text(const char *words)
{
  return scratch_printf("%s", words);
}

static inline struct store_evaluation make_evaluation(int64_t time_ms, unsigned sequence, const char *workload)
{
  return (struct store_evaluation){.id = make_id(time_ms, sequence),
                                   .created_at_ms = time_ms,
                                   .workload = text(workload),
                                   .model = text("llama-3.1-70b"),
                                   .label = text(""),
                                   .core_version = text("0.1.0"),
                                   .sketch_digest = text("sha256:aa"),
                                   .sketch = text("{\"a\":1}"),
                                   .document = text("{\"b\":\"\xc3\xbc\"}")};
}

/* The scorecard of the evaluation with the same time, sequence and workload. Model and profile are given inline. */
static inline struct store_scorecard make_scorecard(int64_t time_ms, unsigned sequence, const char *workload,
                                                    const char *profile)
{
  return (struct store_scorecard){.id = make_id(time_ms, sequence),
                                  .evaluation = make_id(time_ms, sequence),
                                  .created_at_ms = time_ms,
                                  .workload = text(workload),
                                  .model = text("llama-3.1-70b"),
                                  .profile = text(profile),
                                  .verdict = text("fit"),
                                  .label = text(""),
                                  .stack = text(""),
                                  .context_ref = text(""),
                                  .sketch_digest = text("sha256:aa"),
                                  .core_version = text("0.1.0"),
                                  .gpus = 8.0,
                                  .per_successful_request_usd = 0.0031,
                                  .monthly_usd = 14400.5,
                                  .ttft_ms_p50 = 181.25,
                                  .itl_ms_p50 = 21.5,
                                  .e2e_ms_p50 = 5000.0,
                                  .output_tokens_per_s = STORE_FIGURE_ABSENT,
                                  .document = scratch_printf("{\"n\":%u}", sequence)};
}

static inline struct store_document make_document(const char *name, const char *digest)
{
  return (struct store_document){.name = text(name),
                                 .created_at_ms = T0_MS,
                                 .alias = text(""),
                                 .digest = text(digest),
                                 .source = scratch_printf("{\"source\":\"%s\"}", digest),
                                 .document = scratch_printf("{\"document\":\"%s\"}", digest)};
}

static inline enum err insert_evaluation(struct store_tx *tx, void *row, struct error *e)
{
  return store_evaluation_insert(tx, row, e);
}

static inline enum err insert_scorecard(struct store_tx *tx, void *row, struct error *e)
{
  return store_scorecard_insert(tx, row, e);
}

/* The scorecard and an evaluation of its own. */
static inline void add_scorecard(struct store_scorecard *row)
{
  struct store_evaluation evaluation = make_evaluation(row->created_at_ms, 0, row->workload);
  evaluation.id = row->evaluation;
  ck_assert_err(write_row(insert_evaluation, &evaluation), ERR_OK);
  ck_assert_err(write_row(insert_scorecard, row), ERR_OK);
}

#endif
