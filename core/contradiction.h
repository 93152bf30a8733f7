/* Targets that no engine on no number of these devices can meet together: they are named, never answered. Private to core.
   Two kinds: limits of one percentile that exclude each other (a part may take longer than the whole; medians that add up
   to more than theirs), and limits below what peak arithmetic and peak bandwidth of a whole interconnect domain allow. */
#ifndef FITD_CORE_CONTRADICTION_H
#define FITD_CORE_CONTRADICTION_H

#include "core/search.h"

/* Turns the card into "no_fit, targets_contradict" without configuration where targets contradict, with a finding a pair;
   where only their tails add up to more than the whole's, which tails may, a warning is all. ERR_LIMIT. */
enum err contradiction_report(struct scorecard *card, const struct search_input *input, struct arena *arena,
                              struct error *e) MUST_CHECK;

#endif
