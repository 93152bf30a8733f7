/* Presets: which row a runtime and version get, what the sketch overrides, what is refused. */
#include "core/preset.h"

#include "tests/core/fixtures.h"

/* MEMORY §3: sampler a = 3.636 from vLLM 0.17, 9.475 before; STEPMODEL §3: other host costs for vLLM up to 0.7; defaults
   1024 sequences and 8192 tokens on cards of 70 GiB and more. */
START_TEST(a_version_gets_the_newest_row_that_is_not_newer)
{
  static const struct {
    const char *version;
    double sampler;
    unsigned max_batch, max_tokens;
    bool is_old;
  } rows[] = {
      {"", 3.636, 1024, 8192, false},    {"0.19", 3.636, 1024, 8192, false},   {"v0.17.3", 3.636, 1024, 8192, false},
      {"1.2", 3.636, 1024, 8192, false}, {"0.16.9", 9.475, 1024, 8192, false}, {"0.8", 9.475, 1024, 8192, false},
      {"0.7.3", 9.475, 256, 2048, true}, {"0.1rc2", 9.475, 256, 2048, true},   {"0", 9.475, 256, 2048, true}};
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const struct preset preset = fixture_preset(&hardware, "vllm", rows[i].version);
    ck_assert_str_eq(preset.runtime, "vllm");
    ck_assert_msg(fabs(preset.sampler_multiple - rows[i].sampler) < 1e-9, "\"%s\"", rows[i].version);
    ck_assert_uint_eq(preset.max_batch, rows[i].max_batch);
    ck_assert_uint_eq(preset.max_batched_tokens, rows[i].max_tokens);
    ck_assert(preset.is_old_engine == rows[i].is_old);
    ck_assert(preset.has_chunked_prefill != rows[i].is_old && preset.has_prefix_caching != rows[i].is_old);
  }
}
END_TEST

START_TEST(smaller_cards_have_smaller_defaults)
{
  const struct hardware l40s = fixture_hardware("l40s-48gb");
  const struct preset preset = fixture_preset(&l40s, "", "");
  ck_assert_uint_eq(preset.max_batch, 256);
  ck_assert_uint_eq(preset.max_batched_tokens, 2048);
}
END_TEST

/* Logs of 0.10.1 on an A100 of 80 GB state 256 sequences and 2048 tokens. */
START_TEST(an_a100_has_smaller_defaults_too)
{
  const struct hardware a100 = fixture_hardware("a100-sxm-80gb");
  ck_assert_uint_eq(fixture_preset(&a100, "vllm", "0.10.1.1").max_batch, 256);
  ck_assert_uint_eq(fixture_preset(&a100, "vllm", "0.10.1.1").max_batched_tokens, 2048);
  ck_assert_uint_eq(fixture_preset(&a100, "vllm", "").max_batch, 256);
  ck_assert_uint_eq(fixture_preset(&a100, "vllm", "0.8").max_batch, 1024);
  ck_assert_uint_eq(fixture_preset(&a100, "sglang", "").max_batch, 1024);
}
END_TEST

/* Pools of three starts of 0.28 with nothing stated (Qwen3-14B in 16 and 4 bits, L40S and L4) leave 1.8 GiB beside weights
   and pool at 0.92: 0.55 of activations, 0.25 of buffers, 0.99 of graphs. At 0.9 they would leave 0.9. */
START_TEST(graphs_in_the_budget_made_it_larger)
{
  const struct hardware hardware = fixture_hardware("l40s-48gb");
  assert_close(fixture_preset(&hardware, "vllm", "0.28").memory_fraction_ratio, 0.92, 1e-12);
  assert_close(fixture_preset(&hardware, "vllm", "0.21").memory_fraction_ratio, 0.92, 1e-12);
  assert_close(fixture_preset(&hardware, "vllm", "0.20").memory_fraction_ratio, 0.9, 1e-12);
}
END_TEST

