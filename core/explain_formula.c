/* The time of one execution as a short text. Efficiencies are those that the legs of the operator imply, so that the text
   can not differ from what was computed. */
#include "core/explain.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEG_SIZE 64

/* FLOPs / (peak × efficiency) */
static void compute_leg(char to[LEG_SIZE], const struct explain_operator *row, const struct engine *engine)
{
  const double peak = timing_peak_flops(&row->op, &engine->device);
  const double leg_s = row->compute_s - row->overhead_s;
  (void)snprintf(to, LEG_SIZE, "FLOPs / (%.4g TFLOP/s × %.3g)", peak / TERA, row->op.flops / leg_s / peak);
}

/* Linear layers read inputs in the format of their math and write 16 bits; other operators move what they list. */
static double moved_bytes(const struct explain_operator *row, const struct engine *engine)
{
  const struct op *op = &row->op;
  if (op->form != FORM_LINEAR)
    return op->weight_bytes + op->kv_bytes + op->activation_bytes;
  return op->weight_bytes +
         op->rows * (op->inputs * engine->device.linear[op->precision].input_bytes + 2 * op->outputs);
}

static void memory_leg(char to[LEG_SIZE], const struct explain_operator *row, const struct engine *engine)
{
  const double bandwidth = engine->device.bandwidth_bytes_s;
  const double leg_s = row->memory_s - row->overhead_s;
  (void)snprintf(to, LEG_SIZE, "bytes / (%.4g GB/s × %.3g)", bandwidth / GIGA,
                 moved_bytes(row, engine) / leg_s / bandwidth);
}

static void roofline(char to[EXPLAIN_FORMULA_SIZE], const char *join, const struct explain_operator *row,
                     const struct engine *engine)
{
  const bool has_compute = row->compute_s > row->overhead_s, has_memory = row->memory_s > row->overhead_s;
  char compute[LEG_SIZE] = "", memory[LEG_SIZE] = "", overhead[32] = "";
  if (has_compute)
    compute_leg(compute, row, engine);
  if (has_memory)
    memory_leg(memory, row, engine);
  if (row->overhead_s > 0)
    (void)snprintf(overhead, sizeof overhead, "%.3g µs + ", row->overhead_s / US);
  if (has_compute && has_memory)
    (void)snprintf(to, EXPLAIN_FORMULA_SIZE, "%s%s(%s, %s)", overhead, join, compute, memory);
  else
    (void)snprintf(to, EXPLAIN_FORMULA_SIZE, "%s%s%s", overhead, compute, memory);
}

static void all_reduce(char to[EXPLAIN_FORMULA_SIZE], const struct explain_operator *row)
{
  const struct op *op = &row->op;
  (void)snprintf(to, EXPLAIN_FORMULA_SIZE, "wire bytes / %.4g GB/s over %u devices; floor: %.3g µs latency of the link",
                 op->wire_bytes / op->work_s / GIGA, op->devices, op->floor_s / US);
}

static void hand_off(char to[EXPLAIN_FORMULA_SIZE], const struct explain_operator *row)
{
  const struct op *op = &row->op;
  (void)snprintf(to, EXPLAIN_FORMULA_SIZE,
                 "wire bytes / %.4g GB/s through %u stages; floor: %.3g µs latency of the links",
                 op->wire_bytes / op->work_s / GIGA, op->stages, op->floor_s / US);
}

/* A power cap slows the work, not its floor. */
static void put_clock(char to[EXPLAIN_FORMULA_SIZE], const struct op *op)
{
  const size_t used = strlen(to);
  if (op->capped_s > 0)
    (void)snprintf(to + used, EXPLAIN_FORMULA_SIZE - used, " / %.3g of the clock under the power cap",
                   1 - op->capped_s / op->work_s);
}

static void put_datasheet(char to[EXPLAIN_FORMULA_SIZE], const struct op *op)
{
  const size_t used = strlen(to);
  if (op->is_at_datasheet)
    (void)snprintf(to + used, EXPLAIN_FORMULA_SIZE - used, "; raised to what the datasheet allows");
}

void explain_formula(char to[EXPLAIN_FORMULA_SIZE], const struct explain_operator *row, const struct engine *engine)
{
  switch (row->op.form) {
  case FORM_LINEAR:
  case FORM_STATED:
  case FORM_DECODE_ATTENTION:
  case FORM_LATENT_PREFILL:
  case FORM_STREAM: roofline(to, "max", row, engine); break;
  case FORM_PREFILL_ATTENTION:
  case FORM_LATENT_DECODE:
  case FORM_EXPERTS: roofline(to, "p-norm", row, engine); break;
  case FORM_ALL_REDUCE: all_reduce(to, row); break;
  case FORM_HAND_OFF: hand_off(to, row); break;
  }
  put_clock(to, &row->op);
  put_datasheet(to, &row->op);
}

const char *explain_source(const struct explain_operator *row)
{
  switch (row->op.form) {
  case FORM_LINEAR: return "core/timing.def LINEAR";
  case FORM_DECODE_ATTENTION: return "core/timing.def DECODE";
  case FORM_PREFILL_ATTENTION:
  case FORM_LATENT_PREFILL: return "core/timing.def PREFILL";
  case FORM_LATENT_DECODE: return "core/timing.def LATENT";
  case FORM_EXPERTS: return "core/timing.def EXPERTS";
  case FORM_ALL_REDUCE: return "core/timing.def ALL_REDUCE";
  case FORM_HAND_OFF: return "core/collectives.c, a message between neighbours";
  case FORM_STREAM: return "core/timing.c, half of the bandwidth";
  case FORM_STATED: break;
  }
  return "stated with the operator, core/operators*.c";
}
