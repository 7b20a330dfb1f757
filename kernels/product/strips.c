/* strips.c: packs operands of products, a cell of WORD_UNIT words of a strip at a time. If the
 * source's adjacent elements are those of a lane and the strip wants those of a word, or the other
 * way round, a cell is transposed in squares of 16 x 16 words. */
#include "kernels/product/strips.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

enum { SIDE = WORD_UNIT, MOST_LANES = 48 };

size_t strips_words(const struct strips *s)
{
    return round_up(div_up(s->k, s->to == DT_F32 ? 1 : 2), WORD_UNIT);
}

// Where a cell begins in the source, and how much of it there is: lanes, and elements of the depth.
struct cell { const char *x; size_t have, deep; };

static struct cell cell_at(const struct strips *s, const void *x, size_t lane, size_t lanes,
                           size_t first)
{
    size_t k = first * (s->to == DT_F32 ? 1 : 2), depth = WORD_UNIT * (s->to == DT_F32 ? 1 : 2);

    if (lane >= s->n || k >= s->k)
        return (struct cell){ 0 };
    return (struct cell){ dtype_at(x, s->from, s->along ? lane * s->k + k : k * s->n + lane),
                          size_min(s->n - lane, lanes), size_min(s->k - k, depth) };
}

SIMD_INLINE void words_zero(word *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = 0;
}

/* out (WORD_UNIT, lanes): word w of each lane, from a source (k, n). */
SIMD_CLONES static void across(word *restrict out, const struct strips *s, struct cell c,
                               const size_t lanes)
{
    const size_t n = s->n;

    for (size_t w = 0; w < WORD_UNIT; w++, out += lanes) {
        size_t k = s->to == DT_F32 ? w : 2 * w, have = k < c.deep ? c.have : 0;

        if (s->from == DT_F32) {
            const word *row = (const word *)(const void *)c.x + k * n;

            for (size_t l = 0; l < have; l++)
                out[l] = row[l];
        } else if (s->to == DT_F32) {
            const bf16 *row = (const bf16 *)(const void *)c.x + k * n;

            for (size_t l = 0; l < have; l++)
                out[l] = (word)row[l] << 16;
        } else {
            const bf16 *even = (const bf16 *)(const void *)c.x + k * n;
            const bf16 *odd = even + (k + 1 < c.deep ? n : 0);
            const word  with_odd = k + 1 < c.deep ? 0xffff0000u : 0;

            for (size_t l = 0; l < have; l++)
                out[l] = (word)even[l] | ((word)odd[l] << 16 & with_odd);
        }
        words_zero(out + have, lanes - have);
    }
}

/* out (SIDE, WORD_UNIT): the words of each lane, from a source (n, k). */
SIMD_CLONES static void along(word *restrict out, const struct strips *s, struct cell c)
{
    for (size_t l = 0; l < SIDE; l++, out += WORD_UNIT) {
        size_t deep = l < c.have ? c.deep : 0, words = deep;

        if (s->from == DT_F32) {
            const word *row = (const word *)(const void *)c.x + l * s->k;

            for (size_t w = 0; w < deep; w++)
                out[w] = row[w];
        } else if (s->to == DT_F32) {
            const bf16 *row = (const bf16 *)(const void *)c.x + l * s->k;

            for (size_t w = 0; w < deep; w++)
                out[w] = (word)row[w] << 16;
        } else {
            const bf16 *row = (const bf16 *)(const void *)c.x + l * s->k;

            memcpy(out, row, deep * sizeof *row);
            if (deep % 2)
                ((bf16 *)out)[deep] = 0;
            words = div_up(deep, 2);
        }
        words_zero(out + words, WORD_UNIT - words);
    }
}

/* out (WORD_UNIT, lanes), from a source (n, k). */
static void turned(word *restrict out, const struct strips *s, const void *x, size_t lane,
                   size_t lanes, size_t first)
{
    word square[SIDE * SIDE], across_it[SIDE * SIDE];

    for (size_t l = 0; l < lanes; l += SIDE) {
        size_t n = size_min(lanes - l, SIDE);

        along(square, s, cell_at(s, x, lane + l, n, first));
        words_transpose(across_it, square, SIDE, SIDE, SIDE);
        for (size_t w = 0; w < WORD_UNIT; w++)
            memcpy(out + w * lanes + l, across_it + w * SIDE, n * sizeof *out);
    }
}

static void cell_pack(word *out, const struct strips *s, const void *x, size_t lane, size_t first)
{
    word        square[SIDE * SIDE];
    struct cell c = cell_at(s, x, lane, s->lanes, first);

    if (s->along && s->tiled) {
        along(out, s, c);
    } else if (s->along) {
        turned(out, s, x, lane, s->lanes, first);
    } else if (s->tiled) {
        across(square, s, c, SIDE);
        words_transpose(out, square, SIDE, SIDE, SIDE);
    } else {
        across(out, s, c, s->lanes);
    }
}

void strips_pack(word *out, size_t next, const struct strips *s, const void *x,
                 struct range strips, struct range words)
{
    for (size_t w = words.from; w < words.to; w += WORD_UNIT)
        for (size_t i = strips.from; i < strips.to; i++)
            cell_pack(out + (i - strips.from) * next + (w - words.from) * s->lanes, s, x,
                      i * s->lanes, w);
}
