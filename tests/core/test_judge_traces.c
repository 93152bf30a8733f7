/* Traces judged by replay: rates of short ones, and saturation of prompts that share what the cache keeps. */
#include <stdalign.h>

#include "core/arrivals.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)32 << 20];

enum { ROWS = 2000, BLOCK = 512, BLOCKS = 4 };

/* A trace and the sketch that replays it: Llama-3.1-8B on one H100, prompts of 2,048 tokens of which a cache may hold 4 blocks. */
struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
  struct arrival rows[ROWS];
  uint32_t hashes[ROWS * BLOCKS];
  size_t count;
};

/* `alike` blocks of each prompt are the same in all of them. */
static void problem_init(struct problem *p, size_t count, double gap_s, uint32_t alike)
{
  memset(p, 0, sizeof *p);
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-8b");
  p->workload = fixture_workload();
  p->workload.traffic.load = LOAD_TRACE;
  fixture_text(p->workload.traffic.trace, sizeof p->workload.traffic.trace, "t");
  p->workload.traffic.requests_per_s = (double)NAN;
  p->workload.traffic.input.kind = p->workload.traffic.output.kind = LENGTH_ABSENT;
  p->workload.serving.tensor_parallel = p->workload.serving.replicas = 1;
  p->workload.targets.are_given = true;
  p->workload.targets.ttft_ms.p99 = 2000;
  fixture_add_price(&p->hardware, "AWS", "p5.48xlarge", 1, 4.5, "on_demand");
  p->count = count;
  for (uint32_t i = 0; i < count; i++) {
    p->rows[i] = (struct arrival){gap_s * i, BLOCKS * BLOCK + 1, 64, BLOCKS * i, BLOCKS};
    for (uint32_t k = 0; k < BLOCKS; k++)
      p->hashes[BLOCKS * i + k] = k < alike ? k : BLOCKS + BLOCKS * i + k;
  }
}

static void evaluate(struct scorecard *card, const struct problem *p)
{
  const struct fit_request request = {.workload = &p->workload,
                                      .model = &p->model,
                                      .hardware = &p->hardware,
                                      .depth = FIT_FULL,
                                      .trace = p->rows,
                                      .trace_count = p->count,
                                      .trace_hashes = p->hashes,
                                      .trace_hash_count = ROWS * BLOCKS,
                                      .trace_hash_block_tokens = BLOCK};
  struct arena arena;
  struct error e;
  enum err err;
  arena_init(&arena, memory, sizeof memory);
  err = fit_evaluate(card, &request, &arena, &e);
  ck_assert_msg(err == ERR_OK, "%s", err == ERR_OK ? "" : e.message);
}

START_TEST(rates_are_those_of_the_gaps)
{
  const struct arrival rows[] = {{.send_s = 3}, {.send_s = 3.1}, {.send_s = 3.4}},
                       burst[] = {{.send_s = 7}, {.send_s = 7}};
  assert_close(arrivals_rate_per_s(rows, 3), 5, 1e-12);
  assert_close(arrivals_rate_per_s(burst, 2), 1, 1e-12);
}
END_TEST

/* Five requests 50 ms apart are 20 a second, within a fifth of one. The knee is a rate of the same kind: played faster, until
   the limit is missed. */
START_TEST(a_short_trace_has_its_rate)
{
  static struct problem p;
  struct scorecard card;
  problem_init(&p, 5, 0.05, 0);
  evaluate(&card, &p);
  ck_assert_int_eq(card.verdict, VERDICT_FIT);
  assert_close(card.throughput.requests_per_s, 20, 1e-9);
  ck_assert_msg(card.limits.knee_requests_per_s > 1.05 * 20, "%g", card.limits.knee_requests_per_s);
  assert_close(card.limits.margin_to_knee_ratio, 1 - 20 / card.limits.knee_requests_per_s, 1e-9);
}
END_TEST

/* A prompt that is found in the cache is no work: what a replica finishes hangs on its 64 decode steps then. Where nothing
   is cached it is what prompts of one's own take. */
START_TEST(saturation_knows_what_the_cache_holds)
{
  static struct problem p;
  struct scorecard alike, own, off;
  problem_init(&p, ROWS, 0.2, BLOCKS);
  evaluate(&alike, &p);
  problem_init(&p, ROWS, 0.2, 0);
  evaluate(&own, &p);
  ck_assert(alike.limits.saturation_requests_per_s > 2 * own.limits.saturation_requests_per_s);
  ck_assert(alike.throughput.requests_per_s < alike.limits.saturation_requests_per_s);
  ck_assert(alike.limits.knee_requests_per_s > own.limits.knee_requests_per_s);
  problem_init(&p, ROWS, 0.2, BLOCKS);
  p.workload.serving.prefix_caching = 0;
  evaluate(&off, &p);
  assert_close(off.limits.saturation_requests_per_s, own.limits.saturation_requests_per_s, 0.05);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("traces");
  tcase_add_test(tcase, rates_are_those_of_the_gaps);
  tcase_add_test(tcase, a_short_trace_has_its_rate);
  tcase_add_test(tcase, saturation_knows_what_the_cache_holds);
  return fixture_run("core/judge_traces", tcase);
}
