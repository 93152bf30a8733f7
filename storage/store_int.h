/* What the files of storage/ share: the store object, the writer, the readers, the migrations. Private to storage/ and
   its tests. */
#ifndef FITD_STORAGE_STORE_INT_H
#define FITD_STORAGE_STORE_INT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "storage/recent.h"
#include "storage/sql.h"

#define STORE_MAGIC 0x66697464u         /* in memory; spells "fitd" */
#define STORE_APPLICATION_ID 0x66697464 /* in the file */
#define STORE_READERS_MAX 16
#define STORE_PAGE_BYTES 8192

/* ---- Migrations: build/gen/migrations.c, made by tools/embed-migrations.sh ---- */
struct migration {
  int number; /* 1, 2, … without gaps */
  const char *name;
  const char *sha256;
  const char *sql;
};
extern const struct migration store_migrations[];
extern const size_t store_migration_count;

/* Refuses files that are not ours, newer than `count`, or recorded with other checksums. Writes nothing. */
enum err migrate_inspect(int *version, struct connection *writer, const struct migration *migrations, size_t count,
                         struct error *e) MUST_CHECK;
/* Brings the database from `version` to the last migration; copies an existing older one beside `path` first. */
enum err migrate_run(struct connection *writer, const char *path, int version, const struct migration *migrations,
                     size_t count, struct error *e) MUST_CHECK;

/* ---- Copies ---- */
#define BACKUP_DATE_SIZE 32
/* Now, as it stands in names of copies: 20261130T221500Z. */
enum err backup_date(char date[BACKUP_DATE_SIZE], struct error *e) MUST_CHECK;
/* Writes a new file `to` for its owner alone and waits until it is on disk. It must not exist;
   after an error it does not. */
enum err backup_write(struct connection *c, const char *to, struct error *e) MUST_CHECK;

/* Takes <path>.lock; closing the descriptor releases it. ERR_BUSY: another process holds it. */
enum err store_lock(int *lock_fd, const char *path, struct error *e) MUST_CHECK;

/* ---- The readers: read-only connections, handed out one thread at a time ---- */
struct readers {
  pthread_mutex_t mutex;
  pthread_cond_t is_returned;
  struct connection *free; /* list by next_free */
  struct connection *connections;
  size_t count;
};
enum err readers_open(struct readers *readers, const char *path, const struct store_options *options,
                      struct error *e) MUST_CHECK;
void readers_close(struct readers *readers);
/* Waits for a free one; never NULL. Every take is followed by a give in the same function. */
struct connection *readers_take(struct readers *readers);
void readers_give(struct readers *readers, struct connection *c);

/* ---- The writer: the one thread and the one connection that write and checkpoint ---- */
enum store_duty { DUTY_COMMIT, DUTY_CHECKPOINT, DUTY_READ, DUTY_COUNT };

/* What changed; bits of store_tx.touched. The first are 1 << enum store_catalogue. */
#define TOUCHED_TOKENS_KIND STORE_CATALOGUE_COUNT
#define TOUCHED_TOKENS (1u << TOUCHED_TOKENS_KIND)
#define TOUCHED_NODES_KIND (STORE_CATALOGUE_COUNT + 1)
#define TOUCHED_NODES (1u << TOUCHED_NODES_KIND)
#define TOUCHED_CALIBRATIONS_KIND (STORE_CATALOGUE_COUNT + 2)
#define TOUCHED_CALIBRATIONS (1u << TOUCHED_CALIBRATIONS_KIND)
#define TOUCHED_KINDS (TOUCHED_CALIBRATIONS_KIND + 1)

struct store_tx {
  struct store *store;
  struct connection *connection;
  unsigned touched; /* catalogues and tokens whose version moves once this is committed */
};

struct job {
  const char *name;
  store_work *work;
  void *cls;
  struct store_tx tx;
  enum err result;
  struct error error;
  sem_t is_done;
  struct job *next;
};

