/* Building JSON objects where only running out of memory can fail: one failure makes the object NULL, so that callers
   look once at the end. Private to api/. */
#ifndef FITD_API_PUT_H
#define FITD_API_PUT_H

#include <jansson.h>

/* Sets a member; takes the reference of `value`. When either is NULL or memory is out, *object is released and NULL. */
void put_member(json_t **object, const char *name, json_t *value);
/* The same for the end of an array. */
void put_element(json_t **array, json_t *value);

#endif
