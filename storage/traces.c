/* Traces: recorded requests by name. The requests lie in parts of records of fixed size under their digest, so that a page
   of them reads little and a whole trace is one walk. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"

#define PART_REQUESTS 4096
#define RECORD_BYTES                                                                                                   \
  20 /* arrival_ns 8, input_tokens 4, output_tokens 4, prefix_count 4; least significant byte first */
#define HASH_BYTES 4

void store_trace_fini(struct store_trace *row)
{
  free(row->name);
  free(row->digest);
  free(row->document);
  *row = (struct store_trace){0};
}

void store_traces_fini(struct store_traces *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_trace_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_traces){0};
}

void store_trace_requests_fini(struct store_trace_requests *requests)
{
  free(requests->rows);
  free(requests->prefix_hashes);
  *requests = (struct store_trace_requests){0};
}

/* ---- Records ---- */

static void put_number(unsigned char *to, uint64_t value, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t take_number(const unsigned char *from, size_t bytes)
{
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)from[i] << 8 * i;
  return value;
}

static void put_record(unsigned char *to, const struct store_trace_request *request)
{
  put_number(to, (uint64_t)request->arrival_ns, 8);
  put_number(to + 8, request->input_tokens, 4);
  put_number(to + 12, request->output_tokens, 4);
  put_number(to + 16, request->prefix_count, 4);
}

static struct store_trace_request take_record(const unsigned char *from)
{
  return (struct store_trace_request){.arrival_ns = (int64_t)take_number(from, 8),
                                      .input_tokens = (uint32_t)take_number(from + 8, 4),
                                      .output_tokens = (uint32_t)take_number(from + 12, 4),
                                      .prefix_count = (uint32_t)take_number(from + 16, 4)};
}

/* ---- Writing ---- */

/* What a name refers to now; revision 0 and digest NULL: the name is new. */
struct newest {
  int revision;
  char *digest;
  bool is_same; /* digest and document are those of the row to be put */
};

static enum err read_newest(struct newest *out, struct store_tx *tx, const char *name, const char *digest,
                            const char *document, struct error *e)
{
  struct query q;
  *out = (struct newest){0};
  query_begin(&q, tx->connection, "SELECT revision, digest, digest = ?2 AND document = ?3 FROM trace WHERE name = ?1");
  query_bind_text(&q, 1, name);
  query_bind_text(&q, 2, digest);
  query_bind_text(&q, 3, document);
  if (query_row(&q))
    *out = (struct newest){(int)query_int(&q, 0), query_text(&q, 1), query_int(&q, 2) != 0};
  return query_end(&q, e);
}

/* The hashes of a part, which lie together when the rows follow one another as they were read. */
static size_t put_hashes(unsigned char *to, const struct store_trace_requests *requests, size_t first, size_t count)
{
  size_t bytes = 0;
  for (size_t i = first; i < first + count; i++) {
    const struct store_trace_request *row = &requests->rows[i];
    assert((size_t)row->prefix_first + row->prefix_count <= requests->prefix_hash_count);
    for (uint32_t k = 0; k < row->prefix_count; k++, bytes += HASH_BYTES)
      put_number(to + bytes, requests->prefix_hashes[row->prefix_first + k], HASH_BYTES);
  }
  return bytes;
}

