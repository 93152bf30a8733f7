/* History at size: a database of a million scorecards, read by 8 clients through the daemon and written through the one
   writer while 8 readers run, each beside a bare SQLite loop that does the same. Exit 1 when a stated goal is missed.
   bench_history [--cards N] [--seconds S] [--database FILE]: FILE is kept and used again; else a scratch file is removed. */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/history_rows.h"

#define CLIENTS 8
#define WRITERS 16
#define FILL_EVALUATIONS 8 /* a job; SQLite's time for a savepoint grows with the square of its pages */
#define SAMPLES_MAX 400000
#define YEAR_MS INT64_C(31536000000)

#define GOAL_P99_MS 20.0
#define GOAL_ROWS_PER_S 2000.0

static char path[512];
static unsigned cards = 1000000;
static double seconds = 10;
static bool is_missed;
static struct store *store;
static atomic_uint next_evaluation, rows_written, pages_read;

static double now_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct store *open_store(void)
{
  const struct store_options options = {.path = path, .readers = CLIENTS};
  struct store *opened;
  struct error e = {.code = ERR_OK, .message = ""};
  if (store_open(&opened, &options, &e) != ERR_OK)
    fail(path, e.message);
  return opened;
}

static int64_t count_rows(const char *sql)
{
  sqlite3 *db;
  sqlite3_stmt *statement;
  int64_t count = -1;
  if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
      sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK) {
    if (sqlite3_step(statement) == SQLITE_ROW)
      count = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
  }
  (void)sqlite3_close(db);
  return count;
}

static void *fill_main(void *cls)
{
  const unsigned evaluations = cards / PROFILES;
  (void)cls;
  for (;;) {
    const unsigned i = atomic_fetch_add(&next_evaluation, FILL_EVALUATIONS);
    struct range range = {i, evaluations - i < FILL_EVALUATIONS ? evaluations - i : FILL_EVALUATIONS};
    struct error e = {.code = ERR_OK, .message = ""};
    if (i >= evaluations)
      return NULL;
    if (store_write(store, "fill", insert_range, &range, &e) != ERR_OK)
      fail("fill", e.message);
  }
}

/* The catalogue first, which api_open brings in; then what is missing of the history. */
static void fill(void)
{
  static struct deps deps;
  struct api_deps api_deps;
  struct api *api;
  struct error e = {.code = ERR_OK, .message = ""};
  const unsigned evaluations = cards / PROFILES;
  const double start = now_s();
  pthread_t threads[WRITERS];
  unsigned stored;
  deps.store = open_store();
  deps_fill(&api_deps, &deps, (size_t)64 << 20);
  if (api_open(&api, &api_deps, &e) != ERR_OK)
    fail("catalogue", e.message);
  api_close(api);
  stored = (unsigned)count_rows("SELECT count(*) FROM evaluation");
  begin_ms = stored > 0 ? count_rows("SELECT created_at_ms FROM evaluation ORDER BY id LIMIT 1") : unix_ms() - YEAR_MS;
  step_ms = YEAR_MS / evaluations;
  store = deps.store;
  atomic_store(&next_evaluation, stored);
  for (unsigned i = 0; i < WRITERS; i++)
    if (pthread_create(&threads[i], NULL, fill_main, NULL) != 0)
      fail("thread", strerror(errno));
  for (unsigned i = 0; i < WRITERS; i++)
    (void)pthread_join(threads[i], NULL);
  if (stored < evaluations)
    printf("filled %u scorecards in %.0f s\n", (evaluations - stored) * PROFILES, now_s() - start);
  store_close(deps.store);
}

/* ---- Latencies ---- */

enum question { LIST, SERIES, COMPARE, QUESTIONS };
static const char *const question_names[QUESTIONS] = {"filtered list page (20)", "series over a year by day",
                                                      "compare of two scorecards"};

struct client {
  pthread_t thread;
  unsigned seed, port;
  enum question question;
  double *samples_ms;
  size_t count;
  sqlite3 *db;
};
static atomic_bool is_over;

