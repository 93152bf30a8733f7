/* Knobs and decisions: replacing with revisions, records that stand, and which decision is in force on a day. */
#include "tests/storage/fixture.h"

#include <sqlite3.h>

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  bool created;
  return store_knob_put(tx, cls, -1, &created, e);
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_knob_delete(tx, "chat", cls, e);
}

static void put_knob(char *name, char *document)
{
  struct store_knob row = {.workload = (char[]){"chat"}, .name = name, .document = document, .changed_at_ms = T0_MS};
  ck_assert_err(store_write(store, "knob", put_work, &row, &error), ERR_OK);
}

START_TEST(test_knob_revisions)
{
  struct store_knob row;
  char name[] = "tp", other[] = "other", one[] = "{\"value\":1}", two[] = "{\"value\":2}";
  put_knob(name, one);
  put_knob(name, one);
  ck_assert_err(store_knob_get(store, &row, "chat", "tp", &error), ERR_OK);
  ck_assert_int_eq(row.revision, 1);
  store_knob_fini(&row);
  put_knob(name, two);
  ck_assert_err(store_knob_get(store, &row, "chat", "tp", &error), ERR_OK);
  ck_assert_int_eq(row.revision, 2);
  ck_assert_str_eq(row.document, two);
  store_knob_fini(&row);
  ck_assert_err(store_write(store, "knob", delete_work, other, &error), ERR_NOT_FOUND);
  ck_assert_err(store_write(store, "knob", delete_work, name, &error), ERR_OK);
  ck_assert_err(store_knob_get(store, &row, "chat", "tp", &error), ERR_NOT_FOUND);
}
END_TEST

START_TEST(test_knob_pages)
{
  struct store_knobs list;
  struct store_page page = {.limit = 2};
  char names[3][2] = {"a", "b", "c"}, document[] = "{}";
  for (size_t i = 0; i < 3; i++)
    put_knob(names[i], document);
  ck_assert_err(store_knob_list(store, &list, "chat", &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert(list.has_more);
  (void)snprintf(page.after, sizeof page.after, "%lld", (long long)list.rows[1].id);
  store_knobs_fini(&list);
  ck_assert_err(store_knob_list(store, &list, "", &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert_str_eq(list.rows[0].name, "c");
  store_knobs_fini(&list);
  ck_assert_err(store_knob_list(store, &list, "search", &(struct store_page){.limit = 2}, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 0);
  store_knobs_fini(&list);
}
END_TEST

/* ---- Decisions ---- */

struct made {
  char id[40];
  int64_t day;      /* effective, from T0 on */
  const char *ends; /* id it names; NULL = none */
  bool is_revert;
  int64_t review_day; /* 0 = never */
};

static enum err insert_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_decision_insert(tx, cls, e);
}

#define DAY_MS INT64_C(86400000)

static enum err insert(struct made *made, unsigned number)
{
  struct store_decision row = {.id = made->id,
                               .created_at_ms = T0_MS + number,
                               .effective_at_ms = T0_MS + made->day * DAY_MS,
                               .workload = (char[]){"chat"},
                               .knob = (char[]){"tp"},
                               .supersedes = text(made->ends != NULL ? made->ends : ""),
                               .is_revert = made->is_revert,
                               .review_by_ms = made->review_day > 0 ? T0_MS + made->review_day * DAY_MS : 0,
                               .document = (char[]){"{}"}};
  (void)snprintf(made->id, sizeof made->id, "%08x-%04x-7000-8000-%012x", (unsigned)(row.created_at_ms >> 16),
                 (unsigned)(row.created_at_ms & 0xffff), number);
  return store_write(store, "decision", insert_work, &row, &error);
}

static void assert_status(const struct made *made, int64_t day, const char *status)
{
  struct store_decision row;
  ck_assert_err(store_decision_get(store, &row, made->id, T0_MS + day * DAY_MS, &error), ERR_OK);
  ck_assert_str_eq(row.status, status);
  store_decision_fini(&row);
}

START_TEST(test_statuses_by_day)
{
  struct made first = {.day = 0, .review_day = 3}, second = {.day = 5}, undo = {.day = 7, .is_revert = true};
  struct store_decision row;
  ck_assert_err(insert(&first, 1), ERR_OK);
  ck_assert_err(insert(&second, 2), ERR_OK);
  undo.ends = second.id;
  ck_assert_err(insert(&undo, 3), ERR_OK);
  ck_assert_err(store_decision_get(store, &row, first.id, T0_MS - 1, &error), ERR_NOT_FOUND);
  assert_status(&first, 0, "in_force");
  assert_status(&first, 4, "due");
  assert_status(&first, 5, "superseded");
  assert_status(&second, 6, "in_force");
  assert_status(&second, 7, "reverted");
  assert_status(&undo, 8, "in_force");
}
END_TEST

START_TEST(test_naming_what_has_ended_is_refused)
{
  struct made first = {.day = 0}, second = {.day = 1}, third = {.day = 2}, lost = {.ends = "nobody"};
  ck_assert_err(insert(&first, 1), ERR_OK);
  second.ends = third.ends = first.id;
  ck_assert_err(insert(&second, 2), ERR_OK);
  ck_assert_err(insert(&third, 3), ERR_CONFLICT);
  ck_assert_err(insert(&lost, 4), ERR_NOT_FOUND);
}
END_TEST

static size_t count(const struct store_decision_filter *filter)
{
  struct store_decisions list;
  const struct store_page page = {.limit = 10};
  size_t found;
  ck_assert_err(store_decision_list(store, &list, filter, &page, &error), ERR_OK);
  found = list.count;
  store_decisions_fini(&list);
  return found;
}

START_TEST(test_filters)
{
  struct made first = {.day = 0}, second = {.day = 5};
  const int64_t later = T0_MS + 9 * DAY_MS;
  ck_assert_err(insert(&first, 1), ERR_OK);
  ck_assert_err(insert(&second, 2), ERR_OK);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later}), 2);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .only_in_force = true}), 1);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .status = "superseded"}), 1);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .workload = "search"}), 0);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .knob = "tp"}), 2);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .since_ms = T0_MS + DAY_MS}), 1);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = later, .until_ms = T0_MS + DAY_MS}), 1);
  ck_assert_uint_eq(count(&(struct store_decision_filter){.as_of_ms = T0_MS + DAY_MS}), 1);
}
END_TEST

START_TEST(test_records_stand)
{
  struct made first = {.day = 0};
  sqlite3 *db;
  char *message = NULL;
  ck_assert_err(insert(&first, 1), ERR_OK);
  store_close(store);
  store = NULL;
  ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
  ck_assert_int_ne(sqlite3_exec(db, "UPDATE decision SET document = '{\"to\":1}'", NULL, NULL, &message), SQLITE_OK);
  ck_assert_ptr_nonnull(strstr(message, "never rewritten"));
  sqlite3_free(message);
  sqlite3_close(db);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/decisions");
  TCase *tcase = suite_case(suite, "decisions", setup, teardown);
  tcase_add_test(tcase, test_knob_revisions);
  tcase_add_test(tcase, test_knob_pages);
  tcase_add_test(tcase, test_statuses_by_day);
  tcase_add_test(tcase, test_naming_what_has_ended_is_refused);
  tcase_add_test(tcase, test_filters);
  tcase_add_test(tcase, test_records_stand);
  return suite_run(suite);
}
