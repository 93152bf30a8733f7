/* HTTP: the daemon and the path of a request through it. The library calls on_access several times per request; the
   call's state says which time it is. */
#include "server/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/refusals.h"
#include "server/clock.h"
#include "server/http_call.h"
#include "server/listener.h"
#include "server/tls.h"

#define CONNECTION_MEMORY_BYTES (32 * 1024)
#define BODY_SHARE_BYTES (256 * 1024) /* what every route takes */
#define DRAIN_GRACE_US 250000         /* a busy client's next request still gets its answer */

/* ---- A request, step by step ---- */

/* The header is complete. A refused request that has no body waits for the library's next call, so that its connection
   can stay open; with a body, answering now spares reading it and closes the connection. */
static enum MHD_Result on_header(struct http_call *call, const char *method, const char *path, const char *version)
{
  bool has_body;
  call->method = method;
  call->path = path;
  call->state = HTTP_BODY;
  http_call_read_headers(call);
  has_body = http_call_has_body(call);
  http_guard(call, version);
  if (call->state == HTTP_READY && has_body) {
    call->must_close = true;
    peers_enter(call->http->peers, call->peer, PEER_SENDING, clock_monotonic_us());
    return http_queue(call);
  }
  peers_enter(call->http->peers, call->peer, has_body ? PEER_BODY : PEER_HANDLING, call->began_us);
  return MHD_YES;
}

static void resume(struct http_call *call)
{
  call->state = HTTP_READY;
  MHD_resume_connection(call->connection);
}

static struct http_call *call_of(struct work *work)
{
  return (struct http_call *)((char *)work - offsetof(struct http_call, work));
}

static void run_handler(struct work *work)
{
  struct http_call *call = call_of(work);
  http_call_handle(call);
  http_encode(call);
}

static void run_encoder(struct work *work)
{
  http_encode(call_of(work));
}

static void finish_work(struct work *work)
{
  resume(call_of(work));
}

static void refuse_closing(struct work *work)
{
  struct http_call *call = call_of(work);
  if (work->run == run_handler)
    http_refuse_busy(call, "fitd is shutting down");
  resume(call);
}

/* The connection is suspended before the worker can have it; a full queue wakes it again at once. */
static enum MHD_Result hand_over(struct http_call *call, void (*run)(struct work *work))
{
  call->work.run = run;
  call->work.finish = finish_work;
  call->work.refuse = refuse_closing;
  call->work.lane = run == run_handler && call->route.computes ? WORK_HEAVY : WORK_QUICK;
  call->state = HTTP_WAITING;
  MHD_suspend_connection(call->connection);
  if (workers_push(call->http->options.workers, &call->work))
    return MHD_YES;
  if (run == run_handler)
    http_refuse_busy(call, "too many requests are waiting");
  resume(call);
  return MHD_YES;
}

static enum MHD_Result send_answer(struct http_call *call)
{
  peers_enter(call->http->peers, call->peer, PEER_SENDING, clock_monotonic_us());
  return http_queue(call);
}

/* Body and trailer are complete. */
static enum MHD_Result on_complete(struct http_call *call)
{
  peers_enter(call->http->peers, call->peer, PEER_HANDLING, call->began_us);
  if (call->body_is_too_large)
    http_refuse_large(call);
  else if (call->body_has_no_room)
    http_refuse_busy(call, "too many request bodies are being received");
  else if (call->route.needs_worker)
    return hand_over(call, run_handler);
  else
    http_call_handle(call);
  if (http_encoding_is_heavy(call))
    return hand_over(call, run_encoder);
  http_encode(call);
  return send_answer(call);
}

/* A large body gets the time of a body again for each full share of it that has come. */
static void extend_deadline(struct http_call *call, size_t more)
{
  if (call->body_len / BODY_SHARE_BYTES != (call->body_len + more) / BODY_SHARE_BYTES)
    peers_enter(call->http->peers, call->peer, PEER_BODY, clock_monotonic_us());
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *upload, size_t *upload_bytes, void **context)
{
  struct http_call *call = *context;
  (void)cls;
  (void)connection;
  if (call == NULL || call->peer == NULL)
    return MHD_NO; /* no memory for the request */
  switch (call->state) {
  case HTTP_FRESH: return on_header(call, method, url, version);
  case HTTP_BODY:
    if (*upload_bytes == 0)
      return on_complete(call);
    extend_deadline(call, *upload_bytes);
    http_call_append(call, upload, *upload_bytes);
    *upload_bytes = 0;
    return MHD_YES;
  case HTTP_READY: return send_answer(call);
  case HTTP_WAITING:
  case HTTP_ANSWERED: break;
  }
  *upload_bytes = 0;
  return MHD_YES;
}

