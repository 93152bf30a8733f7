/* Nodes whose exporters are scraped. What is answered about one and what it takes to get in are kept apart, so that no answer
   can hold a secret by accident. */
#include <stdlib.h>

#include "storage/store_int.h"

void store_node_fini(struct store_node *row)
{
  free(row->name);
  free(row->document);
  free(row->secrets);
  *row = (struct store_node){0};
}

void store_nodes_fini(struct store_nodes *list)
{
  for (size_t i = 0; i < list->count; i++)
    store_node_fini(&list->rows[i]);
  free(list->rows);
  *list = (struct store_nodes){0};
}

static enum err newest_revision(int *revision, struct store_tx *tx, const char *name, struct error *e)
{
  struct query q;
  *revision = 0;
  query_begin(&q, tx->connection, "SELECT revision FROM node WHERE name = ?1");
  query_bind_text(&q, 1, name);
  if (query_row(&q))
    *revision = (int)query_int(&q, 0);
  return query_end(&q, e);
}

enum err store_node_put(struct store_tx *tx, const struct store_node *row, int expected_revision, bool *created,
                        struct error *e)
{
  struct query q;
  int revision;
  enum err result = newest_revision(&revision, tx, row->name, e);
  if (result == ERR_OK)
    result = check_revision("node", row->name, expected_revision, revision, e);
  if (result != ERR_OK)
    return result;
  *created = revision == 0;
  query_begin(&q, tx->connection,
              "INSERT INTO node (name, revision, created_at_ms, document, secrets) VALUES (?1, ?2, ?3, ?4, ?5) "
              "ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, document = excluded.document, "
              "secrets = excluded.secrets");
  query_bind_text(&q, 1, row->name);
  query_bind_int(&q, 2, revision + 1);
  query_bind_int(&q, 3, row->created_at_ms);
  query_bind_text(&q, 4, row->document);
  query_bind_text(&q, 5, row->secrets);
  tx->touched |= TOUCHED_NODES;
  return query_run(&q, e);
}

enum err store_node_delete(struct store_tx *tx, const char *name, struct error *e)
{
  struct query q;
  enum err result;
  query_begin(&q, tx->connection, "DELETE FROM node WHERE name = ?1");
  query_bind_text(&q, 1, name);
  result = query_run_on_row(&q, e, "there is no node %s", name);
  tx->touched |= TOUCHED_NODES;
  return result;
}

#define COLUMNS "SELECT name, revision, created_at_ms, document, secrets FROM node "

static void read_row(void *to, struct query *q)
{
  struct store_node *row = to;
  *row = (struct store_node){.name = query_text(q, 0),
                             .revision = (int)query_int(q, 1),
                             .created_at_ms = query_int(q, 2),
                             .document = query_text(q, 3),
                             .secrets = query_text(q, 4)};
}

enum err store_node_get(struct store *store, struct store_node *out, const char *name, struct error *e)
{
  struct query q;
  enum err result;
  *out = (struct store_node){0};
  read_begin(&q, store, COLUMNS "WHERE name = ?1");
  query_bind_text(&q, 1, name);
  result = read_one(out, &q, store, read_row, e, "there is no node %s", name);
  if (result != ERR_OK)
    store_node_fini(out);
  return result;
}

enum err store_node_list(struct store *store, struct store_nodes *out, const struct store_page *page, struct error *e)
{
  struct query q;
  struct rows rows;
  enum err result;
  read_begin(&q, store, COLUMNS "WHERE name > ?1 ORDER BY name LIMIT ?2");
  query_bind_text(&q, 1, page->after);
  query_bind_int(&q, 2, (int64_t)page->limit + 1);
  rows = query_rows(&q, page->limit, sizeof *out->rows, read_row);
  result = read_end(&q, store, e);
  *out = (struct store_nodes){rows.at, rows.count, rows.has_more};
  if (result != ERR_OK)
    store_nodes_fini(out);
  return result;
}

uint64_t store_node_version(const struct store *store)
{
  return atomic_load(&store->versions[TOUCHED_NODES_KIND]);
}
