/* Where the figures of a scorecard come from: the operators of both phases, the terms of the memory sum, the parts of the
   latencies. Computed on demand by the functions that made the scorecard, so the parts add up to its figures.
   Everything lives in the arena the caller gives. Threads: reentrant. Errors: as of fit_evaluate. */
#ifndef FITD_CORE_EXPLAIN_H
#define FITD_CORE_EXPLAIN_H

#include "core/search.h"

/* The executions of one operator that wait for the same thing, over all layers of a kind and all chunks. */
struct explain_operator {
  struct op op;         /* of one execution, unscaled; the mean where chunks differ */
  unsigned layer_kind;  /* index into the model's kinds; layer_kind_count = the head */
  double layers, count; /* count: executions in the phase */
  double scale, floor_scale;
  double compute_s, memory_s,
      overhead_s;  /* what the work would take at full clock with FLOPs or bytes alone, or neither */
  double scaled_s; /* count × (scale × work + floor_scale × floor): its part of the phase */
};

/* A cost that no operator explains. */
struct explain_fixed {
  const char *name;
  const char *constant; /* name in core/step.def */
  double constant_us, times;
  double seconds; /* constant × times but for the host's, which overlaps with the device */
};
#define EXPLAIN_FIXED_MAX 8

struct explain_phase {
  double tokens;         /* prefill: of the prompt, cached ones excluded; decode: one a sequence */
  double past_tokens;    /* prefill: found in the prefix cache */
  double batch;          /* decode: sequences in the step that a request sees */
  double context_tokens; /* decode: mean of those sequences */
  unsigned chunks;       /* steps; 1 for decode */
  struct explain_operator *operators;
  size_t operator_count;
  struct explain_fixed fixed[EXPLAIN_FIXED_MAX];
  size_t fixed_count;
  struct step_time time; /* what operators and fixed costs add up to */
};

/* A term of the memory of one GPU. */
struct explain_memory {
  const char *part; /* "weights", "activations", "runtime", "kv_cache": which figure it belongs to */
  const char *name;
  double bytes;
  const char *formula;
};
#define EXPLAIN_MEMORY_MAX 16

struct explanation {
  struct search_input input;
  bool has_candidate;         /* false: no configuration holds the model; memory alone is explained */
  struct candidate candidate; /* the configuration, evaluated */
  struct explain_phase prefill, decode;
  struct steady_parts parts;
  double requests_per_s;      /* of the fleet; at saturation what it finishes */
  struct scorecard_cost cost; /* of the fleet at that rate; shares by bound are not filled */
  bool has_memory;
  struct layout layout; /* that the memory is of */
  struct memory_plan plan;
  unsigned stage;                              /* pipeline stage that the plan is of */
  double memory_fraction_ratio, session_bytes; /* session: KV of one request on one GPU */
  struct explain_memory memory[EXPLAIN_MEMORY_MAX];
  size_t memory_count;
};

/* The configuration of a scorecard. */
struct explain_configuration {
  unsigned tensor_parallel, pipeline_parallel, expert_parallel, attention_data_parallel, replicas, max_batch;
};

/* `configuration` NULL: the scorecard has none. */
/* The workload with every choice of the configuration made; NULL makes none. */
void explain_pin(struct workload *to, const struct workload *from, const struct explain_configuration *configuration);

enum err explain(struct explanation *out, const struct fit_request *request,
                 const struct explain_configuration *configuration, struct arena *arena, struct error *e) MUST_CHECK;

/* "max(FLOPs / (989.5 TFLOP/s x 0.8), bytes / (3350 GB/s x 0.845)) + 3.9 us": the time of one execution, with the
   constants used; and where those stand. */
#define EXPLAIN_FORMULA_SIZE 240
void explain_formula(char to[EXPLAIN_FORMULA_SIZE], const struct explain_operator *row, const struct engine *engine);
const char *explain_source(const struct explain_operator *row);

#endif
