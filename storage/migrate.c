/* Brings a database to the schema of this binary: forward only, one transaction per file, every applied file known by
   its checksum. The rules for the files are in migrations/README.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storage/store_int.h"

/* Every recorded migration must be the one this binary has, in order and without gaps. */
static enum err check_history(struct connection *c, int version, const struct migration *migrations, struct error *e)
{
  struct query q;
  struct error fault = {0};
  int seen = 0;
  enum err result;
  query_begin(&q, c, "SELECT version, sha256 FROM schema_migration ORDER BY version");
  while (fault.code == ERR_OK && query_row(&q)) {
    const int64_t number = query_int(&q, 0);
    char *sha256 = query_text(&q, 1);
    if (sha256 == NULL)
      break;
    if (seen == version || number != seen + 1)
      error_set(&fault, ERR_PRECONDITION, "", "the database says schema version %d but records migration %lld", version,
                (long long)number);
    else if (strcmp(sha256, migrations[seen].sha256) != 0)
      error_set(&fault, ERR_PRECONDITION, "",
                "migration %s was changed after it was applied here: recorded SHA-256 %.12s…, this binary has %.12s…",
                migrations[seen].name, sha256, migrations[seen].sha256);
    free(sha256);
    seen++;
  }
  result = query_end(&q, e);
  if (result == ERR_OK && fault.code != ERR_OK)
    return error_set(e, fault.code, "", "%s", fault.message);
  if (result == ERR_OK && seen != version)
    return error_set(e, ERR_PRECONDITION, "", "the database says schema version %d but records only %d migrations",
                     version, seen);
  return result;
}

enum err migrate_inspect(int *version, struct connection *writer, const struct migration *migrations, size_t count,
                         struct error *e)
{
  int64_t application = 0, tables = 0, number = 0;
  enum err result = sql_number(&application, writer, "PRAGMA application_id", e);
  if (result == ERR_OK)
    result = sql_number(&number, writer, "PRAGMA user_version", e);
  if (result == ERR_OK)
    result = sql_number(&tables, writer, "SELECT count(*) FROM sqlite_schema", e);
  if (result != ERR_OK)
    return result;
  *version = 0;
  if (application != STORE_APPLICATION_ID) {
    if (tables == 0 && application == 0 && number == 0)
      return ERR_OK;
    return error_set(
        e, ERR_PRECONDITION, "",
        "the file is a database of another program (application_id 0x%08x, ours is 0x%08x): it is left alone",
        (unsigned)application, (unsigned)STORE_APPLICATION_ID);
  }
  if (number < 0 || number > (int64_t)count)
    return error_set(e, ERR_PRECONDITION, "",
                     "the database has schema version %lld, this binary knows versions up to %zu: use a newer fitd",
                     (long long)number, count);
  *version = (int)number;
  return number == 0 ? ERR_OK : check_history(writer, *version, migrations, e);
}

static int64_t clock_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now); /* can not fail for this clock */
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum err check_references(struct connection *c, struct error *e)
{
  struct query q;
  bool is_broken;
  enum err result;
  query_begin(&q, c, "PRAGMA foreign_key_check");
  is_broken = query_row(&q);
  result = query_end(&q, e);
  if (result == ERR_OK && is_broken)
    return error_set(e, ERR_INTERNAL, "", "rows refer to rows that are not there");
  return result;
}

static enum err record(struct connection *c, const struct migration *m, struct error *e)
{
  struct query q;
  char sql[96];
  enum err result;
  query_begin(&q, c, "INSERT INTO schema_migration (version, name, sha256, applied_at_ms) VALUES (?1, ?2, ?3, ?4)");
  query_bind_int(&q, 1, m->number);
  query_bind_text(&q, 2, m->name);
  query_bind_text(&q, 3, m->sha256);
  query_bind_int(&q, 4, clock_ms());
  result = query_run(&q, e);
  if (result != ERR_OK)
    return result;
  (void)snprintf(sql, sizeof sql, "PRAGMA user_version = %d; PRAGMA application_id = %d;", m->number,
                 STORE_APPLICATION_ID);
  return sql_execute(c, sql, e);
}

