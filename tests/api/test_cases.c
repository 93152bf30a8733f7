/* Runs the folders of tests/api/cases against a fresh store each: request.json holds one request or a list of them,
   response.json what must come back.
     request:  {"method", "path", "query"?, "headers"?, "body"? (JSON) | "text"? (raw), "scope"? (admin),
                "advance_ms"? (the clock before it), "restart"? (true: close and open before it), "not_ready"?}
     response: {"status", "headers"? {name: value | null = must be absent}, "body"? | "text"?, "save"?}
   A body is compared by what it states: objects may have more members, arrays have the same length. "$any" matches what
   is there, "$absent" what is not. save {"name": "header:ETag" | "/json/pointer"} keeps a text for later requests, where
   ${name} stands for it (also in expected texts). */
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CASES_MAX 256
#define SAVED_MAX 16

static char *cases[CASES_MAX];
static int case_count;

static struct fake fake;
static struct saved {
  char name[32];
  char value[2048];
} saved[SAVED_MAX];
static size_t saved_count;

static void setup(void)
{
  fake_open(&fake, suite_dir());
  saved_count = 0;
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

/* ---- ${name} -------------------------------------------------------------------------------------------------------- */

static const char *saved_value(const char *name, size_t length)
{
  size_t i;
  for (i = 0; i < saved_count; i++)
    if (strlen(saved[i].name) == length && strncmp(saved[i].name, name, length) == 0)
      return saved[i].value;
  ck_abort_msg("nothing was saved as %.*s", (int)length, name);
  return "";
}

static const char *expand(const char *text)
{
  const char *start = strstr(text, "${"), *end;
  if (start == NULL)
    return text;
  end = strchr(start, '}');
  ck_assert_ptr_nonnull(end);
  return expand(scratch_printf("%.*s%s%s", (int)(start - text), text, saved_value(start + 2, (size_t)(end - start) - 2),
                               end + 1));
}

/* The same document with all its texts expanded. */
static json_t *expand_json(const json_t *value)
{
  json_t *copy = scratch_json_steal(json_deep_copy(value)), *member;
  const char *key;
  size_t i;
  if (json_is_string(copy))
    return scratch_json_steal(json_string(expand(json_string_value(copy))));
  json_object_foreach(copy, key, member)
  {
    ck_assert_int_eq(json_object_set(copy, key, expand_json(member)), 0);
  }
  json_array_foreach(copy, i, member)
  {
    ck_assert_int_eq(json_array_set(copy, i, expand_json(member)), 0);
  }
  return copy;
}

/* ---- Comparing ------------------------------------------------------------------------------------------------------ */

static void mismatch(const char *at, const char *what, const json_t *expected, const json_t *actual)
{
  ck_abort_msg("%s: %s: expected %s, got %s", at, what,
               expected != NULL ? json_dumps(expected, JSON_ENCODE_ANY | JSON_COMPACT) : "nothing",
               actual != NULL ? json_dumps(actual, JSON_ENCODE_ANY | JSON_COMPACT) : "nothing");
}

static bool is_word(const json_t *value, const char *word)
{
  return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

static void compare(const char *at, json_t *expected, json_t *actual)
{
  json_t *member;
  const char *key;
  size_t i;
  if (is_word(expected, "$absent") && actual == NULL)
    return;
  if (is_word(expected, "$any") && actual != NULL)
    return;
  if (json_is_object(expected) && json_is_object(actual)) {
    json_object_foreach(expected, key, member)
    {
      compare(scratch_printf("%s/%s", at, key), member, json_object_get(actual, key));
    }
    return;
  }
  if (json_is_array(expected) && json_is_array(actual) && json_array_size(expected) == json_array_size(actual)) {
    json_array_foreach(expected, i, member)
    {
      compare(scratch_printf("%s/%zu", at, i), member, json_array_get(actual, i));
    }
    return;
  }
  if (json_is_number(expected) && json_is_number(actual) &&
      !(json_number_value(expected) < json_number_value(actual)) &&
      !(json_number_value(expected) > json_number_value(actual)))
    return;
  if (!json_equal(expected, actual))
    mismatch(at, "body", expected, actual);
}

static const char *header_of(const struct api_response *response, const char *name)
{
  size_t i;
  for (i = 0; i < response->header_count; i++)
    if (strcasecmp(response->headers[i].name, name) == 0)
      return response->headers[i].value;
  return strcasecmp(name, "Content-Type") == 0 && response->type[0] != '\0' ? response->type : NULL;
}

static void compare_headers(const char *at, json_t *expected, const struct api_response *response)
{
  json_t *value;
  const char *name;
  json_object_foreach(expected, name, value)
  {
    const char *seen = header_of(response, name);
    if (json_is_null(value))
      ck_assert_msg(seen == NULL, "%s: header %s is there: %s", at, name, seen != NULL ? seen : "");
    else if (is_word(value, "$any"))
      ck_assert_msg(seen != NULL, "%s: header %s is missing", at, name);
    else
      ck_assert_msg(seen != NULL && strcmp(seen, json_string_value(value)) == 0, "%s: header %s: expected %s, got %s",
                    at, name, json_string_value(value), seen != NULL ? seen : "nothing");
  }
}

static const json_t *at_pointer(const json_t *document, const char *pointer)
{
  while (*pointer == '/' && document != NULL) {
    const size_t length = strcspn(pointer + 1, "/");
    const char *name = scratch_printf("%.*s", (int)length, pointer + 1);
    document = json_is_array(document) ? json_array_get(document, (size_t)strtoul(name, NULL, 10))
                                       : json_object_get(document, name);
    pointer += length + 1;
  }
  return document;
}

static void save_values(const char *at, json_t *wanted, const json_t *body, const struct api_response *response)
{
  json_t *value;
  const char *name;
  json_object_foreach(wanted, name, value)
  {
    const char *source = json_string_value(value);
    const char *text = strncmp(source, "header:", 7) == 0 ? header_of(response, source + 7)
                                                          : json_string_value(at_pointer(body, source));
    ck_assert_msg(text != NULL, "%s: there is no %s to save", at, source);
    ck_assert_uint_lt(saved_count, SAVED_MAX);
    (void)snprintf(saved[saved_count].name, sizeof saved[0].name, "%s", name);
    (void)snprintf(saved[saved_count].value, sizeof saved[0].value, "%s", text);
    saved_count++;
  }
}

/* ---- One step ------------------------------------------------------------------------------------------------------- */

static void prepare(const json_t *step)
{
  const char *not_ready = json_string_value(json_object_get(step, "not_ready"));
  fake.now_ms += json_integer_value(json_object_get(step, "advance_ms"));
  (void)snprintf(fake.not_ready, sizeof fake.not_ready, "%s", not_ready != NULL ? not_ready : "");
  if (json_is_true(json_object_get(step, "restart")))
    fake_reopen(&fake);
}

static struct fake_request request_of(const json_t *step)
{
  const char *scope = json_string_value(json_object_get(step, "scope"));
  const char *query = json_string_value(json_object_get(step, "query"));
  const json_t *body = json_object_get(step, "body"), *text = json_object_get(step, "text");
  struct fake_request request = {.method = json_string_value(json_object_get(step, "method")),
                                 .path = expand(json_string_value(json_object_get(step, "path"))),
                                 .query = query != NULL ? expand(query) : NULL,
                                 .scope = SCOPE_ADMIN};
  char *dumped;
  if (scope != NULL)
    ck_assert_msg(strcmp(scope, "public") == 0 || scope_parse(&request.scope, scope), "scope %s", scope);
  if (scope != NULL && strcmp(scope, "public") == 0)
    request.scope = SCOPE_PUBLIC;
  if (json_object_get(step, "headers") != NULL)
    request.headers = expand_json(json_object_get(step, "headers"));
  if (text != NULL)
    request.body = json_string_value(text);
  if (body != NULL) {
    dumped = json_dumps(expand_json(body), JSON_COMPACT | JSON_ENCODE_ANY);
    ck_assert_ptr_nonnull(dumped);
    request.body = scratch_printf("%s", dumped);
    free(dumped);
  }
  request.body_len = request.body != NULL ? strlen(request.body) : 0;
  return request;
}

static void run_step(const char *at, const json_t *step, const json_t *expected)
{
  const struct fake_request request = request_of(step);
  const json_t *text = json_object_get(expected, "text"), *wanted = json_object_get(expected, "body");
  struct api_response response;
  json_t *body = NULL;
  prepare(step);
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == (unsigned)json_integer_value(json_object_get(expected, "status")),
                "%s: status %u: %s %s", at, response.status, response.bytes != NULL ? response.bytes : "", fake.log);
  if (json_object_get(expected, "headers") != NULL)
    compare_headers(at, expand_json(json_object_get(expected, "headers")), &response);
  if (text != NULL)
    ck_assert_str_eq(response.bytes != NULL ? response.bytes : "", expand(json_string_value(text)));
  if (response.bytes != NULL && strstr(response.type, "json") != NULL)
    body = scratch_json_steal(json_loadb(response.bytes, response.bytes_len, 0, NULL));
  if (wanted != NULL)
    compare(at, expand_json(wanted), body);
  if (json_object_get(expected, "save") != NULL)
    save_values(at, json_object_get(expected, "save"), body, &response);
  api_response_fini(&response);
}

static json_t *load(const char *name, const char *file)
{
  const char *path = suite_source_path(scratch_printf("tests/api/cases/%s/%s", name, file));
  json_error_t problem;
  json_t *document = json_load_file(path, 0, &problem);
  ck_assert_msg(document != NULL, "%s:%d: %s", path, problem.line, problem.text);
  return scratch_json_steal(document);
}

START_TEST(case_folder)
{
  const char *name = cases[_i];
  json_t *requests = load(name, "request.json"), *responses = load(name, "response.json");
  size_t i;
  if (json_is_object(requests)) {
    run_step(name, requests, responses);
    return;
  }
  ck_assert_msg(json_array_size(requests) > 0, "%s: no requests", name);
  ck_assert_msg(json_array_size(requests) == json_array_size(responses), "%s: %zu requests, %zu responses", name,
                json_array_size(requests), json_array_size(responses));
  for (i = 0; i < json_array_size(requests); i++)
    run_step(scratch_printf("%s step %zu", name, i + 1), json_array_get(requests, i), json_array_get(responses, i));
}
END_TEST

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Before the suite runs, where nothing of check may be used: the binary is build/<flavour>/tests/api/test_cases. */
static void find_cases(void)
{
  char path[4096 + 32];
  const ssize_t length = readlink("/proc/self/exe", path, 4096);
  struct dirent *entry;
  DIR *dir;
  int level;
  path[length > 0 ? length : 0] = '\0';
  for (level = 0; level < 5 && strrchr(path, '/') != NULL; level++)
    *strrchr(path, '/') = '\0';
  (void)snprintf(path + strlen(path), 32, "/tests/api/cases");
  dir = opendir(path);
  if (dir == NULL)
    return;
  while ((entry = readdir(dir)) != NULL && case_count < CASES_MAX)
    if (entry->d_name[0] != '.')
      cases[case_count++] = strdup(entry->d_name);
  closedir(dir);
  qsort(cases, (size_t)case_count, sizeof *cases, compare_names);
}

int main(void)
{
  Suite *suite = suite_create("api cases");
  TCase *tcase = suite_case(suite, "cases", setup, teardown);
  int status, i;
  find_cases();
  tcase_add_loop_test(tcase, case_folder, 0, case_count);
  status = suite_run(suite);
  for (i = 0; i < case_count; i++)
    free(cases[i]);
  return status;
}
