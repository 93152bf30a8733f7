/* Evaluating a sketch over candidate profiles: reading it, running the core, writing scorecards, ordering, recommending.
   Shared by POST /v1/evaluations, `fitd evaluate` and what later issues build on them. Private to api/. */
#ifndef FITD_API_EVALUATION_H
#define FITD_API_EVALUATION_H

#include "api/catalogue.h"
#include "core/calibration.h"
#include "core/fit.h"

/* Factors fitted to measurements of the sketch's model and stack on a profile. */
struct sketch_calibration {
  char id[37]; /* "" = none */
  struct calibration calibration;
};

/* Requests of a trace, as core replays them. */
struct sketch_replay {
  struct arrival *rows; /* owned; NULL = none */
  size_t count;
  uint32_t *hashes; /* owned */
  size_t hash_count;
  char digest[72]; /* of the requests; "" = none */
};

/* A sketch as read: workload, model and candidate profiles resolved against a snapshot. */
struct sketch {
  struct workload workload;
  struct model model;
  char model_name[129];
  int model_revision;   /* 0 = given inline */
  bool has_draft_model; /* serving.speculative.draft_model names it */
  struct model draft_model;
  json_t *model_assumptions; /* array; owned */
  json_t *notes;             /* array of sentences: what the sketch asks for that changes no figure yet; owned */
  json_t *traffic;           /* the block as sent; owned */
  const struct catalogue_profile **profiles; /* owned array of borrowed rows */
  size_t profile_count;
  struct sketch_calibration *calibrations; /* owned; one a profile */
  bool profiles_are_named;                 /* the sketch lists them */
  json_t *quality;                         /* targets.quality as sent; NULL when absent; owned */
  json_t *stack, *context;     /* owned; NULL when absent; a stored stack as {"name", "revision", parts…} */
  char stack_name[65];         /* of a stored stack; "" = none, or given in full */
  char digest[72];             /* of the canonical sketch */
  char *canonical;             /* owned */
  struct sketch_replay replay; /* of traffic.trace, once loaded: api/trace.h */
};
/* All faults at once; pointers are those of the sketch, prefixed with `pointer`. */
void sketch_read(struct sketch *out, const struct catalogue_snapshot *snapshot, const json_t *body, const char *pointer,
                 struct faults *faults);
/* False: memory ran out as it was read, which is no fault of the body; it can not be evaluated. */
bool sketch_is_whole(const struct sketch *sketch);
void sketch_fini(struct sketch *sketch);
/* Other candidates than the sketch's own, with their calibrations. Takes the array. */
void sketch_use_profiles_steal(struct sketch *sketch, const struct catalogue_snapshot *snapshot,
                               const struct catalogue_profile **profiles, size_t count);
/* The stack as history and measurements are searched by it: its name, else its canonical text, "" without one. malloc'ed; NULL
   when memory is out. */
char *sketch_stack_text(const struct sketch *sketch);
/* Of one of its profiles. */
const struct sketch_calibration *sketch_calibration(const struct sketch *sketch,
                                                    const struct catalogue_profile *profile);
/* Of everything that can change a figure: prose and context are left out. False when memory is out. */
bool sketch_digest(char to[72], const json_t *body);

struct quality;

/* One scorecard with what identifies it. */
struct live;
struct live_nodes;
struct derate;
struct scorecard_identity {
  char id[37], evaluation[37];
  char created_at[32];
  const char *label; /* NULL = none */
  const struct sketch *sketch;
  const struct catalogue_profile *profile;
  const struct sketch_calibration *calibration; /* that was used; NULL = none */
  const struct quality *quality;                /* NULL: nothing is known about it */
  const struct live_nodes *nodes;               /* for "hardware": "live"; else NULL */
  const struct derate *derate;                  /* what they say of the profile; NULL = as on the datasheet */
  const char *hardware_note;                    /* the same as a sentence */
};
json_t *scorecard_write(const struct scorecard *card, const struct scorecard_identity *identity);
/* Parts of it (api/scorecard_advice.c); NULL when memory is out. */
json_t *scorecard_change_write(const struct scorecard_change *change, const struct sketch *sketch);
json_t *scorecard_advice(const struct scorecard *card, const struct sketch *sketch);
json_t *scorecard_ways_out(const struct scorecard *card, const struct sketch *sketch);
json_t *scorecard_alternatives(const struct scorecard *card);

/* Cards that fit, beside one that fits for less: finding cheaper_device_fits and its advice (api/cheaper.c). Cards are in
   order. False when memory is out. */
bool evaluation_name_cheaper(json_t *cards, const struct workload *workload);

struct evaluation_options {
  const char *label; /* NULL = none */
  enum fit_depth depth;
  bool depth_is_given;
  int64_t now_ms;
  size_t arena_bytes;
  const struct api_deps *deps; /* random */
  struct live *live;           /* for "hardware": "live"; NULL = there are no nodes here */
  bool are_figures_enough;     /* see fit_request */
};

/* What was computed: the head (everything but scorecards), and the scorecards in the order of the answer. */
struct evaluation {
  char id[37];
  json_t *head;       /* id, created_at, workload, model, label, core_version, sketch_digest, recommendation */
  json_t *scorecards; /* array */
  bool fits;          /* any verdict is fit */
  bool is_quick;      /* the closed form was asked for: never the official evaluation of a workload */
};
enum err evaluation_run(struct evaluation *out, const struct sketch *sketch, const struct evaluation_options *options,
                        struct error *e) MUST_CHECK;
void evaluation_fini(struct evaluation *evaluation);

/* head and scorecards as one document: {"id":…, …, "scorecards":[…], "recommendation":…}. */
json_t *evaluation_document(const struct evaluation *evaluation);

/* Markdown and CSV of an evaluation document; malloc'ed, NULL when memory is out. */
char *evaluation_markdown(const json_t *document);
char *evaluation_csv(const json_t *document);
char *scorecard_markdown(const json_t *scorecard);

#endif
