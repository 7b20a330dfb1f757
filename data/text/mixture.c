/* mixture.c: computes where a row is from its number, without memory of the rows before it. All of
 * it follows from the permutations of permute.h, whose bits must not change. */
#include "data/text/mixture.h"

#include "data/base/permute.h"

#include <assert.h>
#include <math.h>

enum { MIXTURE_FEW = 64 }; // sources of which the rest of an epoch may be counted instead

#define BLOCK_STREAM 0x626c6b0000000000u // stream of permute.h: "blk" plus the block's number
#define EPOCH_STREAM 0x6d69780000000000u // "mix", the source from bit 32 on, plus the epoch

void mixture_close(struct mixture *m)
{
    for (size_t i = 0; i < m->n; i++)
        tokens_close(m->source[i].tokens);
    free(m->source);
    *m = (struct mixture){ 0 };
}

size_t mixture_divide(const double *weight, size_t n, uint64_t *part)
{
    double   sum = 0;
    uint64_t left = MIXTURE_BLOCK;
    size_t   none = 0;

    for (size_t i = 0; i < n; i++)
        sum += weight[i];
    for (size_t i = 0; i < n; i++) {
        part[i] = (uint64_t)floor(weight[i] / sum * MIXTURE_BLOCK);
        left -= part[i];
    }
    for (; left; left--) { // to the source that is furthest below its share
        size_t most = 0;

        for (size_t i = 1; i < n; i++)
            if (weight[i] / sum * MIXTURE_BLOCK - (double)part[i] >
                weight[most] / sum * MIXTURE_BLOCK - (double)part[most])
                most = i;
        part[most]++;
    }
    while (none < n && part[none])
        none++;
    return none;
}

/* ---- with weights ---- */

static size_t block_source(const struct mixture *m, uint64_t block, uint64_t place)
{
    uint64_t at = permute(m->seed, BLOCK_STREAM + block, place, MIXTURE_BLOCK);
    size_t   i = 0;

    for (; at >= m->source[i].part; i++)
        at -= m->source[i].part;
    return i;
}

/* Rows of a source at the first `places` places of a block. */
static uint64_t block_taken(const struct mixture *m, size_t source, uint64_t block, uint64_t places)
{
    uint64_t n = 0;

    for (uint64_t k = 0; k < places; k++)
        n += block_source(m, block, k) == source;
    return n;
}

static void weighted_find(const struct mixture *m, uint64_t number, size_t *source, uint64_t *row)
{
    uint64_t block = number / MIXTURE_BLOCK, place = number % MIXTURE_BLOCK;
    size_t   i = *source = block_source(m, block, place);
    uint64_t own = block * m->source[i].part + block_taken(m, i, block, place),
             rows = m->source[i].rows;

    *row = m->shuffled ? permute(m->seed, EPOCH_STREAM + ((uint64_t)i << 32) + own / rows,
                                 own % rows, rows)
                       : own % rows;
}

/* ---- without ---- */

static void pooled_find(const struct mixture *m, uint64_t number, size_t *source, uint64_t *row)
{
    uint64_t epoch = number / m->rows, at = number % m->rows;
    size_t   i = 0;

    if (m->shuffled)
        at = m->pool ? permute(m->seed, m->pool + epoch, at, m->rows)
                     : permute_rows(m->seed, epoch, at, m->rows);
    for (; at >= m->source[i].rows; i++)
        at -= m->source[i].rows;
    *source = i;
    *row = at;
}

/* ---- either ---- */

void mixture_find(const struct mixture *m, uint64_t number, size_t *source, uint64_t *row)
{
    assert(m->rows);
    (m->weighted ? weighted_find : pooled_find)(m, number, source, row);
}

/* Adds how many of the numbers [first, end) of a begun block or epoch are rows of each source. All
 * threads count, since an epoch may have hundreds of millions of rows. */
static void count(const struct mixture *m, uint64_t first, uint64_t end, uint64_t *taken)
{
    enum { FEW = 1 << 16 };
    size_t n = m->n;

#pragma omp parallel for reduction(+ : taken[:n]) if (end - first > FEW)
    for (uint64_t k = first; k < end; k++) {
        uint64_t row;
        size_t   i = 0;

        if (m->weighted)
            i = block_source(m, k / MIXTURE_BLOCK, k % MIXTURE_BLOCK);
        else
            pooled_find(m, k, &i, &row);
        taken[i]++;
    }
}

/* What was begun, a block or an epoch, is counted row by row: what was read of it, or what was not,
 * whichever is less. */
void mixture_taken(const struct mixture *m, uint64_t numbers, uint64_t *taken)
{
    uint64_t each = m->weighted ? MIXTURE_BLOCK : m->rows, whole = each ? numbers / each : 0;
    uint64_t begun = numbers - whole * each, left[MIXTURE_FEW] = { 0 };
    int      rest = begun > each / 2 && m->n <= MIXTURE_FEW;

    whole += (uint64_t)rest;
    for (size_t i = 0; i < m->n; i++)
        taken[i] = whole * (m->weighted ? m->source[i].part : m->source[i].rows);
    if (m->n == 1)
        *taken = numbers;
    else if (rest)
        count(m, numbers, whole * each, left);
    else
        count(m, numbers - begun, numbers, taken);
    for (size_t i = 0; i < m->n && rest && m->n > 1; i++)
        taken[i] -= left[i];
}

int mixture_batch(const struct mixture *m, uint64_t first, size_t n, size_t seq, size_t vocab,
                  int32_t *x, int32_t *y, struct err *err)
{
    if (!m->rows)
        return err_misuse(err, "%s holds %" PRIu64 " tokens, but one row and its targets take %zu",
                          m->source->tokens->path, m->source->tokens->count, seq + 1);
    for (size_t r = 0; r < n; r++, x += seq, y += seq) {
        size_t   i;
        uint64_t row;

        mixture_find(m, first + r, &i, &row);
        int rc = tokens_row(m->source[i].tokens, row, seq, vocab, x, y, err);
        if (rc)
            return rc;
    }
    return 0;
}
