/* Servers, clients and latencies of the HTTP benchmarks. Whatever goes wrong ends the benchmark with exit code 2. */
#ifndef FITD_TESTS_BENCH_HTTP_LOAD_H
#define FITD_TESTS_BENCH_HTTP_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SAMPLES_MAX 2000000

struct server {
  pid_t pid; /* 0: not running */
  unsigned port;
  int in_fd; /* its standard input; closing it ends the hello-world */
};

struct client {
  int fd;
  double sent_s;
  size_t length, wanted; /* of the answer; wanted 0: its header is not complete */
  char *answer;
  bool takes_refusals; /* 503 is an answer too */
};

struct rate {
  float per_s, cpu_us, p50_ms, p99_ms;
};

extern char scratch[]; /* a directory that is removed at exit, as the servers are stopped */

_Noreturn void fail(const char *what);
double now_s(void);
void begin(void);
/* build/<flavour>/tests/bench/<this program> → build/<flavour>/<name> */
void sibling(char *to, size_t size, const char *name);

/* A program that prints where it listens. */
void start_server(struct server *server, const char *path, char *const *arguments);
void start_fitd(struct server *server, const char *const *more); /* `more`: flags, NULL at the end, or NULL */
void start_hello(struct server *server);
bool start_nginx(struct server *server); /* false: there is none at /usr/sbin/nginx, nor where $NGINX says */
void stop_server(struct server *server);
double cpu_us(pid_t pid); /* user and system time so far */
double resident_mib(pid_t pid);

void connect_client(struct client *client, unsigned port);
void close_client(struct client *client);
void send_request(struct client *client, const char *request, size_t length);
/* Takes what has come; true when the answer is complete. Anything but success ends the benchmark. */
bool take_answer(struct client *client);
double ask_ms(struct client *client, const char *request);
/* One client that asks again and again; the pause keeps the benchmark itself from being the load. */
size_t ask_for(const struct server *server, const char *request, double seconds, float *samples, unsigned pause_us);
/* `clients` (an even number up to 64), each of which asks again when it has its answer. */
struct rate measure_rate(const struct server *server, const char *request, size_t clients, double seconds);
double quantile(float *values, size_t count, double q); /* sorts them */

void format_get(char *to, size_t size, const char *path);
void format_post(char *to, size_t size, const char *query, const char *profiles);
/* The names of all stored profiles as JSON strings: "a","b". */
void list_profiles(char *to, size_t size, const struct server *server);
void first_scorecard(char *to, size_t size, const struct server *server, const char *post);

#endif
