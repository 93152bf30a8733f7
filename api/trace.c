/* Traces in canonical form: whatever the source, equal recordings have equal requests and so one digest. */
#include "api/trace.h"

#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/put.h"
#include "api/trace_int.h"

#define NS_PER_S 1000000000

void trace_fini(struct trace *trace)
{
  store_trace_requests_fini(&trace->requests);
  json_decref(trace->assumptions);
  *trace = (struct trace){.format = ""};
}

void trace_assume(struct trace *trace, const char *format, ...)
{
  char sentence[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  put_element(&trace->assumptions, write_text(sentence));
}

/* ---- Collecting ---- */

void trace_rows_fini(struct trace_rows *rows)
{
  store_trace_requests_fini(&rows->requests);
  free(rows->hashes);
  *rows = (struct trace_rows){.hashes = NULL};
}

/* Room for one element more; false when memory is out. */
static bool grow(void **array, size_t count, size_t *capacity, size_t size)
{
  const size_t wanted = *capacity > 0 ? 2 * *capacity : 1024;
  void *grown;
  if (count < *capacity)
    return true;
  grown = reallocarray(*array, wanted, size);
  if (grown == NULL)
    return false;
  *array = grown;
  *capacity = wanted;
  return true;
}

enum err trace_rows_add(struct trace_rows *rows, const struct store_trace_request *request, struct error *e)
{
  void *array = rows->requests.rows;
  if (rows->requests.count == TRACE_REQUESTS_MAX)
    return error_set(e, ERR_LIMIT, "", "the trace has more than the limit of %d requests", TRACE_REQUESTS_MAX);
  if (!grow(&array, rows->requests.count, &rows->capacity, sizeof *request))
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the trace");
  rows->requests.rows = array;
  rows->requests.rows[rows->requests.count++] = *request;
  return ERR_OK;
}

enum err trace_rows_add_hash(struct trace_rows *rows, uint64_t hash, struct error *e)
{
  void *array = rows->hashes;
  if (rows->hash_count == TRACE_HASHES_MAX)
    return error_set(e, ERR_LIMIT, "", "the trace has more than the limit of %d prefix hashes", TRACE_HASHES_MAX);
  if (!grow(&array, rows->hash_count, &rows->hash_capacity, sizeof hash))
    return error_set(e, ERR_NOMEM, "", "not enough memory to read the trace");
  rows->hashes = array;
  rows->hashes[rows->hash_count++] = hash;
  return ERR_OK;
}

/* ---- Order ---- */

struct place {
  int64_t arrival_ns;
  size_t index; /* decides among equal times, so that the order of the file stands */
};

static int by_arrival(const void *a, const void *b)
{
  const struct place *x = a, *y = b;
  if (x->arrival_ns != y->arrival_ns)
    return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static enum err sort_rows(struct trace_rows *rows, struct error *e)
{
  const size_t count = rows->requests.count;
  struct store_trace_request *sorted = calloc(count, sizeof *sorted);
  struct place *places = calloc(count, sizeof *places);
  enum err result = ERR_OK;
  if (sorted == NULL || places == NULL) {
    result = error_set(e, ERR_NOMEM, "", "not enough memory to sort the trace");
    goto out;
  }
  for (size_t i = 0; i < count; i++)
    places[i] = (struct place){rows->requests.rows[i].arrival_ns, i};
  qsort(places, count, sizeof *places, by_arrival);
  for (size_t i = 0; i < count; i++)
    sorted[i] = rows->requests.rows[places[i].index];
  free(rows->requests.rows);
  rows->requests.rows = sorted;
  sorted = NULL;
out:
  free(places);
  free(sorted);
  return result;
}

/* Earlier than the one before it. */
static size_t count_disordered(const struct store_trace_requests *requests)
{
  size_t count = 0;
  for (size_t i = 1; i < requests->count; i++)
    count += requests->rows[i].arrival_ns < requests->rows[i - 1].arrival_ns ? 1 : 0;
  return count;
}

/* ---- Prefix hashes ---- */

struct mention {
  uint64_t hash;
  uint32_t position;
};

static int by_hash(const void *a, const void *b)
{
  const struct mention *x = a, *y = b;
  if (x->hash != y->hash)
    return x->hash < y->hash ? -1 : 1;
  return x->position < y->position ? -1 : x->position > y->position;
}

/* The hashes in the order of the rows, which get their new places. */
static void line_up(struct mention *mentions, struct store_trace_requests *requests, const uint64_t *hashes)
{
  uint32_t position = 0;
  for (size_t i = 0; i < requests->count; i++) {
    struct store_trace_request *row = &requests->rows[i];
    for (uint32_t k = 0; k < row->prefix_count; k++)
      mentions[position + k] = (struct mention){hashes[row->prefix_first + k], position + k};
    row->prefix_first = position;
    position += row->prefix_count;
  }
}

/* Numbers by first appearance. `numbers` first gets, at each position, the position where its hash appears first; sorting
   finds it, which no choice of hashes makes slow. */
static void number_hashes(uint32_t *numbers, struct mention *mentions, size_t count)
{
  uint32_t next = 0;
  qsort(mentions, count, sizeof *mentions, by_hash);
  for (size_t i = 0, first = 0; i < count; i++) {
    if (mentions[i].hash != mentions[first].hash)
      first = i;
    numbers[mentions[i].position] = mentions[first].position;
  }
  for (uint32_t i = 0; i < count; i++)
    numbers[i] = numbers[i] == i ? next++ : numbers[numbers[i]];
}

static enum err canonical_hashes(struct store_trace_requests *requests, const struct trace_rows *rows, struct error *e)
{
  struct mention *mentions;
  if (rows->hash_count == 0)
    return ERR_OK;
  mentions = calloc(rows->hash_count, sizeof *mentions);
  requests->prefix_hashes = calloc(rows->hash_count, sizeof *requests->prefix_hashes);
  if (mentions == NULL || requests->prefix_hashes == NULL) {
    free(mentions);
    return error_set(e, ERR_NOMEM, "", "not enough memory for the prefix hashes");
  }
  line_up(mentions, requests, rows->hashes);
  number_hashes(requests->prefix_hashes, mentions, rows->hash_count);
  requests->prefix_hash_count = rows->hash_count;
  free(mentions);
  return ERR_OK;
}

/* ---- The canonical form ---- */

/* Whole seconds and what is left, without trailing zeros. */
static void write_seconds(struct text *text, int64_t ns)
{
  const long long whole = (long long)(ns / NS_PER_S);
  int64_t rest = ns % NS_PER_S;
  int digits = 9;
  for (; digits > 0 && rest % 10 == 0; digits--)
    rest /= 10;
  if (digits == 0)
    text_printf(text, "%lld", whole);
  else
    text_printf(text, "%lld.%0*lld", whole, digits, (long long)rest);
}

static void write_csv_row(struct text *text, const struct store_trace_requests *requests, size_t index)
{
  const struct store_trace_request *row = &requests->rows[index];
  write_seconds(text, row->arrival_ns);
  text_printf(text, ",%u,%u,", (unsigned)row->input_tokens, (unsigned)row->output_tokens);
  for (uint32_t k = 0; k < row->prefix_count; k++)
    text_printf(text, k > 0 ? " %u" : "%u", (unsigned)requests->prefix_hashes[row->prefix_first + k]);
  text_puts(text, "\r\n");
}

static const char csv_head[] = "arrival_s,input_tokens,output_tokens,prefix_hashes\r\n";

void trace_write_csv(struct text *text, const struct store_trace_requests *requests)
{
  text_puts(text, csv_head);
  for (size_t i = 0; i < requests->count; i++)
    write_csv_row(text, requests, i);
}

void trace_write_json(struct text *text, const struct store_trace_requests *requests, size_t index)
{
  const struct store_trace_request *row = &requests->rows[index];
  text_puts(text, "{\"arrival_s\":");
  write_seconds(text, row->arrival_ns);
  text_printf(text, ",\"input_tokens\":%u,\"output_tokens\":%u,\"prefix_hashes\":[", (unsigned)row->input_tokens,
              (unsigned)row->output_tokens);
  for (uint32_t k = 0; k < row->prefix_count; k++)
    text_printf(text, k > 0 ? ",%u" : "%u", (unsigned)requests->prefix_hashes[row->prefix_first + k]);
  text_puts(text, "]}");
}

/* The same as write_digest over the whole CSV, which would be as large as the body once more. */
static enum err digest_rows(char to[WRITE_DIGEST_SIZE], const struct store_trace_requests *requests, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  unsigned char digest[SHA256_DIGEST_SIZE];
  struct sha256_ctx sha256;
  sha256_init(&sha256);
  sha256_update(&sha256, strlen(csv_head), (const uint8_t *)csv_head);
  for (size_t i = 0; i < requests->count && !text.is_failed; i++) {
    text.length = 0;
    write_csv_row(&text, requests, i);
    sha256_update(&sha256, text.length, (const uint8_t *)text.bytes);
  }
  sha256_digest(&sha256, sizeof digest, digest);
  memcpy(to, "sha256:", strlen("sha256:") + 1);
  write_hex(to + strlen("sha256:"), digest, sizeof digest);
  free(text.bytes);
  return text.is_failed ? error_set(e, ERR_NOMEM, "", "not enough memory for a digest") : ERR_OK;
}

static void assume_start(struct trace *out, int64_t first_ns, enum trace_time time)
{
  struct text text = {NULL, 0, 0, false};
  char *start;
  out->has_start = time != TRACE_TIME_NUMBER;
  if (time == TRACE_TIME_DATE_WITHOUT_ZONE)
    trace_assume(out, "the dates have no zone and are taken as UTC");
  if (out->has_start) {
    out->starts_at_ms = first_ns / 1000000;
    return;
  }
  if (first_ns == 0)
    return;
  write_seconds(&text, first_ns);
  start = text_take(&text, NULL);
  trace_assume(out, "arrivals are counted from the first request, which came at %s s", start != NULL ? start : "?");
  free(start);
}

enum err trace_canonical(struct trace *out, struct trace_rows *rows, struct error *e)
{
  const size_t disordered = count_disordered(&rows->requests);
  struct store_trace_requests *requests = &out->requests;
  int64_t first_ns;
  enum err result = disordered > 0 ? sort_rows(rows, e) : ERR_OK;
  if (result != ERR_OK)
    return result;
  if (disordered > 0)
    trace_assume(out, "%zu %s earlier than the one before; sorted by arrival, equal times in the order of the file",
                 disordered, disordered == 1 ? "request came" : "requests came");
  *requests = rows->requests;
  rows->requests = (struct store_trace_requests){.rows = NULL};
  first_ns = requests->rows[0].arrival_ns;
  assume_start(out, first_ns, rows->time);
  for (size_t i = 0; i < requests->count; i++)
    requests->rows[i].arrival_ns -= first_ns;
  result = canonical_hashes(requests, rows, e);
  if (result == ERR_OK)
    result = digest_rows(out->digest, requests, e);
  return result;
}
