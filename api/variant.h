/* The model as it is, and what it could be: grouped attention, eight query heads to a KV head, and 8-bit weights and KV
   cache. Compared by frontiers and advice. Pure functions over the caller's structs. Private to api/. */
#ifndef FITD_API_VARIANT_H
#define FITD_API_VARIANT_H

#include "core/hardware.h"
#include "core/model.h"
#include "core/workload.h"

enum variant { VARIANT_AS_IS, VARIANT_GQA, VARIANT_FP8, VARIANT_GQA_FP8, VARIANT_COUNT };

const char *variant_name(enum variant variant);     /* "as_is", "gqa_8_1", "fp8", "gqa_8_1_fp8" */
const char *variant_title(enum variant variant);    /* "as is", "GQA 8:1", … for people */
const char *variant_requires(enum variant variant); /* "retraining", "requantisation"; NULL for as is */

/* Changes both; false when there is nothing to change: heads are grouped by 8 or more already, weights and cache have 8
   bits or less. */
bool variant_apply(enum variant variant, struct workload *workload, struct model *model);

/* Whether the device runs the weights' format at all, be it as weights only. */
bool variant_runs_on(const struct workload *workload, const struct model *model, const struct hardware *hardware);

#endif
