/* Figures that the two articles claim, computed: grouped heads, the 470 requests a second, where time goes. */
#include <stdalign.h>

#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[(size_t)64 << 20];

static struct scorecard evaluate(const struct workload *workload, const struct model *model,
                                 const struct hardware *hardware, enum fit_depth depth)
{
  const struct fit_request request = {.workload = workload, .model = model, .hardware = hardware, .depth = depth};
  struct scorecard card;
  struct arena arena;
  struct error e;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_msg(fit_evaluate(&card, &request, &arena, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
  return card;
}

static void hold(struct workload *workload, unsigned tensor_parallel, unsigned replicas)
{
  workload->serving.tensor_parallel = tensor_parallel;
  workload->serving.pipeline_parallel = 1;
  workload->serving.replicas = replicas;
}

/* "Slash the KV cache by up to 8x … from a cramped 16 to 64": 32 KV heads of 32 hold fewer than 16 conversations of 3,840
   tokens on an L40S, four hold all 64, and from there on the pool is not what stops them. */
START_TEST(grouped_heads_lift_the_batch_from_16_to_64)
{
  const struct hardware hardware = fixture_hardware("l40s-48gb");
  struct model model = fixture_model("llama-2-7b");
  struct workload workload = fixture_workload();
  struct scorecard before, after;
  workload.traffic.input.fixed_tokens = 3584;
  fixture_close_loop(&workload, 64);
  hold(&workload, 1, 1);
  before = evaluate(&workload, &model, &hardware, FIT_QUICK);
  model.layers[0].attention.kv_heads = 4;
  after = evaluate(&workload, &model, &hardware, FIT_QUICK);
  assert_close(after.memory.kv_bytes_per_token, before.memory.kv_bytes_per_token / 8, 1e-12);
  ck_assert_int_eq(before.limits.first_limit, LIMIT_KV_CACHE);
  ck_assert_double_le(before.memory.max_concurrent_sessions, 16);
  ck_assert_double_ge(after.memory.max_concurrent_sessions, 64);
  ck_assert_double_ge(after.throughput.mean_batch, 4 * before.throughput.mean_batch * 0.95);
  ck_assert_int_eq(after.limits.first_limit, LIMIT_COMPUTE);
}
END_TEST

/* "Roughly 2x to 3.5x depending on your context": a 70B on eight H100, half of the context prompt, half answer, 64 KV heads
   against 8. What the node carries grows by 2 to 3.5 from 1,024 to 2,048 tokens, by more beyond, always by less than the
   pool does; where nine tenths are prompt, computing them is what is left and the gain is under 2. */
START_TEST(grouped_heads_on_eight_h100_gain_by_context)
{
  static const struct {
    double input, output, least, most;
  } cases[] = {{512, 512, 2, 3.5}, {768, 768, 2, 3.5}, {1024, 1024, 2, 3.5}, {2048, 2048, 3.5, 8}, {3840, 256, 1.5, 2}};
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  for (size_t i = 0; i < FIXTURE_COUNT(cases); i++) {
    struct model model = fixture_model("llama-3.1-70b");
    struct workload workload = fixture_workload();
    struct scorecard grouped, plain;
    double gain;
    workload.traffic.input.fixed_tokens = cases[i].input;
    workload.traffic.output.fixed_tokens = cases[i].output;
    workload.traffic.requests_per_s = 0.05;
    workload.serving.max_batch = 1024;
    hold(&workload, 8, 1);
    grouped = evaluate(&workload, &model, &hardware, FIT_QUICK);
    model.layers[0].attention.kv_heads = 64;
    plain = evaluate(&workload, &model, &hardware, FIT_QUICK);
    gain = grouped.limits.saturation_requests_per_s / plain.limits.saturation_requests_per_s;
    ck_assert_msg(gain >= cases[i].least && gain <= cases[i].most, "%g + %g tokens: %g", cases[i].input,
                  cases[i].output, gain);
    ck_assert_double_gt(grouped.memory.max_concurrent_sessions / plain.memory.max_concurrent_sessions, gain);
  }
}
END_TEST

/* "470 queries per second … p99 breaching at 5.8 seconds … decode eats 85 %": an 8B with ungrouped heads on 40 H100, 512
   tokens in, 256 out, 64 at once. Steady arrivals keep the limit; the same mean in bursts of twice the rate breaks it. */
START_TEST(decode_takes_most_of_470_requests_a_second)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct model model = fixture_model("llama-3.1-8b");
  struct workload workload = fixture_workload();
  struct scorecard steady, spiky;
  model.layers[0].attention.kv_heads = 32;
  workload.traffic.requests_per_s = 470;
  workload.traffic.input.fixed_tokens = 512;
  workload.traffic.arrival = ARRIVAL_STEADY;
  workload.serving.max_batch = 64;
  workload.targets.e2e_ms.p99 = 5800;
  hold(&workload, 1, 40);
  steady = evaluate(&workload, &model, &hardware, FIT_SIMULATED);
  workload.traffic.arrival = ARRIVAL_SPIKY;
  workload.traffic.arrival_is_given = true;
  workload.traffic.burst_peak_to_mean = 2;
  workload.traffic.burst_duration_s = 10;
  spiky = evaluate(&workload, &model, &hardware, FIT_SIMULATED);
  ck_assert_msg(fabs(steady.decode.time_share_ratio - 0.85) < 0.05, "decode takes %g", steady.decode.time_share_ratio);
  assert_close(steady.decode.time_share_ratio + steady.prefill.time_share_ratio, 1, 1e-9);
  ck_assert_int_eq(steady.verdict, VERDICT_FIT);
  ck_assert_int_ne(spiky.verdict, VERDICT_FIT);
  ck_assert_double_gt(spiky.latency.e2e_s.p99, 5.8);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("articles");
  tcase_add_test(tcase, grouped_heads_lift_the_batch_from_16_to_64);
  tcase_add_test(tcase, grouped_heads_on_eight_h100_gain_by_context);
  tcase_add_test(tcase, decode_takes_most_of_470_requests_a_second);
  return fixture_run("core/articles", tcase);
}
