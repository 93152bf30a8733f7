/* What only the cards of several profiles show together: another device meets the same sketch for less. */
#include "api/evaluation.h"

#include <stdio.h>
#include <string.h>

#include "api/card_table.h"
#include "api/write.h"

static double figure(const json_t *card, const char *path)
{
  return json_number_value(card_at(card, path));
}

static bool is_priced_fit(const json_t *card)
{
  const char *verdict = json_string_value(json_object_get(card, "verdict"));
  return verdict != NULL && strcmp(verdict, verdict_name(VERDICT_FIT)) == 0 &&
         json_is_number(card_at(card, "cost.per_successful_request_usd"));
}

/* A card of the closed form has not been asked about tails: it is no match for one that was simulated. */
static bool is_simulated(const json_t *card)
{
  return json_is_number(card_at(card, "success.rate"));
}

/* The cheapest that was judged as the card was; NULL where none is cheaper by 2 %. */
static const json_t *cheaper(const json_t *cards, const json_t *card)
{
  const double noticed = 0.98;
  const char path[] = "cost.per_successful_request_usd";
  for (size_t i = 0; i < json_array_size(cards); i++) {
    const json_t *other = json_array_get(cards, i);
    if (is_priced_fit(other) && is_simulated(other) == is_simulated(card))
      return figure(other, path) < noticed * figure(card, path) ? other : NULL;
  }
  return NULL;
}

static json_t *write_finding(const json_t *card, const json_t *other, const char *message)
{
  const double usd = figure(card, "cost.per_successful_request_usd");
  const double other_usd = figure(other, "cost.per_successful_request_usd");
  return json_pack(
      "{s:s, s:s, s:s, s:{s:o, s:o, s:o, s:o, s:o, s:o}}", "code", "cheaper_device_fits", "severity", "info", "message",
      message, "evidence", "per_successful_request_usd", write_number(usd), "per_successful_request_usd_there",
      write_number(other_usd), "gpus", write_number(figure(card, "configuration.gpus")), "gpus_there",
      write_number(figure(other, "configuration.gpus")), "saving", write_number(1 - other_usd / usd),
      "saved_usd_a_month", write_number(figure(card, "cost.monthly_usd") - figure(other, "cost.monthly_usd")));
}

static json_t *write_effect(const json_t *card, const json_t *other)
{
  static const char *const metrics[] = {"configuration.gpus", "cost.per_successful_request_usd",
                                        "cost.monthly_usd",   "latency.ttft_ms.p99",
                                        "latency.itl_ms.p99", "latency.ttft_ms.p50",
                                        "latency.itl_ms.p50"};
  json_t *to = json_object();
  for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
    if (json_is_number(card_at(card, metrics[i])) && json_is_number(card_at(other, metrics[i])) &&
        json_object_set_new(to, metrics[i],
                            json_pack("[o, o]", write_number(figure(card, metrics[i])),
                                      write_number(figure(other, metrics[i])))) != 0) {
      json_decref(to);
      return NULL;
    }
  return to;
}

static json_t *write_advice(const json_t *card, const json_t *other, const char *message, double change_cost_usd)
{
  const double saved_usd = figure(card, "cost.monthly_usd") - figure(other, "cost.monthly_usd");
  json_t *payback = saved_usd > 0 ? write_number(change_cost_usd / saved_usd) : json_null();
  return json_pack("{s:s, s:s, s:[O], s:[O], s:s, s:s, s:o, s:o}", "knob", "profiles", "pointer", "/profiles", "from",
                   json_object_get(card, "profile"), "to", json_object_get(other, "profile"), "requires", "procurement",
                   "message", message, "payback_months", payback, "effect", write_effect(card, other));
}

static bool compare(json_t *card, const json_t *other, double change_cost_usd)
{
  char usd[CARD_FIGURE_SIZE], other_usd[CARD_FIGURE_SIZE], message[400];
  json_t *findings = json_object_get(card, "findings"), *advice = json_object_get(card, "advice");
  (void)snprintf(
      message, sizeof message,
      "%.0f x %s meets the same sketch at %s USD a successful request, %.0f x %s here at %s: %.0f %% less",
      figure(other, "configuration.gpus"), json_string_value(json_object_get(other, "profile")),
      card_figure(other_usd, card_at(other, "cost.per_successful_request_usd"), 1), figure(card, "configuration.gpus"),
      json_string_value(json_object_get(card, "profile")),
      card_figure(usd, card_at(card, "cost.per_successful_request_usd"), 1),
      100 * (1 - figure(other, "cost.per_successful_request_usd") / figure(card, "cost.per_successful_request_usd")));
  if (json_array_append_new(findings, write_finding(card, other, message)) != 0)
    return false;
  return !is_simulated(card) || /* advice comes with depth full */
         json_array_append_new(advice, write_advice(card, other, message, change_cost_usd)) == 0;
}

bool evaluation_name_cheaper(json_t *cards, const struct workload *workload)
{
  bool is_ok = true;
  for (size_t i = 0; i < json_array_size(cards) && is_ok; i++) {
    json_t *card = json_array_get(cards, i);
    const json_t *other = is_priced_fit(card) ? cheaper(cards, card) : NULL;
    if (other != NULL)
      is_ok = compare(card, other, workload->constraints.change_cost_usd);
  }
  return is_ok;
}
