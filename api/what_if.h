/* What-ifs: one sketch, and cells that differ from it in a few settings, each evaluated in closed form. Private to api/. */
#ifndef FITD_API_WHAT_IF_H
#define FITD_API_WHAT_IF_H

#include "api/evaluation.h"

enum { WHAT_IF_CELLS_MAX = 4096 /* cells × profiles */, WHAT_IF_AXES_MAX = 16 };

/* One setting and its values (of a grid), or its value (of a case). */
struct what_if_axis {
  const char *pointer;
  const json_t *values;
};

/* A body as read. Everything but the sketch is borrowed from it. */
struct what_if {
  const json_t *body;
  struct sketch sketch;
  struct what_if_axis axes[WHAT_IF_AXES_MAX]; /* of a grid; none for cases */
  size_t axis_count;
  const json_t *cases; /* NULL for a grid */
  bool searches;     /* cells are searched like an evaluation; else they keep the layout that is best for the sketch */
  size_t cell_count; /* on each profile */
};
void what_if_read(struct what_if *out, const struct catalogue_snapshot *snapshot, const json_t *body,
                  struct faults *faults);
void what_if_fini(struct what_if *what_if);

/* The document of POST /v1/what-ifs. ERR_INVALID with a pointer into the body where the sketch itself can not be computed;
   a cell that can not be says so in its place. */
enum err what_if_document(json_t **out, const struct what_if *what_if, const struct catalogue_snapshot *snapshot,
                          size_t arena_bytes, struct error *e) MUST_CHECK;

/* Malloc'ed; NULL when memory is out. One line a cell, the sketch as it is first. */
char *what_if_csv(const json_t *document);
char *what_if_markdown(const json_t *document);

#endif
