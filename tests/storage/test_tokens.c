/* Tokens: one of a name in force at a time, revoked ones are remembered. */
#include "tests/storage/fixture.h"

static struct store_token make_token(const char *id, const char *name)
{
  return (struct store_token){.id = text(id),
                              .name = text(name),
                              .scope = text("evaluate"),
                              .salt = text("00ff"),
                              .hash = text("abcd"),
                              .created_at_ms = T0_MS};
}

static enum err insert(struct store_tx *tx, void *cls, struct error *e)
{
  return store_token_insert(tx, cls, e);
}

static enum err revoke(struct store_tx *tx, void *cls, struct error *e)
{
  return store_token_revoke(tx, cls, T0_MS + 5, e);
}

START_TEST(test_life)
{
  struct store_token first = make_token("1", "ci"), second = make_token("2", "ci");
  struct store_tokens list;
  const uint64_t version = store_token_version(store);
  second.created_at_ms++;
  ck_assert_err(write_row(insert, &first), ERR_OK);
  ck_assert_uint_eq(store_token_version(store), version + 1);
  ck_assert_err(write_row(insert, &second), ERR_CONFLICT);
  ck_assert_says("a token named ci is in force");
  ck_assert_uint_eq(store_token_version(store), version + 1);
  ck_assert_err(write_row(revoke, text("ci")), ERR_OK);
  ck_assert_uint_eq(store_token_version(store), version + 2);
  ck_assert_err(write_row(revoke, text("ci")), ERR_NOT_FOUND);
  ck_assert_err(write_row(insert, &second), ERR_OK);
  ck_assert_err(store_token_list(store, &list, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_str_eq(list.rows[0].id, "1");
  ck_assert_int_eq(list.rows[0].revoked_at_ms, T0_MS + 5);
  ck_assert_str_eq(list.rows[1].id, "2");
  ck_assert_str_eq(list.rows[1].name, "ci");
  ck_assert_str_eq(list.rows[1].scope, "evaluate");
  ck_assert_str_eq(list.rows[1].salt, "00ff");
  ck_assert_str_eq(list.rows[1].hash, "abcd");
  ck_assert_int_eq(list.rows[1].created_at_ms, T0_MS + 1);
  ck_assert_int_eq(list.rows[1].revoked_at_ms, 0);
  store_tokens_fini(&list);
}
END_TEST

START_TEST(test_scope_is_checked)
{
  struct store_token row = make_token("1", "ci");
  row.scope = text("root");
  ck_assert_err(write_row(insert, &row), ERR_INTERNAL);
}
END_TEST

START_TEST(test_many)
{
  struct store_tokens list;
  for (int i = 0; i < 40; i++) {
    struct store_token row = make_token(scratch_printf("%02d", i), scratch_printf("t%d", i));
    ck_assert_err(write_row(insert, &row), ERR_OK);
  }
  ck_assert_err(store_token_list(store, &list, &error), ERR_OK);
  ck_assert_uint_eq(list.count, 40);
  ck_assert_str_eq(list.rows[39].id, "39");
  store_tokens_fini(&list);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("storage/tokens");
  TCase *tcase = suite_case(suite, "tokens", setup, teardown);
  tcase_add_test(tcase, test_life);
  tcase_add_test(tcase, test_scope_is_checked);
  tcase_add_test(tcase, test_many);
  return suite_run(suite);
}
