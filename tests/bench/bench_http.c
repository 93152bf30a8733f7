/* What HTTP costs: rates and latencies of the real daemon beside a libmicrohttpd hello-world and nginx, in one run and in
   turns, so that the ratios hold on a machine that others use too. Exit 1 when a stated goal is missed.
   bench_http [--seconds S] [--rounds N]: servers are taken from the build directory that this binary lies in. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/http_load.h"

#define CLIENTS 32
#define ROUNDS_MAX 99

#define GOAL_RATE_RATIO 0.5
#define GOAL_EVALUATION_MS 50.0
#define GOAL_LIGHT_GET_MS 5.0

static struct server fitd, hello;

/* ---- Measurements ---- */

/* One way of asking one server. */
struct contest {
  const char *what;
  const struct server *server;
  const char *request;
  size_t clients;
  struct rate rounds[ROUNDS_MAX];
};

/* In turns, and in the other order every other round. */
static void run_contests(struct contest *contests, size_t count, int rounds, double seconds)
{
  for (int i = 0; i < rounds; i++)
    for (size_t j = 0; j < count; j++) {
      struct contest *contest = &contests[i % 2 == 0 ? j : count - 1 - j];
      contest->rounds[i] = measure_rate(contest->server, contest->request, contest->clients, seconds);
    }
}

/* The middle of the rounds' ratios, not the ratio of the middles: what else runs on the machine slows both. */
static double middle_ratio(const struct contest *ours, const struct contest *theirs, size_t offset, int rounds)
{
  float ratios[ROUNDS_MAX];
  for (int i = 0; i < rounds; i++) {
    const float our = *(const float *)(const void *)((const char *)&ours->rounds[i] + offset);
    const float their = *(const float *)(const void *)((const char *)&theirs->rounds[i] + offset);
    ratios[i] = their > 0 ? our / their : 0;
  }
  return quantile(ratios, (size_t)rounds, 0.5);
}

static double middle(const struct contest *contest, size_t offset, int rounds)
{
  float values[ROUNDS_MAX];
  for (int i = 0; i < rounds; i++)
    values[i] = *(const float *)(const void *)((const char *)&contest->rounds[i] + offset);
  return quantile(values, (size_t)rounds, 0.5);
}

static void print_contest(const struct contest *contest, const struct contest *yardstick, int rounds)
{
  (void)printf(
      "%-40s %2zu clients: %8.0f/s, CPU %6.1f us, p50 %6.2f ms, p99 %6.2f ms\n", contest->what, contest->clients,
      middle(contest, offsetof(struct rate, per_s), rounds), middle(contest, offsetof(struct rate, cpu_us), rounds),
      middle(contest, offsetof(struct rate, p50_ms), rounds), middle(contest, offsetof(struct rate, p99_ms), rounds));
  if (yardstick == NULL)
    return;
  (void)printf("%-40s of %s: rate x %.2f, p99 x %.2f\n", "", yardstick->what,
               middle_ratio(contest, yardstick, offsetof(struct rate, per_s), rounds),
               middle_ratio(contest, yardstick, offsetof(struct rate, p99_ms), rounds));
}

/* As many evaluations at a time as run and wait for a worker each: more is overload, which bench_overload looks at. */
static size_t evaluating_clients(void)
{
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 1 && cores < 16 ? 2 * (size_t)cores : 4;
}

static bool compare_rates(const char *get, const char *quick, const char *full, int rounds, double seconds)
{
  static struct contest contests[5];
  struct server nginx = {0};
  char hello_get[256];
  size_t count = 4;
  double ratio;
  format_get(hello_get, sizeof hello_get, "/");
  contests[0] =
      (struct contest){.what = "libmicrohttpd hello-world", .server = &hello, .request = hello_get, .clients = CLIENTS};
  contests[1] = (struct contest){.what = "GET scorecard", .server = &fitd, .request = get, .clients = CLIENTS};
  contests[2] = (struct contest){.what = "POST evaluation, one profile, quick",
                                 .server = &fitd,
                                 .request = quick,
                                 .clients = evaluating_clients()};
  contests[3] = (struct contest){
      .what = "POST evaluation, one profile, full", .server = &fitd, .request = full, .clients = evaluating_clients()};
  if (start_nginx(&nginx)) {
    contests[4] =
        (struct contest){.what = "nginx return 200", .server = &nginx, .request = hello_get, .clients = CLIENTS};
    count = 5;
  } else {
    (void)puts("nginx is not here; compared with libmicrohttpd alone");
  }
  run_contests(contests, count, rounds, seconds);
  stop_server(&nginx);
  print_contest(&contests[0], NULL, rounds);
  if (count == 5)
    print_contest(&contests[4], &contests[0], rounds);
  for (size_t i = 1; i < 4; i++) {
    print_contest(&contests[i], &contests[0], rounds);
    if (count == 5)
      (void)printf("%-40s of nginx: rate x %.2f, p99 x %.2f\n", "",
                   middle_ratio(&contests[i], &contests[4], offsetof(struct rate, per_s), rounds),
                   middle_ratio(&contests[i], &contests[4], offsetof(struct rate, p99_ms), rounds));
  }
  ratio = middle_ratio(&contests[1], &contests[0], offsetof(struct rate, per_s), rounds);
  (void)printf("GET scorecard against hello-world: rate x %.2f (goal %.2f), CPU x %.2f\n", ratio, GOAL_RATE_RATIO,
               middle_ratio(&contests[1], &contests[0], offsetof(struct rate, cpu_us), rounds));
  return ratio >= GOAL_RATE_RATIO;
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

static bool run(int rounds, double seconds)
{
  static char profiles[8192], all_quick[20000], one_quick[1024], one_full[1024], all_full[20000];
  char card[256], get[512];
  bool ok;
  list_profiles(profiles, sizeof profiles, &fitd);
  format_post(all_quick, sizeof all_quick, "?depth=quick", profiles);
  first_scorecard(card, sizeof card, &fitd, all_quick);
  format_get(get, sizeof get, card);
  format_post(all_quick, sizeof all_quick, "?store=false&depth=quick", profiles);
  format_post(all_full, sizeof all_full, "?store=false&depth=full", profiles);
  format_post(one_quick, sizeof one_quick, "?store=false&depth=quick", "\"h100-sxm-80gb\"");
  format_post(one_full, sizeof one_full, "?store=false&depth=full", "\"h100-sxm-80gb\"");
  ok = compare_rates(get, one_quick, one_full, rounds, seconds);
  ok &= measure_evaluation(&fitd, one_quick, "one profile, quick", seconds, 0);
  ok &= measure_evaluation(&fitd, all_quick, "all profiles, quick", seconds, GOAL_EVALUATION_MS);
  ok &= measure_evaluation(&fitd, all_full, "all profiles, full", seconds, 0);
  ok &= measure_light_get(&fitd, get, all_quick, "all profiles, quick", seconds);
  ok &= measure_light_get(&fitd, get, all_full, "all profiles, full", seconds);
  return ok;
}

int main(int argc, char **argv)
{
  double seconds = 1;
  int rounds = 5;
  bool ok;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seconds") == 0)
      seconds = strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--rounds") == 0)
      rounds = (int)strtol(argv[i + 1], NULL, 10);
  }
  if (seconds <= 0 || rounds < 1 || rounds > ROUNDS_MAX)
    fail("bench_http [--seconds S] [--rounds 1..99]");
  begin();
  start_hello(&hello);
  start_fitd(&fitd, NULL);
  ok = run(rounds, seconds);
  (void)puts(ok ? "every goal is met" : "a goal is missed");
  return ok ? 0 : 1;
}
