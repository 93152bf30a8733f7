/* Mistakes that other predictors of inference make, one test each, with figures derived by hand from published configs:
   what is counted, what is not, what is read once, what is refused. */
#include "core/parallel.h"
#include "core/served.h"
#include "core/steady.h"

#include "tests/core/fixtures.h"

static const struct layout one_device = {1, 1, 1, 1};

static struct model_precision bf16(void)
{
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  return precision;
}

static const struct op *find_op(const struct op *ops, size_t n, const char *name)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(ops[i].name, name) == 0)
      return &ops[i];
  ck_abort_msg("no operator is called %s", name);
  return NULL;
}

/* The operator of that name in the model's first layer. */
static struct op layer_op(const struct model *model, const struct layout *layout, const struct step_shape *shape,
                          const char *name)
{
  struct op ops[OPERATORS_LAYER_MAX];
  const struct model_precision precision = bf16();
  const size_t n = operators_of_layer(ops, model, &model->layers[0], &precision, layout, shape);
  return *find_op(ops, n, name);
}

static struct op head_op(const struct model *model, const struct step_shape *shape)
{
  struct op ops[OPERATORS_HEAD_MAX];
  const struct model_precision precision = bf16();
  const size_t n = operators_of_head(ops, model, &precision, &one_device, shape);
  return *find_op(ops, n, "lm_head");
}

static struct step_time decode_of(const struct model *model, double batch, double context)
{
  static struct hardware hardware;
  const struct step_constants constants = fixture_constants();
  const struct model_precision precision = bf16();
  struct step_time time;
  hardware = fixture_hardware("h200-sxm-141gb");
  const struct preset preset = fixture_preset(&hardware, "vllm", "");
  const struct engine engine =
      step_engine_with(&constants, model, &hardware, &one_device, &precision, PRECISION_NONE, &preset);
  step_decode(&time, &engine, batch, context);
  return time;
}

/* ---- lm_head and embedding ---- */

/* Llama-3.1-8B: 128,256 x 4,096 = 525,336,576 parameters each for embedding and head; the published total of
   8,030,261,248 has both. Granite ties them: one matrix, which is still multiplied with. */
START_TEST(head_is_counted_and_tied_only_where_the_config_says_so)
{
  const struct step_shape shape = {.decode_sequences = 1, .decode_context_tokens = 100};
  const struct model_precision precision = bf16();
  struct model untied = fixture_model("llama-3.1-8b"), tied = untied;
  const struct model granite = fixture_model("granite-3.1-8b");
  const double head = 128256.0 * 4096;
  tied.has_tied_embeddings = true;
  ck_assert_uint_eq(model_parameters_total(&untied), 8030261248u);
  ck_assert_uint_eq(model_parameters_total(&tied), 8030261248u - 525336576u);
  assert_close(memory_weights_bytes(&untied, &one_device, &precision) -
                   memory_weights_bytes(&tied, &one_device, &precision),
               2 * head, 0.001); /* rounding of the allocator */
  assert_close(head_op(&untied, &shape).weight_bytes, 2 * head, 1e-12);
  assert_close(head_op(&tied, &shape).weight_bytes, 2 * head, 1e-12);
  assert_close(head_op(&granite, &shape).flops, 2.0 * 49155 * 4096, 1e-12);
}
END_TEST

/* Read by a decode step of Llama-3.1-8B: 32 layers of 4096 x 6144 (qkv) + 4096 x 4096 (o) + 3 x 4096 x 14336 (MLP) =
   218,103,808 weights and the head's 525,336,576: 7,504,658,432 weights of 2 bytes. The embedding's 525 million are not in
   it, and its rows cost no FLOPs. */
START_TEST(embedding_is_a_gather)
{
  struct model model = fixture_model("llama-3.1-8b");
  const struct step_time time = decode_of(&model, 1, 100);
  assert_close(time.weight_bytes, 15009316864.0, 1e-12);
  model.vocab_size *= 2;
  assert_close(decode_of(&model, 1, 100).weight_bytes, 15009316864.0 + 2 * 525336576.0, 1e-12); /* the head's alone */
}
END_TEST

