/* Step times against the formula of STEPMODEL §3 written out again from the constants, and what must hold for any step. */
#include "core/step.h"

#include "core/collectives.h"
#include "tests/core/fixtures.h"

struct plant {
  struct hardware hardware;
  struct model model;
  struct engine engine;
};

static void plant_build(struct plant *plant, const char *device, const char *model, unsigned tp, unsigned pp)
{
  const struct layout layout = {tp, pp, 1, 1};
  struct model_precision precision;
  struct preset preset;
  plant->hardware = fixture_hardware(device);
  plant->model = fixture_model(model);
  preset = fixture_preset(&plant->hardware, "vllm", "0.19");
  fixture_set_precision(&precision, PRECISION_BF16);
  const struct step_constants constants = fixture_constants();
  plant->engine =
      step_engine_with(&constants, &plant->model, &plant->hardware, &layout, &precision, PRECISION_NONE, &preset);
}

static double roofline_s(double m, double k, double n)
{
  return fmax(2 * m * k * n / (989.5e12 * 0.8), 2 * (k * n + m * k + m * n) / (3.35e12 * 0.845));
}

/* H100 in bf16 (hopper_dc: linear 3.9 µs .8 .845, decode 12.4 µs .85), vLLM 0.19 (15 µs a layer, 8 µs a sequence, 200 µs):
   s(B) = G + .95·A + .8·C + .75·F + c·layers + a + b·B. The tolerance of 1e-3 covers that the head's launch may be counted
   in full (1 µs). */
static double expected_decode_s(const struct fixture_dense *d, unsigned tp, double batch, double context,
                                const struct hardware *hardware)
{
  const double bw = 3.35e12, h = d->hidden, heads = (double)d->heads / tp, kv = fmax(1, (double)d->kv_heads / tp);
  const double inner = (double)d->intermediate / tp, vocab = ceil((double)d->vocab / tp);
  const double layer_linear = roofline_s(batch, h, (heads + 2 * kv) * d->head_dim) +
                              roofline_s(batch, heads * d->head_dim, h) + roofline_s(batch, h, 2 * inner) +
                              roofline_s(batch, inner, h);
  const double elementwise = 20 * batch * h / (0.5 * bw);
  const double attention = batch * kv * d->head_dim * 2 * 2 * context / (bw * 0.85);
  const struct collective_time c = collective_all_reduce(hardware, tp, 2 * (tp - 1.0) / tp * batch * h * 2);
  const double floors = 4 * 3.9e-6 + 12.4e-6;
  const double head = roofline_s(batch, h, vocab) + 12 * batch * vocab / (0.5 * bw);
  return d->layers * (layer_linear + elementwise + 0.95 * attention + 0.8 * 2 * (c.floor_s + c.work_s) + 0.75 * floors +
                      15e-6) +
         head + 0.75 * 3.9e-6 + 200e-6 + 8e-6 * batch;
}

START_TEST(a_decode_step_is_the_formula)
{
  static const struct {
    const char *model;
    unsigned tp;
    double batch, context;
  } rows[] = {{"llama-3.1-8b", 1, 1, 1000},
              {"llama-3.1-8b", 1, 64, 2176},
              {"llama-3.1-8b", 1, 1000, 200},
              {"llama-3.1-70b", 8, 16, 4096},
              {"llama-3.1-70b", 2, 1, 128}};
  size_t count;
  const struct fixture_dense *models = fixture_dense_models(&count);
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++)
    for (size_t j = 0; j < count; j++)
      if (strcmp(models[j].name, rows[i].model) == 0) {
        static struct plant plant;
        struct step_time step;
        plant_build(&plant, "h100-sxm-80gb", rows[i].model, rows[i].tp, 1);
        step_decode(&step, &plant.engine, rows[i].batch, rows[i].context);
        assert_close(step.seconds,
                     expected_decode_s(&models[j], rows[i].tp, rows[i].batch, rows[i].context, &plant.hardware), 1e-3);
      }
}
END_TEST

/* Llama-3.1-8B, one sequence at 1000 tokens, by hand: matrices of a layer 436.2 MB and the head 1050.7 MB over 3350·.845 =
   2830.75 GB/s: 32 · 154.1 + 371.2 = 5302.4 µs; KV 4.096 MB a layer over 2847.5 GB/s · .95 · 32 = 43.7; floors
   .75·(32·28 + 3.9) = 674.9; layers 480; 208 fixed: 6.71 ms; activations add 10 µs. */
