/* One line a profile, the same columns on a terminal and in Markdown; and figures as people read them. Private to api/. */
#ifndef FITD_API_CARD_TABLE_H
#define FITD_API_CARD_TABLE_H

#include <jansson.h>

#include "api/write.h"

enum card_column {
  COLUMN_PROFILE,
  COLUMN_VERDICT,
  COLUMN_GPUS,
  COLUMN_BATCH,
  COLUMN_TTFT,
  COLUMN_ITL,
  COLUMN_E2E,
  COLUMN_TOKENS,
  COLUMN_TOKEN_PRICE,
  COLUMN_MONTHLY,
  COLUMN_LIMIT,
  CARD_COLUMNS
};
extern const struct card_column_head {
  const char *title;
  bool is_number;
} card_column_heads[CARD_COLUMNS];

struct card_row {
  char cells[CARD_COLUMNS][72];
};
void card_row_make(struct card_row *row, const json_t *card);

/* The member at a dotted path ("latency.ttft_ms.p50"); NULL when there is none. */
const json_t *card_at(const json_t *value, const char *path);

/* Three significant digits, thousands separated: 0.0123, 18.4, 8,760; "-" when it is not a number. */
#define CARD_FIGURE_SIZE 40
const char *card_figure(char to[CARD_FIGURE_SIZE], const json_t *value, double factor);

/* "2,048 in / 256 out tokens, 4 requests/s" from the head's traffic; nothing without it. */
void card_traffic(struct text *text, const json_t *traffic);

/* "2 x h100-sxm-80gb: 1.23 USD per 1,000 …" of the recommended card, or why there is none. */
void card_recommendation(struct text *text, const json_t *document);

#endif
