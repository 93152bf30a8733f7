/* What the HTTP benchmarks share: servers of one run, clients that send one request after another, their latencies. */
#include "tests/bench/http_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOAD_THREADS 2
#define CLIENTS_MAX 64
#define ANSWER_MAX (1024 * 1024)

_Noreturn void fail(const char *what)
{
  (void)fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
  exit(2);
}

double now_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Servers ---- */

char scratch[] = "/tmp/fitd-bench-XXXXXX";

#define SERVERS_MAX 4
static struct server *running[SERVERS_MAX];

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

static void remember(struct server *server)
{
  for (size_t i = 0; i < SERVERS_MAX; i++)
    if (running[i] == NULL) {
      running[i] = server;
      return;
    }
}

void start_server(struct server *server, const char *path, char *const *arguments)
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
  remember(server);
}

void stop_server(struct server *server)
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
  for (size_t i = 0; i < SERVERS_MAX; i++)
    if (running[i] != NULL)
      stop_server(running[i]);
  (void)nftw(scratch, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void begin(void)
{
  if (mkdtemp(scratch) == NULL)
    fail(scratch);
  (void)atexit(clean_up);
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
}

void sibling(char *to, size_t size, const char *name)
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

void start_fitd(struct server *server, const char *const *more)
{
  char path[4200], database[64], listen_flag[] = "--listen", address[] = "127.0.0.1:0", database_flag[] = "--database";
  char *arguments[16] = {path, listen_flag, address, database_flag, database};
  size_t count = 5;
  sibling(path, sizeof path, "fitd");
  (void)snprintf(database, sizeof database, "%s/fitd.db", scratch);
  for (; more != NULL && *more != NULL && count < 15; more++)
    if ((arguments[count++] = strdup(*more)) == NULL)
      fail("start");
  start_server(server, path, arguments);
  while (count > 5)
    free(arguments[--count]);
}

void start_hello(struct server *server)
{
  char path[4200];
  char *arguments[] = {path, NULL};
  sibling(path, sizeof path, "tests/bench/hello");
  start_server(server, path, arguments);
}

/* ---- nginx ---- */

/* It takes no port 0: this one was free a moment ago. */
static unsigned free_port(void)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0)
    fail("a free port");
  (void)close(fd);
  return ntohs(address.sin_port);
}

static void write_nginx_configuration(const char *path, unsigned port)
{
  static const char *const kinds[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  FILE *to = fopen(path, "w");
  if (to == NULL)
    fail(path);
  (void)fprintf(
      to,
      "daemon off; worker_processes %ld; pid %s/nginx.pid; error_log %s/log;\nevents { worker_connections 1024; "
      "}\nhttp { access_log off; keepalive_requests 1000000000;\n",
      cores > 1 ? cores : 2, scratch, scratch);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    (void)fprintf(to, "%s_temp_path %s;\n", kinds[i], scratch);
  (void)fprintf(
      to, "server { listen 127.0.0.1:%u; location / { default_type text/plain; return 200 \"Hello, world!\"; } } }\n",
      port);
  if (fclose(to) != 0)
    fail(path);
}

static bool is_reachable(unsigned port)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool ok = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    (void)close(fd);
  return ok;
}

bool start_nginx(struct server *server)
{
  const char *path = getenv("NGINX") != NULL ? getenv("NGINX") : "/usr/sbin/nginx";
  char file[64], program[512], flag[] = "-c";
  char *arguments[] = {program, flag, file, NULL};
  int null_fd;
  if (access(path, X_OK) != 0)
    return false;
  (void)snprintf(program, sizeof program, "%s", path);
  (void)snprintf(file, sizeof file, "%s/nginx.conf", scratch);
  server->port = free_port();
  write_nginx_configuration(file, server->port);
  if ((null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0 || (server->pid = fork()) < 0)
    fail("start nginx");
  if (server->pid == 0)
    run_child(program, arguments, null_fd, null_fd);
  server->in_fd = null_fd;
  remember(server);
  for (int i = 0; i < 500; i++) {
    const struct timespec pause = {.tv_nsec = 10000000};
    if (is_reachable(server->port))
      return true;
    (void)nanosleep(&pause, NULL);
  }
  errno = ETIMEDOUT;
  fail("nginx");
}

/* User and system time of a process in microseconds. */
double cpu_us(pid_t pid)
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

double resident_mib(pid_t pid)
{
  char path[64], line[256];
  double kib = -1;
  FILE *file;
  (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  file = fopen(path, "r");
  if (file == NULL)
    fail(path);
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "VmRSS:", 6) == 0)
      kib = strtod(line + 6, NULL);
  (void)fclose(file);
  return kib / 1024;
}

/* ---- Clients ---- */

void connect_client(struct client *client, unsigned port)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int on = 1;
  *client = (struct client){.answer = malloc(ANSWER_MAX + 1)};
  client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client->answer == NULL || client->fd < 0 ||
      connect(client->fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
      setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    fail("connect");
}

