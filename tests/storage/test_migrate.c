/* Migrations: files that are not ours or not known are refused, new ones happen as a whole after a copy was made, and
   the schema is the one that was reviewed. */
#include <dirent.h>
#include <nettle/sha2.h>
#include <sys/stat.h>

#include "tests/storage/fixture.h"

static void check_refused(enum err expected, const char *words)
{
  store_close(store);
  store = NULL;
  ck_assert_err(open_again(&store), expected);
  ck_assert_ptr_null(store);
  ck_assert_says(words);
}

START_TEST(test_fresh)
{
  ck_assert_int_eq(store_schema_version(store), (int)store_migration_count);
  ck_assert_int_eq(raw_number("PRAGMA user_version"), (int64_t)store_migration_count);
  ck_assert_int_eq(raw_number("PRAGMA application_id"), 0x66697464);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM schema_migration"), (int64_t)store_migration_count);
  ck_assert_int_eq(raw_number("SELECT min(applied_at_ms) > 1790000000000 FROM schema_migration"), 1);
}
END_TEST

/* What is embedded is the file in the repository, and its digest is what nettle makes of it. */
START_TEST(test_embedded_is_the_file)
{
  for (size_t m = 0; m < store_migration_count; m++) {
    const char *file = suite_source_path(scratch_printf("migrations/%s", store_migrations[m].name));
    const char *sql = scratch_read_file(file);
    uint8_t digest[SHA256_DIGEST_SIZE];
    char hex[2 * SHA256_DIGEST_SIZE + 1];
    struct sha256_ctx sha256;
    sha256_init(&sha256);
    sha256_update(&sha256, strlen(sql), (const uint8_t *)sql);
    sha256_digest(&sha256, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++)
      (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    ck_assert_str_eq(store_migrations[m].sql, sql);
    ck_assert_str_eq(store_migrations[m].sha256, hex);
  }
}
END_TEST

/* The digests of released files, by sha256sum(1) when they were released: databases in the field have recorded them. */
START_TEST(test_released_files_stand)
{
  static const char *const released[] = {"07361f9f75100efb3f23c496d852c08c5f9528e0ecb6aa91de405fb3073ec80d"};
  for (size_t m = 0; m < sizeof released / sizeof released[0]; m++)
    ck_assert_str_eq(store_migrations[m].sha256, released[m]);
}
END_TEST

START_TEST(test_newer_is_refused)
{
  raw_execute("PRAGMA user_version = 99");
  check_refused(ERR_PRECONDITION,
                scratch_printf("schema version 99, this binary knows versions up to %zu", store_migration_count));
}
END_TEST

START_TEST(test_changed_migration_is_refused)
{
  raw_execute("UPDATE schema_migration SET sha256 = replace(sha256, substr(sha256, 1, 4), 'beef') WHERE version = 1");
  check_refused(ERR_PRECONDITION, "was changed after it was applied here: recorded SHA-256 beef");
}
END_TEST

START_TEST(test_unrecorded_migration_is_refused)
{
  raw_execute("DELETE FROM schema_migration");
  check_refused(ERR_PRECONDITION, scratch_printf("schema version %zu but records only 0", store_migration_count));
}
END_TEST

START_TEST(test_surplus_record_is_refused)
{
  raw_execute(scratch_printf("INSERT INTO schema_migration VALUES (%zu, 'x', printf('%%064d', 0), 1)",
                             store_migration_count + 1));
  check_refused(ERR_PRECONDITION, scratch_printf("schema version %zu but records migration %zu", store_migration_count,
                                                 store_migration_count + 1));
}
END_TEST

START_TEST(test_foreign_files_are_refused)
{
  raw_execute("CREATE TABLE theirs (x)");
  ck_assert_err(open_again(&store), ERR_PRECONDITION);
  ck_assert_says("another program");
  raw_execute("DROP TABLE theirs; PRAGMA application_id = 1234");
  ck_assert_err(open_again(&store), ERR_PRECONDITION);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM sqlite_schema"), 0);
  ck_assert_int_eq(raw_number("PRAGMA application_id"), 1234);
  raw_execute("PRAGMA journal_mode = DELETE"); /* would fail were it still open somewhere */
}
END_TEST

static void write_file(const char *content)
{
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_ge(fputs(content, file), 0);
  ck_assert_int_eq(fclose(file), 0);
}

START_TEST(test_other_files_are_refused_and_kept)
{
  char *letter = text("Dear diary, this is no database at all, but it is long enough to have a first page.");
  for (int i = 0; i < 4; i++)
    letter = scratch_printf("%s%s", letter, letter);
  write_file(letter);
  ck_assert_err(open_again(&store), ERR_UNAVAILABLE);
  ck_assert_says("not a database");
  ck_assert_str_eq(scratch_read_file(path), letter);
}
END_TEST

START_TEST(test_empty_file_is_fine)
{
  write_file("");
  ck_assert_err(open_again(&store), ERR_OK);
}
END_TEST

/* ---- The runner, with migrations of the test's own ---- */

#define DIGEST(c) c c c c c c c c
static const struct migration steps[] = {
    {1, "0001-one.sql", DIGEST("11111111"),
     "CREATE TABLE schema_migration (version INTEGER PRIMARY KEY, name TEXT, sha256 TEXT, applied_at_ms INTEGER) "
     "STRICT;"
     "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;"
     "CREATE TABLE child (parent INTEGER REFERENCES parent (id)) STRICT;"
     "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);"},
    {2, "0002-two.sql", DIGEST("22222222"),
     "CREATE TABLE parent_new (id INTEGER PRIMARY KEY, note TEXT NOT NULL DEFAULT '') STRICT;"
     "INSERT INTO parent_new (id) SELECT id FROM parent; DROP TABLE parent; ALTER TABLE parent_new RENAME TO parent;"},
    {3, "0003-half.sql", DIGEST("33333333"), "CREATE TABLE half (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);"}};
static const struct migration orphaning = {3, "0003-orphan.sql", DIGEST("33333333"), "DELETE FROM parent;"};
static const struct migration committing = {3, "0003-commit.sql", DIGEST("33333333"), "COMMIT;"};

static struct connection connection;

static enum err migrate_to(const struct migration *migrations, size_t count)
{
  static const struct store_options options = {.log = keep_log};
  int version = -1;
  enum err result;
  ck_assert_err(connection_open(&connection, path, CONNECTION_WRITER, &options, &error), ERR_OK);
  result = migrate_inspect(&version, &connection, migrations, count, &error);
  if (result == ERR_OK)
    result = migrate_run(&connection, path, version, migrations, count, &error);
  connection_close(&connection);
  return result;
}

/* The name of the only copy beside the database, NULL when there is none. */
static const char *find_copy(void)
{
  const char *found = NULL;
  DIR *listing = opendir(dir);
  struct dirent *entry;
  ck_assert_ptr_nonnull(listing);
  while ((entry = readdir(listing)) != NULL)
    if (strstr(entry->d_name, ".bak") != NULL) {
      ck_assert_ptr_null(found);
      found = scratch_printf("%s/%s", dir, entry->d_name);
    }
  closedir(listing);
  return found;
}

static void setup_steps(void)
{
  setup_dir();
  ck_assert_int_eq(sqlite3_close(open_raw()), SQLITE_OK);
  write_file("");
  ck_assert_err(migrate_to(steps, 1), ERR_OK);
}

START_TEST(test_upgrade_keeps_a_copy)
{
  const char *copy;
  struct stat status;
  ck_assert_ptr_null(find_copy()); /* a new database is not worth one */
  ck_assert_err(migrate_to(steps, 2), ERR_OK);
  ck_assert_int_eq(raw_number("PRAGMA user_version"), 2);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM parent WHERE note = ''"), 1);
  ck_assert_int_eq(raw_number("SELECT version FROM schema_migration WHERE name = '0002-two.sql'"), 2);
  copy = find_copy();
  ck_assert_ptr_nonnull(copy);
  ck_assert_ptr_nonnull(strstr(copy, "fit.db.v1-20"));
  ck_assert_int_eq(stat(copy, &status), 0);
  ck_assert_uint_eq(status.st_mode & 0777u, 0600u);
  (void)snprintf(path, sizeof path, "%s", copy);
  ck_assert_int_eq(raw_number("PRAGMA user_version"), 1);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM pragma_table_info('parent')"), 1);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM child"), 1);
}
END_TEST