START_TEST(logits_are_computed_for_the_last_position_of_a_prompt)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct step_shape prompt = {.prefill_tokens = 8192, .prefill_sequences = 1};
  const struct step_shape mixed = {
      .decode_sequences = 8, .decode_context_tokens = 100, .prefill_tokens = 6000, .prefill_sequences = 3};
  assert_close(head_op(&model, &prompt).rows, 1, 1e-12);
  assert_close(head_op(&model, &prompt).flops, 2.0 * 525336576, 1e-12);
  assert_close(head_op(&model, &mixed).rows, 11, 1e-12);
}
END_TEST

/* ---- attention ---- */

/* A token sees what is before it: S(S + 1)/2 of S² pairs, in tiles of at most 128 tokens. 2 products of 2 FLOPs over 32
   heads of 128. Two chunks are as much as one. */
START_TEST(causal_attention_is_half_of_the_square)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct step_shape whole = {.prefill_tokens = 4096, .prefill_sequences = 1};
  const struct step_shape first = {.prefill_tokens = 2048, .prefill_sequences = 1};
  const struct step_shape second = {.prefill_tokens = 2048, .prefill_past_tokens = 2048, .prefill_sequences = 1};
  const double square = 4.0 * 32 * 128 * 4096 * 4096;
  const double flops = layer_op(&model, &one_device, &whole, "prefill attention").flops;
  ck_assert_double_ge(flops, square * 0.5);
  ck_assert_double_le(flops, square * (0.5 + 0.5 * 128 / 4096));
  assert_close(layer_op(&model, &one_device, &first, "prefill attention").flops +
                   layer_op(&model, &one_device, &second, "prefill attention").flops,
               flops, 1e-12);
}
END_TEST

/* Read once a step and not written back: batch x context x 2 x KV heads x 128 x 2 bytes. Llama-3.1-8B has 8 of 32 heads,
   Llama-2-7B all 32. */
START_TEST(grouped_heads_shrink_what_attention_reads)
{
  const struct model grouped = fixture_model("llama-3.1-8b"), full = fixture_model("llama-2-7b");
  const struct step_shape decode = {.decode_sequences = 16, .decode_context_tokens = 1000};
  const struct step_shape prompt = {.prefill_tokens = 1000, .prefill_sequences = 1};
  assert_close(layer_op(&grouped, &one_device, &decode, "decode attention").kv_bytes, 16 * 1000 * 4096.0, 1e-12);
  assert_close(layer_op(&full, &one_device, &decode, "decode attention").kv_bytes, 16 * 1000 * 16384.0, 1e-12);
  assert_close(layer_op(&grouped, &one_device, &prompt, "prefill attention").kv_bytes, 1000 * 4096.0, 1e-12);
  assert_close(decode_of(&grouped, 16, 1000).kv_bytes, 32 * 16 * 1000 * 4096.0, 1e-12);
}
END_TEST

/* 64 query and 8 KV heads: on 16 ranks each holds one KV head, as on 8, not half of one. */
START_TEST(a_rank_never_holds_less_than_one_kv_head)
{
  const struct model model = fixture_model("qwen2-72b");
  const struct hardware hardware = fixture_hardware("gb200-nvl72");
  const struct preset preset = fixture_preset(&hardware, "vllm", "");
  const struct model_precision precision = bf16();
  const struct layout eight = {8, 1, 1, 1}, sixteen = {16, 1, 1, 1};
  const struct step_shape decode = {.decode_sequences = 1, .decode_context_tokens = 1600};
  assert_close(layer_op(&model, &eight, &decode, "decode attention").kv_bytes, 1600 * 512.0, 1e-12);
  assert_close(layer_op(&model, &sixteen, &decode, "decode attention").kv_bytes, 1600 * 512.0, 1e-12);
  assert_close(memory_sequence_bytes(&model, &sixteen, &precision, &preset, 1600), 80 * 1600 * 512.0, 1e-12);
}
END_TEST

