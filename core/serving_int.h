/* One replica of the simulation and what drives it from outside. Its parts: serving_batch.c (who runs and what memory that
   takes), serving_schedule.c (what goes into the next step), serving_clock.c (time). Private to core/serving*.c and
   core/fleet*.c. */
#ifndef FITD_CORE_SERVING_INT_H
#define FITD_CORE_SERVING_INT_H

#include "core/serving.h"

#define SERVING_NONE UINT32_MAX

/* Place of a request in the queue of a replica, or of who holds it outside. */
struct serving_link {
  double visible_s; /* to the scheduler of the replica where it is now */
  uint32_t older, newer;
  uint32_t slot;    /* SERVING_NONE = not admitted */
  bool is_waiting;  /* queued and seen by the scheduler */
  bool is_computed; /* came with the cache of its prompt */
};

/* What all replicas of a run share: the rows and what becomes of them. */
struct serving_rows {
  const struct arrival *arrivals;
  size_t count;
  const uint32_t *hashes;
  size_t hash_count;
  struct serving_outcome *outcomes;
  struct serving_link *links;
  struct histogram *itl;
};

/* A running sequence. While it decodes, its tokens follow from the token clock of its replica. */
struct serving_slot {
  uint64_t finish_clock; /* that emits its last token */
  uint64_t number;       /* of its admission */
  uint32_t request;
  uint32_t need_tokens;   /* that were to be computed when it was admitted */
  bool is_orphan;         /* its client has gone: leaves at the end of the step */
  double token_s;         /* of a prompt's token, until the next decode step */
  uint32_t joined_place;  /* SERVING_NONE after that */
  bool is_decoding;       /* its prompt is computed */
  uint32_t older, newer;  /* order of admission */
  uint32_t shared_blocks; /* of its first tokens, held by the prefix cache */
};

/* When a slot finishes: by the token clock, then by the order of admission. */
struct serving_finish {
  uint64_t clock, number;
  uint32_t slot;
};

/* Blocks of prompts that the prefix cache holds, found by their hash. */
struct serving_cached {
  uint32_t hash;
  uint32_t users;        /* sequences that run on it */
  uint32_t next;         /* of its bucket, or of the free ones */
  uint32_t older, newer; /* without users: by last use */
};
struct serving_cache {
  struct serving_cached *blocks;
  uint32_t *buckets;
  uint32_t mask, free, oldest, newest;
  uint32_t kv_blocks; /* that one of them takes; 0 = there is no cache by hashes */
  uint64_t idle;      /* blocks without users */
};

/* KV blocks of a request's prompt that are in a cache, and those of them that nobody uses. */
struct serving_hit {
  uint32_t blocks, idle_blocks;
};

/* What the next step carries beside the decodes. */
struct serving_step {
  bool has_decodes, has_preempted;
  uint64_t prompt_tokens;
  double prompt_s;
};

/* Decode steps of one batch: the first one's length and what each adds to the one before. */
struct serving_pace {
  double first_s, slope_s;
};

/* Which part of a request a replica does. */
enum serving_part { SERVING_WHOLE, SERVING_PROMPTS, SERVING_ANSWERS };

enum serving_phase {
  SERVING_AT_BOUNDARY, /* between two steps, the next one is not decided */
  SERVING_RESTING,     /* nothing to do before something becomes visible */
  SERVING_STEPPING
};

struct serving_sim {
  const struct serving_settings *settings;
  const struct serving_cost *cost;
  const struct arrival *arrivals;
  struct serving_outcome *outcomes;
  struct serving_link *links;
  const uint32_t *hashes;
  struct serving_totals *totals;
  struct histogram *itl;

  enum serving_part part;
  enum serving_phase phase;
  double time_s;            /* of the last boundary */
  double previous_start_s;  /* when the step that ended there began */
  double pace_ratio;        /* all steps last so many times as long; 1 = as the cost says */
  struct serving_step step; /* what is under way: so many steps alike, until end_s */
  struct serving_pace pace;
  uint64_t steps;
  double prompts_s, end_s;

