/* Raw TCP to the daemon, for what no proper client would send.
   Ownership: descriptors are the caller's to close, texts the scratch's. Threads: none of its own state. */
#ifndef FITD_TESTS_LIB_WIRE_H
#define FITD_TESTS_LIB_WIRE_H

#include "tests/lib/daemon.h"

#include <stdbool.h>
#include <stddef.h>

struct wire_answer {
  char *text;
  size_t bytes;
  bool is_closed; /* the daemon closed the connection (or reset it) before the timeout */
};

int wire_connect(const struct daemon *daemon);
/* Sends everything; false when the daemon had closed. */
bool wire_send(int fd, const char *data, size_t bytes);
/* Reads until the daemon closes or the timeout ends. */
struct wire_answer wire_read(int fd, double timeout_s);
/* Connect, send, read, close. */
struct wire_answer wire_exchange(const struct daemon *daemon, const char *text, size_t bytes, double timeout_s);

/* Status of the n-th response in the text (0 = first); 0 when there are fewer. */
int wire_status(const struct wire_answer *answer, size_t n);
/* The first response is all there: its body is as long as its Content-Length says. */
bool wire_is_complete(const struct wire_answer *answer);

#endif
