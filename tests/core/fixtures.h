/* Devices, models and sketches that the tests of the core share: figures of the hardware catalogue and of published
   config.json files, copied by hand. Everything is returned by value; unknown names fail the running test. */
#ifndef FITD_TESTS_CORE_FIXTURES_H
#define FITD_TESTS_CORE_FIXTURES_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fit.h"
#include "core/preset.h"
#include "core/step.h"
#include "core/units.h"
#include "tests/lib/suite.h"

#define FIXTURE_COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Relative comparison; the message shows both figures. */
#define assert_close(actual, expected, relative)                                                                       \
  do {                                                                                                                 \
    const double actual_ = (actual), expected_ = (expected);                                                           \
    ck_assert_msg(fabs(actual_ - expected_) <= (relative)*fabs(expected_),                                             \
                  "%s is %.12g, expected %.12g (off by %.3g)", #actual, actual_, expected_, actual_ / expected_ - 1);  \
  } while (0)

static inline void fixture_text(char *to, size_t size, const char *from)
{
  ck_assert_msg(strlen(from) < size, "\"%s\" does not fit", from);
  memcpy(to, from, strlen(from) + 1);
}

struct fixture_device {
  const char *name, *architecture, *memory_type, *link_kind, *topology;
  double gib, tool_mib, engine_mib, gb_s, bf16, fp16, fp8, int8, fp4; /* 0 = not stated */
  double domain, link_gb_s, pcie, tdp, units;
};

/* Figures of deploy/catalog/profiles. */
static inline const struct fixture_device *fixture_devices(size_t *count)
{
  static const struct fixture_device devices[] = {
      {"h100-sxm-80gb", "Hopper", "HBM3", "NVLink4", "switched", 79.65, 81559, 81091, 3350, 989.5, 989.5, 1979, 1979, 0,
       8, 450, 5, 700, 132},
      {"h200-sxm-141gb", "Hopper", "HBM3e", "NVLink4", "switched", 140.4, 143771, 143165, 4800, 989.5, 989.5, 1979,
       1979, 0, 8, 450, 5, 700, 132},
      {"a100-sxm-80gb", "Ampere", "HBM2e", "NVLink3", "switched", 80, 81920, 81152, 2039, 312, 312, 0, 624, 0, 8, 300,
       4, 400, 108},
      {"a100-pcie-80gb", "Ampere", "HBM2e", "NVLink3", "bridge pair (optional)", 80, 81920, 0, 1935, 312, 312, 0, 624,
       0, 2, 300, 4, 300, 108},
      {"b200-sxm-180gb", "Blackwell", "HBM3e", "NVLink5", "switched", 179.06, 183359, 182641, 7700, 2250, 2250, 4500,
       4500, 9000, 8, 900, 5, 1000, 148},
      {"b300-sxm-270gb", "Blackwell Ultra", "HBM3e", "NVLink5", "switched", 268.59, 275040, 0, 7750, 2250, 2250, 4500,
       153.5, 14000, 8, 900, 6, 1100, 148},
      {"gb200-nvl72", "Blackwell", "HBM3e", "NVLink5", "switched", 185.03, 189471, 0, 8000, 2500, 2500, 5000, 5000,
       10000, 72, 900, 5, 1200, 152},
      {"gh200-96gb", "Hopper", "HBM3", "NVLink-C2C to Grace", "superchip", 95.58, 97871, 0, 4000, 989.5, 989.5, 1979,
       1979, 0, 1, 450, 5, 900, 132},
      {"l40s-48gb", "Ada", "GDDR6", "PCIe", "host", 44.99, 46068, 45486, 864, 362.05, 362.05, 733, 733, 0, 1, 32, 4,
       350, 142},
      {"rtxpro6000-server-96gb", "Blackwell", "GDDR7", "PCIe", "host", 95.59, 97887, 0, 1792, 467.8, 467.8, 935.6,
       935.6, 1871, 1, 64, 5, 600, 188},
      {"v100-sxm-32gb", "Volta", "HBM2", "NVLink2", "hybrid cube mesh", 32, 32768, 32502, 900, 0, 125, 0, 62.8, 0, 8,
       150, 3, 300, 80},
      {"mi300x-192gb", "CDNA3", "HBM3", "xGMI", "full mesh", 191.98, 196592, 196588, 5300, 1307.4, 1307.4, 2614.9,
       2614.9, 0, 8, 448, 5, 750, 304},
      {"t4-16gb", "Turing", "GDDR6", "PCIe", "host", 15, 15360, 14909, 320, 0, 65, 0, 130, 0, 1, 16, 3, 70, 40},
  };
  *count = FIXTURE_COUNT(devices);
  return devices;
}

static inline double fixture_stated(double value)
{
  return value > 0 ? value : (double)NAN;
}

static inline struct hardware fixture_hardware_of(const struct fixture_device *device)
{
  struct hardware h;
  hardware_init(&h);
  fixture_text(h.name, sizeof h.name, device->name);
  fixture_text(h.architecture, sizeof h.architecture, device->architecture);
  fixture_text(h.memory_type, sizeof h.memory_type, device->memory_type);
  fixture_text(h.link_kind, sizeof h.link_kind, device->link_kind);
  fixture_text(h.topology, sizeof h.topology, device->topology);
  h.memory_gib = device->gib;
  h.memory_usable_mib = fixture_stated(device->tool_mib);
  h.memory_engine_mib = fixture_stated(device->engine_mib);
  h.memory_bandwidth_gb_s = device->gb_s;
  h.bf16_tflops = fixture_stated(device->bf16);
  h.fp16_tflops = device->fp16;
  h.fp8_tflops = fixture_stated(device->fp8);
  h.int8_tflops = fixture_stated(device->int8);
  h.fp4_tflops = fixture_stated(device->fp4);
  h.domain_size = device->domain;
  h.unidirectional_gb_s = device->link_gb_s;
  h.bidirectional_gb_s = 2 * device->link_gb_s;
  h.pcie_gen = device->pcie;
  h.tdp_w = device->tdp;
  h.compute_units = device->units;
  h.is_available = true;
  hardware_resolve(&h);
  return h;
}

static inline struct hardware fixture_hardware(const char *name)
{
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(devices[i].name, name) == 0)
      return fixture_hardware_of(&devices[i]);
  ck_abort_msg("no fixture of device %s", name);
  return fixture_hardware_of(&devices[0]);
}

