/* The catalogue: models, profiles, workloads and stacks by name, each with revisions that are never rewritten. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store_int.h"

static const char columns[] =
    "r.name, r.revision, r.created_at_ms, r.is_builtin, r.alias, r.digest, r.source, r.document";

static const char *kind_name(enum store_catalogue kind)
{
  switch (kind) {
  case STORE_MODEL: return "model";
  case STORE_PROFILE: return "profile";
  case STORE_WORKLOAD: return "workload";
  case STORE_STACK: return "stack";
  case STORE_CATALOGUE_COUNT: break;
  }
  assert(false);
  return "";
}

void store_document_fini(struct store_document *row)
{
  free(row->name);
  free(row->alias);
  free(row->digest);
  free(row->source);
  free(row->document);
  *row = (struct store_document){0};
}

void store_documents_fini(struct store_documents *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_document_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_documents){0};
}

uint64_t store_catalogue_version(const struct store *store, enum store_catalogue kind)
{
  store_assert(store);
  return atomic_load(&store->versions[kind]);
}

/* ---- Writing ---- */

/* A name without revisions is a deleted built-in: it stays, so that the next start does not load the built-in again. Its
   revisions go on from newest_revision when somebody puts it anew, so a name is the user's alone exactly when revision 1 is
   there and not built in: only then nothing is left of it after a deletion. */

/* The newest revision of a name as far as putting another one cares. */
struct newest {
  int revision; /* 0 = not stored */
  bool is_builtin;
  bool is_same;    /* its digest is that of the row to be put */
  int last_number; /* the highest revision number ever given; above 0 without a revision = a deleted built-in */
};

static enum err read_newest(struct newest *out, struct store_tx *tx, enum store_catalogue kind,
                            const struct store_document *row, struct error *e)
{
  struct query q;
  *out = (struct newest){0};
  query_begin(
      &q, tx->connection,
      "SELECT coalesce(r.revision, 0), coalesce(r.is_builtin, 0), coalesce(r.digest = ?3, 0), n.newest_revision "
      "FROM catalogue_name AS n LEFT JOIN catalogue_revision AS r ON r.kind = n.kind AND r.name = n.name "
      "AND r.revision = n.newest_revision WHERE n.kind = ?1 AND n.name = ?2");
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, row->name);
  query_bind_text(&q, 3, row->digest);
  if (query_row(&q))
    *out = (struct newest){(int)query_int(&q, 0), query_int(&q, 1) != 0, query_int(&q, 2) != 0, (int)query_int(&q, 3)};
  return query_end(&q, e);
}

static enum err insert_revision(struct store_tx *tx, enum store_catalogue kind, const struct store_document *row,
                                int revision, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection,
              "INSERT INTO catalogue_name (kind, name, newest_revision, alias) "
              "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (kind, name) DO UPDATE "
              "SET newest_revision = excluded.newest_revision, alias = excluded.alias");
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, row->name);
  query_bind_int(&q, 3, revision);
  query_bind_text(&q, 4, row->alias);
  result = query_run(&q, e);
  if (result != ERR_OK)
    return result;
  query_begin(&q, tx->connection,
              "INSERT INTO catalogue_revision (kind, name, revision, created_at_ms, is_builtin, "
              "alias, digest, source, document) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, row->name);
  query_bind_int(&q, 3, revision);
  query_bind_int(&q, 4, row->created_at_ms);
  query_bind_int(&q, 5, row->is_builtin ? 1 : 0);
  query_bind_text(&q, 6, row->alias);
  query_bind_text(&q, 7, row->digest);
  query_bind_text(&q, 8, row->source);
  query_bind_text(&q, 9, row->document);
  result = query_run(&q, e);
  tx->touched |= 1u << kind;
  return result;
}

/* A built-in document replaces built-in ones only, and one that was deleted stays so. */
static bool is_change(const struct newest *newest, const struct store_document *row)
{
  if (newest->revision == 0)
    return newest->last_number == 0 || !row->is_builtin;
  return !newest->is_same && (newest->is_builtin || !row->is_builtin);
}

