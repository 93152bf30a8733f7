/* Reading RFC 4180 text: records of fields, quotes, CRLF or LF, a header that names columns. Private to api/.
   One reader walks one text that the caller keeps; fields are valid until the next record. */
#ifndef FITD_API_CSV_H
#define FITD_API_CSV_H

#include "core/error.h"

#define CSV_FIELDS_MAX 64

struct csv {
  const char *next, *end;
  unsigned line; /* of the current record's first character, from 1 */
  unsigned next_line;
  char *fields[CSV_FIELDS_MAX]; /* of the current record, unquoted, terminated */
  size_t count;
  char *buffer; /* holds the fields; owned */
  size_t buffer_size;
};

void csv_init(struct csv *csv, const char *text, size_t length);
void csv_fini(struct csv *csv);

/* Reads the next record; false at the end (e->code ERR_OK) or on a fault (ERR_INVALID with the line in the message,
   ERR_NOMEM). Empty lines are skipped. */
bool csv_next(struct csv *csv, struct error *e);

/* Index of a column of the current (header) record; SIZE_MAX when there is none. */
size_t csv_column(const struct csv *csv, const char *name);

/* Field by column index; "" when the record is shorter or the column absent. */
const char *csv_field(const struct csv *csv, size_t column);

#endif
