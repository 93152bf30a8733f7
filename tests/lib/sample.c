/* A support chat on Llama-3.1-70B: 2,048 tokens in, 256 out, two requests a second. */
#include "tests/lib/sample.h"

#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/web.h"

#include <check.h>

const char *sample_sketch(const struct sample_sketch *sketch)
{
  return scratch_printf("{\"workload\":\"%s\",\"model\":\"%s\",\"traffic\":{\"input_tokens\":%d,\"output_tokens\":%d,"
                        "\"requests_per_s\":%.6g}%s%s}",
                        sketch->workload != NULL ? sketch->workload : "support-chat",
                        sketch->model != NULL ? sketch->model : "llama-3.1-70b",
                        sketch->input_tokens != 0 ? sketch->input_tokens : 2048,
                        sketch->output_tokens != 0 ? sketch->output_tokens : 256,
                        sketch->requests_per_s > 0 ? sketch->requests_per_s : 2.0, sketch->more != NULL ? "," : "",
                        sketch->more != NULL ? sketch->more : "");
}

const char *sample_sketch_with(const char *more)
{
  return sample_sketch(&(struct sample_sketch){.more = more});
}

const char *sample_profile(double memory_bandwidth_gb_s, const char *price_usd_per_hour)
{
  return scratch_printf(
      "{\"name\":\"NVIDIA H100 SXM5 "
      "80GB\",\"vendor\":\"NVIDIA\",\"architecture\":\"Hopper\",\"compute_capability\":\"9.0\","
      "\"memory_nominal_gb\":80,\"memory_usable_mib\":81559,\"memory_engine_mib\":81091,\"memory_gib\":79.65,"
      "\"memory_type\":\"HBM3\",\"memory_bandwidth_gb_s\":%.6g,"
      "\"peak_tflops_dense\":{\"fp64\":34,\"fp32\":67,\"tf32\":494.5,\"bf16\":989.5,\"fp16\":989.5,\"fp8\":1979,"
      "\"int8\":1979,\"fp4\":null},"
      "\"supported_precisions\":[\"fp64\",\"fp32\",\"tf32\",\"bf16\",\"fp16\",\"fp8\",\"int8\"],"
      "\"interconnect\":{\"kind\":\"NVLink4\",\"topology\":\"switched\",\"domain_size\":8,"
      "\"bidirectional_gb_s_per_gpu\":900,\"unidirectional_gb_s_per_gpu\":450.0},"
      "\"pcie_gen\":5,\"tdp_w\":700,\"compute_units\":132,\"boost_clock_mhz\":1980,\"thermal_slowdown_c\":null,"
      "\"price_usd_per_hour\":%s,\"confidence\":\"high\"}",
      memory_bandwidth_gb_s, price_usd_per_hour);
}

json_t *sample_evaluate(const struct daemon *daemon, const char *sketch)
{
  return web_post_created(daemon, "/v1/evaluations", sketch);
}

json_t *sample_scorecard(const struct daemon *daemon, const char *sketch)
{
  const json_t *evaluation = sample_evaluate(daemon, sketch);
  ck_assert_uint_eq(json_array_size(doc_array(evaluation, "scorecards")), 1);
  return doc_at(evaluation, "scorecards.0");
}
