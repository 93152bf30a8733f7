/* What HTTP costs: rates and latencies of the real daemon beside a libmicrohttpd hello-world, in one run and in turns, so
   that the ratios hold on a machine that others use too. Exit 1 when a stated goal is missed.
   bench_http [--seconds S] [--rounds N]: servers are taken from the build directory that this binary lies in. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 32
#define LOAD_THREADS 2
#define SAMPLES_MAX 2000000
#define ANSWER_MAX (1024 * 1024)
#define ROUNDS_MAX 99

#define GOAL_RATE_RATIO 0.5
#define GOAL_EVALUATION_MS 50.0
#define GOAL_LIGHT_GET_MS 5.0

static _Noreturn void fail(const char *what)
{
  (void)fprintf(stderr, "bench_http: %s: %s\n", what, strerror(errno));
  exit(2);
}

static double now_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Servers ---- */

struct server {
  pid_t pid; /* 0: not running */
  unsigned port;
  int in_fd; /* its standard input; closing it ends the hello-world */
};

static char scratch[] = "/tmp/fitd-bench-XXXXXX";
static struct server fitd, hello;

static void run_child(const char *path, char *const *arguments, int in_fd, int out_fd)
{
  char log[64];
  int log_fd;
  (void)snprintf(log, sizeof log, "%s/log", scratch);
  log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0 || dup2(in_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(log_fd, 2) < 0)
    _exit(126);
  (void)execv(path, arguments);
  _exit(127);
}

static void start_server(struct server *server, const char *path, char *const *arguments)
{
  int in[2], out[2];
  char line[256], *colon;
  FILE *from;
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (server->pid = fork()) < 0)
    fail("start");
  if (server->pid == 0)
    run_child(path, arguments, in[0], out[1]);
  (void)close(in[0]);
  (void)close(out[1]);
  server->in_fd = in[1];
  from = fdopen(out[0], "r");
  if (from == NULL || fgets(line, sizeof line, from) == NULL || (colon = strrchr(line, ':')) == NULL)
    fail("the server did not say where it listens");
  (void)fclose(from);
  server->port = (unsigned)strtoul(colon + 1, NULL, 10);
}

static void stop_server(struct server *server)
{
  if (server->pid <= 0)
    return;
  (void)close(server->in_fd);
  (void)kill(server->pid, SIGTERM);
  (void)waitpid(server->pid, NULL, 0);
  server->pid = 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
  (void)status;
  (void)kind;
  (void)place;
  return remove(path);
}

