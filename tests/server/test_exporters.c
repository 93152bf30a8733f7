/* Pages of every exporter (tests/data/exporters/samples), with quantities read from them by hand and converted with the units
   that the exporters' documents state. */
#include "server/exporters.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct exporters *exporters;
static struct reading *reading;
static const struct observation *seen;
static struct error e;

static void setup(void)
{
  ck_assert_int_eq(exporters_open(&exporters, &e), ERR_OK);
  reading = NULL;
}

static void teardown(void)
{
  reading_free(reading);
  exporters_close(exporters);
  scratch_release();
}

static int word_of(const char *exporter)
{
  int at = 0;
  while (strcmp(observation_exporters[at], exporter) != 0)
    at++;
  return at;
}

static void read_as(const char *text, size_t length, const char *exporter)
{
  struct exposition parser;
  reading_free(reading);
  ck_assert_int_eq(reading_new(&reading, exporters, word_of(exporter), &e), ERR_OK);
  ck_assert_int_eq(exposition_init(&parser, EXPOSITION_TEXT, EXPOSITION_LIMITS_DEFAULT, reading_sink(reading), &e),
                   ERR_OK);
  ck_assert_msg(exposition_feed(&parser, text, length, &e) == ERR_OK, "%s", e.message);
  ck_assert_msg(exposition_finish(&parser, &e) == ERR_OK, "%s", e.message);
  exposition_fini(&parser);
  ck_assert_int_eq(reading_finish(&seen, reading, &e), ERR_OK);
}

static void read_text(const char *text)
{
  read_as(text, strlen(text), "auto");
}

static void read_sample(const char *file)
{
  read_text(scratch_read_file(suite_source_path(scratch_printf("tests/data/exporters/samples/%s.prom", file))));
}

static const struct observed_gpu *gpu(const char *id)
{
  for (size_t i = 0; i < seen->gpu_count; i++)
    if (strcmp(seen->gpus[i].id, id) == 0)
      return &seen->gpus[i];
  ck_abort_msg("there is no GPU %s", id);
}

static void is(const char *id, enum gpu_quantity quantity, double value)
{
  const double is_seen = gpu(id)->quantities[quantity];
  ck_assert_msg(fabs(is_seen - value) <= 1e-9 * fabs(value), "%s of %s is %.12g, not %.12g",
                gpu_quantities[quantity].name, id, is_seen, value);
}

static void is_unknown(const char *id, enum gpu_quantity quantity)
{
  ck_assert_msg(isnan(gpu(id)->quantities[quantity]), "%s of %s is %g", gpu_quantities[quantity].name, id,
                gpu(id)->quantities[quantity]);
}

static void engine_is(enum engine_quantity quantity, double value)
{
  const double is_seen = seen->engine.quantities[quantity];
  ck_assert_msg(fabs(is_seen - value) <= 1e-9 * fabs(value), "%s is %.12g, not %.12g", engine_quantities[quantity].name,
                is_seen, value);
}

static void total_is(enum engine_histogram histogram, double total, double mean)
{
  const struct buckets *buckets = &seen->engine.histograms[histogram];
  ck_assert_msg(fabs(buckets_total(buckets) - total) < 0.5, "%s has %g", engine_histogram_names[histogram],
                buckets_total(buckets));
  ck_assert_msg(fabs(buckets_mean(buckets) - mean) <= 1e-6 * mean, "%s has the mean %.12g",
                engine_histogram_names[histogram], buckets_mean(buckets));
}

static void quantile_is(enum engine_histogram histogram, double quantile, double lower, double upper)
{
  const struct bucket_bounds bounds = buckets_quantile(&seen->engine.histograms[histogram], quantile);
  ck_assert_double_eq_tol(bounds.lower, lower, 1e-9);
  if (isinf(upper))
    ck_assert(isinf(bounds.upper));
  else
    ck_assert_double_eq_tol(bounds.upper, upper, 1e-9);
}

/* ---- GPUs ---- */

