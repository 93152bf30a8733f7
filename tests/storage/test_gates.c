/* Gates: revisions, baselines that somebody chose and those that nobody did, waivers in force, checks that outlive a gate. */
#include "tests/storage/fixture.h"

struct put {
  char *document;
  bool is_signed_anew, is_created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put *put = cls;
  const struct store_gate row = {
      .name = text("release"), .workload = text("chat"), .changed_at_ms = T0_MS, .document = put->document};
  return store_gate_put(tx, &row, -1, put->is_signed_anew, &put->is_created, e);
}

static void put_gate(const char *document, bool is_signed_anew)
{
  struct put put = {text(document), is_signed_anew, false};
  ck_assert_err(write_row(put_work, &put), ERR_OK);
}

static int64_t gate_id(void)
{
  struct store_gate row;
  int64_t id;
  ck_assert_err(store_gate_get(store, &row, "release", &error), ERR_OK);
  id = row.id;
  store_gate_fini(&row);
  return id;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_gate_delete(tx, cls, e);
}

static enum err baseline_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_gate_set_baseline(tx, 1, cls, e);
}

static void set_baseline(const char *profile, const char *scorecard, bool is_chosen)
{
  struct store_gate_baseline row = {text(profile), text(scorecard), T0_MS, is_chosen};
  ck_assert_err(write_row(baseline_work, &row), ERR_OK);
}

/* The scorecard of the baseline at this place; "" = none. */
static const char *baseline(size_t place)
{
  struct store_gate_baselines list;
  const char *found;
  ck_assert_err(store_gate_baselines(store, &list, 1, &error), ERR_OK);
  found = text(place < list.count ? list.rows[place].scorecard : "");
  store_gate_baselines_fini(&list);
  return found;
}

START_TEST(test_revisions)
{
  struct store_gate row;
  put_gate("{\"a\":1}", true);
  put_gate("{\"a\":1}", true);
  put_gate("{\"a\":2}", true);
  ck_assert_err(store_gate_get(store, &row, "release", &error), ERR_OK);
  ck_assert_int_eq(row.revision, 2);
  ck_assert_str_eq(row.document, "{\"a\":2}");
  store_gate_fini(&row);
  ck_assert_err(store_gate_get(store, &row, "other", &error), ERR_NOT_FOUND);
  ck_assert_err(write_row(delete_work, text("other")), ERR_NOT_FOUND);
}
END_TEST

START_TEST(test_baselines)
{
  struct store_scorecard first = make_scorecard(T0_MS, 1, "chat", "a"), second = make_scorecard(T0_MS, 2, "chat", "a");
  struct store_gate_baseline lost = {text("a"), text("nothing"), T0_MS, true};
  add_scorecard(&first);
  add_scorecard(&second);
  put_gate("{\"a\":1}", true);
  ck_assert_int_eq(gate_id(), 1);
  ck_assert_err(write_row(baseline_work, &lost), ERR_CONFLICT);
  set_baseline("a", first.id, false);
  set_baseline("a", second.id, false); /* the first one stays */
  ck_assert_str_eq(baseline(0), first.id);
  put_gate("{\"a\":2}", false);
  ck_assert_str_eq(baseline(0), first.id);
  put_gate("{\"a\":3}", true);
  ck_assert_str_eq(baseline(0), "");
  set_baseline("a", second.id, true);
  put_gate("{\"a\":4}", true);
  ck_assert_str_eq(baseline(0), second.id);
  set_baseline("a", first.id, true);
  ck_assert_str_eq(baseline(0), first.id);
}
END_TEST

static enum err waiver_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_gate_waiver_insert(tx, 1, cls, e);
}

static enum err check_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_gate_check_insert(tx, cls, e);
}

static size_t waivers(int64_t after_ms)
{
  struct store_gate_records list;
  size_t count;
  ck_assert_err(store_gate_waivers(store, &list, 1, after_ms, &error), ERR_OK);
  count = list.count;
  store_gate_records_fini(&list);
  return count;
}

static size_t checks(const char *verdict)
{
  const struct store_gate_check_filter filter = {.gate = "release", .verdict = verdict};
  struct store_gate_records list;
  size_t count;
  ck_assert_err(store_gate_check_list(store, &list, &filter, &(struct store_page){.limit = 10}, &error), ERR_OK);
  count = list.count;
  store_gate_records_fini(&list);
  return count;
}

START_TEST(test_waivers_and_checks)
{
  struct store_gate_record waiver = {make_id(T0_MS, 1), T0_MS, T0_MS + 1000, text("{}")};
  struct store_gate_check row = {make_id(T0_MS, 2), T0_MS, "release", "chat", "fail", "{}"};
  put_gate("{\"a\":1}", true);
  ck_assert_err(write_row(waiver_work, &waiver), ERR_OK);
  ck_assert_uint_eq(waivers(T0_MS), 1);
  ck_assert_uint_eq(waivers(T0_MS + 1000), 0);
  ck_assert_err(write_row(check_work, &row), ERR_OK);
  ck_assert_uint_eq(checks(NULL), 1);
  ck_assert_uint_eq(checks("pass"), 0);
  ck_assert_err(write_row(delete_work, text("release")), ERR_OK);
  ck_assert_uint_eq(checks("fail"), 1);
  put_gate("{\"a\":1}", true);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM gate_waiver"), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/gates");
  TCase *tcase = suite_case(suite, "gates", setup, teardown);
  tcase_add_test(tcase, test_revisions);
  tcase_add_test(tcase, test_baselines);
  tcase_add_test(tcase, test_waivers_and_checks);
  return suite_run(suite);
}
