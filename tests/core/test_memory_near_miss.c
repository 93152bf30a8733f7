/* What a near miss reports, checked by applying it: each way out fits, and one step further does not. */
#include "core/memory.h"

#include "tests/core/fixtures.h"

struct setting {
  struct hardware hardware;
  struct model model;
  struct layout layout;
  struct model_precision precision;
  struct preset preset;
  struct memory_case c;
};

static void set(struct setting *s, const char *device, const char *model)
{
  memset(s, 0, sizeof *s);
  s->hardware = fixture_hardware(device);
  s->model = fixture_model(model);
  s->layout = (struct layout){1, 1, 1, 1};
  fixture_set_precision(&s->precision, PRECISION_BF16);
  s->preset = fixture_preset(&s->hardware, "vllm", "0.19");
  s->c = (struct memory_case){.model = &s->model,
                              .hardware = &s->hardware,
                              .layout = &s->layout,
                              .precision = &s->precision,
                              .preset = &s->preset};
}

static double missing(struct setting *s, double tokens)
{
  struct memory_plan plan;
  memory_plan_of(&plan, &s->c);
  return memory_sequence_bytes(&s->model, &s->layout, &s->precision, &s->preset, tokens) - plan.kv_cache_bytes;
}

START_TEST(what_fits_lacks_nothing)
{
  struct setting s;
  struct memory_near_miss out;
  set(&s, "h100-sxm-80gb", "llama-3.1-8b");
  memory_near_miss(&out, &s.c, 4096);
  ck_assert(out.fits && !out.is_near);
  ck_assert(out.missing_bytes <= 0 && out.missing_ratio <= 0);
  assert_close(out.longest_tokens, 4096, 1e-12);
  ck_assert_uint_eq(out.largest_max_batch, 1024);
}
END_TEST

/* qwen3-14b in bf16 on an L40S: 0.9 · 44.42 GiB less 27.52 + 0.56 + 0.25 leaves 11.65 GiB; 80,000 tokens of 160 KiB need
   12.21 GiB: 0.56 GiB are missing, 1.3 % of the device. */
START_TEST(every_way_out_fits_and_no_more)
{
  struct setting s;
  struct memory_near_miss out;
  set(&s, "l40s-48gb", "qwen3-14b");
  memory_near_miss(&out, &s.c, 80000);
  ck_assert(!out.fits && out.is_near);
  assert_close(out.missing_bytes / GIB, 0.56, 0.05);
  assert_close(out.missing_bytes, missing(&s, 80000), 1e-12);
  ck_assert(missing(&s, out.longest_tokens) <= 0 && missing(&s, out.longest_tokens + 16) > 0);
  s.preset.memory_fraction_ratio = out.needed_fraction_ratio;
  ck_assert(fabs(missing(&s, 80000)) < 1);
  ck_assert_uint_eq(out.largest_max_batch, 0); /* the sampler alone is not what is missing */
}
END_TEST

/* Where the sampler takes what is missing, a smaller limit gives it back. */
START_TEST(a_smaller_batch_limit_can_be_enough)
{
  struct setting s;
  struct memory_near_miss out;
  double tokens;
  set(&s, "h100-sxm-80gb", "qwen3-14b");
  memory_near_miss(&out, &s.c, 1e6);
  tokens = out.longest_tokens + 16 * 256; /* 0.63 GiB more than fit */
  memory_near_miss(&out, &s.c, tokens);
  ck_assert(!out.fits && out.is_near && out.largest_max_batch > 0 && out.largest_max_batch < 1024);
  s.preset.max_batch = out.largest_max_batch;
  ck_assert(missing(&s, tokens) <= 0);
  s.preset.max_batch++;
  ck_assert(missing(&s, tokens) > 0);
}
END_TEST

/* 70B in bf16 on 80 GB misses by more than its own size: not near, and nothing helps. */
START_TEST(a_far_miss_has_no_way_out)
{
  struct setting s;
  struct memory_near_miss out;
  set(&s, "h100-sxm-80gb", "llama-3.1-70b");
  memory_near_miss(&out, &s.c, 2048);
  ck_assert(!out.fits && !out.is_near && out.missing_ratio > 0.5);
  ck_assert(out.longest_tokens <= 0 && out.largest_max_batch == 0 && out.largest_batched_tokens == 0);
  ck_assert(isnan(out.needed_fraction_ratio));
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("memory_near_miss");
  tcase_add_test(tcase, what_fits_lacks_nothing);
  tcase_add_test(tcase, every_way_out_fits_and_no_more);
  tcase_add_test(tcase, a_smaller_batch_limit_can_be_enough);
  tcase_add_test(tcase, a_far_miss_has_no_way_out);
  return fixture_run("core/memory_near_miss", tcase);
}
