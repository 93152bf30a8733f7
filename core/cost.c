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

static double unit_gpus(const struct hardware_price *quote)
{
  return fmax(1, quote->accelerators);
}

static bool is_asked(const struct hardware_price *quote, const struct workload_constraints *constraints)
{
  const char *commitment = constraints->price_commitment[0] != '\0' ? constraints->price_commitment : "on_demand";
  if (strcasecmp(commitment_of(quote), commitment) != 0)
    return false;
  return constraints->price_cloud[0] == '\0' || strcasecmp(quote->cloud, constraints->price_cloud) == 0;
}

/* GPUs that one instance must have to hold a group; without one so large the largest that is offered: several are then
   joined by their network. */
static double least_unit_gpus(const struct hardware *hardware, const struct workload_constraints *constraints,
                              unsigned group_gpus)
{
  double largest = 0;
  for (unsigned i = 0; i < hardware->price_count; i++)
    if (is_asked(&hardware->prices[i], constraints))
      largest = fmax(largest, unit_gpus(&hardware->prices[i]));
  return fmin(largest, group_gpus);
}

/* Lower median of the asked quotes by rank. */
static double median_usd(const struct hardware *hardware, const struct workload_constraints *constraints,
                         unsigned asked)
{
  for (unsigned i = 0; i < hardware->price_count; i++) {
    const double candidate = hardware->prices[i].usd_per_accelerator_hour;
    unsigned below = 0, equal = 0;
    if (!is_asked(&hardware->prices[i], constraints))
      continue;
    for (unsigned j = 0; j < hardware->price_count; j++) {
      if (!is_asked(&hardware->prices[j], constraints))
        continue;
      below += hardware->prices[j].usd_per_accelerator_hour < candidate;
      equal += fabs(hardware->prices[j].usd_per_accelerator_hour - candidate) <= 0;
    }
    if (below <= (asked - 1) / 2 && (asked - 1) / 2 < below + equal)
      return candidate;
  }
  return (double)NAN;
}

/* A sketch that names a cloud gets its cheapest quote, another one the quote nearest to the median. */
static double distance(const struct hardware_price *quote, bool wants_cheapest, double median)
{
  return wants_cheapest ? quote->usd_per_accelerator_hour : fabs(quote->usd_per_accelerator_hour - median);
}

/* The median is one for all layouts, so that they compare at like prices; ties go to the smaller rented unit. */
static const struct hardware_price *choose_quote(const struct hardware *hardware,
                                                 const struct workload_constraints *constraints, unsigned group_gpus)
{
  const bool wants_cheapest = constraints->price_cloud[0] != '\0';
  const double least_gpus = least_unit_gpus(hardware, constraints, group_gpus);
  const struct hardware_price *best = NULL;
  unsigned asked = 0;
  double median;
  for (unsigned i = 0; i < hardware->price_count; i++)
    asked += is_asked(&hardware->prices[i], constraints);
  median = asked != 0 ? median_usd(hardware, constraints, asked) : (double)NAN;
  for (unsigned i = 0; i < hardware->price_count; i++) {
    const struct hardware_price *quote = &hardware->prices[i];
    double difference;
    if (!is_asked(quote, constraints) || unit_gpus(quote) < least_gpus)
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

struct price cost_price(const struct hardware *hardware, const struct workload_constraints *constraints,
                        unsigned group_gpus)
{
  const struct workload_price_override *override = find_override(hardware, constraints);
  const struct hardware_price *quote = choose_quote(hardware, constraints, group_gpus);
  if (override != NULL)
    return (struct price){override->usd_per_gpu_hour, 1, NULL};
  if (quote == NULL)
    return (struct price){(double)NAN, 1, NULL};
  return (struct price){quote->usd_per_accelerator_hour, unit_gpus(quote), quote};
}

enum err cost_basis(const char **out, const struct price *price, struct arena *arena, struct error *e)
{
  const struct hardware_price *quote = price->quote;
  *out = NULL;
  if (isnan(price->usd_per_gpu_hour))
    return ERR_OK;
  *out = quote == NULL
             ? "the sketch's constraints.prices"
             : arena_printf(arena, "%s %s %s %s", quote->cloud, quote->instance, commitment_of(quote), quote->date);
  return *out != NULL ? ERR_OK : error_set(e, ERR_LIMIT, "", "the evaluation needs more memory than allowed");
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
  out->per_attempted_request_usd = usd_per_s / requests_per_s;
  out->per_successful_request_usd = usd_per_s / (requests_per_s * success_ratio);
  out->per_million_output_tokens_usd = usd_per_s / output_tok_s * 1e6;
  out->monthly_usd = price->usd_per_gpu_hour * gpus_billed * HOURS_PER_MONTH;
}

void cost_divide(struct scorecard_cost *out, const struct cost_use *use)
{
  const double total = out->per_successful_request_usd;
  const double busy = fmin(1, use->busy_ratio) * use->serving_ratio;
  const double failed = busy * use->failed_work_ratio;
  const double startup = fmin(1 - busy, use->startup_ratio * use->serving_ratio);
  const double wanted =
      use->headroom_ratio > 0 && use->headroom_ratio < 1 ? busy / (1 - use->headroom_ratio) - busy : 0;
  const double headroom = fmin(1 - busy - startup, wanted);
  out->items = (struct scorecard_cost_items){.busy_usd = total * (busy - failed),
                                             .failed_usd = total * failed,
                                             .startup_usd = total * startup,
                                             .headroom_usd = total * headroom,
                                             .idle_usd = total * fmax(0, 1 - busy - startup - headroom)};
}
