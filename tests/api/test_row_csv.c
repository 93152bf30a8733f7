/* Lists as CSV: every list of the route table has its columns, they are those that the contract shows, and they hold what
   the rows have. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include "api/call.h"
#include "api/row_csv.h"

#include <stdlib.h>
#include <string.h>

static struct fake fake;

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

static const char *csv_of(const char *rows, const char *columns)
{
  char *text = row_csv(doc_parse(rows), columns);
  const char *kept = scratch_printf("%s", text);
  free(text);
  return kept;
}

/* RFC 4180: quotes are doubled, what holds commas, quotes or ends of lines is quoted, lines end with CRLF. */
START_TEST(values_as_csv)
{
  ck_assert_str_eq(csv_of("[{\"a\":\"x\",\"b\":{\"c\":1.5}},{\"a\":null,\"b\":7},{\"b\":{\"c\":false}}]", "a,b.c"),
                   "a,b.c\r\nx,1.5\r\n,\r\n,false\r\n");
  ck_assert_str_eq(csv_of("[{\"a\":\"say \\\"x\\\", y\\nz\"}]", "a"), "a\r\n\"say \"\"x\"\", y\nz\"\r\n");
  ck_assert_str_eq(csv_of("[{\"a\":[1,\"b\"],\"o\":{\"p\":1}}]", "a,o"),
                   "a,o\r\n\"[1,\"\"b\"\"]\",\"{\"\"p\"\":1}\"\r\n");
  ck_assert_str_eq(csv_of("[{\"a\":[{\"m\":1},{\"m\":2},{}]}]", "a.m"), "a.m\r\n\"[1,2,null]\"\r\n");
  ck_assert_str_eq(csv_of("[]", "a,b"), "a,b\r\n");
}
END_TEST

static bool has_key(const struct route *route, const char *key)
{
  for (const char *const *at = route->query; at != NULL && *at != NULL; at++)
    if (strcmp(*at, key) == 0)
      return true;
  return false;
}

/* The requests of a trace come in the columns in which traces are sent. */
static bool is_list(const struct route *route)
{
  return has_key(route, "limit") && strcmp(route->pattern, "/v1/traces/{name}/requests") != 0;
}

START_TEST(every_list_has_its_columns)
{
  const json_t *openapi = doc_parse(scratch_read_file(suite_source_path("api/openapi.json")));
  const json_t *paths = json_object_get(openapi, "paths");
  size_t lists = 0;
  for (size_t i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    const char *columns = row_csv_columns(route->pattern);
    const json_t *content, *example;
    if (!is_list(route) || strcmp(route->method, "GET") != 0)
      continue;
    ck_assert_msg(columns != NULL && has_key(route, "format"), "%s has no columns", route->pattern);
    content = json_object_get(doc_at(json_object_get(paths, route->pattern), "get.responses.200"), "content");
    example = json_object_get(json_object_get(content, "text/csv"), "example");
    ck_assert_msg(json_is_string(example), "openapi.json shows no CSV of %s", route->pattern);
    ck_assert_str_eq(json_string_value(example), scratch_printf("%s\r\n", columns));
    lists++;
  }
  ck_assert_uint_eq(lists, 22);
}
END_TEST

static const char *get_csv(const char *path, const char *query, unsigned status)
{
  const struct fake_request request = {.method = "GET", .path = path, .query = query, .scope = SCOPE_ADMIN};
  struct api_response response;
  const char *text;
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == status, "%s: %u %.300s", path, response.status, response.bytes);
  if (status == 200)
    ck_assert_str_eq(response.type, "text/csv");
  text = scratch_printf("%.*s", (int)response.bytes_len, response.bytes);
  api_response_fini(&response);
  return text;
}