  uint64_t decode_step;             /* done so far */
  uint64_t token_clock;             /* tokens that a sequence got that took part in all of them */
  double tokens_per_step;           /* all sequences get the same in one step, so many on average */
  uint32_t block_phase;             /* token_clock mod kv_block_tokens */
  uint32_t recv_phase, admit_phase; /* decode steps since the last look, mod their intervals */
  uint32_t waited_steps;            /* of batch_wait_steps */

  /* Requests that are not admitted: the preempted ones before the fresh ones in the order of sending. */
  uint32_t queue_head, queue_tail;
  uint32_t unseen; /* the first that the scheduler has not seen; SERVING_NONE = it has seen all */
  double last_visible_s;
  uint64_t waiting_tokens; /* of prompts to be computed */

  struct serving_slot *slots;
  uint32_t *free_slots;
  uint32_t free_count, running; /* admitted */
  uint64_t admissions;          /* so far */
  uint32_t oldest, newest;
  struct serving_finish *heap; /* of the decoding slots, earliest first */
  uint32_t decoding;
  uint64_t context_tokens; /* that the next decode step reads */

  uint32_t partial; /* slot whose prompt is cut between steps; always the newest */
  uint32_t partial_done_tokens;
  uint32_t *completed; /* slots whose prompts end in this step */
  uint32_t completed_count;
  uint32_t *ended; /* requests whose last token came out of the step that has just ended */
  uint32_t ended_count;
  uint32_t *orphans; /* slots, earliest admission first */
  uint32_t orphan_count;

  uint64_t pool_blocks, used_blocks;
  uint64_t claimed_blocks; /* by the decodes of the step that prompts would ride in */
  uint32_t cached_blocks;  /* of the shared prefix, in the cache for good */
  struct serving_cache cache;
  uint64_t held_blocks;      /* of either cache, among those in use */
  uint32_t *growth;          /* sequences that need a block, by the block_phase at which they do */
  uint64_t own_tokens;       /* KV of running sequences outside of the prefix cache */
  uint64_t remaining_tokens; /* of answers of running sequences still to be emitted */

  /* Since the last decode step, for the gaps between tokens. */
  uint32_t *joined; /* slots whose last token came out of a prompt */
  uint32_t joined_count;
  double last_decode_s;
};

/* ---- From outside: what a replica is told and asked ---- */

/* Bytes that serving_sim_init and the links of all rows take of an arena that begins aligned. */
size_t serving_sim_bytes(const struct serving_settings *settings, size_t requests, size_t hash_count);
size_t serving_links_bytes(size_t requests);
size_t serving_rounded_bytes(size_t count, size_t size);

enum err serving_settings_check(const struct serving_settings *settings, const struct serving_rows *rows,
                                struct error *e) MUST_CHECK;

/* *out starts at time 0 with nothing to do. Everything given is borrowed; ERR_LIMIT: the arena is exhausted. */
enum err serving_sim_init(struct serving_sim *out, const struct serving_settings *settings,
                          const struct serving_cost *cost, const struct serving_rows *rows,
                          struct serving_totals *totals, struct arena *arena, struct error *e) MUST_CHECK;

/* Whether the replica could ever run the request. */
bool serving_is_too_long(const struct serving_sim *sim, uint32_t request);

/* A request reaches the replica, not before any other that it was given. */
void serving_offer(struct serving_sim *sim, uint32_t request, double now_s);

/* A request reaches the replica with the cache of its prompt and its first token, then and not before any other. */
void serving_offer_computed(struct serving_sim *sim, uint32_t request, double arrives_s);

/* The client of a request that has been offered and has not ended is gone: it leaves at the next boundary. */
void serving_abandon(struct serving_sim *sim, uint32_t request, double now_s);

/* From the next boundary on, steps last `ratio` times as long. */
void serving_set_pace(struct serving_sim *sim, double ratio, double now_s);

/* At a boundary: decides what comes next. Everything that was visible by then must have been offered. */
void serving_plan(struct serving_sim *sim);

/* When that ends, or wakes up; infinite: nothing to do. Offers and the like may bring it forward. */
double serving_next_s(const struct serving_sim *sim);

/* Goes there. The requests that ended are in sim->ended until the next time; where only prompts are computed, those with
   more than one token are unfinished. */
void serving_commit(struct serving_sim *sim);

