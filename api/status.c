/* Error codes as HTTP statuses. No default: a new code does not compile until it has its status. */
#include "api/problem.h"

unsigned status_of_error(enum err code)
{
  switch (code) {
  case ERR_OK: return 200;
  case ERR_INVALID: return 422;
  case ERR_NOT_FOUND: return 404;
  case ERR_CONFLICT: return 409;
  case ERR_PRECONDITION: return 412;
  case ERR_LIMIT: return 422;
  case ERR_BUSY: return 503;
  case ERR_NOMEM: return 503;
  case ERR_UNAVAILABLE: return 503;
  case ERR_CANCELLED: return 503;
  case ERR_INTERNAL: return 500;
  }
  return 500; /* not reached: every code is listed */
}
