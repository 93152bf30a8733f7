/* Lengths of the requests that public benchmarks send: those of data sets where a table does not state any, and how they
   spread. Private to api/accuracy.c. */
#ifndef FITD_API_DATA_SETS_H
#define FITD_API_DATA_SETS_H

#include "core/benchmark.h"

/* Completes lengths, their spread and the number of requests. Lengths that the row states are set; NaN = not stated. */
void data_sets_apply(struct benchmark *benchmark, bool is_mlperf);

#endif
