/* One line a profile, the same columns on a terminal and in Markdown; and figures as people read them. Private to api/. */
#ifndef FITD_API_CARD_TABLE_H
#define FITD_API_CARD_TABLE_H

#include <jansson.h>

#include "api/write.h"

enum card_column {
  COLUMN_PROFILE,
  COLUMN_VERDICT,
  COLUMN_GPUS,
  COLUMN_TTFT,
  COLUMN_ITL,
  COLUMN_SUCCESS,
  COLUMN_TOKEN_PRICE,
  COLUMN_MONTHLY,
  COLUMN_LIMIT,
  COLUMN_TOKENS, /* the offered load decides it: the first to go */
  CARD_COLUMNS
};
extern const struct card_column_head {
  const char *title, *title_p99; /* in a table where any card was simulated */
  bool is_number;
} card_column_heads[CARD_COLUMNS];

/* Any of the cards has the 99th percentiles. Their table shows these, and says "p50" in the cells of cards without. */
bool cards_have_p99(const json_t *cards);
const char *card_column_title(enum card_column column, bool is_p99);

struct card_row {
  char cells[CARD_COLUMNS][72];
};
void card_row_make(struct card_row *row, const json_t *card, bool is_p99);

/* The member at a dotted path ("latency.ttft_ms.p50"); NULL when there is none. */
const json_t *card_at(const json_t *value, const char *path);

/* Three significant digits, thousands separated: 0.0123, 18.4, 8,760; "-" when it is not a number. */
#define CARD_FIGURE_SIZE 40
const char *card_figure(char to[CARD_FIGURE_SIZE], const json_t *value, double factor);

/* "2,048 in / 256 out tokens, 4 requests/s" from the head's traffic; nothing without it. */
void card_traffic(struct text *text, const json_t *traffic);

/* "2 x h100-sxm-80gb: 1.23 USD per 1,000 …" of the recommended card, or why there is none. */
void card_recommendation(struct text *text, const json_t *document);
/* "next: …", the first way out of the first card, or the first advice of the recommended one; nothing without either. */
void card_next_step(struct text *text, const json_t *document);

#endif