static inline void fixture_add_price(struct hardware *h, const char *cloud, const char *instance, double accelerators,
                                     double usd, const char *commitment)
{
  struct hardware_price *price = &h->prices[h->price_count++];
  ck_assert_uint_le(h->price_count, HARDWARE_PRICES_MAX);
  fixture_text(price->cloud, sizeof price->cloud, cloud);
  fixture_text(price->instance, sizeof price->instance, instance);
  fixture_text(price->commitment, sizeof price->commitment, commitment);
  fixture_text(price->date, sizeof price->date, "2026-07-20");
  price->accelerators = accelerators;
  price->usd_per_accelerator_hour = usd;
}

enum fixture_flags {
  FIXTURE_PLAIN = 0,
  FIXTURE_TIED = 1,
  FIXTURE_QKV_BIAS = 2,
  FIXTURE_QK_NORM = 4,
  FIXTURE_UNGATED = 8
};

struct fixture_dense {
  const char *name;
  unsigned hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, context;
  unsigned flags;
};

/* tests/data/models, by hand. */
static inline const struct fixture_dense *fixture_dense_models(size_t *count)
{
  static const struct fixture_dense models[] = {
      {"llama-3.1-8b", 4096, 14336, 32, 32, 8, 128, 128256, 131072, FIXTURE_PLAIN},
      {"llama-3.1-70b", 8192, 28672, 80, 64, 8, 128, 128256, 131072, FIXTURE_PLAIN},
      {"llama-3.1-405b", 16384, 53248, 126, 128, 8, 128, 128256, 131072, FIXTURE_PLAIN},
      {"llama-3-8b", 4096, 14336, 32, 32, 8, 128, 128256, 8192, FIXTURE_PLAIN},
      {"llama-2-7b", 4096, 11008, 32, 32, 32, 128, 32000, 4096, FIXTURE_PLAIN},
      {"qwen2-7b", 3584, 18944, 28, 28, 4, 128, 152064, 32768, FIXTURE_QKV_BIAS},
      {"qwen2-72b", 8192, 29568, 80, 64, 8, 128, 152064, 32768, FIXTURE_QKV_BIAS},
      {"qwen3-8b", 4096, 12288, 36, 32, 8, 128, 151936, 40960, FIXTURE_QK_NORM},
      {"qwen3-14b", 5120, 17408, 40, 40, 8, 128, 151936, 40960, FIXTURE_QK_NORM},
      {"phi-4", 5120, 17920, 40, 40, 10, 128, 100352, 16384, FIXTURE_PLAIN},
      {"granite-3.1-8b", 4096, 12800, 40, 32, 8, 128, 49155, 131072, FIXTURE_TIED},
      {"falcon-7b", 4544, 18176, 32, 71, 1, 64, 65024, 2048, FIXTURE_TIED | FIXTURE_UNGATED},
  };
  *count = FIXTURE_COUNT(models);
  return models;
}

static inline struct layer fixture_dense_layer(const struct fixture_dense *dense)
{
  struct layer layer;
  memset(&layer, 0, sizeof layer);
  layer.attention.kind = ATTENTION_GROUPED;
  layer.attention.query_heads = dense->heads;
  layer.attention.kv_heads = dense->kv_heads;
  layer.attention.head_dim = layer.attention.value_head_dim = dense->head_dim;
  layer.attention.has_qkv_bias = (dense->flags & FIXTURE_QKV_BIAS) != 0;
  if ((dense->flags & FIXTURE_QK_NORM) != 0)
    layer.attention.query_norm_size = layer.attention.key_norm_size = dense->head_dim;
  layer.feed_forward.kind = FEED_FORWARD_DENSE;
  layer.feed_forward.intermediate_size = dense->intermediate;
  layer.feed_forward.is_gated = (dense->flags & FIXTURE_UNGATED) == 0;
  layer.norm_parameters = 2 * dense->hidden;
  return layer;
}

