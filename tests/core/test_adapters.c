/* LoRA adapters: bytes and FLOPs of the thin products by hand, what they add to memory and steps, and that none costs
   nothing and more never cost less. */
#include "core/adapters.h"

#include <stdalign.h>

#include "core/step.h"
#include "tests/core/fixtures.h"

static alignas(max_align_t) unsigned char memory[1 << 16];

struct plant {
  struct hardware hardware;
  struct model model;
  struct preset preset;
  struct engine engine;
};

static void plant_build(struct plant *p, const char *model, unsigned tp, unsigned count, unsigned rank)
{
  const struct layout layout = {tp, 1, 1, 1};
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model(model);
  p->model.precision.kv_cache = PRECISION_BF16;
  p->preset = fixture_preset(&p->hardware, "", "");
  p->engine = step_engine(&p->model, &p->hardware, &layout, &p->model.precision, PRECISION_NONE, &p->preset);
  p->engine.adapters = (struct adapters){count, rank};
}

static struct op adapters_of(const struct plant *p, const struct step_shape *shape)
{
  struct op ops[OPERATORS_LAYER_MAX];
  const size_t n = step_layer_operators(ops, &p->engine, 0, shape);
  ck_assert_str_eq(ops[n - 1].name, "adapters");
  return ops[n - 1];
}

/* Llama-3.1-8B, rank 16: factors of a layer have 16 · (3·4096 + 6144 + 4096 + 4096 + 2·4096 + 28672 + 14336 + 4096) =
   16 · 81,920 parameters. */
START_TEST(products_by_hand)
{
  const struct step_shape decode = {.decode_sequences = 8, .decode_context_tokens = 100};
  const struct step_shape prompt = {.prefill_tokens = 512, .prefill_sequences = 1};
  static struct plant p;
  struct op op;
  plant_build(&p, "llama-3.1-8b", 1, 4, 16);
  op = adapters_of(&p, &decode);
  assert_close(op.flops, 2 * 8 * 16 * 81920.0, 1e-12);
  assert_close(op.weight_bytes, 4 * 2 * 16 * 81920.0, 1e-12); /* four of the eight sequences' adapters */
  assert_close(op.floor_s, 8 * p.engine.device.linear[PRECISION_BF16].t0_s, 1e-12); /* two a linear layer */
  op = adapters_of(&p, &prompt);
  assert_close(op.flops, 2 * 512 * 16 * 81920.0, 1e-12);
  assert_close(op.weight_bytes, 2 * 16 * 81920.0, 1e-12); /* one prompt, one adapter */
  /* inputs read once a slice, outputs read and written: 3·4096 + 2·6144 + 4096 + 2·4096 + 2·4096 + 2·28672 + 14336 + 2·4096 */
  assert_close(op.activation_bytes, 2 * 512 * 124928.0, 1e-12);
  plant_build(&p, "llama-3.1-8b", 1, 100, 16);
  assert_close(adapters_of(&p, &decode).weight_bytes, 8 * 2 * 16 * 81920.0, 1e-12); /* no more than sequences */
}
END_TEST

/* Tensor parallel 2: what a layer splits is halved, the other side is whole on each rank: 3·4096 + 3072, 2048 + 4096,
   2·4096 + 14336, 7168 + 4096. */
START_TEST(ranks_hold_one_side_whole)
{
  const struct step_shape decode = {.decode_sequences = 1, .decode_context_tokens = 100};
  static struct plant p;
  plant_build(&p, "llama-3.1-8b", 2, 1, 8);
  assert_close(adapters_of(&p, &decode).weight_bytes, 2 * 8 * (15360.0 + 6144 + 22528 + 11264), 1e-12);
}
END_TEST

/* Latent attention: down-projections, query up-projection, the absorbed one and the output take adapters. One rank:
   (7168 + 2112) + (1536 + 24576) + (512 + 32768) + (16384 + 7168), feed-forward of a dense
   layer: 2·7168 + 36864 + 18432 + 7168. */
