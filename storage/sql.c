/* Queries over SQLite: a small statement cache per connection, binding and reading, and the one place where SQLite's
   result codes become errors of fitd. */
#include "storage/sql.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SQLite gives a failed COMMIT or a full disk a sentence of its own; clients get these instead. */
struct meaning {
  int code; /* primary result code */
  enum err err;
  bool is_logged;
  const char *sentence;
};

static const struct meaning meanings[] = {
    {SQLITE_NOMEM, ERR_NOMEM, true, "not enough memory for the database"},
    {SQLITE_BUSY, ERR_BUSY, true, "the database is busy"},
    {SQLITE_LOCKED, ERR_BUSY, true, "the database is busy"},
    {SQLITE_INTERRUPT, ERR_CANCELLED, false, "the query was cancelled"},
    {SQLITE_TOOBIG, ERR_LIMIT, true, "a value is too large to be stored"},
    {SQLITE_FULL, ERR_UNAVAILABLE, true, "the database can not grow: the disk is full"},
    {SQLITE_IOERR, ERR_UNAVAILABLE, true, "reading or writing the database file failed"},
    {SQLITE_READONLY, ERR_UNAVAILABLE, true, "the database file can not be written"},
    {SQLITE_CORRUPT, ERR_UNAVAILABLE, true, "the database file is damaged"},
    {SQLITE_NOTADB, ERR_UNAVAILABLE, true, "the file is not a database, or its first page is damaged"},
    {SQLITE_CANTOPEN, ERR_UNAVAILABLE, true, "the database file can not be opened"},
};

static const struct meaning meaning_of_unique = {SQLITE_CONSTRAINT, ERR_CONFLICT, false, "this is stored already"};
static const struct meaning meaning_of_reference = {SQLITE_CONSTRAINT, ERR_CONFLICT, false,
                                                    "this refers to something that is not stored, or is referred to"};
static const struct meaning meaning_of_directory = {
    SQLITE_READONLY, ERR_UNAVAILABLE, true, "the directory of the database can not be written, where its log must lie"};
static const struct meaning meaning_of_bug = {SQLITE_ERROR, ERR_INTERNAL, true, "a query failed"};

static const struct meaning *meaning_of(int rc)
{
  if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_ROWID)
    return &meaning_of_unique;
  if (rc == SQLITE_CONSTRAINT_FOREIGNKEY)
    return &meaning_of_reference;
  if (rc == SQLITE_READONLY_DIRECTORY)
    return &meaning_of_directory;
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
    if ((rc & 0xff) == meanings[i].code)
      return &meanings[i];
  return &meaning_of_bug;
}

void connection_log(const struct connection *c, const char *format, ...)
{
  char sentence[1024];
  va_list args;
  if (c->options == NULL || c->options->log == NULL)
    return;
  va_start(args, format);
  (void)vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  c->options->log(c->options->log_cls, sentence);
}

enum err sql_error(struct connection *c, int rc, const char *sql, struct error *e)
{
  const struct meaning *meaning = meaning_of(rc);
  const bool is_of_the_file = meaning->err == ERR_UNAVAILABLE; /* whatever the statement was */
  const bool is_seen_by_sqlite = c->db != NULL && sqlite3_errcode(c->db) != SQLITE_OK;
  if (is_of_the_file)
    sql = NULL;
  if (meaning->is_logged)
    connection_log(c, "store: %s: SQLite %d (%s)%s%.400s", meaning->sentence, rc,
                   is_seen_by_sqlite ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc), sql != NULL ? " in: " : "",
                   sql != NULL ? sql : "");
  return error_set(e, meaning->err, "", "%s", meaning->sentence);
}

enum err sql_execute(struct connection *c, const char *sql, struct error *e)
{
  const int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? ERR_OK : sql_error(c, rc, sql, e);
}

enum err sql_number(int64_t *out, struct connection *c, const char *sql, struct error *e)
{
  struct query q;
  query_begin(&q, c, sql);
  if (query_row(&q))
    *out = query_int(&q, 0);
  return query_end(&q, e);
}

/* ---- The statement cache ---- */

