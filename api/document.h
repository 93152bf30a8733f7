/* Named documents with revisions (models, profiles, workloads, stacks): what their handlers share. A stored document is answered
   by splicing its text behind what identifies it; it is never parsed for that. Private to api/. */
#ifndef FITD_API_DOCUMENT_H
#define FITD_API_DOCUMENT_H

#include "api/call.h"
#include "core/model.h"

struct document_kind {
  enum store_catalogue catalogue;
  const char *noun;      /* "model" */
  const char *id_member; /* "name", or "id" where "name" is a name for people */
  const char *path;      /* "/v1/models" */
};
extern const struct document_kind document_models, document_profiles, document_workloads, document_stacks;

/* Members that the service adds to an answer; a client may send them back, their values are not read. */
bool document_is_envelope(const struct document_kind *kind, const char *member);
/* Shallow copy of an object without those members; NULL when memory is out. Not an object: the value itself. */
json_t *document_strip(const struct document_kind *kind, const json_t *body);
/* The name given in the body, when there is one, must be that of the path. */
void document_check_name(const struct api_call *call, const struct document_kind *kind);

/* ERR_PRECONDITION when If-Match or If-None-Match does not hold for what is stored under the name of the path; tag NULL:
   nothing is. */
enum err document_compare_tag(const struct api_call *call, const char *noun, const char *tag,
                              struct error *e) MUST_CHECK;

/* The row for a put: canonical source, answered document, digest of alias and answer. Strings are owned (store_document_fini). */
enum err document_row(struct store_document *out, const char *name, const char *alias, const json_t *source,
                      const json_t *document, int64_t now_ms, struct error *e) MUST_CHECK;

/* Reading a model body as PUT, the seed and the store have it (name members aside). alias[]: "" when not given. */
json_t *model_document_write(const struct model *model, const char *alias, const json_t *assumptions);
void model_document_read(struct model *out, char alias[129], json_t **assumptions, const json_t *body,
                         struct faults *faults);

/* The handlers' common parts. */
enum err document_list(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                       struct error *e);
enum err document_get(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                      struct error *e);
enum err document_revisions(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                            struct error *e);
enum err document_revision(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                           struct error *e);
enum err document_delete(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                         struct error *e);
/* Stores under the name of the path, honouring If-Match and If-None-Match, and answers 201 or 200 with the document. */
enum err document_put(struct api_call *call, struct api_response *out, const struct document_kind *kind,
                      const char *alias, const json_t *source, const json_t *document, struct error *e);

/* A fault at `pointer`, with the nearest name, when no workload of this name is registered. Where it may be one that is
   registered later, only names that look like a registered one misspelt are. */
enum err document_check_workload(const struct api_call *call, const char *name, const char *pointer, bool may_be_new,
                                 struct error *e) MUST_CHECK;

#endif
