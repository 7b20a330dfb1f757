/* strips.c: packs operands of products, a square at a time: WORD_UNIT words of up to as many lanes.
 * If the source's adjacent elements are those of a lane and the strip wants those of a word, or the
 * other way round, the square is transposed. A square beyond an edge of the operand is first copied
 * between zeros. */
#include "kernels/product/strips.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/tiled.h"
#include "kernels/transpose.h"

enum { SIDE = WORD_UNIT, MOST_DEEP = 2 * WORD_UNIT }; // MOST_DEEP: elements of a lane in a square

static size_t of_word(const struct strips *s) { return s->to == DT_F32 ? 1 : 2; }

size_t strips_words(const struct strips *s)
{
    return round_up(div_up(s->k, of_word(s)), WORD_UNIT);
}

/* A square's elements in memory. stride: from one lane to the next of a source (n, k), from one
 * element of the depth to the next of a source (k, n), where the second half of a square lies `far`
 * behind that. */
struct square { const void *x; size_t stride, far; };

/* The place of an element of the source. */
static const void *element(const struct strips *s, const void *x, size_t lane, size_t k)
{
    size_t at = s->along ? lane * s->k + k : k * s->n + lane;

    return dtype_at(x, s->from, s->from_tiles ? tiled_at(s->n, k, lane) : at);
}

/* Copies what there is of a square between zeros, into `to`. */
static struct square square_stage(char to[SIDE * MOST_DEEP * sizeof(float)], const struct strips *s,
                                  const void *x, size_t lane, size_t lanes, size_t k)
{
    size_t bytes = dtype_bytes(s->from);
    size_t deep = k < s->k ? size_min(s->k - k, SIDE * of_word(s)) : 0;
    size_t have = lane < s->n ? size_min(s->n - lane, lanes) : 0;
    struct square at = { to, s->along ? MOST_DEEP : SIDE, 0 };
    size_t rows = s->along ? have : deep, cols = s->along ? deep : have;

    memset(to, 0, SIDE * MOST_DEEP * bytes);
    for (size_t i = 0; i < rows && cols > 0; i++)
        memcpy(to + i * at.stride * bytes,
               s->along ? element(s, x, lane + i, k) : element(s, x, lane, k + i), cols * bytes);
    return at;
}

/* out (SIDE, pitch): word w of `lanes` lanes, from a source (k, n). */
SIMD_INLINE void across_lanes(word *restrict out, size_t pitch, struct square at, enum dtype from,
                              enum dtype to, const size_t lanes)
{
    for (size_t w = 0; w < SIDE; w++, out += pitch)
        if (from == DT_F32) {
            memcpy(out, (const float *)at.x + w * at.stride, lanes * sizeof *out);
        } else if (to == DT_F32) {
            const bf16 *row = (const bf16 *)at.x + w * at.stride;

            for (size_t l = 0; l < lanes; l++)
                out[l] = (word)row[l] << 16;
        } else {
            const bf16 *even = (const bf16 *)at.x + 2 * w * at.stride + (w < SIDE / 2 ? 0 : at.far),
                       *odd = even + at.stride;

            for (size_t l = 0; l < lanes; l++)
                out[l] = (word)even[l] | (word)odd[l] << 16;
        }
}

SIMD_CLONES static void across(word *restrict out, size_t pitch, struct square at, enum dtype from,
                               enum dtype to, size_t lanes)
{
    if (lanes == SIDE)
        across_lanes(out, pitch, at, from, to, SIDE);
    else if (lanes == SIDE / 2)
        across_lanes(out, pitch, at, from, to, SIDE / 2);
    else
        across_lanes(out, pitch, at, from, to, lanes);
}

/* out (lanes, SIDE): bf16 of a source (n, k), as fp32. */
SIMD_CLONES static void widen(word *restrict out, struct square at, size_t lanes)
{
    for (size_t l = 0; l < lanes; l++, out += SIDE) {
        const bf16 *row = (const bf16 *)at.x + l * at.stride;

        for (size_t w = 0; w < SIDE; w++)
            out[w] = (word)row[w] << 16;
    }
}

