/* llama.cpp's single-stream decode and prefill: layer split over devices, one sequence, quantised weights streamed once a
   token. Fitted apart from the batching engines (STEPMODEL §4, last lines). Pure functions. */
#ifndef FITD_CORE_LLAMA_CPP_H
#define FITD_CORE_LLAMA_CPP_H

#include "core/hardware.h"
#include "core/model.h"

/* Bytes of one weight of a GGUF format in the mean over a model: q4_k_m 0.6, q8_0 1.06, f16 2. */
double llama_cpp_token_s(const struct model *model, const struct hardware *hardware, double bytes_per_weight,
                         double context_tokens);

/* Prompt tokens per second over `devices` (layers split; prompts pipeline a little). */
double llama_cpp_prefill_tok_s(const struct model *model, const struct hardware *hardware, double bytes_per_weight,
                               unsigned devices);

#endif
