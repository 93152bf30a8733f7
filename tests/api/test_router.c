/* Routing over a small table of its own, and what the real table promises. */
#include "api/problem.h"
#include "api/router.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

static enum err nothing(struct api_call *call, struct api_response *out, struct error *e)
{
  (void)call;
  (void)out;
  (void)e;
  return ERR_OK;
}

static const struct route table[] = {
    {"GET", "/a/{name}", nothing, SCOPE_READ, 0, "", NULL},
    {"PUT", "/a/{name}", nothing, SCOPE_READ, 0, "", NULL},
    {"POST", "/a/fixed", nothing, SCOPE_READ, 0, "", NULL},
    {"GET", "/a/{name}/b/{n}", nothing, SCOPE_READ, 0, "", NULL},
};

static void setup(void)
{
}

static void teardown(void)
{
  scratch_release();
}

static struct route_match match(const char *method, const char *path)
{
  struct route_match found;
  router_match(&found, table, sizeof table / sizeof table[0], method, path);
  return found;
}

START_TEST(parameters_are_taken)
{
  struct route_match found = match("GET", "/a/Some.name-1_x");
  ck_assert_ptr_eq(found.route, &table[0]);
  ck_assert_str_eq(found.params[0], "Some.name-1_x");
  found = match("GET", "/a/x/b/12");
  ck_assert_ptr_eq(found.route, &table[3]);
  ck_assert_str_eq(found.params[0], "x");
  ck_assert_str_eq(found.params[1], "12");
}
END_TEST

START_TEST(head_is_get)
{
  ck_assert_ptr_eq(match("HEAD", "/a/x").route, &table[0]);
}
END_TEST

START_TEST(literal_wins_over_parameter)
{
  struct route_match found = match("POST", "/a/fixed");
  ck_assert_ptr_eq(found.route, &table[2]);
  found = match("GET", "/a/fixed");
  ck_assert_ptr_null(found.route);
  ck_assert_str_eq(found.pattern, "/a/fixed");
  ck_assert_str_eq(found.allow, "POST, OPTIONS");
}
END_TEST

START_TEST(allow_lists_the_methods)
{
  struct route_match found = match("DELETE", "/a/x");
  ck_assert_ptr_null(found.route);
  ck_assert_str_eq(found.allow, "GET, HEAD, PUT, OPTIONS");
}
END_TEST

START_TEST(paths_that_are_not_there)
{
  static const char *const paths[] = {"",        "/",       "/a",     "/a/",  "/a/x/", "/a/x/b",
                                      "/a/x/b/", "/a//b/1", "/a/x y", "/b/x", "a/x",   "/a/\xc3\xa9"};
  char longest[128] = "/a/";
  size_t i;
  for (i = 0; i < sizeof paths / sizeof paths[0]; i++)
    ck_assert_msg(match("GET", paths[i]).pattern == NULL, "%s", paths[i]);
  memset(longest + 3, 'x', 79);
  ck_assert_ptr_nonnull(match("GET", longest).pattern);
  longest[3 + 79] = 'x';
  ck_assert_ptr_null(match("GET", longest).pattern);
}
END_TEST

START_TEST(info_for_the_server)
{
  struct api_route_info info;
  api_route_info(&info, "GET", "/v1/scorecards/0193");
  ck_assert_str_eq(info.pattern, "/v1/scorecards/{id}");
  ck_assert_int_eq(info.scope, SCOPE_READ);
  ck_assert(!info.needs_worker); /* the hot path answers inline */
  ck_assert(!info.takes_body);
  api_route_info(&info, "POST", "/v1/evaluations");
  ck_assert(info.needs_worker);
  ck_assert(info.takes_body);
  ck_assert_uint_eq(info.body_max_bytes, 256 * 1024);
  api_route_info(&info, "GET", "/nothing");
  ck_assert_str_eq(info.pattern, "");
  ck_assert_int_eq(info.scope, SCOPE_PUBLIC);
  api_route_info(&info, "DELETE", "/healthz");
  ck_assert_str_eq(info.pattern, "/healthz");
  ck_assert_int_eq(info.scope, SCOPE_PUBLIC);
}
END_TEST

/* Whatever changes something needs a worker and a scope that allows it. */
START_TEST(table_is_sound)
{
  size_t i, j;
  for (i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    const bool is_get = strcmp(route->method, "GET") == 0;
    ck_assert_msg(is_get || (route->flags & ROUTE_WORKER) != 0, "%s %s", route->method, route->pattern);
    ck_assert_msg(is_get || route->scope > SCOPE_PUBLIC, "%s %s", route->method, route->pattern);
    ck_assert_msg(strncmp(route->pattern, "/v1/", 4) != 0 || route->scope > SCOPE_PUBLIC, "%s", route->pattern);
    ck_assert_msg(route->summary[0] != '\0', "%s", route->pattern);
    for (j = 0; j < i; j++)
      ck_assert_msg(strcmp(route->method, api_routes[j].method) != 0 ||
                        strcmp(route->pattern, api_routes[j].pattern) != 0,
                    "%s %s twice", route->method, route->pattern);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/router");
  TCase *tcase = suite_case(suite, "router", setup, teardown);
  tcase_add_test(tcase, parameters_are_taken);
  tcase_add_test(tcase, head_is_get);
  tcase_add_test(tcase, literal_wins_over_parameter);
  tcase_add_test(tcase, allow_lists_the_methods);
  tcase_add_test(tcase, paths_that_are_not_there);
  tcase_add_test(tcase, info_for_the_server);
  tcase_add_test(tcase, table_is_sound);
  return suite_run(suite);
}
