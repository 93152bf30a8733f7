/* State of a fleet's simulation. Private to core/fleet*.c. */
#ifndef FITD_CORE_FLEET_INT_H
#define FITD_CORE_FLEET_INT_H

#include "core/fleet.h"
#include "core/serving_int.h"

/* The least of a number of keys, the first of equals, kept while keys change: a tournament, its leaves behind its inner
   nodes. */
struct fleet_least {
  double *keys;      /* those beyond the number are infinite */
  uint32_t *winners; /* [1] of all; [leaves + i] is i */
  uint32_t leaves;   /* a power of two */
};

size_t fleet_least_bytes(uint32_t count);
bool fleet_least_init(struct fleet_least *out, uint32_t count, double key, struct arena *arena);
void fleet_least_set(struct fleet_least *least, uint32_t index, double key);

static inline uint32_t fleet_least_index(const struct fleet_least *least)
{
  return least->winners[1];
}

static inline double fleet_least_key(const struct fleet_least *least)
{
  return least->keys[least->winners[1]];
}

/* Rows in an order, through links that the list does not own. */
struct fleet_list {
  struct serving_link *links;
  uint32_t head, tail;
};

void fleet_list_append(struct fleet_list *list, uint32_t row);
void fleet_list_remove(struct fleet_list *list, uint32_t row);

struct fleet {
  const struct fleet_run *run;
  struct serving_outcome *outcomes;
  struct fleet_totals *totals;
  struct serving_sim *replicas;
  struct fleet_least next;     /* when each one's step ends */
  struct fleet_least load;     /* requests in each one that takes them in */
  struct fleet_least decoding; /* … in each one that only decodes, from prefill_replicas on */
  double *link_free_s;         /* when the link of each one is free; NULL: there are no pools */
  uint32_t *at_boundary;       /* replicas whose next step is not decided */
  uint32_t at_boundary_count;
  double now_s;
  double clock_s; /* when a slowdown begins or ends next */
  size_t next_row;
  uint32_t idle_users; /* closed loop: about to send */
  uint32_t in_system;
  struct fleet_list front;     /* waits for the concurrency limit */
  struct fleet_list retries;   /* about to be sent again */
  struct fleet_list deadlines; /* of attempts, earliest first */
  double *deadline_s;          /* of each row; NULL: nobody gives up */
};

static inline bool fleet_is_decoder(const struct fleet_run *run, uint32_t replica)
{
  return run->prefill_replicas != 0 && replica >= run->prefill_replicas;
}

/* One event; false when nothing is left to come. */
bool fleet_advance(struct fleet *fleet);

/* The first change of a clock after `when_s`. */
double fleet_clock_after_s(const struct fleet_run *run, double when_s);

#endif
