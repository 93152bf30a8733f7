/* Stands in for what the server does around api_handle: headers by name, decoded query values, a caller. */
#include "tests/lib/fake.h"

#include "storage/store.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PAIRS_MAX 32

static int64_t fake_now_ms(void *cls)
{
  const struct fake *fake = cls;
  return fake->now_ms;
}

static void fake_random_bytes(void *cls, void *to, size_t count)
{
  struct fake *fake = cls;
  unsigned char *bytes = to;
  size_t i;
  for (i = 0; i < count; i++)
    bytes[i] = (unsigned char)(i + 1 < count ? 0 : fake->random++);
}

static void fake_log(void *cls, const char *sentence)
{
  struct fake *fake = cls;
  (void)snprintf(fake->log, sizeof fake->log, "%s", sentence);
}

static void fake_not_ready(void *cls, char *reason, size_t size)
{
  const struct fake *fake = cls;
  (void)snprintf(reason, size, "%s", fake->not_ready);
}

static int fake_utc_offset_s(void *cls, int64_t unix_ms)
{
  const struct fake *fake = cls;
  (void)unix_ms;
  return fake->utc_offset_s;
}

struct share {
  size_t count;
  atomic_size_t next;
  void (*job)(void *cls, size_t index);
  void *cls;
};

static void *take_part(void *cls)
{
  struct share *share = cls;
  for (size_t i = atomic_fetch_add(&share->next, 1); i < share->count; i = atomic_fetch_add(&share->next, 1))
    share->job(share->cls, i);
  return NULL;
}

static void fake_run_all(void *cls, size_t count, void (*job)(void *job_cls, size_t index), void *job_cls)
{
  const struct fake *fake = cls;
  struct share share = {.count = count, .job = job, .cls = job_cls};
  pthread_t threads[8];
  ck_assert_uint_le(fake->threads, 8);
  for (unsigned i = 0; i < fake->threads; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, take_part, &share), 0);
  (void)take_part(&share);
  for (unsigned i = 0; i < fake->threads; i++)
    ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

static void open_both(struct fake *fake)
{
  char path[300];
  struct error e = {.code = ERR_OK};
  const struct store_options options = {.path = path, .readers = 2, .log = fake_log, .log_cls = fake};
  const struct api_deps base = {.now_ms = fake_now_ms,
                                .random_bytes = fake_random_bytes,
                                .log = fake_log,
                                .not_ready_reason = fake_not_ready,
                                .cls = fake,
                                .arena_bytes = (size_t)16 << 20,
                                .review_teams = fake->review_teams,
                                .run_all = fake_run_all,
                                .utc_offset_s = fake_utc_offset_s};
  struct api_deps deps = base;
  (void)snprintf(path, sizeof path, "%s/fit.db", fake->dir);
  ck_assert_msg(store_open(&fake->store, &options, &e) == ERR_OK, "store_open: %s (%s)", e.message, fake->log);
  deps.store = fake->store;
  ck_assert_msg(api_open(&fake->api, &deps, &e) == ERR_OK, "api_open: %s (%s)", e.message, fake->log);
}

void fake_open(struct fake *fake, const char *parent)
{
  *fake = (struct fake){.now_ms = FAKE_START_MS};
  (void)snprintf(fake->dir, sizeof fake->dir, "%s/store-XXXXXX", parent);
  ck_assert_ptr_nonnull(mkdtemp(fake->dir));
  open_both(fake);
}

static void close_both(struct fake *fake)
{
  api_close(fake->api);
  store_close(fake->store);
  fake->api = NULL;
  fake->store = NULL;
}

void fake_reopen(struct fake *fake)
{
  close_both(fake);
  open_both(fake);
}

void fake_close(struct fake *fake)
{
  close_both(fake);
  suite_remove_dir(fake->dir);
}

/* ---- Requests ------------------------------------------------------------------------------------------------------ */

struct pairs {
  const json_t *headers;
  char text[4096]; /* decoded keys and values */
  const char *keys[PAIRS_MAX], *values[PAIRS_MAX];
  size_t count;
};

