/* The blocks of a sketch: each function reads one member of it (read_field's `call`) into the struct named in its
   comment. Shared by api/sketch*.c and by bodies
   that have the same members. */
#ifndef FITD_API_SKETCH_PARTS_H
#define FITD_API_SKETCH_PARTS_H

#include <jansson.h>

#include "core/error.h"

/* Bounds that catch wrong units and slips, not large systems. */
#define SKETCH_TOKENS_MAX 1e7
#define SKETCH_CONTEXT_TOKENS_MAX 16777216
#define SKETCH_MS_MAX 864e5 /* a day */
#define SKETCH_GPUS_MAX 1e6

void sketch_read_traffic(const json_t *value, const char *pointer, void *to,
                         struct faults *faults); /* workload_traffic */
void sketch_read_targets(const json_t *value, const char *pointer, void *to,
                         struct faults *faults); /* workload_targets */
void sketch_read_success(const json_t *value, const char *pointer, void *to,
                         struct faults *faults); /* workload_targets */
void sketch_read_serving(const json_t *value, const char *pointer, void *to,
                         struct faults *faults); /* workload_serving */
void sketch_read_constraints(const json_t *value, const char *pointer, void *to,
                             struct faults *faults); /* sketch_constraints */

void sketch_read_precision(const json_t *value, const char *pointer, void *to, struct faults *faults); /* workload */

/* Adds FAULT_UNKNOWN_NAME with the nearest of `names`. */
void sketch_unknown_name(const char *pointer, const char *kind, const char *name, const char *const *names,
                         struct faults *faults);

struct workload_constraints;
struct catalogue_snapshot;
struct sketch_constraints {
  struct workload_constraints *constraints;
  const struct catalogue_snapshot *snapshot; /* which profiles, clouds and commitments there are */
};

#endif