/* DeepSeek-V3's attention: a latent of 512 + 64 elements a token, 1,152 bytes in bf16, whole on every rank. */
static struct model latent_model(void)
{
  struct model model;
  struct layer layer;
  memset(&model, 0, sizeof model);
  memset(&layer, 0, sizeof layer);
  fixture_text(model.name, sizeof model.name, "latent");
  model.hidden_size = 7168;
  model.vocab_size = 129280;
  fixture_set_precision(&model.precision, PRECISION_BF16);
  layer.attention = (struct attention){.kind = ATTENTION_LATENT,
                                       .query_heads = 128,
                                       .head_dim = 192,
                                       .value_head_dim = 128,
                                       .query_lora_rank = 1536,
                                       .kv_lora_rank = 512,
                                       .rope_head_dim = 64,
                                       .nope_head_dim = 128};
  layer.feed_forward = (struct feed_forward){.kind = FEED_FORWARD_DENSE, .intermediate_size = 18432, .is_gated = true};
  ck_assert_int_eq(model_append_layers(&model, &layer, 61, NULL), ERR_OK);
  return model;
}

START_TEST(a_latent_is_whole_on_every_rank)
{
  const struct model model = latent_model();
  const struct hardware hardware = fixture_hardware("h200-sxm-141gb");
  const struct preset preset = fixture_preset(&hardware, "vllm", "");
  const struct model_precision precision = bf16();
  const struct step_shape decode = {.decode_sequences = 4, .decode_context_tokens = 1600};
  assert_close(model_kv_bytes(&model, PRECISION_BF16).growing_per_token_bytes, 61 * 1152.0, 1e-12);
  for (unsigned tp = 1; tp <= 8; tp *= 2) {
    const struct layout layout = {tp, 1, 1, 1};
    assert_close(layer_op(&model, &layout, &decode, "latent decode attention").kv_bytes, 4 * 1600 * 1152.0, 1e-12);
    assert_close(memory_sequence_bytes(&model, &layout, &precision, &preset, 1600), 61 * 1600 * 1152.0, 1e-12);
  }
}
END_TEST

/* Falcon-7B: 71 query heads read one KV head, so a token does 2 x 71 x 128 FLOPs for every 256 bytes: 71 FLOPs a byte, over
   the 37 that a device of 148 TFLOP/s and 4 TB/s (H20) has. There it is compute that a decode step waits for. */
START_TEST(many_heads_on_one_are_bound_by_compute)
{
  const struct model model = fixture_model("falcon-7b");
  const struct model_precision precision = bf16();
  const struct step_shape decode = {.decode_sequences = 64, .decode_context_tokens = 2000};
  struct hardware hardware = fixture_hardware("h200-sxm-141gb");
  struct op op = layer_op(&model, &one_device, &decode, "decode attention");
  hardware.bf16_tflops = hardware.fp16_tflops = 148;
  hardware.memory_bandwidth_gb_s = 4000;
  const struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
  timing_apply(&op, &device);
  assert_close(op.flops, 64 * 2000 * 71 * 256.0, 1e-12);
  ck_assert_double_ge(op.work_s, op.flops / 148e12);
  ck_assert_int_eq(op.bound, BOUND_COMPUTE);
}
END_TEST

/* ---- experts ---- */

/* Mixtral-8x7B's feed-forward: 3 matrices of 4096 x 14336 an expert, 352,321,536 bytes in bf16. */
static struct model mixture_model(unsigned experts_per_token)
{
  struct model model = fixture_model("llama-3.1-8b");
  struct layer layer = model.layers[0];
  model.layer_count = model.layer_kind_count = 0;
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 8;
  layer.feed_forward.experts_per_token = experts_per_token;
  ck_assert_int_eq(model_append_layers(&model, &layer, 32, NULL), ERR_OK);
  return model;
}

