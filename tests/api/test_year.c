/* A scripted year of weekly reviews: five workloads, prices, a model, a stack and a trace that change, a knob that is turned
   with and without decisions, and everything that must be refused on the way. At its end every day of the year still knows
   what was in force, and why. */
#include "tests/lib/doc.h"
#include "tests/lib/fake.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include "api/week.h"
#include "api/write.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)
#define WEEK_MS (7 * DAY_MS)
#define WEEKS 52
#define WORKLOADS 5

static struct fake fake; /* begins on Monday, 2026-11-30, noon */

static const char *const names[WORKLOADS] = {"chat", "search", "code", "rag", "recorded"};

static void setup(void)
{
  fake_open(&fake, suite_dir());
}

static void teardown(void)
{
  fake_close(&fake);
  scratch_release();
}

/* ---- The world ------------------------------------------------------------------------------------------------------ */

static struct world {
  double price;       /* of a GPU hour in the sketch of search */
  unsigned max_batch; /* in the sketch of chat */
} world;

static const char *sketch_of(unsigned workload)
{
  static const char common[] = "\"precision\":\"fp8\",\"profiles\":[\"h100-sxm-80gb\"],\"stack\":\"pinned\",\"seed\":7";
  switch (workload) {
  case 0:
    return scratch_printf("{\"workload\":\"chat\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":1024,"
                          "\"output_tokens\":256,\"requests_per_s\":2},\"serving\":{\"max_batch\":%u},%s}",
                          world.max_batch, common);
  case 1:
    return scratch_printf("{\"workload\":\"search\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":512,"
                          "\"output_tokens\":64,\"requests_per_s\":1},\"constraints\":{\"prices\":{\"h100-sxm-80gb\":"
                          "%.4f}},%s}",
                          world.price, common);
  case 2:
    return scratch_printf("{\"workload\":\"code\",\"model\":\"house\",\"traffic\":{\"input_tokens\":512,"
                          "\"output_tokens\":128,\"requests_per_s\":1},%s}",
                          common);
  case 3:
    return scratch_printf("{\"workload\":\"rag\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"input_tokens\":4096,"
                          "\"output_tokens\":128,\"requests_per_s\":1},\"targets\":{\"ttft_ms\":{\"p50\":5000}},%s}",
                          common);
  default:
    return scratch_printf(
        "{\"workload\":\"recorded\",\"model\":\"llama-3.1-8b\",\"traffic\":{\"trace\":\"monday\"},%s}", common);
  }
}

static void put_workload(unsigned workload, unsigned status)
{
  (void)fake_json(&fake, "PUT", scratch_printf("/v1/workloads/%s", names[workload]),
                  scratch_printf("{\"sketch\":%s,\"owner\":\"ana\",\"team\":\"assistants\"}", sketch_of(workload)),
                  status);
}

static void put_stack(const char *driver, unsigned status)
{
  (void)fake_json(&fake, "PUT", "/v1/stacks/pinned",
                  scratch_printf("{\"driver\":\"%s\",\"runtime\":\"vllm 0.19\"}", driver), status);
}

/* A model whose layers are as many as told: twice the layers, twice the bytes of each token. */
static void put_model(unsigned layers, unsigned status)
{
  (void)fake_json(&fake, "PUT", "/v1/models/house",
                  scratch_printf("{\"hf_config\":{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                                 "\"hidden_size\":4096,\"num_hidden_layers\":%u,\"num_attention_heads\":32,"
                                 "\"num_key_value_heads\":8,\"intermediate_size\":14336,\"vocab_size\":128256,"
                                 "\"max_position_embeddings\":131072,\"torch_dtype\":\"bfloat16\","
                                 "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}}",
                                 layers),
                  status);
}

static void put_trace(unsigned tokens, unsigned status)
{
  const char *body =
      scratch_printf("arrival_s,input_tokens,output_tokens\n0,%u,20\n1,%u,20\n2,%u,20\n", tokens, tokens, tokens);
  const struct fake_request request = {.method = "PUT",
                                       .path = "/v1/traces/monday",
                                       .headers = doc_parse("{\"Content-Type\":\"text/csv\"}"),
                                       .body = body,
                                       .body_len = strlen(body),
                                       .scope = SCOPE_ADMIN};
  struct api_response response;
  fake_send(&fake, &request, &response);
  ck_assert_msg(response.status == status, "%u: %.500s", response.status, response.bytes);
  api_response_fini(&response);
}

