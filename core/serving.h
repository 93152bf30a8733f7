/* Discrete-event simulation of continuous batching on one replica: requests arrive, wait, are admitted while batch and KV
   blocks allow, share steps and leave. Between two events all steps are alike, so k of them are one sum in closed form.
   Policies and their sources: SERVING §2; the same rules one token at a time: tests/core/reference_simulator.h.
   Memory is the caller's (arena, rows, outcomes); deterministic: same inputs, same bits.
   Threads: reentrant, no globals. */
#ifndef FITD_CORE_SERVING_H
#define FITD_CORE_SERVING_H

#include "core/arena.h"
#include "core/arrivals.h"
#include "core/histogram.h"
#include "core/step.h"

/* How an engine makes sure that running sequences find room for what they will write. */
enum serving_kv {
  SERVING_KV_GROW,    /* block by block; when none is left the latest admitted sequence is preempted and recomputed */
  SERVING_KV_RESERVE, /* prompt and whole answer at admission: never preempts */
  SERVING_KV_RATIO    /* grows, but admits only while a share of all answers still to come would fit */
};

/* What one engine does at a step boundary. */
struct serving_settings {
  bool is_prefill_first;  /* steps carry prompts or decodes, prompts first; else prompts ride along with the decodes */
  bool has_whole_prompts; /* a prompt is computed in one step; else cut to the step's token budget */
  bool has_look_ahead;    /* asynchronous scheduling: a step takes what was visible when the one before it began */
  enum serving_kv kv;
  double kv_ratio;             /* RATIO: share of the answers still to come, 0 … 1 */
  uint32_t max_batch;          /* sequences at once */
  uint32_t max_batched_tokens; /* of one step */
  double tokens_per_step;      /* that a decode hands out on average, with a draft: ≥ 1 (core/speculative.h); 0 = 1 */
  uint32_t draft_tokens;       /* a decode takes so many of max_batched_tokens more than one */
  uint32_t recv_interval_steps;  /* the socket is polled every so many decode steps; 1 = each */
  uint32_t admit_interval_steps; /* waiting requests are looked at every so many decode steps; 1 = each */
  uint32_t batch_wait_steps;     /* prompts wait up to so many steps for a fuller one; 0 = not */
  double batch_wait_ratio;       /* … until this share of max_batched_tokens is together */
  uint32_t kv_block_tokens;
  uint64_t kv_blocks;            /* of the replica's pool; 0 = without limit */
  uint64_t kv_watermark_blocks;  /* that admission leaves free while something runs */
  uint32_t shared_prefix_tokens; /* that all prompts begin with and the cache keeps once computed; 0 = none */
  uint32_t hash_block_tokens;    /* prefix cache by hashes: of a prompt, that each hash stands for; 0 = none */
  uint32_t max_context_tokens;   /* longer requests are rejected; 0 = no limit */
};

/* The policy and limits of a runtime. Drafts, kv_blocks, prefixes and the context limit depend on more: 0 here. */
void serving_settings_of(struct serving_settings *out, const struct preset *preset);

/* Decodes that draft: fewer of them share a step's tokens. */
void serving_settings_add_drafts(struct serving_settings *settings, const struct drafter *drafter);

/* Sequences that may decode while a prompt of so many tokens waits and still let it in; 0 where none may: the replica then
   serves one request at a time (whole prompts as long as the step's budget, SERVING §2). UINT32_MAX: any number. */
uint32_t serving_decodes_beside(const struct serving_settings *settings, uint32_t prompt_tokens);

/* Decode step of B sequences: step_s + sequence_s × B + context_token_s × (context of all of them together). */
struct serving_decode {
  double step_s, sequence_s, context_token_s;
};
#define SERVING_SEGMENTS 16

/* Times of one replica as sums of few coefficients. A step lasts as long as its decodes (without any: prompt_step_s), plus
   per prompt chunk of n tokens after m others n × prompt_token_s + n × (m + n/2) × prompt_pair_s, plus prompt_fixed_s once
   if it carries prompts: the host's work, less what of the chunks hides behind reading the weights. Prompts never make a
   step shorter. */
