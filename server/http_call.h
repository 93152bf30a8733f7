/* One request on its way through the server. Made when its request line is read, freed when the library is done with it.
   Private to http*.c.
   Threads: owned by its network thread; while the connection is suspended, by the worker that has it. */
#ifndef FITD_SERVER_HTTP_CALL_H
#define FITD_SERVER_HTTP_CALL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/acceptor.h"
#include "server/http.h"

#define HTTP_PATH_MAX_BYTES 512
#define HTTP_ID_SIZE 65
#define HTTP_CORS_SIZE 512

struct http {
  struct MHD_Daemon *daemon;
  struct acceptor *acceptor;
  struct http_options options;
  struct peers *peers;
  struct clients *clients;
  atomic_bool is_draining, logs_requests;
  atomic_bool is_started; /* what the library says before is about starting */
  int64_t drain_began_us;
  atomic_size_t body_bytes; /* of all bodies being received */
  atomic_uint_fast64_t next_id;
  uint32_t id_prefix;
  atomic_bool has_cors;
  pthread_rwlock_t cors_lock; /* guards cors_origins */
  char cors_origins[HTTP_CORS_SIZE];
};

/* Headers that the server itself looks at; borrowed from the connection. */
struct http_headers {
  const char *authorization, *origin, *request_id, *access_control_method;
  const char *transfer_encoding, *content_length;
  unsigned hosts, lengths, transfer_encodings;
  bool accepts_gzip, has_blank_in_name;
};

enum http_state {
  HTTP_FRESH,   /* the request line is read */
  HTTP_BODY,    /* the header is read and accepted */
  HTTP_WAITING, /* suspended, with a worker */
  HTTP_READY,   /* an answer is made, not yet queued */
  HTTP_ANSWERED /* queued; what still arrives is dropped */
};

struct http_call {
  struct work work;
  struct http *http;
  struct MHD_Connection *connection;
  struct peer *peer;
  enum http_state state;
  int64_t began_us;
  const char *method, *path; /* the library's */
  char *query_text;          /* undecoded */
  bool has_nul;              /* %00 in the request line */
  struct http_headers headers;
  char id[HTTP_ID_SIZE];
  struct api_route_info route;
  struct auth_caller caller;
  char *body;
  size_t body_len, body_capacity;
  bool body_is_too_large, body_has_no_room;
  char *stripped[2]; /* If-Match and If-None-Match without "-gzip", made when asked for */
  bool asks_gzip_tag;
  bool must_close;
  unsigned status;              /* queued */
  size_t bytes_sent;            /* of the body */
  struct api_response response; /* last: large, and only its head is cleared */
};

/* ---- http_call.c ---- */

/* NULL when memory is out. `uri` is the undecoded request target. */
struct http_call *http_call_new(struct http *http, struct MHD_Connection *connection, const char *uri);
void http_call_free(struct http_call *call);
/* Reads the headers, decides the request id. */
void http_call_read_headers(struct http_call *call);
bool http_call_has_body(const struct http_call *call);
void http_call_append(struct http_call *call, const char *bytes, size_t count);
/* Runs the api: any thread. */
void http_call_handle(struct http_call *call);
bool http_call_is_head(const struct http_call *call);

/* ---- http_guard.c ---- */

/* Judges a complete header: fills the route and the caller, or leaves a refusal (state HTTP_READY). */
void http_guard(struct http_call *call, const char *version);
void http_refuse_busy(struct http_call *call, const char *reason);
void http_refuse_large(struct http_call *call);

/* ---- http_answer.c ---- */

/* An error of the server's own. */
void http_refuse(struct http_call *call, unsigned status, const char *slug, const char *format, ...) PRINTF_LIKE(4, 5);
/* Adds one while there is room; the answers of this server leave some. */
void http_add_header(struct api_response *response, const char *name, const char *value);
/* Whether compressing would hold up a network thread. */
bool http_encoding_is_heavy(const struct http_call *call);
/* Compresses the answer where the client takes it: any thread. */
void http_encode(struct http_call *call);
/* Hands the answer to the library: network thread only. MHD_NO closes the connection. */
enum MHD_Result http_queue(struct http_call *call);
/* Answers a CORS preflight; false when the request is none. */
bool http_preflight(struct http_call *call);
/* "*" or a comma-separated list of origins. */
bool http_origin_is_allowed(const char *allowed, const char *origin);

#endif