static char *decode(char **to, const char *from, size_t count)
{
  char *start = *to, *at = *to;
  size_t i;
  for (i = 0; i < count; i++) {
    if (from[i] == '%' && i + 2 < count) {
      const char hex[3] = {from[i + 1], from[i + 2], '\0'};
      *at++ = (char)strtol(hex, NULL, 16);
      i += 2;
    } else {
      *at++ = from[i] == '+' ? ' ' : from[i];
    }
  }
  *at++ = '\0';
  *to = at;
  return start;
}

static void pairs_parse(struct pairs *pairs, const char *query)
{
  char *to = pairs->text;
  pairs->count = 0;
  ck_assert_uint_lt(strlen(query) + PAIRS_MAX * 2, sizeof pairs->text);
  while (*query != '\0') {
    const size_t length = strcspn(query, "&"), key = strcspn(query, "=&");
    ck_assert_uint_lt(pairs->count, PAIRS_MAX);
    pairs->keys[pairs->count] = decode(&to, query, key);
    pairs->values[pairs->count] = key < length ? decode(&to, query + key + 1, length - key - 1) : NULL;
    pairs->count++;
    query += length + (query[length] == '&' ? 1 : 0);
  }
}

static const char *header_value(const void *cls, const char *name)
{
  const struct pairs *pairs = cls;
  json_t *headers, *value;
  const char *key;
  if (pairs->headers == NULL)
    return NULL;
  memcpy(&headers, &pairs->headers, sizeof headers);
  json_object_foreach(headers, key, value)
  {
    if (strcasecmp(key, name) == 0)
      return json_string_value(value);
  }
  return NULL;
}

static size_t query_values(const void *cls, const char *key, const char **values, size_t max)
{
  const struct pairs *pairs = cls;
  size_t i, count = 0;
  for (i = 0; i < pairs->count; i++) {
    if (strcmp(pairs->keys[i], key) != 0)
      continue;
    if (count < max)
      values[count] = pairs->values[i];
    count++;
  }
  return count;
}

static void query_keys(const void *cls, void (*each)(void *each_cls, const char *key), void *each_cls)
{
  const struct pairs *pairs = cls;
  size_t i;
  for (i = 0; i < pairs->count; i++)
    each(each_cls, pairs->keys[i]);
}

void fake_send(struct fake *fake, const struct fake_request *request, struct api_response *response)
{
  const struct api_caller caller = {.scope = request->scope, .name = "test"};
  const char *query = request->query != NULL ? request->query : "";
  struct pairs pairs = {.headers = request->headers};
  const struct api_request call = {.method = request->method,
                                   .path = request->path,
                                   .query_text = query,
                                   .request_id = "request-1",
                                   .caller = &caller,
                                   .body = request->body,
                                   .body_len = request->body_len,
                                   .header = header_value,
                                   .query = query_values,
                                   .query_keys = query_keys,
                                   .cls = &pairs};
  pairs_parse(&pairs, query);
  if (fake->on_send != NULL)
    fake->on_send();
  api_handle(fake->api, &call, response);
}

json_t *fake_json(struct fake *fake, const char *method, const char *path, const char *body, unsigned status)
{
  const size_t length = strcspn(path, "?");
  const struct fake_request request = {.method = method,
                                       .path = scratch_printf("%.*s", (int)length, path),
                                       .query = path[length] == '?' ? path + length + 1 : NULL,
                                       .body = body,
                                       .body_len = body != NULL ? strlen(body) : 0,
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  json_t *answer = NULL;
  fake_send(fake, &request, &response);
  ck_assert_msg(response.status == status, "%s %s: %u instead of %u: %.1500s (%s)", method, path, response.status,
                status, response.bytes != NULL ? response.bytes : "", fake->log);
  if (response.bytes != NULL && strstr(response.type, "json") != NULL)
    answer = scratch_json_steal(json_loadb(response.bytes, response.bytes_len, 0, NULL));
  else if (response.bytes != NULL)
    answer = scratch_json_steal(json_string(response.bytes));
  api_response_fini(&response);
  return answer;
}
