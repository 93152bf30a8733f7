/* The store as a whole: the file and its lock, opening and closing in the right order, and whether it is well. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/store_int.h"

/* The journal file keeps at most this much after a checkpoint; larger ones are the mark of one large burst. */
static const char journal_size[] = "PRAGMA journal_size_limit = 67108864;";

void store_assert(const struct store *store)
{
  assert(store != NULL && store->magic == STORE_MAGIC);
}

/* Creates the file for its owner alone (SQLite gives its journal the same mode) and resolves the name, so that two names
   of one file meet at one lock. */
static enum err resolve_path(char **out, const char *path, struct error *e)
{
  /* Never opened when it exists: closing any descriptor of the file would drop SQLite's locks in this process. */
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno != EEXIST)
    return error_set(e, ERR_UNAVAILABLE, "", "the database %s can not be created: %s", path, strerror(errno));
  if (fd >= 0)
    (void)close(fd); /* nothing was written through it */
  *out = realpath(path, NULL);
  if (*out == NULL)
    return error_set(e, ERR_UNAVAILABLE, "", "the database %s can not be found: %s", path, strerror(errno));
  return ERR_OK;
}

enum err store_lock(int *lock_fd, const char *path, struct error *e)
{
  char *name = NULL;
  enum err result = ERR_OK;
  if (asprintf(&name, "%s.lock", path) < 0)
    return error_set(e, ERR_NOMEM, "", "no memory to open the database");
  *lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*lock_fd < 0)
    result = error_set(e, ERR_UNAVAILABLE, "", "the lock file %s can not be opened: %s", name, strerror(errno));
  else if (flock(*lock_fd, LOCK_EX | LOCK_NB) != 0)
    result = errno == EWOULDBLOCK
                 ? error_set(e, ERR_BUSY, "", "another process has the database %s open (it holds %s)", path, name)
                 : error_set(e, ERR_UNAVAILABLE, "", "the lock file %s can not be locked: %s", name, strerror(errno));
  free(name);
  return result;
}

/* Puts the file that is ours, or empty, into the state that everything else relies on. */
static enum err prepare_file(struct connection *writer, struct error *e)
{
  struct query q;
  char *mode = NULL;
  enum err result;
  char page_size[48];
  /* The page size of a file is fixed by its first write, and that is the change of the journal mode. */
  (void)snprintf(page_size, sizeof page_size, "PRAGMA page_size = %d;", STORE_PAGE_BYTES);
  result = sql_execute(writer, page_size, e);
  if (result != ERR_OK)
    return result;
  query_begin(&q, writer, "PRAGMA journal_mode = WAL");
  if (query_row(&q))
    mode = query_text(&q, 0);
  result = query_end(&q, e);
  if (result == ERR_OK && (mode == NULL || strcmp(mode, "wal") != 0))
    result =
        error_set(e, ERR_UNAVAILABLE, "", "the database can not use a write-ahead log here (is it on a local disk?)");
  free(mode);
  if (result == ERR_OK)
    result = sql_execute(writer, journal_size, e);
  if (result == ERR_OK && sqlite3_db_config(writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL) != SQLITE_OK)
    result = error_set(e, ERR_INTERNAL, "", "the database refuses a setting");
  return result;
}

/* Requests that a killed process was running will never finish: their keys may be used again. */
static enum err release_orphans(struct connection *writer, struct error *e)
{
  return sql_execute(writer, "DELETE FROM idempotency_key WHERE status = 0", e);
}

