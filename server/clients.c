/* A table of fixed size, so that a flood of addresses takes no memory; token buckets for the rates. */
#include "server/clients.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 4096 /* a power of two */
#define PROBES 16
#define BURST_S 2 /* seconds of the rate that may come at once */
#define US_PER_S 1000000

struct client {
  unsigned char address[16]; /* IPv4 as mapped; all zero: free */
  unsigned connections;
  int64_t credit_us; /* time's worth of requests, at most BURST_S */
  int64_t seen_us;
};

struct clients {
  pthread_mutex_t lock; /* guards everything below */
  struct client_limits limits;
  uint64_t seed;
  struct client places[PLACES];
};

enum err clients_open(struct clients **out, const struct client_limits *limits, struct error *e)
{
  struct clients *clients = calloc(1, sizeof *clients);
  *out = clients;
  if (clients == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the table of clients");
  (void)pthread_mutex_init(&clients->lock, NULL);
  clients->limits = *limits;
  clients->seed = (uint64_t)(uintptr_t)clients; /* differs between processes: addresses are laid out at random */
  return ERR_OK;
}

void clients_close(struct clients *clients)
{
  if (clients == NULL)
    return;
  (void)pthread_mutex_destroy(&clients->lock);
  free(clients);
}

void clients_set_limits(struct clients *clients, const struct client_limits *limits)
{
  (void)pthread_mutex_lock(&clients->lock);
  clients->limits = *limits;
  (void)pthread_mutex_unlock(&clients->lock);
}

/* False for what is neither IPv4 nor IPv6. */
static bool key_of(unsigned char key[16], const struct sockaddr *address)
{
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  memset(key, 0, 16);
  if (address == NULL)
    return false;
  if (address->sa_family == AF_INET) {
    memcpy(&v4, address, sizeof v4);
    memcpy(key, mapped, sizeof mapped);
    memcpy(key + 12, &v4.sin_addr, 4);
    return true;
  }
  if (address->sa_family != AF_INET6)
    return false;
  memcpy(&v6, address, sizeof v6);
  memcpy(key, &v6.sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? 16 : 8);
  key[15] |= key[15] == 0; /* never the mark of a free place */
  return true;
}

/* FNV-1a over the key, from a seed that clients can not know. */
static size_t place_of(const struct clients *clients, const unsigned char key[16])
{
  uint64_t hash = 14695981039346656037ULL ^ clients->seed;
  for (int i = 0; i < 16; i++)
    hash = (hash ^ key[i]) * 1099511628211ULL;
  return (size_t)(hash ^ hash >> 32);
}

/* Its own place, else the one of the probed that was idle for longest. NULL: all are in use. */
static struct client *find(struct clients *clients, const unsigned char key[16])
{
  const size_t first = place_of(clients, key);
  struct client *idle = NULL;
  for (size_t i = 0; i < PROBES; i++) {
    struct client *client = &clients->places[(first + i) % PLACES];
    if (memcmp(client->address, key, 16) == 0)
      return client;
    if (client->connections == 0 && (idle == NULL || client->seen_us < idle->seen_us))
      idle = client;
  }
  if (idle == NULL)
    return NULL;
  *idle = (struct client){.credit_us = (int64_t)BURST_S * US_PER_S};
  memcpy(idle->address, key, 16);
  return idle;
}

struct client *clients_enter(struct clients *clients, const struct sockaddr *address)
{
  unsigned char key[16];
  struct client *client;
  if (!key_of(key, address))
    return NULL;
  (void)pthread_mutex_lock(&clients->lock);
  client = find(clients, key);
  if (client != NULL)
    client->connections++;
  (void)pthread_mutex_unlock(&clients->lock);
  return client;
}

void clients_leave(struct clients *clients, struct client *client)
{
  if (client == NULL)
    return;
  (void)pthread_mutex_lock(&clients->lock);
  client->connections--;
  (void)pthread_mutex_unlock(&clients->lock);
}

unsigned clients_take_request(struct clients *clients, struct client *client, int64_t now_us)
{
  const int64_t most_us = (int64_t)BURST_S * US_PER_S;
  unsigned wait_s = 0;
  if (client == NULL)
    return 0;
  (void)pthread_mutex_lock(&clients->lock);
  if (clients->limits.requests_per_s > 0) {
    const int64_t price_us = US_PER_S / clients->limits.requests_per_s;
    if (client->seen_us != 0)
      client->credit_us += now_us - client->seen_us;
    if (client->credit_us > most_us)
      client->credit_us = most_us;
    client->seen_us = now_us;
    if (client->credit_us >= price_us)
      client->credit_us -= price_us;
    else
      wait_s = (unsigned)((price_us - client->credit_us + US_PER_S - 1) / US_PER_S);
  }
  (void)pthread_mutex_unlock(&clients->lock);
  return wait_s;
}

bool clients_has_too_many(struct clients *clients, const struct client *client)
{
  bool has_too_many;
  if (client == NULL)
    return false;
  (void)pthread_mutex_lock(&clients->lock);
  has_too_many = clients->limits.connections > 0 && client->connections > clients->limits.connections;
  (void)pthread_mutex_unlock(&clients->lock);
  return has_too_many;
}