void close_client(struct client *client)
{
  (void)close(client->fd);
  free(client->answer);
}

void send_request(struct client *client, const char *request, size_t length)
{
  client->length = client->wanted = 0;
  client->sent_s = now_s();
  if (send(client->fd, request, length, MSG_NOSIGNAL) != (ssize_t)length)
    fail("send");
}

/* Takes what has come; true when the answer is complete. Anything but success ends the benchmark. */
bool take_answer(struct client *client)
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
    const bool is_refusal = client->takes_refusals && strncmp(client->answer, "HTTP/1.1 503", 12) == 0;
    if (header == NULL || header > end || (!is_refusal && strncmp(client->answer, "HTTP/1.1 20", 11) != 0)) {
      (void)fprintf(stderr, "bench: unexpected answer: %.900s\n", client->answer);
      exit(2);
    }
    client->wanted = (size_t)(end + 4 - client->answer) + strtoul(header + 17, NULL, 10);
  }
  return client->length >= client->wanted;
}

double ask_ms(struct client *client, const char *request)
{
  send_request(client, request, strlen(request));
  while (!take_answer(client))
    continue;
  return (now_s() - client->sent_s) * 1e3;
}

/* ---- Load ---- */

struct load {
  unsigned port;
  size_t clients;
  const char *request;
  double seconds;
  size_t count;
  float *samples_ms;
};

static void *run_load(void *cls)
{
  struct load *load = cls;
  struct client clients[CLIENTS_MAX / LOAD_THREADS];
  const size_t length = strlen(load->request);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  double end_s;
  if (epoll < 0)
    fail("epoll");
  for (size_t i = 0; i < load->clients; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &clients[i]}};
    connect_client(&clients[i], load->port);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0)
      fail("epoll");
    send_request(&clients[i], load->request, length);
  }
  end_s = now_s() + load->seconds;
  while (now_s() < end_s) {
    struct epoll_event events[CLIENTS_MAX];
    const int ready = epoll_wait(epoll, events, CLIENTS_MAX, 100);
    for (int i = 0; i < ready; i++) {
      struct client *client = events[i].data.ptr;
      if (!take_answer(client))
        continue;
      if (load->count < SAMPLES_MAX)
        load->samples_ms[load->count++] = (float)((now_s() - client->sent_s) * 1e3);
      send_request(client, load->request, length);
    }
  }
  for (size_t i = 0; i < load->clients; i++) {
    while (!take_answer(&clients[i])) /* the next measurement begins with nothing on its way */
      continue;
    close_client(&clients[i]);
  }
  (void)close(epoll);
  return NULL;
}

static int compare_floats(const void *a, const void *b)
{
  const float left = *(const float *)a, right = *(const float *)b;
  return (left > right) - (left < right);
}

double quantile(float *values, size_t count, double q)
{
  if (count == 0)
    return 0;
  qsort(values, count, sizeof *values, compare_floats);
  return (double)values[(size_t)(q * (double)(count - 1))];
}

struct rate measure_rate(const struct server *server, const char *request, size_t clients, double seconds)
{
  static float samples[LOAD_THREADS][SAMPLES_MAX];
  static float all[LOAD_THREADS * SAMPLES_MAX];
  struct load loads[LOAD_THREADS];
  pthread_t threads[LOAD_THREADS];
  size_t total = 0;
  const double cpu_before = cpu_us(server->pid), start_s = now_s();
  struct rate rate;
  for (size_t i = 0; i < LOAD_THREADS; i++) {
    loads[i] = (struct load){.port = server->port,
                             .clients = clients / LOAD_THREADS,
                             .request = request,
                             .seconds = seconds,
                             .samples_ms = samples[i]};
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

/* One client that asks again and again; the pause keeps the benchmark itself from being the load. */
size_t ask_for(const struct server *server, const char *request, double seconds, float *samples, unsigned pause_us)
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

/* ---- Requests ---- */

static const char sketch[] = "{\"workload\":\"bench\",\"model\":\"llama-3.1-70b\",\"traffic\":{\"input_tokens\":2048,"
                             "\"output_tokens\":256,\"requests_per_s\":4.0},\"profiles\":[%s]}";

void format_get(char *to, size_t size, const char *path)
{
  (void)snprintf(to, size, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

void format_post(char *to, size_t size, const char *query, const char *profiles)
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
void list_profiles(char *to, size_t size, const struct server *server)
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

void first_scorecard(char *to, size_t size, const struct server *server, const char *post)
{
  json_t *document = ask_json(server, post);
  const char *id = json_string_value(json_object_get(json_array_get(json_object_get(document, "scorecards"), 0), "id"));
  if (id == NULL)
    fail("the evaluation has no scorecard");
  (void)snprintf(to, size, "/v1/scorecards/%s", id);
  json_decref(document);
}
