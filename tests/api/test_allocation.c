/* Every request with its n-th allocation failing, for each n until none fails: the answer is the right one, byte for byte,
   or a plain 503 or 500; nothing crashes, nothing is lost (under ASan: nothing leaks), and the next request is served.
   Reaches the project's own objects (linked with --wrap), jansson through them, and SQLite. */
#include "api/api.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The allocator ---- */

static atomic_bool is_armed, keeps_failing;
static atomic_long countdown;

static bool fails_now(void)
{
  long left;
  if (!atomic_load(&is_armed))
    return false;
  left = atomic_fetch_sub(&countdown, 1);
  return left == 0 || (left < 0 && atomic_load(&keeps_failing));
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
  return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
  return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
  return fails_now() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
  return fails_now() ? NULL : __real_strdup(text);
}

/* jansson's parser does not survive what is done here (api/json_memory.h); everything around it must. */
json_t *__real_json_loadb(const char *text, size_t length, size_t flags, json_error_t *problem);
json_t *__wrap_json_loadb(const char *text, size_t length, size_t flags, json_error_t *problem);
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *problem);

json_t *__wrap_json_loadb(const char *text, size_t length, size_t flags, json_error_t *problem)
{
  const bool was_armed = atomic_exchange(&is_armed, false);
  json_t *document = __real_json_loadb(text, length, flags, problem);
  atomic_store(&is_armed, was_armed);
  return document;
}

json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *problem)
{
  return __wrap_json_loadb(text, strlen(text), flags, problem);
}

static sqlite3_mem_methods sqlite_memory; /* SQLite's own */

static void *sqlite_malloc_or_fail(int bytes)
{
  return fails_now() ? NULL : sqlite_memory.xMalloc(bytes);
}

static void *sqlite_realloc_or_fail(void *old, int bytes)
{
  return fails_now() ? NULL : sqlite_memory.xRealloc(old, bytes);
}

static bool take_over_libraries(void)
{
  sqlite3_mem_methods failing;
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory) != SQLITE_OK)
    return false;
  failing = sqlite_memory;
  failing.xMalloc = sqlite_malloc_or_fail;
  failing.xRealloc = sqlite_realloc_or_fail;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) == SQLITE_OK;
}

/* ---- Requests ---- */

#define SKETCH                                                                                                         \
  "{\"workload\": \"chat\", \"model\": \"llama-3.1-8b\", \"traffic\": {\"input_tokens\": 512, \"output_tokens\": 64, " \
  "\"requests_per_s\": 2}, \"targets\": {\"ttft_ms\": {\"p50\": 500}}, \"profiles\": [\"l40s-48gb\"]}"

static struct fake fake;
static char evaluation[64], scorecard[64];
static long next_failure = -1;

static void arm(void)
{
  atomic_store(&countdown, next_failure);
  atomic_store(&is_armed, next_failure >= 0);
}

static void setup(void)
{
  json_t *answer;
  fake_open(&fake, suite_dir());
  fake.on_send = arm;
  answer = fake_json(&fake, "POST", "/v1/evaluations", SKETCH, 201);
  (void)snprintf(evaluation, sizeof evaluation, "%s", json_string_value(json_object_get(answer, "id")));
  answer = json_array_get(json_object_get(answer, "scorecards"), 0);
  (void)snprintf(scorecard, sizeof scorecard, "%s", json_string_value(json_object_get(answer, "id")));
}

static void teardown(void)
{
  atomic_store(&is_armed, false);
  fake_close(&fake);
  scratch_release();
}

/* Time and random bytes are the same for each try of a read; a write has its own, as its identifiers must be new. */
static struct api_response send_failing(const struct fake_request *request, long n, bool is_write)
{
  static int64_t writes;
  struct api_response response;
  fake.random = 100;
  fake.now_ms = FAKE_START_MS + 1000 + (is_write ? ++writes : 0);
  next_failure = n;
  fake_send(&fake, request, &response);
  atomic_store(&is_armed, false);
  next_failure = -1;
  return response;
}

static void check_answer(const struct api_response *is, const struct api_response *right, const char *what, long n)
{
  if (is->status == 503 || is->status == 500) {
    ck_assert_msg(is->bytes == NULL || strcmp(is->type, "application/problem+json") == 0, "%s, allocation %ld: %s",
                  what, n, is->type);
    return;
  }
  ck_assert_msg(is->status == right->status, "%s, allocation %ld: %u instead of %u: %.300s", what, n, is->status,
                right->status, is->bytes != NULL ? is->bytes : "");
  ck_assert_msg(is->bytes_len == right->bytes_len && memcmp(is->bytes, right->bytes, is->bytes_len) == 0,
                "%s, allocation %ld: %u with another body: %.300s", what, n, is->status, is->bytes);
}

