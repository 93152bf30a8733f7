/* Bearer tokens over a real store: who gets in with which scope, and that a new or revoked token counts at once. */
#include "server/auth.h"

#include "storage/store.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

static struct store *store;
static struct auth *auth;
static struct auth_caller caller;
static struct error error;
static char dir[256];

/* SHA-256 of the 16 bytes 00 01 … 0f followed by the text, from sha256sum:
   printf '\x00\x01…\x0f%s' "$token" | sha256sum */
#define SALT "000102030405060708090a0b0c0d0e0f"
#define HASH_OF_ALPHA "a6cbea7ec412d137b62893c51f6d33fc19de787cc43afaca51d2f6a2ad7afc8b"
#define HASH_OF_BETA "7eb2f277bdd60172c0ce68f6d78c56743dc1dee8062e68f45454566d2d873be4"

static void setup(void)
{
  struct store_options options = {.readers = 1};
  suite_make_dir(dir, sizeof dir);
  options.path = scratch_printf("%s/a.db", dir);
  ck_assert_int_eq((int)store_open(&store, &options, &error), ERR_OK);
  ck_assert_int_eq((int)auth_open(&auth, store, &error), ERR_OK);
}

static void teardown(void)
{
  auth_close(auth);
  store_close(store);
  suite_remove_dir(dir);
  scratch_release();
}

static enum err insert(struct store_tx *tx, void *cls, struct error *e)
{
  return store_token_insert(tx, cls, e);
}

static enum err revoke(struct store_tx *tx, void *cls, struct error *e)
{
  return store_token_revoke(tx, cls, 2000, e);
}

static void add_token(const char *name, const char *scope, const char *hash)
{
  struct store_token row = {.id = scratch_printf("id-%s", name),
                            .name = scratch_printf("%s", name),
                            .scope = scratch_printf("%s", scope),
                            .salt = scratch_printf("%s", SALT),
                            .hash = scratch_printf("%s", hash),
                            .created_at_ms = 1000};
  ck_assert_msg(store_write(store, "test", insert, &row, &error) == ERR_OK, "%s", error.message);
}

static enum err resolve(const char *authorization, bool is_local)
{
  memset(&caller, 0xff, sizeof caller);
  return auth_resolve(&caller, auth, authorization, is_local, &error);
}

START_TEST(without_tokens_this_machine_is_admin)
{
  ck_assert(!auth_has_tokens(auth));
  ck_assert_int_eq((int)resolve(NULL, true), ERR_OK);
  ck_assert_int_eq((int)caller.scope, SCOPE_ADMIN);
  ck_assert_str_eq(caller.name, "");
  ck_assert_int_eq((int)resolve("Bearer whatever", true), ERR_OK);
  ck_assert_int_eq((int)resolve(NULL, false), ERR_PRECONDITION);
}
END_TEST

START_TEST(a_token_opens_for_its_scope)
{
  add_token("alpha", "evaluate", HASH_OF_ALPHA);
  add_token("beta", "admin", HASH_OF_BETA);
  ck_assert_int_eq((int)resolve("Bearer alpha", false), ERR_OK);
  ck_assert(auth_has_tokens(auth));
  ck_assert_int_eq((int)caller.scope, SCOPE_EVALUATE);
  ck_assert_str_eq(caller.name, "alpha");
  ck_assert_int_eq((int)resolve("bearer  beta", true), ERR_OK);
  ck_assert_int_eq((int)caller.scope, SCOPE_ADMIN);
  ck_assert_str_eq(caller.name, "beta");
}
END_TEST

START_TEST(everything_else_is_refused)
{
  static const char *const wrong[] = {NULL,
                                      "",
                                      "Bearer",
                                      "Bearer ",
                                      "Bearer alph",
                                      "Bearer alphaa",
                                      "alpha",
                                      "Basic alpha",
                                      "Bearer alpha x",
                                      "Bearer " HASH_OF_ALPHA,
                                      "Bearer beta"};
  add_token("alpha", "admin", HASH_OF_ALPHA);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    ck_assert_msg(resolve(wrong[i], true) == ERR_PRECONDITION, "%s", wrong[i] != NULL ? wrong[i] : "no header");
    ck_assert_ptr_null(strstr(error.message, "alpha")); /* what was presented is not repeated */
  }
}
END_TEST

START_TEST(revoking_counts_at_once)
{
  add_token("alpha", "read", HASH_OF_ALPHA);
  add_token("beta", "read", HASH_OF_BETA);
  ck_assert_int_eq((int)resolve("Bearer alpha", false), ERR_OK);
  ck_assert_int_eq((int)store_write(store, "test", revoke, scratch_printf("alpha"), &error), ERR_OK);
  ck_assert_int_eq((int)resolve("Bearer alpha", false), ERR_PRECONDITION);
  ck_assert_int_eq((int)resolve("Bearer beta", false), ERR_OK);
}
END_TEST

/* A hash that can not be read must not count as "no token in force". */
START_TEST(an_unreadable_token_closes_the_door)
{
  add_token("alpha", "read", "abcd");
  ck_assert_int_eq((int)resolve(NULL, true), ERR_UNAVAILABLE);
  ck_assert_int_eq((int)resolve("Bearer alpha", true), ERR_UNAVAILABLE);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("auth");
  TCase *tcase = suite_case(suite, "auth", setup, teardown);
  tcase_add_test(tcase, without_tokens_this_machine_is_admin);
  tcase_add_test(tcase, a_token_opens_for_its_scope);
  tcase_add_test(tcase, everything_else_is_refused);
  tcase_add_test(tcase, revoking_counts_at_once);
  tcase_add_test(tcase, an_unreadable_token_closes_the_door);
  return suite_run(suite);
}