START_TEST(test_nothing_pending)
{
  ck_assert_err(migrate_to(steps, 1), ERR_OK);
  ck_assert_ptr_null(find_copy());
}
END_TEST

static void check_third_fails(const struct migration *third, const char *words)
{
  const struct migration list[] = {steps[0], steps[1], *third};
  ck_assert_err(migrate_to(list, 2), ERR_OK);
  (void)remove(find_copy());
  ck_assert_err(migrate_to(list, 3), ERR_INTERNAL);
  ck_assert_says(third->name);
  ck_assert_says(words);
  ck_assert_int_eq(raw_number("PRAGMA user_version"), 2);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM schema_migration"), 2);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM parent"), 1);
  ck_assert_ptr_null(find_copy()); /* nothing changed: restarts must not fill the disk */
}

START_TEST(test_failure_keeps_nothing)
{
  check_third_fails(&steps[2], "nothing of it was kept");
}
END_TEST

START_TEST(test_broken_references_fail)
{
  check_third_fails(&orphaning, "rows refer to rows that are not there");
}
END_TEST

START_TEST(test_own_transaction_fails)
{
  check_third_fails(&committing, "ends its own transaction");
}
END_TEST

START_TEST(test_what_succeeded_keeps_its_copy)
{
  ck_assert_err(migrate_to(steps, 3), ERR_INTERNAL);
  ck_assert_int_eq(raw_number("PRAGMA user_version"), 2);
  ck_assert_ptr_nonnull(find_copy());
}
END_TEST

