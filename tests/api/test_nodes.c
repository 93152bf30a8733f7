/* /v1/nodes: what is taken, what is refused, what is never shown. */
#include "api/nodes.h"
#include "tests/api/live_fixtures.h"

#define URL "\"url\": \"http://10.0.0.7:9400/metrics\", \"profile\": \"h100-sxm-80gb\""

START_TEST(put_get_list_delete)
{
  const json_t *node =
      ask("PUT", "/v1/nodes/gpu-7", NULL, "{" URL ", \"exporter\": \"dcgm\", \"interval_s\": 30}", 201);
  ck_assert_str_eq(doc_text(node, "name"), "gpu-7");
  ck_assert_str_eq(doc_text(node, "exporter"), "dcgm");
  ck_assert_str_eq(doc_text(node, "authentication"), "none");
  ck_assert_str_eq(doc_text(node, "health.state"), "pending");
  ck_assert_double_eq(doc_number(node, "timeout_s"), 5);
  ck_assert(doc_is_null(node, "engine"));
  (void)ask("PUT", "/v1/nodes/gpu-7", NULL, "{" URL "}", 200);
  node = get("/v1/nodes");
  ck_assert_str_eq(doc_text(node, "items.0.name"), "gpu-7");
  ck_assert_int_eq(doc_integer(node, "items.0.revision"), 2);
  (void)ask("DELETE", "/v1/nodes/gpu-7", NULL, NULL, 204);
  (void)ask("GET", "/v1/nodes/gpu-7", NULL, NULL, 404);
  (void)ask("DELETE", "/v1/nodes/gpu-7", NULL, NULL, 404);
}
END_TEST

START_TEST(secrets_stay_inside)
{
  const char *bodies[] = {"{" URL ", \"bearer_token\": \"s3cret-token\"}",
                          "{" URL ", \"basic_auth\": {\"username\": \"fitd\", \"password\": \"s3cret-token\"}}"};
  const char *kinds[] = {"bearer", "basic"};
  for (int i = 0; i < 2; i++) {
    struct api_targets targets;
    struct error e;
    const json_t *put = ask("PUT", "/v1/nodes/gpu-7", NULL, bodies[i], i == 0 ? 201 : 200),
                 *got = get("/v1/nodes/gpu-7"), *list = get("/v1/nodes");
    ck_assert_str_eq(doc_text(got, "authentication"), kinds[i]);
    ck_assert_ptr_null(strstr(doc_dump(put), "s3cret"));
    ck_assert_ptr_null(strstr(doc_dump(got), "s3cret"));
    ck_assert_ptr_null(strstr(doc_dump(list), "s3cret"));
    ck_assert_ptr_null(strstr(fake.log, "s3cret"));
    ck_assert_int_eq(api_targets_load(&targets, fake.api, &e), ERR_OK);
    ck_assert_uint_eq(targets.count, 1);
    ck_assert_str_eq(i == 0 ? targets.rows[0].bearer_token : targets.rows[0].password, "s3cret-token");
    api_targets_fini(&targets);
  }
}
END_TEST

START_TEST(every_fault_at_once)
{
  const json_t *problem =
      ask("PUT", "/v1/nodes/gpu-7", NULL,
          "{\"url\": \"ftp://x/\", \"profile\": \"h100-sxm-80g\", \"exporter\": \"dcgn\", \"interval_s\": 0,"
          "\"timeout_s\": 40, \"bearer\": \"s3cret\", \"basic_auth\": {\"username\": \"a\"}}",
          422);
  static const char *const pointers[] = {"/url",       "/profile", "/exporter",           "/interval_s",
                                         "/timeout_s", "/bearer",  "/basic_auth/password"};
  for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
    ck_assert_msg(doc_fault(problem, pointers[i]) != NULL, "no fault at %s in %s", pointers[i], doc_brief(problem));
  ck_assert_str_eq(doc_text(doc_fault(problem, "/profile"), "suggestion"), "h100-sxm-80gb");
  ck_assert_str_eq(doc_text(doc_fault(problem, "/exporter"), "suggestion"), "dcgm");
  ck_assert_str_eq(doc_text(doc_fault(problem, "/bearer"), "suggestion"), "bearer_token");
  ck_assert_ptr_null(strstr(doc_dump(problem), "s3cret"));
}
END_TEST