static void begin_year(void)
{
  world = (struct world){2.0, 64};
  fake.review_teams = "platform,assistants";
  fake_reopen(&fake);
  put_stack("570.86", 201);
  put_model(32, 201);
  put_trace(100, 201);
  for (unsigned i = 0; i < WORKLOADS; i++)
    put_workload(i, 201);
  (void)fake_json(&fake, "PUT", "/v1/knobs/chat/max-batch",
                  "{\"kind\":\"batching_policy\",\"pointer\":\"/serving/max_batch\",\"owner\":\"ana\","
                  "\"rollback_plan\":\"set it back\",\"value\":64,\"safe_range\":[16,128]}",
                  201);
  (void)fake_json(
      &fake, "PUT", "/v1/gates/release",
      "{\"workload\":\"rag\",\"targets\":{\"ttft_ms\":{\"p50\":5000}},\"expires_at\":\"2027-06-30\","
      "\"signed_off\":[{\"by\":\"ana\",\"at\":\"2026-11-30\",\"rationale\":\"sold so\",\"team\":\"assistants\"}]}",
      201);
}

/* ---- One week ------------------------------------------------------------------------------------------------------- */

static const char *week_now(void)
{
  char week[WEEK_SIZE];
  week_of(week, fake.now_ms);
  return scratch_printf("%s", week);
}

static const json_t *item_of(const json_t *review, const char *kind, const char *workload)
{
  const json_t *items = doc_array(review, "items");
  for (size_t i = 0; i < json_array_size(items); i++) {
    const json_t *item = json_array_get(items, i);
    const char *of = json_string_value(json_object_get(item, "workload"));
    if (strcmp(doc_text(item, "kind"), kind) == 0 && (workload == NULL || (of != NULL && strcmp(of, workload) == 0)))
      return item;
  }
  return NULL;
}

static bool has_input(const json_t *item, const char *input)
{
  const json_t *inputs = doc_array(item, "inputs");
  for (size_t i = 0; i < json_array_size(inputs); i++)
    if (strcmp(doc_text(json_array_get(inputs, i), "input"), input) == 0)
      return true;
  return false;
}

static const char *path_of(const char *rest)
{
  return scratch_printf("/v1/reviews/%s%s", week_now(), rest);
}

static json_t *open_review(const char *more, unsigned status)
{
  return fake_json(&fake, "POST", "/v1/reviews", scratch_printf("{\"week\":\"%s\"%s}", week_now(), more), status);
}

static json_t *sign(const char *team, unsigned status)
{
  return fake_json(&fake, "POST", path_of("/sign-off"),
                   scratch_printf("{\"team\":\"%s\",\"by\":\"ben\",\"rationale\":\"agreed\"}", team), status);
}

static void answer(const json_t *item, const char *body)
{
  ck_assert_ptr_nonnull(item);
  (void)fake_json(&fake, "POST", path_of(scratch_printf("/items/%s", doc_text(item, "id"))), body, 200);
}

/* Whatever moved is answered, both teams sign, and then nothing can be changed any more. */
static void finish_week(const json_t *review)
{
  const json_t *items = doc_array(review, "items");
  bool has_moved = false;
  for (size_t i = 0; i < json_array_size(items); i++)
    has_moved |= strcmp(doc_text(json_array_get(items, i), "kind"), "moved") == 0;
  if (has_moved)
    (void)sign("platform", 409);
  for (size_t i = 0; i < json_array_size(items); i++)
    if (strcmp(doc_text(json_array_get(items, i), "kind"), "moved") == 0)
      answer(json_array_get(items, i), "{\"no_action_because\":\"known and agreed\"}");
  ck_assert_str_eq(doc_text(sign("platform", 200), "state"), "signing");
  (void)fake_json(&fake, "POST", path_of("/refresh"), NULL, 409);
  ck_assert_str_eq(doc_text(sign("assistants", 200), "state"), "signed");
  (void)fake_json(&fake, "POST", path_of("/refresh"), NULL, 409);
  (void)fake_json(&fake, "POST", path_of("/items"), "{\"title\":\"late\"}", 409);
}

/* The knob's value after each week, and the decision that set it ("" = none yet). */
static struct memory {
  unsigned value;
  const char *decision;
} memories[WEEKS];

