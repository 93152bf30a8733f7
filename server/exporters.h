/* From the samples of any known exporter to canonical quantities, by the table in exporters.def.
   Ownership: the observation's gpus belong to the reading. Threads: one reading, one thread; the index is read only once
   built. Errors: ERR_NOMEM; what is not known is left out and counted. */
#ifndef FITD_SERVER_EXPORTERS_H
#define FITD_SERVER_EXPORTERS_H

#include "api/observation.h"
#include "server/exposition.h"

#define EXPORTER_GPUS_MAX 256 /* of one page: 8 cards in 8 parts and some */

struct exporters; /* the table, indexed */
enum err exporters_open(struct exporters **out, struct error *e) MUST_CHECK;
void exporters_close(struct exporters *exporters);

struct reading;
/* exporter: index into observation_exporters; of others than auto only the metrics of that one count. */
enum err reading_new(struct reading **out, const struct exporters *exporters, int exporter, struct error *e) MUST_CHECK;
void reading_free(struct reading *reading);
/* Where a parser's samples and left out lines go. */
struct exposition_sink reading_sink(struct reading *reading);
/* After the last sample. ERR_NOMEM: memory ran out on the way. */
enum err reading_finish(const struct observation **out, struct reading *reading, struct error *e) MUST_CHECK;
/* Metrics and lines left out, for people: at most the first ones. */
struct reading_note {
  uint64_t line; /* 0: about a value */
  char text[120];
};
size_t reading_notes(const struct reading_note **notes, const struct reading *reading);

#endif