START_TEST(a_decode_step_by_hand)
{
  static struct plant plant;
  struct step_time step;
  plant_build(&plant, "h100-sxm-80gb", "llama-3.1-8b", 1, 1);
  step_decode(&step, &plant.engine, 1, 1000);
  assert_close(step.seconds / MS, 6.71, 5e-3);
  assert_close(step.weight_bytes, 2 * (6979321856.0 + 525336576.0), 1e-12); /* matrices of the layers, head */
  assert_close(step.kv_bytes, 1000 * 131072.0, 1e-12);
  assert_close(step.group_s[OPERATOR_COLLECTIVE] + step.bound_s[BOUND_INTERCONNECT], 0, 1e-12);
}
END_TEST

static void assert_parts(const struct step_time *step)
{
  double bounds = 0, parts = step->floors_s + step->layers_s + step->sequences_s + step->fixed_s;
  for (int i = 0; i < BOUND_COUNT; i++) {
    ck_assert(step->bound_s[i] >= 0);
    bounds += step->bound_s[i];
  }
  for (int i = 0; i < OPERATOR_GROUP_COUNT; i++)
    parts += step->group_s[i];
  assert_close(bounds, step->seconds, 1e-12);
  assert_close(parts, step->seconds, 1e-9);
  ck_assert(isfinite(step->seconds) && step->seconds > 0);
  ck_assert_msg(step->flops_s <= step->seconds, "%g s of FLOPs in %g s", step->flops_s, step->seconds);
}

START_TEST(parts_sum_to_the_step_and_utilisation_is_at_most_one)
{
  static struct plant plant;
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t d = 0; d < count; d++)
    for (unsigned tp = 1; tp <= 8; tp *= 2) {
      plant_build(&plant, devices[d].name, "llama-3.1-70b", tp, 1);
      for (double batch = 1; batch <= 1024; batch *= 4) {
        const struct step_shape mixed = {.decode_sequences = batch,
                                         .decode_context_tokens = 3000,
                                         .prefill_tokens = 2048,
                                         .prefill_past_tokens = 1000,
                                         .prefill_sequences = 1};
        struct step_time step;
        step_decode(&step, &plant.engine, batch, 2000);
        assert_parts(&step);
        ck_assert((step.weight_bytes + step.kv_bytes) / plant.engine.device.bandwidth_bytes_s <= step.seconds * 1.06);
        step_time(&step, &plant.engine, &mixed, batch + 1);
        assert_parts(&step);
      }
    }
}
END_TEST

START_TEST(steps_grow_with_batch_context_and_prompt)
{
  static struct plant plant;
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t d = 0; d < count; d++) {
    double before = 0;
    struct step_time step;
    plant_build(&plant, devices[d].name, "llama-3.1-8b", 1, 1);
    for (double batch = 1; batch <= 2048; batch *= 1.5, before = step.seconds) {
      step_decode(&step, &plant.engine, batch, 1000);
      ck_assert_msg(step.seconds > before, "%s batch %g", devices[d].name, batch);
    }
    before = 0;
    for (double context = 1; context <= 1e6; context *= 3, before = step.seconds) {
      step_decode(&step, &plant.engine, 8, context);
      ck_assert_msg(step.seconds > before, "%s context %g", devices[d].name, context);
    }
    before = 0;
    for (double prompt = 128; prompt <= 1e5; prompt *= 2, before = step.seconds) { /* tile by tile: waves are steps */
      struct prompt_time time;
      step_prompt(&time, &plant.engine, prompt, 0, 8, 1000);
      step.seconds = time.alone_s;
      ck_assert_msg(step.seconds > before, "%s prompt %g: %g s, before %g", devices[d].name, prompt, step.seconds,
                    before);
    }
  }
}
END_TEST

