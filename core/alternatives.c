/* Break-even: a fleet costs by the hour, a managed API by the token. */
#include "core/alternatives.h"

#include "core/units.h"

#include <math.h>

static double managed_usd(const struct workload *workload)
{
  const struct workload_constraints *prices = &workload->constraints;
  const double input = length_mean_tokens(&workload->traffic.input);
  const double output = length_mean_tokens(&workload->traffic.output);
  return (input * prices->managed_input_usd_per_million_tokens +
          output * prices->managed_output_usd_per_million_tokens) /
         1e6;
}

/* The fleet of the card is paid whether it is used or not, and carries at most its saturation rate: where the API would
   cost less than the fleet even then, no rate earns it back. */
void alternatives_fill(struct scorecard *card, const struct workload *workload)
{
  struct scorecard_alternatives *out = &card->alternatives;
  const double fleet_usd_per_h = card->cost.monthly_usd / HOURS_PER_MONTH;
  const double managed = managed_usd(workload);
  out->managed_per_request_usd = managed;
  if (!card->has_latency || isnan(managed) || isnan(fleet_usd_per_h))
    return;
  out->self_host_is_justified = card->cost.per_successful_request_usd <= managed;
  if (managed > 0 && fleet_usd_per_h / managed <= card->limits.saturation_requests_per_s * SECONDS_PER_HOUR)
    out->break_even_requests_per_h = fleet_usd_per_h / managed;
}
