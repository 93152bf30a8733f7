/* HTTP as the contract promises it: methods, media types, conditions, idempotency, compression, limits. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"
#include "tests/lib/wire.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define ONE_PROFILE "\"profiles\":[\"h100-sxm-80gb\"]"

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

START_TEST(operation_routes_answer)
{
  ck_assert_int_eq(web_get(&fitd, "/healthz")->status, 200);
  ck_assert_int_eq(web_get(&fitd, "/readyz")->status, 200);
  ck_assert_int_eq(web_get(&fitd, "/version")->status, 200);
}
END_TEST

START_TEST(unknown_things_are_404)
{
  static const char *const paths[] = {"/",
                                      "/v1",
                                      "/v1/nothing",
                                      "/v2/evaluations",
                                      "/v1/evaluations/",
                                      "/v1/evaluations/00000000-0000-7000-8000-000000000000",
                                      "/v1/scorecards/00000000-0000-7000-8000-000000000000",
                                      "/v1/profiles/no-such",
                                      "/v1/models/no-such",
                                      "/v1/workloads/no-such",
                                      "/v1/profiles/h100-sxm-80gb/revisions/999",
                                      "/../etc/passwd",
                                      "/v1//evaluations"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    const struct reply *reply = web_get(&fitd, paths[i]);
    ck_assert_msg(reply->status == 404, "%s → %ld", paths[i], reply->status);
    (void)reply_assert_problem(reply, 404);
  }
}
END_TEST

START_TEST(wrong_method_is_405_with_allow)
{
  const struct reply *reply = web_delete(&fitd, "/v1/evaluations");
  const char *allow = reply_header(reply, "Allow");
  (void)reply_assert_problem(reply, 405);
  ck_assert_ptr_nonnull(allow);
  ck_assert_msg(strstr(allow, "GET") != NULL && strstr(allow, "POST") != NULL, "%s", allow);
  ck_assert_ptr_null(strstr(allow, "DELETE"));
  reply = web_send(&fitd, &(struct request){.method = "BREW", .path = "/v1/evaluations"});
  ck_assert_msg(reply->status == 405 || reply->status == 501, "BREW → %ld", reply->status);
}
END_TEST

START_TEST(options_lists_the_methods)
{
  const struct reply *reply = web_send(&fitd, &(struct request){.method = "OPTIONS", .path = "/v1/evaluations"});
  const char *allow = reply_header(reply, "Allow");
  ck_assert_msg(reply->status == 204 || reply->status == 200, "%ld", reply->status);
  ck_assert_ptr_nonnull(allow);
  ck_assert_msg(strstr(allow, "GET") != NULL && strstr(allow, "HEAD") != NULL && strstr(allow, "POST") != NULL &&
                    strstr(allow, "OPTIONS") != NULL,
                "%s", allow);
}
END_TEST

START_TEST(head_is_get_without_a_body)
{
  static const char *const names[] = {"Content-Type", "Content-Length", "ETag", "Vary", "Cache-Control"};
  const struct reply *get = web_get(&fitd, "/v1/profiles/h100-sxm-80gb");
  const struct reply *head = web_send(&fitd, &(struct request){.method = "HEAD", .path = "/v1/profiles/h100-sxm-80gb"});
  reply_assert_status(head, 200);
  ck_assert_uint_eq(head->body_bytes, 0);
  ck_assert_ptr_nonnull(reply_header(get, "ETag"));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    ck_assert_pstr_eq(reply_header(head, names[i]), reply_header(get, names[i]));
  head = web_send(&fitd, &(struct request){.method = "HEAD", .path = "/v1/profiles/no-such"});
  ck_assert_int_eq(head->status, 404);
}
END_TEST

START_TEST(unacceptable_types)
{
  (void)reply_assert_problem(web_with(&fitd, "GET", "/v1/scorecards", "Accept: image/png", NULL), 406);
  reply_assert_status(web_with(&fitd, "GET", "/v1/scorecards", "Accept: image/png, */*;q=0.1", NULL), 200);
  reply_assert_status(web_with(&fitd, "GET", "/v1/scorecards", "Accept: application/*", NULL), 200);
  (void)reply_assert_problem(
      web_with(&fitd, "POST", "/v1/evaluations", "Content-Type: text/plain", sample_sketch_with(ONE_PROFILE)), 415);
  reply_assert_status(web_with(&fitd, "POST", "/v1/evaluations", "Content-Type: application/json; charset=utf-8",
                               sample_sketch_with(ONE_PROFILE)),
                      201);
}
END_TEST

