/* Prices: which quote is taken, what is billed, what a request costs. */
#include "core/cost.h"

#include "tests/core/fixtures.h"

static struct hardware priced(void)
{
  struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  fixture_add_price(&hardware, "AWS", "p5.48xlarge", 8, 6.88, "");
  fixture_add_price(&hardware, "AWS", "p5.4xlarge", 1, 6.88, "on_demand");
  fixture_add_price(&hardware, "Azure", "ND96isr_H100_v5", 8, 12.29, "");
  fixture_add_price(&hardware, "Lambda", "gpu_8x_h100_sxm5", 8, 3.99, "on_demand");
  fixture_add_price(&hardware, "Nebius", "gpu-h100-sxm_8gpu", 8, 2.95, "");
  fixture_add_price(&hardware, "AWS", "p5.48xlarge", 8, 3.1, "reserved_1y");
  fixture_add_price(&hardware, "GCP", "a3-highgpu-8g", 8, 2.2, "spot");
  return hardware;
}

static struct price price_for_group(const struct hardware *hardware, const char *cloud, const char *commitment,
                                    unsigned group_gpus)
{
  struct workload workload = fixture_workload();
  fixture_text(workload.constraints.price_cloud, sizeof workload.constraints.price_cloud, cloud);
  fixture_text(workload.constraints.price_commitment, sizeof workload.constraints.price_commitment, commitment);
  return cost_price(hardware, &workload.constraints, group_gpus);
}

static struct price price_for(const struct hardware *hardware, const char *cloud, const char *commitment)
{
  return price_for_group(hardware, cloud, commitment, 1);
}

static const char *basis_of(const struct price *price)
{
  static unsigned char memory[4096];
  struct arena arena;
  const char *basis;
  arena_init(&arena, memory, sizeof memory);
  ck_assert_int_eq(cost_basis(&basis, price, &arena, NULL), ERR_OK);
  return basis;
}

/* On-demand quotes: 2.95 3.99 6.88 6.88 12.29: median 6.88, and of the two instances at that price the smaller one. */
START_TEST(without_a_wish_the_quote_at_the_median_is_taken)
{
  const struct hardware hardware = priced();
  const struct price price = price_for(&hardware, "", "");
  assert_close(price.usd_per_gpu_hour, 6.88, 1e-12);
  assert_close(price.billed_unit_gpus, 1, 1e-12);
  ck_assert_str_eq(basis_of(&price), "AWS p5.4xlarge on_demand 2026-07-20");
}
END_TEST

/* Of an even number the lower middle: 2.95 3.99 | 6.88 12.29 → 3.99, a real quote and not 5.435. */
START_TEST(the_median_of_an_even_number_is_a_real_quote)
{
  struct hardware hardware = priced();
  hardware.prices[1] = hardware.prices[4];
  hardware.price_count = 4;
  assert_close(price_for(&hardware, "", "").usd_per_gpu_hour, 3.99, 1e-12);
}
END_TEST

START_TEST(a_cloud_and_a_commitment_choose_the_cheapest_there)
{
  const struct hardware hardware = priced();
  assert_close(price_for(&hardware, "AWS", "").usd_per_gpu_hour, 6.88, 1e-12);
  assert_close(price_for(&hardware, "aws", "").usd_per_gpu_hour, 6.88, 1e-12); /* names of clouds ignore case */
  assert_close(price_for(&hardware, "azure", "on_demand").usd_per_gpu_hour, 12.29, 1e-12);
  assert_close(price_for(&hardware, "AWS", "reserved_1y").usd_per_gpu_hour, 3.1, 1e-12);
  assert_close(price_for(&hardware, "", "spot").usd_per_gpu_hour, 2.2, 1e-12);
}
END_TEST

START_TEST(no_quote_is_no_price_never_zero)
{
  const struct hardware hardware = priced(), unpriced = fixture_hardware("h100-sxm-80gb");
  const struct price prices[] = {price_for(&unpriced, "", ""), price_for(&hardware, "Oracle", ""),
                                 price_for(&hardware, "GCP", ""), price_for(&hardware, "", "reserved_3y")};
  for (size_t i = 0; i < FIXTURE_COUNT(prices); i++) {
    struct scorecard_cost cost;
    memset(&cost, 0, sizeof cost);
    ck_assert(isnan(prices[i].usd_per_gpu_hour));
    ck_assert_ptr_null(basis_of(&prices[i]));
    ck_assert_uint_eq(cost_billed_gpus(&prices[i], 5), 5);
    cost_fleet(&cost, &prices[i], 5, 1, 100, 1);
    ck_assert(isnan(cost.per_attempted_request_usd) && isnan(cost.per_successful_request_usd) &&
              isnan(cost.monthly_usd) && isnan(cost.per_million_output_tokens_usd) && isnan(cost.usd_per_gpu_hour));
  }
}
END_TEST

