/* The daemon scrapes real exporters: Debian's prometheus-node-exporter, and pages of others from a scripted one; the same pages
   through `fitd scrape`. */
#include "tests/lib/command.h"
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/exporter.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODE_EXPORTER "/usr/bin/prometheus-node-exporter"

static struct daemon fitd;
static struct exporter *exporter;

static void setup(void)
{
  static const char *const more[] = {"--scrape-allow", "127.0.0.0/8", NULL};
  exporter = exporter_start();
  daemon_prepare(&fitd);
  daemon_launch(&fitd, more);
}

static void teardown(void)
{
  daemon_finish(&fitd);
  exporter_stop(exporter);
}

static char *sample(const char *name)
{
  return suite_source_path(scratch_printf("tests/data/exporters/samples/%s", name));
}

static void put_node(const char *name, unsigned port, const char *path)
{
  (void)web_put_status(
      &fitd, scratch_printf("/v1/nodes/%s", name),
      scratch_printf("{\"url\": \"http://127.0.0.1:%u%s\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": 1}", port,
                     path),
      201);
}

static const json_t *wait_until_up(const char *name)
{
  const json_t *node = NULL;
  for (int i = 0; i < 600; i++) {
    node = web_get_ok(&fitd, scratch_printf("/v1/nodes/%s", name));
    if (strcmp(doc_text(node, "health.state"), "up") == 0)
      return node;
    suite_sleep_s(0.05);
  }
  ck_abort_msg("%s is never up: %s", name, doc_brief(node));
}

/* A port that is free now. */
static unsigned free_port(void)
{
  struct exporter *probe = exporter_start();
  const unsigned port = exporter_port(probe);
  exporter_stop(probe);
  return port;
}

/* A program with its output thrown away, which dies with the test. */
static pid_t start_program(const char *const *arguments)
{
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_RDWR);
    char *copies[16] = {NULL};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(null, 1);
    (void)dup2(null, 2);
    for (size_t i = 0; arguments[i] != NULL && i < 15; i++)
      copies[i] = strdup(arguments[i]);
    (void)execv(arguments[0], copies);
    _exit(127);
  }
  return pid;
}

static bool is_installed(const char *program, const char *package)
{
  if (access(program, X_OK) == 0)
    return true;
  fprintf(stderr, "NOT TESTED: %s is not installed (package %s)\n", program, package);
  return false;
}

START_TEST(debian_node_exporter)
{
  const unsigned port = free_port();
  struct command_result seen;
  const json_t *node;
  const char *url = scratch_printf("http://127.0.0.1:%u/metrics", port);
  pid_t pid;
  if (!is_installed(NODE_EXPORTER, "prometheus-node-exporter")) {
    ck_assert_int_ne(access(NODE_EXPORTER, X_OK), 0);
    return;
  }
  pid = start_program(
      (const char *const[]){NODE_EXPORTER, scratch_printf("--web.listen-address=127.0.0.1:%u", port), NULL});
  put_node("debian", port, "/metrics");
  node = wait_until_up("debian");
  ck_assert_int_gt(doc_integer(node, "health.samples"), 100);
  ck_assert_int_eq(doc_integer(node, "health.lines_skipped"), 0);
  ck_assert_uint_eq(json_array_size(doc_array(node, "gpus")), 0);
  seen = command_run((const char *const[]){"scrape", url, "--json", NULL}, NULL);
  ck_assert_int_eq(seen.exit_status, 0);
  ck_assert_int_gt(doc_integer(doc_parse(seen.out), "samples"), 100);
  (void)kill(pid, SIGTERM);
  (void)waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(gpus_of_a_page)
{
  const json_t *node;
  exporter_say(exporter, scratch_read_file(sample("dcgm-exporter__HEAD-shape-mig-k8s-SYNTHETIC.prom")));
  put_node("gpu-7", exporter_port(exporter), "/good");
  node = wait_until_up("gpu-7");
  ck_assert_uint_eq(json_array_size(doc_array(node, "gpus")), 4);
  ck_assert_double_eq(doc_number(node, "gpus.0.quantities.power_w"), 698.412);
  ck_assert_str_eq(doc_text(node, "gpus.0.throttle_reasons.0"), "power_cap");
}
END_TEST

START_TEST(what_is_outside_the_list_is_refused)
{
  static const char *const urls[] = {"http://169.254.169.254/latest/meta-data", "http://[::1]:9100/",
                                     "http://0x0a000001/", "http://nothing.invalid/", "http://0.0.0.0:9100/"};
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    const struct reply *reply =
        web_put(&fitd, "/v1/nodes/x", scratch_printf("{\"url\": \"%s\", \"profile\": \"h100-sxm-80gb\"}", urls[i]));
    ck_assert_ptr_nonnull(doc_fault(reply_assert_problem(reply, 422), "/url"));
  }
}
END_TEST

