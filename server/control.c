/* The control socket: an HTTP server of one thread on a Unix socket. */
#include "server/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/listener.h"

struct control {
  struct http *http;
  char path[512];
};

enum err control_path(char *to, size_t size, const char *database, struct error *e)
{
  int length = snprintf(to, size, "%s.sock", database);
  if (length < 0 || (size_t)length >= size)
    return error_set(e, ERR_LIMIT, "", "the path of the database is too long: %.200s", database);
  return ERR_OK;
}

enum err control_start(struct control **out, const char *database, const struct http_options *options,
                       const struct http_settings *settings, struct error *e)
{
  struct control *control = calloc(1, sizeof *control);
  struct http_options mine = *options;
  enum err err;
  *out = NULL;
  if (control == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the control socket");
  mine.auth = NULL;
  mine.threads = 1;
  err = control_path(control->path, sizeof control->path, database, e);
  if (err == ERR_OK)
    err = listener_open_unix(&mine.listen_fd, control->path, e);
  if (err == ERR_OK)
    err = http_start(&control->http, &mine, settings, e);
  if (err == ERR_OK)
    *out = control;
  else
    free(control);
  return err;
}

struct http *control_http(struct control *control)
{
  return control->http;
}

void control_stop(struct control *control)
{
  if (control == NULL)
    return;
  http_stop(control->http);
  (void)unlink(control->path); /* one that is left over is replaced at the next start */
  free(control);
}