/* A sketch padded with spaces to `bytes`. */
static const char *padded_sketch(size_t bytes)
{
  const char *sketch = sample_sketch_with(ONE_PROFILE);
  char *text = scratch_alloc(bytes + 1);
  memset(text, ' ', bytes);
  memcpy(text, sketch, strlen(sketch));
  return text;
}

static void assert_too_large(const struct reply *reply)
{
  const json_t *problem = reply_assert_problem(reply, 413);
  ck_assert_msg(strstr(doc_text(problem, "detail"), "256") != NULL ||
                    strstr(doc_text(problem, "detail"), "262144") != NULL,
                "the limit is not named: %s", doc_text(problem, "detail"));
}

START_TEST(bodies_over_256_kb_are_413)
{
  reply_assert_status(web_post(&fitd, "/v1/evaluations", padded_sketch(250000)), 201);
  assert_too_large(web_post(&fitd, "/v1/evaluations", padded_sketch(300000)));
}
END_TEST

static double refused_count(void)
{
  static const char name[] = "fitd_http_requests_total{code=\"4xx\"} ";
  const char *page = web_get(&fitd, "/metrics")->body, *at = strstr(page, name);
  ck_assert_msg(at != NULL, "%.300s", page);
  return strtod(at + strlen(name), NULL);
}

/* A body too large and a path too long never reach the API; they are answers all the same. */
START_TEST(refusals_before_the_api_are_counted)
{
  const double before = refused_count();
  char path[700];
  memset(path, 'x', sizeof path);
  memcpy(path, "/v1/models/", 11);
  path[sizeof path - 1] = '\0';
  reply_assert_status(web_post(&fitd, "/v1/evaluations", padded_sketch(300000)), 413);
  reply_assert_status(web_get(&fitd, path), 414);
  reply_assert_status(web_get(&fitd, "/v1/models/nothing"), 404);
  ck_assert_double_eq(refused_count() - before, 3);
}
END_TEST

/* Sends the body in chunks of 1,000 bytes and returns the answer. */
static struct wire_answer exchange_chunked(const char *body)
{
  const size_t bytes = strlen(body);
  const int fd = wire_connect(&fitd);
  const char *head = "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct wire_answer answer;
  bool is_open = wire_send(fd, head, strlen(head));
  for (size_t at = 0; is_open && at < bytes; at += 1000) {
    const size_t length = bytes - at < 1000 ? bytes - at : 1000;
    const char *chunk = scratch_printf("%zx\r\n%.*s\r\n", length, (int)length, body + at);
    is_open = wire_send(fd, chunk, strlen(chunk));
  }
  (void)wire_send(fd, "0\r\n\r\n", 5);
  answer = wire_read(fd, 10);
  close(fd);
  return answer;
}

START_TEST(chunked_bodies_are_read_and_bounded)
{
  const struct wire_answer small = exchange_chunked(sample_sketch_with(ONE_PROFILE));
  const struct wire_answer large = exchange_chunked(padded_sketch(300000));
  ck_assert_msg(wire_status(&small, 0) == 201, "%.300s", small.text);
  ck_assert_msg(wire_status(&large, 0) == 413, "%.300s", large.text);
}
END_TEST

static const char *workload_body(const char *owner)
{
  return scratch_printf("{\"sketch\":%s,\"owner\":\"%s\",\"team\":\"chat\",\"reevaluate\":\"never\"}",
                        sample_sketch_with(ONE_PROFILE), owner);
}

