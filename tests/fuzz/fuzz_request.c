/* Whole requests on a store of their own: the first line is "METHOD PATH?QUERY", the rest the body. Whatever comes, there is
   an answer, and none of it is an internal error. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "storage/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINE_MAX_BYTES 512
#define PAIRS_MAX 16

struct query {
  char text[LINE_MAX_BYTES];
  char *keys[PAIRS_MAX], *values[PAIRS_MAX];
  size_t count;
};

static int64_t now_ms(void *cls)
{
  int64_t *time_ms = cls;
  return (*time_ms)++;
}

static void random_bytes(void *cls, void *to, size_t count)
{
  static unsigned next;
  unsigned char *bytes = to;
  (void)cls;
  for (size_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)(next++ * 2654435761u >> 24);
}

static void fail_on_log(void *cls, const char *sentence)
{
  (void)cls;
  (void)fprintf(stderr, "%s\n", sentence);
  abort();
}

static void be_ready(void *cls, char *reason, size_t size)
{
  (void)cls;
  if (size > 0)
    reason[0] = '\0';
}

static struct api *api;
static struct store *store;
static char folder[64], database[80];

static void clean_up(void)
{
  static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
  char path[96];
  api_close(api);
  store_close(store);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    (void)snprintf(path, sizeof path, "%s%s", database, ends[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

/* One store for all inputs of a process, in a directory that is removed at its end. */
static struct api *api_once(void)
{
  static int64_t time_ms = 1796040000000;
  const struct store_options options = {.path = database, .readers = 1};
  struct api_deps deps = {.now_ms = now_ms,
                          .random_bytes = random_bytes,
                          .log = fail_on_log,
                          .not_ready_reason = be_ready,
                          .cls = &time_ms,
                          .arena_bytes = (size_t)16 << 20};
  struct error e = {.code = ERR_OK};
  if (api != NULL)
    return api;
  (void)snprintf(folder, sizeof folder, "/tmp/fitd-fuzz-XXXXXX");
  if (mkdtemp(folder) == NULL || atexit(clean_up) != 0)
    abort();
  (void)snprintf(database, sizeof database, "%s/f.db", folder);
  if (store_open(&store, &options, &e) != ERR_OK)
    fail_on_log(NULL, e.message);
  deps.store = store;
  if (api_open(&api, &deps, &e) != ERR_OK)
    fail_on_log(NULL, e.message);
  return api;
}

/* Cuts at & and = only: what percent-encoding means is the HTTP library's. */
static void take_query(struct query *query)
{
  char *rest = query->text, *pair;
  while ((pair = strsep(&rest, "&")) != NULL && query->count < PAIRS_MAX) {
    query->values[query->count] = pair;
    query->keys[query->count] = strsep(&query->values[query->count], "=");
    query->count++;
  }
}

static const char *no_header(const void *cls, const char *name)
{
  (void)cls;
  (void)name;
  return NULL;
}

static size_t values_of(const void *cls, const char *key, const char **values, size_t max)
{
  const struct query *query = cls;
  size_t found = 0;
  for (size_t i = 0; i < query->count; i++) {
    if (strcmp(query->keys[i], key) != 0)
      continue;
    if (found < max)
      values[found] = query->values[i] != NULL ? query->values[i] : "";
    found++;
  }
  return found;
}

static void each_key(const void *cls, void (*each)(void *each_cls, const char *key), void *each_cls)
{
  const struct query *query = cls;
  for (size_t i = 0; i < query->count; i++)
    each(each_cls, query->keys[i]);
}

static void send(const char *method, const char *path, struct query *query, const uint8_t *body, size_t body_len)
{
  const struct api_caller caller = {.scope = SCOPE_ADMIN, .name = ""};
  char query_text[LINE_MAX_BYTES];
  struct api_response response;
  struct api_request request = {.method = method,
                                .path = path,
                                .query_text = query_text,
                                .request_id = "fuzz",
                                .caller = &caller,
                                .body = body,
                                .body_len = body_len,
                                .header = no_header,
                                .query = values_of,
                                .query_keys = each_key,
                                .cls = query};
  (void)snprintf(query_text, sizeof query_text, "%s", query->text);
  take_query(query);
  api_handle(api_once(), &request, &response);
  if (response.status < 200 || response.status == 500 || response.status > 599)
    abort();
  api_response_fini(&response);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *end = memchr(data, '\n', size);
  const size_t length = end != NULL ? (size_t)(end - data) : size;
  char line[LINE_MAX_BYTES], *rest = line, *method, *path;
  struct query query = {.text = "", .count = 0};
  if (length >= sizeof line || memchr(data, '\0', length) != NULL)
    return 0; /* the server refuses both before the api sees them */
  memcpy(line, data, length);
  line[length] = '\0';
  method = strsep(&rest, " ");
  path = strsep(&rest, "?");
  if (path == NULL || path[0] != '/')
    return 0;
  if (rest != NULL)
    (void)snprintf(query.text, sizeof query.text, "%s", rest);
  if (query.text[0] == '\0')
    query.count = 0;
  send(method, path, &query, end != NULL ? end + 1 : data, end != NULL ? size - length - 1 : 0);
  return 0;
}