enum err store_document_put(struct store_tx *tx, enum store_catalogue kind, const struct store_document *row,
                            int expected_revision, int *revision, bool *created, bool *changed, struct error *e)
{
  struct newest newest;
  bool changes;
  enum err result = read_newest(&newest, tx, kind, row, e);
  if (result != ERR_OK)
    return result;
  result = check_revision(kind_name(kind), row->name, expected_revision, newest.revision, e);
  if (result != ERR_OK)
    return result;
  changes = is_change(&newest, row);
  if (changes)
    result = insert_revision(tx, kind, row, newest.last_number + 1, e);
  if (revision != NULL)
    *revision = changes ? newest.last_number + 1 : newest.revision;
  if (created != NULL)
    *created = changes && newest.revision == 0;
  if (changed != NULL)
    *changed = changes;
  return result;
}

static enum err run_on_name(struct store_tx *tx, const char *sql, enum store_catalogue kind, const char *name,
                            struct error *e)
{
  struct query q;
  query_begin(&q, tx->connection, sql);
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, name);
  return query_run(&q, e);
}

/* Whether a name has revisions, and whether it is the user's alone. */
static enum err read_owner(bool *is_stored, bool *is_users, struct store_tx *tx, enum store_catalogue kind,
                           const char *name, struct error *e)
{
  struct query q;
  *is_stored = *is_users = false;
  query_begin(&q, tx->connection,
              "SELECT revision = 1 AND NOT is_builtin FROM catalogue_revision WHERE kind = ?1 AND name = ?2 "
              "ORDER BY revision LIMIT 1");
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, name);
  if (query_row(&q)) {
    *is_stored = true;
    *is_users = query_int(&q, 0) != 0;
  }
  return query_end(&q, e);
}

/* Scorecards refer to a stack by name alone: one given in full is stored as its text, which no name looks like. */
static enum err check_stack_is_free(struct store_tx *tx, const char *name, struct error *e)
{
  struct query q;
  bool is_used;
  enum err result;
  query_begin(&q, tx->connection, "SELECT 1 FROM scorecard WHERE stack = ?1 AND stack <> '' LIMIT 1");
  query_bind_text(&q, 1, name);
  is_used = query_row(&q);
  result = query_end(&q, e);
  if (result == ERR_OK && is_used)
    return error_set(e, ERR_CONFLICT, "", "scorecards in the history refer to stack %s", name);
  return result;
}

enum err store_document_delete(struct store_tx *tx, enum store_catalogue kind, const char *name, struct error *e)
{
  bool is_stored, is_users;
  enum err result = read_owner(&is_stored, &is_users, tx, kind, name, e);
  if (result == ERR_OK && !is_stored)
    return error_set(e, ERR_NOT_FOUND, "", "there is no %s %s", kind_name(kind), name);
  if (result == ERR_OK && kind == STORE_STACK)
    result = check_stack_is_free(tx, name, e);
  if (result == ERR_OK)
    result = run_on_name(tx, "DELETE FROM catalogue_revision WHERE kind = ?1 AND name = ?2", kind, name, e);
  if (result == ERR_CONFLICT) /* the foreign keys of scorecard */
    return error_set(e, result, "", "scorecards in the history refer to %s %s", kind_name(kind), name);
  if (result == ERR_OK)
    result = run_on_name(tx,
                         is_users ? "DELETE FROM catalogue_name WHERE kind = ?1 AND name = ?2"
                                  : "UPDATE catalogue_name SET alias = '' WHERE kind = ?1 AND name = ?2",
                         kind, name, e);
  tx->touched |= 1u << kind;
  return result;
}

/* ---- Reading ---- */

static void read_row(void *to, struct query *q)
{
  struct store_document *row = to;
  *row = (struct store_document){
      .name = query_text(q, 0),
      .revision = (int)query_int(q, 1),
      .created_at_ms = query_int(q, 2),
      .is_builtin = query_int(q, 3) != 0,
      .alias = query_text(q, 4),
      .digest = query_text(q, 5),
      .source = query_text(q, 6),
      .document = query_text(q, 7),
  };
}

