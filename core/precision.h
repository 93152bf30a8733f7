/* Number formats: bytes an element takes, and what a device × format pair really runs as.
   Nothing here allocates or fails; all functions are pure and may be called from any thread. */
#ifndef FITD_CORE_PRECISION_H
#define FITD_CORE_PRECISION_H

#include <stdbool.h>

struct hardware;

enum precision {
  PRECISION_NONE, /* not given */
  PRECISION_FP32,
  PRECISION_BF16,
  PRECISION_FP16,
  PRECISION_FP8,
  PRECISION_INT8,
  PRECISION_INT4,  /* GPTQ, AWQ, w4a16: group scales and zero points included in the bytes */
  PRECISION_NF4,   /* bitsandbytes */
  PRECISION_NVFP4, /* e2m1 with an fp8 scale every 16 elements */
  PRECISION_MXFP4, /* e2m1 with an e8m0 scale every 32 elements */
  PRECISION_COUNT
};

/* How a device executes a matrix product whose weights are stored in a format. */
enum precision_support {
  PRECISION_NATIVE,      /* tensor units of that format */
  PRECISION_WEIGHT_ONLY, /* bytes saved, 16-bit math */
  PRECISION_FALLBACK,    /* stored and computed in another format of the same or larger size */
  PRECISION_UNSUPPORTED
};

/* Wire name ("bf16"); never NULL. */
const char *precision_name(enum precision precision);

/* The format of a wire name or one of its aliases ("bfloat16", "float16", "e4m3", "w4a16" …); PRECISION_NONE when unknown. */
enum precision precision_parse(const char *name);

/* Bytes of one weight, scales included: bf16 2, fp8 1, int4 0.53, nvfp4 0.5625, mxfp4 0.53125 (STEPMODEL §1.4). 0 for NONE. */
double precision_weight_bytes(enum precision precision);

/* Bytes of one element of a KV cache or an activation in that format, without scales. */
double precision_element_bytes(enum precision precision);

/* What `weights` runs as on the device. *math gets the format whose peak applies (e.g. fp8 on A100: WEIGHT_ONLY, bf16).
   `activations` PRECISION_NONE means: whatever the device does natively for those weights. */
enum precision_support precision_support(const struct hardware *hardware, enum precision weights,
                                         enum precision activations, enum precision *math);

const char *precision_support_name(enum precision_support support);

#endif
