/* The names and bounds of canonical quantities. */
#include "api/observation.h"

#define QUANTITY(name, kind, min, max, sentence) {#name, QUANTITY_##kind, min, max, sentence},
const struct quantity gpu_quantities[GPU_QUANTITIES] = {
#include "api/gpu_quantity.def"
};
const struct quantity engine_quantities[ENGINE_QUANTITIES] = {
#include "api/engine_quantity.def"
};
#undef QUANTITY

const char *const engine_histogram_names[ENGINE_HISTOGRAMS] = {"ttft_ms",  "itl_ms",       "e2e_ms",
                                                               "queue_ms", "input_tokens", "output_tokens"};

const char *const throttle_names[9] = {"gpu_idle",   "clocks_setting", "power_cap",      "hw_slowdown",   "sync_boost",
                                       "sw_thermal", "hw_thermal",     "hw_power_brake", "display_clocks"};

const char *const observation_exporters[] = {"auto", "dcgm",   "nvidia_gpu", "mindprince", "amd",    "intel",  "node",
                                             "vllm", "sglang", "tgi",        "triton",     "trtllm", "dynamo", NULL};