START_TEST(sglang_captures_prefill_from_0_5_10)
{
  const struct hardware hardware = fixture_hardware("h200-sxm-141gb");
  ck_assert(!fixture_preset(&hardware, "sglang", "0.4").has_prefill_graphs);
  ck_assert(!fixture_preset(&hardware, "sglang", "0.5.9").has_prefill_graphs);
  ck_assert(fixture_preset(&hardware, "sglang", "0.5.10").has_prefill_graphs);
  ck_assert(fixture_preset(&hardware, "sglang", "v0.5.12").has_prefill_graphs);
  ck_assert(fixture_preset(&hardware, "sglang", "").has_prefill_graphs);
}
END_TEST

START_TEST(every_known_runtime_has_a_preset)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  size_t count = 0;
  for (const char *const *runtime = preset_runtimes; *runtime != NULL; runtime++, count++) {
    const struct preset preset = fixture_preset(&hardware, *runtime, "");
    ck_assert_str_eq(preset.runtime, *runtime);
    ck_assert(preset.max_batch > 0 && preset.max_batched_tokens > 0 && preset.kv_block_tokens > 0 &&
              preset.recv_interval_steps > 0);
    ck_assert(preset.memory_fraction_ratio > 0 && preset.memory_fraction_ratio <= 1);
    ck_assert(preset.kv_reserve_output_ratio > 0 && preset.kv_reserve_output_ratio <= 1);
    ck_assert(preset.server_constant_s > 0);
  }
  ck_assert_uint_eq(count, 4);
}
END_TEST

START_TEST(what_is_not_known_is_refused_at_its_field)
{
  static const struct {
    const char *runtime, *version, *pointer;
  } rows[] = {{"ollama", "", "/serving/runtime"},
              {"VLLM", "", "/serving/runtime"},
              {"vllm", "latest", "/serving/runtime_version"},
              {"vllm", "-1", "/serving/runtime_version"},
              {"", "vv1", "/serving/runtime_version"}};
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    struct workload workload = fixture_workload();
    struct preset preset;
    struct error e;
    fixture_text(workload.serving.runtime, sizeof workload.serving.runtime, rows[i].runtime);
    fixture_text(workload.serving.runtime_version, sizeof workload.serving.runtime_version, rows[i].version);
    ck_assert_int_eq(preset_resolve(&preset, &workload.serving, &hardware, &e), ERR_INVALID);
    ck_assert_str_eq(e.pointer, rows[i].pointer);
    ck_assert_uint_gt(strlen(e.message), 10);
  }
}
END_TEST

START_TEST(settings_of_the_sketch_win)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct workload workload = fixture_workload();
  struct workload_serving *serving = &workload.serving;
  struct preset preset;
  serving->max_batch = 7;
  serving->max_batched_tokens = 777;
  serving->kv_block_tokens = 64;
  serving->recv_interval_steps = 3;
  serving->batch_wait_steps = 5;
  serving->chunked_prefill = 0;
  serving->prefix_caching = 0;
  serving->memory_fraction_ratio = 0.5;
  ck_assert_int_eq(preset_resolve(&preset, serving, &hardware, NULL), ERR_OK);
  ck_assert_uint_eq(preset.max_batch, 7);
  ck_assert_uint_eq(preset.max_batched_tokens, 777);
  ck_assert_uint_eq(preset.kv_block_tokens, 64);
  ck_assert_uint_eq(preset.recv_interval_steps, 3);
  ck_assert_uint_eq(preset.batch_wait_steps, 5);
  ck_assert(!preset.has_chunked_prefill && !preset.has_prefix_caching);
  assert_close(preset.memory_fraction_ratio, 0.5, 1e-12);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("preset");
  tcase_add_test(tcase, a_version_gets_the_newest_row_that_is_not_newer);
  tcase_add_test(tcase, smaller_cards_have_smaller_defaults);
  tcase_add_test(tcase, an_a100_has_smaller_defaults_too);
  tcase_add_test(tcase, graphs_in_the_budget_made_it_larger);
  tcase_add_test(tcase, sglang_captures_prefill_from_0_5_10);
  tcase_add_test(tcase, every_known_runtime_has_a_preset);
  tcase_add_test(tcase, what_is_not_known_is_refused_at_its_field);
  tcase_add_test(tcase, settings_of_the_sketch_win);
  return fixture_run("core/preset", tcase);
}