START_TEST(latent_attention_takes_adapters_too)
{
  static struct plant p;
  struct layer layer;
  const struct step_shape decode = {.decode_sequences = 1, .decode_context_tokens = 100};
  const struct layout layout = {1, 1, 1, 1};
  plant_build(&p, "llama-3.1-8b", 1, 1, 1);
  layer = p.model.layers[0];
  memset(&layer.attention, 0, sizeof layer.attention);
  layer.attention.kind = ATTENTION_LATENT;
  layer.attention.query_heads = layer.attention.kv_heads = 128;
  layer.attention.query_lora_rank = 1536;
  layer.attention.kv_lora_rank = 512;
  layer.attention.rope_head_dim = 64;
  layer.attention.nope_head_dim = layer.attention.value_head_dim = 128;
  layer.feed_forward.intermediate_size = 18432;
  p.model.hidden_size = 7168;
  p.model.layer_count = p.model.layer_kind_count = 0;
  ck_assert_int_eq(model_append_layers(&p.model, &layer, 2, NULL), ERR_OK);
  p.engine = step_engine(&p.model, &p.hardware, &layout, &p.model.precision, PRECISION_NONE, &p.preset);
  p.engine.adapters = (struct adapters){1, 1};
  assert_close(adapters_of(&p, &decode).weight_bytes,
               2 * (9280.0 + 26112 + 33280 + 23552 + (2 * 7168 + 36864) + (18432 + 7168)), 1e-12);
}
END_TEST

/* Routed experts take none: a mixture has the adapters of its attention alone. */
START_TEST(routed_experts_take_none)
{
  static struct plant p;
  struct layer layer;
  const struct step_shape decode = {.decode_sequences = 1, .decode_context_tokens = 100};
  const struct layout layout = {1, 1, 1, 1};
  plant_build(&p, "llama-3.1-8b", 1, 1, 4);
  layer = p.model.layers[0];
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = 8;
  layer.feed_forward.experts_per_token = 2;
  p.model.layer_count = p.model.layer_kind_count = 0;
  ck_assert_int_eq(model_append_layers(&p.model, &layer, 32, NULL), ERR_OK);
  p.engine = step_engine(&p.model, &p.hardware, &layout, &p.model.precision, PRECISION_NONE, &p.preset);
  p.engine.adapters = (struct adapters){1, 4};
  assert_close(adapters_of(&p, &decode).weight_bytes, 2 * 4 * (3 * 4096.0 + 6144 + 4096 + 4096), 1e-12);
}
END_TEST

static double decode_s(const struct plant *p, double batch)
{
  struct step_time time;
  double parts;
  step_decode(&time, &p->engine, batch, 2000);
  parts = time.floors_s + time.layers_s + time.sequences_s + time.fixed_s;
  for (int i = 0; i < OPERATOR_GROUP_COUNT; i++)
    parts += time.group_s[i];
  assert_close(parts, time.seconds, 1e-9);
  ck_assert(time.flops_s <= time.seconds);
  return time.seconds;
}

START_TEST(more_adapters_and_ranks_never_cost_less)
{
  static struct plant p;
  for (double batch = 1; batch <= 512; batch *= 8)
    for (unsigned tp = 1; tp <= 8; tp *= 8) {
      double before;
      plant_build(&p, "llama-3.1-70b", tp, 0, 0);
      before = decode_s(&p, batch);
      for (unsigned rank = 8; rank <= 512; rank *= 4) {
        double fewer = 0;
        for (unsigned count = 1; count <= 64; count *= 4) {
          p.engine.adapters = (struct adapters){count, rank};
          ck_assert(decode_s(&p, batch) >= fewer);
          fewer = decode_s(&p, batch);
        }
        ck_assert_msg(fewer > before, "batch %g tp %u rank %u: %g, before %g", batch, tp, rank, fewer, before);
        before = fewer;
      }
    }
}
END_TEST

/* ---- sketches ---- */

struct problem {
  struct hardware hardware;
  struct model model;
  struct workload workload;
};