/* ---- What the library tells besides ---- */

static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
  struct http *http = cls;
  struct http_call *call = http_call_new(http, connection, uri);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  if (call == NULL)
    return NULL;
  call->peer = info != NULL ? info->socket_context : NULL;
  if (call->peer != NULL)
    peers_enter(http->peers, call->peer, PEER_HEADER, call->began_us);
  return call;
}

static const char *termination_name(enum MHD_RequestTerminationCode code)
{
  switch (code) {
  case MHD_REQUEST_TERMINATED_COMPLETED_OK: return "completed";
  case MHD_REQUEST_TERMINATED_WITH_ERROR: return "error";
  case MHD_REQUEST_TERMINATED_TIMEOUT_REACHED: return "timeout";
  case MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN: return "shutdown";
  case MHD_REQUEST_TERMINATED_READ_ERROR: return "read_error";
  case MHD_REQUEST_TERMINATED_CLIENT_ABORT: return "client_abort";
  }
  return "unknown";
}

static bool is_audited(const struct http_call *call)
{
  static const char *const safe[] = {"GET", "HEAD", "OPTIONS"};
  for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++)
    if (call->method != NULL && strcmp(call->method, safe[i]) == 0)
      return false;
  return call->method != NULL && call->path != NULL;
}

static void audit(const struct http_call *call, struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
  char client[64] = "local";
  struct log_audit line = {.id = call->id,
                           .method = call->method,
                           .path = call->path,
                           .caller = call->caller.name,
                           .client = client,
                           .status = call->status};
  if (address != NULL && address->sa_family != AF_UNIX)
    listener_describe(client, sizeof client, address);
  log_audit(call->http->options.audit, &line);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
  struct http *http = cls;
  struct http_call *call = *context;
  int64_t now_us = clock_monotonic_us();
  if (call == NULL)
    return;
  *context = NULL;
  if (call->status == 0) { /* the library refused by itself, or nobody answered */
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_HTTP_STATUS);
    call->status = info != NULL ? info->http_status : 0;
    if (call->status != 0)
      api_count_refusal(http->options.api, call->status);
  }
  if (atomic_load_explicit(&http->logs_requests, memory_order_relaxed)) {
    const struct log_request line = {.id = call->id,
                                     .method = call->method,
                                     .route = call->route.pattern,
                                     .caller = call->caller.name,
                                     .termination = termination_name(code),
                                     .status = call->status,
                                     .duration_us = now_us - call->began_us,
                                     .bytes = call->bytes_sent};
    log_request(http->options.log, &line);
  }
  if (is_audited(call))
    audit(call, connection);
  if (call->peer != NULL)
    peers_enter(http->peers, call->peer, PEER_IDLE, now_us);
  http_call_free(call);
}

static void forget_peer(struct http *http, struct peer *peer)
{
  clients_leave(http->clients, peer->client);
  peers_remove(http->peers, peer);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
  struct http *http = cls;
  const union MHD_ConnectionInfo *info;
  const struct sockaddr *address;
  struct peer *peer;
  bool is_local;
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
    if (*context != NULL)
      forget_peer(http, *context);
    *context = NULL;
    return;
  }
  info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  address = info != NULL ? info->client_addr : NULL;
  is_local = http->options.auth == NULL || (address != NULL && listener_is_loopback(address));
  info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  peer = info != NULL ? peers_add(http->peers, info->connect_fd, is_local) : NULL;
  if (peer != NULL) {
    peer->client = clients_enter(http->clients, address);
    peer->is_encrypted = http->options.is_https;
  }
  *context = peer;
}

/* The library speaks mostly of clients' mistakes. */
static void on_library_message(void *cls, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static void on_library_message(void *cls, const char *format, va_list args)
{
  struct http *http = cls;
  char text[300];
  size_t length;
  (void)vsnprintf(text, sizeof text, format, args);
  length = strlen(text);
  if (length > 0 && text[length - 1] == '\n')
    text[length - 1] = '\0';
  log_write(http->options.log, atomic_load(&http->is_started) ? LOG_DEBUG : LOG_WARNING, "libmicrohttpd: %s", text);
}

/* ---- Life cycle ---- */

static struct MHD_Daemon *start_daemon(struct http *http)
{
  const struct http_options *options = &http->options;
  const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                         MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET; /* the acceptor hands connections in */
  const struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)options->threads, NULL},
                                        {MHD_OPTION_END, 0, NULL}};
  const struct MHD_OptionItem single[] = {{MHD_OPTION_END, 0, NULL}};
  /* The library warns of options that a plain daemon does not take; what comes after the end is not read. */
  const int https = options->is_https ? (int)MHD_OPTION_HTTPS_CERT_CALLBACK : (int)MHD_OPTION_END;
  return MHD_start_daemon(
      options->is_https ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_access, http, MHD_OPTION_EXTERNAL_LOGGER,
      on_library_message, http, MHD_OPTION_CONNECTION_LIMIT, options->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
      options->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
      MHD_OPTION_URI_LOG_CALLBACK, on_request_line, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_ARRAY, options->threads > 1 ? pool : single, https,
      tls_retrieve, MHD_OPTION_HTTPS_PRIORITIES, TLS_PRIORITIES, MHD_OPTION_END);
}