static enum err insert_part(struct store_tx *tx, const char *digest, const struct store_trace_requests *requests,
                            size_t first, struct error *e)
{
  const size_t count = requests->count - first < PART_REQUESTS ? requests->count - first : PART_REQUESTS;
  unsigned char records[PART_REQUESTS * RECORD_BYTES], *hashes;
  size_t hash_count = 0, hash_bytes;
  struct query q;
  enum err result;
  for (size_t i = 0; i < count; i++) {
    put_record(records + i * RECORD_BYTES, &requests->rows[first + i]);
    hash_count += requests->rows[first + i].prefix_count;
  }
  hashes = malloc(hash_count * HASH_BYTES + 1);
  if (hashes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to store a trace");
  hash_bytes = put_hashes(hashes, requests, first, count);
  query_begin(&q, tx->connection,
              "INSERT INTO trace_part (digest, first_request, requests, prefix_hashes) VALUES (?1, ?2, ?3, ?4)");
  query_bind_text(&q, 1, digest);
  query_bind_int(&q, 2, (int64_t)first);
  query_bind_blob(&q, 3, records, count * RECORD_BYTES);
  query_bind_blob(&q, 4, hashes, hash_bytes);
  result = query_run(&q, e);
  free(hashes);
  return result;
}

/* Stores the requests unless they are there already. */
static enum err insert_content(struct store_tx *tx, const char *digest, const struct store_trace_requests *requests,
                               struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO trace_content (digest, request_count) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
  query_bind_text(&q, 1, digest);
  query_bind_int(&q, 2, (int64_t)requests->count);
  result = query_run(&q, e);
  if (result != ERR_OK || sqlite3_changes(tx->connection->db) == 0)
    return result;
  for (size_t first = 0; first < requests->count && result == ERR_OK; first += PART_REQUESTS)
    result = insert_part(tx, digest, requests, first, e);
  return result;
}

static enum err move_name(struct store_tx *tx, const struct store_trace *row, int revision, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection,
              "INSERT INTO trace (name, revision, created_at_ms, digest, document) VALUES (?1, ?2, ?3, ?4, ?5) "
              "ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, created_at_ms = excluded.created_at_ms, "
              "digest = excluded.digest, document = excluded.document");
  query_bind_text(&q, 1, row->name);
  query_bind_int(&q, 2, revision);
  query_bind_int(&q, 3, row->created_at_ms);
  query_bind_text(&q, 4, row->digest);
  query_bind_text(&q, 5, row->document);
  return query_run(&q, e);
}

/* Requests that no name has any more. */
#define NAMELESS "DELETE FROM trace_content WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM trace WHERE digest = ?1)"

static enum err delete_where(struct store_tx *tx, const char *sql, const char *key, struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, sql);
  query_bind_text(&q, 1, key);
  return query_run(&q, e);
}

static enum err replace(struct store_tx *tx, const struct store_trace *row, const struct store_trace_requests *requests,
                        const struct newest *newest, struct error *e)
{
  enum err result = insert_content(tx, row->digest, requests, e);
  if (result == ERR_OK)
    result = move_name(tx, row, newest->revision + 1, e);
  if (result == ERR_OK && newest->digest != NULL && strcmp(newest->digest, row->digest) != 0)
    result = delete_where(tx, NAMELESS " AND NOT EXISTS (SELECT 1 FROM scorecard WHERE trace_digest = ?1)",
                          newest->digest, e);
  return result;
}

enum err store_trace_put(struct store_tx *tx, const struct store_trace *row,
                         const struct store_trace_requests *requests, int expected_revision, int *revision,
                         bool *created, struct error *e)
{
  struct newest newest;
  enum err result = read_newest(&newest, tx, row->name, row->digest, row->document, e);
  if (result == ERR_OK)
    result = check_revision("trace", row->name, expected_revision, newest.revision, e);
  if (result != ERR_OK)
    goto out;
  if (!newest.is_same)
    result = replace(tx, row, requests, &newest, e);
  *revision = newest.revision + (newest.is_same ? 0 : 1);
  *created = newest.revision == 0;
out:
  free(newest.digest);
  return result;
}

enum err store_trace_delete(struct store_tx *tx, const char *name, struct error *e)
{
  struct newest newest;
  enum err result = read_newest(&newest, tx, name, "", "", e);
  if (result == ERR_OK && newest.revision == 0)
    result = error_set(e, ERR_NOT_FOUND, "", "there is no trace %s", name);
  if (result == ERR_OK)
    result = delete_where(tx, "DELETE FROM trace WHERE name = ?1", name, e);
  if (result == ERR_OK)
    result = delete_where(tx, NAMELESS, newest.digest, e);
  if (result == ERR_CONFLICT) /* the foreign key of scorecard */
    result = error_set(e, result, "", "scorecards in the history refer to trace %s", name);
  free(newest.digest);
  return result;
}

/* ---- Reading ---- */

#define COLUMNS                                                                                                        \
  "SELECT t.name, t.revision, t.created_at_ms, t.digest, t.document, c.request_count FROM trace AS t "                 \
  "JOIN trace_content AS c ON c.digest = t.digest "