static const char *decide(unsigned to, const char *more)
{
  return doc_text(fake_json(&fake, "POST", "/v1/decisions",
                            scratch_printf("{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":%u,\"rationale\":"
                                           "\"week %s\"%s}",
                                           to, week_now(), more),
                            201),
                  "id");
}

static void turn(unsigned max_batch)
{
  world.max_batch = max_batch;
  put_workload(0, 200);
}

/* A new revision of the profile, on which every price is so much higher. */
static void raise_prices(double factor)
{
  json_t *profile = fake_json(&fake, "GET", "/v1/profiles/h100-sxm-80gb", NULL, 200), *quote;
  json_t *quotes = doc_at(profile, "prices");
  size_t i;
  ck_assert_int_eq(
      json_object_set_new(profile, "price_usd_per_hour", json_real(factor * doc_number(profile, "price_usd_per_hour"))),
      0);
  json_array_foreach(quotes, i, quote)
  {
    const double price = doc_number(quote, "usd_per_accelerator_hour");
    ck_assert_int_eq(json_object_set_new(quote, "usd_per_accelerator_hour", json_real(factor * price)), 0);
    if (json_is_number(doc_at(quote, "instance_usd_per_hour")))
      ck_assert_int_eq(json_object_set_new(quote, "instance_usd_per_hour",
                                           json_real(factor * doc_number(quote, "instance_usd_per_hour"))),
                       0);
  }
  (void)fake_json(&fake, "PUT", "/v1/profiles/h100-sxm-80gb", doc_dump(profile), 200);
}

/* What happens before the review of a week is opened. */
static void happen(unsigned week, struct memory *memory)
{
  switch (week) {
  case 4:
    world.price = 2.2;
    put_workload(1, 200);
    break;
  case 8: /* decided and turned */
    turn(96);
    *memory = (struct memory){96, decide(96, ",\"review_by\":\"2027-03-05\"")};
    break;
  case 10: put_model(40, 200); break;
  case 16: /* turned first, decided in the review */ turn(48); break;
  case 20: put_stack("575.57", 200); break;
  case 24: put_trace(200, 200); break;
  case 28: /* outside the safe range */
    (void)fake_json(&fake, "POST", "/v1/decisions",
                    "{\"workload\":\"chat\",\"knob\":\"max-batch\",\"to\":256,\"rationale\":\"more\"}", 422);
    turn(256);
    *memory = (struct memory){256, decide(256, ",\"approved_by\":\"cto\"")};
    break;
  case 30: /* and back */
    turn(48);
    *memory = (struct memory){
        48, doc_text(fake_json(&fake, "POST", scratch_printf("/v1/decisions/%s/revert", memory->decision),
                               "{\"rationale\":\"ITL doubled at noon\"}", 201),
                     "id")};
    break;
  case 34: raise_prices(1.25); break;
  case 40:
    world.price = 1.8;
    put_workload(1, 200);
    break;
  default: break;
  }
}

static void assert_on_agenda(const json_t *review, const char *kind, const char *workload, bool expected)
{
  const bool is_there = item_of(review, kind, workload) != NULL;
  ck_assert_msg(is_there == expected, "%s: %s of %s is %son the agenda", doc_text(review, "week"), kind, workload,
                is_there ? "" : "not ");
}

