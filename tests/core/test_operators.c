/* The operators of a step: shapes, FLOPs and bytes by hand. */
#include "core/operators.h"

#include "tests/core/fixtures.h"

static const struct op *find(const struct op *ops, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(ops[i].name, name) == 0)
      return &ops[i];
  ck_abort_msg("no operator \"%s\"", name);
  return NULL;
}

static size_t layer_operators(struct op ops[OPERATORS_LAYER_MAX], const char *name, unsigned tp,
                              const struct step_shape *shape)
{
  const struct model model = fixture_model(name);
  const struct layout layout = {tp, 1, 1, 1};
  struct model_precision precision;
  fixture_set_precision(&precision, PRECISION_BF16);
  return operators_of_layer(ops, &model, &model.layers[0], &precision, &layout, shape);
}

static void assert_linear(const struct op *op, double rows, double inputs, double outputs)
{
  ck_assert_int_eq(op->form, FORM_LINEAR);
  assert_close(op->rows, rows, 1e-12);
  assert_close(op->inputs, inputs, 1e-12);
  assert_close(op->outputs, outputs, 1e-12);
  assert_close(op->flops, 2 * rows * inputs * outputs, 1e-12);
  assert_close(op->weight_bytes, 2 * inputs * outputs, 1e-12);
  assert_close(op->activation_bytes, 2 * rows * (inputs + outputs), 1e-12);
}

/* Llama-3.1-70B, tp 8, 64 sequences at a context of 2176. A rank has 8 query heads and 1 KV head of 128 and 28672/8 = 3584
   of the intermediate size: qkv 8192 → (8 + 2·1)·128 = 1280; o 1024 → 8192; gate and up 8192 → 7168; down 3584 → 8192.
   KV read: 64 · 2176 tokens · 1 head · (128 + 128) · 2 B = 71,303,168 B; FLOPs 2·64·8·256·2176 = 570,425,344.
   All-reduce, twice: 2·7/8 · 64·8192·2 B = 1,835,008 B. Elementwise 20 · 64 · 8192 = 10,485,760 B. */
START_TEST(decode_layer_of_llama_70b_at_tp_8)
{
  const struct step_shape shape = {.decode_sequences = 64, .decode_context_tokens = 2176};
  struct op ops[OPERATORS_LAYER_MAX];
  const size_t n = layer_operators(ops, "llama-3.1-70b", 8, &shape);
  const struct op *attention;
  ck_assert_uint_eq(n, 8); /* four linears, attention, two all-reduces, one stream */
  assert_linear(find(ops, n, "qkv projection"), 64, 8192, 1280);
  assert_linear(find(ops, n, "output projection"), 64, 1024, 8192);
  assert_linear(find(ops, n, "gate and up projection"), 64, 8192, 7168);
  assert_linear(find(ops, n, "down projection"), 64, 3584, 8192);
  attention = find(ops, n, "decode attention");
  assert_close(attention->kv_bytes, 71303168, 1e-12);
  assert_close(attention->flops, 570425344, 1e-12);
  assert_close(find(ops, n, "all-reduce")->wire_bytes, 1835008, 1e-12);
  ck_assert_uint_eq(find(ops, n, "all-reduce")->devices, 8);
  assert_close(find(ops, n, "norms, activation, residuals")->activation_bytes, 10485760, 1e-12);
}
END_TEST

/* One prompt of 2048 tokens at tp 8, then the second half of one of 4096. F = 4·B·H·hd·(S(S+128)/2 + S·P), PREDICTOR §2c:
   S 2048, P 0: 4·8·128·(2048·2176/2) = 9,126,805,504; with P = 2048: + 4·8·128·2048² = 26,306,674,688.
   Bytes: queries and output 4·S·H·hd = 8,388,608; keys and values 4·(S+P)·kvh·hd = 1,048,576 and 2,097,152. */
START_TEST(prefill_attention_counts_half_the_square_and_all_of_the_past)
{
  struct step_shape shape = {.prefill_tokens = 2048, .prefill_sequences = 1};
  struct op ops[OPERATORS_LAYER_MAX];
  size_t n = layer_operators(ops, "llama-3.1-70b", 8, &shape);
  const struct op *attention = find(ops, n, "prefill attention");
  assert_close(attention->flops, 9126805504.0, 1e-12);
  assert_close(attention->activation_bytes, 8388608, 1e-12);
  assert_close(attention->kv_bytes, 1048576, 1e-12);
  assert_linear(find(ops, n, "qkv projection"), 2048, 8192, 1280);
  shape.prefill_past_tokens = 2048;
  n = layer_operators(ops, "llama-3.1-70b", 8, &shape);
  attention = find(ops, n, "prefill attention");
  assert_close(attention->flops, 26306674688.0, 1e-12);
  assert_close(attention->kv_bytes, 2097152, 1e-12);
}
END_TEST

