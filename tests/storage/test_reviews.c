/* Reviews: one a week, replaced under a version while open, untouchable once signed; addenda. */
#include "tests/storage/fixture.h"

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_review_insert(tx, cls, e);
}

static enum err update_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_review_update(tx, cls, e);
}

static struct store_review make(const char *week, int version, const char *document, int64_t signed_at_ms)
{
  return (struct store_review){.week = text(week),
                               .version = version,
                               .created_at_ms = T0_MS,
                               .changed_at_ms = T0_MS + version,
                               .signed_at_ms = signed_at_ms,
                               .document = text(document)};
}

static void insert(const char *week)
{
  struct store_review row = make(week, 0, "{}", 0);
  ck_assert_err(write_row(insert_work, &row), ERR_OK);
}

static enum err update(const char *week, int version, const char *document, int64_t signed_at_ms)
{
  struct store_review row = make(week, version, document, signed_at_ms);
  return write_row(update_work, &row);
}

START_TEST(test_versions)
{
  struct store_review row = make("2026-W48", 0, "{}", 0), seen;
  insert("2026-W48");
  ck_assert_err(write_row(insert_work, &row), ERR_CONFLICT);
  ck_assert_err(update("2026-W48", 1, "{\"a\":1}", 0), ERR_OK);
  ck_assert_err(update("2026-W48", 1, "{\"a\":2}", 0), ERR_CONFLICT);
  ck_assert_err(store_review_get(store, &seen, "2026-W48", &error), ERR_OK);
  ck_assert_int_eq(seen.version, 2);
  ck_assert_str_eq(seen.document, "{\"a\":1}");
  store_review_fini(&seen);
  ck_assert_err(store_review_get(store, &seen, "2026-W47", &error), ERR_NOT_FOUND);
}
END_TEST

START_TEST(test_signed_stands)
{
  sqlite3 *db;
  insert("2026-W48");
  ck_assert_err(update("2026-W48", 1, "{\"a\":1}", T0_MS + 9), ERR_OK);
  ck_assert_err(update("2026-W48", 2, "{\"a\":2}", 0), ERR_CONFLICT);
  db = open_raw();
  ck_assert_int_ne(sqlite3_exec(db, "UPDATE review SET document = '{}'", NULL, NULL, NULL), SQLITE_OK);
  ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}
END_TEST

START_TEST(test_last_signed)
{
  struct store_review row;
  insert("2026-W46");
  insert("2026-W47");
  insert("2026-W48");
  ck_assert_err(store_review_last_signed(store, &row, "2026-W48", &error), ERR_NOT_FOUND);
  ck_assert_err(update("2026-W46", 1, "{\"a\":1}", T0_MS), ERR_OK);
  ck_assert_err(store_review_last_signed(store, &row, "2026-W48", &error), ERR_OK);
  ck_assert_str_eq(row.week, "2026-W46");
  store_review_fini(&row);
  ck_assert_err(store_review_last_signed(store, &row, "2026-W46", &error), ERR_NOT_FOUND);
}
END_TEST

START_TEST(test_pages)
{
  struct store_reviews list;
  struct store_page page = {.limit = 2};
  insert("2026-W52");
  insert("2026-W53");
  insert("2027-W01");
  ck_assert_err(store_review_list(store, &list, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert(list.has_more);
  ck_assert_str_eq(list.rows[0].week, "2027-W01");
  (void)snprintf(page.after, sizeof page.after, "%s", list.rows[1].week);
  store_reviews_fini(&list);
  ck_assert_err(store_review_list(store, &list, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert_str_eq(list.rows[0].week, "2026-W52");
  store_reviews_fini(&list);
}
END_TEST

static enum err addendum_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_review_addendum_insert(tx, cls, "2026-W48", T0_MS, "{}", e);
}

START_TEST(test_addenda)
{
  struct store_review_addenda list;
  ck_assert_err(write_row(addendum_work, make_id(T0_MS, 1)), ERR_CONFLICT); /* of no review */
  insert("2026-W48");
  ck_assert_err(write_row(addendum_work, make_id(T0_MS, 1)), ERR_OK);
  ck_assert_err(store_review_addenda(store, &list, "2026-W48", &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  store_review_addenda_fini(&list);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/reviews");
  TCase *tcase = suite_case(suite, "reviews", setup, teardown);
  tcase_add_test(tcase, test_versions);
  tcase_add_test(tcase, test_signed_stands);
  tcase_add_test(tcase, test_last_signed);
  tcase_add_test(tcase, test_pages);
  tcase_add_test(tcase, test_addenda);
  return suite_run(suite);
}