struct writer {
  struct connection connection;
  pthread_t thread;
  bool is_running;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t is_wanted;
  struct job *first, **last;
  size_t queued_count, wanted_count; /* jobs queued; how many of them wake the writer */
  bool is_stopping;
  /* The writer thread's own: */
  size_t last_group_count;
  int64_t last_commit_us;
  int wal_pages;     /* in the log and not checkpointed yet, as far as known */
  int wal_pages_max; /* more than this: checkpoint at once */
  int64_t group_us;  /* a group takes no more jobs after this time */
};
/* Starts the thread on store->writer.connection, which is open. */
enum err writer_start(struct store *store, struct error *e) MUST_CHECK;
/* Finishes queued jobs, optimises, checkpoints, joins. */
void writer_stop(struct store *store);

struct store {
  unsigned magic;
  struct store_options options; /* path is ours, resolved */
  char *path;
  int lock_fd;
  dev_t device; /* of the database file when it was opened */
  ino_t inode;
  int schema_version;
  struct writer writer;
  struct readers readers;
  struct recent recent;
  atomic_uint_fast64_t versions[TOUCHED_KINDS]; /* by bit of store_tx.touched */
  pthread_mutex_t health_mutex;
  struct {
    bool is_failing;
    char message[320];
  } health[DUTY_COUNT];
};

void store_assert(const struct store *store);
/* A query on one of the readers, which it holds until read_end. */
void read_begin(struct query *q, struct store *store, const char *sql);
enum err read_end(struct query *q, struct store *store, struct error *e) MUST_CHECK;
/* read_end of a query for one row, which is read into the zeroed `row`. ERR_NOT_FOUND with the sentence `missing` when there
   is none; after any error the caller releases what was read. */
enum err read_one(void *row, struct query *q, struct store *store, row_read *read, struct error *e, const char *missing,
                  ...) PRINTF_LIKE(6, 7) MUST_CHECK;
/* What a PUT meets: ERR_PRECONDITION unless `expected` is negative or the newest revision (0 = not stored). */
enum err check_revision(const char *kind, const char *name, int expected, int newest, struct error *e) MUST_CHECK;
/* error NULL: the duty works. */
void store_note(struct store *store, enum store_duty duty, const struct error *error);
/* Whether a duty of the writer is. */
bool store_is_failing(struct store *store);
/* ERR_UNAVAILABLE when the path does not lead to the file that was opened: what is written to that is lost at the end. */
enum err store_check_file(const struct store *store, struct error *e) MUST_CHECK;

/* ---- History lists ---- */
struct sql_text {
  char text[2048];
  size_t length;
};
void sql_append(struct sql_text *sql, const char *format, ...) PRINTF_LIKE(2, 3);

/* The SQL of a list and its parameters: which table, which columns of the filter it has, how it is paged. */
enum history_table {
  HISTORY_EVALUATION,
  HISTORY_SCORECARD,
  HISTORY_MEASUREMENT,
  HISTORY_CALIBRATION,
  HISTORY_QUALITY,
  HISTORY_TABLES
};
void history_sql(struct sql_text *sql, enum history_table table, const char *columns,
                 const struct store_history_filter *filter, const struct store_page *page);
/* Text of the bounds must live until query_end. */
struct history_bounds {
  char since[16], until[16];
};
void history_bind(struct query *q, struct history_bounds *bounds, enum history_table table,
                  const struct store_history_filter *filter, const struct store_page *page);

/* The first 48 bits of a UUIDv7 are its time in milliseconds: what every id of that time or later sorts behind. */
void history_id_floor(char floor[16], int64_t time_ms);

/* How the rows of one of the tables are read. */
struct history_rows {
  enum history_table table;
  const char *columns; /* of the table as t */
  size_t row_size;
  row_read *read;
};
/* The row of an id, read into a zeroed `row`. ERR_NOT_FOUND; after any error the caller releases what was read. */
enum err history_get(void *row, struct store *store, const struct history_rows *from, const char *id,
                     struct error *e) MUST_CHECK;
/* A page of rows; after an error too the caller releases what was read. */
enum err history_list(struct rows *out, struct store *store, const struct history_rows *from,
                      const struct store_history_filter *filter, const struct store_page *page,
                      struct error *e) MUST_CHECK;

#endif