START_TEST(conflicts)
{
  const json_t *problem = ask("PUT", "/v1/nodes/gpu-7", NULL,
                              "{" URL ", \"interval_s\": 2, \"timeout_s\": 3, \"bearer_token\": \"a\", \"basic_auth\": "
                              "{\"username\": \"a\", \"password\": \"b\"}, \"tls\": {\"server_name\": \"x\"}}",
                              422);
  ck_assert_ptr_nonnull(doc_fault(problem, "/timeout_s"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/basic_auth"));
  ck_assert_ptr_nonnull(doc_fault(problem, "/tls/server_name"));
  (void)ask("PUT", "/v1/nodes/gpu-7", NULL, "{" URL ", \"interval_s\": 2}", 201); /* the timeout follows */
  ck_assert_double_eq(doc_number(get("/v1/nodes/gpu-7"), "timeout_s"), 2);
}
END_TEST

START_TEST(urls)
{
  static const char *const bad[] = {
      "http://",         "http:///x",       "http://u:p@h/", "http://u@h/",  "http://h/#f",        "http://h:0/",
      "http://h:65536/", "http://h:x/",     "http://[::1/",  "http://h/a b", "file:///etc/passwd", "gopher://h/",
      "HTTP://h/",       "http://h:80:80/", "http://h\\@x/", "http://h/\"x", "http://[::1]x/"};
  static const struct {
    const char *url, *host, *port;
  } good[] = {{"http://h", "h", "80"},
              {"https://h/metrics?x=1", "h", "443"},
              {"http://10.0.0.1:9400/", "10.0.0.1", "9400"},
              {"http://[fd00::1]:9100/m", "fd00::1", "9100"},
              {"http://[fd00::1]", "fd00::1", "80"},
              {"http://h?x@y", "h", "80"}};
  struct node_address address;
  const char *fault;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    fault = NULL;
    ck_assert_msg(!node_address_read(&address, bad[i], &fault), "%s is taken", bad[i]);
    ck_assert_ptr_nonnull(fault);
  }
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    ck_assert_msg(node_address_read(&address, good[i].url, &fault), "%s: %s", good[i].url, fault);
    ck_assert_str_eq(address.host, good[i].host);
    ck_assert_str_eq(address.port, good[i].port);
  }
}
END_TEST

START_TEST(conditions_look_at_the_configuration)
{
  const json_t *headers = scratch_json_steal(json_pack("{s:s}", "If-None-Match", "*"));
  const char *body = "{" URL "}";
  struct fake_request request = {.method = "PUT",
                                 .path = "/v1/nodes/gpu-7",
                                 .headers = headers,
                                 .body = body,
                                 .body_len = strlen(body),
                                 .scope = SCOPE_ADMIN};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_uint_eq(response.status, 201);
  api_response_fini(&response);
  fake_send(&fake, &request, &response);
  ck_assert_uint_eq(response.status, 412);
  api_response_fini(&response);
}
END_TEST

START_TEST(putting_needs_admin)
{
  const struct fake_request request = {.method = "PUT",
                                       .path = "/v1/nodes/gpu-7",
                                       .body = "{" URL "}",
                                       .body_len = strlen("{" URL "}"),
                                       .scope = SCOPE_REVIEW};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_uint_eq(response.status, 403);
  api_response_fini(&response);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("nodes");
  TCase *tcase = suite_case(suite, "nodes", setup, teardown);
  tcase_add_test(tcase, put_get_list_delete);
  tcase_add_test(tcase, secrets_stay_inside);
  tcase_add_test(tcase, every_fault_at_once);
  tcase_add_test(tcase, conflicts);
  tcase_add_test(tcase, urls);
  tcase_add_test(tcase, conditions_look_at_the_configuration);
  tcase_add_test(tcase, putting_needs_admin);
  return suite_run(suite);
}
