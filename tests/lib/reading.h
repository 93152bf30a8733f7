/* Reading the config.json of models in tests, and what came of it. The outcome is one for the process, replaced by every
   reading. Not for several threads. */
#ifndef FITD_TESTS_LIB_READING_H
#define FITD_TESTS_LIB_READING_H

#include <jansson.h>

#include "core/model.h"

struct reading_outcome {
  struct model model;
  struct faults faults;
  json_t *assumptions; /* owned by the outcome */
};
extern struct reading_outcome reading;

/* Around every test. */
void reading_prepare(void);
void reading_release(void);

/* A file of tests/data/models, owned by the scratch. */
json_t *reading_load(const char *file);
/* The side file that ModelOpt writes, or NULL. */
json_t *reading_load_quantisation(const char *file);

/* Reads under the pointer /hf_config: a document, a published config with its side file, and text with ' for ". */
void reading_read(const json_t *document, const json_t *quantisation);
void reading_read_file(const char *file);
void reading_read_text(const char *text);

bool reading_has_fault(const char *pointer, enum fault_code code);
/* Whether a sentence of the assumptions has these words. */
bool reading_assumes(const char *part);
const char *reading_first_fault(void); /* "no fault" when there is none */

/* Sums over the layers. */
unsigned long long reading_state_elements(void);
unsigned reading_windowed_layers(void);

/* Exactly equal: byte counts are whole numbers. */
bool reading_is_same(double seen, double wanted);

/* tests/data/model_facts.csv, row by row. */
#define READING_COLUMNS_MAX 64
struct reading_row {
  char *fields[READING_COLUMNS_MAX];
  size_t count;
};
struct reading_facts {
  struct reading_row header, row;
  char *rest;
};
void reading_facts_open(struct reading_facts *facts);
bool reading_facts_next(struct reading_facts *facts);
const char *reading_fact(const struct reading_facts *facts, const char *column);
unsigned long long reading_number(const struct reading_facts *facts, const char *column); /* 0 when empty */

#endif