static struct op routed(unsigned experts_per_token, double tokens)
{
  const struct model model = mixture_model(experts_per_token);
  const struct step_shape shape = {.decode_sequences = tokens, .decode_context_tokens = 100};
  return layer_op(&model, &one_device, &shape, "routed experts");
}

START_TEST(experts_are_neither_skipped_nor_all_computed)
{
  const double expert_bytes = 3.0 * 4096 * 14336 * 2;
  assert_close(routed(2, 1).experts_hit, 2, 1e-12); /* exactly its two */
  assert_close(routed(2, 1).weight_bytes, 2 * expert_bytes, 1e-12);
  assert_close(routed(1, 64).weight_bytes, 8 * expert_bytes, 1e-3); /* 8 · (1 - (7/8)^64) = 7.998 */
  assert_close(routed(2, 64).weight_bytes, 8 * expert_bytes, 1e-6);
  assert_close(routed(2, 64).flops, 64 * 2 * expert_bytes, 1e-12); /* two experts a token: 2 FLOPs, 2 bytes a weight */
  assert_close(routed(2, 3).experts_hit, 8 * (1 - 0.421875), 1e-12); /* (6/8)³ */
  ck_assert_double_le(routed(2, 1e6).weight_bytes, 8 * expert_bytes * (1 + 1e-12));
}
END_TEST

/* ---- units ---- */

/* Engines print 81,091 MiB on an H100: 85,030,076,416 bytes, neither 80e9 nor 80 GiB. */
START_TEST(memory_is_what_engines_see)
{
  struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  bool is_assumed = true;
  assert_close(hardware_memory_bytes(&hardware, &is_assumed), 85030076416.0, 1e-12);
  ck_assert(!is_assumed);
  hardware.memory_nominal_gb = 1000; /* the label is in no computation */
  assert_close(hardware_memory_bytes(&hardware, NULL), 85030076416.0, 1e-12);
  assert_close(hardware_bandwidth_bytes_s(&hardware), 3350e9, 1e-12); /* bandwidth is decimal */
}
END_TEST

/* ---- whole evaluations ---- */

static unsigned char block[1 << 20];

static enum err evaluate(struct scorecard *card, const struct workload *workload, const struct model *model,
                         const struct hardware *hardware, struct error *e)
{
  struct arena arena;
  const struct fit_request request = {.workload = workload, .model = model, .hardware = hardware, .depth = FIT_QUICK};
  arena_init(&arena, block, sizeof block);
  return fit_evaluate(card, &request, &arena, e);
}

static struct scorecard evaluated(const struct workload *workload)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct scorecard card;
  struct error e;
  ck_assert_msg(evaluate(&card, workload, &model, &hardware, &e) == ERR_OK, "%s: %s", e.pointer, e.message);
  return card;
}

static struct scorecard with_users(double users)
{
  struct workload workload = fixture_workload();
  fixture_close_loop(&workload, users);
  workload.serving.tensor_parallel = workload.serving.pipeline_parallel = workload.serving.replicas = 1;
  return evaluated(&workload);
}

/* N = X · R at both: where twice the users get the same times, one of the answers is wrong. */
START_TEST(twice_the_users_are_another_answer)
{
  const struct scorecard half = with_users(256), whole = with_users(512);
  assert_close(half.throughput.requests_per_s * half.latency.e2e_s.mean, 256, 1e-6);
  assert_close(whole.throughput.requests_per_s * whole.latency.e2e_s.mean, 512, 1e-6);
  ck_assert_double_gt(whole.latency.e2e_s.mean, 1.5 * half.latency.e2e_s.mean);
  ck_assert_double_ge(whole.throughput.requests_per_s, half.throughput.requests_per_s);
}
END_TEST

