/* Named documents: list, read, put with preconditions, delete. */
#include "api/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/catalogue.h"
#include "api/json_memory.h"
#include "api/read.h"
#include "api/write.h"

const struct document_kind document_models = {STORE_MODEL, "model", "name", "/v1/models"};
const struct document_kind document_profiles = {STORE_PROFILE, "profile", "id", "/v1/profiles"};
const struct document_kind document_workloads = {STORE_WORKLOAD, "workload", "name", "/v1/workloads"};
const struct document_kind document_stacks = {STORE_STACK, "stack", "name", "/v1/stacks"};

bool document_is_envelope(const struct document_kind *kind, const char *member)
{
  return strcmp(member, kind->id_member) == 0 || strcmp(member, "revision") == 0 || strcmp(member, "created_at") == 0 ||
         strcmp(member, "built_in") == 0;
}

json_t *document_strip(const struct document_kind *kind, const json_t *body)
{
  json_t *object = read_iterable(body), *stripped, *value;
  const char *key;
  if (!json_is_object(body))
    return json_incref(object);
  stripped = json_object();
  json_object_foreach(object, key, value)
  {
    if (!document_is_envelope(kind, key) && json_object_set(stripped, key, value) != 0) {
      json_decref(stripped);
      return NULL;
    }
  }
  return stripped;
}

void document_check_name(const struct api_call *call, const struct document_kind *kind)
{
  const json_t *given = json_object_get(call->body, kind->id_member);
  const char *name = call->params[0];
  char pointer[160], excerpt[READ_EXCERPT_SIZE], normal[65] = "";
  struct read_field field = {.kind = READ_NAME, .to = normal, .size = sizeof normal};
  json_t *wanted;
  if (!read_is_name(name)) {
    wanted = json_string(name);
    read_value(wanted, "{name}", &field, call->faults);
    json_decref(wanted);
  }
  if (given == NULL)
    return;
  read_pointer(pointer, sizeof pointer, "", kind->id_member);
  if (!json_is_string(given))
    faults_add(call->faults, FAULT_WRONG_TYPE, pointer, name, "is %s; a string is expected", read_type_name(given));
  else if (strcmp(json_string_value(given), name) != 0)
    faults_add(call->faults, FAULT_CONFLICT, pointer, name, "is \"%s\", but the path names \"%s\"",
               read_excerpt(excerpt, json_string_value(given)), name);
}

/* ---- Answers ---------------------------------------------------------------------------------------------------------- */

/* {"name":…,"revision":…,"created_at":…,"built_in":…} and the members of the stored document. */
static char *document_text(const struct document_kind *kind, const struct store_document *row, size_t *length)
{
  struct text text = {NULL, 0, 0, false};
  char created[WRITE_TIME_SIZE];
  const char *rest = row->document;
  write_time(created, row->created_at_ms);
  text_printf(&text, "{\"%s\":\"%s\",\"revision\":%d,\"created_at\":\"%s\",\"built_in\":%s", kind->id_member, row->name,
              row->revision, created, row->is_builtin ? "true" : "false");
  if (rest[0] == '{')
    rest++;
  if (rest[0] != '}')
    text_puts(&text, ",");
  text_puts(&text, rest);
  return text_take(&text, length);
}

static enum err respond_document(struct api_response *out, unsigned status, const struct document_kind *kind,
                                 const struct store_document *row, struct error *e)
{
  size_t length;
  char *bytes = document_text(kind, row, &length);
  return respond_text_steal(out, status, "application/json", bytes, length, e);
}

/* The stored name nearest to an unknown one, copied; "" when none is near. */
static void nearest_name(char to[129], const struct api_call *call, const struct document_kind *kind, const char *name)
{
  struct catalogue *catalogue = call_catalogue(call);
  const struct catalogue_snapshot *snapshot;
  const char *near = NULL;
  struct error ignored; /* without a snapshot there is no suggestion; the answer is the same 404 */
  to[0] = '\0';
  if (kind->catalogue == STORE_WORKLOAD || catalogue_acquire(&snapshot, catalogue, &ignored) != ERR_OK)
    return;
  near = read_nearest(name, kind->catalogue == STORE_PROFILE ? snapshot->profile_names
                            : kind->catalogue == STORE_STACK ? snapshot->stack_names
                                                             : snapshot->model_names);
  if (near != NULL)
    (void)snprintf(to, 129, "%s", near);
  catalogue_release(catalogue, snapshot);
}

