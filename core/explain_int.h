/* Shared by the parts of an explanation. Private to core/explain*.c. */
#ifndef FITD_CORE_EXPLAIN_INT_H
#define FITD_CORE_EXPLAIN_INT_H

#include "core/explain.h"

/* explain_memory.c: fills plan-dependent members from out->input, layout, plan and `preset`. ERR_LIMIT. */
enum err explain_memory(struct explanation *out, const struct preset *preset, struct arena *arena,
                        struct error *e) MUST_CHECK;

#endif