/* A tensor-parallel group is inside one instance: 2 … 8 GPUs need one of 8, at the price nearest to the same median; 16 do
   not exist as one, so several of the largest. */
START_TEST(an_instance_holds_the_group)
{
  const struct hardware hardware = priced();
  for (unsigned group = 2; group <= 16; group *= 2) {
    const struct price price = price_for_group(&hardware, "", "", group);
    ck_assert_str_eq(basis_of(&price), "AWS p5.48xlarge on_demand 2026-07-20");
    assert_close(price.billed_unit_gpus, 8, 1e-12);
  }
  assert_close(price_for_group(&hardware, "AWS", "", 2).billed_unit_gpus, 8, 1e-12);
}
END_TEST

START_TEST(the_sketchs_own_price_wins)
{
  const struct hardware hardware = priced();
  struct workload workload = fixture_workload();
  struct price price;
  workload.constraints.price_override_count = 2;
  fixture_text(workload.constraints.price_overrides[0].profile, 65, "a100-sxm-80gb");
  workload.constraints.price_overrides[0].usd_per_gpu_hour = 1;
  fixture_text(workload.constraints.price_overrides[1].profile, 65, "h100-sxm-80gb");
  workload.constraints.price_overrides[1].usd_per_gpu_hour = 2.1;
  price = cost_price(&hardware, &workload.constraints, 8);
  assert_close(price.usd_per_gpu_hour, 2.1, 1e-12);
  assert_close(price.billed_unit_gpus, 1, 1e-12);
  ck_assert_str_eq(basis_of(&price), "the sketch's constraints.prices");
}
END_TEST

START_TEST(an_exhausted_arena_is_a_limit)
{
  const struct hardware hardware = priced();
  const struct price price = price_for(&hardware, "", "");
  const char *basis;
  struct arena arena;
  struct error e;
  arena_init(&arena, &basis, 0);
  ck_assert_int_eq(cost_basis(&basis, &price, &arena, &e), ERR_LIMIT);
  ck_assert_int_eq(e.code, ERR_LIMIT);
}
END_TEST

START_TEST(whole_instances_are_billed)
{
  const struct price eight = {1, 8, NULL}, one = {1, 1, NULL};
  ck_assert_uint_eq(cost_billed_gpus(&eight, 1), 8);
  ck_assert_uint_eq(cost_billed_gpus(&eight, 8), 8);
  ck_assert_uint_eq(cost_billed_gpus(&eight, 9), 16);
  ck_assert_uint_eq(cost_billed_gpus(&eight, 4000), 4000);
  ck_assert_uint_eq(cost_billed_gpus(&one, 3), 3);
}
END_TEST

/* 8 GPUs at 4.50 USD/h = 36 USD/h = 0.01 USD/s; 2 requests/s: 0.005 a request; 90 % succeed: 0.005556; 500 tok/s: 20 USD a
   million tokens; 730 h: 26,280 USD. */
START_TEST(the_bill_is_divided)
{
  const struct price price = {4.5, 8, NULL};
  struct scorecard_cost cost;
  memset(&cost, 0, sizeof cost);
  cost_fleet(&cost, &price, 8, 2, 500, 0.9);
  assert_close(cost.usd_per_gpu_hour, 4.5, 1e-12);
  assert_close(cost.per_attempted_request_usd, 0.005, 1e-12);
  assert_close(cost.per_successful_request_usd, 0.005 / 0.9, 1e-12);
  assert_close(cost.per_million_output_tokens_usd, 20, 1e-12);
  assert_close(cost.monthly_usd, 26280, 1e-12);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("cost");
  tcase_add_test(tcase, without_a_wish_the_quote_at_the_median_is_taken);
  tcase_add_test(tcase, the_median_of_an_even_number_is_a_real_quote);
  tcase_add_test(tcase, a_cloud_and_a_commitment_choose_the_cheapest_there);
  tcase_add_test(tcase, no_quote_is_no_price_never_zero);
  tcase_add_test(tcase, an_instance_holds_the_group);
  tcase_add_test(tcase, the_sketchs_own_price_wins);
  tcase_add_test(tcase, an_exhausted_arena_is_a_limit);
  tcase_add_test(tcase, whole_instances_are_billed);
  tcase_add_test(tcase, the_bill_is_divided);
  return fixture_run("core/cost", tcase);
}
