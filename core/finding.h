/* What a scorecard means: every claim of the design's table (CORE §7) that its figures bear out, with the numbers that show
   it. Codes are stable, clients match them. Private to core; called at depth full, when everything else is filled in. */
#ifndef FITD_CORE_FINDING_H
#define FITD_CORE_FINDING_H

#include "core/search.h"

/* What findings are made from. */
struct finding_case {
  struct scorecard *card;
  const struct fit_request *request;
  const struct search_input *input;
  const struct search_result *result;
  struct arena *arena;
  bool is_failed; /* the arena was exhausted */
  /* The same request by the closed form and by a short simulation: what changes are compared with, like with like. */
  const struct scorecard *closed_form, *simulated;
};

/* ERR_LIMIT, ERR_CANCELLED. */
enum err finding_fill(struct finding_case *c, struct error *e) MUST_CHECK;

/* One finding; `message` NULL: the arena was exhausted. */
void finding_add(struct finding_case *c, const char *code, enum severity severity, const char *message,
                 const struct scorecard_evidence *evidence, size_t count);
#define FINDING_ADD(c, code, severity, message, evidence)                                                              \
  finding_add(c, code, severity, message, evidence, sizeof(evidence) / sizeof(evidence)[0])

bool finding_has(const struct scorecard *card, const char *code);

/* The first layer with plain attention of its own, the one most models are made of; NULL where there is none. */
const struct attention *finding_plain_attention(const struct model *model);

/* KV heads of the same model with grouped attention: 8 query heads a KV head where there are none, 8 KV heads where there
   are more; 0 = attention is grouped, or of another kind. */
unsigned finding_grouped_heads(const struct model *model);

/* Groups of them, in files of their own. */
void finding_of_structure(struct finding_case *c); /* attention, shapes, depth and width */
void finding_of_layout(struct finding_case *c);    /* links and shards */
void finding_of_load(struct finding_case *c);      /* arrivals, tails, volume */
void finding_of_trouble(struct finding_case *c);   /* work done twice or for nobody, growth, restarts */

#endif
