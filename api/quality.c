/* Looking up and judging quality targets. */
#include "api/quality.h"

#include <math.h>
#include <stdio.h>

#include "api/write.h"
#include "core/precision.h"

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "";
}

static enum err find_score(double *score, struct store *store, const struct sketch *sketch,
                           const struct scorecard *card, const json_t *target, struct error *e)
{
  enum err rc = ERR_NOT_FOUND;
  if (store != NULL && card->has_configuration)
    rc = store_quality_newest(store, score, sketch->model_name, precision_name(card->configuration.weights),
                              precision_name(card->configuration.kv_cache), text_of(target, "benchmark"),
                              text_of(target, "slice"), e);
  if (rc == ERR_NOT_FOUND)
    *score = (double)NAN;
  return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum quality_verdict verdict_of(const struct quality *quality)
{
  bool is_measured = quality->count > 0;
  for (size_t i = 0; i < quality->count; i++) {
    if (quality->targets[i].actual < quality->targets[i].least)
      return QUALITY_MISSED;
    is_measured = is_measured && !isnan(quality->targets[i].actual);
  }
  return is_measured ? QUALITY_MET : QUALITY_UNMEASURED;
}

enum err quality_judge(struct quality *out, struct store *store, const struct sketch *sketch,
                       const struct scorecard *card, struct error *e)
{
  const size_t count = json_array_size(sketch->quality);
  enum err rc = ERR_OK;
  out->count = 0;
  for (size_t i = 0; i < count && i < QUALITY_TARGETS_MAX && rc == ERR_OK; i++) {
    const json_t *target = json_array_get(sketch->quality, i);
    struct quality_target *to = &out->targets[out->count++];
    const char *slice = text_of(target, "slice");
    (void)snprintf(to->metric, sizeof to->metric, "quality.%s%s%s", text_of(target, "benchmark"),
                   slice[0] != '\0' ? "." : "", slice);
    to->least = json_number_value(json_object_get(target, "min"));
    rc = find_score(&to->actual, store, sketch, card, target, e);
  }
  out->verdict = verdict_of(out);
  return rc;
}

const char *quality_verdict_name(const struct quality *quality)
{
  static const char *const names[] = {"unmeasured", "met", "missed"};
  return names[quality != NULL ? quality->verdict : QUALITY_UNMEASURED];
}

bool quality_write(json_t *targets, const struct quality *quality)
{
  for (size_t i = 0; i < quality->count; i++) {
    const struct quality_target *from = &quality->targets[i];
    const bool is_measured = !isnan(from->actual);
    const double margin = is_measured && from->least > 0 ? (from->actual - from->least) / from->least : (double)NAN;
    json_t *to = json_pack("{s:s, s:o, s:o, s:o, s:o}", "metric", from->metric, "target", write_number(from->least),
                           "actual", write_number(from->actual), "margin", write_number(margin), "met",
                           is_measured ? json_boolean(from->actual >= from->least) : json_null());
    if (json_array_append_new(targets, to) != 0)
      return false;
  }
  return true;
}
