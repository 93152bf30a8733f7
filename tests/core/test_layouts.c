/* Which layouts a search looks at. */
#include "core/layouts.h"

#include "tests/core/fixtures.h"

static struct model mixture(unsigned experts)
{
  struct model model = fixture_model("llama-3-8b");
  struct layer layer = model.layers[0];
  layer.feed_forward.kind = FEED_FORWARD_MOE;
  layer.feed_forward.experts = experts;
  layer.feed_forward.experts_per_token = 2;
  model.layer_count = model.layer_kind_count = 0;
  ck_assert_int_eq(model_append_layers(&model, &layer, 32, NULL), ERR_OK);
  return model;
}

static size_t list(struct layout out[LAYOUTS_MAX], const struct workload *workload, const struct model *model,
                   const char *device)
{
  const struct layout_wish wish = layouts_wish(workload);
  const struct hardware hardware = fixture_hardware(device);
  return layouts_list(out, &wish, model, &hardware);
}

/* 32 heads over a domain of 8: 1, 2, 4, 8. A dense model has nothing else to cut. */
START_TEST(a_dense_model_is_cut_by_tensors)
{
  const struct workload workload = fixture_workload();
  const struct model model = fixture_model("llama-3-8b");
  struct layout layouts[LAYOUTS_MAX];
  ck_assert_uint_eq(list(layouts, &workload, &model, "h100-sxm-80gb"), 4);
  for (unsigned i = 0; i < 4; i++) {
    ck_assert_uint_eq(layouts[i].tensor_parallel, 1u << i);
    ck_assert_uint_eq(layouts[i].pipeline_parallel * layouts[i].expert_parallel * layouts[i].attention_data_parallel,
                      1);
  }
}
END_TEST

/* tp × data ≤ 8 in powers of two: (1; 1 2 4 8) (2; 1 2 4) (4; 1 2) (8; 1) are 10; nine of more than one rank spread their
   experts too, unless there are fewer experts than ranks: 4 experts rule the four pairs of 8 ranks out. */
START_TEST(experts_are_spread_over_all_ranks_or_none)
{
  const struct workload workload = fixture_workload();
  const struct model many = mixture(64), few = mixture(4);
  struct layout layouts[LAYOUTS_MAX];
  const size_t count = list(layouts, &workload, &many, "h100-sxm-80gb");
  ck_assert_uint_eq(count, 19);
  ck_assert_uint_eq(list(layouts, &workload, &few, "h100-sxm-80gb"), 15);
  for (size_t i = 0; i < 15; i++) {
    char why[192];
    const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
    ck_assert_msg(parallel_check(why, sizeof why, &few, &hardware, &layouts[i]), "%s", why);
    ck_assert(i == 0 || parallel_gpus(&layouts[i - 1]) <= parallel_gpus(&layouts[i]));
    for (size_t k = 0; k < i; k++)
      ck_assert(layouts_compare(&layouts[i], &layouts[k]) != 0);
  }
}
END_TEST

START_TEST(held_degrees_stay)
{
  struct workload workload = fixture_workload();
  const struct model model = mixture(64);
  struct layout layouts[LAYOUTS_MAX];
  workload.serving.tensor_parallel = 2;
  workload.serving.expert_parallel = 8;
  workload.serving.attention_data_parallel = 4;
  workload.serving.pipeline_parallel = 3;
  ck_assert_uint_eq(list(layouts, &workload, &model, "h100-sxm-80gb"), 1);
  ck_assert_mem_eq(&layouts[0], (&(struct layout){2, 3, 8, 4}), sizeof layouts[0]);
}
END_TEST

/* An impossible degree is handed on, so that the search can say why. */
START_TEST(an_impossible_degree_is_not_swallowed)
{
  struct workload workload = fixture_workload();
  const struct model model = fixture_model("llama-3-8b");
  struct layout layouts[LAYOUTS_MAX];
  workload.serving.tensor_parallel = 3;
  ck_assert_uint_eq(list(layouts, &workload, &model, "h100-sxm-80gb"), 1);
  ck_assert_uint_eq(layouts[0].tensor_parallel, 3);
}
END_TEST

START_TEST(the_quota_bounds_what_is_open)
{
  struct workload workload = fixture_workload();
  const struct model model = fixture_model("llama-3-8b");
  struct layout layouts[LAYOUTS_MAX];
  workload.constraints.gpu_quota = 3;
  ck_assert_uint_eq(list(layouts, &workload, &model, "h100-sxm-80gb"), 2);
  workload.serving.tensor_parallel = 8;
  ck_assert_uint_eq(list(layouts, &workload, &model, "h100-sxm-80gb"), 1);
}
END_TEST

static void assert_stages(const struct layout_wish *wish, const struct model *model, bool holds, unsigned from,
                          unsigned to)
{
  struct layout layout = {1, from, 1, 1};
  ck_assert(layouts_deepen(&layout, holds, wish, model) == (to != 0));
  ck_assert_uint_eq(layout.pipeline_parallel, to != 0 ? to : from);
}

/* One more while the model is not held, then doublings up to 8; none where stages are held, over the quota, over the
   layers, or in pools. */
START_TEST(stages_deepen)
{
  struct workload workload = fixture_workload();
  struct model model = fixture_model("llama-3-8b");
  struct layout_wish wish = layouts_wish(&workload);
  assert_stages(&wish, &model, false, 1, 2);
  assert_stages(&wish, &model, false, 4, 5);
  assert_stages(&wish, &model, true, 3, 6);
  assert_stages(&wish, &model, true, 6, 0);
  assert_stages(&wish, &model, false, 8, 0);
  wish.most_gpus = 5;
  assert_stages(&wish, &model, true, 3, 0);
  assert_stages(&wish, &model, false, 4, 5);
  wish.most_gpus = 0;
  wish.has_pools = true;
  assert_stages(&wish, &model, false, 1, 0);
  workload.serving.pipeline_parallel = 1;
  wish = layouts_wish(&workload);
  assert_stages(&wish, &model, false, 1, 0);
  workload.serving.pipeline_parallel = 0;
  wish = layouts_wish(&workload);
  model.layer_count = 2;
  assert_stages(&wish, &model, true, 2, 0);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("layouts");
  tcase_add_test(tcase, a_dense_model_is_cut_by_tensors);
  tcase_add_test(tcase, experts_are_spread_over_all_ranks_or_none);
  tcase_add_test(tcase, held_degrees_stay);
  tcase_add_test(tcase, an_impossible_degree_is_not_swallowed);
  tcase_add_test(tcase, the_quota_bounds_what_is_open);
  tcase_add_test(tcase, stages_deepen);
  return fixture_run("core/layouts", tcase);
}
