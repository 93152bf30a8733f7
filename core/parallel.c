/* Layout rules: heads, KV heads, layers, domain. */
#include "core/parallel.h"

#include "core/collectives.h"

#include <stdio.h>

unsigned parallel_gpus(const struct layout *layout)
{
  return layout->tensor_parallel * layout->attention_data_parallel * layout->pipeline_parallel;
}

unsigned parallel_stage_layers(const struct model *model, const struct layout *layout)
{
  return (model->layer_count + layout->pipeline_parallel - 1) / layout->pipeline_parallel;
}

/* Query heads split evenly; KV heads split evenly or are replicated evenly. */
static bool heads_allow(const struct attention *attention, unsigned tp)
{
  if (attention->kind != ATTENTION_GROUPED)
    return true;
  if (attention->query_heads % tp != 0)
    return false;
  return attention->kv_heads % tp == 0 || tp % attention->kv_heads == 0;
}

static bool model_allows(const struct model *model, unsigned tp)
{
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct layer *layer = &model->layers[kind];
    if (!heads_allow(&layer->attention, tp))
      return false;
    if (layer->feed_forward.kind != FEED_FORWARD_NONE && layer->feed_forward.intermediate_size % tp != 0)
      return false;
  }
  return true;
}

static bool tensor_degree_is_possible(const struct model *model, const struct hardware *hardware, unsigned tp)
{
  return tp <= collective_domain_devices(hardware) && model_allows(model, tp);
}

size_t parallel_tensor_degrees(unsigned *degrees, size_t max, const struct model *model,
                               const struct hardware *hardware)
{
  const unsigned largest = 128; /* no model has more query heads than it could use beyond this */
  size_t count = 0;
  for (unsigned tp = 1; tp <= largest && count < max; tp++)
    if (tensor_degree_is_possible(model, hardware, tp))
      degrees[count++] = tp;
  return count;
}

/* Nearest possible degree, the smaller one at equal distance; 1 is always possible. */
static unsigned nearest_tensor_degree(const struct model *model, const struct hardware *hardware, unsigned tp)
{
  for (unsigned distance = 1; distance < tp; distance++) {
    if (tensor_degree_is_possible(model, hardware, tp - distance))
      return tp - distance;
    if (tensor_degree_is_possible(model, hardware, tp + distance))
      return tp + distance;
  }
  return 1;
}

static const char *tensor_degree_obstacle(char *text, size_t size, const struct model *model,
                                          const struct hardware *hardware, unsigned tp)
{
  if (tp > collective_domain_devices(hardware)) {
    (void)snprintf(text, size, "the interconnect domain has %u devices", collective_domain_devices(hardware));
    return text;
  }
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++) {
    const struct layer *layer = &model->layers[kind];
    if (layer->attention.kind == ATTENTION_GROUPED && layer->attention.query_heads % tp != 0)
      (void)snprintf(text, size, "it does not divide %u attention heads", layer->attention.query_heads);
    else if (!heads_allow(&layer->attention, tp))
      (void)snprintf(text, size, "%u KV heads neither split nor replicate evenly", layer->attention.kv_heads);
    else if (layer->feed_forward.kind != FEED_FORWARD_NONE && layer->feed_forward.intermediate_size % tp != 0)
      (void)snprintf(text, size, "it does not divide the intermediate size %u", layer->feed_forward.intermediate_size);
    else
      continue;
    return text;
  }
  return "it is not possible";
}

unsigned parallel_experts(const struct model *model)
{
  unsigned most = 0;
  for (unsigned kind = 0; kind < model->layer_kind_count; kind++)
    if (model->layers[kind].feed_forward.kind == FEED_FORWARD_MOE && model->layers[kind].feed_forward.experts > most)
      most = model->layers[kind].feed_forward.experts;
  return most;
}

/* Experts are cut over all attention ranks or not at all. */
static bool experts_allow(char *why, size_t why_size, const struct model *model, const struct layout *layout)
{
  const unsigned ranks = layout->tensor_parallel * layout->attention_data_parallel;
  const unsigned experts = parallel_experts(model);
  if (layout->expert_parallel == 1 && layout->attention_data_parallel == 1)
    return true;
  if (experts == 0)
    (void)snprintf(why, why_size, "expert_parallel %u and attention_data_parallel %u need routed experts; possible: 1",
                   layout->expert_parallel, layout->attention_data_parallel);
  else if (layout->expert_parallel != 1 && layout->expert_parallel != ranks)
    (void)snprintf(why, why_size,
                   "expert_parallel %u is not possible over tensor_parallel %u x attention_data_parallel %u; nearest "
                   "possible: %u",
                   layout->expert_parallel, layout->tensor_parallel, layout->attention_data_parallel, ranks);
  else if (layout->expert_parallel > experts)
    (void)snprintf(why, why_size, "expert_parallel %u is more than the %u experts; nearest possible: %u",
                   layout->expert_parallel, experts, experts);
  else
    return true;
  return false;
}

bool parallel_check(char *why, size_t why_size, const struct model *model, const struct hardware *hardware,
                    const struct layout *layout)
{
  char obstacle[128];
  if (!tensor_degree_is_possible(model, hardware, layout->tensor_parallel)) {
    const char *reason = tensor_degree_obstacle(obstacle, sizeof obstacle, model, hardware, layout->tensor_parallel);
    (void)snprintf(why, why_size, "tensor_parallel %u is not possible: %s; nearest possible: %u",
                   layout->tensor_parallel, reason, nearest_tensor_degree(model, hardware, layout->tensor_parallel));
    return false;
  }
  if (layout->pipeline_parallel > model->layer_count) {
    (void)snprintf(why, why_size, "pipeline_parallel %u is more than the %u layers; nearest possible: %u",
                   layout->pipeline_parallel, model->layer_count, model->layer_count);
    return false;
  }
  if (!experts_allow(why, why_size, model, layout))
    return false;
  why[0] = '\0';
  return true;
}
