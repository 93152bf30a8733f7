/* The scraper against an exporter that misbehaves in every way known, and the plan of its scrapes at a virtual time. */
#include "server/scrape.h"
#include "server/clock.h"
#include "tests/api/live_fixtures.h"
#include "tests/lib/certificate.h"
#include "tests/lib/daemon.h"
#include "tests/lib/exporter.h"

#include <curl/curl.h>
#include <stdio.h>

static struct exporter *exporter;
static struct scrape *scrape;
static struct log *log_file;
static struct addresses allowed;
static struct error e;
static char log_path[300];

static void start(const char *networks)
{
  const struct scrape_options options = {
      .log = log_file, .allowed = &allowed, .body_max_bytes = (size_t)16 << 20, .api = fake.api};
  ck_assert_int_eq(addresses_parse(&allowed, networks, &e), ERR_OK);
  ck_assert_msg(scrape_start(&scrape, &options, &e) == ERR_OK, "%s", e.message);
}

static void prepare(void)
{
  setup();
  ck_assert_int_eq(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK);
  (void)snprintf(log_path, sizeof log_path, "%s/scrape.log", fake.dir);
  ck_assert_int_eq(log_open(&log_file, log_path, LOG_DEBUG, &e), ERR_OK);
  exporter = exporter_start();
  scrape = NULL;
}

static void finish(void)
{
  scrape_stop(scrape);
  exporter_stop(exporter);
  log_close(log_file);
  curl_global_cleanup();
  teardown();
}

/* Every second, unless `more` says otherwise. */
static void put_target(const char *name, const char *path, const char *more)
{
  (void)ask("PUT", scratch_printf("/v1/nodes/%s", name), NULL,
            scratch_printf("{\"url\": \"http://127.0.0.1:%u%s\", \"profile\": \"h100-sxm-80gb\"%s%s}",
                           exporter_port(exporter), path, more,
                           strstr(more, "interval_s") == NULL ? ", \"interval_s\": 1" : ""),
            201);
}

static const json_t *node(const char *name)
{
  fake.now_ms = clock_unix_ms();
  return get(scratch_printf("/v1/nodes/%s", name));
}

/* Until a node has this state; check's own limit is a minute. */
static const json_t *wait_for(const char *name, const char *state)
{
  const json_t *seen = NULL;
  for (int i = 0; i < 1000; i++) {
    seen = node(name);
    if (strcmp(doc_text(seen, "health.state"), state) == 0)
      return seen;
    suite_sleep_s(0.05);
  }
  ck_abort_msg("%s never is %s: %s", name, state, doc_brief(seen));
}

static void fails_with(const char *name, const char *part)
{
  const json_t *seen = wait_for(name, "down");
  ck_assert_msg(strstr(doc_text(seen, "health.last_error"), part) != NULL, "%s: %s", name,
                doc_text(seen, "health.last_error"));
}

static void wait_for_hits(const char *path, unsigned count)
{
  for (int i = 0; i < 600 && exporter_hits(exporter, path) < count; i++)
    suite_sleep_s(0.05);
  ck_assert_uint_ge(exporter_hits(exporter, path), count);
}

START_TEST(every_way_to_fail_has_its_sentence)
{
  static const struct {
    const char *name, *path, *sentence;
  } ways[] = {{"bomb", "/bomb", "the page is larger than 16 MiB"},
              {"many", "/many", "more than 200000 samples"},
              {"loop", "/loop", "the answer has the status 302"},
              {"short", "/short", "the answer ends before its length"},
              {"s401", "/status/401", "the answer has the status 401"},
              {"s500", "/status/500", "the answer has the status 500"},
              {"s503", "/status/503", "the answer has the status 503"},
              {"s204", "/status/204", "the answer has the status 204"},
              {"garbage", "/garbage", "the page is refused: line 1, column 1: expected a name"},
              {"html", "/html", "the answer is HTML and no metrics"},
              {"notgzip", "/notgzip", "the answer says gzip and is none"},
              {"deflate", "/deflate", "the answer is encoded, and not with gzip"},
              {"hang", "/hang", "no complete answer within 0.5 s"},
              {"drip", "/drip", "no complete answer within 0.5 s"}};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
    put_target(ways[i].name, ways[i].path,
               strcmp(ways[i].path, "/hang") == 0 || strcmp(ways[i].path, "/drip") == 0
                   ? ", \"timeout_s\": 0.5"
                   : ", \"interval_s\": 10, \"timeout_s\": 10"); /* a loaded machine takes its time for 50 MB */
  put_target("good", "/good", "");
  put_target("empty", "/empty", "");
  start("127.0.0.0/8");
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
    fails_with(ways[i].name, ways[i].sentence);
  ck_assert_int_eq(doc_integer(wait_for("good", "up"), "health.samples"), 1);
  (void)wait_for("empty", "no_data");
}
END_TEST

