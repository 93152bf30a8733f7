/* What goes wrong beneath the service: power cuts while clients write, a disk that fills, a file that can not be written, that
   is damaged, or that somebody removes. Each is said clearly, /readyz tells the reason, and nothing acknowledged is lost. */
#include "tests/lib/daemon.h"
#include "tests/lib/doc.h"
#include "tests/lib/sample.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/web.h"
#include "tests/lib/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLS 50
#define WRITERS 3
#define ID_LENGTH 36

static struct daemon fitd;

static void setup(void)
{
  daemon_start(&fitd);
}

static void teardown(void)
{
  daemon_finish(&fitd);
}

/* ---- Power cuts ---- */

static const char result_body[] =
    "{\"model\":\"llama-3.1-70b\",\"precision\":\"fp8\",\"benchmark\":\"ifeval\",\"score\":0.5,\"source\":\"a test\"}";

/* A connection, or -1: the daemon may be gone, which is no failure here. */
static int connect_or_not(void)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)fitd.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  if (fd >= 0)
    (void)close(fd);
  return -1;
}

/* Posts until the daemon is gone, and writes the id of every 201 to the pipe: one write, so that it is whole. */
static void write_results(int to_fd)
{
  char request[512];
  const int length = snprintf(request, sizeof request,
                              "POST /v1/quality-results HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                              "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                              sizeof result_body - 1, result_body);
  for (;;) {
    const int fd = connect_or_not();
    struct wire_answer answer;
    const char *id;
    if (fd < 0 || !wire_send(fd, request, (size_t)length))
      _exit(0);
    answer = wire_read(fd, 10);
    (void)close(fd);
    if (!wire_is_complete(&answer) || wire_status(&answer, 0) != 201)
      _exit(0);
    id = strstr(answer.text, "\"id\":\"");
    if (id == NULL || write(to_fd, id + strlen("\"id\":\""), ID_LENGTH) != ID_LENGTH)
      _exit(1);
    scratch_release();
  }
}

static size_t stored_results(void)
{
  size_t count = 0;
  const char *cursor = "";
  for (;;) {
    const json_t *page = web_get_ok(&fitd, scratch_printf("/v1/quality-results?limit=1000&fields=id%s", cursor));
    count += json_array_size(doc_array(page, "items"));
    if (doc_is_null(page, "next_cursor"))
      return count;
    cursor = scratch_printf("&cursor=%s", doc_text(page, "next_cursor"));
  }
}

/* Every id that came through the pipe is stored; returns how many there were. */
static size_t check_acknowledged(int fd)
{
  const json_t *items = doc_array(web_get_ok(&fitd, "/v1/quality-results?limit=1000&fields=id"), "items");
  char id[ID_LENGTH + 1];
  size_t count = 0;
  while (read(fd, id, ID_LENGTH) == ID_LENGTH) {
    bool is_found = false;
    json_t *item;
    size_t i;
    id[ID_LENGTH] = '\0';
    json_array_foreach(items, i, item)
    {
      is_found = is_found || strcmp(doc_text(item, "id"), id) == 0;
    }
    ck_assert_msg(is_found, "%s was acknowledged and is lost", id);
    count++;
  }
  return count;
}

static size_t cut_power(unsigned round)
{
  struct pollfd acknowledged;
  pid_t writers[WRITERS];
  int ends[2], status;
  size_t count;
  ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = fork();
    ck_assert_int_ge(writers[i], 0);
    if (writers[i] == 0)
      write_results(ends[1]);
  }
  (void)close(ends[1]);
  acknowledged = (struct pollfd){.fd = ends[0], .events = POLLIN};
  ck_assert_int_eq(poll(&acknowledged, 1, 60000), 1); /* from here on they are writing, and are cut at some moment */
  suite_sleep_s(0.001 * (double)(round * 7 % 40));
  daemon_kill(&fitd);
  for (int i = 0; i < WRITERS; i++) {
    (void)kill(writers[i], SIGKILL); /* a writer that lost its peer may fail a check of its own: that is not the test */
    ck_assert_int_eq(waitpid(writers[i], &status, 0), writers[i]);
  }
  daemon_launch(&fitd, NULL);
  count = check_acknowledged(ends[0]);
  (void)close(ends[0]);
  return count;
}

START_TEST(fifty_power_cuts_lose_nothing_acknowledged)
{
  size_t acknowledged = 0;
  for (unsigned round = 0; round < KILLS; round++)
    acknowledged += cut_power(round);
  ck_assert_uint_ge(acknowledged, KILLS); /* they were cut while writing */
  ck_assert_uint_ge(stored_results(), acknowledged);
  ck_assert_uint_le(stored_results(), acknowledged + (size_t)KILLS * WRITERS); /* at most the one in flight of each */
  reply_assert_status(web_get(&fitd, "/readyz"), 200);
}
END_TEST

/* ---- A disk that fills ---- */

