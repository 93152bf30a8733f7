/* Which addresses may be scraped. A registered URL makes fitd a client inside the network, so what it may reach is a list;
   addresses that are dangerous anywhere (loopback, link-local, metadata services, multicast, unspecified) must be named by a
   network no wider than they are. IPv4 inside IPv6 counts as IPv4.
   Threads: any thread asks, also while a list is replaced. */
#ifndef FITD_SERVER_ADDRESSES_H
#define FITD_SERVER_ADDRESSES_H

#include <sys/socket.h>

#include "core/error.h"

#define ADDRESSES_MAX 64

struct address_network {
  unsigned char bytes[16];
  unsigned prefix; /* bits of the 16 bytes; IPv4 has 96 more than it says */
};
struct addresses {
  struct address_network networks[ADDRESSES_MAX];
  size_t count;
};

/* "10.0.0.0/8,fd00::/8,192.0.2.7". ERR_INVALID names the part that is none. */
enum err addresses_parse(struct addresses *out, const char *text, struct error *e) MUST_CHECK;
/* Another list in its place; those who ask see the one or the other. */
void addresses_replace(struct addresses *to, const struct addresses *from);
bool addresses_allow(const struct addresses *allowed, const struct sockaddr *address);
/* Resolves, and wants every address allowed; ERR_INVALID with a sentence about the URL. May wait for DNS. */
enum err addresses_check_host(const struct addresses *allowed, const char *host, const char *port,
                              struct error *e) MUST_CHECK;

#endif