static enum err not_found(const struct api_call *call, const struct document_kind *kind, const char *name,
                          struct error *e)
{
  char near[129];
  nearest_name(near, call, kind, name);
  if (near[0] != '\0')
    return error_set(e, ERR_NOT_FOUND, "", "no %s is named \"%s\"; the nearest is \"%s\"", kind->noun, name, near);
  return error_set(e, ERR_NOT_FOUND, "", "no %s is named \"%s\"", kind->noun, name);
}

/* "chat" and "chat-eu" are two workloads, not one misspelt. */
static bool is_beginning(const char *a, const char *b)
{
  const size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
  return strncmp(a, b, length) == 0;
}

#define NEAREST_AMONG 1000 /* a page: suggestions come from the first so many */

enum err document_check_workload(const struct api_call *call, const char *name, const char *pointer, bool may_be_new,
                                 struct error *e)
{
  const struct store_page page = {.limit = NEAREST_AMONG};
  const char *names[NEAREST_AMONG + 1] = {NULL};
  struct store_document row = {.name = NULL};
  struct store_documents list;
  const char *near;
  char excerpt[READ_EXCERPT_SIZE];
  enum err rc = store_document_get(call_store(call), &row, STORE_WORKLOAD, name, 0, e);
  store_document_fini(&row);
  if (rc != ERR_NOT_FOUND)
    return rc;
  rc = store_document_list(call_store(call), &list, STORE_WORKLOAD, &page, e);
  if (rc != ERR_OK)
    return rc;
  for (size_t i = 0; i < list.count && i < NEAREST_AMONG; i++)
    names[i] = list.rows[i].name;
  near = read_nearest(name, names);
  if (!may_be_new || (near != NULL && !is_beginning(near, name)))
    faults_add(call->faults, FAULT_UNKNOWN_NAME, pointer, near,
               "no workload \"%s\" is registered; PUT /v1/workloads/{name} does", read_excerpt(excerpt, name));
  store_documents_fini(&list);
  return ERR_OK;
}

static enum err respond_documents(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                                  const struct store_documents *list, const char *next_after, struct error *e)
{
  char **texts = calloc(list->count + 1, sizeof *texts);
  enum err code = ERR_NOMEM;
  size_t i;
  if (texts == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the list");
  for (i = 0; i < list->count; i++) {
    texts[i] = document_text(kind, &list->rows[i], NULL);
    if (texts[i] == NULL)
      goto out;
  }
  code = respond_page_texts(call, out, (const char *const *)texts, list->count, next_after, e);
out:
  for (i = 0; i < list->count; i++)
    free(texts[i]);
  free(texts);
  return code;
}

enum err document_list(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                       struct error *e)
{
  struct store_documents list = {.rows = NULL};
  struct store_page page;
  enum err code;
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = store_document_list(call_store(call), &list, kind->catalogue, &page, e);
  if (code == ERR_OK)
    code = respond_documents(call, out, kind, &list, list.has_more ? list.rows[list.count - 1].name : NULL, e);
  store_documents_fini(&list);
  return code;
}

enum err document_get(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                      struct error *e)
{
  struct store_document row = {.name = NULL};
  enum err code = store_document_get(call_store(call), &row, kind->catalogue, call->params[0], 0, e);
  if (code == ERR_OK)
    code = respond_document(out, 200, kind, &row, e);
  else if (code == ERR_NOT_FOUND)
    code = not_found(call, kind, call->params[0], e);
  store_document_fini(&row);
  return code;
}

enum err document_revisions(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                            struct error *e)
{
  struct store_documents list = {.rows = NULL};
  struct store_page page;
  char last[16];
  enum err code;
  if (!call_page(call, &page))
    return ERR_INVALID;
  code = store_document_revisions(call_store(call), &list, kind->catalogue, call->params[0], &page, e);
  if (code == ERR_NOT_FOUND || (code == ERR_OK && list.count == 0 && page.after[0] == '\0'))
    code = not_found(call, kind, call->params[0], e);
  if (code == ERR_OK) {
    (void)snprintf(last, sizeof last, "%d", list.count > 0 ? list.rows[list.count - 1].revision : 0);
    code = respond_documents(call, out, kind, &list, list.has_more ? last : NULL, e);
  }
  store_documents_fini(&list);
  return code;
}

/* A revision number of the path: 1 … 999999999 without leading zeros; 0 when it is not one. */
static int revision_parse(const char *text)
{
  int value = 0;
  size_t i;
  for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 9; i++)
    value = value * 10 + (text[i] - '0');
  return text[0] != '0' && text[i] == '\0' ? value : 0;
}