/* More bandwidth never slows decode; more FLOP/s never slow prefill. */
START_TEST(a_better_device_is_not_slower)
{
  static struct plant plant, better;
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t d = 0; d < count; d++)
    for (double factor = 1.1; factor < 5; factor *= 1.5)
      for (double batch = 1; batch < 1000; batch *= 7) {
        struct step_time slow, fast;
        struct prompt_time slow_prompt, fast_prompt;
        plant_build(&plant, devices[d].name, "llama-3.1-8b", 1, 1);
        plant_build(&better, devices[d].name, "llama-3.1-8b", 1, 1);
        better.hardware.memory_bandwidth_gb_s *= factor;
        better.engine.device = timing_device(&better.hardware, &better.engine.precision, PRECISION_NONE);
        step_decode(&slow, &plant.engine, batch, 3000);
        step_decode(&fast, &better.engine, batch, 3000);
        ck_assert_msg(fast.seconds < slow.seconds, "%s batch %g: %g, with more bandwidth %g", devices[d].name, batch,
                      slow.seconds, fast.seconds);
        better.hardware = plant.hardware;
        better.hardware.bf16_tflops *= factor;
        better.hardware.fp16_tflops *= factor;
        better.engine.device = timing_device(&better.hardware, &better.engine.precision, PRECISION_NONE);
        step_prompt(&slow_prompt, &plant.engine, 5000, 0, batch, 3000);
        step_prompt(&fast_prompt, &better.engine, 5000, 0, batch, 3000);
        ck_assert_msg(fast_prompt.alone_s < slow_prompt.alone_s, "%s: prompt %g, with more FLOP/s %g", devices[d].name,
                      slow_prompt.alone_s, fast_prompt.alone_s);
      }
}
END_TEST

/* A prompt alone of 2048 tokens on H100, 8B: FLOPs of the layers' linears 2·2048·6,979,321,856 = 2.8587e13 over 989.5e12·.8 =
   36.11 ms; attention 4·32·128·(2048·2176/2) · 32 layers = 1.168e12 over 989.5e12 · .692 = 1.706 ms · .95 and more for
   memory and waves: at most 2.5; floors and layers 1.2; elementwise 20·2048·4096·32/1.675e12 = 3.2; head 0.38. */
START_TEST(a_prompt_by_hand)
{
  static struct plant plant;
  struct prompt_time time;
  plant_build(&plant, "h100-sxm-80gb", "llama-3.1-8b", 1, 1);
  step_prompt(&time, &plant.engine, 2048, 0, 1, 2048);
  ck_assert_msg(time.alone_s > 0.0422 && time.alone_s < 0.0440, "%g s", time.alone_s);
  assert_close(time.chunks, 1, 1e-12);
  assert_close(time.profile.seconds, time.alone_s, 1e-12);
}
END_TEST

/* 20,000 tokens at 8,192 a step are three chunks; without chunking one. The chunks' linear FLOPs sum to the prompt's. */
START_TEST(long_prompts_are_chunked)
{
  static struct plant plant;
  struct prompt_time chunked, whole;
  plant_build(&plant, "h100-sxm-80gb", "llama-3.1-8b", 1, 1);
  step_prompt(&chunked, &plant.engine, 20000, 0, 4, 100);
  plant.engine.preset.has_chunked_prefill = false;
  step_prompt(&whole, &plant.engine, 20000, 0, 4, 100);
  assert_close(chunked.chunks, 3, 1e-12);
  assert_close(whole.chunks, 1, 1e-12);
  assert_close(chunked.alone_s, whole.alone_s, 0.05);
  ck_assert(chunked.added_s < chunked.alone_s); /* weights are read anyway */
}
END_TEST

/* Rides along: what a prompt adds to steps that decode anyway is less than its time alone, and positive. */
START_TEST(added_time_is_positive_and_below_the_time_alone)
{
  static struct plant plant;
  plant_build(&plant, "a100-sxm-80gb", "llama-3.1-8b", 1, 1);
  for (double prompt = 1; prompt < 30000; prompt *= 3)
    for (double batch = 1; batch < 300; batch *= 4) {
      struct prompt_time time;
      struct step_time step;
      step_prompt(&time, &plant.engine, prompt, 0, batch, 500);
      step_decode(&step, &plant.engine, batch, 500);
      ck_assert(time.added_s > 0);
      ck_assert_msg(time.added_s <= time.alone_s, "prompt %g batch %g: adds %g, alone %g", prompt, batch, time.added_s,
                    time.alone_s);
      ck_assert(time.added_s + step.seconds * time.chunks >=
                time.alone_s * 0.999); /* the mixed steps hold the prompt */
    }
}
END_TEST

/* Pipeline: the step is taken at batch/pp sequences a stage, the prompt's cost a stage is 1/pp of the whole (STEPMODEL §1.3).
   Stages of four fill two hosts: two hops over NVLink, one over the network at 12.5 GB/s. Decode passes 16 · 8192 · 2 B a hop:
   0.8 · (2 · (4.2 + 0.927 + 0.312) + 20 + 20.97) = 41.48 µs; the prompt adds 4096 times 16 KiB: 0.8 · (2 · (237.3 + 4.69) +
   5368.7) / 4 = 1170.5 µs. */
