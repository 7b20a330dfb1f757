/* mixture.h: decides which row of which token file a training reads. The token files are its
 * *sources*. A source has rows of `seq` tokens, which follow one another from its beginning.
 *
 * The rows of a training are numbered from the first step on. A number alone decides which row of
 * which source it is, so a resume needs nothing but the step, and ranks need not speak of it.
 *
 * Without weights all rows of all sources are one pool, and an epoch has each of them once. With
 * weights each block of 4,096 numbers has exactly `part` rows of each source, in an order permuted
 * by (seed, block). A source's own rows are counted by themselves, through epochs of its own. */
#pragma once

#include "data/text/tokens.h"

enum { MIXTURE_BLOCK = 4096 };

struct mixture_source {
    struct tokens *tokens;
    uint64_t       rows; // rows of an epoch
    uint64_t       part; // of MIXTURE_BLOCK rows; only with weights
};

/* All zeros is a valid mixture without sources. */
struct mixture {
    struct mixture_source *source;
    size_t                 n;
    uint64_t               rows;     // of all sources together
    int                    weighted, shuffled; // not shuffled: each source in its own order
    uint64_t               seed;
    uint64_t               pool; // stream of permute.h of the pool's first epoch; 0: permute_rows
};

/* Closes the token files, and frees. */
void mixture_close(struct mixture *m);

/* Divides a block by weights: parts that are proportional, rounded by the largest remainder. The
 * weights are positive. Returns the first source that gets no row, or n. */
size_t mixture_divide(const double *weight, size_t n, uint64_t *part);

/* Finds the row with a number. There is at least one row, and with weights at least one in each
 * source. */
void mixture_find(const struct mixture *m, uint64_t number, size_t *source, uint64_t *row);

/* taken[0..m->n): how many of the numbers below `numbers` are rows of each source. */
void mixture_taken(const struct mixture *m, uint64_t numbers, uint64_t *taken);

/* Reads n rows of seq tokens, numbered from `first`, into x (n, seq), and their targets into y.
 * Misuse if there is no row. */
int mixture_batch(const struct mixture *m, uint64_t first, size_t n, size_t seq, size_t vocab,
                  int32_t *x, int32_t *y, struct err *err);