enum err document_revision(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                           struct error *e)
{
  const int revision = revision_parse(call->params[1]);
  struct store_document row = {.name = NULL};
  enum err code = ERR_NOT_FOUND;
  if (revision > 0)
    code = store_document_get(call_store(call), &row, kind->catalogue, call->params[0], revision, e);
  if (code == ERR_OK)
    code = respond_document(out, 200, kind, &row, e);
  else if (code == ERR_NOT_FOUND)
    code = error_set(e, ERR_NOT_FOUND, "", "the %s \"%s\" has no revision %s", kind->noun, call->params[0],
                     call->params[1]);
  store_document_fini(&row);
  return code;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------------- */

/* "Did it change" is asked of what is answered, so sending back what GET gave adds no revision. */
static enum err document_digest(char **digest, const char *alias, const json_t *document, struct error *e)
{
  struct text text = {NULL, 0, 0, false};
  char hex[WRITE_DIGEST_SIZE], *canonical = write_canonical(document), *bytes;
  size_t length;
  if (canonical == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a digest");
  text_printf(&text, "%s\n%s", alias, canonical);
  free(canonical);
  bytes = text_take(&text, &length);
  if (bytes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for a digest");
  write_digest(hex, bytes, length);
  free(bytes);
  *digest = strdup(hex);
  return *digest != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory for a digest");
}

enum err document_row(struct store_document *out, const char *name, const char *alias, const json_t *source,
                      const json_t *document, int64_t now_ms, struct error *e)
{
  enum err code;
  *out = (struct store_document){.created_at_ms = now_ms};
  code = document_digest(&out->digest, alias, document, e);
  if (code != ERR_OK)
    return code;
  out->name = strdup(name);
  out->alias = strdup(alias);
  out->source = write_canonical(source);
  out->document = json_memory_dumps(document, WRITE_FLAGS);
  if (out->name != NULL && out->alias != NULL && out->source != NULL && out->document != NULL)
    return ERR_OK;
  store_document_fini(out);
  return error_set(e, ERR_NOMEM, "", "not enough memory to store \"%s\"", name);
}

static const char *request_header(const struct api_call *call, const char *name)
{
  return call->request->header != NULL ? call->request->header(call->request->cls, name) : NULL;
}

/* The newest revision under exactly this name (an alias does not count); revision 0 when there is none. */
static enum err current_row(struct store_document *row, const struct api_call *call, const struct document_kind *kind,
                            struct error *e)
{
  enum err code = store_document_get(call_store(call), row, kind->catalogue, call->params[0], 0, e);
  if (code == ERR_OK && strcmp(row->name, call->params[0]) == 0)
    return ERR_OK;
  store_document_fini(row);
  *row = (struct store_document){.name = NULL};
  return code == ERR_NOT_FOUND ? ERR_OK : code;
}

/* The tag that GET gives for a stored row. */
static enum err row_tag(char tag[ETAG_SIZE], const struct document_kind *kind, const struct store_document *row,
                        struct error *e)
{
  size_t length;
  char *bytes = document_text(kind, row, &length);
  if (bytes == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to compare entity tags");
  etag_of(tag, bytes, length);
  free(bytes);
  return ERR_OK;
}

enum err document_compare_tag(const struct api_call *call, const char *noun, const char *tag, struct error *e)
{
  const char *match = request_header(call, "If-Match"), *none_match = request_header(call, "If-None-Match");
  const char *name = call->params[0];
  if (match != NULL && tag == NULL)
    return error_set(e, ERR_PRECONDITION, "", "If-Match: no %s \"%s\" is stored", noun, name);
  if (match != NULL && !etag_matches(match, tag))
    return error_set(e, ERR_PRECONDITION, "", "If-Match: the %s \"%s\" has changed", noun, name);
  if (none_match != NULL && tag != NULL && etag_matches(none_match, tag))
    return error_set(e, ERR_PRECONDITION, "", "If-None-Match: the %s \"%s\" is already stored", noun, name);
  return ERR_OK;
}

/* If-Match and If-None-Match against what is stored. *expected is the revision that must still be the newest at the
   write; -1 without a condition. */
static enum err check_conditions(int *expected, const struct api_call *call, const struct document_kind *kind,
                                 struct error *e)
{
  struct store_document row = {.name = NULL};
  char tag[ETAG_SIZE];
  enum err code;
  *expected = -1;
  if (request_header(call, "If-Match") == NULL && request_header(call, "If-None-Match") == NULL)
    return ERR_OK;
  code = current_row(&row, call, kind, e);
  if (code == ERR_OK && row.revision > 0)
    code = row_tag(tag, kind, &row, e);
  if (code == ERR_OK)
    code = document_compare_tag(call, kind->noun, row.revision > 0 ? tag : NULL, e);
  *expected = row.revision;
  store_document_fini(&row);
  return code;
}

struct put_work {
  enum store_catalogue catalogue;
  const struct store_document *row;
  int expected_revision, revision;
  bool is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put_work *work = cls;
  return store_document_put(tx, work->catalogue, work->row, work->expected_revision, &work->revision, &work->is_created,
                            NULL, e);
}

enum err document_put(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                      const char *alias, const json_t *source, const json_t *document, struct error *e)
{
  struct store_document row = {.name = NULL}, stored = {.name = NULL};
  struct put_work work = {.catalogue = kind->catalogue, .row = &row};
  enum err code = check_conditions(&work.expected_revision, call, kind, e);
  if (code != ERR_OK)
    return code;
  code = document_row(&row, call->params[0], alias, source, document, call->now_ms, e);
  if (code == ERR_OK)
    code = store_write(call_store(call), kind->noun, put_work, &work, e);
  if (code == ERR_PRECONDITION)
    code =
        error_set(e, ERR_PRECONDITION, "", "the %s \"%s\" was changed by another request", kind->noun, call->params[0]);
  if (code == ERR_OK)
    code = store_document_get(call_store(call), &stored, kind->catalogue, call->params[0], work.revision, e);
  if (code == ERR_OK)
    code = respond_document(out, work.is_created ? 201 : 200, kind, &stored, e);
  if (code == ERR_OK && work.is_created)
    respond_header(out, "Location", "%s/%s", kind->path, call->params[0]);
  store_document_fini(&stored);
  store_document_fini(&row);
  return code;
}

struct delete_work {
  enum store_catalogue catalogue;
  const char *name;
};

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  const struct delete_work *work = cls;
  return store_document_delete(tx, work->catalogue, work->name, e);
}

enum err document_delete(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                         struct error *e)
{
  struct delete_work work = {kind->catalogue, call->params[0]};
  int expected;
  enum err code = check_conditions(&expected, call, kind, e);
  if (code == ERR_OK)
    code = store_write(call_store(call), kind->noun, delete_work, &work, e);
  if (code == ERR_NOT_FOUND)
    return not_found(call, kind, call->params[0], e);
  if (code == ERR_CONFLICT)
    return error_set(e, ERR_CONFLICT, "", "the %s \"%s\" can not be deleted: history refers to it", kind->noun,
                     call->params[0]);
  if (code == ERR_OK)
    out->status = 204;
  return code;
}