/* Sixty targets that hang for three intervals each, and one that answers: it is asked at every interval all the same. */
START_TEST(the_slow_do_not_hold_up_the_others)
{
  struct scrape_counts counts;
  for (int i = 0; i < 60; i++)
    put_target(scratch_printf("hang-%d", i), "/hang", ", \"timeout_s\": 1");
  put_target("good", "/good", "");
  start("127.0.0.0/8");
  wait_for_hits("/good", 6);
  scrape_count(&counts, scrape);
  ck_assert_uint_eq(counts.targets, 61);
  ck_assert_uint_ge(exporter_hits(exporter, "/hang"), 60);
}
END_TEST

START_TEST(redirects_are_not_followed)
{
  put_target("elsewhere", "/elsewhere", "");
  start("127.0.0.0/8");
  fails_with("elsewhere", "the answer has the status 302");
  ck_assert_uint_eq(exporter_hits(exporter, "/good"), 0);
}
END_TEST

START_TEST(addresses_outside_the_list_are_not_connected_to)
{
  put_target("good", "/good", "");
  start("10.0.0.0/8,0.0.0.0/0");
  fails_with("good", "outside scrape_allow");
  ck_assert_uint_eq(exporter_hits(exporter, "/"), 0);
}
END_TEST

START_TEST(names_that_do_not_resolve)
{
  (void)ask("PUT", "/v1/nodes/nowhere", NULL,
            "{\"url\": \"http://nothing.invalid/metrics\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": 1}", 201);
  start("127.0.0.0/8");
  fails_with("nowhere", "does not resolve");
}
END_TEST

START_TEST(credentials_reach_the_exporter_alone)
{
  char *log;
  put_target("bearer", "/secret", ", \"bearer_token\": \"s3cret\"");
  exporter_expect(exporter, "Bearer s3cret");
  start("127.0.0.0/8");
  (void)wait_for("bearer", "up");
  exporter_expect(exporter, "Basic Zml0ZDpzM2NyZXQ="); /* fitd:s3cret */
  fails_with("bearer", "status 401");
  put_target("basic", "/secret", ", \"basic_auth\": {\"username\": \"fitd\", \"password\": \"s3cret\"}");
  (void)wait_for("basic", "up");
  log_flush(log_file);
  log = scratch_read_file(log_path);
  ck_assert_ptr_nonnull(strstr(log, "bearer"));
  ck_assert_ptr_null(strstr(log, "s3cret"));
}
END_TEST

START_TEST(nodes_come_change_and_go)
{
  unsigned hits;
  start("127.0.0.0/8");
  put_target("a", "/good", "");
  (void)wait_for("a", "up");
  (void)ask(
      "PUT", "/v1/nodes/a", NULL,
      scratch_printf("{\"url\": \"http://127.0.0.1:%u/good/other\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": 1}",
                     exporter_port(exporter)),
      200);
  wait_for_hits("/good/other", 1);
  (void)ask("DELETE", "/v1/nodes/a", NULL, NULL, 204);
  put_target("b", "/good/b", "");
  wait_for_hits("/good/b", 1); /* the change was seen */
  hits = exporter_hits(exporter, "/good/other");
  wait_for_hits("/good/b", 3);
  ck_assert_uint_eq(exporter_hits(exporter, "/good/other"), hits);
}
END_TEST

START_TEST(stopping_breaks_off_what_runs)
{
  put_target("hang", "/hang", ", \"timeout_s\": 1");
  start("127.0.0.0/8");
  wait_for_hits("/hang", 1);
  scrape_stop(scrape);
  scrape = NULL;
}
END_TEST

/* A GPU that is held down, restarts its counters, and is cut into parts, as pages. */
START_TEST(pages_become_states)
{
  const json_t *seen;
  exporter_say(exporter, "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-a\"} 1980\n"
                         "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} 99\n");
  put_target("n", "/good", "");
  start("127.0.0.0/8");
  seen = wait_for("n", "up");
  ck_assert_str_eq(doc_text(seen, "health.exporters"), "dcgm");
  ck_assert_double_eq(doc_number(seen, "gpus.0.quantities.sm_clock_mhz"), 1980);
  ck_assert(doc_is_null(seen, "gpus.0.throttled"));
  exporter_say(exporter,
               "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"3\",GPU_I_PROFILE=\"3g.40gb\"} 1410\n");
  for (int i = 0; i < 600 && json_array_size(doc_at(node("n"), "gpus")) < 2; i++)
    suite_sleep_s(0.05);
  seen = node("n");
  ck_assert_str_eq(doc_text(seen, "gpus.1.gpu"), "0.3");
  ck_assert(json_is_false(doc_at(seen, "gpus.0.fresh")));
}
END_TEST

