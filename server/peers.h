/* Open connections with their deadlines. The HTTP library only knows an idle timer, which one byte now and then keeps
   alive; here each phase of a request has an end, and a connection past it is shut down.
   Threads: a connection's own calls come from its network thread; peers_sweep from one other thread.
   Ownership: a peer lives from peers_add to peers_remove; its fd is the library's. */
#ifndef FITD_SERVER_PEERS_H
#define FITD_SERVER_PEERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/error.h"

enum peer_phase { PEER_IDLE, PEER_HEADER, PEER_BODY, PEER_HANDLING, PEER_SENDING };

struct client;
struct peers;
struct peer {
  struct peer *previous, *next;
  int fd;
  bool is_local;               /* loopback or Unix socket */
  struct client *client;       /* NULL: not limited */
  bool is_encrypted;           /* nothing may be written beside the library */
  atomic_int phase;            /* enum peer_phase */
  _Atomic int64_t deadline_us; /* monotonic; 0 = none */
};

struct peer_limits {
  unsigned idle_s, header_s, body_s, send_s;
};

enum err peers_open(struct peers **out, const struct peer_limits *limits, struct error *e) MUST_CHECK;
void peers_close(struct peers *peers); /* after the last peer is gone */
void peers_set_limits(struct peers *peers, const struct peer_limits *limits);

/* NULL when memory is out. A new peer is idle, with the deadline of a header. */
struct peer *peers_add(struct peers *peers, int fd, bool is_local);
void peers_remove(struct peers *peers, struct peer *peer);
unsigned peers_count(struct peers *peers);

/* Enters a phase. A request line that arrives late in the header phase does not extend it. */
void peers_enter(struct peers *peers, struct peer *peer, enum peer_phase phase, int64_t now_us);

/* Shuts down connections past their deadline (with a 408 when a request was due), and with close_idle those between requests: they read an end, after what
   was already sent. Returns how many were past their deadline. */
unsigned peers_sweep(struct peers *peers, int64_t now_us, bool close_idle);

#endif