/* ---- The schema ---- */

static const char *dump_schema(void)
{
  sqlite3 *db = open_raw();
  sqlite3_stmt *statement = NULL;
  const char *dump = text("");
  ck_assert_int_eq(sqlite3_prepare_v2(db,
                                      "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE "
                                      "'sqlite\\_%' ESCAPE '\\' ORDER BY tbl_name, type DESC, name",
                                      -1, &statement, NULL),
                   SQLITE_OK);
  while (sqlite3_step(statement) == SQLITE_ROW)
    dump = scratch_printf("%s%s;\n", dump, (const char *)sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return dump;
}

START_TEST(test_golden_schema)
{
  const char *golden = suite_source_path("tests/golden/schema.sql");
  const char *dump = dump_schema();
  if (getenv("FITD_WRITE_GOLDEN") != NULL) {
    FILE *file = fopen(golden, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(dump, file), 0);
    ck_assert_int_eq(fclose(file), 0);
  }
  ck_assert_msg(strcmp(dump, scratch_read_file(golden)) == 0, "the schema differs from tests/golden/schema.sql");
}
END_TEST

/* ---- Databases of earlier versions: tests/storage/fixtures/README.md ---- */

static void open_fixture(const char *name)
{
  const char *source = suite_source_path(scratch_printf("tests/storage/fixtures/%s", name));
  FILE *from = fopen(source, "rb"), *to = fopen(path, "wb");
  char block[4096];
  size_t count;
  ck_assert(from != NULL && to != NULL);
  while ((count = fread(block, 1, sizeof block, from)) > 0)
    ck_assert_uint_eq(fwrite(block, 1, count, to), count);
  ck_assert_int_eq(ferror(from), 0);
  ck_assert_int_eq(fclose(from), 0);
  ck_assert_int_eq(fclose(to), 0);
  ck_assert_err(open_again(&store), ERR_OK);
}

/* The schema that history of any age ends in is that of a new database: both dumps are compared with one file. */
static void check_golden(void)
{
  ck_assert_str_eq(dump_schema(), scratch_read_file(suite_source_path("tests/golden/schema.sql")));
  ck_assert_int_eq(raw_number("PRAGMA user_version"), (int64_t)store_migration_count);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM schema_migration"), (int64_t)store_migration_count);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM pragma_foreign_key_check"), 0);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
}

