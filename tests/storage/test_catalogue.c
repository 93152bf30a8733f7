/* Names, revisions and aliases of the catalogue, and what may be replaced and deleted. */
#include "tests/storage/fixture.h"

struct put {
  enum store_catalogue kind;
  struct store_document row;
  int expected;
  int revision;
  bool created, changed;
};

static enum err do_put(struct store_tx *tx, void *cls, struct error *e)
{
  struct put *put = cls;
  return store_document_put(tx, put->kind, &put->row, put->expected, &put->revision, &put->created, &put->changed, e);
}

static struct put put(const char *name, const char *digest, int expected, bool is_builtin, enum err result)
{
  struct put put = {.kind = STORE_PROFILE, .row = make_document(name, digest), .expected = expected, .revision = -1};
  put.row.is_builtin = is_builtin;
  ck_assert_err(write_row(do_put, &put), result);
  return put;
}

struct removal {
  enum store_catalogue kind;
  const char *name;
};

static enum err do_delete(struct store_tx *tx, void *cls, struct error *e)
{
  const struct removal *removal = cls;
  return store_document_delete(tx, removal->kind, removal->name, e);
}

START_TEST(test_round_trip)
{
  struct put row = {.kind = STORE_MODEL, .row = make_document("llama-3.1-70b", "sha256:01"), .expected = -1};
  struct store_document got;
  row.row.alias = text("meta-llama/Llama-3.1-70B-Instruct");
  row.row.is_builtin = true;
  ck_assert_err(write_row(do_put, &row), ERR_OK);
  ck_assert_err(store_document_get(store, &got, STORE_MODEL, "llama-3.1-70b", 0, &error), ERR_OK);
  ck_assert_str_eq(got.name, "llama-3.1-70b");
  ck_assert_int_eq(got.revision, 1);
  ck_assert_int_eq(got.created_at_ms, T0_MS);
  ck_assert(got.is_builtin);
  ck_assert_str_eq(got.alias, "meta-llama/Llama-3.1-70B-Instruct");
  ck_assert_str_eq(got.digest, "sha256:01");
  ck_assert_str_eq(got.source, "{\"source\":\"sha256:01\"}");
  ck_assert_str_eq(got.document, "{\"document\":\"sha256:01\"}");
  store_document_fini(&got);
  /* The same name in another catalogue is another thing. */
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "llama-3.1-70b", 0, &error), ERR_NOT_FOUND);
  ck_assert_says("there is no profile llama-3.1-70b");
}
END_TEST

START_TEST(test_revisions)
{
  struct put first = put("h100", "d1", -1, false, ERR_OK);
  struct put same = put("h100", "d1", -1, false, ERR_OK);
  struct put second = put("h100", "d2", -1, false, ERR_OK);
  struct store_document got;
  ck_assert(first.created && first.changed && first.revision == 1);
  ck_assert(!same.created && !same.changed && same.revision == 1);
  ck_assert(!second.created && second.changed && second.revision == 2);
  /* Back to the first content is a third revision: only the newest is compared. */
  ck_assert_int_eq(put("h100", "d1", -1, false, ERR_OK).revision, 3);
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 2, &error), ERR_OK);
  ck_assert_str_eq(got.digest, "d2");
  store_document_fini(&got);
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 0, &error), ERR_OK);
  ck_assert_int_eq(got.revision, 3);
  store_document_fini(&got);
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 4, &error), ERR_NOT_FOUND);
}
END_TEST

START_TEST(test_expected_revision)
{
  put("h100", "d1", 1, false, ERR_PRECONDITION);
  ck_assert_says("not stored");
  put("h100", "d1", 0, false, ERR_OK);
  put("h100", "d2", 0, false, ERR_PRECONDITION);
  ck_assert_says("exists already");
  put("h100", "d2", 1, false, ERR_OK);
  put("h100", "d3", 1, false, ERR_PRECONDITION);
  ck_assert_says("is at revision 2, revision 1 was expected");
}
END_TEST