static unsigned random_below(struct client *client, unsigned limit)
{
  return (unsigned)rand_r(&client->seed) % limit;
}

static void question_path(char to[300], struct client *client)
{
  const unsigned evaluations = cards / PROFILES, i = random_below(client, evaluations);
  char workload[16], a[37], b[37];
  workload_of(workload, i);
  if (client->question == LIST)
    (void)snprintf(to, 300, "/v1/scorecards?workload=%s&profile=%s&limit=20", workload,
                   profiles[random_below(client, PROFILES)]);
  else if (client->question == SERIES)
    (void)snprintf(to, 300, "/v1/series?workload=%s&profile=%s&metric=cost.monthly_usd&bucket=1d", workload,
                   profiles[random_below(client, PROFILES)]);
  else {
    const unsigned j = i % WORKLOADS + WORKLOADS * random_below(client, evaluations / WORKLOADS);
    const unsigned place = 1 + random_below(client, PROFILES);
    make_id(a, time_of(i), i, place);
    make_id(b, time_of(j), j, place);
    (void)snprintf(to, 300, "/v1/scorecards/%s/compare/%s", a, b);
  }
}

static size_t drop(char *bytes, size_t size, size_t count, void *cls)
{
  (void)bytes;
  *(size_t *)cls += size * count;
  return size * count;
}

static void ask_http(CURL *curl, struct client *client)
{
  char target[300], url[400];
  size_t bytes = 0;
  long status = 0;
  question_path(target, client);
  (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", client->port, target);
  if (curl_easy_setopt(curl, CURLOPT_URL, url) != CURLE_OK ||
      curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop) != CURLE_OK ||
      curl_easy_setopt(curl, CURLOPT_WRITEDATA, &bytes) != CURLE_OK || curl_easy_perform(curl) != CURLE_OK ||
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200 || bytes < 100)
    fail("request", url);
}

static void run_sql(sqlite3 *db, const char *sql, const char *a, const char *b)
{
  sqlite3_stmt *statement;
  int rc;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
    fail("SQL", sqlite3_errmsg(db));
  (void)sqlite3_bind_text(statement, 1, a, -1, SQLITE_STATIC);
  (void)sqlite3_bind_text(statement, 2, b, -1, SQLITE_STATIC);
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
    for (int i = 0; i < sqlite3_column_count(statement); i++)
      (void)sqlite3_column_text(statement, i);
  (void)sqlite3_finalize(statement);
}

/* The same rows by the shortest SQL: a page, the sums of 365 days, two documents. */
static void ask_sqlite(struct client *client)
{
  char workload[16];
  const unsigned i = random_below(client, cards / PROFILES);
  char a[37], b[37];
  workload_of(workload, i);
  make_id(a, time_of(i), i, 1);
  make_id(b, time_of(i), i, 2);
  if (client->question == LIST)
    run_sql(client->db, "SELECT document FROM scorecard WHERE workload = ?1 AND profile = ?2 ORDER BY id DESC LIMIT 20",
            workload, profiles[random_below(client, PROFILES)]);
  else if (client->question == SERIES)
    run_sql(client->db,
            "SELECT day, monthly_usd_count, monthly_usd_sum, monthly_usd_min, monthly_usd_max FROM scorecard_day "
            "WHERE workload = ?1 AND profile = ?2 ORDER BY day",
            workload, profiles[random_below(client, PROFILES)]);
  else
    run_sql(client->db,
            "SELECT c.document, e.sketch FROM scorecard AS c JOIN evaluation AS e ON e.id = c.evaluation "
            "WHERE c.id IN (?1, ?2)",
            a, b);
}

