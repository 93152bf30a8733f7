/* Traces: requests come back as they were put, under their digest; a name moves on, what a scorecard used stays. */
#include "tests/storage/fixture.h"

/* More than two parts of 4,096, the last one not full. */
#define MANY 9000

static struct store_trace_requests made, got;

static void setup_requests(void)
{
  setup();
  made = got = (struct store_trace_requests){.rows = NULL};
}

static void teardown_requests(void)
{
  store_trace_requests_fini(&made);
  store_trace_requests_fini(&got);
  teardown();
}

/* Every third request has hashes; numbers that need all their bytes. */
static void make_requests(size_t count, uint32_t seed)
{
  store_trace_requests_fini(&made);
  made.rows = calloc(count, sizeof *made.rows);
  made.prefix_hashes = calloc(2 * count + 1, sizeof *made.prefix_hashes);
  ck_assert(made.rows != NULL && made.prefix_hashes != NULL);
  made.count = count;
  for (size_t i = 0; i < count; i++) {
    struct store_trace_request *row = &made.rows[i];
    *row = (struct store_trace_request){.arrival_ns = (int64_t)i * INT64_C(987654321987),
                                        .input_tokens = seed + (uint32_t)i * 70001u,
                                        .output_tokens = UINT32_MAX - (uint32_t)i,
                                        .prefix_first = (uint32_t)made.prefix_hash_count,
                                        .prefix_count = i % 3 == 0 ? 2 : 0};
    for (uint32_t k = 0; k < row->prefix_count; k++)
      made.prefix_hashes[made.prefix_hash_count++] = (uint32_t)i * 65537u + k;
  }
}

struct put {
  struct store_trace row;
  int expected, revision;
  bool created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *e)
{
  struct put *put = cls;
  return store_trace_put(tx, &put->row, &made, put->expected, &put->revision, &put->created, e);
}

static struct put put_trace(const char *name, const char *digest, int expected, enum err result)
{
  struct put put = {.row = {.name = text(name),
                            .created_at_ms = T0_MS,
                            .digest = text(digest),
                            .document = scratch_printf("{\"digest\":\"%s\"}", digest)},
                    .expected = expected};
  ck_assert_err(write_row(put_work, &put), result);
  return put;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *e)
{
  return store_trace_delete(tx, cls, e);
}

static int64_t contents(void)
{
  return raw_number("SELECT count(*) FROM trace_content");
}

/* Rows `first` to `first + count` of what was made. */
static void check_requests(const char *digest, size_t first, size_t count)
{
  uint32_t hashes = 0;
  store_trace_requests_fini(&got);
  ck_assert_err(store_trace_requests_get(store, &got, digest, first, count, &error), ERR_OK);
  ck_assert_uint_eq(got.count, count);
  for (size_t i = 0; i < count; i++) {
    const struct store_trace_request *a = &got.rows[i], *b = &made.rows[first + i];
    ck_assert_int_eq(a->arrival_ns, b->arrival_ns);
    ck_assert_uint_eq(a->input_tokens, b->input_tokens);
    ck_assert_uint_eq(a->output_tokens, b->output_tokens);
    ck_assert_uint_eq(a->prefix_count, b->prefix_count);
    ck_assert_uint_eq(a->prefix_first, hashes);
    if (a->prefix_count > 0)
      ck_assert_mem_eq(got.prefix_hashes + a->prefix_first, made.prefix_hashes + b->prefix_first,
                       a->prefix_count * sizeof *made.prefix_hashes);
    hashes += a->prefix_count;
  }
  ck_assert_uint_eq(got.prefix_hash_count, hashes);
}

