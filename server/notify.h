/* What the daemon tells the supervisor that started it (systemd's notification protocol: a datagram to NOTIFY_SOCKET).
   Without one nothing happens. Source: sd_notify(3). Threads: one. */
#ifndef FITD_SERVER_NOTIFY_H
#define FITD_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the environment: where to tell, and how often the supervisor wants a sign of life. */
struct notify {
  const char *socket;    /* borrowed from the environment; NULL: nobody asks */
  int64_t sign_every_us; /* half of what the supervisor waits for; 0: not wanted */
  int64_t last_sign_us;
};

void notify_init(struct notify *notify);
/* "READY=1", "STOPPING=1", … False when it could not be sent. */
bool notify_send(const struct notify *notify, const char *state);
/* To be called often: sends the sign of life when it is due. */
void notify_alive(struct notify *notify, int64_t now_us);

#endif
