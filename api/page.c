/* Pages of lists: limit and order, cursors, picked fields, the Link to the next page. A cursor is the key of the last row
   together with a checksum over the list it belongs to, so that it can not be used with another filter or order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/read.h"
#include "api/row_csv.h"
#include "api/write.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 1000
#define CURSOR_TAG 16 /* hex digits */
#define FIELDS_MAX 64 /* picked at once */

static bool is_one_of(const char *word, const char *const *words)
{
  for (; *words != NULL; words++)
    if (strcmp(*words, word) == 0)
      return true;
  return false;
}

/* Checksum over the path, every filter of the list, and the key itself. */
static enum err cursor_tag(char tag[CURSOR_TAG + 1], const struct api_call *call, const char *after, struct error *e)
{
  static const char *const not_filters[] = {"limit", "cursor", "fields", "format", NULL};
  char digest[WRITE_DIGEST_SIZE];
  struct text text = {NULL, 0, 0, false};
  const char *const *key;
  size_t length;
  char *bytes;
  text_puts(&text, call->request->path);
  for (key = call->route->query; key != NULL && *key != NULL; key++) {
    const char *value = is_one_of(*key, not_filters) ? NULL : call_query(call, *key);
    if (value != NULL)
      text_printf(&text, "\n%s=%s", *key, value);
  }
  text_printf(&text, "\n\n%s", after);
  bytes = text_take(&text, &length);
  if (bytes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a cursor");
  write_digest(digest, bytes, length);
  free(bytes);
  (void)snprintf(tag, CURSOR_TAG + 1, "%.16s", digest + strlen("sha256:"));
  return ERR_OK;
}

static int hex_value(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes a cursor apart; false when it is broken or belongs to another list. */
static bool cursor_parse(char *after, size_t size, const struct api_call *call, const char *cursor)
{
  const size_t length = strlen(cursor);
  char tag[CURSOR_TAG + 1];
  size_t i, n = 0;
  if (length <= CURSOR_TAG || length % 2 != 0 || (length - CURSOR_TAG) / 2 >= size)
    return false;
  for (i = CURSOR_TAG; i < length; i += 2) {
    const int high = hex_value(cursor[i]), low = hex_value(cursor[i + 1]);
    if (high < 0 || low < 0 || high + low == 0)
      return false;
    after[n++] = (char)(high * 16 + low);
  }
  after[n] = '\0';
  return cursor_tag(tag, call, after, NULL) == ERR_OK && strncmp(tag, cursor, CURSOR_TAG) == 0;
}

static bool limit_parse(unsigned *limit, const char *text)
{
  unsigned value = 0;
  size_t i;
  for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 5; i++)
    value = value * 10 + (unsigned)(text[i] - '0');
  if (i == 0 || text[i] != '\0' || value < 1 || value > LIMIT_MAX)
    return false;
  *limit = value;
  return true;
}

bool call_page(struct api_call *call, struct store_page *page)
{
  static const char *const orders[] = {"asc", "desc", NULL};
  const char *limit = call_query(call, "limit"), *order = call_query(call, "order");
  const char *cursor = call_query(call, "cursor");
  const size_t before = call->faults->count;
  char excerpt[READ_EXCERPT_SIZE];
  *page = (struct store_page){.limit = LIMIT_DEFAULT};
  if (limit != NULL && !limit_parse(&page->limit, limit))
    faults_add(call->faults, FAULT_OUT_OF_RANGE, "?limit", NULL, "is \"%s\"; must be an integer between 1 and %d",
               read_excerpt(excerpt, limit), LIMIT_MAX);
  if (order != NULL && !is_one_of(order, orders))
    faults_add(call->faults, FAULT_UNKNOWN_VALUE, "?order", read_nearest(order, orders),
               "\"%s\" is not known; asc or desc is expected", read_excerpt(excerpt, order));
  page->ascending = order != NULL && strcmp(order, "asc") == 0;
  if (cursor != NULL && !cursor_parse(page->after, sizeof page->after, call, cursor))
    faults_add(call->faults, FAULT_UNKNOWN_VALUE, "?cursor", NULL,
               "is not a cursor of this list; a cursor goes with the filters and the order it came with");
  return call->faults->count == before;
}

/* ---- fields= ---------------------------------------------------------------------------------------------------------- */

/* Splits the next part off at `separator` into `to`; false when it is empty or too long. */
static bool next_part(char *to, size_t size, const char **at, char separator)
{
  const char *end = strchr(*at, separator);
  const size_t length = end != NULL ? (size_t)(end - *at) : strlen(*at);
  if (length == 0 || length >= size)
    return false;
  memcpy(to, *at, length);
  to[length] = '\0';
  *at += length + (end != NULL ? 1 : 0);
  return end == NULL || **at != '\0';
}

static bool pick(json_t *to, const json_t *from, const char *path);

/* A list on the way: the rest of the path is picked from each of its objects. */
static bool pick_list(json_t *to, const char *name, const json_t *list, const char *rest)
{
  json_t *picked = json_object_get(to, name);
  const bool is_new = !json_is_array(picked);
  json_t *element, *part;
  size_t i;
  if (is_new) {
    picked = json_array();
    if (json_object_set_new(to, name, picked) != 0)
      return false;
  }
  json_array_foreach(list, i, element)
  {
    if (is_new && json_array_append_new(picked, json_object()) != 0)
      return false;
    part = json_array_get(picked, i);
    if (json_is_object(element) && !pick(part, element, rest))
      return false;
  }
  return true;
}

/* Copies what a dotted path names; absent is null, so that every row has the same columns. */
static bool pick(json_t *to, const json_t *from, const char *path)
{
  char name[128];
  const char *rest = path;
  const json_t *member;
  json_t *nested;
  if (!next_part(name, sizeof name, &rest, '.'))
    return true; /* checked before */
  member = json_object_get(from, name);
  if (*rest == '\0')
    return json_object_set_new(to, name, member != NULL ? json_deep_copy(member) : json_null()) == 0;
  if (json_is_array(member))
    return pick_list(to, name, member, rest);
  if (!json_is_object(member))
    return json_object_set_new(to, name, json_null()) == 0;
  nested = json_object_get(to, name);
  if (!json_is_object(nested)) {
    nested = json_object();
    if (json_object_set_new(to, name, nested) != 0)
      return false;
  }
  return pick(nested, member, rest);
}

/* The first name of a path must be there in one of the rows: our documents always have all their members. */
static void check_path(const json_t *items, const char *path, struct faults *faults)
{
  const char *words[129], *rest = path, *key;
  char name[128], excerpt[READ_EXCERPT_SIZE];
  json_t *item, *value;
  size_t i, count = 0;
  if (json_array_size(items) == 0)
    return;
  if (!next_part(name, sizeof name, &rest, '.') || strstr(path, "..") != NULL || path[strlen(path) - 1] == '.') {
    faults_add(faults, FAULT_UNKNOWN_VALUE, "?fields", NULL, "\"%s\" is not a path of fields",
               read_excerpt(excerpt, path));
    return;
  }
  json_array_foreach(items, i, item)
  {
    if (json_object_get(item, name) != NULL)
      return;
  }
  item = json_array_get(items, 0);
  json_object_foreach(item, key, value)
  {
    if (count < 128)
      words[count++] = key;
  }
  words[count] = NULL;
  faults_add(faults, FAULT_UNKNOWN_FIELD, "?fields", read_nearest(name, words), "no item has the field \"%s\"",
             read_excerpt(excerpt, name));
}

/* Reads the list of paths, checks them, and replaces *items by the picked rows. */
static enum err pick_fields(struct api_call *call, json_t **items, const char *fields, struct error *e)
{
  const size_t before = call->faults->count;
  char paths[FIELDS_MAX][128], excerpt[READ_EXCERPT_SIZE];
  const char *rest = fields;
  json_t *picked = NULL, *item, *row;
  size_t count = 0, i, j;
  enum err code = ERR_OK;
  while (*rest != '\0' || count == 0) {
    if (count == FIELDS_MAX || !next_part(paths[count], sizeof paths[count], &rest, ',')) {
      faults_add(call->faults, FAULT_OUT_OF_RANGE, "?fields", NULL,
                 "\"%s\" is not a list of 1 to %d paths like cost.monthly_usd,verdict", read_excerpt(excerpt, fields),
                 FIELDS_MAX);
      return ERR_INVALID;
    }
    check_path(*items, paths[count++], call->faults);
  }
  if (call->faults->count > before)
    return ERR_INVALID;
  picked = json_array();
  json_array_foreach(*items, i, item)
  {
    row = json_object();
    for (j = 0; j < count; j++)
      if (!pick(row, item, paths[j]))
        code = ERR_NOMEM;
    if (json_array_append_new(picked, row) != 0)
      code = ERR_NOMEM;
  }
  if (code != ERR_OK) {
    json_decref(picked);
    return error_set(e, code, "", "not enough memory for the picked fields");
  }
  json_decref(*items);
  *items = picked;
  return ERR_OK;
}

/* ---- The page --------------------------------------------------------------------------------------------------------- */

/* Only what may stand in a URI inside <>: anything else is percent-encoded. */
static void append_uri(struct text *text, const char *from, size_t count)
{
  size_t i;
  for (i = 0; i < count; i++) {
    const unsigned char c = (unsigned char)from[i];
    if (c <= 0x20 || c >= 0x7F || c == '<' || c == '>' || c == '"' || c == '\\')
      text_printf(text, "%%%02X", (unsigned)c);
    else
      text_append(text, from + i, 1);
  }
}

/* Link: the URL of this request with the new cursor. Left out when it does not fit a header; the body has the cursor. */
static enum err respond_next_link(struct api_call *call, struct api_response *out, const char *cursor, struct error *e)
{
  const char *at = call->request->query_text != NULL ? call->request->query_text : "";
  struct text text = {NULL, 0, 0, false};
  size_t length;
  char *link;
  text_puts(&text, "<");
  append_uri(&text, call->request->path, strlen(call->request->path));
  text_puts(&text, "?");
  while (*at != '\0') {
    const size_t pair = strcspn(at, "&");
    if (pair > 0 && strncmp(at, "cursor=", 7) != 0) {
      append_uri(&text, at, pair);
      text_puts(&text, "&");
    }
    at += pair + (at[pair] == '&' ? 1 : 0);
  }
  text_printf(&text, "cursor=%s>; rel=\"next\"", cursor);
  link = text_take(&text, &length);
  if (link == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the answer");
  if (length < sizeof out->headers[0].value)
    respond_header(out, "Link", "%s", link);
  free(link);
  return ERR_OK;
}

/* cursor[]: "" without a next page. */
static enum err next_cursor(char *cursor, size_t size, struct api_call *call, struct api_response *out,
                            const char *next_after, struct error *e)
{
  char tag[CURSOR_TAG + 1], hex[2 * sizeof((struct store_page *)NULL)->after + 1];
  enum err code;
  cursor[0] = '\0';
  if (next_after == NULL || next_after[0] == '\0')
    return ERR_OK;
  if (strlen(next_after) >= sizeof((struct store_page *)NULL)->after)
    return error_set(e, ERR_INTERNAL, "", "the key of a list is longer than a cursor can hold");
  code = cursor_tag(tag, call, next_after, e);
  if (code != ERR_OK)
    return code;
  write_hex(hex, (const unsigned char *)next_after, strlen(next_after));
  (void)snprintf(cursor, size, "%s%s", tag, hex);
  return respond_next_link(call, out, cursor, e);
}

#define CURSOR_SIZE (CURSOR_TAG + 2 * 80 + 1)

enum err respond_page_steal(struct api_call *call, struct api_response *out, json_t *items, const char *next_after,
                            struct error *e)
{
  const enum format format = call_format(call, FORMAT_JSON | FORMAT_CSV);
  const char *fields = call_query(call, "fields");
  char cursor[CURSOR_SIZE];
  json_t *page = NULL;
  enum err code = ERR_OK;
  if (items == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  if (format == FORMAT_NOT_ACCEPTABLE) {
    code = call_not_acceptable(call, out, FORMAT_JSON | FORMAT_CSV);
    goto out;
  }
  if (fields != NULL)
    code = pick_fields(call, &items, fields, e);
  if (code == ERR_OK)
    code = next_cursor(cursor, sizeof cursor, call, out, next_after, e);
  if (code != ERR_OK)
    goto out;
  if (format == FORMAT_CSV) {
    code = respond_string_steal(out, 200, "text/csv",
                                row_csv(items, fields != NULL ? fields : row_csv_columns(call->route->pattern)), e);
    goto out;
  }
  page = json_object();
  if (json_object_set(page, "items", items) != 0 ||
      json_object_set_new(page, "next_cursor", cursor[0] != '\0' ? json_string(cursor) : json_null()) != 0) {
    code = error_set(e, ERR_NOMEM, "", "not enough memory for the list");
    goto out;
  }
  code = respond_json_steal(out, 200, json_incref(page), e);
out:
  json_decref(page);
  json_decref(items);
  return code;
}

/* Documents as an array that the caller owns; NULL after an error. */
static enum err parse_documents(json_t **items, const char *const *documents, size_t count, struct error *e)
{
  size_t i;
  *items = json_array();
  for (i = 0; i < count; i++) {
    if (json_array_append_new(*items, json_loads(documents[i], 0, NULL)) != 0) {
      json_decref(*items);
      *items = NULL;
      return error_set(e, ERR_INTERNAL, "", "a stored document can not be parsed, or memory is out");
    }
  }
  return ERR_OK;
}

enum err respond_page_texts(struct api_call *call, struct api_response *out, const char *const *documents, size_t count,
                            const char *next_after, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  char cursor[CURSOR_SIZE];
  json_t *items;
  size_t i, length;
  char *bytes;
  enum err code;
  if (call_query(call, "fields") != NULL || call_format(call, FORMAT_JSON | FORMAT_CSV) != FORMAT_JSON) {
    code = parse_documents(&items, documents, count, e);
    return code == ERR_OK ? respond_page_steal(call, out, items, next_after, e) : code;
  }
  code = next_cursor(cursor, sizeof cursor, call, out, next_after, e);
  if (code != ERR_OK)
    return code;
  text_puts(&text, "{\"items\":[");
  for (i = 0; i < count; i++) {
    if (i > 0)
      text_puts(&text, ",");
    text_puts(&text, documents[i]);
  }
  if (cursor[0] != '\0')
    text_printf(&text, "],\"next_cursor\":\"%s\"}", cursor);
  else
    text_puts(&text, "],\"next_cursor\":null}");
  bytes = text_take(&text, &length);
  return respond_text_steal(out, 200, "application/json", bytes, length, e);
}

static const char *text_member(const struct page_rows *page, size_t row, size_t offset)
{
  const char *text;
  memcpy(&text, (const char *)page->rows + row * page->size + offset, sizeof text);
  return text;
}

enum err respond_page_rows(struct api_call *call, struct api_response *out, const struct page_rows *page,
                           struct error *e)
{
  const char **documents = calloc(page->count + 1, sizeof *documents);
  const char *next = page->has_more && page->count > 0 ? text_member(page, page->count - 1, page->key_at) : NULL;
  enum err code;
  if (documents == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  for (size_t i = 0; i < page->count; i++)
    documents[i] = text_member(page, i, page->document_at);
  code = respond_page_texts(call, out, documents, page->count, next, e);
  free(documents);
  return code;
}

enum err respond_page_csv_steal(struct api_call *call, struct api_response *out, char *csv, const char *next_after,
                                struct error *e)
{
  char cursor[CURSOR_SIZE];
  const enum err code = next_cursor(cursor, sizeof cursor, call, out, next_after, e);
  if (code == ERR_OK)
    return respond_string_steal(out, 200, "text/csv", csv, e);
  free(csv);
  return code;
}
