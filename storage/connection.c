/* Opening a connection with the settings that make SQLite strict: no trust in the schema, no strings in double quotes,
   foreign keys on, no checkpoint that was not asked for. */
#include <stddef.h>

#include "storage/sql.h"

#define BUSY_TIMEOUT_MS 5000

static const char common_settings[] = "PRAGMA trusted_schema = OFF;"
                                      "PRAGMA cell_size_check = ON;"
                                      "PRAGMA foreign_keys = ON;"
                                      "PRAGMA temp_store = MEMORY;"
                                      "PRAGMA mmap_size = 0;"
                                      "PRAGMA synchronous = FULL;";
/* KiB, by the measurements behind the settings: inserts gain from the writer's, lists from the readers'. */
static const char writer_cache[] = "PRAGMA cache_size = -65536;";
static const char reader_cache[] = "PRAGMA cache_size = -16384;";

static int configure(sqlite3 *db)
{
  /* The writer checkpoints by hand, and a file that turns out not to be ours is left as it was found. */
  static const struct {
    int option, value;
  } switches[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                  {SQLITE_DBCONFIG_DQS_DML, 0},
                  {SQLITE_DBCONFIG_DQS_DDL, 0},
                  {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1}};
  int rc = sqlite3_extended_result_codes(db, 1);
  for (size_t i = 0; rc == SQLITE_OK && i < sizeof switches / sizeof switches[0]; i++)
    rc = sqlite3_db_config(db, switches[i].option, switches[i].value, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
  if (rc == SQLITE_OK)
    rc = sqlite3_wal_autocheckpoint(db, 0);
  return rc;
}

enum err connection_open(struct connection *c, const char *path, enum connection_role role,
                         const struct store_options *options, struct error *e)
{
  const int access = role == CONNECTION_WRITER ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  enum err result;
  int rc;
  *c = (struct connection){.options = options};
  rc = sqlite3_open_v2(path, &c->db, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
  if (rc == SQLITE_OK)
    rc = configure(c->db);
  if (rc != SQLITE_OK)
    return sql_error(c, rc, NULL, e);
  if (role == CONNECTION_WRITER && sqlite3_db_readonly(c->db, "main") == 1)
    return sql_error(c, SQLITE_READONLY, NULL, e);
  result = sql_execute(c, common_settings, e);
  if (result == ERR_OK)
    result = sql_execute(c, role == CONNECTION_WRITER ? writer_cache : reader_cache, e);
  return result;
}

void connection_close(struct connection *c)
{
  int rc;
  for (size_t i = 0; i < c->prepared_count; i++)
    (void)sqlite3_finalize(c->prepared[i].statement); /* repeats errors that were reported when they happened */
  c->prepared_count = 0;
  rc = sqlite3_close(c->db);
  if (rc != SQLITE_OK)
    connection_log(c, "store: closing a connection failed: SQLite %d (%s)", rc, sqlite3_errmsg(c->db));
  c->db = NULL;
}