/* Far beyond what one device can do: said in words, and no latency is made up. */
START_TEST(a_diverging_queue_is_said)
{
  struct workload workload = fixture_workload();
  struct scorecard card;
  workload.traffic.requests_per_s = 1000;
  workload.serving.tensor_parallel = workload.serving.replicas = 1;
  card = evaluated(&workload);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_TARGETS_MISSED);
  ck_assert_msg(strstr(card.no_fit_detail, "queue grows without end") != NULL, "%s", card.no_fit_detail);
  ck_assert(isnan(card.latency.ttft_s.p50) && isnan(card.latency.e2e_s.p50) && isnan(card.latency.queue_s.p50));
  ck_assert(isnan(card.throughput.at_concurrency));
  ck_assert_double_gt(card.limits.saturation_requests_per_s, 0);
  ck_assert_double_lt(card.limits.saturation_requests_per_s, 1000);
}
END_TEST

/* ---- refusals ---- */

START_TEST(three_devices_do_not_divide_32_heads)
{
  struct workload workload = fixture_workload();
  struct scorecard card;
  workload.serving.tensor_parallel = 3;
  card = evaluated(&workload);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_LAYOUT_IMPOSSIBLE);
  ck_assert_msg(strstr(card.no_fit_detail, "32 attention heads") != NULL, "%s", card.no_fit_detail);
  ck_assert(!card.has_configuration && !card.has_latency);
  ck_assert(isnan(card.latency.ttft_s.p50) && isnan(card.throughput.requests_per_s));
}
END_TEST

static bool has_fault_at(const struct model *model, const char *pointer)
{
  static struct faults faults;
  memset(&faults, 0, sizeof faults);
  model_check(model, &faults);
  for (size_t i = 0; i < faults.count; i++)
    if (strcmp(faults.items[i].pointer, pointer) == 0)
      return true;
  return false;
}

START_TEST(a_model_without_heads_is_refused)
{
  struct model model = fixture_model("llama-3.1-8b");
  model.layers[0].attention.query_heads = 0;
  ck_assert(has_fault_at(&model, "/layers/0/attention/num_attention_heads"));
  model = fixture_model("llama-3.1-8b");
  model.layers[0].attention.kv_heads = 0;
  ck_assert(has_fault_at(&model, "/layers/0/attention/num_key_value_heads"));
  model = fixture_model("llama-3.1-8b");
  model.layers[0].attention.kv_heads = 5; /* of 32 */
  ck_assert(has_fault_at(&model, "/layers/0/attention/num_key_value_heads"));
}
END_TEST

START_TEST(a_billion_tokens_are_refused)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct workload workload = fixture_workload();
  struct scorecard card;
  struct error e;
  workload.traffic.input.fixed_tokens = 1e9;
  ck_assert_int_eq(evaluate(&card, &workload, &model, &hardware, &e), ERR_INVALID);
  ck_assert_str_eq(e.pointer, "/traffic/input_tokens");
  ck_assert_msg(strstr(e.message, "131072") != NULL, "%s", e.message);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("traps");
  tcase_add_test(tcase, head_is_counted_and_tied_only_where_the_config_says_so);
  tcase_add_test(tcase, embedding_is_a_gather);
  tcase_add_test(tcase, logits_are_computed_for_the_last_position_of_a_prompt);
  tcase_add_test(tcase, causal_attention_is_half_of_the_square);
  tcase_add_test(tcase, grouped_heads_shrink_what_attention_reads);
  tcase_add_test(tcase, a_rank_never_holds_less_than_one_kv_head);
  tcase_add_test(tcase, a_latent_is_whole_on_every_rank);
  tcase_add_test(tcase, many_heads_on_one_are_bound_by_compute);
  tcase_add_test(tcase, experts_are_neither_skipped_nor_all_computed);
  tcase_add_test(tcase, memory_is_what_engines_see);
  tcase_add_test(tcase, twice_the_users_are_another_answer);
  tcase_add_test(tcase, a_diverging_queue_is_said);
  tcase_add_test(tcase, three_devices_do_not_divide_32_heads);
  tcase_add_test(tcase, a_model_without_heads_is_refused);
  tcase_add_test(tcase, a_billion_tokens_are_refused);
  return fixture_run("traps", tcase);
}
