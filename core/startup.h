/* From starting a replica to its first answer, and what restarts take of the fleet's time. Pure functions. Private to core.
   Reading the weights is physics; starting the process, capturing graphs and warming up are assumptions, named as such. */
#ifndef FITD_CORE_STARTUP_H
#define FITD_CORE_STARTUP_H

#include "core/notes.h"
#include "core/search.h"

struct scorecard_startup startup_of(const struct candidate *candidate, const struct hardware *hardware);

/* Share of the replicas' time that the sketch's restarts and deploys take. */
double startup_lost_ratio(const struct candidate *candidate, const struct search_input *input);

/* Of the requests, those that find a replica: with one alone, nobody answers while it starts. */
double startup_available_ratio(const struct candidate *candidate, const struct search_input *input);

void startup_note(struct notes *notes, const struct candidate *candidate, const struct search_input *input);

#endif
