/* What the files of the trace reader share: rows being collected, and cells of either carrier. Private to api/trace*.c. */
#ifndef FITD_API_TRACE_INT_H
#define FITD_API_TRACE_INT_H

#include "api/trace.h"

/* One value of a row as text. JSON numbers are printed; `is_number` tells them from JSON strings. */
struct trace_cell {
  const char *text; /* NULL: absent */
  bool is_number;
  const json_t *value; /* NULL in CSV */
  char printed[40];
};

/* ---- trace_cell.c: numbers, dates ---- */
enum trace_time { TRACE_TIME_NONE, TRACE_TIME_NUMBER, TRACE_TIME_DATE, TRACE_TIME_DATE_WITHOUT_ZONE };

/* Nanoseconds of a time: a number of which 10^decimals nanoseconds make one, or a date with time. TRACE_TIME_NONE: it is
   neither, or outside 0 … 9e9 s; why[] then says what is wrong. */
enum trace_time trace_cell_time(int64_t *ns, const struct trace_cell *cell, int decimals, char why[160]);
/* A whole number of tokens from `min` on; false when it is none. */
bool trace_cell_tokens(uint32_t *tokens, const struct trace_cell *cell, uint32_t min);
/* What stands in the cell, for sentences. */
const char *trace_cell_seen(char to[80], const struct trace_cell *cell);

/* ---- trace.c: the rows ---- */
struct trace_rows {
  struct store_trace_requests requests; /* arrival_ns as read; prefix_hashes unused */
  size_t capacity;
  uint64_t *hashes; /* as read; prefix_first indexes them */
  size_t hash_count, hash_capacity;
  size_t left_out;      /* failed requests */
  enum trace_time time; /* of the first row */
};
void trace_rows_fini(struct trace_rows *rows);
/* Appends; ERR_LIMIT or ERR_NOMEM. */
enum err trace_rows_add(struct trace_rows *rows, const struct store_trace_request *request, struct error *e) MUST_CHECK;
enum err trace_rows_add_hash(struct trace_rows *rows, uint64_t hash, struct error *e) MUST_CHECK;
/* Brings at least one row into canonical form, taking them over; adds sentences to out->assumptions. */
enum err trace_canonical(struct trace *out, struct trace_rows *rows, struct error *e) MUST_CHECK;
/* Adds a sentence to the assumptions; they become NULL when memory is out. */
void trace_assume(struct trace *trace, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- trace_rows.c: columns and cells ---- */
enum trace_column { TRACE_ARRIVAL, TRACE_INPUT, TRACE_OUTPUT, TRACE_HASHES, TRACE_COLUMNS };

/* A recording holds requests that failed; ours are written by hand and have none. */
struct trace_format {
  const char *name;
  const char *columns[TRACE_COLUMNS]; /* compared without case; NULL = never there */
  int decimals;                       /* 10^decimals nanoseconds are one unit of its times */
  bool is_recorded;
};
#define TRACE_NAMES_MAX 64

struct trace_reading {
  struct trace *trace;
  struct trace_rows rows;
  const struct trace_format *format; /* NULL until the first row with names */
  size_t places[TRACE_COLUMNS];      /* CSV: which field; SIZE_MAX = absent */
  size_t field_count;                /* CSV: of the header */
  unsigned line;
  struct faults *faults;
};

/* A fault of the line that is read; `column` may be NULL, `suggestion` too. */
void trace_fault(struct trace_reading *reading, enum fault_code code, const char *column, const char *suggestion,
                 const char *format, ...) PRINTF_LIKE(5, 6);
bool trace_is_column(const struct trace_format *format, const char *name);
/* Which of `names` has this name, without regard to case; SIZE_MAX: none, or `name` is NULL. */
size_t trace_find_name(const char *const *names, size_t count, const char *name);
/* Decides the format by the names of the header or of the first object; false after faults. */
bool trace_read_names(struct trace_reading *reading, const char *const *names, size_t count);
/* Adds a row of the format, or faults; an error ends the reading. */
enum err trace_read_row(struct trace_reading *reading, const struct trace_cell cells[TRACE_COLUMNS],
                        struct error *e) MUST_CHECK;

#endif