struct serving_cost {
  struct serving_decode decode[SERVING_SEGMENTS]; /* [i] for 2^i … 2^(i+1) - 1 sequences, the last one for all above */
  double prompt_step_s, prompt_token_s, prompt_pair_s, prompt_fixed_s;
  double prompt_alone_saved_ratio; /* of its tokens' and pairs' time, in a step without decodes: what chunks add to a
                                      step of decodes and what they take alone were fitted apart; may be negative */
  double
      prompt_late_ratio; /* of its tokens' and pairs' time, by which all tokens of a prompt's answer come later than their
                               steps end: on its way through stages or on its own attention rank, others are worked on */
  double server_s, server_token_s; /* from sending to being visible to the scheduler */
};

/* From the step model, around requests of these lengths. `cached_tokens` of the prompt are found in the cache. */
void serving_cost_of(struct serving_cost *out, const struct engine *engine, double input_tokens, double cached_tokens,
                     double output_tokens);

const struct serving_decode *serving_segment(const struct serving_cost *cost, uint32_t batch);
double serving_prompt_s(const struct serving_cost *cost, double tokens, double past_tokens);

enum serving_status {
  SERVING_UNSENT,
  SERVING_UNFINISHED,
  SERVING_REJECTED, /* longer than a replica can ever run */
  SERVING_COMPLETED,
  SERVING_SHED,     /* refused at the fleet's concurrency limit (core/fleet.h) */
  SERVING_TIMED_OUT /* its client gave up for good */
};

/* What became of one request. Times count from the start of the simulation. */
struct serving_outcome {
  double send_s;     /* by the client, for the first time */
  double visible_s;  /* to the scheduler; this and what follows are of the last attempt */
  double admitted_s; /* for the first time */
  double first_s;    /* first token */
  double finish_s;   /* last token, or when the client gave up */
  double
      waited_s; /* after its prompt, for the link and for a place among those that decode (prefill pools, core/fleet.h) */
  uint32_t output_tokens; /* emitted */
  uint32_t cached_tokens; /* found in the prefix cache at its first admission */
  uint32_t preemptions;
  uint32_t attempts; /* times it was sent */
  uint32_t replica;  /* that served it */
  enum serving_status status;
};

/* Sums over a run. */
struct serving_totals {
  uint64_t completed, rejected, preemptions;
  uint64_t decode_steps, prompt_steps; /* a step with both is in both */
  uint64_t output_tokens;              /* emitted */
  uint64_t wasted_tokens;              /* of these, to clients that gave up */
  uint64_t prompt_tokens;              /* computed, recomputed ones too */
  uint64_t cached_tokens;              /* not computed: found in the prefix cache */
  uint64_t peak_kv_blocks;
  uint32_t peak_batch;       /* sequences admitted at once */
  double end_s;              /* last finish */
  double busy_s;             /* steps */
  double decode_sequence_s;  /* decoding sequences × time of their steps */
  double running_sequence_s; /* admitted sequences × time */
};

struct serving_run {
  struct serving_settings settings;
  const struct serving_cost *cost;
  const struct arrival *arrivals; /* in order of time */
  size_t count;
  const uint32_t *hashes; /* of the arrivals' prompts; only with hash_block_tokens */
  size_t hash_count;
  uint32_t users; /* closed loop: each sends the next row when its last request ends; 0 = open, at the rows' times */
  struct histogram *itl;   /* all gaps between tokens of all requests; NULL = not kept */
  bool (*stop)(void *cls); /* polled; may be NULL */
  void *stop_cls;
};

/* Bytes of arena that a run takes. */
size_t serving_arena_bytes(const struct serving_run *run);

/* Simulates until every row has an outcome. The arena is as it was afterwards.
   Errors: ERR_INVALID settings that can not work, ERR_LIMIT arena exhausted, ERR_CANCELLED stop said so. */
enum err serving_simulate(struct serving_outcome *outcomes, struct serving_totals *totals,
                          const struct serving_run *run, struct arena *arena, struct error *e) MUST_CHECK;

/* What users of completed requests saw, as a client measures it: waits include the server's part of the time to the first
   token, gaps of a request are averaged (gaps one by one: serving_run.itl). */
struct serving_latencies {
  struct histogram ttft_s, tpot_s, e2e_s;
  struct histogram queue_s; /* from being visible to being admitted, and between pools */
};

void serving_latencies_init(struct serving_latencies *latencies);

/* Adds `count` outcomes; leaving the first ones of a run out is the caller's warm-up. */
void serving_latencies_add(struct serving_latencies *latencies, const struct serving_outcome *outcomes, size_t count);

#endif
