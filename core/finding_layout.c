/* Findings about how a replica is cut: what links cost, and where a group leaves them. */
#include "core/finding.h"

#include "core/collectives.h"
#include "core/units.h"

#include <math.h>

static double tensor_ranks(const struct finding_case *c)
{
  return c->card->configuration.tensor_parallel;
}

/* Sum over phases by their share of busy time. */
static double communication_share(const struct scorecard *card)
{
  return card->prefill.communication_share_ratio * card->prefill.time_share_ratio +
         card->decode.communication_share_ratio * card->decode.time_share_ratio;
}

/* The same decode step over links that would be free: what the links take off every token. */
static double step_without_links_s(const struct finding_case *c)
{
  return c->card->decode.time_s * (1 - c->card->decode.communication_share_ratio);
}

/* A group on boards without a link of their own, or on more than their links join. */
static void find_group(struct finding_case *c)
{
  const struct hardware *hardware = c->input->hardware;
  const double ranks = tensor_ranks(c), domain = hardware->domain_size;
  const bool has_no_link = hardware->link == HARDWARE_LINK_PCIE || domain <= 1;
  const struct scorecard_evidence evidence[] = {{"tensor_parallel", ranks},
                                                {"domain_size", domain},
                                                {"communication_share", communication_share(c->card)},
                                                {"step_ms", c->card->decode.time_s / MS},
                                                {"step_ms_without_links", step_without_links_s(c) / MS}};
  if (ranks <= 1 || (!has_no_link && ranks <= domain))
    return;
  if (has_no_link)
    FINDING_ADD(c, "pcie_tensor_parallel", SEVERITY_WARNING,
                arena_printf(c->arena,
                             "tensor_parallel %.0f runs over PCIe: two all-reduces a layer take %.0f %% of busy time; "
                             "replicas of fewer GPUs, or pipeline stages, send far less",
                             ranks, 100 * communication_share(c->card)),
                evidence);
  else
    FINDING_ADD(c, "tp_leaves_interconnect_domain", SEVERITY_WARNING,
                arena_printf(c->arena,
                             "tensor_parallel %.0f is more than the %.0f GPUs that %s joins: the rest talk over PCIe, "
                             "%.0f %% of busy time; keep it within the domain and cut into pipeline stages beyond",
                             ranks, domain, hardware->link_kind, 100 * communication_share(c->card)),
                evidence);
}

static void find_tax(struct finding_case *c)
{
  const double noticed = 0.2;
  const double share = communication_share(c->card);
  const struct scorecard_evidence evidence[] = {
      {"communication_share", share},
      {"prefill_communication_share", c->card->prefill.communication_share_ratio},
      {"decode_communication_share", c->card->decode.communication_share_ratio},
      {"gpus_per_replica", c->card->configuration.gpus / fmax(1, c->card->configuration.replicas)},
      {"bill_share", c->card->cost.by_bound_interconnect}};
  if (!(share > noticed))
    return;
  FINDING_ADD(c, "interconnect_tax", SEVERITY_WARNING,
              arena_printf(c->arena,
                           "GPUs of a replica spend %.0f %% of busy time talking to each other, %.0f %% of "
                           "the bill: fewer GPUs a replica would compute instead",
                           100 * share, 100 * c->card->cost.by_bound_interconnect),
              evidence);
}

void finding_of_layout(struct finding_case *c)
{
  find_group(c);
  find_tax(c);
}