static void *client_main(void *cls)
{
  struct client *client = cls;
  CURL *curl = curl_easy_init();
  while (!atomic_load(&is_over) && client->count < SAMPLES_MAX / CLIENTS) {
    const double start = now_s();
    if (client->db != NULL)
      ask_sqlite(client);
    else
      ask_http(curl, client);
    client->samples_ms[client->count++] = (now_s() - start) * 1e3;
  }
  curl_easy_cleanup(curl);
  return NULL;
}

static int by_value(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct outcome {
  double p50_ms, p99_ms, per_s;
};

static struct outcome ask_all(enum question question, unsigned port)
{
  static double samples[SAMPLES_MAX];
  struct client clients[CLIENTS];
  const double start = now_s();
  double took;
  size_t count = 0;
  atomic_store(&is_over, false);
  for (unsigned i = 0; i < CLIENTS; i++) {
    clients[i] = (struct client){
        .seed = i + 1, .port = port, .question = question, .samples_ms = samples + i * (SAMPLES_MAX / CLIENTS)};
    if (port == 0 &&
        sqlite3_open_v2(path, &clients[i].db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
      fail("SQLite", path);
    if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
      fail("thread", strerror(errno));
  }
  while (now_s() < start + seconds)
    (void)usleep(20000);
  atomic_store(&is_over, true);
  for (unsigned i = 0; i < CLIENTS; i++) {
    (void)pthread_join(clients[i].thread, NULL);
    (void)sqlite3_close(clients[i].db);
    memmove(samples + count, clients[i].samples_ms, clients[i].count * sizeof *samples);
    count += clients[i].count;
  }
  took = now_s() - start;
  qsort(samples, count, sizeof *samples, by_value);
  return (struct outcome){samples[count / 2], samples[count * 99 / 100], (double)count / took};
}

static pid_t start_daemon(unsigned *port, const char *binary)
{
  int out[2];
  char line[256], *colon;
  FILE *from;
  pid_t pid;
  if (pipe(out) != 0 || (pid = fork()) < 0)
    fail("daemon", strerror(errno));
  if (pid == 0) {
    (void)dup2(out[1], 1);
    (void)execl(binary, binary, "--listen", "127.0.0.1:0", "--database", path, "--access-log", "false", (char *)NULL);
    _exit(127);
  }
  (void)close(out[1]);
  from = fdopen(out[0], "r");
  if (from == NULL || fgets(line, sizeof line, from) == NULL || (colon = strrchr(line, ':')) == NULL)
    fail("daemon", "does not start");
  *port = (unsigned)strtoul(colon + 1, NULL, 10);
  return pid;
}

static void read_phase(const char *binary)
{
  unsigned port;
  const pid_t pid = start_daemon(&port, binary);
  for (int question = 0; question < QUESTIONS; question++) {
    const struct outcome warm = ask_all((enum question)question, port), http = ask_all((enum question)question, port);
    const struct outcome bare = ask_all((enum question)question, 0);
    const bool is_good = http.p99_ms <= GOAL_P99_MS;
    (void)warm;
    printf("%-28s %d clients: p50 %6.2f ms, p99 %6.2f ms, %7.0f /s   (goal p99 <= %.0f ms: %s)\n",
           question_names[question], CLIENTS, http.p50_ms, http.p99_ms, http.per_s, GOAL_P99_MS,
           is_good ? "yes" : "NO");
    printf("%-28s bare SQLite: p50 %4.2f ms, p99 %6.2f ms, %7.0f /s\n", "", bare.p50_ms, bare.p99_ms, bare.per_s);
    (void)fflush(stdout);
    is_missed = is_missed || !is_good;
  }
  (void)kill(pid, SIGTERM);
  (void)waitpid(pid, NULL, 0);
}

/* ---- Writing ---- */

static enum err insert_now(struct store_tx *tx, void *cls, struct error *e)
{
  const unsigned i = *(const unsigned *)cls;
  return insert_evaluation(tx, i, unix_ms(), e);
}

static void *writer_main(void *cls)
{
  (void)cls;
  while (!atomic_load(&is_over)) {
    unsigned i = atomic_fetch_add(&next_evaluation, 1);
    struct error e = {.code = ERR_OK, .message = ""};
    if (store_write(store, "evaluation", insert_now, &i, &e) != ERR_OK)
      fail("write", e.message);
    (void)atomic_fetch_add(&rows_written, PROFILES);
  }
  return NULL;
}

static void *reader_main(void *cls)
{
  struct client client = {.seed = (unsigned)(uintptr_t)cls};
  const struct store_page page = {.limit = 20};
  while (!atomic_load(&is_over)) {
    struct store_scorecards list;
    struct error e = {.code = ERR_OK, .message = ""};
    char workload[16];
    const struct store_history_filter filter = {.workload = workload,
                                                .profile = profiles[random_below(&client, PROFILES)]};
    workload_of(workload, random_below(&client, WORKLOADS));
    if (store_scorecard_list(store, &list, &filter, &page, &e) != ERR_OK)
      fail("read", e.message);
    store_scorecards_fini(&list);
    (void)atomic_fetch_add(&pages_read, 1);
    (void)usleep(2000); /* clients that look, not ones that take all cores */
  }
  return NULL;
}

static double run_threads(void *(*writer)(void *), unsigned writers, bool has_readers)
{
  pthread_t threads[WRITERS + CLIENTS];
  unsigned count = 0;
  double start;
  atomic_store(&is_over, false);
  atomic_store(&rows_written, 0);
  atomic_store(&pages_read, 0);
  for (unsigned i = 0; has_readers && i < CLIENTS; i++)
    if (pthread_create(&threads[count++], NULL, reader_main, (void *)(uintptr_t)(i + 1)) != 0)
      fail("thread", strerror(errno));
  for (unsigned i = 0; i < writers; i++)
    if (pthread_create(&threads[count++], NULL, writer, NULL) != 0)
      fail("thread", strerror(errno));
  start = now_s();
  while (now_s() < start + seconds)
    (void)usleep(20000);
  atomic_store(&is_over, true);
  for (unsigned i = 0; i < count; i++)
    (void)pthread_join(threads[i], NULL);
  return atomic_load(&rows_written) / (now_s() - start);
}

/* One connection that commits as many rows at once as the writer's groups have, with the same settings. */
static void *bare_main(void *cls)
{
  static const char insert[] =
      "INSERT INTO scorecard (id, evaluation, ordinal, created_at_ms, workload, model, model_revision, profile, "
      "profile_revision, verdict, label, stack, context_ref, sketch_digest, core_version, monthly_usd, document) "
      "SELECT ?1, ?2, ?3, ?4, workload, model, model_revision, profile, profile_revision, verdict, label, stack, "
      "context_ref, sketch_digest, core_version, monthly_usd, document FROM scorecard WHERE id = ?5";
  sqlite3 *db;
  sqlite3_stmt *card, *evaluation;
  char id[37], card_id[37], template_id[37];
  (void)cls;
  if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
      sqlite3_exec(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536", NULL, NULL,
                   NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db, insert, -1, &card, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db,
                         "INSERT INTO evaluation (id, created_at_ms, workload, model, label, core_version, "
                         "sketch_digest, sketch, document) VALUES (?1, ?2, 'bare', 'm', '', '0', '', ?3, '{}')",
                         -1, &evaluation, NULL) != SQLITE_OK)
    fail("bare SQLite", sqlite3_errmsg(db));
  while (!atomic_load(&is_over)) {
    (void)sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (unsigned k = 0; k < WRITERS; k++) {
      const unsigned i = atomic_fetch_add(&next_evaluation, 1);
      const int64_t time_ms = unix_ms();
      make_id(id, time_ms, i, 0);
      (void)sqlite3_bind_text(evaluation, 1, id, -1, SQLITE_STATIC);
      (void)sqlite3_bind_int64(evaluation, 2, time_ms);
      (void)sqlite3_bind_text(evaluation, 3, sketch, -1, SQLITE_STATIC);
      if (sqlite3_step(evaluation) != SQLITE_DONE)
        fail("bare SQLite", sqlite3_errmsg(db));
      (void)sqlite3_reset(evaluation);
      for (unsigned p = 0; p < PROFILES; p++) {
        make_id(card_id, time_ms, i, p + 1);
        make_id(template_id, time_of(k), k, p + 1);
        (void)sqlite3_bind_text(card, 1, card_id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(card, 2, id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(card, 3, p);
        (void)sqlite3_bind_int64(card, 4, time_ms);
        (void)sqlite3_bind_text(card, 5, template_id, -1, SQLITE_STATIC);
        if (sqlite3_step(card) != SQLITE_DONE)
          fail("bare SQLite", sqlite3_errmsg(db));
        (void)sqlite3_reset(card);
      }
    }
    if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
      fail("bare SQLite", sqlite3_errmsg(db));
    (void)atomic_fetch_add(&rows_written, WRITERS * PROFILES);
  }
  (void)sqlite3_finalize(card);
  (void)sqlite3_finalize(evaluation);
  (void)sqlite3_close(db);
  return NULL;
}

static void write_phase(void)
{
  double rate, bare;
  atomic_store(&next_evaluation, cards / PROFILES);
  store = open_store();
  rate = run_threads(writer_main, WRITERS, true);
  printf("scorecard rows through the one writer, synchronous=FULL, %d readers beside it (%.0f pages/s): %.0f rows/s   "
         "(goal >= %.0f: %s)\n",
         CLIENTS, atomic_load(&pages_read) / seconds, rate, GOAL_ROWS_PER_S, rate >= GOAL_ROWS_PER_S ? "yes" : "NO");
  store_close(store);
  bare = run_threads(bare_main, 1, false);
  printf("bare SQLite loop, %d evaluations a COMMIT, nobody else: %.0f rows/s\n", WRITERS, bare);
  is_missed = is_missed || rate < GOAL_ROWS_PER_S;
}

/* What this run wrote goes again, so that the next finds a million. */
static void remove_new_rows(void)
{
  sqlite3 *db;
  char sql[400], last[37];
  make_id(last, time_of(cards / PROFILES), 0, 0);
  (void)snprintf(sql, sizeof sql,
                 "DELETE FROM scorecard WHERE id >= '%s'; DELETE FROM evaluation WHERE id >= '%s'; "
                 "PRAGMA wal_checkpoint(TRUNCATE)",
                 last, last);
  if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
    fail("removing rows", sqlite3_errmsg(db));
  (void)sqlite3_close(db);
}

int main(int argc, char **argv)
{
  static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
  char binary[600], *slash;
  bool is_kept = false;
  (void)snprintf(path, sizeof path, "/tmp/fitd-bench-history-%ld.db", (long)getpid());
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--cards") == 0)
      cards = (unsigned)strtoul(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--seconds") == 0)
      seconds = strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--database") == 0)
      is_kept = snprintf(path, sizeof path, "%s", argv[i + 1]) > 0;
    else
      fail("unknown option", argv[i]);
  }
  (void)snprintf(binary, sizeof binary, "%s", argv[0]);
  slash = strstr(binary, "/tests/bench/");
  if (slash == NULL)
    fail("binary", "is not in a build directory");
  (void)snprintf(slash, sizeof binary - (size_t)(slash - binary), "/fitd");
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    fail("curl", "can not be set up");
  make_documents();
  fill();
  printf("%u scorecards of about %zu bytes, %d workloads, %d profiles, a year\n", cards, strlen(documents[0]),
         WORKLOADS, PROFILES);
  (void)fflush(stdout);
  read_phase(binary);
  write_phase();
  if (is_kept)
    remove_new_rows();
  for (size_t i = 0; !is_kept && i < sizeof suffixes / sizeof suffixes[0]; i++) {
    char file[600];
    (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
    (void)unlink(file);
  }
  return is_missed ? 1 : 0;
}