static enum err remember_file(struct store *store, struct error *e)
{
  struct stat seen;
  if (stat(store->path, &seen) != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the database file can not be examined: %s", strerror(errno));
  store->device = seen.st_dev;
  store->inode = seen.st_ino;
  return ERR_OK;
}

enum err store_check_file(const struct store *store, struct error *e)
{
  struct stat seen;
  if (stat(store->path, &seen) != 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the database file is gone from its place: %s", strerror(errno));
  if (seen.st_dev != store->device || seen.st_ino != store->inode)
    return error_set(e, ERR_UNAVAILABLE, "", "another file took the place of the database file");
  return ERR_OK;
}

static enum err open_database(struct store *store, struct error *e)
{
  struct connection *writer = &store->writer.connection;
  int version = 0;
  enum err result = connection_open(writer, store->path, CONNECTION_WRITER, &store->options, e);
  if (result == ERR_OK)
    result = migrate_inspect(&version, writer, store_migrations, store_migration_count, e);
  if (result == ERR_OK)
    result = prepare_file(writer, e);
  if (result == ERR_OK)
    result = migrate_run(writer, store->path, version, store_migrations, store_migration_count, e);
  if (result == ERR_OK)
    result = release_orphans(writer, e);
  if (result == ERR_OK)
    result = remember_file(store, e);
  if (result == ERR_OK)
    result = readers_open(&store->readers, store->path, &store->options, e);
  if (result == ERR_OK)
    result = writer_start(store, e);
  return result;
}

static struct store *store_new(const struct store_options *options)
{
  struct store *store = calloc(1, sizeof *store);
  if (store == NULL)
    return NULL;
  store->magic = STORE_MAGIC;
  store->options = *options;
  store->lock_fd = -1;
  store->schema_version = (int)store_migration_count;
  store->writer.last = &store->writer.first;
  /* Default mutexes and conditions can not fail on this platform; only the clock of a condition could be refused. */
  pthread_mutex_init(&store->health_mutex, NULL);
  pthread_mutex_init(&store->readers.mutex, NULL);
  pthread_cond_init(&store->readers.is_returned, NULL);
  recent_init(&store->recent);
  return store;
}

enum err store_open(struct store **out, const struct store_options *options, struct error *e)
{
  struct store *store;
  enum err result;
  assert(options->path != NULL && options->readers >= 1 && options->readers <= STORE_READERS_MAX);
  *out = NULL;
  store = store_new(options);
  if (store == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory to open the database");
  result = resolve_path(&store->path, options->path, e);
  store->options.path = store->path;
  if (result == ERR_OK)
    result = store_lock(&store->lock_fd, store->path, e);
  if (result == ERR_OK)
    result = open_database(store, e);
  if (result != ERR_OK) {
    store_close(store);
    return result;
  }
  *out = store;
  return ERR_OK;
}

void store_close(struct store *store)
{
  if (store == NULL)
    return;
  store_assert(store);
  writer_stop(store);
  /* The writer last: the last connection to close folds the log into the database, and only the writer may. */
  readers_close(&store->readers);
  connection_close(&store->writer.connection);
  if (store->lock_fd >= 0)
    (void)close(store->lock_fd); /* releases the lock; the file stays, removing it would race with the next opener */
  pthread_cond_destroy(&store->readers.is_returned);
  pthread_mutex_destroy(&store->readers.mutex);
  pthread_mutex_destroy(&store->health_mutex);
  recent_fini(&store->recent);
  free(store->path);
  store->magic = 0;
  free(store);
}

int store_schema_version(const struct store *store)
{
  store_assert(store);
  return store->schema_version;
}

void store_note(struct store *store, enum store_duty duty, const struct error *error)
{
  pthread_mutex_lock(&store->health_mutex);
  store->health[duty].is_failing = error != NULL;
  if (error != NULL)
    memcpy(store->health[duty].message, error->message, sizeof error->message);
  pthread_mutex_unlock(&store->health_mutex);
}

bool store_is_failing(struct store *store)
{
  bool is_failing = false;
  pthread_mutex_lock(&store->health_mutex);
  for (int duty = 0; duty < DUTY_READ; duty++)
    is_failing = is_failing || store->health[duty].is_failing;
  pthread_mutex_unlock(&store->health_mutex);
  return is_failing;
}

enum err store_check(struct store *store, struct error *e)
{
  static const char *const deeds[DUTY_COUNT] = {"the last write failed", "the last checkpoint failed",
                                                "the file was found damaged, restore a backup and start again"};
  struct connection *c;
  int64_t version = 0;
  enum err result;
  store_assert(store);
  result = store_check_file(store, e);
  if (result != ERR_OK)
    return result;
  c = readers_take(&store->readers);
  result = sql_number(&version, c, "SELECT max(version) FROM schema_migration", e);
  readers_give(&store->readers, c);
  if (result != ERR_OK)
    return result;
  if (version != store->schema_version)
    return error_set(e, ERR_UNAVAILABLE, "", "the database has schema version %lld where %d was opened",
                     (long long)version, store->schema_version);
  pthread_mutex_lock(&store->health_mutex);
  for (int duty = 0; duty < DUTY_COUNT && result == ERR_OK; duty++)
    if (store->health[duty].is_failing)
      result = error_set(e, ERR_UNAVAILABLE, "", "%s: %s", deeds[duty], store->health[duty].message);
  pthread_mutex_unlock(&store->health_mutex);
  return result;
}

enum err check_revision(const char *kind, const char *name, int expected, int newest, struct error *e)
{
  if (expected < 0 || expected == newest)
    return ERR_OK;
  if (newest == 0)
    return error_set(e, ERR_PRECONDITION, "", "%s %s is not stored, revision %d was expected", kind, name, expected);
  if (expected == 0)
    return error_set(e, ERR_PRECONDITION, "", "%s %s exists already (revision %d)", kind, name, newest);
  return error_set(e, ERR_PRECONDITION, "", "%s %s is at revision %d, revision %d was expected", kind, name, newest,
                   expected);
}
