/* Profiles of one evaluation beside each other: the cheaper device is named on the cards of the dearer, with the saving. */
#include <check.h>
#include <jansson.h>
#include <math.h>

#include "api/evaluation.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

/* success < 0: by the closed form. */
static json_t *card(const char *profile, const char *verdict, double usd, double monthly, int gpus, double success)
{
  json_t *cost = usd > 0 ? json_real(usd) : json_null(), *rate = success >= 0 ? json_real(success) : json_null();
  return json_pack("{s:s, s:s, s:{s:i}, s:{s:o, s:f}, s:{s:o}, s:[], s:[]}", "profile", profile, "verdict", verdict,
                   "configuration", "gpus", gpus, "cost", "per_successful_request_usd", cost, "monthly_usd", monthly,
                   "success", "rate", rate, "findings", "advice");
}

static json_t *named(json_t *first, json_t *second, double change_cost_usd)
{
  json_t *cards = scratch_json_steal(json_pack("[o, o]", first, second));
  struct workload workload;
  workload_init(&workload);
  workload.constraints.change_cost_usd = change_cost_usd;
  ck_assert(evaluation_name_cheaper(cards, &workload));
  return cards;
}

/* 0.003 and 0.002 USD: a third less; 3,000 and 2,000 a month: a change of 4,000 is paid back in four. */
START_TEST(the_dearer_fit_is_told_of_the_cheaper)
{
  json_t *cards =
      named(card("l40s-48gb", "fit", 0.002, 2000, 4, 1), card("h100-sxm-80gb", "fit", 0.003, 3000, 2, 1), 4000);
  const json_t *dear = json_array_get(cards, 1);
  ck_assert_uint_eq(json_array_size(doc_array(json_array_get(cards, 0), "findings")), 0);
  ck_assert_str_eq(doc_text(dear, "findings.0.code"), "cheaper_device_fits");
  ck_assert_double_eq_tol(doc_number(dear, "findings.0.evidence.saving"), 1.0 / 3, 1e-12);
  ck_assert_double_eq_tol(doc_number(dear, "findings.0.evidence.saved_usd_a_month"), 1000, 1e-9);
  ck_assert_str_eq(doc_text(dear, "advice.0.pointer"), "/profiles");
  ck_assert_str_eq(doc_text(dear, "advice.0.to.0"), "l40s-48gb");
  ck_assert_str_eq(doc_text(dear, "advice.0.requires"), "procurement");
  ck_assert_double_eq_tol(doc_number(dear, "advice.0.payback_months"), 4, 1e-12);
  ck_assert_double_eq_tol(
      json_number_value(json_array_get(json_object_get(doc_at(dear, "advice.0.effect"), "cost.monthly_usd"), 1)), 2000,
      1e-9);
}
END_TEST

/* A closed form has not been asked about tails, a miss meets nothing, 1 % is nothing, no price compares with none. */
START_TEST(what_can_not_be_compared_is_not)
{
  json_t *pairs[] = {
      named(card("a", "fit", 0.002, 2000, 4, -1), card("b", "fit", 0.003, 3000, 2, 1), (double)NAN),
      named(card("a", "fit", 0.002, 2000, 4, 1), card("b", "no_fit", 0.003, 3000, 2, 1), (double)NAN),
      named(card("a", "fit", 0.00298, 2000, 4, 1), card("b", "fit", 0.003, 3000, 2, 1), (double)NAN),
      named(card("a", "fit", 0.002, 2000, 4, 1), card("b", "fit", 0, 3000, 2, 1), (double)NAN),
  };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    for (size_t k = 0; k < 2; k++)
      ck_assert_uint_eq(json_array_size(doc_array(json_array_get(pairs[i], k), "findings")), 0);
}
END_TEST

/* By the closed form alone: the finding, and no advice. */
START_TEST(quick_cards_get_no_advice)
{
  json_t *cards = named(card("a", "fit", 0.002, 2000, 4, -1), card("b", "fit", 0.003, 3000, 2, -1), (double)NAN);
  ck_assert_uint_eq(json_array_size(doc_array(json_array_get(cards, 1), "findings")), 1);
  ck_assert_uint_eq(json_array_size(doc_array(json_array_get(cards, 1), "advice")), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("cheaper");
  TCase *tcase = tcase_create("cheaper");
  tcase_add_test(tcase, the_dearer_fit_is_told_of_the_cheaper);
  tcase_add_test(tcase, what_can_not_be_compared_is_not);
  tcase_add_test(tcase, quick_cards_get_no_advice);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
