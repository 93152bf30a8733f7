/* The exposition parser against 300 inputs that other readers judged (tests/data/exporters): what all of them take, with
   exactly their samples; what all refuse; and the stated policy where they differ. */
#include "server/exposition.h"
#include "tests/lib/doc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading a page into JSON ---- */

struct page {
  json_t *samples; /* [{"name", "labels", "value", "timestamp_ms", "exemplar"}] with values as text */
  size_t skipped;
  uint64_t skipped_line;
  struct error e;
};

static char *exact(double value)
{
  if (isnan(value))
    return scratch_printf("NaN");
  if (fpclassify(value) == FP_ZERO) /* of either sign: the cases print both as 0 */
    return scratch_printf("0");
  return isinf(value) ? scratch_printf(value > 0 ? "+Inf" : "-Inf") : scratch_printf("%.17g", value);
}

static json_t *labels_of(const struct exposition_label *labels, size_t count)
{
  json_t *object = json_object();
  for (size_t i = 0; i < count; i++) {
    char *name = scratch_printf("%.*s", (int)labels[i].name.length, labels[i].name.at);
    json_t *value = json_stringn(labels[i].value.length > 0 ? labels[i].value.at : "", labels[i].value.length);
    ck_assert_msg(json_object_get(object, name) == NULL, "label %s twice", name);
    ck_assert_int_eq(json_object_set_new(object, name, value), 0);
  }
  return object;
}

static void take_sample(void *cls, const struct exposition_sample *sample)
{
  struct page *page = cls;
  json_t *one = json_object();
  json_object_set_new(one, "name", json_stringn(sample->name.at, sample->name.length));
  json_object_set_new(one, "labels", labels_of(sample->labels, sample->label_count));
  json_object_set_new(one, "value", json_string(exact(sample->value)));
  if (sample->has_timestamp)
    json_object_set_new(one, "timestamp_ms", json_string(exact(sample->timestamp_ms)));
  if (sample->has_exemplar) {
    json_t *exemplar = json_object();
    json_object_set_new(exemplar, "labels", labels_of(sample->exemplar_labels, sample->exemplar_label_count));
    json_object_set_new(exemplar, "value", json_string(exact(sample->exemplar_value)));
    json_object_set_new(one, "exemplar", exemplar);
  }
  json_array_append_new(page->samples, one);
}

static void take_skipped(void *cls, uint64_t line, const char *reason)
{
  struct page *page = cls;
  ck_assert_ptr_nonnull(reason);
  page->skipped++;
  page->skipped_line = line;
}

struct reading {
  enum exposition_format format;
  bool skips;
  size_t piece; /* bytes fed at a time; 0 = all */
  struct exposition_limits limits;
};

static enum err read_page(struct page *page, const char *bytes, size_t length, struct reading how)
{
  struct exposition parser;
  const struct exposition_sink sink = {take_sample, how.skips ? take_skipped : NULL, page};
  enum err code;
  *page = (struct page){.samples = scratch_json_steal(json_array())};
  if (how.limits.samples_max == 0)
    how.limits = EXPOSITION_LIMITS_DEFAULT;
  ck_assert_int_eq(exposition_init(&parser, how.format, how.limits, sink, &page->e), ERR_OK);
  code = ERR_OK;
  for (size_t at = 0; at < length && code == ERR_OK;) {
    const size_t count = how.piece == 0 || length - at < how.piece ? length - at : how.piece;
    char *copy = malloc(count); /* of its own, so that reading past it is seen */
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes + at, count);
    code = exposition_feed(&parser, copy, count, &page->e);
    free(copy);
    at += count;
  }
  if (code == ERR_OK)
    code = exposition_finish(&parser, &page->e);
  exposition_fini(&parser);
  return code;
}

static enum err read_text(struct page *page, const char *text)
{
  return read_page(page, text, strlen(text), (struct reading){.format = EXPOSITION_TEXT});
}

/* ---- The cases ---- */

static json_t *cases;
static json_t *policy; /* {name: verdict} */

static char *decode_base64(const char *text, size_t *length)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *bytes = scratch_alloc(strlen(text) + 1);
  unsigned bits = 0, held = 0;
  *length = 0;
  for (; *text != '\0' && *text != '='; text++) {
    const char *digit = strchr(digits, *text);
    ck_assert_ptr_nonnull(digit);
    bits = bits << 6 | (unsigned)(digit - digits);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[(*length)++] = (char)(bits >> held & 0xFF);
    }
  }
  return bytes;
}