START_TEST(dcgm_of_today)
{
  read_sample("dcgm-exporter__HEAD-shape-mig-k8s-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "dcgm");
  ck_assert_uint_eq(seen->gpu_count, 4);
  ck_assert_str_eq(gpu("0")->uuid, "GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
  ck_assert_str_eq(gpu("0")->model, "NVIDIA H100 80GB HBM3");
  ck_assert_str_eq(gpu("0")->driver, "580.95.05");
  ck_assert_str_eq(gpu("0")->bus, "00000000:1B:00.0");
  ck_assert(!gpu("0")->is_partition);
  is("0", GPU_sm_clock_mhz, 1410);
  is("0", GPU_sm_clock_max_mhz, 1980);
  is("0", GPU_temperature_c, 83);
  is("0", GPU_memory_temperature_c, 94);
  is("0", GPU_power_w, 698.412);
  is("0", GPU_power_limit_w, 700);
  is("0", GPU_energy_j, 918273645.12);
  is("0", GPU_utilisation_ratio, 0.99);
  is("0", GPU_memory_copy_ratio, 0.61);
  is("0", GPU_memory_used_gib, 76944.0 / 1024);
  is("0", GPU_memory_free_gib, 4051.0 / 1024);
  is("0", GPU_memory_total_gib, 81559.0 / 1024);
  is("0", GPU_throttle_reasons, THROTTLE_POWER_CAP | THROTTLE_SW_THERMAL); /* 36 */
  is("0", GPU_power_throttle_s, 73.400123456);
  is_unknown("2", GPU_memory_temperature_c); /* blank: 2^63 */
  is("2", GPU_power_limit_w, 350);           /* enforced, not the 700 requested */
}
END_TEST

START_TEST(dcgm_in_parts)
{
  read_sample("dcgm-exporter__HEAD-shape-mig-k8s-SYNTHETIC");
  ck_assert(gpu("1.7")->is_partition);
  ck_assert_str_eq(gpu("1.7")->partition, "1g.10gb");
  is("1.7", GPU_memory_total_gib, 9856.0 / 1024);
  is("1.2", GPU_memory_total_gib, 40448.0 / 1024);
  is("1.7", GPU_power_w, 212.007);
  is_unknown("1.7", GPU_utilisation_ratio); /* instances have none */
}
END_TEST

START_TEST(dcgm_of_old)
{
  read_sample("dcgm-exporter__t4-driver460-470-datadog-fixture");
  ck_assert_uint_ge(seen->gpu_count, 1);
  ck_assert_str_eq(gpu("0")->model, "Tesla T4");
  is("0", GPU_sm_clock_mhz, 300);
  is("0", GPU_memory_clock_mhz, 405);
  is("0", GPU_power_w, 8.969);
  is("0", GPU_energy_j, 128996.013);
  is_unknown("0", GPU_memory_temperature_c);
  is_unknown("0", GPU_tensor_active_ratio);
}
END_TEST

START_TEST(nvidia_gpu_exporter_under_load)
{
  read_sample("nvidia_gpu_exporter__linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load");
  ck_assert_str_eq(seen->exporters, "nvidia_gpu");
  ck_assert_uint_eq(seen->gpu_count, 1);
  ck_assert_str_eq(gpu("0")->driver, "590.48.01");
  ck_assert_str_eq(gpu("0")->model, "NVIDIA H100 80GB HBM3");
  is("0", GPU_utilisation_ratio, 1);
  is("0", GPU_memory_copy_ratio, 0.11);
  is("0", GPU_sm_clock_mhz, 1980); /* 1.98e9 Hz under a help text that says MHz */
  is("0", GPU_sm_clock_max_mhz, 1980);
  is("0", GPU_memory_clock_mhz, 2619);
  is("0", GPU_memory_total_gib, 85520809984.0 / 1073741824);
  is("0", GPU_memory_used_gib, 20780679168.0 / 1073741824);
  is("0", GPU_power_w, 631.95);
  is("0", GPU_power_limit_w, 700);
  is("0", GPU_temperature_c, 59); /* not 26, the margin to the limit */
  is("0", GPU_memory_temperature_c, 54);
  is("0", GPU_throttle_reasons, 0);
  is("0", GPU_power_throttle_s, 0);
  is("0", GPU_pcie_link_width, 16);
  is_unknown("0", GPU_energy_j);
}
END_TEST

START_TEST(nvidia_gpu_exporter_elsewhere)
{
  static const char *const files[] = {
      "linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05__load",
      "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__idle", "linux-x86_64__nvidia-h100-mig__590.48.01__load",
      "linux-x86_64__nvidia-l40s__595.80__load", "windows-x86_64__nvidia-geforce-rtx-2080-super__591.86__load"};
  /* memory total of each page in MiB, and what it draws */
  static const double expected[][2] = {{16376, 84.24}, {81559, 69.85}, {81559, 433.78}, {46068, 110.23}, {8192, 97.43}};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    read_sample(scratch_printf("nvidia_gpu_exporter__%s", files[i]));
    ck_assert_uint_eq(seen->gpu_count, 1);
    is("0", GPU_memory_total_gib, expected[i][0] / 1024);
    is("0", GPU_power_w, expected[i][1]);
  }
}
END_TEST

START_TEST(mindprince)
{
  read_sample("mindprince-nvidia_gpu_prometheus_exporter__shape-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "mindprince");
  ck_assert_str_eq(gpu("0")->model, "Tesla V100-SXM2-16GB");
  is("0", GPU_utilisation_ratio, 0.93);
  is("0", GPU_power_w, 287.113);
  is("0", GPU_memory_total_gib, 16945512448.0 / 1073741824);
  is("0", GPU_memory_used_gib, 14); /* 15032385536 = 14 × 2^30 */
  is("0", GPU_temperature_c, 64);
}
END_TEST

START_TEST(amd_in_parts)
{
  read_sample("amd-device-metrics-exporter__cpx-shape-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "amd");
  ck_assert_uint_eq(seen->gpu_count, 2);
  ck_assert_str_eq(gpu("0")->partition, "cpx");
  is("0", GPU_power_w, 612);
  is("0", GPU_energy_j, 148393029);
  is("0", GPU_utilisation_ratio, 0.87);
  is("0", GPU_dram_active_ratio, 0.41);
  is("0", GPU_memory_total_gib, 24564.0 / 1024);
  is("0", GPU_sm_clock_mhz, 2101); /* mean of 2104 and 2098 */
  is("0", GPU_memory_clock_mhz, 1300);
  is("0", GPU_temperature_c, 71);
  is_unknown("1", GPU_power_w); /* part 1 shows 0 */
  is("1", GPU_memory_used_gib, 19.0 / 1024);
}
END_TEST

START_TEST(amd_of_old)
{
  read_sample("amd-device-metrics-exporter__metrics_mini");
  ck_assert_uint_eq(seen->gpu_count, 1);
  is("6699c0a8-4200-4242-037f-f97e6cae0f09", GPU_power_w, 41);
  is("6699c0a8-4200-4242-037f-f97e6cae0f09", GPU_memory_total_gib, 68702e6 / 1073741824);
  is("6699c0a8-4200-4242-037f-f97e6cae0f09", GPU_utilisation_ratio, 0);
}
END_TEST

START_TEST(intel)
{
  read_sample("intel-xpumd-2.x__shape-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "intel");
  ck_assert_str_eq(gpu("0000-4d-00.0")->model, "Intel(R) Data Center GPU Max 1550");
  is("0000-4d-00.0", GPU_utilisation_ratio, 0.77);
  is("0000-4d-00.0", GPU_power_w, 421.5);
  is("0000-4d-00.0", GPU_energy_j, 9182311);
  is("0000-4d-00.0", GPU_sm_clock_mhz, 1600);
  is("0000-4d-00.0", GPU_memory_total_gib, 64);
  is("0000-4d-00.0", GPU_memory_used_gib, 32);
  is("0000-4d-00.0", GPU_temperature_c, 61);
}
END_TEST

START_TEST(no_gpu_is_no_gpu)
{
  read_sample("node_exporter-1.5.0-debian12");
  ck_assert_uint_eq(seen->gpu_count, 0);
  ck_assert(!seen->engine.is_seen);
  ck_assert_uint_eq(seen->recognised_count, 0);
  ck_assert_uint_gt(seen->sample_count, 500);
  read_sample("prometheus-2.42.0-federate-timestamps");
  ck_assert_uint_eq(seen->gpu_count, 0);
  ck_assert_uint_eq(seen->sample_count, 13);
}
END_TEST

START_TEST(amdgpu_on_node_exporter)
{
  read_text(
      "node_drm_gpu_busy_percent{card=\"card0\"} 42\nnode_drm_memory_vram_size_bytes{card=\"card0\"} 1.7179869184e+10\n"
      "node_drm_memory_vram_used_bytes{card=\"card0\"} 8.589934592e+09\n");
  is("card0", GPU_utilisation_ratio, 0.42);
  is("card0", GPU_memory_total_gib, 16);
  is("card0", GPU_memory_used_gib, 8);
}
END_TEST

/* ---- Engines ---- */

START_TEST(vllm_of_today)
{
  read_sample("vllm__v1-shape-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "vllm");
  ck_assert_str_eq(seen->engine.model, "meta-llama/Llama-3.1-70B-Instruct");
  engine_is(ENGINE_requests_running, 83); /* 41 + 42 */
  engine_is(ENGINE_requests_waiting, 3);
  engine_is(ENGINE_kv_cache_usage_ratio, 0.8125); /* the fuller of two, not their sum */
  engine_is(ENGINE_input_tokens_total, 46230000);
  engine_is(ENGINE_output_tokens_total, 10251000);
  engine_is(ENGINE_requests_succeeded, 9812); /* 9000 stop + 812 length */
  engine_is(ENGINE_requests_failed, 44);      /* abort */
  engine_is(ENGINE_preemptions, 34.17);
  engine_is(ENGINE_prefix_hits_tokens, 16281000);
  total_is(HISTOGRAM_ttft_ms, 900, 1000 * 423.9007827294525 / 900);
  total_is(HISTOGRAM_itl_ms, 900, 1000 * 31.560601204488126 / 900);
  total_is(HISTOGRAM_e2e_ms, 900, 1000 * 9500.829356412058 / 900);
  total_is(HISTOGRAM_queue_ms, 900, 1000 * 219.48024952228664 / 900);
}
END_TEST

START_TEST(vllm_of_old)
{
  read_sample("vllm__v0-opt-125m-datadog-fixture");
  ck_assert_str_eq(seen->engine.model, "facebook/opt-125m");
  engine_is(ENGINE_requests_running, 0);
  engine_is(ENGINE_kv_cache_usage_ratio, 0);
  engine_is(ENGINE_input_tokens_total, 5);
  engine_is(ENGINE_output_tokens_total, 7);
  engine_is(ENGINE_requests_succeeded, 1);
  total_is(HISTOGRAM_ttft_ms, 1, 313.26723098754883);
  total_is(HISTOGRAM_itl_ms, 6, 1000 * 0.19016313552856445 / 6);
  total_is(HISTOGRAM_input_tokens, 1, 5);
  quantile_is(HISTOGRAM_ttft_ms, 0.5, 250, 500); /* 0.313 s between the bounds 0.25 and 0.5 */
}
END_TEST

START_TEST(sglang)
{
  read_sample("sglang__docs-production-metrics");
  engine_is(ENGINE_requests_running, 162);
  engine_is(ENGINE_requests_waiting, 2826);
  engine_is(ENGINE_kv_cache_usage_ratio, 0.28);
  engine_is(ENGINE_output_tokens_total, 7557572);
  total_is(HISTOGRAM_ttft_ms, 11008, 1000 * 2.3518979474117756e+06 / 11008);
  quantile_is(HISTOGRAM_ttft_ms, 0.5, 30000, (double)INFINITY); /* 77 % lie beyond the last bound */
}
END_TEST

START_TEST(sglang_ranks_repeat)
{
  read_text("sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:num_running_reqs{tp_rank=\"1\"} 5\n");
  engine_is(ENGINE_requests_running, 5);
}
END_TEST

START_TEST(tgi)
{
  read_sample("tgi__shape-SYNTHETIC");
  ck_assert_str_eq(seen->exporters, "tgi");
  engine_is(ENGINE_requests_running, 16);
  engine_is(ENGINE_requests_waiting, 3);
  engine_is(ENGINE_requests_succeeded, 1488);
  engine_is(ENGINE_requests_failed, 14);
}
END_TEST

START_TEST(triton)
{
  read_sample("triton-trtllm__shape-SYNTHETIC");
  ck_assert_uint_eq(seen->gpu_count, 1);
  is("GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", GPU_utilisation_ratio, 0.97);
  is("GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", GPU_power_w, 655.327);
  is("GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", GPU_power_limit_w, 700);
  is("GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", GPU_energy_j, 1283712.204);
  engine_is(ENGINE_requests_running, 37);
  engine_is(ENGINE_requests_waiting, 4);
  engine_is(ENGINE_kv_cache_usage_ratio, 0.42);
  engine_is(ENGINE_requests_succeeded, 1402);
  engine_is(ENGINE_requests_failed, 10);
}
END_TEST

/* ---- What must not be believed ---- */

START_TEST(absent_blank_and_zero_are_three_things)
{
  read_text("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 0\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} 4294967295\n"
            "DCGM_FI_DEV_FB_USED{gpu=\"1\"} 2147483632\nDCGM_FI_PROF_DRAM_ACTIVE{gpu=\"1\"} 140737488355328\n"
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"1\"} 9223372036854775794\n"
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 5551899580\n");
  is("0", GPU_utilisation_ratio, 0);
  is_unknown("0", GPU_memory_used_gib);
  is_unknown("1", GPU_utilisation_ratio);
  is_unknown("1", GPU_memory_used_gib);
  is_unknown("1", GPU_dram_active_ratio);
  is_unknown("1", GPU_energy_j);
  is("0", GPU_energy_j, 5551899.58); /* past 2^31 mJ, and real */
  ck_assert_uint_eq(seen->out_of_range_count, 4);
}
END_TEST

START_TEST(old_and_new_names)
{
  read_text("DCGM_FI_DEV_BOARD_POWER_WATTS{gpu=\"0\"} 300\nDCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu=\"0\"} 0.5\n"
            "dcgm_gpu_utilization{gpu=\"1\",uuid=\"GPU-x\"} 50\namd_gpu_gfx_activity{gpu_id=\"2\"} 25\n");
  is("0", GPU_power_w, 300);
  is("0", GPU_tensor_active_ratio, 0.5);
  is("1", GPU_utilisation_ratio, 0.5);
  is("2", GPU_utilisation_ratio, 0.25);
}
END_TEST

START_TEST(the_better_metric_wins_in_any_order)
{
  static const char *const lines[] = {"nvidia_smi_power_limit_watts{uuid=\"a\"} 700\n",
                                      "nvidia_smi_enforced_power_limit_watts{uuid=\"a\"} 450\n"};
  for (int first = 0; first < 2; first++) {
    read_text(scratch_printf("%s%s", lines[first], lines[1 - first]));
    is("a", GPU_power_limit_w, 450);
  }
}
END_TEST

START_TEST(clock_events_become_flags)
{
  read_text("DCGM_EXP_CLOCK_EVENTS_COUNT{gpu=\"0\",clock_event=\"sw_thermal\",window_size_in_ms=\"300000\"} 3\n"
            "DCGM_EXP_CLOCK_EVENTS_COUNT{gpu=\"0\",clock_event=\"power_cap\",window_size_in_ms=\"300000\"} 1\n"
            "DCGM_EXP_CLOCK_EVENTS_COUNT{gpu=\"0\",clock_event=\"hw_thermal\",window_size_in_ms=\"300000\"} 0\n"
            "DCGM_FI_DEV_SM_CLOCK{gpu=\"1\"} 1980\n");
  is("0", GPU_throttle_reasons, THROTTLE_SW_THERMAL | THROTTLE_POWER_CAP);
  is_unknown("1", GPU_throttle_reasons);
}
END_TEST

START_TEST(openmetrics_spelling_of_vllm)
{
  read_text("vllm_num_requests_running{engine=\"0\"} 7\nvllm:lora_requests_info{max_lora=\"4\"} 1.79e9\n");
  engine_is(ENGINE_requests_running, 7);
  ck_assert_uint_eq(seen->recognised_count, 1);
}
END_TEST

START_TEST(both_histograms_of_a_rename)
{
  read_text(
      "vllm:time_per_output_token_seconds_bucket{le=\"0.05\"} "
      "1\nvllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 2\n"
      "vllm:inter_token_latency_seconds_bucket{le=\"0.01\"} 5\nvllm:inter_token_latency_seconds_bucket{le=\"+Inf\"} 5\n"
      "vllm:time_per_output_token_seconds_bucket{le=\"0.1\"} 2\n");
  ck_assert_double_eq(buckets_total(&seen->engine.histograms[HISTOGRAM_itl_ms]), 5);
  quantile_is(HISTOGRAM_itl_ms, 0.5, 0, 10);
}
END_TEST

START_TEST(only_the_exporter_that_was_named)
{
  const char *text = "nv_gpu_power_usage{gpu_uuid=\"a\"} 100\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 90\n";
  read_as(text, strlen(text), "dcgm");
  ck_assert_uint_eq(seen->gpu_count, 1);
  is("0", GPU_power_w, 90);
}
END_TEST

START_TEST(too_many_devices_are_left_out)
{
  const char *text = "";
  const struct reading_note *notes;
  for (unsigned i = 0; i < EXPORTER_GPUS_MAX + 5; i++)
    text = scratch_printf("%sDCGM_FI_DEV_GPU_TEMP{gpu=\"%u\"} 40\n", text, i);
  read_text(text);
  ck_assert_uint_eq(seen->gpu_count, EXPORTER_GPUS_MAX);
  ck_assert_uint_eq(reading_notes(&notes, reading), 1);
}
END_TEST

START_TEST(device_ids_are_path_segments)
{
  read_text("DCGM_FI_DEV_GPU_TEMP{gpu=\"a/b c\"} 40\nDCGM_FI_DEV_GPU_TEMP{pod=\"x\"} 40\n");
  ck_assert_uint_eq(seen->gpu_count, 1);
  ck_assert_str_eq(seen->gpus[0].id, "a-b-c");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("exporters");
  TCase *gpus = suite_case(suite, "gpus", setup, teardown);
  TCase *engines = suite_case(suite, "engines", setup, teardown);
  TCase *doubts = suite_case(suite, "doubts", setup, teardown);
  tcase_add_test(gpus, dcgm_of_today);
  tcase_add_test(gpus, dcgm_in_parts);
  tcase_add_test(gpus, dcgm_of_old);
  tcase_add_test(gpus, nvidia_gpu_exporter_under_load);
  tcase_add_test(gpus, nvidia_gpu_exporter_elsewhere);
  tcase_add_test(gpus, mindprince);
  tcase_add_test(gpus, amd_in_parts);
  tcase_add_test(gpus, amd_of_old);
  tcase_add_test(gpus, intel);
  tcase_add_test(gpus, no_gpu_is_no_gpu);
  tcase_add_test(gpus, amdgpu_on_node_exporter);
  tcase_add_test(engines, vllm_of_today);
  tcase_add_test(engines, vllm_of_old);
  tcase_add_test(engines, sglang);
  tcase_add_test(engines, sglang_ranks_repeat);
  tcase_add_test(engines, tgi);
  tcase_add_test(engines, triton);
  tcase_add_test(doubts, absent_blank_and_zero_are_three_things);
  tcase_add_test(doubts, old_and_new_names);
  tcase_add_test(doubts, the_better_metric_wins_in_any_order);
  tcase_add_test(doubts, clock_events_become_flags);
  tcase_add_test(doubts, openmetrics_spelling_of_vllm);
  tcase_add_test(doubts, both_histograms_of_a_rename);
  tcase_add_test(doubts, only_the_exporter_that_was_named);
  tcase_add_test(doubts, too_many_devices_are_left_out);
  tcase_add_test(doubts, device_ids_are_path_segments);
  return suite_run(suite);
}
