/* Copies of the whole database. A copy is made by SQLite inside one read transaction, so it is of one moment, and writers
   are not held up; it is checked and on disk before it has its name. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/store_int.h"

/* All pages in one read transaction. VACUUM INTO would make a smaller file, but SQLite 3.40 fails there on generated columns
   when the connection is read-only. */
static enum err copy_pages(struct connection *from, struct connection *to, struct error *e)
{
  sqlite3_backup *backup = sqlite3_backup_init(to->db, "main", from->db, "main");
  int rc;
  if (backup == NULL)
    return sql_error(to, sqlite3_extended_errcode(to->db), "backup", e);
  (void)sqlite3_backup_step(backup, -1); /* what goes wrong is kept for finish */
  rc = sqlite3_backup_finish(backup);
  if (rc != SQLITE_OK)
    return sql_error(to, rc, "backup", e);
  return sql_execute(to, "PRAGMA journal_mode = DELETE", e); /* one file, without a journal beside it */
}

enum err backup_write(struct connection *c, const char *to, struct error *e)
{
  struct connection copy = {.db = NULL};
  enum err result;
  const int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the copy %s can not be made: %s", to, strerror(errno));
  result = connection_open(&copy, to, CONNECTION_WRITER, c->options, e);
  if (result == ERR_OK)
    result = copy_pages(c, &copy, e);
  if (copy.db != NULL)
    connection_close(&copy);
  if (result == ERR_OK && fsync(fd) != 0)
    result = error_set(e, ERR_UNAVAILABLE, "", "the copy %s can not be written: %s", to, strerror(errno));
  (void)close(fd); /* fsync has reported what could go wrong */
  if (result != ERR_OK)
    (void)unlink(to); /* ours, and not whole */
  return result;
}

/* Makes a new name in a directory last. */
static enum err sync_directory(const char *path, struct error *e)
{
  char *copy = strdup(path);
  enum err result = ERR_OK;
  int fd;
  if (copy == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory to name the copy");
  fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0)
    result = error_set(e, ERR_UNAVAILABLE, "", "the directory of %s can not be written: %s", path, strerror(errno));
  if (fd >= 0)
    (void)close(fd);
  free(copy);
  return result;
}

/* That it is a database of ours, of a version that this binary knows, and whole. */
static enum err check_file(struct connection *c, const char *path, struct error *e)
{
  struct error inner = {.message = ""};
  struct query q;
  char *verdict = NULL;
  int version = 0;
  enum err result = migrate_inspect(&version, c, store_migrations, store_migration_count, &inner);
  if (result == ERR_OK && version == 0)
    result = error_set(&inner, ERR_PRECONDITION, "", "it is empty");
  if (result == ERR_OK) {
    query_begin(&q, c, "PRAGMA quick_check(1)");
    if (query_row(&q))
      verdict = query_text(&q, 0);
    result = query_end(&q, &inner);
    if (result == ERR_OK && (verdict == NULL || strcmp(verdict, "ok") != 0))
      result = error_set(&inner, ERR_UNAVAILABLE, "", "it is damaged: %s", verdict != NULL ? verdict : "no answer");
  }
  free(verdict);
  return result == ERR_OK ? ERR_OK : error_set(e, result, "", "%s: %s", path, inner.message);
}

static enum err open_checked(struct connection *c, const char *path, const struct store_options *options,
                             struct error *e)
{
  enum err result = ERR_OK;
  if (access(path, R_OK) != 0)
    return error_set(e, ERR_NOT_FOUND, "", "%s can not be read: %s", path, strerror(errno));
  result = connection_open(c, path, CONNECTION_READER, options, e);
  return result == ERR_OK ? check_file(c, path, e) : result;
}

/* Writes `to` beside its name first. The source is open; the copy is checked before it gets its name. */
static enum err copy_to(struct connection *from, const char *to, const struct store_options *options, struct error *e)
{
  struct connection copy = {.db = NULL};
  char *partial = NULL;
  enum err result;
  if (access(to, F_OK) == 0)
    return error_set(e, ERR_CONFLICT, "", "%s exists already; nothing is overwritten", to);
  if (asprintf(&partial, "%s.partial", to) < 0)
    return error_set(e, ERR_NOMEM, "", "no memory to name the copy");
  (void)unlink(partial); /* of an attempt that was killed */
  result = backup_write(from, partial, e);
  if (result == ERR_OK)
    result = open_checked(&copy, partial, options, e);
  if (copy.db != NULL)
    connection_close(&copy);
  if (result == ERR_OK && rename(partial, to) != 0)
    result = error_set(e, ERR_UNAVAILABLE, "", "%s can not be named: %s", to, strerror(errno));
  if (result == ERR_OK)
    result = sync_directory(to, e);
  else
    (void)unlink(partial); /* the reason is reported */
  free(partial);
  return result;
}

enum err store_backup(const struct store_options *options, const char *to, struct error *e)
{
  struct connection from = {.db = NULL};
  enum err result = open_checked(&from, options->path, options, e);
  if (result == ERR_OK)
    result = copy_to(&from, to, options, e);
  if (from.db != NULL)
    connection_close(&from);
  return result;
}

/* The file and its journal; what is not there is fine. */
static enum err move_aside(const char *database, const char *aside, struct error *e)
{
  static const char *const parts[] = {"", "-wal", "-shm"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    char from[4096], to[4096];
    const int a = snprintf(from, sizeof from, "%s%s", database, parts[i]);
    const int b = snprintf(to, sizeof to, "%s%s", aside, parts[i]);
    if (a < 0 || b < 0 || (size_t)a >= sizeof from || (size_t)b >= sizeof to)
      return error_set(e, ERR_LIMIT, "", "the path of the database is too long: %.200s", database);
    if (rename(from, to) != 0 && errno != ENOENT)
      return error_set(e, ERR_UNAVAILABLE, "", "%s can not be moved aside: %s", from, strerror(errno));
  }
  return ERR_OK;
}

enum err store_restore(char **aside, const char *from, const struct store_options *options, struct error *e)
{
  struct connection source = {.db = NULL};
  char date[BACKUP_DATE_SIZE];
  int lock_fd = -1;
  enum err result = open_checked(&source, from, options, e);
  *aside = NULL;
  if (result == ERR_OK)
    result = store_lock(&lock_fd, options->path, e);
  if (result == ERR_OK)
    result = backup_date(date, e);
  if (result == ERR_OK && access(options->path, F_OK) == 0) {
    if (asprintf(aside, "%s.before-restore-%s", options->path, date) < 0) {
      *aside = NULL;
      result = error_set(e, ERR_NOMEM, "", "no memory to name the old database");
    } else {
      result = move_aside(options->path, *aside, e);
    }
  }
  if (result == ERR_OK)
    result = copy_to(&source, options->path, options, e);
  if (source.db != NULL)
    connection_close(&source);
  if (lock_fd >= 0)
    (void)close(lock_fd); /* releases the lock */
  return result;
}
