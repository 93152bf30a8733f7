/* Shared by the memory sums. Private to core/memory*.c. */
#ifndef FITD_CORE_MEMORY_INT_H
#define FITD_CORE_MEMORY_INT_H

#include "core/memory.h"

/* ⌈value / parts⌉. */
double memory_split(unsigned value, unsigned parts);

/* Vocabulary rows as engines allocate them: padded to a multiple of 64. */
double memory_padded_vocabulary(const struct model *model);

#endif
