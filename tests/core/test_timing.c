/* Operator times: the constants in the code are those of the fitted table, the times agree with measured operators as well
   as PREDICTOR §2 says, and no operator beats its roofline. */
#include "core/timing.h"

#include <jansson.h>

#include "core/collectives.h"
#include "tests/core/fixtures.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static json_t *constants(void)
{
  json_error_t error;
  json_t *document =
      json_load_file(suite_source_path("tests/data/operators/constants.json"), JSON_REJECT_DUPLICATES, &error);
  ck_assert_msg(document != NULL, "constants.json: %s", error.text);
  return document;
}

/* ---- constants, value by value ---- */

struct constant_row {
  const char *section, *class, *format; /* format: "" for prefill */
  double values[6];
  size_t count;
};

static const struct constant_row *constant_rows(size_t *count)
{
  static const struct constant_row rows[] = {
#define LINEAR(class, precision, t0, ec, em) {"gemm", #class, #precision, {t0, ec, em}, 3},
#define DECODE(class, precision, t0, em) {"decode", #class, #precision, {t0, em}, 2},
#define PREFILL(class, t0, ec, em, p, a, d) {"prefill", #class, "", {t0, ec, em, p, a, d}, 6},
#define ALL_REDUCE(link, algorithm, devices, alpha, bandwidth, ramp)
#include "core/timing.def"
#undef LINEAR
#undef DECODE
#undef PREFILL
#undef ALL_REDUCE
  };
  *count = FIXTURE_COUNT(rows);
  return rows;
}

static const char *json_class(const char *class)
{
  static const char *const names[][2] = {{"POOLED", "default"},
                                         {"AMPERE_DC", "ampere_dc"},
                                         {"HOPPER_DC", "hopper_dc"},
                                         {"BLACKWELL_DC", "blackwell_dc"},
                                         {"BLACKWELL_ULTRA_DC", "blackwell_dc"},
                                         {"ADA_PCIE", "ada_pcie"},
                                         {"BLACKWELL_RTX", "blackwell_rtx"},
                                         {"ADA_CONSUMER", "ada_consumer"}};
  for (size_t i = 0; i < FIXTURE_COUNT(names); i++)
    if (strcmp(names[i][0], class) == 0)
      return names[i][1];
  ck_abort_msg("class %s is not in the table of fitted constants", class);
  return NULL;
}

/* Blackwell has two nvfp4 rows, one for either generation. */
static const char *json_format(const struct constant_row *row)
{
  if (strcmp(row->format, "BF16") == 0)
    return "bf16";
  if (strcmp(row->format, "FP8") == 0)
    return "fp8";
  if (strcmp(row->class, "BLACKWELL_DC") == 0)
    return "nvfp4_b200";
  return strcmp(row->class, "BLACKWELL_ULTRA_DC") == 0 ? "nvfp4_b300" : "nvfp4";
}

static json_t *json_values(const json_t *document, const struct constant_row *row)
{
  json_t *section =
      json_object_get(json_object_get(json_object_get(document, "classes"), json_class(row->class)), row->section);
  return row->format[0] == '\0' ? section : json_object_get(section, json_format(row));
}

START_TEST(operator_constants_are_those_of_the_table)
{
  json_t *document = constants();
  size_t count;
  const struct constant_row *rows = constant_rows(&count);
  for (size_t i = 0; i < count; i++) {
    json_t *values = json_values(document, &rows[i]);
    ck_assert_msg(json_array_size(values) == rows[i].count, "%s %s %s", rows[i].section, rows[i].class, rows[i].format);
    for (size_t j = 0; j < rows[i].count; j++)
      ck_assert_msg(fabs(json_number_value(json_array_get(values, j)) - rows[i].values[j]) <= 0,
                    "%s %s %s [%zu]: %g, table %g", rows[i].section, rows[i].class, rows[i].format, j,
                    rows[i].values[j], json_number_value(json_array_get(values, j)));
  }
  json_decref(document);
}
END_TEST

/* Every row of the table is in the code: 6 classes share 17 gemm, 12 decode and 7 prefill rows, one family of which is
   used twice (Blackwell and Blackwell Ultra). */
