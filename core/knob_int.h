/* What core/knob.c and core/knob_model.c share. Private to them. */
#ifndef FITD_CORE_KNOB_INT_H
#define FITD_CORE_KNOB_INT_H

#include "core/knob.h"

/* Fields of the architecture outside of its layers. */
#define KNOB_MODEL_OUTER                                                                                               \
  "/model/num_hidden_layers", "/model/hidden_size", "/model/vocab_size", "/model/max_context_tokens",

enum knob_storage {
  KNOB_REAL,  /* double; NaN = not given */
  KNOB_WHOLE, /* likewise, whole numbers */
  KNOB_COUNT, /* unsigned; 0 = not given */
  KNOB_LENGTH,
  KNOB_FLAG, /* int; -1 = not given */
  KNOB_FORMAT,
  KNOB_SPREAD, /* precision, of all that the sketch gives as one word */
  KNOB_ARRIVAL,
  KNOB_WORD /* char[] */
};

struct knob {
  const char *pointer;
  enum knob_storage storage;
  bool is_nullable;
  size_t offset, size;
  double least, most;
};

bool knob_model_kind(enum knob_kind *kind, const char *pointer, const struct model *model);
enum err knob_model_get(struct knob_value *out, const char *pointer, const struct model *model,
                        struct error *e) MUST_CHECK;
enum err knob_model_set(struct model *model, const char *pointer, const struct knob_value *value,
                        struct error *e) MUST_CHECK;

enum err knob_wrong_type(struct error *e, const char *pointer, const char *expected, enum knob_type seen);
/* A number within bounds; ERR_INVALID with the pointer. */
enum err knob_number_in(double *out, const char *pointer, const struct knob_value *value, bool is_whole, double least,
                        double most, struct error *e) MUST_CHECK;

#endif