static char *generate(const char *name, size_t *length)
{
  char *text = scratch_alloc(300000), *at = text;
  if (strcmp(name, "extra/many_series_5000") == 0) {
    at += snprintf(at, 100, "# TYPE m gauge\n");
    for (int i = 0; i < 5000; i++)
      at += snprintf(at, 100, "m{i=\"%d\"} %d\n", i, i);
  } else {
    ck_assert_str_eq(name, "extra/one_long_line");
    at += snprintf(at, 10, "m{a=\"");
    memset(at, 'x', 200000);
    at += 200000;
    at += snprintf(at, 10, "\"} 1\n");
  }
  *length = (size_t)(at - text);
  return text;
}

static const char *input_of(const json_t *one, size_t *length)
{
  const json_t *input = json_object_get(one, "input"), *encoded = json_object_get(one, "input_b64");
  if (encoded != NULL)
    return decode_base64(json_string_value(encoded), length);
  if (input == NULL) {
    const char *text = generate(doc_text(one, "name"), length);
    ck_assert_uint_eq(*length, (size_t)doc_number(one, "input_bytes"));
    return text;
  }
  *length = json_string_length(input);
  return json_string_value(input);
}

static void load_cases(void)
{
  char *text = scratch_read_file(suite_source_path("tests/data/exporters/parser_cases.jsonl"));
  char *rest = scratch_read_file(suite_source_path("tests/data/exporters/parser_policy.tsv")), *line;
  cases = scratch_json_steal(json_array());
  for (char *at = text; *at != '\0';) {
    const size_t length = strcspn(at, "\n");
    json_t *one = json_loadb(at, length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert_ptr_nonnull(one);
    json_array_append_new(cases, one);
    at += length + (at[length] == '\n');
  }
  ck_assert_uint_eq(json_array_size(cases), 300);
  policy = scratch_json_steal(json_object());
  while ((line = strsep(&rest, "\n")) != NULL) {
    const char *name = strsep(&line, "\t"), *verdict = strsep(&line, "\t");
    if (verdict != NULL)
      json_object_set_new(policy, name, json_string(verdict));
  }
}

/* Doubles compare as doubles: the cases print them otherwise. */
static void normalise(json_t *sample)
{
  const char *value = doc_text(sample, "value");
  json_t *timestamp = json_object_get(sample, "timestamp_ms"), *exemplar = json_object_get(sample, "exemplar");
  json_object_set_new(sample, "value", json_string(exact(strtod(value, NULL))));
  if (json_is_number(timestamp))
    json_object_set_new(sample, "timestamp_ms", json_string(exact(json_number_value(timestamp))));
  else if (timestamp != NULL && json_is_null(timestamp))
    json_object_del(sample, "timestamp_ms");
  if (json_is_object(exemplar)) {
    json_object_set_new(exemplar, "value", json_string(exact(strtod(doc_text(exemplar, "value"), NULL))));
    json_object_del(exemplar, "timestamp");
    json_object_del(exemplar, "timestamp_ms");
  } else if (exemplar != NULL) {
    json_object_del(sample, "exemplar");
  }
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The samples as sorted lines. */
static char *as_set(json_t *samples)
{
  const size_t count = json_array_size(samples);
  char **lines = scratch_alloc((count + 1) * sizeof *lines), *all, *at;
  size_t bytes = 1;
  for (size_t i = 0; i < count; i++) {
    lines[i] = json_dumps(json_array_get(samples, i), JSON_SORT_KEYS | JSON_COMPACT);
    ck_assert_ptr_nonnull(lines[i]);
    bytes += strlen(lines[i]) + 1;
  }
  qsort(lines, count, sizeof *lines, by_text);
  at = all = scratch_alloc(bytes);
  for (size_t i = 0; i < count; i++) {
    at += snprintf(at, bytes - (size_t)(at - all), "%s\n", lines[i]);
    free(lines[i]);
  }
  return all;
}

static json_t *jsonl_samples_of(json_t *one)
{
  json_t *samples = json_object_get(one, "samples"), *sample;
  size_t i;
  if (!json_is_array(samples))
    samples = json_object_get(one, "samples_first5");
  json_array_foreach(samples, i, sample) normalise(sample);
  return samples;
}

static void check_samples(json_t *one, struct page *page)
{
  json_t *expected = jsonl_samples_of(one);
  if (!json_is_array(expected))
    return;
  if (json_object_get(one, "samples_count") != NULL) {
    ck_assert_uint_eq(json_array_size(page->samples), (size_t)doc_number(one, "samples_count"));
    while (json_array_size(page->samples) > json_array_size(expected))
      json_array_remove(page->samples, json_array_size(page->samples) - 1);
  }
  ck_assert_msg(strcmp(as_set(page->samples), as_set(expected)) == 0, "%s:\nread\n%.3000s\nexpected\n%.3000s",
                doc_text(one, "name"), as_set(page->samples), as_set(expected));
}

static enum err read_case(struct page *page, json_t *one, size_t piece, bool skips)
{
  size_t length;
  const char *input = input_of(one, &length);
  const bool is_text = strcmp(doc_text(one, "format"), "text") == 0;
  return read_page(page, input, length,
                   (struct reading){is_text ? EXPOSITION_TEXT : EXPOSITION_OPENMETRICS, skips, piece, {0, 0}});
}

static void accepts(json_t *one)
{
  static const size_t pieces[] = {0, 1, 7};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    struct page page;
    if (pieces[i] == 1 && json_object_get(one, "input") == NULL)
      continue;
    ck_assert_msg(read_case(&page, one, pieces[i], false) == ERR_OK, "%s: %s", doc_text(one, "name"), page.e.message);
    check_samples(one, &page);
  }
}

/* Refused with a line, and with the same sentence however the bytes come. */
static void rejects(json_t *one)
{
  struct page whole, bytewise;
  ck_assert_msg(read_case(&whole, one, 0, false) == ERR_INVALID, "%s is taken", doc_text(one, "name"));
  ck_assert_msg(strncmp(whole.e.message, "line ", 5) == 0 && strstr(whole.e.message, ": ") != NULL, "%s: \"%s\"",
                doc_text(one, "name"), whole.e.message);
  ck_assert_int_eq(read_case(&bytewise, one, 1, false), ERR_INVALID);
  ck_assert_str_eq(whole.e.message, bytewise.e.message);
}

static void skips(json_t *one)
{
  struct page page;
  rejects(one);
  ck_assert_msg(read_case(&page, one, 0, true) == ERR_OK, "%s: %s", doc_text(one, "name"), page.e.message);
  ck_assert_uint_ge(page.skipped, 1);
}

static size_t each_case(const char *tier, void (*check)(json_t *one))
{
  size_t i, count = 0;
  json_t *one;
  json_array_foreach(cases, i, one) if (strcmp(doc_text(one, "tier"), tier) == 0)
  {
    check(one);
    count++;
  }
  return count;
}

static void follows_policy(json_t *one)
{
  const char *verdict = json_string_value(json_object_get(policy, doc_text(one, "name")));
  ck_assert_msg(verdict != NULL, "no policy for %s", doc_text(one, "name"));
  if (strcmp(verdict, "accept") == 0) {
    accepts(one);
  } else if (strcmp(verdict, "skip") == 0) {
    skips(one);
  } else {
    ck_assert_str_eq(verdict, "reject");
    rejects(one);
  }
}

START_TEST(takes_what_all_take)
{
  ck_assert_uint_eq(each_case("must_accept", accepts), 64);
}
END_TEST
START_TEST(refuses_what_all_refuse)
{
  ck_assert_uint_eq(each_case("must_reject", rejects), 143);
}
END_TEST
START_TEST(follows_its_policy_elsewhere)
{
  ck_assert_uint_eq(each_case("either", follows_policy), 93);
}
END_TEST

/* ---- Faults, limits, skipped lines ---- */

START_TEST(names_the_line_and_the_place)
{
  struct page page;
  ck_assert_int_eq(read_text(&page, "a 1\nb{c=1} 2\n"), ERR_INVALID);
  ck_assert_str_eq(page.e.message, "line 2, column 5: expected a label value in double quotes");
  ck_assert_int_eq(read_text(&page, "a 1\n\nm 12W\n"), ERR_INVALID);
  ck_assert_str_eq(page.e.message, "line 3, column 6: the value is not a number");
}
END_TEST

START_TEST(leaves_out_values_that_are_no_numbers)
{
  const char *text =
      "a{gpu=\"0\"} 1\nname{gpu=\"0\"} NVIDIA H100 80GB HBM3\nb{gpu=\"0\"} ERROR - FAILED TO CONVERT TO STRING\n"
      "c 2\nd\n";
  struct page page;
  ck_assert_int_eq(read_page(&page, text, strlen(text), (struct reading){.skips = true}), ERR_OK);
  ck_assert_uint_eq(page.skipped, 3);
  ck_assert_uint_eq(page.skipped_line, 5);
  ck_assert_uint_eq(json_array_size(page.samples), 2);
  ck_assert_str_eq(doc_text(page.samples, "1.name"), "c");
}
END_TEST

START_TEST(skipping_does_not_forgive_structure)
{
  const char *text = "a{gpu=\"0\" 1\n";
  struct page page;
  ck_assert_int_eq(read_page(&page, text, strlen(text), (struct reading){.skips = true}), ERR_INVALID);
}
END_TEST

START_TEST(bounds_lines_and_samples)
{
  const struct exposition_limits tight = {.line_max_bytes = 8, .samples_max = 2};
  struct page page;
  for (size_t piece = 0; piece < 9; piece++) {
    ck_assert_int_eq(read_page(&page, "abcdef 1\n", 9, (struct reading){.piece = piece, .limits = tight}), ERR_OK);
    ck_assert_int_eq(read_page(&page, "abcdefg 1\n", 10, (struct reading){.piece = piece, .limits = tight}), ERR_LIMIT);
    ck_assert_str_eq(page.e.message, "line 1 is longer than 8 bytes");
  }
  ck_assert_int_eq(read_page(&page, "a 1\nb 1\nc 1\n", 12, (struct reading){.limits = tight}), ERR_LIMIT);
  ck_assert_str_eq(page.e.message, "line 3: more than 2 samples");
}
END_TEST

START_TEST(bounds_labels)
{
  const char *labels = "";
  struct page page;
  for (unsigned i = 0; i < EXPOSITION_LABELS_MAX; i++)
    labels = scratch_printf("%sl%u=\"\",", labels, i);
  ck_assert_int_eq(read_text(&page, scratch_printf("m{%s} 1\n", labels)), ERR_OK);
  ck_assert_int_eq(read_text(&page, scratch_printf("m{%sz=\"\"} 1\n", labels)), ERR_INVALID);
  ck_assert_ptr_nonnull(strstr(page.e.message, "too many labels"));
}
END_TEST

/* Each value is what strtod makes of it: both are the nearest double. */
START_TEST(reads_numbers_exactly)
{
  static const char *const numbers[] = {"0",
                                        "-0",
                                        "1",
                                        "0.1",
                                        "123456789012345678",
                                        "1234567890123456789",
                                        "9007199254740993",
                                        "9007199254740992",
                                        "9223372036854775794",
                                        "0.013300656000000001",
                                        "1.7976931348623157e308",
                                        "4.9e-324",
                                        "2.2250738585072014e-308",
                                        "1e22",
                                        "1e23",
                                        "8.98846567431158e307",
                                        "0.000000000000000000000000000001234567",
                                        "100000000000000000000000000000",
                                        "1e-400",
                                        "3.",
                                        ".5e1",
                                        "+5e-1",
                                        "0000000000000000000000000000000000000000001.2e-1"};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct page page;
    ck_assert_msg(read_text(&page, scratch_printf("m %s\n", numbers[i])) == ERR_OK, "%s: %s", numbers[i],
                  page.e.message);
    ck_assert_str_eq(doc_text(page.samples, "0.value"), exact(strtod(numbers[i], NULL)));
  }
}
END_TEST