static enum err apply_in_transaction(struct connection *c, const struct migration *m, struct error *e)
{
  int64_t version = -1;
  enum err result = sql_number(&version, c, "PRAGMA user_version", e);
  if (result == ERR_OK && version != m->number - 1)
    result = error_set(e, ERR_PRECONDITION, "", "the schema version moved to %lld meanwhile", (long long)version);
  if (result == ERR_OK)
    result = sql_execute(c, m->sql, e);
  if (result == ERR_OK && sqlite3_get_autocommit(c->db))
    result = error_set(e, ERR_INTERNAL, "", "the file ends its own transaction");
  if (result == ERR_OK)
    result = check_references(c, e);
  if (result == ERR_OK)
    result = record(c, m, e);
  return result;
}

static enum err apply(struct connection *c, const struct migration *m, struct error *e)
{
  struct error inner = {0};
  enum err result = sql_execute(c, "BEGIN IMMEDIATE", &inner);
  if (result == ERR_OK)
    result = apply_in_transaction(c, m, &inner);
  if (result == ERR_OK)
    result = sql_execute(c, "COMMIT", &inner);
  if (result == ERR_OK)
    return ERR_OK;
  if (!sqlite3_get_autocommit(c->db) && sql_execute(c, "ROLLBACK", NULL) != ERR_OK)
    connection_log(c, "store: the rollback of migration %s failed too", m->name);
  return error_set(e, result, "", "migration %s failed, nothing of it was kept: %s", m->name, inner.message);
}

enum err backup_date(char date[BACKUP_DATE_SIZE], struct error *e)
{
  const time_t now = (time_t)(clock_ms() / 1000);
  struct tm utc;
  if (gmtime_r(&now, &utc) == NULL || strftime(date, BACKUP_DATE_SIZE, "%Y%m%dT%H%M%SZ", &utc) == 0)
    return error_set(e, ERR_INTERNAL, "", "the clock of this machine is out of range");
  return ERR_OK;
}

/* Copies the database to a new file beside it. *out is the name of the copy, malloc'ed; NULL when none was begun. */
static enum err copy_beside(char **out, struct connection *c, const char *path, int version, struct error *e)
{
  char date[BACKUP_DATE_SIZE];
  enum err result = backup_date(date, e);
  *out = NULL;
  if (result != ERR_OK)
    return result;
  if (asprintf(out, "%s.v%d-%s.bak", path, version, date) < 0) {
    *out = NULL;
    return error_set(e, ERR_NOMEM, "", "no memory to copy the database");
  }
  result = backup_write(c, *out, e);
  if (result != ERR_OK) {
    free(*out);
    *out = NULL;
  }
  return result;
}

enum err migrate_run(struct connection *writer, const char *path, int version, const struct migration *migrations,
                     size_t count, struct error *e)
{
  const size_t first = (size_t)version;
  size_t next = first;
  char *copy = NULL;
  enum err result = ERR_OK;
  if (first == count)
    return ERR_OK;
  if (version > 0)
    result = copy_beside(&copy, writer, path, version, e);
  /* Tables that others refer to can be rebuilt only with this off, and it can not be changed inside a transaction;
     check_references makes up for it. */
  if (result == ERR_OK)
    result = sql_execute(writer, "PRAGMA foreign_keys = OFF", e);
  for (; next < count && result == ERR_OK; next += result == ERR_OK ? 1 : 0)
    result = apply(writer, &migrations[next], e);
  if (result == ERR_OK)
    result = sql_execute(writer, "PRAGMA foreign_keys = ON", e);
  if (next == first && copy != NULL)
    (void)unlink(copy); /* nothing changed, and restarts must not pile up copies */
  free(copy);
  return result;
}