/* A name beats every alias; among equal aliases a user's document beats a built-in one, then the newer. */
static const char get_where[] =
    "FROM catalogue_revision AS r WHERE r.kind = ?1 AND r.name = coalesce("
    "(SELECT a.name FROM catalogue_revision AS a WHERE a.kind = ?1 AND a.name = ?2 LIMIT 1), "
    "(SELECT n.name FROM catalogue_name AS n JOIN catalogue_revision AS a ON a.kind = n.kind AND a.name = n.name AND "
    "a.revision = n.newest_revision WHERE n.kind = ?1 AND n.alias = ?2 AND n.alias <> '' "
    "ORDER BY a.is_builtin, a.created_at_ms DESC, n.name LIMIT 1)) ";
static const char newest_of_name[] =
    "AND r.revision = (SELECT n.newest_revision FROM catalogue_name AS n WHERE n.kind = r.kind AND n.name = r.name)";

enum err store_document_get(struct store *store, struct store_document *out, enum store_catalogue kind,
                            const char *name, int revision, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  enum err result;
  *out = (struct store_document){0};
  sql_append(&sql, "SELECT %s %s%s", columns, get_where, revision == 0 ? newest_of_name : "AND r.revision = ?3");
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, name);
  if (revision != 0)
    query_bind_int(&q, 3, revision);
  result = read_one(out, &q, store, read_row, e, "there is no %s %s", kind_name(kind), name);
  if (result == ERR_NOT_FOUND && revision != 0)
    result = error_set(e, result, "", "there is no revision %d of a %s %s", revision, kind_name(kind), name);
  if (result != ERR_OK)
    store_document_fini(out);
  return result;
}

static enum err read_page(struct store_documents *out, struct query *q, struct store *store, size_t limit,
                          struct error *e)
{
  const struct rows rows = query_rows(q, limit, sizeof *out->rows, read_row);
  const enum err result = read_end(q, store, e);
  *out = (struct store_documents){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_documents_fini(out);
  return result;
}

enum err store_document_list(struct store *store, struct store_documents *out, enum store_catalogue kind,
                             const struct store_page *page, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  sql_append(&sql,
             "SELECT %s FROM catalogue_name AS n CROSS JOIN catalogue_revision AS r ON r.kind = n.kind AND "
             "r.name = n.name AND r.revision = n.newest_revision WHERE n.kind = ?1 AND n.name > ?2 "
             "ORDER BY n.name LIMIT ?3",
             columns);
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, page->after);
  query_bind_int(&q, 3, (int64_t)page->limit + 1);
  return read_page(out, &q, store, page->limit, e);
}

/* The revision after which the page starts; false: `after` is no number, so there is nothing after it. */
static bool parse_revision(int64_t *out, const struct store_page *page)
{
  char *end = NULL;
  if (page->after[0] == '\0') {
    *out = page->ascending ? 0 : INT64_MAX;
    return true;
  }
  *out = strtoll(page->after, &end, 10);
  return *end == '\0' && *out > 0;
}

enum err store_document_revisions(struct store *store, struct store_documents *out, enum store_catalogue kind,
                                  const char *name, const struct store_page *page, struct error *e)
{
  struct sql_text sql = {.length = 0};
  struct query q;
  int64_t after;
  *out = (struct store_documents){0};
  if (!parse_revision(&after, page))
    return error_set(e, ERR_INVALID, "", "\"%s\" is no revision number", page->after);
  sql_append(&sql,
             "SELECT %s FROM catalogue_revision AS r WHERE r.kind = ?1 AND r.name = ?2 AND r.revision %s ?3 "
             "ORDER BY r.revision %s LIMIT ?4",
             columns, page->ascending ? ">" : "<", page->ascending ? "ASC" : "DESC");
  read_begin(&q, store, sql.text);
  query_bind_text(&q, 1, kind_name(kind));
  query_bind_text(&q, 2, name);
  query_bind_int(&q, 3, after);
  query_bind_int(&q, 4, (int64_t)page->limit + 1);
  return read_page(out, &q, store, page->limit, e);
}