START_TEST(if_match_guards_a_put)
{
  const char *path = "/v1/workloads/support-chat";
  const char *etag;
  (void)reply_assert_problem(web_with(&fitd, "PUT", path, "If-Match: \"none\"", workload_body("ada")), 412);
  reply_assert_status(web_with(&fitd, "PUT", path, "If-None-Match: *", workload_body("ada")), 201);
  (void)reply_assert_problem(web_with(&fitd, "PUT", path, "If-None-Match: *", workload_body("bob")), 412);
  (void)reply_assert_problem(web_with(&fitd, "PUT", path, "If-Match: \"none\"", workload_body("bob")), 412);
  etag = reply_header(web_get(&fitd, path), "ETag");
  ck_assert_ptr_nonnull(etag);
  ck_assert_msg(etag[0] == '"', "%s is not a strong tag", etag);
  reply_assert_status(web_with(&fitd, "PUT", path, scratch_printf("If-Match: %s", etag), workload_body("bob")), 200);
  (void)reply_assert_problem(web_with(&fitd, "PUT", path, scratch_printf("If-Match: %s", etag), workload_body("eve")),
                             412);
  ck_assert_str_eq(doc_text(web_get_ok(&fitd, path), "owner"), "bob");
}
END_TEST

START_TEST(unchanged_is_304)
{
  const char *path = "/v1/profiles/h100-sxm-80gb";
  const char *etag = reply_header(web_get(&fitd, path), "ETag");
  const struct reply *reply = web_with(&fitd, "GET", path, scratch_printf("If-None-Match: %s", etag), NULL);
  ck_assert_int_eq(reply->status, 304);
  ck_assert_uint_eq(reply->body_bytes, 0);
  ck_assert_pstr_eq(reply_header(reply, "ETag"), etag);
  reply = web_with(&fitd, "GET", path, scratch_printf("If-None-Match: \"a\", %s", etag), NULL);
  ck_assert_int_eq(reply->status, 304);
  reply_assert_status(web_with(&fitd, "GET", path, "If-None-Match: \"a\"", NULL), 200);
}
END_TEST

START_TEST(idempotency_key_replays)
{
  const char *key = "Idempotency-Key: 2b1c7c1e-build-77";
  const struct reply *first = web_with(&fitd, "POST", "/v1/evaluations", key, sample_sketch_with(ONE_PROFILE));
  const struct reply *again = web_with(&fitd, "POST", "/v1/evaluations", key, sample_sketch_with(ONE_PROFILE));
  reply_assert_status(first, 201);
  reply_assert_status(again, 201);
  ck_assert_str_eq(again->body, first->body);
  ck_assert_pstr_eq(reply_header(again, "Location"), reply_header(first, "Location"));
  (void)reply_assert_problem(
      web_with(&fitd, "POST", "/v1/evaluations", key, sample_sketch_with(ONE_PROFILE ",\"seed\":9")), 422);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/evaluations"), "items")), 1);
}
END_TEST

START_TEST(idempotency_key_survives_a_restart)
{
  const char *key = "Idempotency-Key: after-the-crash";
  const struct reply *first = web_with(&fitd, "POST", "/v1/evaluations", key, sample_sketch_with(ONE_PROFILE));
  daemon_kill(&fitd);
  reply_assert_status(first, 201);
  daemon_launch(&fitd, NULL);
  ck_assert_str_eq(web_with(&fitd, "POST", "/v1/evaluations", key, sample_sketch_with(ONE_PROFILE))->body, first->body);
}
END_TEST

START_TEST(request_id_is_echoed_or_made)
{
  const struct reply *given = web_with(&fitd, "GET", "/healthz", "Request-Id: build-42.a", NULL);
  const char *made = reply_header(web_get(&fitd, "/healthz"), "Request-Id");
  ck_assert_pstr_eq(reply_header(given, "Request-Id"), "build-42.a");
  ck_assert_ptr_nonnull(made);
  ck_assert_uint_ge(strlen(made), 8);
  ck_assert_str_ne(made, reply_header(web_get(&fitd, "/healthz"), "Request-Id"));
  given = web_with(&fitd, "GET", "/v1/nothing", "Request-Id: build-43", NULL);
  ck_assert_pstr_eq(reply_header(given, "Request-Id"), "build-43");
}
END_TEST