static uint64_t hash_text(const char *text)
{
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (; *text != '\0'; text++)
    hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

static bool is_blank(const char *text)
{
  while (isspace((unsigned char)*text))
    text++;
  return *text == '\0';
}

/* The slot for one more statement: a new one, or that of the least recently used statement at rest. */
static struct prepared *slot_for_new(struct connection *c)
{
  struct prepared *oldest = NULL;
  if (c->prepared_count < STATEMENTS_MAX)
    return &c->prepared[c->prepared_count++];
  for (size_t i = 0; i < STATEMENTS_MAX; i++)
    if (!sqlite3_stmt_busy(c->prepared[i].statement) && (oldest == NULL || c->prepared[i].used_at < oldest->used_at))
      oldest = &c->prepared[i];
  assert(oldest != NULL);
  (void)sqlite3_finalize(oldest->statement); /* repeats the error of its last step, which was reported then */
  return oldest;
}

static int prepare(sqlite3_stmt **out, struct connection *c, const char *sql)
{
  const uint64_t hash = hash_text(sql);
  const char *tail = NULL;
  struct prepared *slot;
  int rc;
  c->clock++;
  for (size_t i = 0; i < c->prepared_count; i++) {
    slot = &c->prepared[i];
    if (slot->hash == hash && strcmp(sqlite3_sql(slot->statement), sql) == 0) {
      assert(!sqlite3_stmt_busy(slot->statement));
      slot->used_at = c->clock;
      *out = slot->statement;
      return SQLITE_OK;
    }
  }
  rc = sqlite3_prepare_v3(c->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, &tail);
  if (rc != SQLITE_OK)
    return rc;
  assert(is_blank(tail)); /* SQLite prepares the first statement and drops the rest */
  slot = slot_for_new(c);
  *slot = (struct prepared){*out, hash, c->clock};
  return SQLITE_OK;
}

/* ---- Queries ---- */

static bool query_is_fine(const struct query *q)
{
  return q->rc == SQLITE_OK || q->rc == SQLITE_ROW || q->rc == SQLITE_DONE;
}

void query_begin(struct query *q, struct connection *c, const char *sql)
{
  q->connection = c;
  q->statement = NULL;
  q->rc = prepare(&q->statement, c, sql);
}

static void keep_failure(struct query *q, int rc)
{
  if (rc != SQLITE_OK && query_is_fine(q))
    q->rc = rc;
}

void query_bind_text(struct query *q, int parameter, const char *text)
{
  if (query_is_fine(q))
    keep_failure(q, sqlite3_bind_text(q->statement, parameter, text != NULL ? text : "", -1, SQLITE_STATIC));
}

void query_bind_int(struct query *q, int parameter, int64_t value)
{
  if (query_is_fine(q))
    keep_failure(q, sqlite3_bind_int64(q->statement, parameter, value));
}

void query_bind_blob(struct query *q, int parameter, const void *bytes, size_t count)
{
  static const char nothing[] = ""; /* a null pointer would bind NULL */
  if (query_is_fine(q))
    keep_failure(q, sqlite3_bind_blob64(q->statement, parameter, count > 0 ? bytes : nothing, count, SQLITE_STATIC));
}

void query_bind_figure(struct query *q, int parameter, double value)
{
  if (!query_is_fine(q))
    return;
  keep_failure(q, isnan(value) ? sqlite3_bind_null(q->statement, parameter)
                               : sqlite3_bind_double(q->statement, parameter, value));
}

bool query_row(struct query *q)
{
  if (!query_is_fine(q))
    return false;
  q->rc = sqlite3_step(q->statement);
  return q->rc == SQLITE_ROW;
}

char *query_text(struct query *q, int column)
{
  const unsigned char *text;
  size_t length;
  char *copy;
  if (!query_is_fine(q))
    return NULL;
  text = sqlite3_column_text(q->statement, column);
  length = text != NULL ? (size_t)sqlite3_column_bytes(q->statement, column) : 0;
  if (text == NULL && sqlite3_column_type(q->statement, column) != SQLITE_NULL) {
    query_out_of_memory(q);
    return NULL;
  }
  copy = malloc(length + 1);
  if (copy == NULL) {
    query_out_of_memory(q);
    return NULL;
  }
  if (length > 0)
    memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

const unsigned char *query_blob(size_t *count, struct query *q, int column)
{
  const unsigned char *bytes = NULL;
  *count = 0;
  if (!query_is_fine(q))
    return NULL;
  bytes = sqlite3_column_blob(q->statement, column);
  *count = (size_t)sqlite3_column_bytes(q->statement, column);
  if (bytes == NULL && *count > 0) {
    *count = 0;
    query_out_of_memory(q);
  }
  return bytes;
}

size_t query_bytes(const struct query *q, int column)
{
  return (size_t)sqlite3_column_bytes(q->statement, column);
}

int64_t query_int(const struct query *q, int column)
{
  return sqlite3_column_int64(q->statement, column);
}

double query_figure(const struct query *q, int column)
{
  if (sqlite3_column_type(q->statement, column) == SQLITE_NULL)
    return STORE_FIGURE_ABSENT;
  return sqlite3_column_double(q->statement, column);
}

void query_out_of_memory(struct query *q)
{
  keep_failure(q, SQLITE_NOMEM);
}

enum err query_end(struct query *q, struct error *e)
{
  enum err result = ERR_OK;
  if (!query_is_fine(q))
    result = sql_error(q->connection, q->rc, q->statement != NULL ? sqlite3_sql(q->statement) : NULL, e);
  if (q->statement != NULL) {
    (void)sqlite3_reset(q->statement); /* repeats the error of the last step, which is reported above */
    (void)sqlite3_clear_bindings(q->statement);
  }
  return result;
}

enum err query_run(struct query *q, struct error *e)
{
  while (query_row(q))
    continue;
  return query_end(q, e);
}

enum err query_run_on_row(struct query *q, struct error *e, const char *missing, ...)
{
  sqlite3 *db = q->connection->db;
  enum err result = query_run(q, e);
  if (result == ERR_OK && sqlite3_changes(db) == 0) {
    va_list arguments;
    va_start(arguments, missing);
    result = error_setv(e, ERR_NOT_FOUND, "", missing, arguments);
    va_end(arguments);
  }
  return result;
}

void *rows_grow(void *rows, size_t count, size_t row_size)
{
  if (count != 0 && (count < 8 || (count & (count - 1)) != 0))
    return rows;
  return reallocarray(rows, count == 0 ? 8 : count * 2, row_size);
}

struct rows query_rows(struct query *q, size_t limit, size_t row_size, row_read *read)
{
  struct rows rows = {.at = NULL};
  while (query_row(q)) {
    void *grown;
    if (rows.count == limit) {
      rows.has_more = true;
      break;
    }
    grown = rows_grow(rows.at, rows.count, row_size);
    if (grown == NULL) {
      query_out_of_memory(q);
      break;
    }
    rows.at = grown;
    read((unsigned char *)rows.at + rows.count * row_size, q);
    rows.count++;
  }
  return rows;
}