START_TEST(pipeline_stages_share_the_batch)
{
  static struct plant one, four;
  struct step_time a, b;
  struct prompt_time p, q;
  plant_build(&one, "h100-sxm-80gb", "llama-3.1-70b", 4, 1);
  plant_build(&four, "h100-sxm-80gb", "llama-3.1-70b", 4, 4);
  step_decode(&a, &one.engine, 16, 1000);
  step_decode(&b, &four.engine, 64, 1000);
  assert_close(b.seconds - a.seconds, (64 - 16) * 8e-6 + 41.48e-6, 1e-4); /* the scheduler handles all of them */
  step_prompt(&p, &one.engine, 4096, 0, 16, 1000);
  step_prompt(&q, &four.engine, 4096, 0, 64, 1000);
  assert_close(q.added_s, p.added_s / 4 + 1170.5e-6, 1e-4);
}
END_TEST

static struct engine mixture_engine(struct plant *plant, const char *device, const char *runtime,
                                    enum precision experts)
{
  const struct layout layout = {4, 1, 1, 1};
  const struct step_constants constants = fixture_constants();
  struct model_precision precision;
  struct preset preset;
  plant->hardware = fixture_hardware(device);
  plant->model = fixture_model("llama-3.1-70b");
  for (unsigned kind = 0; kind < plant->model.layer_kind_count; kind++) {
    plant->model.layers[kind].feed_forward.kind = FEED_FORWARD_MOE;
    plant->model.layers[kind].feed_forward.experts = 64;
    plant->model.layers[kind].feed_forward.experts_per_token = 4;
  }
  preset = fixture_preset(&plant->hardware, runtime, "");
  fixture_set_precision(&precision, experts);
  precision.has_static_scales = true; /* as made from a 16-bit release */
  return step_engine_with(&constants, &plant->model, &plant->hardware, &layout, &precision, PRECISION_NONE, &preset);
}

/* 80 layers; a device without 8-bit units multiplies in 16 bit and scales nothing. */
START_TEST(experts_of_8_bit_pay_for_scaling_their_inputs)
{
  static struct plant wide, narrow, four_bit, old;
  const double wide_s = mixture_engine(&wide, "h100-sxm-80gb", "vllm", PRECISION_BF16).layers_s;
  const double each_s = fixture_constants().experts_quantise_us * 1e-6;
  ck_assert(each_s > 0);
  assert_close(mixture_engine(&narrow, "h100-sxm-80gb", "vllm", PRECISION_FP8).layers_s, wide_s + 80 * each_s, 1e-12);
  assert_close(mixture_engine(&four_bit, "h100-sxm-80gb", "vllm", PRECISION_INT4).layers_s, wide_s, 1e-12);
  assert_close(mixture_engine(&old, "a100-sxm-80gb", "vllm", PRECISION_FP8).layers_s, wide_s, 1e-12);
}
END_TEST

START_TEST(mixtures_of_8_bit_have_block_scales_but_of_tensorrts_own_tool)
{
  static struct plant block, tensor;
  ck_assert(!mixture_engine(&block, "h100-sxm-80gb", "sglang", PRECISION_FP8).device.has_static_scales);
  ck_assert(mixture_engine(&tensor, "h100-sxm-80gb", "tensorrt-llm", PRECISION_FP8).device.has_static_scales);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("step");
  tcase_add_test(tcase, a_decode_step_is_the_formula);
  tcase_add_test(tcase, a_decode_step_by_hand);
  tcase_add_test(tcase, parts_sum_to_the_step_and_utilisation_is_at_most_one);
  tcase_add_test(tcase, steps_grow_with_batch_context_and_prompt);
  tcase_add_test(tcase, a_better_device_is_not_slower);
  tcase_add_test(tcase, a_prompt_by_hand);
  tcase_add_test(tcase, long_prompts_are_chunked);
  tcase_add_test(tcase, added_time_is_positive_and_below_the_time_alone);
  tcase_add_test(tcase, pipeline_stages_share_the_batch);
  tcase_add_test(tcase, experts_of_8_bit_pay_for_scaling_their_inputs);
  tcase_add_test(tcase, mixtures_of_8_bit_have_block_scales_but_of_tensorrts_own_tool);
  return fixture_run("core/step", tcase);
}