START_TEST(test_version_1)
{
  const struct store_history_filter filter = {.workload = "support-chat", .label = "before"};
  const struct store_page page = {.limit = 10};
  struct store_scorecards list;
  struct store_document document;
  open_fixture("v1.sqlite");
  check_golden();
  ck_assert_ptr_nonnull(find_copy());
  ck_assert_err(store_scorecard_list(store, &list, &filter, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert_str_eq(list.rows[0].id, "01a22e5f-742b-7001-a774-97dfbca7e92a");
  ck_assert_str_eq(list.rows[0].profile, "h100-sxm-80gb");
  ck_assert_str_eq(list.rows[0].trace_digest, "");
  ck_assert_double_eq_tol(list.rows[0].gpus, 4.0, 1e-12);
  store_scorecards_fini(&list);
  ck_assert_err(store_document_get(store, &document, STORE_WORKLOAD, "support-chat", 0, &error), ERR_OK);
  ck_assert_ptr_nonnull(strstr(document.document, "search-team"));
  store_document_fini(&document);
  ck_assert_err(store_check(store, &error), ERR_OK);
}
END_TEST

START_TEST(test_version_2)
{
  const struct store_history_filter filter = {.stack = "{\"driver\":\"570.86\"}"};
  const struct store_page page = {.limit = 10};
  struct store_scorecards list;
  struct store_evaluation evaluation;
  struct store_trace trace;
  open_fixture("v2.sqlite");
  check_golden();
  ck_assert_err(store_scorecard_list(store, &list, &filter, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_str_eq(list.rows[1].id, "01a22e99-6a94-7001-b83f-689c2929c76f");
  store_scorecards_fini(&list);
  ck_assert_err(store_evaluation_get(store, &evaluation, "01a22e99-6a94-7000-a5b9-906c75651b0c", &error), ERR_OK);
  ck_assert_int_eq(evaluation.official_revision, 0); /* nobody said so then */
  store_evaluation_fini(&evaluation);
  ck_assert_err(store_evaluation_official(store, &evaluation, "support-chat", &error), ERR_NOT_FOUND);
  ck_assert_err(store_trace_get(store, &trace, "recorded", &error), ERR_OK);
  ck_assert_uint_eq(trace.request_count, 3);
  store_trace_fini(&trace);
}
END_TEST

START_TEST(test_version_3)
{
  struct store_evaluation evaluation;
  struct store_knobs knobs;
  open_fixture("v3.sqlite");
  check_golden();
  ck_assert_err(store_evaluation_official(store, &evaluation, "support-chat", &error), ERR_OK);
  ck_assert_str_eq(evaluation.id, "01a22ea8-abb8-7000-8d1f-08f4591fcaa7");
  ck_assert_int_eq(evaluation.official_revision, 1);
  store_evaluation_fini(&evaluation);
  ck_assert_err(store_knob_list(store, &knobs, "", &(struct store_page){.limit = 1}, &error), ERR_OK);
  ck_assert_uint_eq(knobs.count, 0);
  store_knobs_fini(&knobs);
}
END_TEST

/* Figures that had no column are found in the documents, and the sums of days are those of the rows. */
START_TEST(test_version_5)
{
  struct store_scorecard card;
  struct store_series_query query = {.path = "latency.tpot_ms.mean", .bucket_ms = 86400000, .until_ms = INT64_MAX};
  struct store_series_list list;
  open_fixture("v5.sqlite");
  check_golden();
  ck_assert_err(store_scorecard_get(store, &card, "01a22eb3-c1c3-7001-959f-2476e2e718bb", &error), ERR_OK);
  ck_assert_str_eq(card.label, "after");
  ck_assert_double_eq_tol(card.monthly_usd, 40179.2, 1e-6);
  ck_assert_ptr_nonnull(strstr(card.document, scratch_printf("\"tpot_ms\":{\"mean\":%.6g", card.tpot_ms_mean)));
  ck_assert(isnan(card.itl_ms_p99));
  store_scorecard_fini(&card);
  query.points_max = 10;
  ck_assert_err(store_series_list(store, &list, &query, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_str_eq(list.rows[0].profile, "h100-sxm-80gb");
  ck_assert_int_eq(list.rows[0].points[0].count, 3);
  store_series_list_fini(&list);
}
END_TEST

START_TEST(test_version_6)
{
  struct store_evaluation evaluation;
  struct store_gates gates;
  open_fixture("v6.sqlite");
  check_golden();
  ck_assert_err(store_evaluation_official(store, &evaluation, "support-chat", &error), ERR_OK);
  ck_assert_str_eq(evaluation.id, "01a22ebe-0ea7-7000-9760-30e1925ee9ce");
  store_evaluation_fini(&evaluation);
  ck_assert_err(store_gate_list(store, &gates, "", &(struct store_page){.limit = 1}, &error), ERR_OK);
  ck_assert_uint_eq(gates.count, 0);
  store_gates_fini(&gates);
}
END_TEST

START_TEST(test_version_7)
{
  struct store_evaluation evaluation;
  struct store_reviews reviews;
  open_fixture("v7.sqlite");
  check_golden();
  ck_assert_err(store_evaluation_official(store, &evaluation, "support-chat", &error), ERR_OK);
  ck_assert_str_eq(evaluation.id, "01a22ed9-d875-7000-9a06-c33e7b31ae8a");
  store_evaluation_fini(&evaluation);
  ck_assert_err(store_review_list(store, &reviews, &(struct store_page){.limit = 1}, &error), ERR_OK);
  ck_assert_uint_eq(reviews.count, 0);
  store_reviews_fini(&reviews);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/migrate");
  TCase *store_case = suite_case(suite, "store", setup, teardown);
  TCase *files = suite_case(suite, "files", setup_dir, teardown);
  TCase *runner = suite_case(suite, "runner", setup_steps, teardown);
  tcase_add_test(store_case, test_fresh);
  tcase_add_test(store_case, test_embedded_is_the_file);
  tcase_add_test(store_case, test_released_files_stand);
  tcase_add_test(store_case, test_newer_is_refused);
  tcase_add_test(store_case, test_changed_migration_is_refused);
  tcase_add_test(store_case, test_unrecorded_migration_is_refused);
  tcase_add_test(store_case, test_surplus_record_is_refused);
  tcase_add_test(store_case, test_golden_schema);
  tcase_add_test(files, test_foreign_files_are_refused);
  tcase_add_test(files, test_other_files_are_refused_and_kept);
  tcase_add_test(files, test_empty_file_is_fine);
  tcase_add_test(files, test_version_1);
  tcase_add_test(files, test_version_2);
  tcase_add_test(files, test_version_3);
  tcase_add_test(files, test_version_5);
  tcase_add_test(files, test_version_6);
  tcase_add_test(files, test_version_7);
  tcase_add_test(runner, test_upgrade_keeps_a_copy);
  tcase_add_test(runner, test_nothing_pending);
  tcase_add_test(runner, test_failure_keeps_nothing);
  tcase_add_test(runner, test_broken_references_fail);
  tcase_add_test(runner, test_own_transaction_fails);
  tcase_add_test(runner, test_what_succeeded_keeps_its_copy);
  return suite_run(suite);
}