START_TEST(test_builtin_never_replaces_users)
{
  struct put put_back;
  put("h100", "builtin-1", -1, true, ERR_OK);
  ck_assert_int_eq(put("h100", "builtin-2", -1, true, ERR_OK).revision, 2);
  ck_assert_int_eq(put("h100", "mine", -1, false, ERR_OK).revision, 3);
  put_back = put("h100", "builtin-3", -1, true, ERR_OK);
  ck_assert_int_eq(put_back.revision, 3);
  ck_assert(!put_back.changed && !put_back.created);
}
END_TEST

static void put_alias(const char *name, const char *alias, const char *digest, bool is_builtin)
{
  struct put put = {.kind = STORE_MODEL, .row = make_document(name, digest), .expected = -1};
  put.row.alias = text(alias);
  put.row.is_builtin = is_builtin;
  ck_assert_err(write_row(do_put, &put), ERR_OK);
}

static void check_found(const char *asked, const char *name)
{
  struct store_document got;
  ck_assert_err(store_document_get(store, &got, STORE_MODEL, asked, 0, &error), ERR_OK);
  ck_assert_str_eq(got.name, name);
  store_document_fini(&got);
}

START_TEST(test_alias)
{
  struct store_document got;
  put_alias("a-builtin", "Org/One", "d1", true);
  check_found("org/ONE", "a-builtin");
  put_alias("z-mine", "org/one", "d2", false);
  check_found("Org/One", "z-mine"); /* a user's beats the built-in */
  put_alias("org-one", "other/alias", "d3", true);
  put_alias("b", "org-one", "d4", false);
  check_found("org-one", "org-one"); /* a name beats an alias */
  put_alias("b", "moved", "d5", false);
  ck_assert_err(store_document_get(store, &got, STORE_MODEL, "", 0, &error), ERR_NOT_FOUND); /* "" is nobody's alias */
  check_found("moved", "b"); /* the newest revision's alias counts … */
  put_alias("b", "", "d6", false);
  ck_assert_err(store_document_get(store, &got, STORE_MODEL, "moved", 0, &error), ERR_NOT_FOUND); /* … and only that */
}
END_TEST