START_TEST(no_constant_of_the_table_is_left_out)
{
  json_t *document = constants(), *class;
  const char *name;
  size_t count, expected = 0;
  const struct constant_row *rows = constant_rows(&count);
  (void)rows;
  json_object_foreach(json_object_get(document, "classes"), name, class)
  {
    size_t here =
        json_object_size(json_object_get(class, "gemm")) + json_object_size(json_object_get(class, "decode")) + 1;
    expected += strcmp(name, "blackwell_dc") == 0 ? 2 * here - 2 : here; /* each generation has its own nvfp4 row */
  }
  ck_assert_uint_eq(count, expected);
  json_decref(document);
}
END_TEST

START_TEST(all_reduce_constants_are_those_of_the_table)
{
  static const struct {
    const char *link, *algorithm;
    unsigned devices;
    double values[3];
  } rows[] = {
#define LINEAR(class, precision, t0, ec, em)
#define DECODE(class, precision, t0, em)
#define PREFILL(class, t0, ec, em, p, a, d)
#define ALL_REDUCE(link, algorithm, devices, alpha, bandwidth, ramp)                                                   \
  {#link, #algorithm, devices, {alpha, bandwidth, ramp}},
#include "core/timing.def"
#undef LINEAR
#undef DECODE
#undef PREFILL
#undef ALL_REDUCE
  };
  static const char *const links[][2] = {{"NVLINK3", "nvlink3_a100"},
                                         {"NVLINK4", "nvlink4_hopper"},
                                         {"NVLINK5", "nvlink5_b200"},
                                         {"PCIE5", "pcie5_rtxpro6000"},
                                         {"PCIE4", "pcie4_l40s"}};
  json_t *document = constants(), *table = json_object_get(document, "allreduce");
  ck_assert_uint_eq(FIXTURE_COUNT(rows),
                    2 * 3 * json_object_size(table)); /* two algorithms, three numbers of devices */
  for (size_t i = 0; i < FIXTURE_COUNT(rows); i++) {
    const char *algorithm = strcmp(rows[i].algorithm, "CUSTOM") == 0 ? "vllm" : "nccl";
    char devices[8];
    json_t *values = NULL;
    (void)snprintf(devices, sizeof devices, "%u", rows[i].devices);
    for (size_t j = 0; j < FIXTURE_COUNT(links); j++)
      if (strcmp(links[j][0], rows[i].link) == 0)
        values = json_object_get(json_object_get(json_object_get(table, links[j][1]), algorithm), devices);
    ck_assert_msg(json_array_size(values) >= 3, "%s %s %u", rows[i].link, rows[i].algorithm, rows[i].devices);
    for (size_t j = 0; j < 3; j++)
      ck_assert_msg(fabs(json_number_value(json_array_get(values, j)) - rows[i].values[j]) <= 0, "%s %s %u [%zu]",
                    rows[i].link, rows[i].algorithm, rows[i].devices, j);
  }
  json_decref(document);
}
END_TEST

/* ---- measured operators ---- */

/* The profile, with the datasheet figures that the constants were fitted against (gpu_specs of constants.json). */
static struct hardware device_of(const char *gpu, const json_t *document)
{
  static const char *const names[][2] = {{"a100_sxm", "a100-sxm-80gb"},
                                         {"h100_sxm", "h100-sxm-80gb"},
                                         {"b200_sxm", "b200-sxm-180gb"},
                                         {"l40s", "l40s-48gb"}};
  json_t *specs = json_object_get(json_object_get(document, "gpu_specs"), gpu);
  for (size_t i = 0; i < FIXTURE_COUNT(names); i++)
    if (strcmp(names[i][0], gpu) == 0) {
      struct hardware hardware = fixture_hardware(names[i][1]);
      hardware.bf16_tflops = json_number_value(json_object_get(specs, "bf16")) / TERA;
      hardware.fp8_tflops = fixture_stated(json_number_value(json_object_get(specs, "fp8")) / TERA);
      hardware.fp4_tflops = fixture_stated(json_number_value(json_object_get(specs, "fp4")) / TERA);
      hardware.memory_bandwidth_gb_s = json_number_value(json_object_get(specs, "bw")) / GIGA;
      hardware.compute_units = json_number_value(json_object_get(specs, "sm"));
      return hardware;
    }
  ck_abort_msg("no device for %s", gpu);
  return fixture_hardware("h100-sxm-80gb");
}

enum column {
  GPU = 1,
  OP,
  PRECISION = 5,
  M,
  N,
  K,
  BATCH,
  SEQ,
  CTX,
  Q_HEADS,
  KV_HEADS,
  HEAD_DIM,
  NUM_GPUS = 22,
  BYTES,
  MEASURED_US,
  COLUMNS
};

static double number(char *const fields[COLUMNS], enum column column)
{
  char *end;
  const double value = strtod(fields[column], &end);
  ck_assert_msg(end != fields[column] && *end == '\0', "column %d is \"%s\"", (int)column, fields[column]);
  return value;
}

static enum precision format_of(const char *text)
{
  if (strcmp(text, "bfloat16") == 0 || strcmp(text, "bf16") == 0 || strcmp(text, "kv_bf16") == 0)
    return PRECISION_BF16;
  return strcmp(text, "nvfp4") == 0 ? PRECISION_NVFP4 : PRECISION_FP8;
}

/* Shapes as core/operators.h defines them; bytes and FLOPs by PREDICTOR §2a-2d. */
static struct op operator_of(char *const fields[COLUMNS])
{
  struct op op = {.precision = format_of(fields[PRECISION])};
  if (strcmp(fields[OP], "gemm") == 0) {
    op.form = FORM_LINEAR;
    op.rows = number(fields, M);
    op.outputs = number(fields, N);
    op.inputs = number(fields, K);
    op.flops = 2 * op.rows * op.outputs * op.inputs;
    op.weight_bytes = op.outputs * op.inputs * precision_weight_bytes(op.precision);
  } else if (strcmp(fields[OP], "attn_decode") == 0) {
    op.form = FORM_DECODE_ATTENTION;
    op.kv_bytes = number(fields, BATCH) * number(fields, KV_HEADS) * number(fields, HEAD_DIM) * 2 *
                  precision_element_bytes(op.precision) * number(fields, CTX);
  } else if (strcmp(fields[OP], "attn_prefill_causal") == 0) {
    const double b = number(fields, BATCH), s = number(fields, SEQ), h = number(fields, Q_HEADS),
                 d = number(fields, HEAD_DIM);
    op.form = FORM_PREFILL_ATTENTION;
    op.sequences = b;
    op.query_heads = h;
    op.head_dim = d;
    op.tokens_per_sequence = s;
    op.flops = 4 * b * h * d * (s * (s + 128) / 2);
    op.activation_bytes = 4 * b * s * h * d;
    op.kv_bytes = 4 * b * s * number(fields, KV_HEADS) * d;
  } else {
    op.form = FORM_ALL_REDUCE;
    op.devices = (unsigned)number(fields, NUM_GPUS);
    op.wire_bytes = 2 * (op.devices - 1.0) / op.devices * number(fields, BYTES);
  }
  return op;
}

static int compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* What PREDICTOR §2 states for held-out rows as median and 90th percentile; for all-reduce it gives the worst of the
   test errors, and twice that is taken as p90. */
struct stated {
  const char *gpu, *op, *precision;
  double median, p90;
};

/* With 95 % probability the median of n rows lies below their 0.5 + 0.82/√n quantile; read off between the stated median
   and p90. */
static double allowed(const struct stated *stated, size_t n)
{
  const double quantile = fmin(0.4, 0.82 / sqrt((double)n));
  return stated->median + (stated->p90 - stated->median) * quantile / 0.4;
}

static size_t errors_of(const struct stated *stated, double *errors, size_t most, const json_t *document)
{
  char *text = scratch_read_file(suite_source_path("tests/data/operators/ops_open.csv")), *line;
  const struct hardware hardware = device_of(stated->gpu, document);
  const struct model_precision precision = {.kv_cache = PRECISION_BF16};
  const struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
  size_t n = 0;
  while ((line = strsep(&text, "\n")) != NULL) {
    char *fields[COLUMNS];
    size_t columns = 0;
    while (columns < COLUMNS && (fields[columns] = strsep(&line, ",")) != NULL)
      columns++;
    if (columns < COLUMNS || strcmp(fields[GPU], stated->gpu) != 0 || strcmp(fields[OP], stated->op) != 0 ||
        strcmp(fields[PRECISION], stated->precision) != 0)
      continue;
    struct op op = operator_of(fields);
    timing_apply(&op, &device);
    ck_assert_uint_lt(n, most);
    errors[n++] = fabs((op.floor_s + op.work_s) / US / number(fields, MEASURED_US) - 1);
  }
  return n;
}

START_TEST(times_agree_with_measured_operators)
{
  static const struct stated table[] = {
      {"a100_sxm", "gemm", "bfloat16", .098, .239},
      {"h100_sxm", "gemm", "bfloat16", .055, .133},
      {"h100_sxm", "gemm", "fp8", .147, .426},
      {"b200_sxm", "gemm", "bfloat16", .065, .183},
      {"b200_sxm", "gemm", "fp8", .202, .544},
      {"b200_sxm", "gemm", "nvfp4", .120, .339},
      {"l40s", "gemm", "bfloat16", .081, .210},
      {"l40s", "gemm", "fp8", .140, .413},
      {"a100_sxm", "attn_decode", "kv_bf16", .070, .209},
      {"h100_sxm", "attn_decode", "kv_bf16", .064, .208},
      {"h100_sxm", "attn_decode", "kv_fp8", .064, .208},
      {"b200_sxm", "attn_decode", "kv_bf16", .077, .26},
      {"b200_sxm", "attn_decode", "kv_fp8", .077, .26},
      {"l40s", "attn_decode", "kv_bf16", .182, 1.22},
      {"l40s", "attn_decode", "kv_fp8", .182, 1.22},
      {"a100_sxm", "attn_prefill_causal", "bf16", .072, .382},
      {"h100_sxm", "attn_prefill_causal", "bf16", .081, .284},
      {"b200_sxm", "attn_prefill_causal", "bf16", .127, .378},
      {"l40s", "attn_prefill_causal", "bf16", .100, .459},
      {"a100_sxm", "all_reduce", "bf16", .10, .20},
      {"h100_sxm", "all_reduce", "bf16", .05, .10},
      {"b200_sxm", "all_reduce", "bf16", .05, .10},
  };
  json_t *document = constants();
  unsigned worse = 0;
  size_t rows = 0;
  printf("%-10s %-20s %-9s %3s %7s %7s %7s\n", "gpu", "operator", "format", "n", "median", "stated", "allowed");
  for (size_t i = 0; i < FIXTURE_COUNT(table); i++) {
    double errors[64], median;
    const size_t n = errors_of(&table[i], errors, FIXTURE_COUNT(errors), document);
    ck_assert_msg(n > 0, "no row of %s %s %s", table[i].gpu, table[i].op, table[i].precision);
    qsort(errors, n, sizeof errors[0], compare);
    median = (errors[(n - 1) / 2] + errors[n / 2]) / 2;
    printf("%-10s %-20s %-9s %3zu %7.3f %7.3f %7.3f%s\n", table[i].gpu, table[i].op, table[i].precision, n, median,
           table[i].median, allowed(&table[i], n), median > allowed(&table[i], n) ? " worse" : "");
    worse += median > allowed(&table[i], n);
    rows += n;
  }
  (void)fflush(stdout);
  ck_assert_uint_eq(rows, 250); /* all rows but those of routed experts (26) */
  ck_assert_msg(worse == 0, "%u of %zu figures are worse than stated", worse, FIXTURE_COUNT(table));
  json_decref(document);
}
END_TEST

/* ---- properties ---- */

static struct op linear(double rows, double inputs, double outputs, enum precision precision)
{
  const struct op op = {.form = FORM_LINEAR,
                        .precision = precision,
                        .rows = rows,
                        .inputs = inputs,
                        .outputs = outputs,
                        .flops = 2 * rows * inputs * outputs,
                        .weight_bytes = inputs * outputs * precision_weight_bytes(precision)};
  return op;
}

/* FLOPs over the peak of the format it runs in, weights over the bandwidth. */
static void assert_above_roofline(const struct op *op, const struct device *device, const char *name)
{
  const double peak = timing_peak_flops(op, device), time_s = op->floor_s + op->work_s;
  const double bytes = op->weight_bytes + op->kv_bytes + op->activation_bytes;
  ck_assert_msg(time_s > 0 && isfinite(time_s), "%s: %g s", name, time_s);
  ck_assert_msg(time_s >= op->flops / peak, "%s: %g s, compute alone %g", name, time_s, op->flops / peak);
  ck_assert_msg(time_s >= bytes / device->bandwidth_bytes_s, "%s: %g s, memory alone %g", name, time_s,
                bytes / device->bandwidth_bytes_s);
}

START_TEST(no_operator_is_faster_than_its_roofline)
{
  static const enum precision formats[] = {PRECISION_BF16,  PRECISION_FP16,  PRECISION_FP8,
                                           PRECISION_INT8,  PRECISION_INT4,  PRECISION_NF4,
                                           PRECISION_NVFP4, PRECISION_MXFP4, PRECISION_FP32};
  uint64_t seed = 7;
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t d = 0; d < count; d++) {
    const struct hardware hardware = fixture_hardware_of(&devices[d]);
    for (int i = 0; i < 2000; i++) {
      const struct model_precision precision = {.has_static_scales = i % 2 == 0};
      const struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
      const double heads = exp2(fixture_random_index(&seed, 8)), dim = 64 * exp2(fixture_random_index(&seed, 3));
      const double b = floor(exp(fixture_random(&seed, 0, 6))), s = floor(exp(fixture_random(&seed, 0, 11)));
      struct op op = linear(floor(exp(fixture_random(&seed, 0, 9))), 128 * exp2(fixture_random_index(&seed, 8)),
                            128 * exp2(fixture_random_index(&seed, 8)),
                            formats[fixture_random_index(&seed, FIXTURE_COUNT(formats))]);
      timing_apply(&op, &device);
      assert_above_roofline(&op, &device, hardware.name);
      op = (struct op){.form = FORM_PREFILL_ATTENTION,
                       .precision = PRECISION_BF16,
                       .sequences = b,
                       .query_heads = heads,
                       .head_dim = dim,
                       .tokens_per_sequence = s,
                       .flops = 4 * b * heads * dim * s * (s + 128) / 2,
                       .activation_bytes = 4 * b * s * heads * dim};
      timing_apply(&op, &device);
      assert_above_roofline(&op, &device, hardware.name);
      op = (struct op){.form = FORM_DECODE_ATTENTION,
                       .precision = i % 3 == 0 ? PRECISION_FP8 : PRECISION_BF16,
                       .kv_bytes = b * s * 4096};
      timing_apply(&op, &device);
      assert_above_roofline(&op, &device, hardware.name);
    }
  }
}
END_TEST