static void square_pack(word *out, size_t pitch, const struct strips *s, struct square at,
                        size_t lanes)
{
    word turned[SIDE * SIDE];

    if (s->along && s->tiled) { // a tile's row is a lane
        for (size_t l = 0; l < SIDE; l++)
            memcpy(out + l * SIDE, (const bf16 *)at.x + l * at.stride, SIDE * sizeof *out);
    } else if (s->along && s->from == s->to) {
        words_transpose(out, pitch, at.x, at.stride / of_word(s), lanes, SIDE);
    } else if (s->along) {
        widen(turned, at, lanes);
        words_transpose(out, pitch, turned, SIDE, lanes, SIDE);
    } else if (s->tiled) {
        across(turned, SIDE, at, s->from, s->to, SIDE);
        words_transpose(out, SIDE, turned, SIDE, SIDE, SIDE);
    } else {
        across(out, pitch, at, s->from, s->to, lanes);
    }
}

/* Packs SIDE words of a strip. */
static void cell_pack(word *out, const struct strips *s, const void *x, size_t lane, size_t w)
{
    char   staged[SIDE * MOST_DEEP * sizeof(float)];
    size_t k = w * of_word(s), deep = SIDE * of_word(s);

    for (size_t l = 0, lanes; l < s->lanes; l += lanes) {
        lanes = size_min(s->lanes - l, SIDE);
        struct square at = { element(s, x, lane + l, k), s->along ? s->k : s->n, 0 };

        if (s->from_tiles) {
            at.stride = TILED_COLS;
            at.far = tiled_next(s->n) - TILED_ROWS * TILED_COLS;
        }
        // words of an odd row would not be aligned for words_transpose
        if (lane + l + lanes > s->n || k + deep > s->k ||
            (s->along && !s->tiled && s->k % of_word(s)))
            at = square_stage(staged, s, x, lane + l, lanes, k);
        square_pack(out + l, s->lanes, s, at, lanes);
    }
}

/* Asks for the source of a cell of adjacent elements, which lies in a row of each lane. */
static void cell_ask(const struct strips *s, const void *x, size_t lane, size_t w)
{
    size_t k = w * of_word(s), end = size_min(lane + s->lanes, s->n);

    for (size_t l = lane; l < end && k < s->k; l++)
        __builtin_prefetch(dtype_at(x, s->from, l * s->k + k));
}

/* Asks for the source of cells of these strips, where the elements of a lane are not adjacent. */
static void rows_ask(const struct strips *s, const void *x, struct range strips, size_t w)
{
    size_t step = 64 / dtype_bytes(s->from), from = strips.from * s->lanes,
           end = size_min(strips.to * s->lanes, s->n), deep = WORD_UNIT * of_word(s);
    size_t next = s->from_tiles ? TILED_ROWS * 64 : 64;

    for (size_t k = w * of_word(s), to = size_min(k + deep, s->k); k < to && from < end; k++) {
        const char *line = element(s, x, from, k);

        for (size_t l = from; l < end; l += step, line += next)
            __builtin_prefetch(line);
    }
}

void strips_pack(word *out, size_t next, const struct strips *s, const void *x,
                 struct range strips, struct range words)
{
    enum { AHEAD = 4 * WORD_UNIT, ROWS_AHEAD = 1 * WORD_UNIT };

    // a strip's rows are read to their end: more streams than these the CPU would not follow
    for (size_t i = strips.from; s->along && i < strips.to; i++)
        for (size_t w = words.from; w < words.to; w += WORD_UNIT) {
            cell_ask(s, x, i * s->lanes, w + AHEAD);
            cell_pack(out + (i - strips.from) * next + (w - words.from) * s->lanes, s, x,
                      i * s->lanes, w);
        }
    for (size_t w = words.from; !s->along && w < words.to; w += WORD_UNIT) {
        if (w + ROWS_AHEAD < words.to)
            rows_ask(s, x, strips, w + ROWS_AHEAD);
        for (size_t i = strips.from; i < strips.to; i++)
            cell_pack(out + (i - strips.from) * next + (w - words.from) * s->lanes, s, x,
                      i * s->lanes, w);
    }
}
