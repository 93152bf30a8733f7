/* Networks and the addresses in them. Everything is compared as IPv6, IPv4 in its mapped form. */
#include "server/addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V4_BITS 96 /* in front of an IPv4 address in its mapped form */

static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* over every list: one process has one */

static bool is_inside(const unsigned char bytes[16], const struct address_network *network)
{
  const unsigned whole = network->prefix / 8, rest = network->prefix % 8;
  if (memcmp(bytes, network->bytes, whole) != 0)
    return false;
  return rest == 0 || (bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

static bool read_address(unsigned char bytes[16], bool *is_v4, const char *text)
{
  *is_v4 = inet_pton(AF_INET, text, bytes + 12) == 1;
  if (*is_v4)
    memcpy(bytes, mapped, sizeof mapped);
  return *is_v4 || inet_pton(AF_INET6, text, bytes) == 1;
}

static bool read_network(struct address_network *out, const char *text, size_t length)
{
  char copy[64];
  char *slash, *end = NULL;
  unsigned long prefix;
  bool is_v4;
  if (length >= sizeof copy)
    return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  slash = strchr(copy, '/');
  if (slash != NULL)
    *slash++ = '\0';
  if (!read_address(out->bytes, &is_v4, copy))
    return false;
  prefix = slash == NULL ? (is_v4 ? 32 : 128) : strtoul(slash, &end, 10);
  if (slash != NULL && (*slash < '0' || *slash > '9' || *end != '\0' || prefix > (is_v4 ? 32 : 128)))
    return false;
  out->prefix = (unsigned)prefix + (is_v4 ? V4_BITS : 0);
  return true;
}

enum err addresses_parse(struct addresses *out, const char *text, struct error *e)
{
  *out = (struct addresses){.count = 0};
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    const char *at = text, *next = text + length + (text[length] == ',');
    while (length > 0 && (*at == ' ' || *at == '\t')) {
      at++;
      length--;
    }
    while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t'))
      length--;
    text = next;
    if (length == 0)
      continue;
    if (out->count == ADDRESSES_MAX)
      return error_set(e, ERR_INVALID, "", "more than %d networks", ADDRESSES_MAX);
    if (!read_network(&out->networks[out->count], at, length))
      return error_set(e, ERR_INVALID, "", "\"%.*s\" is no network such as 10.0.0.0/8 or fd00::/8",
                       (int)(length < 60 ? length : 60), at);
    out->count++;
  }
  return ERR_OK;
}

/* Where no exporter is by accident: this host, the link, metadata services (AWS, GCP, Azure; Alibaba; AWS on IPv6),
   multicast and broadcast. */
static const char dangerous[] = "0.0.0.0/8,127.0.0.0/8,169.254.0.0/16,100.100.100.200/32,224.0.0.0/4,240.0.0.0/4,"
                                "::/128,::1/128,fe80::/10,fec0::/10,ff00::/8,fd00:ec2::254/128";

static bool is_listed(const struct addresses *list, const unsigned char bytes[16], unsigned least_prefix)
{
  for (size_t i = 0; i < list->count; i++)
    if (list->networks[i].prefix >= least_prefix && is_inside(bytes, &list->networks[i]))
      return true;
  return false;
}

/* The prefix that a network must have at least to allow the address. */
static unsigned least_prefix(const unsigned char bytes[16])
{
  struct addresses list;
  unsigned least = 0;
  if (addresses_parse(&list, dangerous, NULL) != ERR_OK)
    return 129; /* never: the text is ours */
  for (size_t i = 0; i < list.count; i++)
    if (is_inside(bytes, &list.networks[i]) && list.networks[i].prefix > least)
      least = list.networks[i].prefix;
  return least;
}

bool addresses_allow(const struct addresses *allowed, const struct sockaddr *address)
{
  unsigned char bytes[16];
  bool is_allowed;
  if (address->sa_family == AF_INET) {
    struct sockaddr_in v4;
    memcpy(&v4, address, sizeof v4);
    memcpy(bytes, mapped, sizeof mapped);
    memcpy(bytes + 12, &v4.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    memcpy(bytes, &v6.sin6_addr, sizeof bytes);
    if (memcmp(bytes, nat64, sizeof nat64) == 0)
      memcpy(bytes, mapped, sizeof mapped);
  } else {
    return false;
  }
  (void)pthread_rwlock_rdlock(&lock); /* fails only for a lock that is none, or held by this thread for writing */
  is_allowed = is_listed(allowed, bytes, least_prefix(bytes));
  (void)pthread_rwlock_unlock(&lock);
  return is_allowed;
}

void addresses_replace(struct addresses *to, const struct addresses *from)
{
  (void)pthread_rwlock_wrlock(&lock);
  *to = *from;
  (void)pthread_rwlock_unlock(&lock);
}

enum err addresses_check_host(const struct addresses *allowed, const char *host, const char *port, struct error *e)
{
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  bool is_allowed = true;
  if (getaddrinfo(host, port, &hints, &found) != 0)
    return error_set(e, ERR_INVALID, "", "the host %.100s does not resolve to an address", host);
  for (const struct addrinfo *at = found; at != NULL; at = at->ai_next)
    is_allowed = is_allowed && addresses_allow(allowed, at->ai_addr);
  freeaddrinfo(found);
  if (!is_allowed)
    return error_set(e, ERR_INVALID, "",
                     "the host %.100s has an address outside the networks that the setting scrape_allow lists", host);
  return ERR_OK;
}