/* 8192 × 8192 × 8192 on H100 in bf16, by hand: 2·8192³ = 1.0995e12 FLOP over 989.5e12·0.8 = 1388.98 µs; memory 3 · 8192² · 2 B
   = 402.7 MB over 3350e9·0.845 = 142.2 µs; + 3.9 µs. Row 1: 134.2 MB of weights + 2·8192·2 B over the same: 47.43 µs. */
START_TEST(a_linear_by_hand)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model_precision precision = {0};
  const struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
  struct op op = linear(8192, 8192, 8192, PRECISION_BF16);
  timing_apply(&op, &device);
  assert_close(op.work_s / US, 1388.98, 1e-4);
  assert_close(op.floor_s / US, 3.9, 1e-9);
  ck_assert_int_eq(op.bound, BOUND_COMPUTE);
  op = linear(1, 8192, 8192, PRECISION_BF16);
  timing_apply(&op, &device);
  assert_close(op.work_s / US, 47.43, 1e-3);
  ck_assert_int_eq(op.bound, BOUND_MEMORY_BANDWIDTH);
}
END_TEST

/* fp8 on A100: no units for it, so the bytes of fp8 and the math, floor and efficiencies of bf16 (STEPMODEL §1.6). */
START_TEST(weight_only_formats_run_as_16_bit)
{
  const struct hardware hardware = fixture_hardware("a100-sxm-80gb");
  const struct model_precision precision = {0};
  const struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
  struct op fp8 = linear(8192, 8192, 8192, PRECISION_FP8), bf16 = linear(8192, 8192, 8192, PRECISION_BF16);
  timing_apply(&fp8, &device);
  timing_apply(&bf16, &device);
  assert_close(fp8.work_s, bf16.work_s, 1e-12); /* compute bound */
  assert_close(fp8.floor_s, bf16.floor_s, 1e-12);
  fp8 = linear(1, 8192, 8192, PRECISION_FP8);
  bf16 = linear(1, 8192, 8192, PRECISION_BF16);
  timing_apply(&fp8, &device);
  timing_apply(&bf16, &device);
  assert_close(fp8.work_s, bf16.work_s / 2, 1e-3); /* weight bound */
}
END_TEST