/* The first ones one by one; then in growing steps, for an evaluation has thousands that are alike. */
static long next_try(long n)
{
  return n < 60 ? n + 1 : n + n / 12;
}

static void torture(const char *method, const char *target, const char *body, bool is_write)
{
  const size_t length = strcspn(target, "?");
  const struct fake_request request = {.method = method,
                                       .path = scratch_printf("%.*s", (int)length, target),
                                       .query = target[length] == '?' ? target + length + 1 : NULL,
                                       .body = body,
                                       .body_len = body != NULL ? strlen(body) : 0,
                                       .scope = SCOPE_ADMIN};
  struct api_response right = send_failing(&request, -1, is_write), response;
  long n = 0;
  bool was_reached = true;
  ck_assert_msg(right.status < 300, "%s %s: %u %s", method, target, right.status, right.bytes);
  for (; was_reached; n = next_try(n)) {
    response = send_failing(&request, n, is_write);
    was_reached = atomic_load(&countdown) < 0;
    if (!is_write)
      check_answer(&response, &right, target, n);
    else
      ck_assert_msg(response.status < 300 || response.status == 503 || response.status == 500, "%s, allocation %ld: %u",
                    target, n, response.status);
    ck_assert_msg(was_reached || response.status < 300, "%s: %u without a failure, at %ld: %.300s (%s)", target,
                  response.status, n, response.bytes != NULL ? response.bytes : "", fake.log);
    api_response_fini(&response);
  }
  ck_assert_int_gt(n, 1); /* the allocator is in the way at all */
  api_response_fini(&right);
}

static void torture_all(void)
{
  torture("GET", scratch_printf("/v1/scorecards/%s", scorecard), NULL, false);
  torture("GET", scratch_printf("/v1/scorecards/%s/explain?format=md", scorecard), NULL, false);
  torture("GET", scratch_printf("/v1/evaluations/%s", evaluation), NULL, false);
  torture("GET", "/v1/scorecards?workload=chat&limit=5&format=csv", NULL, false);
  torture("GET", "/v1/profiles?limit=3", NULL, false);
  torture("GET", "/v1/models/llama-3.1-8b", NULL, false);
  torture("GET", "/v1/portfolio", NULL, false);
  torture("GET", "/metrics", NULL, true); /* counts the requests */
  torture("POST", "/v1/evaluations?store=false&depth=quick", SKETCH, false);
  torture("POST", "/v1/frontiers?format=csv", SKETCH, false);
  torture("POST", "/v1/what-ifs", "{\"sketch\": " SKETCH ", \"vary\": {\"/traffic/input_tokens\": [512, 1024]}}",
          false);
}

START_TEST(one_allocation_fails)
{
  atomic_store(&keeps_failing, false);
  torture_all();
}
END_TEST

START_TEST(all_allocations_from_one_on_fail)
{
  atomic_store(&keeps_failing, true);
  torture_all();
}
END_TEST

/* A write that failed has left nothing half done: it can be done again, and what stands in the store can be read. */
START_TEST(writes_are_whole_or_not_at_all)
{
  json_t *row, *rows;
  size_t i;
  atomic_store(&keeps_failing, false);
  torture("POST", "/v1/evaluations?depth=quick", SKETCH, true);
  torture("PUT", "/v1/workloads/chat", "{\"sketch\": " SKETCH "}", true);
  torture("PUT", "/v1/stacks/prod", "{\"runtime\": \"vllm 0.10\"}", true);
  torture("PUT", "/v1/gates/chat", "{\"workload\": \"chat\", \"targets\": {\"ttft_ms\": {\"p50\": 500}}}", true);
  torture("POST", "/v1/gates/chat/checks", SKETCH, true);
  rows = json_object_get(fake_json(&fake, "GET", "/v1/evaluations?limit=1000", NULL, 200), "items");
  ck_assert_uint_gt(json_array_size(rows), 1);
  json_array_foreach(rows, i, row)
  {
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *whole = fake_json(&fake, "GET", scratch_printf("/v1/evaluations/%s", id), NULL, 200);
    ck_assert_uint_eq(json_array_size(json_object_get(whole, "scorecards")), 1);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/allocation");
  TCase *tcase = suite_case(suite, "allocation", setup, teardown);
  if (!take_over_libraries())
    return 1;
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, one_allocation_fails);
  tcase_add_test(tcase, all_allocations_from_one_on_fail);
  tcase_add_test(tcase, writes_are_whole_or_not_at_all);
  return suite_run(suite);
}