START_TEST(a_restart_goes_on_scraping)
{
  put_node("good", exporter_port(exporter), "/good");
  (void)wait_until_up("good");
  daemon_stop(&fitd);
  daemon_launch(&fitd, (const char *const[]){"--scrape-allow", "127.0.0.0/8", NULL});
  (void)wait_until_up("good");
}
END_TEST

/* ---- What fitd says of itself ---- */

static void evaluate_official(void)
{
  const char *sketch = sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]");
  (void)web_put_status(&fitd, "/v1/workloads/support-chat", scratch_printf("{\"sketch\": %s}", sketch), 201);
  (void)sample_evaluate(&fitd, sketch);
}

START_TEST(metrics_hold_the_official_scorecards)
{
  const struct reply *reply;
  evaluate_official();
  put_node("good", exporter_port(exporter), "/good");
  (void)wait_until_up("good");
  reply = web_get(&fitd, "/metrics");
  reply_assert_status(reply, 200);
  ck_assert_str_eq(reply_header(reply, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  ck_assert_ptr_nonnull(
      strstr(reply->body, "\nfitd_scorecard_fit{workload=\"support-chat\",profile=\"h100-sxm-80gb\"} "));
  ck_assert_ptr_nonnull(strstr(reply->body, "\nfitd_node_up{node=\"good\",profile=\"h100-sxm-80gb\"} 1\n"));
  ck_assert_ptr_null(strstr(reply->body, "nan"));
  ck_assert_ptr_null(strstr(reply->body, "null"));
}
END_TEST

START_TEST(promtool_has_nothing_to_say)
{
  const char *page = scratch_printf("%s/metrics", fitd.dir), *said = scratch_printf("%s/said", fitd.dir);
  const struct reply *reply;
  FILE *file = fopen(page, "w");
  int status, in, out;
  pid_t pid;
  evaluate_official();
  put_node("good", exporter_port(exporter), "/good");
  (void)wait_until_up("good");
  reply = web_get(&fitd, "/metrics");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(reply->body, 1, reply->body_bytes, file), reply->body_bytes);
  ck_assert_int_eq(fclose(file), 0);
  if (!is_installed("/usr/bin/promtool", "prometheus"))
    return;
  pid = fork();
  if (pid == 0) {
    in = open(page, O_RDONLY);
    out = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)dup2(in, 0);
    (void)dup2(out, 1);
    (void)dup2(out, 2);
    (void)execl("/usr/bin/promtool", "promtool", "check", "metrics", (char *)NULL);
    _exit(127);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "promtool: %s", scratch_read_file(said));
  ck_assert_str_eq(scratch_read_file(said), "");
}
END_TEST

START_TEST(debian_prometheus_scrapes_fitd)
{
  const char *config = scratch_printf("%s/prometheus.yml", fitd.dir);
  struct daemon prometheus = {.port = free_port()};
  const struct reply *reply = NULL;
  bool is_up = false;
  FILE *file = fopen(config, "w");
  pid_t pid;
  ck_assert_ptr_nonnull(file);
  fprintf(
      file,
      "scrape_configs:\n- job_name: fitd\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['127.0.0.1:%u']\n",
      fitd.port);
  ck_assert_int_eq(fclose(file), 0);
  if (!is_installed("/usr/bin/prometheus", "prometheus"))
    return;
  (void)snprintf(prometheus.url, sizeof prometheus.url, "http://127.0.0.1:%u", prometheus.port);
  pid =
      start_program((const char *const[]){"/usr/bin/prometheus", scratch_printf("--config.file=%s", config),
                                          scratch_printf("--storage.tsdb.path=%s/tsdb", fitd.dir),
                                          scratch_printf("--web.listen-address=127.0.0.1:%u", prometheus.port), NULL});
  for (int i = 0; i < 300 && !is_up; i++) {
    struct command_result ready = command_run(
        (const char *const[]){"scrape", scratch_printf("http://127.0.0.1:%u/metrics", prometheus.port), NULL}, NULL);
    suite_sleep_s(0.1);
    if (ready.exit_status != 0)
      continue;
    reply = web_get(&prometheus, "/api/v1/query?query=fitd_build_info");
    is_up = strstr(reply->body, "\"version\":\"") != NULL;
  }
  ck_assert_msg(is_up, "prometheus has no fitd_build_info: %.500s", reply != NULL ? reply->body : "never ready");
  reply = web_get(&prometheus, "/api/v1/targets");
  ck_assert_ptr_nonnull(strstr(reply->body, "\"health\":\"up\""));
  (void)kill(pid, SIGTERM);
  (void)waitpid(pid, NULL, 0);
}
END_TEST

