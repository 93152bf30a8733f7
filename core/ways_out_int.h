/* What core/ways_out.c and its search share. Private to them. */
#ifndef FITD_CORE_WAYS_OUT_INT_H
#define FITD_CORE_WAYS_OUT_INT_H

#include "core/ways_out.h"

/* A setting on its way from what it is to where it can give way no further. */
struct way {
  const char *knob, *pointer;
  enum change_requires requires;
  bool is_whole;        /* counts move by one, others by ratios */
  bool is_winding;      /* helps until it hurts: the end may not fit where a point before does */
  double from, end;     /* > 0; of a LENGTH its scale: from 1 */
  struct length length; /* kind ABSENT: `from` and `end` are the setting's own numbers */
};

struct ways_search {
  struct finding_case *c;
  struct change_base base; /* asks for verdicts */
  bool is_coarse;          /* counts are close within the 1 % too: each look is a simulation */
};

/* The value of the setting at a point of its way. */
struct knob_value way_value(const struct way *way, double at);

/* The request with a setting changed, the verdict alone. */
enum err ways_try(bool *fits, struct scorecard *card, const struct ways_search *s, const char *pointer,
                  const struct knob_value *value, struct error *e) MUST_CHECK;

/* The same where no figure of the card is read: it is that of some fit. */
enum err ways_probe(bool *fits, struct scorecard *card, const struct ways_search *s, const char *pointer,
                    const struct knob_value *value, struct error *e) MUST_CHECK;

/* *is_found: `at` is the point nearest to way->from that fits. Where the far end does not fit,
   neither does the way, unless some point of a few between does (settings that help until they hurt). */
/* The point that a way has by another measure, moved to where this one turns. *is_found false: nowhere up to the end. */
enum err way_settle(double *at, bool *is_found, const struct ways_search *s, const struct way *way,
                    struct error *e) MUST_CHECK;

enum err way_search(double *at, bool *is_found, const struct ways_search *s, const struct way *way,
                    struct error *e) MUST_CHECK;

#endif
