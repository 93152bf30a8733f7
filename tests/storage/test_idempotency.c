/* Idempotency keys: claimed once, answered once, forgotten after their time. */
#include "tests/storage/fixture.h"

struct claim {
  struct store_idempotency row;
  int64_t not_before_ms;
};

static enum err do_claim(struct store_tx *tx, void *cls, struct error *e)
{
  const struct claim *claim = cls;
  return store_idempotency_claim(tx, &claim->row, claim->not_before_ms, e);
}

static enum err do_finish(struct store_tx *tx, void *cls, struct error *e)
{
  return store_idempotency_finish(tx, cls, e);
}

static enum err do_release(struct store_tx *tx, void *cls, struct error *e)
{
  const struct store_idempotency *row = cls;
  return store_idempotency_release(tx, row->key, row->caller, e);
}

static struct claim make_claim(const char *key, const char *caller, int64_t at_ms)
{
  return (struct claim){.row = {.key = text(key),
                                .caller = text(caller),
                                .request_digest = text("sha256:01"),
                                .created_at_ms = at_ms,
                                .status = 201,
                                .content_type = text("application/json"),
                                .headers = text("Location: /v1/evaluations/1\n"),
                                .body = text("{\"id\":1}")},
                        .not_before_ms = at_ms - 1000};
}

START_TEST(test_life)
{
  struct claim claim = make_claim("k", "ci", T0_MS), other = make_claim("k", "", T0_MS);
  struct store_idempotency got;
  ck_assert_err(store_idempotency_get(store, &got, "k", "ci", &error), ERR_NOT_FOUND);
  ck_assert_err(write_row(do_claim, &claim), ERR_OK);
  ck_assert_err(store_idempotency_get(store, &got, "k", "ci", &error), ERR_OK);
  ck_assert_int_eq(got.status, 0);
  ck_assert_str_eq(got.body, "");
  store_idempotency_fini(&got);
  ck_assert_err(write_row(do_claim, &claim), ERR_CONFLICT);
  ck_assert_err(write_row(do_claim, &other), ERR_OK); /* another caller's key of the same name */
  ck_assert_err(write_row(do_finish, &claim.row), ERR_OK);
  ck_assert_err(store_idempotency_get(store, &got, "k", "ci", &error), ERR_OK);
  ck_assert_str_eq(got.key, "k");
  ck_assert_str_eq(got.caller, "ci");
  ck_assert_str_eq(got.request_digest, "sha256:01");
  ck_assert_int_eq(got.created_at_ms, T0_MS);
  ck_assert_int_eq(got.status, 201);
  ck_assert_str_eq(got.content_type, "application/json");
  ck_assert_str_eq(got.headers, "Location: /v1/evaluations/1\n");
  ck_assert_str_eq(got.body, "{\"id\":1}");
  store_idempotency_fini(&got);
}
END_TEST

START_TEST(test_release)
{
  struct claim claim = make_claim("k", "ci", T0_MS);
  ck_assert_err(write_row(do_finish, &claim.row), ERR_NOT_FOUND);
  ck_assert_err(write_row(do_claim, &claim), ERR_OK);
  ck_assert_err(write_row(do_release, &claim.row), ERR_OK);
  ck_assert_err(write_row(do_claim, &claim), ERR_OK);
}
END_TEST

START_TEST(test_expiry)
{
  struct claim old = make_claim("k", "ci", T0_MS), bystander = make_claim("x", "ci", T0_MS);
  struct claim in_time = make_claim("k", "ci", T0_MS + 1000), late = make_claim("k", "ci", T0_MS + 1001);
  struct store_idempotency got;
  ck_assert_err(write_row(do_claim, &old), ERR_OK);
  ck_assert_err(write_row(do_claim, &bystander), ERR_OK);
  ck_assert_err(write_row(do_claim, &in_time), ERR_CONFLICT); /* 1000 ms old, and 1000 ms is the limit */
  ck_assert_err(write_row(do_claim, &late), ERR_OK);
  ck_assert_err(store_idempotency_get(store, &got, "k", "ci", &error), ERR_OK);
  ck_assert_int_eq(got.created_at_ms, T0_MS + 1001);
  store_idempotency_fini(&got);
  ck_assert_err(store_idempotency_get(store, &got, "x", "ci", &error), ERR_NOT_FOUND); /* cleared away on the way */
}
END_TEST

START_TEST(test_orphans_are_released_at_open)
{
  struct claim running = make_claim("running", "ci", T0_MS), done = make_claim("done", "ci", T0_MS);
  struct store_idempotency got;
  ck_assert_err(write_row(do_claim, &running), ERR_OK);
  ck_assert_err(write_row(do_claim, &done), ERR_OK);
  ck_assert_err(write_row(do_finish, &done.row), ERR_OK);
  store_close(store);
  store = NULL;
  ck_assert_err(open_again(&store), ERR_OK);
  ck_assert_err(store_idempotency_get(store, &got, "running", "ci", &error), ERR_NOT_FOUND);
  ck_assert_err(store_idempotency_get(store, &got, "done", "ci", &error), ERR_OK);
  store_idempotency_fini(&got);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/idempotency");
  TCase *tcase = suite_case(suite, "idempotency", setup, teardown);
  tcase_add_test(tcase, test_life);
  tcase_add_test(tcase, test_release);
  tcase_add_test(tcase, test_expiry);
  tcase_add_test(tcase, test_orphans_are_released_at_open);
  return suite_run(suite);
}
