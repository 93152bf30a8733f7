/* The log: JSON lines to standard error or a file. Lines are collected and written together, so that a request does not
   cost a system call; warnings and errors are written at once.
   Threads: every function from any thread. A destination that does not take more (a full pipe) never blocks a caller:
   lines beyond the buffer are dropped and counted, and the count is logged when it flows again. */
#ifndef FITD_SERVER_LOG_H
#define FITD_SERVER_LOG_H

#include <stdint.h>

#include "core/error.h"

struct log;
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
const char *log_level_name(enum log_level level);
bool log_level_parse(enum log_level *level, const char *name);

/* path "" = standard error. ERR_UNAVAILABLE when the file can not be opened. */
enum err log_open(struct log **out, const char *path, enum log_level level, struct error *e) MUST_CHECK;
void log_close(struct log *log);
/* Opens the file of log_open again, for rotation. */
enum err log_reopen(struct log *log, struct error *e) MUST_CHECK;
void log_set_level(struct log *log, enum log_level level);

void log_write(struct log *log, enum log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

/* One finished request. `route` is the pattern, never the raw URL. */
struct log_request {
  const char *id, *method, *route, *caller, *termination;
  unsigned status; /* 0 = no answer was made */
  int64_t duration_us;
  size_t bytes; /* of the answer's body */
};
void log_request(struct log *log, const struct log_request *request);

/* One finished request that may have changed something, or was refused when it tried. Unlike the line above it names the
   thing (its path) and the client. */
struct log_audit {
  const char *id, *method, *path, *caller, *client;
  unsigned status;
};
void log_audit(struct log *log, const struct log_audit *audit);

/* Writes what waits; to be called at least every 200 ms. */
void log_flush(struct log *log);

#endif
