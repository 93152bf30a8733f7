/* What overload and idle clients cost: 5,000 idle keep-alive connections, and four times as many evaluations as the daemon
   can do. Those that it takes must come about as fast as without load, the others be refused at once.
   bench_overload [--seconds S] [--queue-wait MS]. Exit 1 when a stated goal is missed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/http_load.h"

#define IDLE_CLIENTS 5000
#define FILES_NEEDED 12000 /* of this process, and as the daemon's limit */
#define OVERLOAD 4
#define ROUNDS 5
#define CONNECTIONS 400 /* of the overload: as many requests may be on their way */
#define BURST_S 3.0     /* what comes first is let through as a burst, by queue_wait, and has to go */

#define GOAL_KIB_A_CONNECTION 40.0 /* 32 of them are the library's buffer */
#define GOAL_LATENCY_RATIO 2.0
#define GOAL_REFUSAL_RATIO 0.5 /* of what an answer takes without load */

static struct server fitd;
static float samples[SAMPLES_MAX];

/* ---- Idle connections ---- */

static bool hold_idle_clients(double seconds)
{
  static struct client clients[IDLE_CLIENTS];
  char get[256];
  double before_mib, after_mib, kib, alone_p99, among_p99;
  size_t i;
  format_get(get, sizeof get, "/healthz");
  alone_p99 = quantile(samples, ask_for(&fitd, get, seconds, samples, 500), 0.99);
  before_mib = resident_mib(fitd.pid);
  for (i = 0; i < IDLE_CLIENTS; i++) {
    connect_client(&clients[i], fitd.port);
    (void)ask_ms(&clients[i], get);
  }
  after_mib = resident_mib(fitd.pid);
  among_p99 = quantile(samples, ask_for(&fitd, get, seconds, samples, 500), 0.99);
  for (i = 0; i < IDLE_CLIENTS; i++) /* each still gets its answer */
    (void)ask_ms(&clients[i], get);
  for (i = 0; i < IDLE_CLIENTS; i++)
    close_client(&clients[i]);
  kib = (after_mib - before_mib) * 1024 / IDLE_CLIENTS;
  (void)printf("%d idle keep-alive connections: %.0f MiB before, %.0f MiB with them, %.1f KiB each (goal %.0f); GET "
               "/healthz p99 %.2f ms alone, %.2f ms among them; all of them answered again\n",
               IDLE_CLIENTS, before_mib, after_mib, kib, GOAL_KIB_A_CONNECTION, alone_p99, among_p99);
  return kib <= GOAL_KIB_A_CONNECTION;
}

/* ---- Overload ---- */

struct tally {
  float *accepted_ms, *refused_ms;
  size_t accepted, refused, offered, unsent;
};

struct pool {
  struct client clients[CONNECTIONS];
  size_t idle[CONNECTIONS], idle_count; /* the last one is used next */
  int epoll;
  double counts_from_s; /* what is sent before is not in the tally */
};