START_TEST(a_mixed_step_has_both_attentions_and_all_rows)
{
  const struct step_shape shape = {
      .decode_sequences = 10, .decode_context_tokens = 100, .prefill_tokens = 90, .prefill_sequences = 1};
  struct op ops[OPERATORS_LAYER_MAX];
  const size_t n = layer_operators(ops, "llama-3.1-8b", 1, &shape);
  ck_assert_uint_eq(n, 7); /* no collective at tp 1 */
  assert_linear(find(ops, n, "qkv projection"), 100, 4096, 6144);
  (void)find(ops, n, "decode attention");
  (void)find(ops, n, "prefill attention");
}
END_TEST

START_TEST(tp_1_has_no_collective)
{
  const struct step_shape shape = {.decode_sequences = 10, .decode_context_tokens = 100};
  struct op ops[OPERATORS_LAYER_MAX];
  const size_t n = layer_operators(ops, "llama-3.1-8b", 1, &shape);
  for (size_t i = 0; i < n; i++) {
    ck_assert_int_ne(ops[i].group, OPERATOR_COLLECTIVE);
    ck_assert(ops[i].wire_bytes <= 0);
  }
}
END_TEST

/* KV heads are never fewer than one a rank: 8 heads at tp 16 read as much as at tp 8. */
START_TEST(kv_heads_are_replicated_never_split)
{
  const struct step_shape shape = {.decode_sequences = 1, .decode_context_tokens = 1000};
  struct op eight[OPERATORS_LAYER_MAX], sixteen[OPERATORS_LAYER_MAX];
  const size_t n = layer_operators(eight, "llama-3.1-70b", 8, &shape);
  ck_assert_uint_eq(layer_operators(sixteen, "llama-3.1-70b", 16, &shape), n);
  assert_close(find(sixteen, n, "decode attention")->kv_bytes, find(eight, n, "decode attention")->kv_bytes, 1e-12);
  assert_close(find(sixteen, n, "decode attention")->kv_bytes, 1000 * 256 * 2, 1e-12);
  assert_linear(find(sixteen, n, "qkv projection"), 1, 8192, (4 + 2) * 128);
}
END_TEST

/* Windows cap the context of a decode, and the pairs of a prefill at S·(w + 64) (STEPMODEL §2). */
START_TEST(windows_cap_attention)
{
  const struct layout layout = {1, 1, 1, 1};
  const struct step_shape shape = {
      .decode_sequences = 2, .decode_context_tokens = 5000, .prefill_tokens = 8192, .prefill_sequences = 1};
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct op ops[OPERATORS_LAYER_MAX];
  size_t n;
  model.layers[0].attention.window_tokens = 1024;
  fixture_set_precision(&precision, PRECISION_BF16);
  n = operators_of_layer(ops, &model, &model.layers[0], &precision, &layout, &shape);
  assert_close(find(ops, n, "decode attention")->kv_bytes, 2 * 1024 * 8 * 256 * 2.0, 1e-12);
  assert_close(find(ops, n, "prefill attention")->flops, 4.0 * 32 * 128 * 8192 * (1024 + 64), 1e-12);
}
END_TEST

START_TEST(formats_change_bytes_and_nothing_else)
{
  const struct model model = fixture_model("llama-3.1-8b");
  const struct layout layout = {1, 1, 1, 1};
  const struct step_shape shape = {.decode_sequences = 4, .decode_context_tokens = 1000};
  struct model_precision precision;
  struct op ops[OPERATORS_LAYER_MAX];
  size_t n;
  fixture_set_precision(&precision, PRECISION_BF16);
  precision.dense = PRECISION_FP8;
  precision.attention = PRECISION_NVFP4;
  precision.kv_cache = PRECISION_FP8;
  n = operators_of_layer(ops, &model, &model.layers[0], &precision, &layout, &shape);
  assert_close(find(ops, n, "down projection")->weight_bytes, 14336 * 4096.0, 1e-12);
  assert_close(find(ops, n, "qkv projection")->weight_bytes, 4096 * 6144 * 0.5625, 1e-12);
  assert_close(find(ops, n, "qkv projection")->flops, 2.0 * 4 * 4096 * 6144, 1e-12);
  assert_close(find(ops, n, "decode attention")->kv_bytes, 4 * 1000 * 8 * 256.0, 1e-12);
}
END_TEST