static void problem_init(struct problem *p)
{
  p->hardware = fixture_hardware("h100-sxm-80gb");
  p->model = fixture_model("llama-3.1-8b");
  p->workload = fixture_workload();
  p->workload.serving.tensor_parallel = 1;
  p->workload.serving.replicas = 1;
}

static enum err evaluate(struct scorecard *card, const struct problem *p, struct error *e)
{
  const struct fit_request request = {
      .workload = &p->workload, .model = &p->model, .hardware = &p->hardware, .depth = FIT_QUICK};
  struct arena arena;
  arena_init(&arena, memory, sizeof memory);
  return fit_evaluate(card, &request, &arena, e);
}

static bool is_said(const struct scorecard *card, const char *part)
{
  for (size_t i = 0; i < card->assumption_count; i++)
    if (strstr(card->assumptions[i], part) != NULL)
      return true;
  return false;
}

/* 16 adapters of rank 64 on 32 layers of 81,920 a rank: 16 · 64 · 81,920 · 32 · 2 B = 5.0 GiB, taken from the KV pool. */
START_TEST(adapters_take_memory_and_time_and_say_so)
{
  static struct problem p;
  struct scorecard plain, adapted;
  const double bytes = 16.0 * 64 * 81920 * 32 * 2;
  problem_init(&p);
  ck_assert_int_eq(evaluate(&plain, &p, NULL), ERR_OK);
  ck_assert(!is_said(&plain, "adapters")); /* its sentences live in the arena until the next evaluation */
  p.workload.adapter_count = 16;
  p.workload.adapter_rank = 64;
  ck_assert_int_eq(evaluate(&adapted, &p, NULL), ERR_OK);
  assert_close(adapted.memory.weights_bytes - plain.memory.weights_bytes, bytes, 1e-9);
  ck_assert(adapted.memory.kv_cache_bytes < plain.memory.kv_cache_bytes - 0.9 * bytes);
  ck_assert(adapted.latency.tpot_mean_s > plain.latency.tpot_mean_s);
  ck_assert(adapted.latency.ttft_s.p50 > plain.latency.ttft_s.p50);
  ck_assert(adapted.limits.saturation_requests_per_s < plain.limits.saturation_requests_per_s);
  ck_assert(is_said(&adapted, "adapters: 16 of rank 64"));
}
END_TEST

START_TEST(too_many_adapters_do_not_fit_and_absurd_ranks_are_refused)
{
  static const unsigned ranks[] = {0, 4097};
  static struct problem p;
  struct scorecard card;
  struct error e;
  problem_init(&p);
  p.workload.adapter_count = 10000;
  p.workload.adapter_rank = 256;
  ck_assert_int_eq(evaluate(&card, &p, &e), ERR_OK);
  ck_assert_int_eq(card.verdict, VERDICT_NO_FIT);
  ck_assert_int_eq(card.no_fit_reason, NO_FIT_WEIGHTS_EXCEED_MEMORY);
  for (size_t i = 0; i < FIXTURE_COUNT(ranks); i++) {
    p.workload.adapter_count = 1;
    p.workload.adapter_rank = ranks[i];
    ck_assert_int_eq(evaluate(&card, &p, &e), ERR_INVALID);
    ck_assert_str_eq(e.pointer, "/adapters/rank");
  }
  p.workload.adapter_rank = 4096;
  ck_assert_int_eq(evaluate(&card, &p, &e), ERR_OK);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("adapters");
  tcase_add_test(tcase, products_by_hand);
  tcase_add_test(tcase, ranks_hold_one_side_whole);
  tcase_add_test(tcase, latent_attention_takes_adapters_too);
  tcase_add_test(tcase, routed_experts_take_none);
  tcase_add_test(tcase, more_adapters_and_ranks_never_cost_less);
  tcase_add_test(tcase, adapters_take_memory_and_time_and_say_so);
  tcase_add_test(tcase, too_many_adapters_do_not_fit_and_absurd_ranks_are_refused);
  return fixture_run("core/adapters", tcase);
}
