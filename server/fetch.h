/* One scrape over HTTP: an easy handle that parses while it receives, within a deadline and a cap on what comes out of
   decompression. No redirects, no proxies, gzip alone; the address that is connected to is checked when it is connected to,
   so that a name which resolves otherwise later helps nobody.
   Threads: one at a time. Errors: sentences without anything from the page. */
#ifndef FITD_SERVER_FETCH_H
#define FITD_SERVER_FETCH_H

#include <curl/curl.h>

#include "server/addresses.h"
#include "server/exporters.h"

struct fetch_options {
  const struct exporters *exporters;
  const struct addresses *allowed; /* NULL: every address (the command line's own choice) */
  size_t body_max_bytes;
};

struct fetch;
/* `target` is copied as far as needed; the options are borrowed. */
enum err fetch_new(struct fetch **out, const struct api_target *target, const struct fetch_options *options,
                   struct error *e) MUST_CHECK;
void fetch_free(struct fetch *fetch);
/* To be added to a multi handle, or performed; its CURLOPT_PRIVATE is the fetch. */
CURL *fetch_easy(const struct fetch *fetch);

/* After curl is done with it. True: *seen, borrowed until fetch_free. False: *failure, a sentence. */
bool fetch_result(const struct observation **seen, const char **failure, struct fetch *fetch, CURLcode code);
/* What was left out of the page, for people; also after a failure. */
const struct reading *fetch_reading(const struct fetch *fetch);

#endif
