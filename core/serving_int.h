/* State of the simulation, shared by its parts: serving_batch.c (who runs and what memory that takes), serving_schedule.c
   (what goes into the next step), serving.c (time). Private to core/serving*.c. */
#ifndef FITD_CORE_SERVING_INT_H
#define FITD_CORE_SERVING_INT_H

#include "core/serving.h"

#define SERVING_NONE UINT32_MAX

/* A running sequence. While it decodes, its tokens follow from the number of decode steps done. */
struct serving_slot {
  uint64_t finish_step; /* decode step that emits its last token */
  uint32_t request;
  uint32_t heap_place;    /* SERVING_NONE while its prompt is computed */
  uint32_t older, newer;  /* order of admission */
  uint32_t shared_blocks; /* of its first tokens, held by the prefix cache */
};

/* Sequences whose token came out of a prompt at the same time. */
struct serving_joined {
  double token_s;
  uint32_t sequences;
};

struct serving_sim {
  const struct serving_settings *settings;
  const struct serving_cost *cost;
  const struct arrival *arrivals;
  struct serving_outcome *outcomes;
  struct serving_totals *totals;
  struct histogram *itl;
  size_t count;
  bool is_closed;

  double time_s;
  double previous_start_s;          /* when the step that has just ended began */
  uint64_t decode_step;             /* done so far */
  uint32_t block_phase;             /* decode_step mod kv_block_tokens */
  uint32_t recv_phase, admit_phase; /* decode steps since the last look, mod their intervals */
  uint32_t waited_steps;            /* of batch_wait_steps */

  /* Requests in the order of sending: next sent row, next one to become visible, next one to be admitted. */
  size_t next_row, next_visible, next_fresh;
  double last_visible_s;
  uint32_t *preempted; /* stack: waits before all fresh ones */
  uint32_t preempted_count;
  uint64_t waiting_tokens; /* of prompts to be computed */

  struct serving_slot *slots;
  uint32_t *free_slots;
  uint32_t free_count, running; /* admitted */
  uint32_t oldest, newest;
  uint32_t *heap; /* decoding slots, earliest finish first */
  uint32_t decoding;
  uint64_t context_tokens; /* that the next decode step reads */

  uint32_t partial; /* slot whose prompt is cut between steps; always the newest */
  uint32_t partial_done_tokens;
  uint32_t *completed; /* slots whose prompts end in this step */
  uint32_t completed_count;

  uint64_t pool_blocks, used_blocks;
  uint64_t claimed_blocks;   /* by the decodes of the step that prompts would ride in */
  uint32_t cached_blocks;    /* of the shared prefix, in the cache for good */
  uint32_t *growth;          /* sequences that need a block, by the block_phase at which they do */
  uint64_t own_tokens;       /* KV of running sequences outside of the prefix cache */
  uint64_t remaining_tokens; /* of answers of running sequences still to be emitted */

  /* Since the last decode step, for the gaps between tokens. */
  struct serving_joined *joined;
  uint32_t joined_count, joined_sequences;
  double last_decode_s;
};

/* What the next step carries beside the decodes. */
struct serving_step {
  bool has_decodes, has_preempted;
  uint64_t prompt_tokens;
  double prompt_s;
};

/* Tokens that request must compute to emit its next one: its prompt and, after a preemption, what it has emitted. */
static inline uint32_t serving_need_tokens(const struct serving_sim *sim, uint32_t request)
{
  return sim->arrivals[request].input_tokens + sim->outcomes[request].output_tokens;
}

/* Whole blocks of the shared prefix that a request's prompt has, and how many of them it finds in a cache of so many: never
   all it needs, the last token is always computed. */
uint32_t serving_prefix_blocks(const struct serving_sim *sim, uint32_t request);
uint32_t serving_hit_blocks(const struct serving_sim *sim, uint32_t request, uint32_t cached_blocks);

uint64_t serving_blocks(const struct serving_sim *sim, uint64_t tokens);

/* Blocks of its own that a request takes when it is admitted. */
uint64_t serving_admission_blocks(const struct serving_sim *sim, uint32_t request);

uint32_t serving_admit(struct serving_sim *sim, uint32_t request);
/* Its prompt is computed. */
void serving_keep_prefix(struct serving_sim *sim, uint32_t slot);
void serving_start_decoding(struct serving_sim *sim, uint32_t slot);
void serving_leave(struct serving_sim *sim, uint32_t slot);
void serving_preempt_newest(struct serving_sim *sim);

/* Blocks that the decodes of the next `steps` take. */
uint64_t serving_growth_blocks(const struct serving_sim *sim, uint64_t steps);
/* Decode steps, at most `steps`, that the free blocks allow. */
uint64_t serving_growth_steps(const struct serving_sim *sim, uint64_t steps);

/* Moves time's decode steps on; what finishes is left to the caller. */
void serving_decode_steps(struct serving_sim *sim, uint64_t steps);

/* Puts the next step together; preempts and admits. */
void serving_schedule(struct serving_step *step, struct serving_sim *sim);
/* Decode steps until this schedule may look different though nothing arrives or leaves, and what so many of them change. */
uint64_t serving_schedule_steps(const struct serving_step *step, const struct serving_sim *sim);
void serving_schedule_skip(struct serving_sim *sim, uint64_t steps);

/* Gaps between tokens: of a run of decode steps, before serving_decode_steps; of prompts that end and of preemptions. */
void serving_gaps_decoded(struct serving_sim *sim, double first_end_s, double first_s, double slope_s, uint64_t steps);
void serving_gaps_joined(struct serving_sim *sim);
void serving_gaps_preempted(struct serving_sim *sim, uint32_t slot);

uint32_t serving_waiting_head(const struct serving_sim *sim); /* SERVING_NONE = nobody waits */
/* Moves the first fresh one on. */
void serving_skip_rejected(struct serving_sim *sim);

#endif