/* fitd itself is the HTTPS server here: its own /metrics is what is scraped. */
START_TEST(tls_is_verified_for_each_target)
{
  struct daemon server;
  const char *certificate, *key, *url;
  daemon_prepare(&server);
  certificate = scratch_printf("%s/certificate.pem", server.dir);
  key = scratch_printf("%s/key.pem", server.dir);
  certificate_write(certificate, key, "exporter");
  daemon_launch(&server, (const char *const[]){"--tls-certificate", certificate, "--tls-key", key, NULL});
  url = scratch_printf("\"url\": \"https://127.0.0.1:%u/metrics\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": 1",
                       server.port);
  (void)ask("PUT", "/v1/nodes/unknown", NULL, scratch_printf("{%s}", url), 201);
  (void)ask("PUT", "/v1/nodes/known", NULL, scratch_printf("{%s, \"tls\": {\"ca_file\": \"%s\"}}", url, certificate),
            201);
  (void)ask(
      "PUT", "/v1/nodes/other", NULL,
      scratch_printf("{%s, \"tls\": {\"ca_file\": \"%s\", \"server_name\": \"other.example\"}}", url, certificate),
      201);
  (void)ask(
      "PUT", "/v1/nodes/named", NULL,
      scratch_printf("{\"url\": \"https://localhost:%u/metrics\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": "
                     "1, \"tls\": {\"ca_file\": \"%s\", \"server_name\": \"127.0.0.1\"}}",
                     server.port, certificate),
      201);
  (void)ask("PUT", "/v1/nodes/nofile", NULL, scratch_printf("{%s, \"tls\": {\"ca_file\": \"/no/such/file\"}}", url),
            201);
  start("127.0.0.0/8");
  (void)wait_for("known", "up");
  (void)wait_for("named", "up");
  fails_with("unknown", "the certificate does not verify");
  fails_with("other", "the certificate does not verify");
  fails_with("nofile", "the CA file can not be read");
  daemon_stop(&server);
  suite_remove_dir(server.dir);
}
END_TEST

/* ---- The plan ---- */

#define S INT64_C(1000000)

START_TEST(first_scrapes_are_spread)
{
  unsigned quarters[4] = {0};
  for (int i = 0; i < 400; i++) {
    const char *name = scratch_printf("node-%d", i);
    const int64_t due = scrape_first_due(name, 15 * S, 100 * S);
    ck_assert_int_ge(due, 100 * S);
    ck_assert_int_lt(due, 115 * S);
    ck_assert_int_eq(due, scrape_first_due(name, 15 * S, 100 * S));
    quarters[(due - 100 * S) * 4 / (15 * S)]++;
  }
  for (int i = 0; i < 4; i++) /* 100 expected; five standard deviations of a binomial are 43 */
    ck_assert_msg(quarters[i] > 57 && quarters[i] < 143, "%u in quarter %d", quarters[i], i);
}
END_TEST

START_TEST(scrapes_stay_on_their_grid)
{
  ck_assert_int_eq(scrape_next_due(100 * S, 15 * S, 0, 101 * S), 115 * S);
  ck_assert_int_eq(scrape_next_due(100 * S, 15 * S, 0, 114 * S), 115 * S);
  ck_assert_int_eq(scrape_next_due(100 * S, 15 * S, 0, 115 * S), 130 * S); /* missed: left out */
  ck_assert_int_eq(scrape_next_due(100 * S, 15 * S, 0, 200 * S), 205 * S);
}
END_TEST

/* 15, 30, 60, 120, 240 s and then no more: 480 would be beyond 300. */
START_TEST(failures_back_off)
{
  static const int64_t waits[] = {15, 30, 60, 120, 240, 240, 240};
  for (unsigned failures = 1; failures <= 7; failures++)
    ck_assert_int_eq(scrape_next_due(0, 15 * S, failures, S), waits[failures - 1] * S);
  ck_assert_int_eq(scrape_next_due(0, 3600 * S, 9, S), 3600 * S);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scrape");
  TCase *network = suite_case(suite, "network", prepare, finish);
  TCase *plan = suite_case(suite, "plan", NULL, scratch_release);
  tcase_add_test(network, every_way_to_fail_has_its_sentence);
  tcase_add_test(network, the_slow_do_not_hold_up_the_others);
  tcase_add_test(network, redirects_are_not_followed);
  tcase_add_test(network, addresses_outside_the_list_are_not_connected_to);
  tcase_add_test(network, names_that_do_not_resolve);
  tcase_add_test(network, credentials_reach_the_exporter_alone);
  tcase_add_test(network, nodes_come_change_and_go);
  tcase_add_test(network, stopping_breaks_off_what_runs);
  tcase_add_test(network, pages_become_states);
  tcase_add_test(network, tls_is_verified_for_each_target);
  tcase_add_test(plan, first_scrapes_are_spread);
  tcase_add_test(plan, scrapes_stay_on_their_grid);
  tcase_add_test(plan, failures_back_off);
  return suite_run(suite);
}