void http_set(struct http *http, const struct http_settings *settings)
{
  peers_set_limits(http->peers, &settings->limits);
  clients_set_limits(http->clients, &settings->clients);
  atomic_store(&http->logs_requests, settings->logs_requests);
  (void)pthread_rwlock_wrlock(&http->cors_lock);
  (void)snprintf(http->cors_origins, sizeof http->cors_origins, "%s", settings->cors_origins);
  (void)pthread_rwlock_unlock(&http->cors_lock);
  atomic_store(&http->has_cors, settings->cors_origins[0] != '\0');
}

/* The library divides its limit evenly over its threads; a few slots stay free so that none of them refuses early. */
static bool has_room(void *cls)
{
  const struct http *http = cls;
  return peers_count(http->peers) + 2 * http->options.threads < http->options.connections_max;
}

static void add_connection(void *cls, int fd, const struct sockaddr *address, socklen_t length)
{
  struct http *http = cls;
  if (MHD_add_connection(http->daemon, fd, address, length) != MHD_YES) /* it has closed the descriptor */
    log_write(http->options.log, LOG_DEBUG, "a connection was refused: %s", strerror(errno));
}

static enum err start_accepting(struct http *http, struct error *e)
{
  const struct acceptor_options options = {http->options.listen_fd, has_room, add_connection, http};
  http->options.listen_fd = -1; /* the acceptor's from here on */
  return acceptor_start(&http->acceptor, &options, e);
}

enum err http_start(struct http **out, const struct http_options *options, const struct http_settings *settings,
                    struct error *e)
{
  struct http *http = calloc(1, sizeof *http);
  enum err err;
  *out = NULL;
  if (http == NULL) {
    (void)close(options->listen_fd);
    return error_set(e, ERR_NOMEM, "", "no memory for the HTTP server");
  }
  http->options = *options;
  (void)pthread_rwlock_init(&http->cors_lock, NULL);
  err = peers_open(&http->peers, &settings->limits, e);
  if (err == ERR_OK)
    err = clients_open(&http->clients, &settings->clients, e);
  if (err == ERR_OK && getrandom(&http->id_prefix, sizeof http->id_prefix, 0) != sizeof http->id_prefix)
    err = error_set(e, ERR_UNAVAILABLE, "", "the system gives no random bytes: %s", strerror(errno));
  if (err == ERR_OK) {
    http_set(http, settings);
    http->daemon = start_daemon(http);
    if (http->daemon == NULL)
      err = error_set(e, ERR_UNAVAILABLE, "", "the HTTP server can not be started; the log says why");
  }
  atomic_store(&http->is_started, true);
  if (err == ERR_OK)
    err = start_accepting(http, e);
  if (err == ERR_OK)
    *out = http;
  else
    http_stop(http);
  return err;
}

void http_tick(struct http *http)
{
  int64_t now_us = clock_monotonic_us();
  bool close_idle = atomic_load(&http->is_draining) && now_us - http->drain_began_us > DRAIN_GRACE_US;
  unsigned late = peers_sweep(http->peers, now_us, close_idle);
  if (late > 0)
    log_write(http->options.log, LOG_DEBUG, "%u connections were past their deadline", late);
}

void http_drain(struct http *http)
{
  http->drain_began_us = clock_monotonic_us();
  atomic_store(&http->is_draining, true);
  acceptor_stop(http->acceptor);
  http->acceptor = NULL;
}

unsigned http_connections(struct http *http)
{
  return peers_count(http->peers);
}

void http_stop(struct http *http)
{
  if (http == NULL)
    return;
  if (http->daemon != NULL && !atomic_load(&http->is_draining))
    http_drain(http);
  if (http->daemon != NULL)
    MHD_stop_daemon(http->daemon);
  if (http->options.listen_fd >= 0)
    (void)close(http->options.listen_fd);
  peers_close(http->peers);
  clients_close(http->clients);
  (void)pthread_rwlock_destroy(&http->cors_lock);
  free(http);
}