static void send_one(struct pool *pool, const char *request)
{
  const size_t i = pool->idle[--pool->idle_count];
  struct client *client = &pool->clients[i];
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
  if (client->answer == NULL) {
    connect_client(client, fitd.port);
    client->takes_refusals = true;
    if (epoll_ctl(pool->epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
      fail("epoll");
  }
  send_request(client, request, strlen(request));
}

/* At even intervals, whatever has come back: clients that do not know of each other do not wait for each other. */
static void send_due(struct pool *pool, const char *request, double *next_s, double interval_s, struct tally *tally)
{
  for (const double now = now_s(); *next_s <= now; *next_s += interval_s) {
    tally->offered += now >= pool->counts_from_s;
    if (pool->idle_count > 0)
      send_one(pool, request);
    else
      tally->unsent += now >= pool->counts_from_s;
  }
}

static void note_answer(const struct client *client, struct tally *tally)
{
  const float ms = (float)((now_s() - client->sent_s) * 1e3);
  const bool is_refused = strncmp(client->answer, "HTTP/1.1 503", 12) == 0;
  if (is_refused && strcasestr(client->answer, "\r\nRetry-After:") == NULL)
    fail("a refusal without Retry-After");
  if (is_refused && tally->refused < SAMPLES_MAX)
    tally->refused_ms[tally->refused++] = ms;
  else if (!is_refused && tally->accepted < SAMPLES_MAX)
    tally->accepted_ms[tally->accepted++] = ms;
}

static void take_answers(struct pool *pool, struct tally *tally)
{
  struct epoll_event events[64];
  const int ready = epoll_wait(pool->epoll, events, 64, 1);
  for (int i = 0; i < ready; i++) {
    struct client *client = &pool->clients[events[i].data.u64];
    if (!take_answer(client))
      continue;
    if (client->sent_s >= pool->counts_from_s)
      note_answer(client, tally);
    pool->idle[pool->idle_count++] = events[i].data.u64;
  }
}

/* Every request that was sent is waited for, the slowest too. */
static void offer(const char *request, double per_s, double seconds, struct tally *tally)
{
  static struct pool pool;
  double next_s = now_s(), end_s;
  memset(&pool, 0, sizeof pool);
  pool.counts_from_s = next_s + BURST_S;
  end_s = pool.counts_from_s + seconds;
  pool.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (pool.epoll < 0)
    fail("epoll");
  while (pool.idle_count < CONNECTIONS) {
    pool.idle[pool.idle_count] = CONNECTIONS - 1 - pool.idle_count;
    pool.idle_count++;
  }
  while (now_s() < end_s || pool.idle_count < CONNECTIONS) {
    take_answers(&pool, tally);
    if (now_s() < end_s)
      send_due(&pool, request, &next_s, 1 / per_s, tally);
  }
  for (size_t i = 0; i < CONNECTIONS; i++)
    if (pool.clients[i].answer != NULL)
      close_client(&pool.clients[i]);
  (void)close(pool.epoll);
}

struct ratios {
  float latency[ROUNDS], refusal[ROUNDS];
};

static void run_round(struct ratios *ratios, int round, const char *request, size_t workers, double seconds)
{
  static float accepted[SAMPLES_MAX], refused[SAMPLES_MAX];
  struct tally tally = {accepted, refused, 0, 0, 0, 0};
  const size_t count = ask_for(&fitd, request, seconds, samples, 0);
  const double alone_p50 = quantile(samples, count, 0.5), alone_p99 = quantile(samples, count, 0.99);
  const double capacity = (double)measure_rate(&fitd, request, workers, seconds).per_s;
  double p99, refused_p50;
  offer(request, OVERLOAD * capacity, seconds, &tally);
  if (tally.accepted == 0 || tally.refused == 0)
    fail("an overload in which nothing was accepted or nothing was refused");
  p99 = quantile(accepted, tally.accepted, 0.99);
  refused_p50 = quantile(refused, tally.refused, 0.5);
  ratios->latency[round] = (float)(p99 / alone_p99);
  ratios->refusal[round] = (float)(refused_p50 / alone_p50);
  (void)printf("  alone p50 %.2f ms, p99 %.2f ms; %zu at a time %.0f/s; offered %.0f/s (%zu, %zu of them not sent): "
               "accepted %.0f/s, p50 %.2f ms, p99 %.2f ms; refused %zu, p50 %.2f ms, p99 %.2f ms\n",
               alone_p50, alone_p99, workers, capacity, OVERLOAD * capacity, tally.offered, tally.unsent,
               (double)tally.accepted / seconds, quantile(accepted, tally.accepted, 0.5), p99, tally.refused,
               refused_p50, quantile(refused, tally.refused, 0.99));
}

static bool overload(const char *request, const char *what, size_t workers, double seconds)
{
  struct ratios ratios;
  double latency, refusal;
  (void)printf("%s at %d times the capacity:\n", what, OVERLOAD);
  for (int i = 0; i < ROUNDS; i++)
    run_round(&ratios, i, request, workers, seconds);
  latency = quantile(ratios.latency, ROUNDS, 0.5);
  refusal = quantile(ratios.refusal, ROUNDS, 0.5);
  (void)printf("  p99 of what is accepted: x %.2f of p99 alone (goal %.1f); p50 of refusals: x %.3f of p50 alone (goal "
               "%.1f)\n",
               latency, GOAL_LATENCY_RATIO, refusal, GOAL_REFUSAL_RATIO);
  return latency <= GOAL_LATENCY_RATIO && refusal <= GOAL_REFUSAL_RATIO;
}

/* ---- The run ---- */

static void allow_files(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    fail("getrlimit");
  if (limit.rlim_cur < FILES_NEEDED)
    limit.rlim_cur = FILES_NEEDED;
  if (limit.rlim_max < limit.rlim_cur)
    limit.rlim_max = limit.rlim_cur;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    fail("the limit of open files can not be raised");
}

int main(int argc, char **argv)
{
  static char profiles[8192], all_quick[20000], one_quick[1024];
  const char *flags[] = {"--idle_timeout", "600", "--access_log", "false", "--queue_wait", "1000", NULL};
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const size_t workers = cores > 2 ? (size_t)cores : 2;
  double seconds = 3;
  bool ok;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seconds") == 0)
      seconds = strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--queue-wait") == 0)
      flags[5] = argv[i + 1];
  }
  if (seconds <= 0)
    fail("bench_overload [--seconds S] [--queue-wait MS]");
  begin();
  allow_files();
  start_fitd(&fitd, flags);
  list_profiles(profiles, sizeof profiles, &fitd);
  format_post(one_quick, sizeof one_quick, "?store=false&depth=quick", "\"h100-sxm-80gb\"");
  format_post(all_quick, sizeof all_quick, "?store=false&depth=quick", profiles);
  ok = hold_idle_clients(seconds);
  ok &= overload(all_quick, "evaluation of all profiles, quick", workers, seconds);
  ok &= overload(one_quick, "evaluation of one profile, quick", workers, seconds);
  (void)puts(ok ? "every goal is met" : "a goal is missed");
  return ok ? 0 : 1;
}
