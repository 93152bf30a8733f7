/* Bases by three loops over what is open. */
#include "core/layouts.h"

#include "core/collectives.h"

enum { TENSOR_DEGREES_MAX = 64 };

struct layout_wish layouts_wish(const struct workload *workload)
{
  const struct workload_serving *serving = &workload->serving;
  return (struct layout_wish){.held = {serving->tensor_parallel, serving->pipeline_parallel, serving->expert_parallel,
                                       serving->attention_data_parallel},
                              .most_gpus = workload->constraints.gpu_quota,
                              .has_pools = serving->prefill_replicas != 0};
}

static unsigned at_least_one(unsigned degree)
{
  return degree != 0 ? degree : 1;
}

/* Layouts beyond the allowed GPUs are left out unless the held degrees alone ask for them. */
static bool is_allowed(const struct layout *layout, const struct layout_wish *wish)
{
  const struct layout least = {at_least_one(wish->held.tensor_parallel), at_least_one(wish->held.pipeline_parallel), 1,
                               at_least_one(wish->held.attention_data_parallel)};
  return wish->most_gpus == 0 || parallel_gpus(layout) <= wish->most_gpus ||
         parallel_gpus(layout) == parallel_gpus(&least);
}

static size_t add(struct layout out[LAYOUTS_MAX], size_t count, const struct layout *layout,
                  const struct layout_wish *wish)
{
  if (count < LAYOUTS_MAX && is_allowed(layout, wish))
    out[count++] = *layout;
  return count;
}

/* Experts are cut over all attention ranks or not at all. */
static size_t add_expert_ranks(struct layout out[LAYOUTS_MAX], size_t count, const struct layout *layout,
                               const struct layout_wish *wish, const struct model *model)
{
  struct layout cut = *layout;
  const unsigned ranks = layout->tensor_parallel * layout->attention_data_parallel;
  cut.expert_parallel = at_least_one(wish->held.expert_parallel);
  count = add(out, count, &cut, wish);
  if (wish->held.expert_parallel != 0 || ranks == 1 || ranks > parallel_experts(model))
    return count;
  cut.expert_parallel = ranks;
  return add(out, count, &cut, wish);
}

/* Attention ranks of their own spare what tensor parallelism stores once per rank (a latent, surplus KV heads) and its
   all-reduces; only engines that spread experts run them. */
static size_t add_attention_ranks(struct layout out[LAYOUTS_MAX], size_t count, unsigned tensor_parallel,
                                  const struct layout_wish *wish, const struct model *model,
                                  const struct hardware *hardware)
{
  struct layout layout = {tensor_parallel, at_least_one(wish->held.pipeline_parallel), 1,
                          at_least_one(wish->held.attention_data_parallel)};
  count = add_expert_ranks(out, count, &layout, wish, model);
  if (wish->held.attention_data_parallel != 0 || parallel_experts(model) == 0)
    return count;
  for (unsigned ranks = 2; ranks * tensor_parallel <= collective_domain_devices(hardware); ranks *= 2) {
    layout.attention_data_parallel = ranks;
    count = add_expert_ranks(out, count, &layout, wish, model);
  }
  return count;
}

static void sort(struct layout *layouts, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    const struct layout moved = layouts[i];
    size_t to = i;
    for (; to > 0 && parallel_gpus(&layouts[to - 1]) > parallel_gpus(&moved); to--)
      layouts[to] = layouts[to - 1];
    layouts[to] = moved;
  }
}

size_t layouts_list(struct layout out[LAYOUTS_MAX], const struct layout_wish *wish, const struct model *model,
                    const struct hardware *hardware)
{
  unsigned degrees[TENSOR_DEGREES_MAX] = {wish->held.tensor_parallel};
  size_t count = 0, degree_count = 1;
  if (wish->held.tensor_parallel == 0)
    degree_count = parallel_tensor_degrees(degrees, TENSOR_DEGREES_MAX, model, hardware);
  for (size_t i = 0; i < degree_count; i++)
    count = add_attention_ranks(out, count, degrees[i], wish, model, hardware);
  sort(out, count);
  return count;
}

bool layouts_deepen(struct layout *layout, bool holds, const struct layout_wish *wish, const struct model *model)
{
  struct layout next = *layout;
  next.pipeline_parallel = holds ? 2 * layout->pipeline_parallel : layout->pipeline_parallel + 1;
  if (wish->held.pipeline_parallel != 0 || wish->has_pools || next.pipeline_parallel > LAYOUT_STAGES_MAX ||
      next.pipeline_parallel > model->layer_count || !is_allowed(&next, wish))
    return false;
  *layout = next;
  return true;
}

int layouts_compare(const struct layout *a, const struct layout *b)
{
  const unsigned left[] = {a->pipeline_parallel, parallel_gpus(a), a->expert_parallel, a->attention_data_parallel};
  const unsigned right[] = {b->pipeline_parallel, parallel_gpus(b), b->expert_parallel, b->attention_data_parallel};
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
    if (left[i] != right[i])
      return left[i] < right[i] ? -1 : 1;
  return 0;
}
