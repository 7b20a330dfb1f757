/* block_rate.h: the rate at which this CPU multiplies blocks of a form (block_form.h) whose
 * operands lie in a cache of each thread: in L2, it bounds every product. */
#pragma once

#include "kernels/product/block_form.h"

/* Bytes of operands that a thread reads from L2, not from L1: a quarter of L2. */
size_t block_rate_l2(void);

/* FLOP/s of all OpenMP threads together. Each multiplies blocks from the same `bytes` of operands,
 * at 64-byte aligned `operands`, for ns nanoseconds. ahead: of struct block. */
double block_rate(const struct block_form *f, const void *operands, size_t bytes, size_t ahead,
                  uint64_t ns);
