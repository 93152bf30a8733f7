/* Choosing a quote and dividing the bill. */
#include "core/cost.h"

#include "core/units.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const char *commitment_of(const struct hardware_price *quote)
{
  return quote->commitment[0] != '\0' ? quote->commitment : "on_demand";
}

static bool is_wanted(const struct hardware_price *quote, const struct workload_constraints *constraints)
{
  const char *commitment = constraints->price_commitment[0] != '\0' ? constraints->price_commitment : "on_demand";
  if (strcasecmp(commitment_of(quote), commitment) != 0)
    return false;
  return constraints->price_cloud[0] == '\0' || strcasecmp(quote->cloud, constraints->price_cloud) == 0;
}

/* Lower median of the wanted quotes by rank; ties among equal prices are broken by the smaller rented unit. */
static double median_usd(const struct hardware *hardware, const struct workload_constraints *constraints,
                         unsigned wanted)
{
  for (unsigned i = 0; i < hardware->price_count; i++) {
    const double candidate = hardware->prices[i].usd_per_accelerator_hour;
    unsigned below = 0, equal = 0;
    if (!is_wanted(&hardware->prices[i], constraints))
      continue;
    for (unsigned j = 0; j < hardware->price_count; j++) {
      if (!is_wanted(&hardware->prices[j], constraints))
        continue;
      below += hardware->prices[j].usd_per_accelerator_hour < candidate;
      equal += fabs(hardware->prices[j].usd_per_accelerator_hour - candidate) <= 0;
    }
    if (below <= (wanted - 1) / 2 && (wanted - 1) / 2 < below + equal)
      return candidate;
  }
  return (double)NAN;
}

/* A sketch that names a cloud gets its cheapest quote, another one the quote nearest to the median. */
static double distance(const struct hardware_price *quote, bool wants_cheapest, double median)
{
  return wants_cheapest ? quote->usd_per_accelerator_hour : fabs(quote->usd_per_accelerator_hour - median);
}

static const struct hardware_price *choose_quote(const struct hardware *hardware,
                                                 const struct workload_constraints *constraints)
{
  const bool wants_cheapest = constraints->price_cloud[0] != '\0';
  const struct hardware_price *best = NULL;
  unsigned wanted = 0;
  double median;
  for (unsigned i = 0; i < hardware->price_count; i++)
    wanted += is_wanted(&hardware->prices[i], constraints);
  if (wanted == 0)
    return NULL;
  median = median_usd(hardware, constraints, wanted);
  for (unsigned i = 0; i < hardware->price_count; i++) {
    const struct hardware_price *quote = &hardware->prices[i];
    double difference;
    if (!is_wanted(quote, constraints))
      continue;
    if (best == NULL) {
      best = quote;
      continue;
    }
    difference = distance(quote, wants_cheapest, median) - distance(best, wants_cheapest, median);
    if (difference < 0 || (difference <= 0 && quote->accelerators < best->accelerators))
      best = quote;
  }
  return best;
}

static const struct workload_price_override *find_override(const struct hardware *hardware,
                                                           const struct workload_constraints *constraints)
{
  for (unsigned i = 0; i < constraints->price_override_count; i++)
    if (strcmp(constraints->price_overrides[i].profile, hardware->name) == 0)
      return &constraints->price_overrides[i];
  return NULL;
}

enum err cost_price(struct price *out, const struct hardware *hardware, const struct workload_constraints *constraints,
                    struct arena *arena, struct error *e)
{
  const struct workload_price_override *override = find_override(hardware, constraints);
  const struct hardware_price *quote = choose_quote(hardware, constraints);
  *out = (struct price){(double)NAN, 1, NULL};
  if (override != NULL) {
    out->usd_per_gpu_hour = override->usd_per_gpu_hour;
    out->basis = "the sketch's constraints.prices";
    return ERR_OK;
  }
  if (quote == NULL)
    return ERR_OK;
  out->usd_per_gpu_hour = quote->usd_per_accelerator_hour;
  out->billed_unit_gpus = fmax(1, quote->accelerators);
  out->basis = arena_printf(arena, "%s %s %s %s", quote->cloud, quote->instance, commitment_of(quote), quote->date);
  return out->basis != NULL ? ERR_OK : error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
}

unsigned cost_billed_gpus(const struct price *price, unsigned gpus)
{
  return (unsigned)(ceil(gpus / price->billed_unit_gpus) * price->billed_unit_gpus);
}

void cost_fleet(struct scorecard_cost *out, const struct price *price, unsigned gpus_billed, double requests_per_s,
                double output_tok_s, double success_ratio)
{
  const double usd_per_s = price->usd_per_gpu_hour * gpus_billed / SECONDS_PER_HOUR;
  out->usd_per_gpu_hour = price->usd_per_gpu_hour;
  out->price_basis = price->basis;
  out->per_attempted_request_usd = usd_per_s / requests_per_s;
  out->per_successful_request_usd = usd_per_s / (requests_per_s * success_ratio);
  out->per_million_output_tokens_usd = usd_per_s / output_tok_s * 1e6;
  out->monthly_usd = price->usd_per_gpu_hour * gpus_billed * HOURS_PER_MONTH;
}
