/* Rows of JSON as CSV (RFC 4180), one column a dotted path, and the columns that each list has. Private to api/. */
#ifndef FITD_API_ROW_CSV_H
#define FITD_API_ROW_CSV_H

#include <jansson.h>

/* `columns`: dotted paths with commas between them, which are the header. Texts stand as they are, null and absent are
   empty, arrays and objects are JSON; a path that goes on through an array gives the array of what it finds in each
   element. malloc'ed; NULL when memory is out. */
char *row_csv(const json_t *rows, const char *columns);

/* The columns of the list at this pattern of a route; NULL when it has none. */
const char *row_csv_columns(const char *pattern);

#endif
