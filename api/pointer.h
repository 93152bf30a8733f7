/* JSON pointers (RFC 6901) into documents: looking up, setting, and the value a knob's pointer means in a sketch.
   Private to api/. */
#ifndef FITD_API_POINTER_H
#define FITD_API_POINTER_H

#include <jansson.h>
#include <stdbool.h>

/* "" or "/" followed by tokens; "~" only as "~0" or "~1". */
bool pointer_is_valid(const char *pointer);

/* Borrowed; NULL when there is nothing. */
json_t *pointer_get(const json_t *document, const char *pointer);

/* Sets what the pointer names, making the objects on the way. `value` is shared, not copied. False when the way leads through
   something that is neither object nor array, past the end of an array, or memory is out. */
bool pointer_set(json_t *document, const char *pointer, json_t *value);

/* What a sketch says at a pointer, short forms included ("precision": "fp8" says so for /precision/weights too); borrowed,
   NULL where the sketch leaves it open. */
json_t *pointer_sketch_value(const json_t *sketch, const char *pointer);

/* Equal documents, numbers by value (3 is 3.0). NULL equals null. */
bool pointer_same_value(const json_t *a, const json_t *b);

#endif