/* fp8 with static scales (STEPMODEL §1.5): t0 = bf16's 3.9 + 1, em = bf16's, ec at least 0.65 on Hopper. */
START_TEST(static_scales_save_the_quantisation_kernel)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  const struct model_precision dynamic = {0}, fixed = {.has_static_scales = true};
  const struct device slow = timing_device(&hardware, &dynamic, PRECISION_NONE),
                      fast = timing_device(&hardware, &fixed, PRECISION_NONE);
  struct op op = linear(8192, 8192, 8192, PRECISION_FP8);
  timing_apply(&op, &slow);
  assert_close(op.floor_s / US, 7.8, 1e-9);
  assert_close(op.work_s, 2 * pow(8192, 3) / (1979e12 * 0.44), 1e-9);
  timing_apply(&op, &fast);
  assert_close(op.floor_s / US, 4.9, 1e-9);
  assert_close(op.work_s, 2 * pow(8192, 3) / (1979e12 * 0.65), 1e-9);
}
END_TEST

START_TEST(more_bandwidth_or_flops_never_slows_an_operator)
{
  uint64_t seed = 11;
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t d = 0; d < count; d++)
    for (int i = 0; i < 300; i++) {
      const struct model_precision precision = {0};
      struct hardware hardware = fixture_hardware_of(&devices[d]), better = hardware;
      struct device device = timing_device(&hardware, &precision, PRECISION_NONE);
      struct op op =
          linear(floor(exp(fixture_random(&seed, 0, 9))), 4096, 4096, i % 2 == 0 ? PRECISION_BF16 : PRECISION_FP8);
      struct op same = op;
      timing_apply(&op, &device);
      if (i % 3 == 0)
        better.memory_bandwidth_gb_s *= 1.5;
      else
        better.bf16_tflops *= 1.5, better.fp16_tflops *= 1.5, better.fp8_tflops *= 1.5;
      device = timing_device(&better, &precision, PRECISION_NONE);
      timing_apply(&same, &device);
      ck_assert_msg(same.work_s <= op.work_s * (1 + 1e-12), "%s: %g s, with more %g s", hardware.name, op.work_s,
                    same.work_s);
    }
}
END_TEST

