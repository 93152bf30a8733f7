/* Exposition pages: the first byte chooses format, skipping and the size of pieces, the rest is the page. However it is cut,
   the parser must say the same, within its bounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/exposition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
  enum err code;
  uint64_t digest, sample_count, skipped_count;
  struct error e;
};

/* FNV-1a over everything a sample holds. */
static void add(uint64_t *digest, const void *bytes, size_t count)
{
  const unsigned char *at = bytes;
  for (size_t i = 0; i < count; i++)
    *digest = (*digest ^ at[i]) * 1099511628211u;
}

static void add_labels(uint64_t *digest, const struct exposition_label *labels, size_t count)
{
  if (count > EXPOSITION_LABELS_MAX)
    abort();
  for (size_t i = 0; i < count; i++) {
    if (labels[i].name.length == 0)
      abort();
    add(digest, labels[i].name.at, labels[i].name.length);
    add(digest, "=", 1);
    add(digest, labels[i].value.at, labels[i].value.length);
  }
}

static void take_sample(void *cls, const struct exposition_sample *sample)
{
  struct outcome *outcome = cls;
  if (sample->name.length == 0)
    abort();
  add(&outcome->digest, sample->name.at, sample->name.length);
  add_labels(&outcome->digest, sample->labels, sample->label_count);
  add(&outcome->digest, &sample->value, sizeof sample->value);
  if (sample->has_timestamp)
    add(&outcome->digest, &sample->timestamp_ms, sizeof sample->timestamp_ms);
  if (sample->has_exemplar)
    add_labels(&outcome->digest, sample->exemplar_labels, sample->exemplar_label_count);
  outcome->sample_count++;
}

static void leave_out(void *cls, uint64_t line, const char *reason)
{
  struct outcome *outcome = cls;
  add(&outcome->digest, &line, sizeof line);
  add(&outcome->digest, reason, strlen(reason));
  outcome->skipped_count++;
}

static struct outcome run(const char *bytes, size_t size, size_t piece, unsigned choice)
{
  static const struct exposition_limits limits = {.line_max_bytes = 4096, .samples_max = 1000};
  struct outcome outcome = {.digest = 14695981039346656037u};
  const struct exposition_sink sink = {take_sample, choice & 2 ? leave_out : NULL, &outcome};
  struct exposition parser;
  outcome.code =
      exposition_init(&parser, choice & 1 ? EXPOSITION_OPENMETRICS : EXPOSITION_TEXT, limits, sink, &outcome.e);
  for (size_t at = 0; at < size && outcome.code == ERR_OK; at += piece) {
    const size_t count = size - at < piece ? size - at : piece;
    char *copy = malloc(count);
    if (copy == NULL)
      abort();
    memcpy(copy, bytes + at, count);
    outcome.code = exposition_feed(&parser, copy, count, &outcome.e);
    free(copy);
  }
  if (outcome.code == ERR_OK)
    outcome.code = exposition_finish(&parser, &outcome.e);
  if (outcome.code != ERR_OK && outcome.e.message[0] == '\0')
    abort();
  exposition_fini(&parser);
  return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct outcome whole, cut;
  if (size == 0)
    return 0;
  whole = run((const char *)data + 1, size - 1, size, data[0]);
  cut = run((const char *)data + 1, size - 1, (size_t)(data[0] >> 2) + 1, data[0]);
  if (whole.code != cut.code || whole.digest != cut.digest || whole.sample_count != cut.sample_count ||
      whole.skipped_count != cut.skipped_count || strcmp(whole.e.message, cut.e.message) != 0)
    abort();
  return 0;
}
