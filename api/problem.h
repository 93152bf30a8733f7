/* From an error of this program to a problem document of the wire (RFC 9457). The only place besides status.c where
   HTTP statuses and error codes meet. Private to api/. */
#ifndef FITD_API_PROBLEM_H
#define FITD_API_PROBLEM_H

#include "api/api.h"

/* HTTP status of an error code; 200 for ERR_OK. */
unsigned status_of_error(enum err code);

/* The answer for a handler's error: faults (may be NULL) become errors[]. Replaces what the response held. */
void problem_of_error(struct api_response *response, enum err code, const struct error *e, const struct faults *faults,
                      const char *request_id, const char *path);

#endif