/* The derate is a share of the clock: compute time grows by its inverse, memory time stays. */
START_TEST(a_sustained_clock_slows_compute_alone)
{
  const struct model_precision precision = {0};
  struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  struct op op = linear(8192, 8192, 8192, PRECISION_BF16), thin = linear(1, 8192, 8192, PRECISION_BF16);
  struct device device;
  hardware.sustained_clock_fraction = 0.5;
  device = timing_device(&hardware, &precision, PRECISION_NONE);
  timing_apply(&op, &device);
  timing_apply(&thin, &device);
  assert_close(op.work_s / US, 2 * 1388.98, 1e-4);
  assert_close(thin.work_s / US, 47.43, 1e-3);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("timing");
  tcase_add_checked_fixture(tcase, NULL, scratch_release);
  tcase_add_test(tcase, operator_constants_are_those_of_the_table);
  tcase_add_test(tcase, no_constant_of_the_table_is_left_out);
  tcase_add_test(tcase, all_reduce_constants_are_those_of_the_table);
  tcase_add_test(tcase, times_agree_with_measured_operators);
  tcase_add_test(tcase, no_operator_is_faster_than_its_roofline);
  tcase_add_test(tcase, a_linear_by_hand);
  tcase_add_test(tcase, weight_only_formats_run_as_16_bit);
  tcase_add_test(tcase, static_scales_save_the_quantisation_kernel);
  tcase_add_test(tcase, more_bandwidth_or_flops_never_slows_an_operator);
  tcase_add_test(tcase, a_sustained_clock_slows_compute_alone);
  return fixture_run("core/timing", tcase);
}
