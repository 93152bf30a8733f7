/* The command that starts one replica as it was computed, in the words of each engine's own command line; what those words
   can not say is left as a note. Private to core. */
#ifndef FITD_CORE_LAUNCH_H
#define FITD_CORE_LAUNCH_H

#include "core/notes.h"
#include "core/search.h"

/* In the arena; NULL when it is exhausted. */
const char *launch_command(const struct candidate *best, const struct search_input *input, struct arena *arena);

/* What whoever runs the command has to add or to know. */
void launch_notes(struct notes *notes, const struct candidate *best, const struct search_input *input);

#endif
