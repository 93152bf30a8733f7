/* Frontiers of a sketch over its candidate profiles: the computed document and its other representations. Private to api/. */
#ifndef FITD_API_FRONTIER_H
#define FITD_API_FRONTIER_H

#include "api/evaluation.h"

struct frontier_options {
  bool has_cost;   /* cost of a million output tokens is an objective too */
  bool by_profile; /* profiles do not compete with each other */
  size_t arena_bytes;
};

/* The document of POST /v1/frontiers. ERR_INVALID with a pointer into the sketch where it can not be computed. */
enum err frontier_document(json_t **out, const struct sketch *sketch, const struct frontier_options *options,
                           struct error *e) MUST_CHECK;

/* Malloc'ed; NULL when memory is out. CSV has one line a point, variants after the model as it is. */
char *frontier_csv(const json_t *document);
char *frontier_markdown(const json_t *document);

#endif
