/* Finding the row of the route table for a method and a path. Private to api/. */
#ifndef FITD_API_ROUTER_H
#define FITD_API_ROUTER_H

#include "api/call.h"

struct route_match {
  const char *pattern;       /* NULL: no route has this path */
  const struct route *route; /* NULL: the path is known, the method is not */
  char params[2][80];
  char allow[96]; /* "GET, HEAD, PUT, DELETE, OPTIONS" */
};

/* HEAD is matched as GET. A literal segment wins over a {…} one, so /v1/models/inspect is never a model's name. */
void router_match(struct route_match *out, const struct route *routes, size_t count, const char *method,
                  const char *path);

#endif
