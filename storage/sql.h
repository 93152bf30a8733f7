/* One SQLite connection with its prepared statements, and queries on it: bind, step, read columns. The first failure
   of a query sticks and turns the rest into no-ops, so a function checks once, at query_end.
   Threads: a connection belongs to one thread at a time. Private to storage/. */
#ifndef FITD_STORAGE_SQL_H
#define FITD_STORAGE_SQL_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/error.h"
#include "storage/store.h"

#define STATEMENTS_MAX 64

struct prepared {
  sqlite3_stmt *statement;
  uint64_t hash;    /* of the SQL text */
  uint64_t used_at; /* value of the connection's clock; the least recently used one makes room */
};

struct connection {
  sqlite3 *db;
  const struct store_options *options; /* for the log; borrowed */
  struct prepared prepared[STATEMENTS_MAX];
  size_t prepared_count;
  uint64_t clock;
  struct connection *next_free; /* in the pool of readers */
};

enum connection_role { CONNECTION_WRITER, CONNECTION_READER };

/* Opens and hardens; nothing is written and the file need not be ours yet. */
enum err connection_open(struct connection *c, const char *path, enum connection_role role,
                         const struct store_options *options, struct error *e) MUST_CHECK;
/* Finalises every statement. Harmless on a zeroed or a half opened connection. */
void connection_close(struct connection *c);

/* One sentence for the log: "store: …". */
void connection_log(const struct connection *c, const char *format, ...) PRINTF_LIKE(2, 3);

/* Statements without parameters or rows: DDL, BEGIN, PRAGMA. */
enum err sql_execute(struct connection *c, const char *sql, struct error *e) MUST_CHECK;
/* First column of the first row. */
enum err sql_number(int64_t *out, struct connection *c, const char *sql, struct error *e) MUST_CHECK;
/* What an SQLite result code means to callers; logs codes that are not the client's doing. `sql` may be NULL. */
enum err sql_error(struct connection *c, int rc, const char *sql, struct error *e);

struct query {
  struct connection *connection;
  sqlite3_stmt *statement;
  int rc; /* first failure, or the result of the last step */
};

/* Takes the statement from the connection, preparing it on first use. `sql` is one statement. */
void query_begin(struct query *q, struct connection *c, const char *sql);
/* Text is borrowed until query_end; NULL counts as "". */
void query_bind_text(struct query *q, int parameter, const char *text);
void query_bind_int(struct query *q, int parameter, int64_t value);
/* Bytes are borrowed until query_end. */
void query_bind_blob(struct query *q, int parameter, const void *bytes, size_t count);
/* STORE_FIGURE_ABSENT, which is NaN, becomes NULL. */
void query_bind_figure(struct query *q, int parameter, double value);
/* Steps: true on a row. */
bool query_row(struct query *q);
/* A malloc'ed copy ("" for NULL); NULL after a failure. */
char *query_text(struct query *q, int column);
/* The bytes of a BLOB, borrowed until the next step. */
const unsigned char *query_blob(size_t *count, struct query *q, int column);
size_t query_bytes(const struct query *q, int column);  /* length of the text that query_text just returned */
int64_t query_int(const struct query *q, int column);   /* 0 for NULL */
double query_figure(const struct query *q, int column); /* STORE_FIGURE_ABSENT for NULL */
/* Memory ran out in the caller's own bookkeeping. */
void query_out_of_memory(struct query *q);
/* Gives the statement back and reports the first failure. Uniqueness and foreign keys come back as ERR_CONFLICT with a
   general sentence that callers replace. */
enum err query_end(struct query *q, struct error *e) MUST_CHECK;
/* Steps to the end, then query_end: for statements without rows. */
enum err query_run(struct query *q, struct error *e) MUST_CHECK;
/* query_run of a statement about one row: ERR_NOT_FOUND with the sentence `missing` when it changed none. */
enum err query_run_on_row(struct query *q, struct error *e, const char *missing, ...) PRINTF_LIKE(3, 4) MUST_CHECK;

/* Rows of a list: returns the array with room for one more row, or NULL when memory is out (the old array stays).
   Sizes double from 8. */
void *rows_grow(void *rows, size_t count, size_t row_size);

/* The rows of one type as they leave a query. `at` is malloc'ed; NULL without rows. */
struct rows {
  void *at;
  size_t count;
  bool has_more;
};
/* Fills one row from the columns of the current result. */
typedef void row_read(void *row, struct query *q);
/* Steps to the end, or until a row more than `limit` tells that there are more. */
struct rows query_rows(struct query *q, size_t limit, size_t row_size, row_read *read);

#endif
