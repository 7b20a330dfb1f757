/* pairs.c: copies a bf16 matrix into blocks of pairs. A thread's turn is PAIRS_ROWS rows of a few
 * neighbouring blocks: it reads two rows at a time, each in one go. If x is transposed, its turn is
 * the columns of one block, which are rows of x. A word is a pair. */
#include "kernels/product/pairs.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

#include <assert.h>

enum { TOGETHER = 8, WORDS = PAIRS_ROWS / 2 }; // blocks of a turn; words of a column in a block

SIMD_CLONES static void interleave(uint32_t *restrict out, const bf16 *restrict even,
                                   const bf16 *restrict odd, size_t n)
{
    for (size_t j = 0; j < n; j++)
        out[j] = (uint32_t)even[j] | (uint32_t)odd[j] << 16;
}

static uint32_t *block_at(bf16 *out, const struct pairs *p, size_t i, size_t j)
{
    return (uint32_t *)(void *)(out + i * p->down + j * p->on);
}

// Packs blocks [from, to) of block row i.
static void blocks_pack(bf16 *out, const bf16 *x, const struct pairs *p, size_t i, size_t from,
                        size_t to)
{
    for (size_t r = 0; r < WORDS; r++) {
        const bf16 *even = x + (i * PAIRS_ROWS + 2 * r) * p->n;

        for (size_t j = from; j < to; j++)
            interleave(block_at(out, p, i, j) + r * p->wide, even + j * p->wide,
                       even + p->n + j * p->wide, p->wide);
    }
}

static void pack_plain(bf16 *out, const bf16 *x, const struct pairs *p)
{
    size_t blocks = p->n / p->wide, turns = div_up(blocks, TOGETHER);

#pragma omp parallel for schedule(dynamic)
    for (size_t u = 0; u < p->k / PAIRS_ROWS * turns; u++) {
        size_t from = u % turns * TOGETHER;

        blocks_pack(out, x, p, u / turns, from, size_min(from + TOGETHER, blocks));
    }
}

static void pack_transposed(bf16 *out, const bf16 *x, const struct pairs *p)
{
    size_t          row = p->k / 2; // words
    const uint32_t *words = (const uint32_t *)(const void *)x;

#pragma omp parallel for schedule(dynamic)
    for (size_t j = 0; j < p->n / p->wide; j++)
        for (size_t i = 0; i < p->k / PAIRS_ROWS; i++)
            words_transpose(block_at(out, p, i, j), p->wide,
                            words + j * p->wide * row + i * WORDS, row, p->wide, WORDS);
}

void pairs_pack(bf16 *out, const bf16 *x, const struct pairs *p)
{
    assert(p->wide % 16 == 0 && p->k % PAIRS_ROWS == 0 && p->n % p->wide == 0);
    if (p->transposed)
        pack_transposed(out, x, p);
    else
        pack_plain(out, x, p);
}
