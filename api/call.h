/* What handlers see: the parsed request, the place for faults, and small helpers for answers. Private to api/. */
#ifndef FITD_API_CALL_H
#define FITD_API_CALL_H

#include <jansson.h>

#include "api/api.h"
#include "storage/store.h"

struct catalogue;

struct api_call {
  struct api *api;
  const struct api_request *request;
  const struct route *route;
  char params[2][80];    /* {name} segments of the pattern, in order */
  json_t *body;          /* NULL without one; owned by api_handle */
  struct faults *faults; /* a handler that returns ERR_INVALID with faults here answers 422 with errors[] */
  int64_t now_ms;        /* read once per request */
};

typedef enum err api_handler(struct api_call *call, struct api_response *out, struct error *e);

enum route_flags {
  ROUTE_WORKER = 1, /* writes or computes: runs on a worker */
  ROUTE_BODY = 2,   /* takes a JSON body */
  ROUTE_BODY_OPTIONAL = 4,
  ROUTE_IDEMPOTENT_KEY = 8, /* honours Idempotency-Key (POST) */
  ROUTE_BODY_TRACE = 16,    /* with ROUTE_BODY: a recording in lines, which the handler reads; up to 64 MiB */
  ROUTE_COMPUTES = 32,      /* evaluates: quick work goes before it, and it is refused when too much of it waits */
  ROUTE_METRICS = 64        /* the query key metric may be given several times */
};

struct route {
  const char *method, *pattern; /* "/v1/models/{name}": a {…} segment matches one segment of [A-Za-z0-9._-] */
  api_handler *handle;
  enum scope scope;
  unsigned flags;
  const char *summary;      /* one sentence, for README and OpenAPI */
  const char *const *query; /* allowed query keys, NULL-terminated; NULL = none. Unknown keys are a 422 */
};
extern const struct route api_routes[];
extern const size_t api_route_count;

/* Dependencies of a handler. */
struct store *call_store(const struct api_call *call);
const struct api_deps *call_deps(const struct api_call *call);
void call_new_id(const struct api_call *call, char id[37], unsigned sequence); /* UUIDv7 at call->now_ms */

/* First value of a query key, NULL when absent. */
const char *call_query(const struct api_call *call, const char *key);

/* Whether the charset of a Content-Type is UTF-8 (or ASCII), or none is given. */
bool call_charset_is_utf8(const char *type);

/* ?limit= ?cursor= ?order=; faults carry pointers like "?limit" . Returns false with faults added. */
bool call_page(struct api_call *call, struct store_page *page);

/* Representations of an answer. */
enum format { FORMAT_JSON = 1, FORMAT_CSV = 2, FORMAT_MARKDOWN = 4, FORMAT_NOT_ACCEPTABLE = 0 };

/* Answers. Each returns ERR_OK or ERR_NOMEM; json is stolen, text is stolen (malloc'ed). */
enum err respond_json_steal(struct api_response *out, unsigned status, json_t *json, struct error *e);
/* A document in JSON, or as the text that `csv` or `markdown` makes of it (malloc'ed, NULL when memory is out). */
enum err respond_form_steal(struct api_response *out, enum format format, json_t *document,
                            char *(*csv)(const json_t *document), char *(*markdown)(const json_t *document),
                            struct error *e);
enum err respond_text_steal(struct api_response *out, unsigned status, const char *type, char *bytes, size_t length,
                            struct error *e);
/* The same for text that ends with a NUL. */
enum err respond_string_steal(struct api_response *out, unsigned status, const char *type, char *text, struct error *e);
void respond_header(struct api_response *out, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
/* Strong ETag; `tag` without quotes. api_handle turns a match with If-None-Match into 304. */
void respond_etag(struct api_response *out, const char *tag);

const char *respond_header_value(const struct api_response *out, const char *name); /* NULL when not set */

/* The tag of a representation; api_handle sets it on 200s of GET and on answers of PUT that have none. */
#define ETAG_SIZE 36
void etag_of(char to[ETAG_SIZE], const void *bytes, size_t count);
/* Does an If-Match or If-None-Match header name the tag? "*" names all. Tags of encoded answers are the server's. */
bool etag_matches(const char *header, const char *tag);

/* ?format= or Accept: the wanted one of the allowed representations. ERR_INVALID with code 406 semantics is signalled by
   returning FORMAT_NOT_ACCEPTABLE; the handler then returns call_not_acceptable(). */
enum format call_format(const struct api_call *call, unsigned allowed);
enum err call_not_acceptable(struct api_call *call, struct api_response *out, unsigned allowed);

/* A list page as {"items":[…],"next_cursor":…}, or as CSV with the columns of api/page_columns.def, and its Link header.
   `items` is stolen. fields= is applied here. */
enum err respond_page_steal(struct api_call *call, struct api_response *out, json_t *items, const char *next_after,
                            struct error *e);
/* The same from documents as text (spliced, never re-parsed unless fields= asks for picking). */
enum err respond_page_texts(struct api_call *call, struct api_response *out, const char *const *documents, size_t count,
                            const char *next_after, struct error *e);
/* The same from rows as the store gives them: `rows` of `size` bytes each, with char * members for the document and for the
   key of the row's place in the list. */
struct page_rows {
  const void *rows;
  size_t size, count, document_at, key_at; /* offsets of the two members */
  bool has_more;
};
enum err respond_page_rows(struct api_call *call, struct api_response *out, const struct page_rows *page,
                           struct error *e);
/* The same with CSV of the caller's own making, which is stolen. */
enum err respond_page_csv_steal(struct api_call *call, struct api_response *out, char *csv, const char *next_after,
                                struct error *e);

/* Parsed catalogue shared by evaluations; see api/catalogue.h. */
struct catalogue *call_catalogue(const struct api_call *call);

#endif
