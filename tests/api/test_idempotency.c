/* Keys whose first request has not finished: refused while it may still run, taken over after a restart. */
#include "api/idempotency.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#define BODY "{\"architecture\": {}}"

static struct fake fake;

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

static enum err claim(struct store_tx *tx, void *cls, struct error *e)
{
  const struct store_idempotency *row = cls;
  return store_idempotency_claim(tx, row, row->created_at_ms - 1, e);
}

/* A claim as the running first request makes it; SHA-256 of "POST /v1/models/inspect?\n" and the body, by sha256sum. */
static void claim_key(int64_t at_ms)
{
  char key[] = "key-1", caller[] = "test", none[] = "";
  char digest[] = "sha256:0e6111470ed274a54f23b4608f464aaecd1e10c55c3f1bfec30c5c873fc3749a";
  struct store_idempotency row = {.key = key,
                                  .caller = caller,
                                  .request_digest = digest,
                                  .created_at_ms = at_ms,
                                  .content_type = none,
                                  .headers = none,
                                  .body = none};
  struct error e;
  ck_assert_msg(store_write(fake.store, "claim", claim, &row, &e) == ERR_OK, "%s", e.message);
}

static unsigned post(const char *body)
{
  const struct fake_request request = {.method = "POST",
                                       .path = "/v1/models/inspect",
                                       .body = body,
                                       .body_len = strlen(body),
                                       .scope = SCOPE_ADMIN,
                                       .headers = scratch_json_steal(json_pack("{s:s}", "Idempotency-Key", "key-1"))};
  struct api_response response;
  fake_send(&fake, &request, &response);
  api_response_fini(&response);
  return response.status;
}

START_TEST(running_is_a_conflict)
{
  claim_key(fake.now_ms);
  ck_assert_uint_eq(post(BODY), 409);
  ck_assert_uint_eq(post("{\"architecture\": {} }"), 422); /* another body under the same key */
}
END_TEST

/* An empty architecture is refused by the handler with 422: that it is asked at all shows that the claim was taken over. */
START_TEST(claim_of_a_dead_process_is_taken_over)
{
  claim_key(fake.now_ms);
  fake.now_ms += 1000;
  fake_reopen(&fake);
  ck_assert_uint_eq(post(BODY), 422);
  claim_key(fake.now_ms); /* the refusal freed the key */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("api/idempotency");
  TCase *tcase = suite_case(suite, "idempotency", setup, teardown);
  tcase_add_test(tcase, running_is_a_conflict);
  tcase_add_test(tcase, claim_of_a_dead_process_is_taken_over);
  return suite_run(suite);
}
