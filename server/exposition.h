/* The text that exporters answer: Prometheus text format 0.0.4 and OpenMetrics 1.0, from bytes to samples. Pure: no
   socket, no clock, no globals; memory is one line at most, whatever the page.

   Policy, where specifications leave a choice or readers differ (each case: tests/data/exporters/parser_policy.tsv):
   - One fault refuses the page, with its line. The exception is a line whose name and labels are well formed and whose
     value is no number (words, "[N/A]", 12W, 1e400, nothing, a native histogram): with skips_values it is reported
     to `skipped` and left out, since exporters do print such lines.
   - Taken: a last line without its line feed (whoever fetched the page knows whether all of it came); names in quotes
     (Prometheus 3); repeated or late HELP and TYPE; samples of one family apart; the same series twice; escapes that
     the formats do not know, which stay as they are written; NUL in label values; one comma after the last label.
   - Text format also: CR before LF, blanks wherever tokens part, negative timestamps, types of OpenMetrics,
     gauge_histogram, `# EOF` as a comment.
   - Refused: bytes that are not UTF-8 in labels and help; a label name twice in one sample; more than
     EXPOSITION_LABELS_MAX labels; hexadecimal and underscored numbers; timestamps with a fraction (text format);
     anything after a timestamp.
   - Not judged: what values mean. Counters below zero, buckets out of order, missing +Inf are left to the reader.
   Threads: one parser, one thread. Errors: ERR_INVALID (line and reason), ERR_LIMIT (line or samples), ERR_NOMEM; the
   reasons hold nothing of the page, so that a page can not be read through them. */
#ifndef FITD_SERVER_EXPOSITION_H
#define FITD_SERVER_EXPOSITION_H

#include <stdint.h>

#include "core/error.h"

enum exposition_format { EXPOSITION_TEXT, EXPOSITION_OPENMETRICS };
/* By Content-Type; NULL and unknown types count as the text format. */
enum exposition_format exposition_format_of(const char *content_type);

#define EXPOSITION_LABELS_MAX 256

/* Bytes that are not terminated and may hold NULs; valid during the callback. */
struct exposition_text {
  const char *at;
  size_t length;
};
bool exposition_is(struct exposition_text text, const char *word);
/* A decimal number, NaN, Inf in any case, as values and bounds of buckets are written. False: it is none, or is beyond
   what a double holds. */
bool exposition_number(double *out, struct exposition_text text);

struct exposition_label {
  struct exposition_text name, value;
};

struct exposition_sample {
  struct exposition_text name;
  const struct exposition_label *labels;
  size_t label_count;
  double value; /* may be NaN or infinite */
  bool has_timestamp, has_exemplar;
  double timestamp_ms;
  const struct exposition_label *exemplar_labels;
  size_t exemplar_label_count;
  double exemplar_value;
};

struct exposition_sink {
  void (*sample)(void *cls, const struct exposition_sample *sample);
  /* A line left out, and why; NULL: a value that is no number refuses the page. */
  void (*skipped)(void *cls, uint64_t line, const char *reason);
  void *cls;
};

struct exposition_limits {
  size_t line_max_bytes;
  uint64_t samples_max;
};
#define EXPOSITION_LIMITS_DEFAULT ((struct exposition_limits){.line_max_bytes = 1 << 20, .samples_max = 200000})

struct exposition {
  enum exposition_format format;
  struct exposition_limits limits;
  struct exposition_sink sink;
  uint64_t line_count, sample_count, skipped_count;
  bool is_ended; /* `# EOF` was seen */
  char *carry;   /* the start of a line whose end has not come yet */
  size_t carry_length, carry_capacity;
  char *unescaped; /* label values of one line without their backslashes */
  size_t unescaped_capacity;
  struct exposition_label *labels; /* of the sample, then of its exemplar */
};

enum err exposition_init(struct exposition *parser, enum exposition_format format, struct exposition_limits limits,
                         struct exposition_sink sink, struct error *e) MUST_CHECK;
void exposition_fini(struct exposition *parser);
/* Any cut of the page into pieces gives the same samples. After an error nothing more may be fed. */
enum err exposition_feed(struct exposition *parser, const char *bytes, size_t count, struct error *e) MUST_CHECK;
/* The page is over. */
enum err exposition_finish(struct exposition *parser, struct error *e) MUST_CHECK;

#endif
