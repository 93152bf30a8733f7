/* `fitd accuracy`: predictions against a table of measurements. Rows of measured_open.csv's form; models and hardware come
   from the catalogue or from the caller's lookup. Private to api/; the public entry is api_accuracy in api/api.h. */
#ifndef FITD_API_ACCURACY_H
#define FITD_API_ACCURACY_H

#include <jansson.h>

#include "api/catalogue.h"
#include "core/benchmark.h"

enum accuracy_metric {
  ACCURACY_TPOT,
  ACCURACY_TPOT_TAIL,
  ACCURACY_TTFT,
  ACCURACY_TTFT_TAIL,
  ACCURACY_E2E,
  ACCURACY_E2E_TAIL,
  ACCURACY_THROUGHPUT,
  ACCURACY_METRIC_COUNT
};
const char *accuracy_metric_name(enum accuracy_metric metric);

/* One answered row. */
struct accuracy_row {
  char id[32];
  char hardware[65], model[129];
  enum accuracy_metric metric;
  enum benchmark_load load;
  bool is_offered_rate;       /* throughput of a Poisson run: what was offered, not what was reached */
  double measured, predicted; /* in the row's unit */
  bool has_band;
  struct band band;
  enum band_class band_class;
};
struct accuracy_refusal {
  char id[32];
  char reason[320];
};
struct accuracy {
  struct accuracy_row *rows; /* owned */
  size_t row_count;
  struct accuracy_refusal *refusals; /* owned */
  size_t refusal_count;
  size_t total;
};
void accuracy_fini(struct accuracy *accuracy);

/* Constants per left-out group: `constants_of` gives those for a row's hardware and model. */
struct accuracy_constants {
  const struct step_constants *all;
  const struct accuracy_fold *folds;
  size_t fold_count;
};
struct accuracy_fold {
  char hardware[65], model[129];
  struct step_constants constants;
};

/* A model of the caller's own: *found tells whether there is one by that name. An error refuses the row with its message. */
typedef enum err accuracy_find_model(struct model *out, bool *found, const char *name, void *cls, struct error *e);

/* Reads and predicts the whole table. ERR_INVALID names the line or the missing column. */
enum err accuracy_run(struct accuracy *out, const char *csv, size_t length, const struct catalogue_snapshot *catalogue,
                      const struct accuracy_constants *constants, accuracy_find_model *find_model, void *find_cls,
                      struct error *e) MUST_CHECK;

/* The documents of CORE §8: JSON, a table to read, and the rows themselves. NULL when memory is out. */
json_t *accuracy_write_json(const struct accuracy *accuracy);
char *accuracy_write_text(const struct accuracy *accuracy); /* Markdown; malloc'ed */
char *accuracy_write_rows(const struct accuracy *accuracy); /* CSV; malloc'ed */

#endif