static size_t gunzip(const struct reply *reply, char *plain, size_t size)
{
  z_stream stream = {.avail_in = (uInt)reply->body_bytes, .avail_out = (uInt)size, .next_out = (Bytef *)plain};
  stream.next_in = (Bytef *)reply->body;
  ck_assert_int_eq(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK); /* 16: the gzip frame */
  ck_assert_int_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
  ck_assert_int_eq(inflateEnd(&stream), Z_OK);
  return size - stream.avail_out;
}

START_TEST(long_answers_are_compressed)
{
  const struct reply *plain = web_get(&fitd, "/v1/profiles");
  const struct reply *packed = web_with(&fitd, "GET", "/v1/profiles", "Accept-Encoding: gzip", NULL);
  char *unpacked = scratch_alloc(plain->body_bytes + 1000);
  ck_assert_uint_gt(plain->body_bytes, 1024);
  ck_assert_ptr_null(reply_header(plain, "Content-Encoding"));
  ck_assert_pstr_eq(reply_header(packed, "Content-Encoding"), "gzip");
  ck_assert_ptr_nonnull(reply_header(packed, "Vary"));
  ck_assert_uint_lt(packed->body_bytes, plain->body_bytes);
  ck_assert_uint_eq(gunzip(packed, unpacked, plain->body_bytes + 999), plain->body_bytes);
  ck_assert_int_eq(memcmp(unpacked, plain->body, plain->body_bytes), 0);
}
END_TEST

/* A strong tag names the bytes sent: the two representations have two, and each is honoured. */
START_TEST(compressed_answer_has_its_own_tag)
{
  const char *path = "/v1/profiles/h100-sxm-80gb";
  const struct reply *plain = web_get(&fitd, path);
  const struct reply *packed = web_with(&fitd, "GET", path, "Accept-Encoding: gzip", NULL);
  const char *headers[] = {"Accept-Encoding: gzip", scratch_printf("If-None-Match: %s", reply_header(packed, "ETag")),
                           NULL};
  ck_assert_pstr_eq(reply_header(packed, "Content-Encoding"), plain->body_bytes > 1024 ? "gzip" : NULL);
  ck_assert_int_eq(strcmp(reply_header(packed, "ETag"), reply_header(plain, "ETag")) == 0, plain->body_bytes <= 1024);
  ck_assert_int_eq(web_send(&fitd, &(struct request){.method = "GET", .path = path, .headers = headers})->status, 304);
}
END_TEST

START_TEST(compression_is_only_for_those_who_ask)
{
  const struct reply *refused = web_with(&fitd, "GET", "/v1/profiles", "Accept-Encoding: gzip;q=0, br", NULL);
  const struct reply *small = web_with(&fitd, "GET", "/healthz", "Accept-Encoding: gzip", NULL);
  ck_assert_ptr_null(reply_header(refused, "Content-Encoding"));
  ck_assert_ptr_null(reply_header(small, "Content-Encoding"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("protocol");
  TCase *tcase = suite_case(suite, "protocol", setup, teardown);
  tcase_add_test(tcase, operation_routes_answer);
  tcase_add_test(tcase, unknown_things_are_404);
  tcase_add_test(tcase, wrong_method_is_405_with_allow);
  tcase_add_test(tcase, options_lists_the_methods);
  tcase_add_test(tcase, head_is_get_without_a_body);
  tcase_add_test(tcase, unacceptable_types);
  tcase_add_test(tcase, bodies_over_256_kb_are_413);
  tcase_add_test(tcase, refusals_before_the_api_are_counted);
  tcase_add_test(tcase, chunked_bodies_are_read_and_bounded);
  tcase_add_test(tcase, if_match_guards_a_put);
  tcase_add_test(tcase, unchanged_is_304);
  tcase_add_test(tcase, idempotency_key_replays);
  tcase_add_test(tcase, idempotency_key_survives_a_restart);
  tcase_add_test(tcase, request_id_is_echoed_or_made);
  tcase_add_test(tcase, long_answers_are_compressed);
  tcase_add_test(tcase, compressed_answer_has_its_own_tag);
  tcase_add_test(tcase, compression_is_only_for_those_who_ask);
  return suite_run(suite);
}
