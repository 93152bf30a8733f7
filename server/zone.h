/* Offsets of a named time zone, read from the system's zone files (RFC 8536), so that weeks do not depend on the TZ of the
   process. Threads: a zone does not change once it is open. */
#ifndef FITD_SERVER_ZONE_H
#define FITD_SERVER_ZONE_H

#include <stdint.h>

#include "core/error.h"

struct zone;

/* "Europe/Berlin" as below /usr/share/zoneinfo; "UTC" needs no file. ERR_INVALID: no such zone, or no zone file. */
enum err zone_open(struct zone **out, const char *name, struct error *e) MUST_CHECK;
void zone_close(struct zone *zone); /* NULL is allowed */

/* Seconds that local time is ahead of UTC. */
int zone_offset_s(const struct zone *zone, int64_t unix_s);

/* The same from the bytes of a zone file, for tests. */
enum err zone_parse(struct zone **out, const unsigned char *bytes, size_t count, struct error *e) MUST_CHECK;

#endif