static inline void fixture_set_precision(struct model_precision *precision, enum precision format)
{
  memset(precision, 0, sizeof *precision);
  precision->embeddings = precision->head = PRECISION_BF16;
  precision->attention = precision->dense = precision->experts = format;
  precision->kv_cache = PRECISION_BF16;
}

static inline struct model fixture_model_of(const struct fixture_dense *dense)
{
  struct model model;
  const struct layer layer = fixture_dense_layer(dense);
  memset(&model, 0, sizeof model);
  fixture_text(model.name, sizeof model.name, dense->name);
  model.hidden_size = dense->hidden;
  model.vocab_size = dense->vocab;
  model.max_context_tokens = dense->context;
  model.has_tied_embeddings = (dense->flags & FIXTURE_TIED) != 0;
  model.final_norm_parameters = dense->hidden;
  fixture_set_precision(&model.precision, PRECISION_BF16);
  model.precision.kv_cache = PRECISION_NONE;
  ck_assert_int_eq(model_append_layers(&model, &layer, dense->layers, NULL), ERR_OK);
  return model;
}

static inline struct model fixture_model(const char *name)
{
  size_t count;
  const struct fixture_dense *models = fixture_dense_models(&count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(models[i].name, name) == 0)
      return fixture_model_of(&models[i]);
  ck_abort_msg("no fixture of model %s", name);
  return fixture_model_of(&models[0]);
}

/* Mixtral 8x7B and DeepSeek-V2-Lite, from their published configs. */
static inline struct model fixture_mixture(bool is_latent)
{
  struct model model = fixture_model("llama-3-8b");
  struct layer layer = model.layers[0];
  layer.feed_forward = (struct feed_forward){.kind = FEED_FORWARD_MOE,
                                             .intermediate_size = is_latent ? 1408 : 14336,
                                             .is_gated = true,
                                             .experts = is_latent ? 64 : 8,
                                             .experts_per_token = is_latent ? 6 : 2,
                                             .shared_intermediate_size = is_latent ? 2816 : 0};
  if (is_latent) {
    model.hidden_size = 2048;
    layer.attention = (struct attention){.kind = ATTENTION_LATENT,
                                         .query_heads = 16,
                                         .kv_heads = 1,
                                         .head_dim = 192,
                                         .value_head_dim = 128,
                                         .kv_lora_rank = 512,
                                         .rope_head_dim = 64,
                                         .nope_head_dim = 128};
  }
  model.layer_count = model.layer_kind_count = 0;
  ck_assert_int_eq(model_append_layers(&model, &layer, is_latent ? 27 : 32, NULL), ERR_OK);
  fixture_text(model.name, sizeof model.name, is_latent ? "latent" : "mixtral-8x7b");
  return model;
}

/* Settings of a runtime on a device, "" = defaults. */
static inline struct preset fixture_preset(const struct hardware *hardware, const char *runtime, const char *version)
{
  struct workload workload;
  struct preset preset;
  struct error e;
  workload_init(&workload);
  fixture_text(workload.serving.runtime, sizeof workload.serving.runtime, runtime);
  fixture_text(workload.serving.runtime_version, sizeof workload.serving.runtime_version, version);
  ck_assert_int_eq(preset_resolve(&preset, &workload.serving, hardware, &e), ERR_OK);
  return preset;
}

/* 2,048 tokens in, 256 out, 2 requests a second. */
/* Step constants before any fit (the priors of core/step.def): derivations by hand stay true when the fit moves. */
static inline struct step_constants fixture_constants(void)
{
  const struct step_constants constants = {
#define STEP(member, unit, value, prior, spread, sentence) .member = (prior),
#include "core/step.def"
#undef STEP
  };
  return constants;
}

static inline struct workload fixture_workload(void)
{
  struct workload workload;
  workload_init(&workload);
  workload.traffic.input.kind = workload.traffic.output.kind = LENGTH_FIXED;
  workload.traffic.input.fixed_tokens = 2048;
  workload.traffic.output.fixed_tokens = 256;
  workload.traffic.load = LOAD_OPEN;
  workload.traffic.requests_per_s = 2;
  return workload;
}

static inline void fixture_close_loop(struct workload *workload, double users)
{
  workload->traffic.load = LOAD_CLOSED;
  workload->traffic.requests_per_s = (double)NAN;
  workload->traffic.concurrency = users;
}

/* Repeatable numbers: SplitMix64, uniform in [low, high). */
static inline double fixture_random(uint64_t *state, double low, double high)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return low + (high - low) * (double)(z >> 11) * 0x1p-53;
}

static inline unsigned fixture_random_index(uint64_t *state, size_t count)
{
  return (unsigned)fixture_random(state, 0, (double)count);
}

/* Runs one case of tests; failure also when nothing ran. */
static inline int fixture_run(const char *name, TCase *tcase)
{
  Suite *suite = suite_create(name);
  tcase_set_timeout(tcase, 120);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}

#endif