static void limit_files(rlim_t bytes)
{
  struct rlimit limit;
  ck_assert_int_eq(prlimit(fitd.pid, RLIMIT_FSIZE, NULL, &limit), 0);
  limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
  ck_assert_int_eq(prlimit(fitd.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static const char *one_profile(void)
{
  return sample_sketch_with("\"profiles\":[\"h100-sxm-80gb\"]");
}

/* Until a write is refused; the ids of those that were not. */
static const json_t *write_until_refused(json_t *ids)
{
  for (int i = 0; i < 2000; i++) {
    const struct reply *reply = web_post(&fitd, "/v1/evaluations", one_profile());
    if (reply->status != 201)
      return reply_assert_problem(reply, 503);
    json_array_append(ids, doc_at(reply->json, "id"));
  }
  ck_abort_msg("the disk did not fill");
}

static void wait_until_ready(void)
{
  const double until_s = suite_now_s() + 20;
  while (web_get(&fitd, "/readyz")->status != 200 && suite_now_s() < until_s)
    suite_sleep_s(0.1);
  reply_assert_status(web_get(&fitd, "/readyz"), 200);
}

START_TEST(full_disk_is_said_and_survived)
{
  json_t *ids = scratch_json_steal(json_array()), *id;
  const json_t *problem;
  size_t i;
  limit_files(900 * 1024);
  problem = write_until_refused(ids);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "database"));
  problem = reply_assert_problem(web_get(&fitd, "/readyz"), 503);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "store: the last write failed"));
  (void)web_get_ok(&fitd, "/v1/scorecards"); /* reading goes on */
  limit_files(RLIM_INFINITY);
  wait_until_ready();
  reply_assert_status(web_post(&fitd, "/v1/evaluations", one_profile()), 201);
  daemon_stop(&fitd);
  daemon_launch(&fitd, NULL);
  json_array_foreach(ids, i, id)
  {
    reply_assert_status(web_get(&fitd, scratch_printf("/v1/evaluations/%s", json_string_value(id))), 200);
  }
}
END_TEST

/* ---- Files that are not what they were ---- */

static void rename_database(const char *suffix_from, const char *suffix_to)
{
  ck_assert_int_eq(
      rename(scratch_printf("%s%s", fitd.database, suffix_from), scratch_printf("%s%s", fitd.database, suffix_to)), 0);
}

START_TEST(removed_database_is_noticed)
{
  const json_t *problem;
  const char *id = doc_text(sample_evaluate(&fitd, one_profile()), "id");
  rename_database("", ".moved");
  problem = reply_assert_problem(web_post(&fitd, "/v1/evaluations", one_profile()), 503); /* it would be lost */
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "gone from its place"));
  problem = reply_assert_problem(web_get(&fitd, "/readyz"), 503);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "gone from its place"));
  rename_database(".moved", "");
  wait_until_ready();
  reply_assert_status(web_post(&fitd, "/v1/evaluations", one_profile()), 201);
  reply_assert_status(web_get(&fitd, scratch_printf("/v1/evaluations/%s", id)), 200);
}
END_TEST

START_TEST(another_file_in_its_place_is_noticed)
{
  FILE *file;
  rename_database("", ".moved");
  file = fopen(fitd.database, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_ptr_nonnull(
      strstr(doc_text(reply_assert_problem(web_get(&fitd, "/readyz"), 503), "detail"), "took the place"));
  rename_database(".moved", "");
  wait_until_ready();
}
END_TEST

static void copy_file(const char *from, const char *to)
{
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  char block[8192];
  size_t count;
  ck_assert(in != NULL && out != NULL);
  while ((count = fread(block, 1, sizeof block, in)) > 0)
    ck_assert_uint_eq(fwrite(block, 1, count, out), count);
  ck_assert_int_eq(fclose(in), 0);
  ck_assert_int_eq(fclose(out), 0);
}

/* All pages but the first and the roots of the catalogue, which the start reads: somewhere in there lie the scorecards. */
static void damage_pages(void)
{
  static const unsigned char garbage[8192] = {0xa5};
  const int fd = open(fitd.database, O_RDWR | O_CLOEXEC);
  const off_t end = lseek(fd, 0, SEEK_END);
  ck_assert_int_ge(fd, 0);
  for (off_t at = end - 6 * 8192; at < end; at += 8192)
    ck_assert_int_eq(pwrite(fd, garbage, sizeof garbage, at), sizeof garbage);
  ck_assert_int_eq(close(fd), 0);
}

START_TEST(damaged_pages_are_said_and_a_backup_heals)
{
  const char *backup = scratch_printf("%s.backup", fitd.database);
  const struct reply *reply;
  const json_t *problem;
  for (int i = 0; i < 12; i++)
    (void)sample_evaluate(&fitd, one_profile());
  daemon_stop(&fitd);
  copy_file(fitd.database, backup);
  damage_pages();
  daemon_launch(&fitd, NULL);
  reply = web_get(&fitd, "/v1/scorecards?limit=1000");
  problem = reply_assert_problem(reply, 503);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "damaged"));
  problem = reply_assert_problem(web_get(&fitd, "/readyz"), 503);
  ck_assert_ptr_nonnull(strstr(doc_text(problem, "detail"), "damaged"));
  daemon_kill(&fitd);
  (void)unlink(scratch_printf("%s-wal", fitd.database));
  (void)unlink(scratch_printf("%s-shm", fitd.database));
  copy_file(backup, fitd.database);
  daemon_launch(&fitd, NULL);
  reply_assert_status(web_get(&fitd, "/readyz"), 200);
  ck_assert_uint_eq(json_array_size(doc_array(web_get_ok(&fitd, "/v1/scorecards?limit=1000"), "items")), 12);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("scenario/robustness");
  TCase *tcase = suite_case(suite, "robustness", setup, teardown);
  tcase_set_timeout(tcase, 180);
  tcase_add_test(tcase, fifty_power_cuts_lose_nothing_acknowledged);
  tcase_add_test(tcase, full_disk_is_said_and_survived);
  tcase_add_test(tcase, removed_database_is_noticed);
  tcase_add_test(tcase, another_file_in_its_place_is_noticed);
  tcase_add_test(tcase, damaged_pages_are_said_and_a_backup_heals);
  return suite_run(suite);
}
