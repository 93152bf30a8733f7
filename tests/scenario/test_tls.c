/* HTTPS: what the daemon shows, how the certificate is exchanged while it runs, and which files it refuses. */
#include "tests/lib/certificate.h"
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/wire.h"

#include <check.h>
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct daemon fitd;
static const char *certificate, *key;

static void setup(void)
{
  daemon_prepare(&fitd);
  certificate = scratch_printf("%s/certificate.pem", fitd.dir);
  key = scratch_printf("%s/key.pem", fitd.dir);
  certificate_write(certificate, key, "first");
}

static void launch(void)
{
  const char *const more[] = {"--tls-certificate", certificate, "--tls-key", key, NULL};
  daemon_launch(&fitd, more);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

struct exchange {
  CURLcode code;
  long status;
  char subject[128];
};

static size_t drop(char *data, size_t size, size_t count, void *cls)
{
  (void)data, (void)cls;
  return size * count;
}

static void note_subject(struct exchange *out, CURL *curl)
{
  struct curl_certinfo *info = NULL;
  ck_assert_int_eq(curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info), CURLE_OK);
  for (struct curl_slist *line = info->num_of_certs > 0 ? info->certinfo[0] : NULL; line != NULL; line = line->next)
    if (strncmp(line->data, "Subject:", 8) == 0)
      (void)snprintf(out->subject, sizeof out->subject, "%s", line->data + 8);
}

/* One request of its own connection; trusts what the certificate file holds now. */
static struct exchange fetch(const char *path, const char *body, long newest_version)
{
  struct exchange out = {.code = CURLE_OK};
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  CURL *curl = curl_easy_init();
  ck_assert(curl != NULL && headers != NULL);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_URL, scratch_printf("%s%s", fitd.url, path)), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_CAINFO, certificate), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_SSLVERSION, newest_version), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L), CURLE_OK);
  ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers), CURLE_OK);
  if (body != NULL)
    ck_assert_int_eq(curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body), CURLE_OK);
  out.code = curl_easy_perform(curl);
  if (out.code == CURLE_OK) {
    ck_assert_int_eq(curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out.status), CURLE_OK);
    note_subject(&out, curl);
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return out;
}

/* SIGHUP is handled in the main loop, a tenth of a second apart. */
static bool shows_within(const char *subject, double seconds)
{
  const double end_s = suite_now_s() + seconds;
  do {
    if (strstr(fetch("/healthz", NULL, CURL_SSLVERSION_DEFAULT).subject, subject) != NULL)
      return true;
  } while (suite_now_s() < end_s);
  return false;
}

START_TEST(requests_are_answered_over_https)
{
  struct exchange exchange;
  launch();
  ck_assert_ptr_nonnull(strstr(fitd.url, "https://"));
  exchange = fetch("/version", NULL, CURL_SSLVERSION_DEFAULT);
  ck_assert_msg(exchange.code == CURLE_OK, "%s", curl_easy_strerror(exchange.code));
  ck_assert_int_eq(exchange.status, 200);
  ck_assert_ptr_nonnull(strstr(exchange.subject, "first"));
  exchange = fetch("/v1/evaluations", sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]"), CURL_SSLVERSION_DEFAULT);
  ck_assert_int_eq(exchange.status, 201); /* through a worker: suspended and resumed */
}
END_TEST

START_TEST(old_versions_are_refused)
{
  launch();
  ck_assert_int_eq(fetch("/version", NULL, CURL_SSLVERSION_MAX_TLSv1_2).code, CURLE_OK);
  ck_assert_int_ne(fetch("/version", NULL, CURL_SSLVERSION_MAX_TLSv1_1).code, CURLE_OK);
}
END_TEST

/* What speaks no TLS is cut off without an answer, and the daemon serves on. */
START_TEST(plain_requests_and_garbage_get_nothing)
{
  static const char *const openings[] = {"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\xff\xff garbage",
                                         "\n\n\n"};
  launch();
  for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
    const struct wire_answer answer = wire_exchange(&fitd, openings[i], strlen(openings[i]), 15);
    ck_assert(answer.is_closed);
    ck_assert_ptr_null(strstr(answer.text, "HTTP/"));
  }
  ck_assert_int_eq(fetch("/version", NULL, CURL_SSLVERSION_DEFAULT).status, 200);
}
END_TEST

START_TEST(certificate_is_exchanged_on_sighup)
{
  launch();
  ck_assert(shows_within("first", 0));
  certificate_write(certificate, key, "second");
  ck_assert_int_eq(kill(fitd.pid, SIGHUP), 0);
  ck_assert(shows_within("second", 10));
}
END_TEST

/* A key that does not belong to the certificate, as while files are being replaced. */
START_TEST(broken_pair_keeps_the_old_one)
{
  const char *other = scratch_printf("%s/other.pem", fitd.dir);
  launch();
  certificate_write(other, key, "stranger");
  ck_assert_int_eq(kill(fitd.pid, SIGHUP), 0);
  for (const double end_s = suite_now_s() + 10; suite_now_s() < end_s; suite_sleep_s(0.05))
    if (strstr(scratch_read_file(fitd.log), "certificate is kept") != NULL)
      break;
  ck_assert_ptr_nonnull(strstr(scratch_read_file(fitd.log), "certificate is kept"));
  ck_assert(shows_within("first", 0));
}
END_TEST

START_TEST(files_are_judged_at_the_start)
{
  const char *const half[] = {"--listen", "127.0.0.1:0", "--database", fitd.database, "--tls-key", key, NULL};
  const char *const missing[] = {"--listen",     "127.0.0.1:0", "--database", fitd.database, "--tls-certificate",
                                 "/nowhere.pem", "--tls-key",   key,          NULL};
  struct command_result result = command_run(half, NULL);
  ck_assert_int_ne(result.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(result.err, "tls_certificate"));
  result = command_run(missing, NULL);
  ck_assert_int_ne(result.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(result.err, "/nowhere.pem"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("tls");
  TCase *tcase = suite_case(suite, "https", setup, teardown);
  tcase_add_test(tcase, requests_are_answered_over_https);
  tcase_add_test(tcase, old_versions_are_refused);
  tcase_add_test(tcase, plain_requests_and_garbage_get_nothing);
  tcase_add_test(tcase, certificate_is_exchanged_on_sighup);
  tcase_add_test(tcase, broken_pair_keeps_the_old_one);
  tcase_add_test(tcase, files_are_judged_at_the_start);
  return suite_run(suite);
}
