/* An exporter on a free loopback port that misbehaves as told: the path of a request names what it does.
     /good            the page set with exporter_say
     /hang            takes the request and says nothing
     /drip            one byte of an endless page every 20 ms
     /bomb            50 MB of lines in some kB of gzip
     /many            400,000 series
     /loop            302 to itself
     /elsewhere       302 to /good
     /short           a Content-Length beyond what comes
     /status/NNN      that status, with a page
     /garbage         bytes that are no exposition
     /html            a page for people
     /empty           200 without a body
     /notgzip         says gzip, is plain
     /deflate         says deflate
     /secret          the page when the Authorization header is the one set, else 401
   Errors: fail the running test. Threads: one for each connection; the counters may be read at any time. */
#ifndef FITD_TESTS_LIB_EXPORTER_H
#define FITD_TESTS_LIB_EXPORTER_H

struct exporter;
struct exporter *exporter_start(void);
void exporter_stop(struct exporter *exporter);
unsigned exporter_port(const struct exporter *exporter);
/* Text is copied. */
void exporter_say(struct exporter *exporter, const char *page);
void exporter_expect(struct exporter *exporter, const char *authorization);
/* Requests so far whose path starts with `path`. */
unsigned exporter_hits(struct exporter *exporter, const char *path);

#endif
