/* Matching of paths against the table. A linear walk over a hundred rows, most of which differ early. */
#include "api/router.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define BODY_MAX_BYTES (256 * 1024)

static bool is_segment_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* Takes one segment of the path as a parameter; false when it is empty, too long, or has other characters. */
static bool take_param(char to[80], const char **path)
{
  size_t n = 0;
  for (; is_segment_char(**path); (*path)++) {
    if (n == 79)
      return false;
    to[n++] = **path;
  }
  to[n] = '\0';
  return n > 0;
}

/* Number of {…} segments when the path has the pattern's form, -1 otherwise. */
static int pattern_match(const char *pattern, const char *path, char params[2][80])
{
  int count = 0;
  while (*pattern != '\0') {
    if (*pattern != '{') {
      if (*pattern++ != *path++)
        return -1;
      continue;
    }
    if (count == 2 || !take_param(params[count], &path))
      return -1;
    count++;
    pattern += strcspn(pattern, "}") + 1;
  }
  return *path == '\0' ? count : -1;
}

/* Nearly all paths and rows begin with this: looking at the byte behind it first spares most of the walk. */
#define COMMON "/v1/"
#define COMMON_BYTES (sizeof COMMON - 1)

static bool has_common(const char *text)
{
  return strncmp(text, COMMON, COMMON_BYTES) == 0;
}

static bool differs_early(const char *pattern, const char *path)
{
  const char next = has_common(pattern) ? pattern[COMMON_BYTES] : '{';
  return next != '{' && next != path[COMMON_BYTES];
}

static void allow_add(char *allow, size_t size, const char *method)
{
  if (allow[0] != '\0')
    strncat(allow, ", ", size - strlen(allow) - 1);
  strncat(allow, method, size - strlen(allow) - 1);
}

/* "GET, HEAD, PUT, OPTIONS": needed for refusals and OPTIONS alone. */
static void fill_allow(struct route_match *out, const struct route *routes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (strcmp(routes[i].pattern, out->pattern) != 0)
      continue;
    allow_add(out->allow, sizeof out->allow, routes[i].method);
    if (strcmp(routes[i].method, "GET") == 0)
      allow_add(out->allow, sizeof out->allow, "HEAD");
  }
  allow_add(out->allow, sizeof out->allow, "OPTIONS");
}

void router_match(struct route_match *out, const struct route *routes, size_t count, const char *method,
                  const char *path)
{
  const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
  const bool is_common = has_common(path);
  int fewest = INT_MAX;
  char params[2][80];
  out->pattern = NULL;
  out->route = NULL;
  out->allow[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    if (is_common && differs_early(routes[i].pattern, path))
      continue;
    params[0][0] = params[1][0] = '\0';
    const int found = pattern_match(routes[i].pattern, path, params);
    if (found < 0 || found > fewest)
      continue;
    if (found < fewest) {
      fewest = found;
      out->pattern = routes[i].pattern;
      out->route = NULL;
      memcpy(out->params, params, sizeof params);
    }
    if (out->pattern != NULL && strcmp(routes[i].pattern, out->pattern) == 0 && strcmp(routes[i].method, wanted) == 0)
      out->route = &routes[i];
  }
  if (out->pattern != NULL && out->route == NULL)
    fill_allow(out, routes, count);
}

void api_route_info(struct api_route_info *out, const char *method, const char *path)
{
  struct route_match match;
  router_match(&match, api_routes, api_route_count, method, path);
  *out = (struct api_route_info){.pattern = match.pattern != NULL ? match.pattern : "",
                                 .scope = SCOPE_PUBLIC,
                                 .takes_body = true,
                                 .body_max_bytes = BODY_MAX_BYTES};
  if (match.route == NULL)
    return; /* 404, 405 or OPTIONS: whatever body comes is not looked at */
  out->scope = match.route->scope;
  out->needs_worker = (match.route->flags & ROUTE_WORKER) != 0;
  out->computes = (match.route->flags & ROUTE_COMPUTES) != 0;
  out->takes_body = (match.route->flags & (ROUTE_BODY | ROUTE_BODY_OPTIONAL)) != 0;
  if ((match.route->flags & ROUTE_BODY_TRACE) != 0)
    out->body_max_bytes = API_TRACE_MAX_BYTES;
}
