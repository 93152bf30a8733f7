/* Published outputs of the generators, the quantile against erfc, and moments of the variates. */
#include "core/rng.h"

#include "tests/core/fixtures.h"

/* First outputs of xoshiro256++ from the state 1, 2, 3, 4: the vector that the Rust crate rand_xoshiro tests against. */
START_TEST(test_published_outputs)
{
  static const uint64_t expected[] = {41943041u,
                                      58720359u,
                                      3588806011781223u,
                                      3591011842654386u,
                                      9228616714210784205u,
                                      9973669472204895162u,
                                      14011001112246962877u,
                                      12406186145184390807u,
                                      15849039046786891736u,
                                      10450023813501588000u};
  struct rng rng = {{1, 2, 3, 4}};
  for (size_t i = 0; i < FIXTURE_COUNT(expected); i++)
    ck_assert_uint_eq(rng_next(&rng), expected[i]);
}
END_TEST

/* SplitMix64 from 1234567: outputs that several independent implementations give. */
START_TEST(test_seed_is_expanded_by_split_mix)
{
  static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                      4593380528125082431u};
  struct rng rng;
  rng_init(&rng, 1234567);
  for (size_t i = 0; i < FIXTURE_COUNT(expected); i++)
    ck_assert_uint_eq(rng.word[i], expected[i]);
}
END_TEST

START_TEST(test_quantile_inverts_the_distribution)
{
  for (double p = 1e-12; p < 0.5; p *= 1.01) {
    const double z = rng_normal_quantile(p);
    assert_close(0.5 * erfc(-z * M_SQRT1_2), p, 1.2e-9 * (1 + z * z)); /* dp/p ≈ -z dz */
    ck_assert_double_eq_tol(rng_normal_quantile(1 - p), -z, fabs(z) * 1e-4 * (p < 1e-9) + 1e-6);
  }
  ck_assert_double_eq_tol(rng_normal_quantile(0.5), 0, 1e-12);
  assert_close(rng_normal_quantile(0.99), 2.3263478740408408, 2e-9);
}
END_TEST

enum { DRAWS = 1000000 };

/* Bounds are five standard errors. */
START_TEST(test_moments)
{
  double uniform = 0, exponential = 0, exponential_squares = 0, normal = 0, normal_squares = 0;
  struct rng rng;
  int inside = 0;
  rng_init(&rng, 7);
  for (int i = 0; i < DRAWS; i++) {
    const double u = rng_uniform(&rng), x = rng_exponential(&rng), z = rng_normal(&rng);
    inside += u > 0 && u < 1 && x > 0;
    uniform += u;
    exponential += x;
    exponential_squares += x * x;
    normal += z;
    normal_squares += z * z;
  }
  ck_assert_int_eq(inside, DRAWS);
  ck_assert_double_eq_tol(uniform / DRAWS, 0.5, 5 * sqrt(1.0 / 12 / DRAWS));
  ck_assert_double_eq_tol(exponential / DRAWS, 1, 5 * sqrt(1.0 / DRAWS));
  ck_assert_double_eq_tol(exponential_squares / DRAWS, 2, 5 * sqrt(20.0 / DRAWS));
  ck_assert_double_eq_tol(normal / DRAWS, 0, 5 * sqrt(1.0 / DRAWS));
  ck_assert_double_eq_tol(normal_squares / DRAWS, 1, 5 * sqrt(2.0 / DRAWS));
}
END_TEST

/* Streams of a seed, and the same stream of neighbouring seeds, are not correlated. */
START_TEST(test_streams_are_independent)
{
  const int n = 100000;
  for (uint64_t pair = 0; pair < 6; pair++) {
    struct rng a, b;
    double product = 0;
    rng_init_stream(&a, 1, 1);
    rng_init_stream(&b, 1 + pair % 2, pair % 2 == 0 ? 2 + pair : 1);
    ck_assert_uint_ne(a.word[0], b.word[0]);
    for (int i = 0; i < n; i++)
      product += (rng_uniform(&a) - 0.5) * (rng_uniform(&b) - 0.5);
    ck_assert_double_eq_tol(product / n * 12, 0, 5 / sqrt(n));
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("rng");
  tcase_add_test(tcase, test_published_outputs);
  tcase_add_test(tcase, test_seed_is_expanded_by_split_mix);
  tcase_add_test(tcase, test_quantile_inverts_the_distribution);
  tcase_add_test(tcase, test_moments);
  tcase_add_test(tcase, test_streams_are_independent);
  return fixture_run("rng", tcase);
}