/* ---- Between the parts ---- */

/* Tokens that request must compute to emit its next one: its prompt and, after a preemption, what it has emitted. */
static inline uint32_t serving_need_tokens(const struct serving_sim *sim, uint32_t request)
{
  return sim->arrivals[request].input_tokens + sim->outcomes[request].output_tokens;
}

/* Tokens of a request's answer that this replica sees to. */
static inline uint32_t serving_answer_tokens(const struct serving_sim *sim, uint32_t request)
{
  return sim->part == SERVING_PROMPTS ? 1 : sim->arrivals[request].output_tokens;
}

/* What a request finds in the caches: never all it needs, the last token is always computed. With a shared prefix of which
   so many blocks are cached; by hashes. */
struct serving_hit serving_hit_of(const struct serving_sim *sim, uint32_t request);
uint32_t serving_hit_blocks(const struct serving_sim *sim, uint32_t request, uint32_t cached_blocks);
struct serving_hit serving_cache_find(const struct serving_sim *sim, uint32_t request, uint32_t most_tokens);

/* The cache by hashes: its size; a sequence that is admitted, whose prompt is done, that leaves; what fits beside all else. */
size_t serving_cache_blocks(const struct serving_settings *settings, size_t hash_count);
size_t serving_cache_buckets(size_t blocks);
void serving_cache_init(struct serving_cache *cache, const struct serving_settings *settings, size_t blocks);
void serving_cache_use(struct serving_sim *sim, const struct serving_slot *slot);
void serving_cache_keep(struct serving_sim *sim, struct serving_slot *slot);
void serving_cache_leave(struct serving_sim *sim, const struct serving_slot *slot);
void serving_cache_shrink(struct serving_sim *sim, uint64_t blocks);

uint64_t serving_blocks(const struct serving_sim *sim, uint64_t tokens);

/* Blocks that a request takes when it is admitted: its own and cached ones that nobody uses. */
uint64_t serving_admission_blocks(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit);

uint32_t serving_admit(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit);
/* The same of one whose prompt is computed, and the blocks that must be free for that. */
uint32_t serving_admit_computed(struct serving_sim *sim, uint32_t request, const struct serving_hit *hit);
uint64_t serving_computed_blocks(const struct serving_sim *sim, uint32_t request, const struct serving_hit *hit);
/* Unused blocks of the cache make room for what is in use and claimed. */
void serving_make_room(struct serving_sim *sim);
/* Its prompt is computed. */
void serving_keep_prefix(struct serving_sim *sim, uint32_t slot);
void serving_start_decoding(struct serving_sim *sim, uint32_t slot);
void serving_leave(struct serving_sim *sim, uint32_t slot);
void serving_preempt_newest(struct serving_sim *sim);
void serving_drop_orphans(struct serving_sim *sim);

/* The token clock after so many decode steps, and the first of them at which it shows that much. */
uint64_t serving_clock_at(const struct serving_sim *sim, uint64_t step);
uint64_t serving_step_of(const struct serving_sim *sim, uint64_t clock);

/* Tokens that a decode may get in one step. */
uint64_t serving_step_tokens_most(const struct serving_sim *sim);

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

/* Gaps between tokens: of the decode steps under way, the first of which ends then, before serving_decode_steps; of a prompt
   that ends; of a sequence that leaves unfinished. */
void serving_gaps_decoded(struct serving_sim *sim, double first_end_s);
void serving_gaps_joined(struct serving_sim *sim, uint32_t slot);
void serving_gaps_left(struct serving_sim *sim, uint32_t slot);

/* serving_queue.c */
void serving_queue_append(struct serving_sim *sim, uint32_t request, double visible_s, bool is_computed);
void serving_queue_prepend(struct serving_sim *sim, uint32_t request); /* preempted: is seen */
void serving_queue_remove(struct serving_sim *sim, uint32_t request);
void serving_queue_see(struct serving_sim *sim, double horizon_s); /* all that is visible by then */

/* First to be admitted; SERVING_NONE = nobody waits. */
static inline uint32_t serving_waiting_head(const struct serving_sim *sim)
{
  return sim->queue_head != sim->unseen ? sim->queue_head : SERVING_NONE;
}

#endif