/* CORE §8: logits are needed for the last position of each prompt alone, and the head is there although embeddings are
   tied: Llama-3.1-8B tp 2: 64128 columns; sampling 12 B a logit. */
START_TEST(the_head_is_read_once_for_the_rows_that_need_it)
{
  const struct layout layout = {2, 1, 1, 1};
  const struct step_shape shape = {
      .decode_sequences = 30, .decode_context_tokens = 9, .prefill_tokens = 4000, .prefill_sequences = 2};
  struct model model = fixture_model("llama-3.1-8b");
  struct model_precision precision;
  struct op ops[OPERATORS_HEAD_MAX];
  fixture_set_precision(&precision, PRECISION_FP8);
  for (int tied = 0; tied < 2; tied++) {
    model.has_tied_embeddings = tied != 0;
    ck_assert_uint_eq(operators_of_head(ops, &model, &precision, &layout, &shape), 2);
    assert_linear(find(ops, 2, "lm_head"), 32, 4096, 64128);
    assert_close(find(ops, 2, "sampling")->activation_bytes, 12 * 32 * 64128.0, 1e-12);
  }
}
END_TEST

START_TEST(a_layer_without_gate_has_one_up_projection)
{
  const struct step_shape shape = {.decode_sequences = 3, .decode_context_tokens = 9};
  struct op ops[OPERATORS_LAYER_MAX];
  const size_t n = layer_operators(ops, "falcon-7b", 1, &shape);
  assert_linear(find(ops, n, "up projection"), 3, 4544, 18176);
  assert_linear(find(ops, n, "qkv projection"), 3, 4544, 73 * 64);
}
END_TEST

/* All weights of a step: 70B at tp 1 without the input embedding, which is gathered, not read: 70,553,706,496 parameters
   less 128256·8192 = 1,050,673,152 and the norms (161 · 8192 = 1,318,912): 69,501,714,432. */
START_TEST(weights_read_are_all_matrices_but_the_embedding)
{
  const struct model model = fixture_model("llama-3.1-70b");
  const struct layout layout = {1, 1, 1, 1};
  const struct step_shape shape = {.decode_sequences = 1, .decode_context_tokens = 1};
  struct model_precision precision;
  struct op ops[OPERATORS_LAYER_MAX];
  double bytes = 0;
  size_t n;
  fixture_set_precision(&precision, PRECISION_BF16);
  n = operators_of_layer(ops, &model, &model.layers[0], &precision, &layout, &shape);
  for (size_t i = 0; i < n; i++)
    bytes += 80 * ops[i].weight_bytes;
  n = operators_of_head(ops, &model, &precision, &layout, &shape);
  for (size_t i = 0; i < n; i++)
    bytes += ops[i].weight_bytes;
  assert_close(bytes, 2 * 69501714432.0, 1e-12);
}
END_TEST

START_TEST(groups_have_names)
{
  ck_assert_str_eq(operator_group_name(OPERATOR_LINEAR), "linear");
  ck_assert_str_eq(operator_group_name(OPERATOR_ATTENTION), "attention");
  ck_assert_str_eq(operator_group_name(OPERATOR_COLLECTIVE), "collective");
  ck_assert_str_eq(operator_group_name(OPERATOR_ELEMENTWISE), "elementwise");
  ck_assert_str_eq(operator_group_name(OPERATOR_HEAD), "head");
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("operators");
  tcase_add_test(tcase, decode_layer_of_llama_70b_at_tp_8);
  tcase_add_test(tcase, prefill_attention_counts_half_the_square_and_all_of_the_past);
  tcase_add_test(tcase, a_mixed_step_has_both_attentions_and_all_rows);
  tcase_add_test(tcase, tp_1_has_no_collective);
  tcase_add_test(tcase, kv_heads_are_replicated_never_split);
  tcase_add_test(tcase, windows_cap_attention);
  tcase_add_test(tcase, formats_change_bytes_and_nothing_else);
  tcase_add_test(tcase, the_head_is_read_once_for_the_rows_that_need_it);
  tcase_add_test(tcase, a_layer_without_gate_has_one_up_projection);
  tcase_add_test(tcase, weights_read_are_all_matrices_but_the_embedding);
  tcase_add_test(tcase, groups_have_names);
  return fixture_run("core/operators", tcase);
}