START_TEST(test_list_pages)
{
  struct store_page page = {.limit = 2};
  struct store_documents list;
  put("c", "d1", -1, false, ERR_OK);
  put("a", "d1", -1, false, ERR_OK);
  put("b", "d1", -1, false, ERR_OK);
  put("b", "d2", -1, false, ERR_OK);
  ck_assert_err(store_document_list(store, &list, STORE_PROFILE, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert(list.has_more);
  ck_assert_str_eq(list.rows[0].name, "a");
  ck_assert_str_eq(list.rows[1].name, "b");
  ck_assert_int_eq(list.rows[1].revision, 2);
  store_documents_fini(&list);
  (void)snprintf(page.after, sizeof page.after, "b");
  put("aa", "d1", -1, false, ERR_OK); /* before the cursor: must not disturb the rest */
  ck_assert_err(store_document_list(store, &list, STORE_PROFILE, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert(!list.has_more);
  ck_assert_str_eq(list.rows[0].name, "c");
  store_documents_fini(&list);
}
END_TEST

static void check_revisions(const struct store_page *page, size_t count, bool has_more, int first)
{
  struct store_documents list;
  ck_assert_err(store_document_revisions(store, &list, STORE_PROFILE, "h100", page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, count);
  ck_assert(list.has_more == has_more);
  ck_assert_int_eq(list.rows[0].revision, first);
  store_documents_fini(&list);
}

START_TEST(test_revision_pages)
{
  struct store_page page = {.limit = 8};
  struct store_documents list;
  for (int i = 1; i <= 11; i++)
    put("h100", scratch_printf("d%d", i), -1, false, ERR_OK);
  check_revisions(&page, 8, true, 11);
  (void)snprintf(page.after, sizeof page.after, "4");
  check_revisions(&page, 3, false, 3);
  page.ascending = true;
  check_revisions(&page, 7, false, 5);
  (void)snprintf(page.after, sizeof page.after, "4x");
  ck_assert_err(store_document_revisions(store, &list, STORE_PROFILE, "h100", &page, &error), ERR_INVALID);
}
END_TEST

START_TEST(test_delete)
{
  struct removal removal = {STORE_PROFILE, "h100"};
  struct store_document got;
  put("h100", "d1", -1, false, ERR_OK);
  put("h100", "d2", -1, false, ERR_OK);
  ck_assert_err(write_row(do_delete, &removal), ERR_OK);
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 1, &error), ERR_NOT_FOUND);
  ck_assert_err(write_row(do_delete, &removal), ERR_NOT_FOUND);
}
END_TEST

/* What a start does with the built-in catalogue must not undo a deletion, nor what came after it. */
START_TEST(test_deleted_builtin_stays_deleted)
{
  struct removal removal = {STORE_PROFILE, "h100"};
  struct store_page page = {.limit = 2};
  struct store_documents list;
  struct store_document got;
  struct put again;
  put("h100", "builtin-1", -1, true, ERR_OK);
  put("h100", "mine", -1, false, ERR_OK);
  ck_assert_err(write_row(do_delete, &removal), ERR_OK);
  again = put("h100", "builtin-1", -1, true, ERR_OK);
  ck_assert(!again.created && !again.changed && again.revision == 0);
  put("h100", "builtin-2", -1, true, ERR_OK); /* nor does a new release bring it back */
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 0, &error), ERR_NOT_FOUND);
  ck_assert_err(store_document_list(store, &list, STORE_PROFILE, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 0);
  store_documents_fini(&list);
  ck_assert_err(write_row(do_delete, &removal), ERR_NOT_FOUND);
  put("h100", "mine", 2, false, ERR_PRECONDITION);
  ck_assert_says("not stored");
  again = put("h100", "mine", 0, false, ERR_OK); /* the user may put it anew … */
  ck_assert(again.created && again.changed && again.revision == 3);
  ck_assert_err(write_row(do_delete, &removal), ERR_OK); /* … and delete that as well */
  ck_assert(!put("h100", "builtin-1", -1, true, ERR_OK).changed);
}
END_TEST

START_TEST(test_deleted_user_name_leaves_nothing)
{
  struct removal removal = {STORE_PROFILE, "h100"};
  struct put builtin;
  put("h100", "mine", -1, false, ERR_OK);
  ck_assert_err(write_row(do_delete, &removal), ERR_OK);
  builtin = put("h100", "builtin-1", -1, true, ERR_OK);
  ck_assert(builtin.created && builtin.revision == 1);
}
END_TEST

START_TEST(test_deleted_builtin_hides_no_alias)
{
  struct removal removal = {STORE_MODEL, "a-builtin"};
  struct store_document got;
  put_alias("a-builtin", "Org/One", "d1", true);
  ck_assert_err(write_row(do_delete, &removal), ERR_OK);
  ck_assert_err(store_document_get(store, &got, STORE_MODEL, "Org/One", 0, &error), ERR_NOT_FOUND);
  put_alias("mine", "a-builtin", "d2", false);
  check_found("a-builtin", "mine");
}
END_TEST

START_TEST(test_delete_what_history_needs)
{
  struct removal removal = {STORE_PROFILE, "h100"}, workload = {STORE_WORKLOAD, "chat"};
  struct store_scorecard card = make_scorecard(T0_MS, 1, "chat", "h100");
  struct put official = {.kind = STORE_WORKLOAD, .row = make_document("chat", "d1"), .expected = -1};
  struct store_document got;
  put("h100", "d1", -1, false, ERR_OK);
  put("h100", "d2", -1, false, ERR_OK);
  ck_assert_err(write_row(do_put, &official), ERR_OK);
  card.profile_revision = 1;
  add_scorecard(&card);
  ck_assert_err(write_row(do_delete, &removal), ERR_CONFLICT);
  ck_assert_says("scorecards in the history refer to profile h100");
  ck_assert_err(store_document_get(store, &got, STORE_PROFILE, "h100", 2, &error), ERR_OK); /* all or nothing */
  store_document_fini(&got);
  ck_assert_err(write_row(do_delete, &workload), ERR_OK); /* the history of a workload stays without it */
}
END_TEST

START_TEST(test_scorecard_needs_its_revision)
{
  struct store_scorecard card = make_scorecard(T0_MS, 1, "chat", "h100");
  struct store_evaluation evaluation = make_evaluation(T0_MS, 1, "chat");
  put("h100", "d1", -1, false, ERR_OK);
  ck_assert_err(write_row(insert_evaluation, &evaluation), ERR_OK);
  card.profile_revision = 2;
  ck_assert_err(write_row(insert_scorecard, &card), ERR_CONFLICT);
  card.profile_revision = 1;
  ck_assert_err(write_row(insert_scorecard, &card), ERR_OK);
}
END_TEST

static enum err put_then_fail(struct store_tx *tx, void *cls, struct error *e)
{
  const enum err result = do_put(tx, cls, e);
  return result != ERR_OK ? result : error_set(e, ERR_INVALID, "", "changed my mind");
}

START_TEST(test_versions_move_with_commits_only)
{
  struct put row = {.kind = STORE_PROFILE, .row = make_document("l40s", "d1"), .expected = -1};
  const uint64_t profiles = store_catalogue_version(store, STORE_PROFILE);
  const uint64_t models = store_catalogue_version(store, STORE_MODEL);
  ck_assert_err(write_row(put_then_fail, &row), ERR_INVALID);
  ck_assert_uint_eq(store_catalogue_version(store, STORE_PROFILE), profiles);
  ck_assert_err(write_row(do_put, &row), ERR_OK);
  ck_assert_uint_eq(store_catalogue_version(store, STORE_PROFILE), profiles + 1);
  ck_assert_err(write_row(do_put, &row), ERR_OK); /* no change */
  ck_assert_uint_eq(store_catalogue_version(store, STORE_PROFILE), profiles + 1);
  ck_assert_uint_eq(store_catalogue_version(store, STORE_MODEL), models);
}
END_TEST

START_TEST(test_revisions_are_final)
{
  sqlite3 *db;
  put("h100", "d1", -1, false, ERR_OK);
  db = open_raw();
  ck_assert_int_eq(sqlite3_exec(db, "UPDATE catalogue_revision SET document = '{}'", NULL, NULL, NULL),
                   SQLITE_CONSTRAINT);
  sqlite3_close(db);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/catalogue");
  TCase *tcase = suite_case(suite, "catalogue", setup, teardown);
  tcase_add_test(tcase, test_round_trip);
  tcase_add_test(tcase, test_revisions);
  tcase_add_test(tcase, test_expected_revision);
  tcase_add_test(tcase, test_builtin_never_replaces_users);
  tcase_add_test(tcase, test_alias);
  tcase_add_test(tcase, test_list_pages);
  tcase_add_test(tcase, test_revision_pages);
  tcase_add_test(tcase, test_delete);
  tcase_add_test(tcase, test_deleted_builtin_stays_deleted);
  tcase_add_test(tcase, test_deleted_user_name_leaves_nothing);
  tcase_add_test(tcase, test_deleted_builtin_hides_no_alias);
  tcase_add_test(tcase, test_delete_what_history_needs);
  tcase_add_test(tcase, test_scorecard_needs_its_revision);
  tcase_add_test(tcase, test_versions_move_with_commits_only);
  tcase_add_test(tcase, test_revisions_are_final);
  return suite_run(suite);
}
