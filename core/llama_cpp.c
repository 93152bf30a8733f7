/* llama.cpp by two formulas. STEPMODEL §4: t = (weights + KV·context) / (BW·em) + c·layers, em 0.62 on HBM and 0.89 on GDDR,
   c 107 and 80 µs; prefill tok/s = ec·P / (2·parameters) with ec = 0.36·(P / 300T)^-0.52, 0.67 of it for 4-bit weights,
   n^0.23 over n devices (n^0.39 for models of 40 billion parameters and more). */
#include "core/llama_cpp.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

static bool has_hbm(const struct hardware *hardware)
{
  if (hardware->memory_type[0] != '\0')
    return strncmp(hardware->memory_type, "HBM", 3) == 0;
  return hardware->memory_bandwidth_gb_s > 1100;
}

/* The input embedding is a gather, not a product. */
static double body_parameters(const struct model *model)
{
  const struct parameter_counts counts = model_parameters(model);
  return (double)(model_parameters_active(model) - (model->has_tied_embeddings ? 0 : counts.embeddings));
}

double llama_cpp_token_s(const struct model *model, const struct hardware *hardware, double bytes_per_weight,
                         double context_tokens)
{
  const double efficiency = has_hbm(hardware) ? 0.62 : 0.89;
  const double layer_s = (has_hbm(hardware) ? 107 : 80) * US;
  const double bytes =
      body_parameters(model) * bytes_per_weight + model_kv_sequence_bytes(model, PRECISION_FP16, context_tokens);
  return bytes / (hardware_bandwidth_bytes_s(hardware) * efficiency) + layer_s * model->layer_count;
}

double llama_cpp_prefill_tok_s(const struct model *model, const struct hardware *hardware, double bytes_per_weight,
                               unsigned devices)
{
  const double peak =
      fmax(hardware_peak_flops(hardware, PRECISION_BF16), hardware_peak_flops(hardware, PRECISION_FP16));
  const double parameters = body_parameters(model);
  const double four_bit = bytes_per_weight < 1 ? 0.67 : 1;
  const double spread = pow(devices, parameters > 40e9 ? 0.39 : 0.23);
  return 0.36 * pow(peak / (300 * TERA), -0.52) * four_bit * spread * peak / (2 * parameters);
}