START_TEST(requests_come_back)
{
  struct store_trace row;
  make_requests(MANY, 1);
  ck_assert(put_trace("chat", "sha256:aa", -1, ERR_OK).created);
  ck_assert_err(store_trace_get(store, &row, "chat", &error), ERR_OK);
  ck_assert_str_eq(row.name, "chat");
  ck_assert_int_eq(row.revision, 1);
  ck_assert_int_eq(row.created_at_ms, T0_MS);
  ck_assert_str_eq(row.digest, "sha256:aa");
  ck_assert_str_eq(row.document, "{\"digest\":\"sha256:aa\"}");
  ck_assert_uint_eq(row.request_count, MANY);
  store_trace_fini(&row);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM trace_part"), 3);
  check_requests("sha256:aa", 0, MANY);
}
END_TEST

START_TEST(a_page_of_them)
{
  static const struct {
    size_t first, count;
  } pages[] = {{0, 1}, {1, 4094}, {4095, 1}, {4095, 2}, {4096, 1}, {4090, 4200}, {8191, 2}, {8999, 1}};
  make_requests(MANY, 1);
  (void)put_trace("chat", "sha256:aa", -1, ERR_OK);
  for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
    check_requests("sha256:aa", pages[i].first, pages[i].count);
  store_trace_requests_fini(&got);
  ck_assert_err(store_trace_requests_get(store, &got, "sha256:bb", 0, 1, &error), ERR_NOT_FOUND);
  ck_assert_err(store_trace_requests_get(store, &got, "sha256:aa", 8990, SIZE_MAX, &error), ERR_OK);
  ck_assert_uint_eq(got.count, 10);
  store_trace_requests_fini(&got);
  ck_assert_err(store_trace_requests_get(store, &got, "sha256:aa", 100000, 5, &error), ERR_NOT_FOUND);
}
END_TEST

START_TEST(survives_closing)
{
  make_requests(5000, 3);
  (void)put_trace("chat", "sha256:aa", -1, ERR_OK);
  store_close(store);
  ck_assert_err(open_again(&store), ERR_OK);
  check_requests("sha256:aa", 0, 5000);
}
END_TEST

START_TEST(a_name_moves_on)
{
  make_requests(10, 1);
  ck_assert_int_eq(put_trace("chat", "sha256:aa", -1, ERR_OK).revision, 1);
  ck_assert_int_eq(put_trace("chat", "sha256:aa", -1, ERR_OK).revision, 1);
  make_requests(5, 2);
  ck_assert_int_eq(put_trace("chat", "sha256:bb", -1, ERR_OK).revision, 2);
  ck_assert_int_eq(contents(), 1); /* nobody needs the old ones */
  ck_assert_int_eq(raw_number("SELECT count(*) FROM trace_part"), 1);
  store_trace_requests_fini(&got);
  ck_assert_err(store_trace_requests_get(store, &got, "sha256:aa", 0, 1, &error), ERR_NOT_FOUND);
  check_requests("sha256:bb", 0, 5);
}
END_TEST

START_TEST(names_share_requests)
{
  make_requests(10, 1);
  (void)put_trace("chat", "sha256:aa", -1, ERR_OK);
  (void)put_trace("copy", "sha256:aa", -1, ERR_OK);
  ck_assert_int_eq(contents(), 1);
  ck_assert_err(write_row(delete_work, text("chat")), ERR_OK);
  check_requests("sha256:aa", 0, 10);
  ck_assert_err(write_row(delete_work, text("copy")), ERR_OK);
  ck_assert_int_eq(contents(), 0);
  ck_assert_err(write_row(delete_work, text("copy")), ERR_NOT_FOUND);
  ck_assert_says("no trace copy");
}
END_TEST

START_TEST(preconditions)
{
  make_requests(2, 1);
  (void)put_trace("chat", "sha256:aa", 1, ERR_PRECONDITION);
  ck_assert_says("not stored, revision 1");
  ck_assert_int_eq(put_trace("chat", "sha256:aa", 0, ERR_OK).revision, 1);
  (void)put_trace("chat", "sha256:bb", 0, ERR_PRECONDITION);
  ck_assert_says("exists already (revision 1)");
  (void)put_trace("chat", "sha256:bb", 2, ERR_PRECONDITION);
  ck_assert_says("at revision 1, revision 2");
  ck_assert_int_eq(contents(), 1);
  ck_assert_int_eq(put_trace("chat", "sha256:bb", 1, ERR_OK).revision, 2);
}
END_TEST

