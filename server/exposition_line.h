/* One line of an exposition: what exposition.c cuts and exposition_line.c, exposition_number.c understand. Private to
   the parser. */
#ifndef FITD_SERVER_EXPOSITION_LINE_H
#define FITD_SERVER_EXPOSITION_LINE_H

#include "server/exposition.h"

struct line {
  const char *start, *at, *end; /* without its line feed */
  bool is_openmetrics;
  const char *reason;  /* of the first fault; NULL = none so far */
  bool is_value_fault; /* name and labels are fine, the value is no number */
  char *unescaped;     /* where label values without backslashes go; room for the line */
};

/* Notes the first fault and returns false. */
bool line_refuse(struct line *line, const char *reason);
/* Fills *sample; `labels` has room for 2 × EXPOSITION_LABELS_MAX. False: line->reason says why. */
bool line_sample(struct exposition_sample *sample, struct line *line, struct exposition_label *labels);
/* A name as HELP, TYPE and UNIT have it, quoted or not. */
bool line_name(struct exposition_text *name, struct line *line);
/* Blanks (text format: any number of spaces and tabs). Returns how many there were. */
size_t line_blanks(struct line *line);

bool exposition_is_utf8(const char *at, size_t count);

/* Digits with a sign. */
bool exposition_integer(double *out, struct exposition_text text);

#endif
