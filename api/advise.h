/* Advice for a bare Hugging Face config: GPU × {as is, GQA, FP8, both}, under a named kind of traffic. Stores nothing. Shared
   by POST /v1/advise and `fitd advise`. Private to api/. */
#ifndef FITD_API_ADVISE_H
#define FITD_API_ADVISE_H

#include "api/catalogue.h"

/* A kind of traffic with the limits that its users expect. */
struct advise_traffic {
  const char *name;
  unsigned input_tokens, output_tokens;
  double requests_per_s;
  double ttft_p99_ms, itl_p99_ms; /* 0 = no limit */
};
extern const char *const advise_traffic_names[]; /* NULL-terminated */

struct advise_options {
  int traffic;           /* index into the names */
  double requests_per_s; /* 0 = the kind's own */
  size_t arena_bytes;
};

/* Faults have pointers into the config, or "?traffic" where its conversations are longer than the model's context. */
enum err advise_document(json_t **out, const json_t *config, const struct advise_options *options,
                         const struct catalogue_snapshot *snapshot, struct faults *faults, struct error *e) MUST_CHECK;

/* Malloc'ed; NULL when memory is out. */
char *advise_markdown(const json_t *document);

#endif
