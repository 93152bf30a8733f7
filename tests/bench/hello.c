/* The yardstick: the smallest libmicrohttpd server with the settings that fitd uses. Prints its port; ends when standard
   input ends. */
#include <microhttpd.h>
#include <stdio.h>
#include <unistd.h>

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **context)
{
  static char seen;
  (void)url;
  (void)method;
  (void)version;
  (void)upload;
  (void)upload_bytes;
  if (*context == NULL) {
    *context = &seen;
    return MHD_YES;
  }
  return MHD_queue_response(connection, MHD_HTTP_OK, cls);
}

int main(void)
{
  static char text[] = "Hello, world!";
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  struct MHD_Response *response = MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, answer, response,
                       MHD_OPTION_THREAD_POOL_SIZE, cores > 1 ? (unsigned)cores : 2u, MHD_OPTION_END);
  const union MHD_DaemonInfo *info;
  if (response == NULL || daemon == NULL)
    return 1;
  info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
  (void)printf("http://127.0.0.1:%u\n", (unsigned)info->port);
  (void)fflush(stdout);
  while (getchar() != EOF)
    continue;
  MHD_stop_daemon(daemon);
  MHD_destroy_response(response);
  return 0;
}