/* What the agenda of a week must say. */
static void look(unsigned week, const json_t *review, struct memory *memory)
{
  const json_t *moved;
  ck_assert_uint_eq(json_array_size(doc_array(review, "workloads")), WORKLOADS);
  if (week == 4 || week == 40) {
    moved = item_of(review, "moved", "search");
    ck_assert_ptr_nonnull(moved);
    ck_assert_double_eq_tol(doc_number(moved, "profiles.0.figures.0.relative"), week == 4 ? 0.1 : 1.8 / 2.2 - 1, 1e-6);
    ck_assert(has_input(moved, "sketch"));
  } else {
    ck_assert_ptr_null(item_of(review, "moved", "search"));
  }
  assert_on_agenda(review, "moved", "code", week == 10 || week == 34);
  if (week == 10)
    ck_assert(has_input(item_of(review, "moved", "code"), "model"));
  assert_on_agenda(review, "moved", "rag", week == 34);
  if (week == 34) {
    moved = item_of(review, "moved", "rag");
    ck_assert(has_input(moved, "price"));
    ck_assert_double_eq_tol(doc_number(moved, "profiles.0.figures.0.relative"), 0.25, 1e-6);
  }
  if (week == 16) {
    const json_t *item = item_of(review, "undecided_change", "chat");
    const json_t *answered;
    answer(item, "{\"decision\":{\"to\":48,\"rationale\":\"the KV pool is full\"}}");
    answered = item_of(fake_json(&fake, "GET", path_of(""), NULL, 200), "undecided_change", "chat");
    *memory = (struct memory){48, doc_text(answered, "resolution.decision")};
  } else {
    ck_assert_ptr_null(item_of(review, "undecided_change", NULL));
  }
  assert_on_agenda(review, "stack_change", "chat", week == 20);
  assert_on_agenda(review, "trace_changed", "recorded", week == 24);
  /* decided for review by 2027-03-05 in week 8 (2027-01-25), superseded by the review of week 16 */
  assert_on_agenda(review, "decision_due", "chat", week >= 14 && week <= 16);
}

static void run_week(unsigned week, struct memory *memory)
{
  const json_t *review;
  happen(week, memory);
  if (week == 24) {
    (void)open_review("", 409);
    review = open_review(",\"trace_change_reason\":\"the first one was of a demo\"", 201);
  } else {
    review = open_review("", 201);
  }
  (void)open_review("", 409);
  if (week > 0)
    ck_assert(!doc_is_null(review, "compared_with"));
  look(week, review, memory);
  finish_week(review);
}

/* ---- Looking back --------------------------------------------------------------------------------------------------- */

static const char *date_of(int64_t ms)
{
  char date[32];
  write_time(date, ms);
  return scratch_printf("%.10s", date);
}

static void look_back(int64_t start_ms)
{
  for (unsigned week = 0; week < WEEKS; week++) {
    const char *date = date_of(start_ms + (int64_t)week * WEEK_MS);
    const json_t *items = doc_array(
        fake_json(&fake, "GET", scratch_printf("/v1/decisions?workload=chat&knob=max-batch&as_of=%s", date), NULL, 200),
        "items");
    if (memories[week].decision == NULL) {
      ck_assert_uint_eq(json_array_size(items), 0);
      continue;
    }
    ck_assert_uint_eq(json_array_size(items), 1);
    ck_assert_str_eq(doc_text(items, "0.id"), memories[week].decision);
    ck_assert_int_eq(doc_integer(items, "0.to"), (long long)memories[week].value);
    ck_assert_ptr_nonnull(doc_text(items, "0.rationale"));
  }
}

static size_t count_status(const char *status)
{
  return json_array_size(
      doc_array(fake_json(&fake, "GET", scratch_printf("/v1/decisions?status=%s", status), NULL, 200), "items"));
}

START_TEST(a_year)
{
  const int64_t start_ms = fake.now_ms;
  struct memory memory = {64, NULL};
  const json_t *list;
  begin_year();
  for (unsigned week = 0; week < WEEKS; week++) {
    fake.now_ms = start_ms + (int64_t)week * WEEK_MS;
    run_week(week, &memory);
    memories[week] = memory;
  }
  look_back(start_ms);
  ck_assert_uint_eq(count_status("in_force"), 1);
  ck_assert_uint_eq(count_status("reverted"), 1);
  ck_assert_uint_eq(count_status("superseded"), 2);
  list = doc_array(fake_json(&fake, "GET", "/v1/reviews?limit=1000", NULL, 200), "items");
  ck_assert_uint_eq(json_array_size(list), WEEKS);
  ck_assert_str_eq(doc_text(list, "0.week"), "2027-W47");
  ck_assert_str_eq(doc_text(list, "51.week"), "2026-W49");
  for (size_t i = 0; i < WEEKS; i++)
    ck_assert_str_eq(doc_text(json_array_get(list, i), "state"), "signed");
  /* the gate that was signed for half a year */
  ck_assert_str_eq(doc_text(fake_json(&fake, "POST", "/v1/gates/release/checks", sketch_of(3), 201), "verdict"),
                   "fail");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("year");
  TCase *tcase = suite_case(suite, "year", setup, teardown);
  tcase_add_test(tcase, a_year);
  return suite_run(suite);
}