START_TEST(refuses_what_is_no_number)
{
  static const char *const words[] = {"1e",   "e1",  ".",   "+",      "-",   "1.2.3", "0x10", "1_0",
                                      "+NaN", "nil", "1e+", "--1",    "1,5", "[N/A]", "infi", "1e999999999999",
                                      "12W",  "+-1", "in",  "infinit"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    struct page page;
    ck_assert_msg(read_text(&page, scratch_printf("m %s\n", words[i])) == ERR_INVALID, "%s", words[i]);
  }
}
END_TEST

START_TEST(knows_openmetrics_by_its_type)
{
  ck_assert_int_eq(exposition_format_of("application/openmetrics-text; version=1.0.0; charset=utf-8"),
                   EXPOSITION_OPENMETRICS);
  ck_assert_int_eq(exposition_format_of("text/plain; version=0.0.4"), EXPOSITION_TEXT);
  ck_assert_int_eq(exposition_format_of(NULL), EXPOSITION_TEXT);
}
END_TEST

START_TEST(nothing_is_a_page_without_samples)
{
  struct page page;
  ck_assert_int_eq(read_text(&page, ""), ERR_OK);
  ck_assert_uint_eq(json_array_size(page.samples), 0);
  ck_assert_int_eq(read_page(&page, "", 0, (struct reading){.format = EXPOSITION_OPENMETRICS}), ERR_INVALID);
  ck_assert_str_eq(page.e.message, "line 1: the page ends without # EOF");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("exposition");
  TCase *judged = suite_case(suite, "judged by others", load_cases, scratch_release);
  TCase *own = suite_case(suite, "own", NULL, scratch_release);
  tcase_add_test(judged, takes_what_all_take);
  tcase_add_test(judged, refuses_what_all_refuse);
  tcase_add_test(judged, follows_its_policy_elsewhere);
  tcase_add_test(own, names_the_line_and_the_place);
  tcase_add_test(own, leaves_out_values_that_are_no_numbers);
  tcase_add_test(own, skipping_does_not_forgive_structure);
  tcase_add_test(own, bounds_lines_and_samples);
  tcase_add_test(own, bounds_labels);
  tcase_add_test(own, reads_numbers_exactly);
  tcase_add_test(own, refuses_what_is_no_number);
  tcase_add_test(own, knows_openmetrics_by_its_type);
  tcase_add_test(own, nothing_is_a_page_without_samples);
  return suite_run(suite);
}
