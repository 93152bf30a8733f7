/* The pool of read-only connections. A read borrows one for the length of one function, so a short wait is all that a
   full pool costs. */
#include <assert.h>
#include <stdlib.h>

#include "storage/store_int.h"

enum err readers_open(struct readers *readers, const char *path, const struct store_options *options, struct error *e)
{
  readers->connections = calloc(options->readers, sizeof *readers->connections);
  if (readers->connections == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for %u read connections", options->readers);
  for (; readers->count < options->readers; readers->count++) {
    struct connection *c = &readers->connections[readers->count];
    enum err result = connection_open(c, path, CONNECTION_READER, options, e);
    if (result != ERR_OK) {
      connection_close(c);
      return result;
    }
    readers_give(readers, c);
  }
  return ERR_OK;
}

void readers_close(struct readers *readers)
{
  for (size_t i = 0; i < readers->count; i++)
    connection_close(&readers->connections[i]);
  free(readers->connections);
}

struct connection *readers_take(struct readers *readers)
{
  struct connection *c;
  pthread_mutex_lock(&readers->mutex);
  while (readers->free == NULL)
    pthread_cond_wait(&readers->is_returned, &readers->mutex);
  c = readers->free;
  readers->free = c->next_free;
  pthread_mutex_unlock(&readers->mutex);
  return c;
}

void readers_give(struct readers *readers, struct connection *c)
{
  assert(sqlite3_get_autocommit(c->db));
  pthread_mutex_lock(&readers->mutex);
  c->next_free = readers->free;
  readers->free = c;
  pthread_cond_signal(&readers->is_returned);
  pthread_mutex_unlock(&readers->mutex);
}

void read_begin(struct query *q, struct store *store, const char *sql)
{
  store_assert(store);
  query_begin(q, readers_take(&store->readers), sql);
}

enum err read_end(struct query *q, struct store *store, struct error *e)
{
  struct connection *c = q->connection;
  const int primary = q->rc & 0xff;
  struct error error = {.code = ERR_OK, .message = ""};
  const enum err result = query_end(q, &error);
  if (result != ERR_OK && e != NULL)
    *e = error;
  /* Damage stays until somebody restores the file, and other pages may read well meanwhile. */
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
    store_note(store, DUTY_READ, &error);
  readers_give(&store->readers, c);
  return result;
}

enum err read_one(void *row, struct query *q, struct store *store, row_read *read, struct error *e, const char *missing,
                  ...)
{
  const bool is_found = query_row(q);
  enum err result;
  if (is_found)
    read(row, q);
  result = read_end(q, store, e);
  if (result == ERR_OK && !is_found) {
    va_list arguments;
    va_start(arguments, missing);
    result = error_setv(e, ERR_NOT_FOUND, "", missing, arguments);
    va_end(arguments);
  }
  return result;
}