START_TEST(history_keeps_what_it_used)
{
  struct store_scorecard card = make_scorecard(T0_MS, 1, "w", "p"), stored;
  make_requests(10, 1);
  (void)put_trace("chat", "sha256:aa", -1, ERR_OK);
  card.trace_digest = text("sha256:aa");
  add_scorecard(&card);
  ck_assert_err(store_scorecard_get(store, &stored, card.id, &error), ERR_OK);
  ck_assert_str_eq(stored.trace_digest, "sha256:aa");
  store_scorecard_fini(&stored);
  ck_assert_err(write_row(delete_work, text("chat")), ERR_CONFLICT);
  ck_assert_says("refer to trace chat");
  ck_assert_int_eq(raw_number("SELECT count(*) FROM trace"), 1);
  make_requests(5, 2);
  (void)put_trace("chat", "sha256:bb", -1, ERR_OK);
  ck_assert_int_eq(contents(), 2);
  make_requests(10, 1);
  check_requests("sha256:aa", 0, 10);
  ck_assert_err(write_row(delete_work, text("chat")), ERR_OK); /* nothing refers to these */
  ck_assert_int_eq(contents(), 1);
}
END_TEST

START_TEST(scorecards_refer_to_what_is_there)
{
  struct store_scorecard card = make_scorecard(T0_MS, 1, "w", "p"), stored;
  struct store_evaluation evaluation = make_evaluation(T0_MS, 1, "w");
  ck_assert_err(write_row(insert_evaluation, &evaluation), ERR_OK);
  card.trace_digest = text("sha256:nowhere");
  ck_assert_err(write_row(insert_scorecard, &card), ERR_CONFLICT);
  card.trace_digest = NULL;
  ck_assert_err(write_row(insert_scorecard, &card), ERR_OK);
  ck_assert_err(store_scorecard_get(store, &stored, card.id, &error), ERR_OK);
  ck_assert_str_eq(stored.trace_digest, "");
  store_scorecard_fini(&stored);
  ck_assert_int_eq(raw_number("SELECT count(*) FROM scorecard WHERE trace_digest IS NULL"), 1);
}
END_TEST

START_TEST(listed_by_name)
{
  struct store_page page = {.limit = 2};
  struct store_traces list;
  make_requests(3, 1);
  (void)put_trace("b", "sha256:aa", -1, ERR_OK);
  (void)put_trace("c", "sha256:aa", -1, ERR_OK);
  (void)put_trace("a", "sha256:aa", -1, ERR_OK);
  ck_assert_err(store_trace_list(store, &list, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert(list.has_more);
  ck_assert_str_eq(list.rows[0].name, "a");
  ck_assert_str_eq(list.rows[1].name, "b");
  (void)snprintf(page.after, sizeof page.after, "%s", list.rows[1].name);
  store_traces_fini(&list);
  ck_assert_err(store_trace_list(store, &list, &page, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert(!list.has_more);
  ck_assert_str_eq(list.rows[0].name, "c");
  ck_assert_uint_eq(list.rows[0].request_count, 3);
  store_traces_fini(&list);
  ck_assert_err(store_trace_get(store, &(struct store_trace){0}, "d", &error), ERR_NOT_FOUND);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/traces");
  TCase *tcase = suite_case(suite, "traces", setup_requests, teardown_requests);
  tcase_add_test(tcase, requests_come_back);
  tcase_add_test(tcase, a_page_of_them);
  tcase_add_test(tcase, survives_closing);
  tcase_add_test(tcase, a_name_moves_on);
  tcase_add_test(tcase, names_share_requests);
  tcase_add_test(tcase, preconditions);
  tcase_add_test(tcase, history_keeps_what_it_used);
  tcase_add_test(tcase, scorecards_refer_to_what_is_there);
  tcase_add_test(tcase, listed_by_name);
  return suite_run(suite);
}