/* ---- The command ---- */

START_TEST(command_reads_files)
{
  const char *file = sample("odd__gzip-body-SYNTHETIC.prom.gz"), *vllm = sample("vllm__v1-shape-SYNTHETIC.prom");
  struct command_result seen = command_run((const char *const[]){"scrape", file, NULL}, NULL);
  const json_t *document;
  ck_assert_int_eq(seen.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(seen.out, "GPU 1.7  NVIDIA H100 80GB HBM3  part 1g.10gb"));
  ck_assert_ptr_nonnull(strstr(seen.out, "power_cap sw_thermal"));
  ck_assert_ptr_nonnull(strstr(seen.out, "memory_temperature_c of DCGM_FI_DEV_MEMORY_TEMP is outside 1 to 150"));
  seen = command_run((const char *const[]){"scrape", vllm, "--json", NULL}, NULL);
  document = doc_parse(seen.out);
  ck_assert_double_eq(doc_number(document, "engine.quantities.requests_running"), 83);
  ck_assert_double_eq(doc_number(document, "engine.histograms.ttft_ms.count"), 900);
}
END_TEST

START_TEST(command_reads_pipes_and_openmetrics)
{
  struct command_result seen =
      command_run((const char *const[]){"scrape", "-", "--json", NULL}, "a_total 1 # {t=\"x\"} 2\n# EOF\n");
  ck_assert_int_eq(seen.exit_status, 0);
  ck_assert_int_eq(doc_integer(doc_parse(seen.out), "samples"), 1);
  seen = command_run((const char *const[]){"scrape", "-", NULL}, "name NVIDIA\na 1\n");
  ck_assert_int_eq(seen.exit_status, 0);
  ck_assert_ptr_nonnull(strstr(seen.out, "line 1: the value is not a number"));
}
END_TEST

START_TEST(command_refuses)
{
  struct command_result seen =
      command_run((const char *const[]){"scrape", sample("odd__truncated-mid-line-SYNTHETIC.prom"), NULL}, NULL);
  ck_assert_int_eq(seen.exit_status, 1);
  ck_assert_ptr_nonnull(strstr(seen.err, "line 11, column"));
  seen = command_run((const char *const[]){"scrape", "/no/such/file", NULL}, NULL);
  ck_assert_int_eq(seen.exit_status, 1);
  ck_assert_ptr_nonnull(strstr(seen.err, "can not be read"));
  seen = command_run((const char *const[]){"scrape", NULL}, NULL);
  ck_assert_int_eq(seen.exit_status, 2);
  seen = command_run((const char *const[]){"scrape", "a", "--jsn", NULL}, NULL);
  ck_assert_int_eq(seen.exit_status, 2);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scraping");
  TCase *daemon = suite_case(suite, "daemon", setup, teardown);
  TCase *command = suite_case(suite, "command", NULL, scratch_release);
  tcase_add_test(daemon, debian_node_exporter);
  tcase_add_test(daemon, gpus_of_a_page);
  tcase_add_test(daemon, what_is_outside_the_list_is_refused);
  tcase_add_test(daemon, a_restart_goes_on_scraping);
  tcase_add_test(daemon, metrics_hold_the_official_scorecards);
  tcase_add_test(daemon, promtool_has_nothing_to_say);
  tcase_add_test(daemon, debian_prometheus_scrapes_fitd);
  tcase_add_test(command, command_reads_files);
  tcase_add_test(command, command_reads_pipes_and_openmetrics);
  tcase_add_test(command, command_refuses);
  return suite_run(suite);
}
