/* The list of open connections. Removal and sweep share a lock, so a swept descriptor can not have been closed and used
   again for something else. */
#include "server/peers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/clock.h"

struct peers {
  pthread_mutex_t lock; /* guards the list */
  struct peer *first;
  atomic_uint count;
  atomic_uint idle_s, header_s, body_s, send_s;
};

void peers_set_limits(struct peers *peers, const struct peer_limits *limits)
{
  atomic_store(&peers->idle_s, limits->idle_s);
  atomic_store(&peers->header_s, limits->header_s);
  atomic_store(&peers->body_s, limits->body_s);
  atomic_store(&peers->send_s, limits->send_s);
}

enum err peers_open(struct peers **out, const struct peer_limits *limits, struct error *e)
{
  *out = calloc(1, sizeof **out);
  if (*out == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the list of connections");
  (void)pthread_mutex_init(&(*out)->lock, NULL);
  peers_set_limits(*out, limits);
  return ERR_OK;
}

void peers_close(struct peers *peers)
{
  if (peers == NULL)
    return;
  (void)pthread_mutex_destroy(&peers->lock);
  free(peers);
}

static int64_t after(int64_t now_us, const atomic_uint *seconds)
{
  return now_us + (int64_t)atomic_load_explicit(seconds, memory_order_relaxed) * 1000000;
}

struct peer *peers_add(struct peers *peers, int fd, bool is_local)
{
  struct peer *peer = calloc(1, sizeof *peer);
  if (peer == NULL)
    return NULL;
  peer->fd = fd;
  peer->is_local = is_local;
  atomic_init(&peer->phase, PEER_IDLE);
  atomic_init(&peer->deadline_us, after(clock_monotonic_us(), &peers->header_s));
  (void)pthread_mutex_lock(&peers->lock);
  peer->next = peers->first;
  if (peer->next != NULL)
    peer->next->previous = peer;
  peers->first = peer;
  (void)atomic_fetch_add(&peers->count, 1);
  (void)pthread_mutex_unlock(&peers->lock);
  return peer;
}

void peers_remove(struct peers *peers, struct peer *peer)
{
  (void)pthread_mutex_lock(&peers->lock);
  if (peer->previous != NULL)
    peer->previous->next = peer->next;
  else
    peers->first = peer->next;
  if (peer->next != NULL)
    peer->next->previous = peer->previous;
  (void)atomic_fetch_sub(&peers->count, 1);
  (void)pthread_mutex_unlock(&peers->lock);
  free(peer);
}

unsigned peers_count(struct peers *peers)
{
  return atomic_load_explicit(&peers->count, memory_order_relaxed);
}

void peers_enter(struct peers *peers, struct peer *peer, enum peer_phase phase, int64_t now_us)
{
  int64_t deadline = 0, standing = atomic_load_explicit(&peer->deadline_us, memory_order_relaxed);
  switch (phase) {
  case PEER_IDLE: /* the next header may begin at the last moment of the idle time */
    deadline = after(after(now_us, &peers->idle_s), &peers->header_s);
    break;
  case PEER_HEADER:
    deadline = after(now_us, &peers->header_s);
    if (standing != 0 && standing < deadline)
      deadline = standing;
    break;
  case PEER_BODY: deadline = after(now_us, &peers->body_s); break;
  case PEER_HANDLING: break;
  case PEER_SENDING: deadline = after(now_us, &peers->send_s); break;
  }
  atomic_store_explicit(&peer->deadline_us, deadline, memory_order_relaxed);
  atomic_store_explicit(&peer->phase, (int)phase, memory_order_relaxed);
}

/* The network thread writes nothing in these phases. What does not fit into the socket's buffer is not worth waiting for. */
static void answer_late(const struct peer *peer)
{
  static const char answer[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
                               "Content-Type: application/problem+json\r\nContent-Length: 121\r\n\r\n"
                               "{\"type\":\"/problems/request-timeout\",\"title\":\"Request timeout\",\"status\":408,"
                               "\"detail\":\"the request did not come in time\"}\r\n";
  int phase = atomic_load_explicit(&peer->phase, memory_order_relaxed);
  if (!peer->is_encrypted && (phase == PEER_IDLE || phase == PEER_HEADER || phase == PEER_BODY))
    (void)send(peer->fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

unsigned peers_sweep(struct peers *peers, int64_t now_us, bool close_idle)
{
  struct peer *peer;
  unsigned late = 0;
  (void)pthread_mutex_lock(&peers->lock);
  for (peer = peers->first; peer != NULL; peer = peer->next) {
    int64_t deadline = atomic_load_explicit(&peer->deadline_us, memory_order_relaxed);
    if (deadline != 0 && now_us > deadline) {
      late++;
      answer_late(peer);
      (void)shutdown(peer->fd, SHUT_RDWR);
    } else if (close_idle && atomic_load_explicit(&peer->phase, memory_order_relaxed) == PEER_IDLE) {
      (void)shutdown(peer->fd, SHUT_RD);
    }
  }
  (void)pthread_mutex_unlock(&peers->lock);
  return late;
}
