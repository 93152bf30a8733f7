/* The notification protocol, without the library of the supervisor: one datagram. */
#include "server/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* WATCHDOG_USEC is for the process that WATCHDOG_PID names; a sign twice as often leaves room for a late one. */
static int64_t sign_interval_us(void)
{
  const char *wait = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
  if (wait == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
    return 0;
  return (int64_t)(strtoull(wait, NULL, 10) / 2);
}

void notify_init(struct notify *notify)
{
  *notify = (struct notify){.socket = getenv("NOTIFY_SOCKET")};
  if (notify->socket != NULL && notify->socket[0] != '/' && notify->socket[0] != '@')
    notify->socket = NULL;
  if (notify->socket != NULL)
    notify->sign_every_us = sign_interval_us();
}

bool notify_send(const struct notify *notify, const char *state)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {0}};
  const size_t length = notify->socket != NULL ? strlen(notify->socket) : 0;
  bool is_sent;
  int fd;
  if (length == 0 || length >= sizeof address.sun_path)
    return length == 0;
  fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return false;
  memcpy(address.sun_path, notify->socket, length);
  if (address.sun_path[0] == '@')
    address.sun_path[0] = '\0'; /* of the abstract namespace */
  is_sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) >= 0;
  (void)close(fd);
  return is_sent;
}

void notify_alive(struct notify *notify, int64_t now_us)
{
  if (notify->sign_every_us == 0 || now_us - notify->last_sign_us < notify->sign_every_us)
    return;
  notify->last_sign_us = now_us;
  (void)notify_send(notify, "WATCHDOG=1"); /* the next one is soon; the supervisor judges what it misses */
}