static bool has_column(const char *columns, const char *name)
{
  const size_t length = strlen(name);
  for (const char *at = columns; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0' || at[length] == '.'))
      return true;
  return false;
}

/* The list at `path` (of `pattern`) has a row, whatever it says in one value has a column, and each column exists in the
   row or belongs to `absent`, the columns that this row has no need of. */
static void check_list(const char *pattern, const char *path, const char *absent)
{
  const char *columns = row_csv_columns(pattern), *rest = columns, *key;
  json_t *row = json_array_get(doc_at(fake_json(&fake, "GET", path, NULL, 200), "items"), 0), *value;
  const char *csv = get_csv(path, "format=csv", 200);
  ck_assert_msg(json_is_object(row), "%s has no row", path);
  ck_assert_msg(strncmp(csv, columns, strlen(columns)) == 0 && strncmp(csv + strlen(columns), "\r\n", 2) == 0,
                "%s: %.200s", path, csv);
  json_object_foreach(row, key, value)
  {
    ck_assert_msg(json_is_array(value) || json_is_object(value) || has_column(columns, key) ||
                      (absent != NULL && strstr(absent, key) != NULL),
                  "%s: no column for %s", path, key);
  }
  while (*rest != '\0') {
    const size_t length = strcspn(rest, ",");
    const char *column = scratch_printf("%.*s", (int)length, rest);
    ck_assert_msg(doc_at(row, column) != NULL || doc_is_null(row, column) ||
                      (absent != NULL && strstr(absent, column) != NULL),
                  "%s: no %s in %s", path, column, doc_brief(row));
    rest += length + (rest[length] == ',' ? 1 : 0);
  }
}

#define SKETCH                                                                                                         \
  "{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":500,\"output_tokens\":50,"          \
  "\"requests_per_s\":1},\"profiles\":[\"h100-sxm-80gb\"]}"

static void put_trace(void)
{
  static const char body[] = "arrival_s,input_tokens,output_tokens\n0,5,2\n1,5,2\n";
  const struct fake_request request = {.method = "PUT",
                                       .path = "/v1/traces/monday",
                                       .headers = doc_parse("{\"Content-Type\":\"text/csv\"}"),
                                       .body = body,
                                       .body_len = sizeof body - 1,
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_uint_eq(response.status, 201);
  api_response_fini(&response);
}

static void fill(void)
{
  (void)fake_json(&fake, "PUT", "/v1/stacks/pinned", "{\"driver\":\"570\"}", 201);
  (void)fake_json(&fake, "PUT", "/v1/workloads/chat", "{\"sketch\":" SKETCH ",\"owner\":\"ana\"}", 201);
  (void)fake_json(&fake, "POST", "/v1/evaluations", SKETCH, 201);
  (void)fake_json(&fake, "POST", "/v1/measurements",
                  "{\"sketch\":" SKETCH ",\"profile\":\"h100-sxm-80gb\",\"source\":\"lab\","
                  "\"measured\":{\"latency.ttft_ms.p50\":50}}",
                  201);
  (void)fake_json(&fake, "POST", "/v1/quality-results",
                  "{\"model\":\"llama-3.1-8b\",\"precision\":\"fp8\",\"benchmark\":\"ifeval\",\"score\":0.8,"
                  "\"source\":\"lab\"}",
                  201);
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"owner\":\"ana\","
                  "\"rollback_plan\":\"set it back\",\"value\":64}",
                  201);
  (void)fake_json(&fake, "POST", "/v1/decisions",
                  "{\"date\":\"2026-11-30\",\"workload\":\"chat\",\"knob\":\"max-batch\",\"from\":64,\"to\":32,"
                  "\"rationale\":\"less, sooner\"}",
                  201);
  (void)fake_json(&fake, "PUT", "/v1/gates/release",
                  "{\"workload\":\"chat\",\"judge\":\"any\",\"profiles\":[\"h100-sxm-80gb\"],\"certainty\":0.5,"
                  "\"on_inconclusive\":\"warn\",\"expires_at\":\"2027-06-30\","
                  "\"max_regression\":{\"cost.monthly_usd\":0.5},\"targets\":{\"ttft_ms\":{\"p50\":5000}},\"signed_"
                  "off\":[{\"by\":\"ana\","
                  "\"at\":\"2026-11-30\",\"rationale\":\"sold so\",\"team\":\"assistants\"}]}",
                  201);
  (void)fake_json(&fake, "POST", "/v1/gates/release/checks", SKETCH, 201);
  (void)fake_json(&fake, "POST", "/v1/reviews", "{\"week\":\"2026-W49\"}", 201);
  (void)fake_json(&fake, "PUT", "/v1/nodes/gpu-1",
                  "{\"url\":\"http://10.0.0.1/metrics\",\"profile\":\"h100-sxm-80gb\"}", 201);
  (void)fake_json(&fake, "POST", "/v1/tokens", "{\"name\":\"ci\",\"scope\":\"evaluate\"}", 201);
  put_trace();
}

START_TEST(rows_have_the_columns)
{
  fill();
  check_list("/v1/scorecards", "/v1/scorecards", NULL);
  check_list("/v1/evaluations", "/v1/evaluations", "recommendation.runner_up.profile");
  check_list("/v1/measurements", "/v1/measurements", NULL);
  check_list("/v1/quality-results", "/v1/quality-results", NULL);
  check_list("/v1/annotations", "/v1/annotations", NULL);
  check_list("/v1/workloads", "/v1/workloads", "description");
  check_list("/v1/models", "/v1/models", "derived.kv_bytes_per_token_past_window");
  check_list("/v1/models/{name}/revisions", "/v1/models/llama-3.1-8b/revisions",
             "derived.kv_bytes_per_token_past_window");
  check_list("/v1/profiles", "/v1/profiles", NULL);
  check_list("/v1/profiles/{name}/revisions", "/v1/profiles/l40s-48gb/revisions", NULL);
  check_list("/v1/stacks", "/v1/stacks", "framework,runtime,kernels,description");
  check_list("/v1/stacks/{name}/revisions", "/v1/stacks/pinned/revisions", "framework,runtime,kernels,description");
  check_list("/v1/traces", "/v1/traces", NULL);
  check_list("/v1/gates", "/v1/gates", "require_stack,require_measurement.max_age_days,description");
  check_list("/v1/gates/{name}/checks", "/v1/gates/release/checks", "waiver");
  check_list("/v1/reviews", "/v1/reviews", NULL);
  check_list("/v1/knobs", "/v1/knobs", "description");
  check_list("/v1/knobs/{workload}", "/v1/knobs/chat", "description");
  check_list("/v1/decisions", "/v1/decisions", NULL);
  check_list("/v1/nodes", "/v1/nodes", NULL);
  check_list("/v1/tokens", "/v1/tokens", NULL);
  /* Without rows there is the header. */
  ck_assert_str_eq(get_csv("/v1/calibrations", "format=csv", 200),
                   scratch_printf("%s\r\n", row_csv_columns("/v1/calibrations")));
}
END_TEST

START_TEST(fields_are_columns)
{
  fill();
  ck_assert_str_eq(get_csv("/v1/decisions", "format=csv&fields=knob,rationale,outcome_figures", 200),
                   "knob,rationale,outcome_figures\r\nmax-batch,\"less, sooner\",{}\r\n");
  ck_assert_str_eq(get_csv("/v1/gates", "format=csv&fields=name,signed_off.by,targets.ttft_ms", 200),
                   "name,signed_off.by,targets.ttft_ms\r\nrelease,\"[\"\"ana\"\"]\",\"{\"\"p50\"\":5000}\"\r\n");
  (void)get_csv("/v1/gates", "format=csv&fields=nmae", 422);
  (void)get_csv("/v1/gates", "format=md", 406);
  (void)get_csv("/v1/nodes", "format=md", 406);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("row_csv");
  TCase *tcase = tcase_create("row_csv");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, values_as_csv);
  tcase_add_test(tcase, every_list_has_its_columns);
  tcase_add_test(tcase, rows_have_the_columns);
  tcase_add_test(tcase, fields_are_columns);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
