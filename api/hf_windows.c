/* Sliding windows and chunks in the many spellings of configs: which layers have one, and how long it is. */
#include "api/hf.h"

#include <limits.h>
#include <string.h>

/* "LLLG": L is windowed, G is not, repeated over the layers. */
static void plan_letters(struct hf *hf, struct hf_plan *plan, const char *letters)
{
  const size_t n = strlen(letters);
  if (n == 0 || strspn(letters, "LG") != n) {
    hf_fault(hf, FAULT_UNKNOWN_VALUE, "sliding_window_pattern _sliding_window_pattern",
             "expected a number or letters L (window) and G (whole context)");
    return;
  }
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].mixer = letters[i % n] == 'L' ? HF_MIXER_WINDOW : HF_MIXER_FULL;
}

/* Qwen2 and its kin window only from this layer on. */
static void plan_from_layer(struct hf *hf, struct hf_plan *plan)
{
  unsigned first = 0;
  (void)hf_count(hf, "max_window_layers", 0, MODEL_LAYERS_MAX, &first);
  for (unsigned i = 0; i < plan->rows; i++)
    plan->row[i].mixer = i < first ? HF_MIXER_FULL : HF_MIXER_WINDOW;
}

/* Llama-4: layers without rotary positions see everything. 1 = rotary. */
static void plan_chunks(struct hf *hf, struct hf_plan *plan)
{
  static const enum hf_mixer mixers[2] = {HF_MIXER_FULL, HF_MIXER_WINDOW};
  unsigned interval = 4;
  char pointer[160];
  if (json_array_size(hf_get(hf, "no_rope_layers", pointer)) != 0) {
    hf_plan_numbers(hf, plan, "no_rope_layers", mixers);
    return;
  }
  if (!hf_count(hf, "no_rope_layer_interval", 1, MODEL_LAYERS_MAX, &interval))
    hf_assume(
        hf, "every 4th layer sees the whole context and the others a chunk (attention_chunk_size), as the class does");
  hf_plan_every(plan, interval, HF_MIXER_WINDOW);
}

static bool windows_are_on(struct hf *hf)
{
  if (hf_is_silent(hf, HF_WINDOW) && hf_has_trait(hf, HF_WINDOW_OPTION))
    hf_assume(hf, "sliding_window is not given: every layer sees the whole context");
  if (!hf_has(hf, "sliding_window sliding_window_size"))
    return false;
  if (hf_has(hf, "use_sliding_window"))
    return hf_flag(hf, "use_sliding_window", false);
  if (hf_is_silent(hf, "max_window_layers"))
    return true;
  hf_assume(hf, "use_sliding_window is absent beside max_window_layers: no sliding window, as the class does");
  return false;
}

static void plan_slides(struct hf *hf, struct hf_plan *plan)
{
  static const char pattern_keys[] = "sliding_window_pattern _sliding_window_pattern";
  char pointer[160];
  const json_t *pattern = hf_get(hf, pattern_keys, pointer);
  unsigned interval = hf->traits->full_interval;
  if (json_is_string(pattern)) {
    plan_letters(hf, plan, json_string_value(pattern));
  } else if (pattern != NULL) {
    if (hf_count(hf, pattern_keys, 1, MODEL_LAYERS_MAX, &interval))
      hf_plan_every(plan, interval, HF_MIXER_WINDOW);
  } else if (interval != 0) {
    hf_assume(hf, "one layer in %u sees the whole context and the others a window, as the class \"%s\" does", interval,
              hf->model_type);
    hf_plan_every(plan, interval, HF_MIXER_WINDOW);
  } else if (hf_has(hf, "max_window_layers")) {
    plan_from_layer(hf, plan);
  } else {
    if (!hf_has_trait(hf, HF_WINDOW_OPTION))
      hf_assume(hf, "the config does not say which layers have the window: all");
    hf_plan_every(plan, UINT_MAX, HF_MIXER_WINDOW);
  }
}

void hf_plan_windows(struct hf *hf, struct hf_plan *plan)
{
  if (windows_are_on(hf))
    plan_slides(hf, plan);
  else if (hf_has(hf, "attention_chunk_size"))
    plan_chunks(hf, plan);
}

static void forget_windows(struct hf_plan *plan)
{
  for (unsigned i = 0; i < plan->rows; i++)
    if (plan->row[i].mixer == HF_MIXER_WINDOW)
      plan->row[i].mixer = HF_MIXER_FULL;
}

/* The size of windows; one that is switched off or never fills counts as none. */
void hf_plan_fill_windows(struct hf *hf, unsigned context, struct hf_plan *plan)
{
  if (!hf_plan_uses(plan, HF_MIXER_WINDOW))
    return;
  if (hf_has(hf, "use_sliding_window") && !hf_flag(hf, "use_sliding_window", true)) {
    forget_windows(plan);
    return;
  }
  if (!hf_need(hf, HF_WINDOW, 1, MODEL_CONTEXT_MAX, &plan->window_tokens))
    return;
  if (context != 0 && plan->window_tokens >= context) {
    hf_assume(hf, "a window of %u tokens is never filled by a context of %u: no window", plan->window_tokens, context);
    forget_windows(plan);
  }
}
