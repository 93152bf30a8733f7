/* Beside each linear layer two thin products, down to the rank and up again, that gather each sequence's own adapter. */
#include "core/adapters.h"

#include <math.h>

#define ELEMENT_BYTES 2.0 /* factors and activations are 16-bit */

/* Sequences use different adapters where they can: as many are read as there are sequences, at most all. */
static double adapters_read(const struct adapters *adapters, const struct step_shape *shape)
{
  const double prompts = shape->prefill_tokens > 0 ? shape->prefill_sequences : 0;
  return fmin(adapters->count, shape->decode_sequences + prompts);
}

/* Each fused slice has a factor of its own on the input side and reads the input for itself; the result is added to what the
   layer has written. */
static void add_linear(struct op *sum, const struct op *linear, double read, double rank, double launch_s)
{
  const double factors = linear->slices * linear->inputs + linear->outputs;
  sum->flops += 2 * sum->rows * rank * factors;
  sum->weight_bytes += read * rank * factors * ELEMENT_BYTES;
  sum->activation_bytes += sum->rows * (linear->slices * linear->inputs + 2 * linear->outputs) * ELEMENT_BYTES;
  sum->floor_s += 2 * launch_s;
}

/* A rank fills its share of a 64-wide tile; gathered reads of small matrices reach half of the bandwidth, as elementwise
   kernels do; each product has the floor of a 16-bit linear layer. */
bool adapters_operator(struct op *out, const struct adapters *adapters, const struct op *ops, size_t n,
                       const struct step_shape *shape, const struct device *device)
{
  const double tile = 64, full_tile_efficiency = 0.75;
  const double read = adapters_read(adapters, shape);
  struct op sum = {.name = "adapters", .group = OPERATOR_LINEAR, .form = FORM_STATED, .precision = PRECISION_BF16};
  sum.rows = operators_tokens(shape);
  sum.compute_efficiency = full_tile_efficiency * fmin(1, adapters->rank / tile);
  sum.memory_efficiency = 0.5;
  for (size_t i = 0; i < n; i++)
    if (ops[i].slices > 0)
      add_linear(&sum, &ops[i], read, adapters->rank, device->linear[PRECISION_BF16].t0_s);
  *out = sum;
  return sum.flops > 0;
}