/* At exit, whatever the reason. */
static void clean_up(void)
{
  stop_server(&fitd);
  stop_server(&hello);
  (void)nftw(scratch, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* User and system time of a process in microseconds. */
static double cpu_us(pid_t pid)
{
  char path[64], text[1024], *field, *rest;
  FILE *file;
  unsigned long long ticks = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  file = fopen(path, "r");
  if (file == NULL || fgets(text, sizeof text, file) == NULL)
    fail(path);
  (void)fclose(file);
  field = strrchr(text, ')') + 1; /* fields 3 and on; time is in 14 and 15 */
  for (int i = 3; (field = strtok_r(i == 3 ? field : NULL, " ", &rest)) != NULL && i <= 15; i++)
    if (i >= 14)
      ticks += strtoull(field, NULL, 10);
  return (double)ticks * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

/* ---- Clients ---- */

struct client {
  int fd;
  double sent_s;
  size_t length, wanted; /* of the answer; wanted 0: its header is not complete */
  char *answer;
};

static void connect_client(struct client *client, unsigned port)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int on = 1;
  client->answer = malloc(ANSWER_MAX + 1);
  client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client->answer == NULL || client->fd < 0 ||
      connect(client->fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
      setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    fail("connect");
}

static void close_client(struct client *client)
{
  (void)close(client->fd);
  free(client->answer);
}

static void send_request(struct client *client, const char *request, size_t length)
{
  client->length = client->wanted = 0;
  client->sent_s = now_s();
  if (send(client->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length)
    fail("send");
}

/* Takes what has come; true when the answer is complete. Anything but success ends the benchmark. */
static bool take_answer(struct client *client)
{
  const ssize_t count = recv(client->fd, client->answer + client->length, ANSWER_MAX - client->length, 0);
  if (count <= 0)
    fail("the server closed a connection");
  client->length += (size_t)count;
  client->answer[client->length] = '\0';
  if (client->wanted == 0) {
    const char *end = strstr(client->answer, "\r\n\r\n"), *header = strcasestr(client->answer, "\r\nContent-Length:");
    if (end == NULL)
      return false;
    if (header == NULL || header > end || strncmp(client->answer, "HTTP/1.1 20", 11) != 0) {
      (void)fprintf(stderr, "bench_http: unexpected answer: %.900s\n", client->answer);
      exit(2);
    }
    client->wanted = (size_t)(end + 4 - client->answer) + strtoul(header + 17, NULL, 10);
  }
  return client->length >= client->wanted;
}

static double ask_ms(struct client *client, const char *request)
{
  send_request(client, request, strlen(request));
  while (!take_answer(client))
    continue;
  return (now_s() - client->sent_s) * 1e3;
}

/* ---- Load ---- */

struct load {
  unsigned port;
  const char *request;
  double seconds;
  size_t count;
  float *samples_ms;
};

static void *run_load(void *cls)
{
  struct load *load = cls;
  struct client clients[CLIENTS / LOAD_THREADS];
  const size_t length = strlen(load->request);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  double end_s;
  if (epoll < 0)
    fail("epoll");
  for (size_t i = 0; i < CLIENTS / LOAD_THREADS; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &clients[i]}};
    connect_client(&clients[i], load->port);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
      fail("epoll");
    send_request(&clients[i], load->request, length);
  }
  end_s = now_s() + load->seconds;
  while (now_s() < end_s) {
    struct epoll_event events[CLIENTS];
    const int ready = epoll_wait(epoll, events, CLIENTS, 100);
    for (int i = 0; i < ready; i++) {
      struct client *client = events[i].data.ptr;
      if (!take_answer(client))
        continue;
      if (load->count < SAMPLES_MAX)
        load->samples_ms[load->count++] = (float)((now_s() - client->sent_s) * 1e3);
      send_request(client, load->request, length);
    }
  }
  for (size_t i = 0; i < CLIENTS / LOAD_THREADS; i++)
    close_client(&clients[i]);
  (void)close(epoll);
  return NULL;
}

static int compare_floats(const void *a, const void *b)
{
  const float left = *(const float *)a, right = *(const float *)b;
  return (left > right) - (left < right);
}

static double quantile(float *values, size_t count, double q)
{
  if (count == 0)
    return 0;
  qsort(values, count, sizeof *values, compare_floats);
  return (double)values[(size_t)(q * (double)(count - 1))];
}

struct rate {
  float per_s, cpu_us, p50_ms, p99_ms;
};

static struct rate measure_rate(const struct server *server, const char *request, double seconds)
{
  static float samples[LOAD_THREADS][SAMPLES_MAX];
  static float all[LOAD_THREADS * SAMPLES_MAX];
  struct load loads[LOAD_THREADS];
  pthread_t threads[LOAD_THREADS];
  size_t total = 0;
  const double cpu_before = cpu_us(server->pid), start_s = now_s();
  struct rate rate;
  for (size_t i = 0; i < LOAD_THREADS; i++) {
    loads[i] = (struct load){
        .port = server->port, .request = request, .seconds = seconds, .count = 0, .samples_ms = samples[i]};
    if (pthread_create(&threads[i], NULL, run_load, &loads[i]) != 0)
      fail("thread");
  }
  for (size_t i = 0; i < LOAD_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    memcpy(all + total, samples[i], loads[i].count * sizeof *all);
    total += loads[i].count;
  }
  rate.per_s = (float)((double)total / (now_s() - start_s));
  rate.cpu_us = total > 0 ? (float)((cpu_us(server->pid) - cpu_before) / (double)total) : 0;
  rate.p50_ms = (float)quantile(all, total, 0.5);
  rate.p99_ms = (float)quantile(all, total, 0.99);
  return rate;
}

/* ---- Requests ---- */

static const char sketch[] = "{\"workload\":\"bench\",\"model\":\"llama-3.1-70b\",\"traffic\":{\"input_tokens\":2048,"
                             "\"output_tokens\":256,\"requests_per_s\":4.0},\"profiles\":[%s]}";

static void format_get(char *to, size_t size, const char *path)
{
  (void)snprintf(to, size, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

static void format_post(char *to, size_t size, const char *query, const char *profiles)
{
  char body[16384];
  const int length = snprintf(body, sizeof body, sketch, profiles);
  if (length < 0 || (size_t)length >= sizeof body)
    fail("the list of profiles is too long");
  (void)snprintf(to, size,
                 "POST /v1/evaluations%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %d\r\n\r\n%s",
                 query, length, body);
}

static json_t *ask_json(const struct server *server, const char *request)
{
  struct client client;
  json_t *document;
  connect_client(&client, server->port);
  (void)ask_ms(&client, request);
  document = json_loads(strstr(client.answer, "\r\n\r\n") + 4, 0, NULL);
  close_client(&client);
  return document;
}

/* The names of all stored profiles as JSON strings: "a","b". */
static void list_profiles(char *to, size_t size, const struct server *server)
{
  char request[256];
  json_t *document;
  const json_t *row;
  size_t i, used = 0;
  format_get(request, sizeof request, "/v1/profiles?limit=1000");
  document = ask_json(server, request);
  to[0] = '\0';
  json_array_foreach(json_object_get(document, "items"), i, row)
  {
    const char *name = json_string_value(json_object_get(row, "id"));
    if (name == NULL || used >= size)
      fail("the list of profiles");
    used += (size_t)snprintf(to + used, size - used, "%s\"%s\"", i > 0 ? "," : "", name);
  }
  (void)printf("profiles: %zu\n", i);
  json_decref(document);
}

static void first_scorecard(char *to, size_t size, const struct server *server, const char *post)
{
  json_t *document = ask_json(server, post);
  const char *id = json_string_value(json_object_get(json_array_get(json_object_get(document, "scorecards"), 0), "id"));
  if (id == NULL)
    fail("the evaluation has no scorecard");
  (void)snprintf(to, size, "/v1/scorecards/%s", id);
  json_decref(document);
}

/* ---- Measurements ---- */

static bool compare_rates(const char *get, int rounds, double seconds)
{
  struct rate ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
  float ratios[ROUNDS_MAX], cpu_ratios[ROUNDS_MAX], rates[2][ROUNDS_MAX], cpus[2][ROUNDS_MAX];
  char hello_get[256];
  double ratio;
  format_get(hello_get, sizeof hello_get, "/");
  for (int i = 0; i < rounds; i++) {
    if (i % 2 == 0)
      theirs[i] = measure_rate(&hello, hello_get, seconds);
    ours[i] = measure_rate(&fitd, get, seconds);
    if (i % 2 != 0)
      theirs[i] = measure_rate(&hello, hello_get, seconds);
    (void)printf(
        "  round %d: fitd %.0f/s, CPU %.1f us, p50 %.2f ms, p99 %.2f ms; hello %.0f/s, CPU %.1f us, p50 %.2f ms, p99 "
        "%.2f ms\n",
        i + 1, (double)ours[i].per_s, (double)ours[i].cpu_us, (double)ours[i].p50_ms, (double)ours[i].p99_ms,
        (double)theirs[i].per_s, (double)theirs[i].cpu_us, (double)theirs[i].p50_ms, (double)theirs[i].p99_ms);
    ratios[i] = ours[i].per_s / theirs[i].per_s;
    cpu_ratios[i] = ours[i].cpu_us / theirs[i].cpu_us;
    rates[0][i] = ours[i].per_s;
    rates[1][i] = theirs[i].per_s;
    cpus[0][i] = ours[i].cpu_us;
    cpus[1][i] = theirs[i].cpu_us;
  }
  ratio = quantile(ratios, (size_t)rounds, 0.5);
  (void)printf(
      "GET scorecard, %d clients: %.0f/s, %.1f us CPU; hello-world %.0f/s, %.1f us CPU; rate ratio %.2f (goal %.2f), "
      "CPU ratio %.2f\n",
      CLIENTS, quantile(rates[0], (size_t)rounds, 0.5), quantile(cpus[0], (size_t)rounds, 0.5),
      quantile(rates[1], (size_t)rounds, 0.5), quantile(cpus[1], (size_t)rounds, 0.5), ratio, GOAL_RATE_RATIO,
      quantile(cpu_ratios, (size_t)rounds, 0.5));
  return ratio >= GOAL_RATE_RATIO;
}

/* One client that asks again and again; the pause keeps the benchmark itself from being the load. */
static size_t ask_for(const struct server *server, const char *request, double seconds, float *samples,
                      unsigned pause_us)
{
  struct client client;
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)pause_us * 1000};
  const double end_s = now_s() + seconds;
  size_t count = 0;
  connect_client(&client, server->port);
  while (now_s() < end_s && count < SAMPLES_MAX) {
    samples[count++] = (float)ask_ms(&client, request);
    if (pause_us > 0)
      (void)nanosleep(&pause, NULL);
  }
  close_client(&client);
  return count;
}

struct evaluator {
  const struct server *server;
  const char *post;
  double seconds;
  size_t count;
  float *samples;
};

static void *keep_evaluating(void *cls)
{
  struct evaluator *evaluator = cls;
  evaluator->count = ask_for(evaluator->server, evaluator->post, evaluator->seconds, evaluator->samples, 0);
  return NULL;
}

static bool measure_light_get(const struct server *server, const char *get, const char *post, const char *what,
                              double seconds)
{
  static float samples[SAMPLES_MAX], evaluations[SAMPLES_MAX];
  struct evaluator evaluator = {.server = server, .post = post, .seconds = seconds, .samples = evaluations};
  pthread_t thread;
  size_t count = ask_for(server, get, seconds, samples, 500);
  const double idle_p50 = quantile(samples, count, 0.5), idle_p99 = quantile(samples, count, 0.99);
  double p50, p99;
  if (pthread_create(&thread, NULL, keep_evaluating, &evaluator) != 0)
    fail("thread");
  count = ask_for(server, get, seconds, samples, 500);
  (void)pthread_join(thread, NULL);
  p50 = quantile(samples, count, 0.5);
  p99 = quantile(samples, count, 0.99);
  (void)printf(
      "light GET, alone: p50 %.2f ms, p99 %.2f ms; beside one client evaluating (%s, p50 %.1f ms each): p50 %.2f "
      "ms, p99 %.2f ms (goal %.0f ms); ratio of p99 %.1f\n",
      idle_p50, idle_p99, what, quantile(evaluations, evaluator.count, 0.5), p50, p99, GOAL_LIGHT_GET_MS,
      idle_p99 > 0 ? p99 / idle_p99 : 0);
  return p99 <= GOAL_LIGHT_GET_MS;
}

static bool measure_evaluation(const struct server *server, const char *post, const char *what, double seconds,
                               double goal_ms)
{
  static float samples[SAMPLES_MAX];
  const double cpu_before = cpu_us(server->pid);
  const size_t count = ask_for(server, post, seconds, samples, 0);
  const double p50 = quantile(samples, count, 0.5), p99 = quantile(samples, count, 0.99);
  (void)printf("POST evaluation, %s: p50 %.2f ms, p99 %.2f ms, %.2f ms CPU each, %zu done", what, p50, p99,
               count > 0 ? (cpu_us(server->pid) - cpu_before) / 1e3 / (double)count : 0, count);
  if (goal_ms > 0)
    (void)printf(" (goal %.0f ms)", goal_ms);
  (void)putchar('\n');
  return goal_ms <= 0 || p50 <= goal_ms;
}

/* ---- The run ---- */

/* build/<flavour>/tests/bench/bench_http → build/<flavour>/<name> */
static void sibling(char *to, size_t size, const char *name)
{
  char exe[4000];
  const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (length <= 0)
    fail("/proc/self/exe");
  exe[length] = '\0';
  for (int level = 0; level < 3; level++)
    *strrchr(exe, '/') = '\0';
  (void)snprintf(to, size, "%s/%s", exe, name);
}

static bool run(int rounds, double seconds)
{
  static char profiles[8192], all_quick[20000], one_quick[1024], all_full[20000];
  char card[256], get[512];
  bool ok;
  list_profiles(profiles, sizeof profiles, &fitd);
  format_post(all_quick, sizeof all_quick, "?depth=quick", profiles);
  format_post(all_full, sizeof all_full, "?depth=full", profiles);
  format_post(one_quick, sizeof one_quick, "?depth=quick", "\"h100-sxm-80gb\"");
  first_scorecard(card, sizeof card, &fitd, all_quick);
  format_get(get, sizeof get, card);
  ok = compare_rates(get, rounds, seconds);
  ok &= measure_evaluation(&fitd, one_quick, "one profile, quick", seconds, 0);
  ok &= measure_evaluation(&fitd, all_quick, "all profiles, quick", seconds, GOAL_EVALUATION_MS);
  ok &= measure_evaluation(&fitd, all_full, "all profiles, full", seconds, 0);
  ok &= measure_light_get(&fitd, get, all_quick, "all profiles, quick", seconds);
  ok &= measure_light_get(&fitd, get, all_full, "all profiles, full", seconds);
  return ok;
}

int main(int argc, char **argv)
{
  char fitd_path[4200], hello_path[4200], database[64], database_flag[] = "--database", listen_flag[] = "--listen",
                                                        address[] = "127.0.0.1:0";
  char *fitd_arguments[] = {fitd_path, listen_flag, address, database_flag, database, NULL};
  char *hello_arguments[] = {hello_path, NULL};
  double seconds = 1;
  int rounds = 5;
  bool ok;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seconds") == 0)
      seconds = strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--rounds") == 0)
      rounds = (int)strtol(argv[i + 1], NULL, 10);
  }
  if (seconds <= 0 || rounds < 1 || rounds > ROUNDS_MAX || mkdtemp(scratch) == NULL)
    fail("bench_http [--seconds S] [--rounds 1..99]");
  (void)atexit(clean_up);
  sibling(fitd_path, sizeof fitd_path, "fitd");
  sibling(hello_path, sizeof hello_path, "tests/bench/hello");
  (void)snprintf(database, sizeof database, "%s/fitd.db", scratch);
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  start_server(&hello, hello_path, hello_arguments);
  start_server(&fitd, fitd_path, fitd_arguments);
  ok = run(rounds, seconds);
  (void)puts(ok ? "every goal is met" : "a goal is missed");
  return ok ? 0 : 1;
}
