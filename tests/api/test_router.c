/* Routing over a small table of its own, and what the real table promises: OpenAPI describes exactly its routes. */
#include "api/problem.h"
#include "api/router.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <ctype.h>
#include <glob.h>
#include <regex.h>
#include <stdlib.h>
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

static const json_t *openapi(void)
{
  json_error_t problem;
  json_t *document = json_load_file(suite_source_path("api/openapi.json"), JSON_REJECT_DUPLICATES, &problem);
  ck_assert_msg(document != NULL, "openapi.json:%d: %s", problem.line, problem.text);
  return scratch_json_steal(document);
}

static bool is_query_parameter(const json_t *document, const json_t *parameters, const char *key)
{
  const json_t *known = json_object_get(json_object_get(document, "components"), "parameters");
  size_t i;
  for (i = 0; i < json_array_size(parameters); i++) {
    const json_t *given = json_array_get(parameters, i);
    const char *ref = json_string_value(json_object_get(given, "$ref"));
    const json_t *parameter = ref != NULL ? json_object_get(known, strrchr(ref, '/') + 1) : given;
    const char *name = json_string_value(json_object_get(parameter, "name"));
    ck_assert_msg(ref == NULL || name != NULL, "%s is not there", ref);
    if (name != NULL && strcmp(name, key) == 0)
      return true;
  }
  return false;
}

START_TEST(openapi_describes_the_table)
{
  const json_t *document = openapi(), *paths = json_object_get(document, "paths"), *item;
  json_t *iterable;
  const char *path;
  size_t described = 0, i;
  for (i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    char method[8] = "";
    const json_t *operation;
    const char *const *key;
    size_t n;
    for (n = 0; route->method[n] != '\0'; n++)
      method[n] = (char)tolower((unsigned char)route->method[n]);
    operation = json_object_get(json_object_get(paths, route->pattern), method);
    ck_assert_msg(operation != NULL, "%s %s is not described", route->method, route->pattern);
    ck_assert_str_eq(json_string_value(json_object_get(operation, "summary")), route->summary);
    ck_assert_str_eq(json_string_value(json_object_get(operation, "x-scope")), scope_name(route->scope));
    for (key = route->query; key != NULL && *key != NULL; key++)
      ck_assert_msg(is_query_parameter(document, json_object_get(operation, "parameters"), *key), "%s ?%s",
                    route->pattern, *key);
  }
  memcpy(&iterable, &paths, sizeof iterable);
  json_object_foreach(iterable, path, item)
  {
    described += json_object_size(item);
  }
  ck_assert_uint_eq(described, api_route_count);
}
END_TEST

/* Every number of the profile's schema has the bounds that are checked. */
START_TEST(openapi_describes_profile_numbers)
{
  const json_t *schemas = json_object_get(json_object_get(openapi(), "components"), "schemas");
  const json_t *properties = json_object_get(json_object_get(schemas, "ProfileBody"), "properties");
  const struct {
    const char *pointer;
    double min, max;
  } rows[] = {
#define HARDWARE(need, member, pointer, unit, min, max, sentence) {pointer, min, max},
#include "core/hardware.def"
#undef HARDWARE
  };
  size_t i;
  for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *name = rows[i].pointer + 1, *slash = strchr(name, '/');
    const json_t *field = json_object_get(properties, name);
    if (slash != NULL) {
      const json_t *group = json_object_get(properties, scratch_printf("%.*s", (int)(slash - name), name));
      field = json_object_get(json_object_get(group, "properties"), slash + 1);
    }
    ck_assert_msg(field != NULL, "%s", rows[i].pointer);
    ck_assert_double_eq_tol(json_number_value(json_object_get(field, "minimum")), rows[i].min, 1e-12);
    ck_assert_double_eq_tol(json_number_value(json_object_get(field, "maximum")), rows[i].max, 1e-12);
  }
}
END_TEST

/* Every problem type of the error codes … */
static const struct {
  enum err code;
  const char *slug;
} error_types[] = {
#define ERROR(name, slug, text) {ERR_##name, slug},
#include "core/error.def"
#undef ERROR
};

static void check_type(const char *description, unsigned status, const char *slug)
{
  const char *line = scratch_printf("\n- `/problems/%s` (%u): ", slug, status);
  ck_assert_msg(strstr(description, line) != NULL, "openapi.json describes no /problems/%s (%u)", slug, status);
}

/* … and those that the sources name where they refuse: a status, then a slug. Returns how many there are. */
static size_t check_types_of(const char *description, const char *path, const regex_t *refusal)
{
  const char *at = scratch_read_file(path);
  regmatch_t found[4];
  size_t count = 0;
  for (; regexec(refusal, at, 4, found, 0) == 0; at += found[0].rm_eo, count++)
    check_type(description, (unsigned)strtoul(at + found[2].rm_so, NULL, 10),
               scratch_printf("%.*s", (int)(found[3].rm_eo - found[3].rm_so), at + found[3].rm_so));
  return count;
}

START_TEST(openapi_describes_every_problem_type)
{
  const char *description = json_string_value(json_object_get(json_object_get(openapi(), "info"), "description"));
  regex_t refusal;
  glob_t sources;
  size_t count = 0, i;
  ck_assert_ptr_nonnull(description);
  for (i = 1; i < sizeof error_types / sizeof error_types[0]; i++) /* 0 is no error */
    check_type(description, status_of_error(error_types[i].code), error_types[i].slug);
  ck_assert_int_eq(
      regcomp(&refusal, "(http_refuse|api_problem)\\([^;\"]*[ \n]([0-9]{3}),[ \n]*\"([a-z-]+)\"", REG_EXTENDED), 0);
  ck_assert_int_eq(glob(suite_source_path("api/*.c"), 0, NULL, &sources), 0);
  ck_assert_int_eq(glob(suite_source_path("server/*.c"), GLOB_APPEND, NULL, &sources), 0);
  for (i = 0; i < sources.gl_pathc; i++)
    count += check_types_of(description, sources.gl_pathv[i], &refusal);
  globfree(&sources);
  regfree(&refusal);
  ck_assert_uint_ge(count, 16); /* as many as there were when this was written: the pattern finds them */
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
  tcase_add_test(tcase, openapi_describes_the_table);
  tcase_add_test(tcase, openapi_describes_profile_numbers);
  tcase_add_test(tcase, openapi_describes_every_problem_type);
  return suite_run(suite);
}