static void read_row(void *to, struct query *q)
{
  struct store_trace *row = to;
  *row = (struct store_trace){.name = query_text(q, 0),
                              .revision = (int)query_int(q, 1),
                              .created_at_ms = query_int(q, 2),
                              .digest = query_text(q, 3),
                              .document = query_text(q, 4),
                              .request_count = (uint32_t)query_int(q, 5)};
}

enum err store_trace_get(struct store *store, struct store_trace *out, const char *name, struct error *e)
{
  struct query q;
  enum err result;
  *out = (struct store_trace){0};
  read_begin(&q, store, COLUMNS "WHERE t.name = ?1");
  query_bind_text(&q, 1, name);
  result = read_one(out, &q, store, read_row, e, "there is no trace %s", name);
  if (result != ERR_OK)
    store_trace_fini(out);
  return result;
}

enum err store_trace_list(struct store *store, struct store_traces *out, const struct store_page *page, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store, COLUMNS "WHERE t.name > ?1 ORDER BY t.name LIMIT ?2");
  query_bind_text(&q, 1, page->after);
  query_bind_int(&q, 2, (int64_t)page->limit + 1);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_traces){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_traces_fini(out);
  return result;
}

static bool make_room(struct store_trace_requests *out, size_t rows, size_t hashes)
{
  struct store_trace_request *grown_rows = reallocarray(out->rows, out->count + rows, sizeof *grown_rows);
  uint32_t *grown_hashes;
  if (grown_rows == NULL)
    return false;
  out->rows = grown_rows;
  if (hashes == 0)
    return true;
  grown_hashes = reallocarray(out->prefix_hashes, out->prefix_hash_count + hashes, sizeof *grown_hashes);
  if (grown_hashes == NULL)
    return false;
  out->prefix_hashes = grown_hashes;
  return true;
}

/* Appends the requests of a part that lie between number `first` and `end`. */
static void read_part(struct store_trace_requests *out, struct query *q, size_t first, size_t end)
{
  size_t records_size, hashes_size, at = (size_t)query_int(q, 0);
  const unsigned char *records = query_blob(&records_size, q, 1), *hashes = query_blob(&hashes_size, q, 2);
  const unsigned char *const hashes_end = hashes_size > 0 ? hashes + hashes_size : NULL;
  if (!make_room(out, records_size / RECORD_BYTES + 1, hashes_size / HASH_BYTES)) {
    query_out_of_memory(q);
    return;
  }
  for (; records_size >= RECORD_BYTES && at < end; at++, records += RECORD_BYTES, records_size -= RECORD_BYTES) {
    struct store_trace_request row = take_record(records);
    const uint32_t held = hashes_end != NULL ? (uint32_t)((hashes_end - hashes) / HASH_BYTES) : 0;
    if (row.prefix_count > held)
      row.prefix_count = held; /* never so in what put_hashes wrote */
    row.prefix_first = (uint32_t)out->prefix_hash_count;
    for (uint32_t k = 0; k < row.prefix_count; k++, hashes += HASH_BYTES)
      if (at >= first)
        out->prefix_hashes[out->prefix_hash_count++] = (uint32_t)take_number(hashes, HASH_BYTES);
    if (at >= first)
      out->rows[out->count++] = row;
  }
}

enum err store_trace_requests_get(struct store *store, struct store_trace_requests *out, const char *digest,
                                  size_t first, size_t count, struct error *e)
{
  const size_t end = count < SIZE_MAX / 2 - first ? first + count : SIZE_MAX / 2;
  struct query q;
  bool is_found = false;
  enum err result;
  *out = (struct store_trace_requests){0};
  read_begin(&q, store,
             "SELECT first_request, requests, prefix_hashes FROM trace_part WHERE digest = ?1 AND first_request > ?2 "
             "AND first_request < ?3 ORDER BY first_request");
  query_bind_text(&q, 1, digest);
  query_bind_int(&q, 2, (int64_t)first - PART_REQUESTS);
  query_bind_int(&q, 3, (int64_t)end);
  while (query_row(&q)) {
    is_found = true;
    read_part(out, &q, first, end);
  }
  result = read_end(&q, store, e);
  if (result != ERR_OK)
    store_trace_requests_fini(out);
  else if (!is_found)
    return error_set(e, ERR_NOT_FOUND, "", "no requests of a trace %s are kept from number %zu on", digest, first);
  return result;
}
