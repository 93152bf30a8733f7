/* api/openapi.json holds what the routes, the sources' refusals and the tables of fields say, and has an example everywhere. */
#include "api/problem.h"
#include "api/router.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <ctype.h>
#include <glob.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

static void setup(void)
{
}

static void teardown(void)
{
  scratch_release();
}

static const json_t *openapi(void)
{
  json_error_t problem;
  json_t *document = json_load_file(suite_source_path("api/openapi.json"), JSON_REJECT_DUPLICATES, &problem);
  ck_assert_msg(document != NULL, "openapi.json:%d: %s", problem.line, problem.text);
  return scratch_json_steal(document);
}

static const json_t *operation_of(const json_t *document, const struct route *route)
{
  const json_t *operation;
  char method[8] = "";
  for (size_t i = 0; route->method[i] != '\0'; i++)
    method[i] = (char)tolower((unsigned char)route->method[i]);
  operation = json_object_get(json_object_get(json_object_get(document, "paths"), route->pattern), method);
  ck_assert_msg(operation != NULL, "%s %s is not described", route->method, route->pattern);
  return operation;
}

/* What a reference names, or the value itself. */
static const json_t *resolve(const json_t *document, const json_t *value)
{
  const char *at = json_string_value(json_object_get(value, "$ref"));
  if (at == NULL)
    return value;
  ck_assert_msg(strncmp(at, "#/", 2) == 0, "%s", at);
  for (value = document, at += 2; value != NULL && *at != '\0'; at += strcspn(at, "/"), at += *at == '/')
    value = json_object_get(value, scratch_printf("%.*s", (int)strcspn(at, "/"), at));
  return value;
}

static bool is_query_parameter(const json_t *document, const json_t *parameters, const char *key)
{
  for (size_t i = 0; i < json_array_size(parameters); i++) {
    const json_t *parameter = resolve(document, json_array_get(parameters, i));
    const char *name = json_string_value(json_object_get(parameter, "name"));
    ck_assert_msg(name != NULL, "a parameter of %s is not there", key);
    if (strcmp(name, key) == 0)
      return true;
  }
  return false;
}

START_TEST(the_table_is_described)
{
  const json_t *document = openapi(), *paths = json_object_get(document, "paths"), *item;
  json_t *iterable;
  const char *path;
  size_t described = 0, i;
  for (i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    const json_t *operation = operation_of(document, route);
    const char *const *key;
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

/* What the server and the router refuse on every route of a kind, whatever its handler does. */
START_TEST(refusals_are_described)
{
  const json_t *document = openapi();
  static const char *const always[] = {"400", "406", "408", "414", "422", "429", "500", "503"};
  for (size_t i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    const json_t *responses = json_object_get(operation_of(document, route), "responses");
    const bool takes_body = (route->flags & (ROUTE_BODY | ROUTE_BODY_OPTIONAL)) != 0,
               has_scope = route->scope > SCOPE_PUBLIC;
    for (size_t j = 0; j < sizeof always / sizeof always[0]; j++)
      ck_assert_msg(json_object_get(responses, always[j]) != NULL, "%s %s %s", route->method, route->pattern,
                    always[j]);
    ck_assert_msg((json_object_get(responses, "401") != NULL) == has_scope, "%s %s", route->method, route->pattern);
    ck_assert_msg((json_object_get(responses, "403") != NULL) == has_scope, "%s %s", route->method, route->pattern);
    ck_assert_msg((json_object_get(responses, "413") != NULL) == takes_body, "%s %s", route->method, route->pattern);
    ck_assert_msg((json_object_get(responses, "415") != NULL) == takes_body, "%s %s", route->method, route->pattern);
  }
}
END_TEST

/* Each form of a body or an answer has an example; an example of a problem has the status it stands under and its type. */
static void check_examples(const json_t *document, const json_t *content, const char *status, const char *where)
{
  json_t *media, *iterable;
  const char *type;
  memcpy(&iterable, &content, sizeof iterable);
  json_object_foreach(iterable, type, media)
  {
    json_t *examples = json_object_get(media, "examples"), *named;
    const char *name;
    ck_assert_msg(json_object_get(media, "example") != NULL || json_object_size(examples) > 0, "%s %s", where, type);
    json_object_foreach(examples, name, named)
    {
      const json_t *value = json_object_get(resolve(document, named), "value");
      ck_assert_msg(value != NULL, "%s %s: %s has no value", where, type, name);
      if (strcmp(type, "application/problem+json") != 0)
        continue;
      ck_assert_str_eq(json_string_value(json_object_get(value, "type")), scratch_printf("/problems/%s", name));
      ck_assert_int_eq(json_integer_value(json_object_get(value, "status")), strtol(status, NULL, 10));
    }
  }
}

START_TEST(everything_has_an_example)
{
  const json_t *document = openapi();
  for (size_t i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    const json_t *operation = operation_of(document, route);
    const json_t *body = json_object_get(operation, "requestBody");
    json_t *responses = json_object_get(operation, "responses"), *response;
    const char *status, *where = scratch_printf("%s %s", route->method, route->pattern);
    ck_assert_msg((body != NULL) == ((route->flags & (ROUTE_BODY | ROUTE_BODY_OPTIONAL)) != 0), "%s", where);
    check_examples(document, json_object_get(body, "content"), "0", where);
    json_object_foreach(responses, status, response)
    {
      const json_t *resolved = resolve(document, response);
      ck_assert_msg(resolved != NULL, "%s %s", where, status);
      check_examples(document, json_object_get(resolved, "content"), status, scratch_printf("%s %s", where, status));
    }
  }
}
END_TEST

/* Every number of the profile's schema has the bounds that are checked. */
START_TEST(profile_numbers_have_their_bounds)
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

/* 405 stands at no operation: it is what the other methods of a path get. */
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

START_TEST(every_problem_type_is_described)
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
  /* The answer that is written to a socket whose request is late. */
  check_type(description, 408, "request-timeout");
  globfree(&sources);
  regfree(&refusal);
  ck_assert_uint_ge(count, 16); /* as many as there were when this was written: the pattern finds them */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/openapi");
  TCase *tcase = suite_case(suite, "openapi", setup, teardown);
  tcase_add_test(tcase, the_table_is_described);
  tcase_add_test(tcase, refusals_are_described);
  tcase_add_test(tcase, everything_has_an_example);
  tcase_add_test(tcase, profile_numbers_have_their_bounds);
  tcase_add_test(tcase, every_problem_type_is_described);
  return suite_run(suite);
}
