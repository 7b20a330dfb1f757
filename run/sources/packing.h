/* packing.h: puts examples into rows of a fixed size, as full as they become by best-fit
 * decreasing: the longest example first, each into the row where it leaves the least room. The
 * result depends on the lengths alone, so a resumed run has the same rows. */
#pragma once

#include "data/base/err.h"

/* Row r holds the examples item[start[r]..start[r + 1]), in their order. Rows are sorted by their
 * first example. */
struct packing { uint32_t *item, *start; uint64_t rows, items; };

/* Pack n examples of length[i] <= size tokens, each at least 1. Free by packing_free. */
int  packing_make(struct packing *out, const uint32_t *length, uint64_t n, uint32_t size,
                  struct err *err);
/* Pack examples of n parts, each by itself; those of a part follow one another, and so do its rows.
 * part[i]: its number of examples; becomes its number of rows. */
int  packing_make_parts(struct packing *out, const uint32_t *length, uint64_t *part, size_t n,
                        uint32_t size, struct err *err);
void packing_free(struct packing *p); // accepts the zero state

/* Bytes that packing n examples takes at most, with their lengths. */
static inline uint64_t packing_bytes(uint64_t n) { return n * 6 * sizeof(uint32_t); }
