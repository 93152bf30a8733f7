/* Looking into JSON documents by dotted path ("scorecards.0.cost.monthly_usd"; numbers index arrays). Getters that promise a
   value fail the running test when it is not there. Everything returned is borrowed from the document. */
#ifndef FITD_TESTS_LIB_DOC_H
#define FITD_TESTS_LIB_DOC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* NULL when a step of the path is absent. */
json_t *doc_at(const json_t *doc, const char *path);
/* JSON null, or below a JSON null; an absent member is neither. */
bool doc_is_null(const json_t *doc, const char *path);

double doc_number(const json_t *doc, const char *path);
long long doc_integer(const json_t *doc, const char *path);
const char *doc_text(const json_t *doc, const char *path);
const json_t *doc_array(const json_t *doc, const char *path);

/* The entry of `errors` with this pointer, or NULL. */
const json_t *doc_fault(const json_t *problem, const char *pointer);

/* Removes every member of these names (list ends with NULL) wherever they stand. */
void doc_strip(json_t *doc, const char *const *names);
/* Every number in the document is finite; returns how many there were. */
size_t doc_assert_finite(json_t *doc);
/* Parses `text`; owned by the scratch. */
json_t *doc_parse(const char *text);
/* One line of JSON, owned by the scratch. */
const char *doc_dump(const json_t *doc);
/* Its beginning, for messages: check ends a test without a word when a message is over 8 kB. */
const char *doc_brief(const json_t *doc);
/* Both documents give the same bytes; the message shows where they part. */
void doc_assert_same(const json_t *seen, const json_t *expected);

#endif
