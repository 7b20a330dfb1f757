/* attention_form.h: the forms of arithmetic for attention's tiles. One algorithm
 * (attention_forward.c, attention_backward.c) runs on every form. It sees operands as words of 4
 * bytes. A word holds `depth` elements that are adjacent along the summed dimension: one float, or
 * two bf16. Private to attention*.c and their test.
 *
 *  attention_f32   Inputs are widened to fp32. Every element of a product is one chain of fused
 *                  multiply-adds over ascending k, so AVX2 and AVX-512 give the same bits.
 *  attention_bf16  For bf16 inputs on CPUs with AVX512-BF16. Products of bf16 are summed in fp32 in
 *                  the order of k, two at a time. Probabilities and their gradients are rounded to
 *                  bf16 as operands, as in flash attention. Maximum, sum, lse, exponentials and all
 *                  sums stay fp32. The bits differ from attention_f32's, so a run's row names the
 *                  form (run/loop/training.c). It is up to twice as fast as attention_f32 on AMD
 *                  CPUs. On Intel CPUs without AMX it has 0.6 of the speed, and is not used.
 *  attention_amx   The operands of attention_bf16, multiplied in AMX tile registers on CPUs that
 *                  have them. It is several times as fast; pairs are summed in another order. */
#pragma once

#include "data/base/dtype.h"
#include "kernels/simd.h"

#include <immintrin.h>

enum {
    TILE  = 64, // queries, keys
    STRIP = 16, // floats of a vector; a form pads to this or to
    WIDE_STRIP = 32,
    AHEAD = 8,  // rows that load prefetches
};

typedef uint32_t word;

struct operand { // left operand: row i at depth k is word p[i * row + k * col]
    const word *p;
    size_t      row, col;
};

/* c (m, n) += a (m, k) b (k, n), with k in words. fresh: c is written, not added to. m is a
 * multiple of the form's strip, n of STRIP, and k of strip / depth. Rows of b and c are contiguous.
 * Rows of a are contiguous if the form requires it. */
struct tile_product {
    float         *c;
    size_t         ldc;
    struct operand a;
    const word    *b;
    size_t         ldb, m, n, k;
    int            fresh;
};

/* A panel of a tile of scores: keys from `key` on and queries from `first` on, whose scores are
 * computed together. ld: distance of its rows. */
struct panel { size_t first, queries, key, keys, ld; };

/* What softmax needs to know of a panel of scores. Pointers are to the values of its first query,
 * and its first key. */
struct tile {
    struct panel at;
    float        scale;    // scale of scores, in the form's unit
    int          diagonal; // keys later than the query are masked
    const float *drop;     // dropout factors of the probabilities, rows of TILE; or NULL
    const float *lse, *delta; // backward's, of each query
};

struct running { float *max, *sum, *corr; }; // of each query

/* Operands of backward. p: probabilities with dropout, to sum over queries, (TILE, TILE / depth)
 * words. ds: gradients, the same. ds_folded: gradients, to sum over keys, (TILE / depth, ld).
 * struct gradients_to has the memory for them. */
struct gradients { const word *p, *ds, *ds_folded; };
struct gradients_to { word *p, *ds, *ds_folded; };

struct attention_form {
    const char *name;
    size_t      depth;
    size_t      strip; // columns are padded to a multiple of this; the diagonal is cut at multiples
    struct panel forward, backward; // the first panel of a tile; the others are as large

    int (*runs)(enum dtype dt); // true if this CPU can run the form on inputs of dt

    /* Loads rows (TILE, width / depth): n elements of each of `have` rows of x, which are
     * `stride` elements apart. The rest is zero. */
    void (*load)(word *rows, const void *x, enum dtype dt, size_t stride, size_t have, size_t n,
                 size_t width);

    /* out (TILE / depth, width): the right operand of a product that sums over rows. NULL: rows
     * need no folding. */
    void (*fold)(word *out, const word *rows, size_t width);

    /* Turns scores s into probabilities relative to each query's running maximum, which may
     * grow. *corr is the factor for earlier sums. Returns the probabilities with dropout,
     * folded, in s itself or in `out`. */
    const word *(*softmax)(word *out, float *s, const struct running *r, const struct tile *t);
    float unit; // unit of the running maximum and of scale: 1, or ln 2

    /* Turns scores p into probabilities by their queries' lse, and the gradients ds of
     * probabilities into gradients of scores. Returns both as operands. */
    struct gradients (*softmax_backward)(const struct gradients_to *to, float *p, float *ds,
                                         const struct tile *t);

    int contiguous; // left operands must have contiguous rows: their col is 1

    /* Called by each thread before its first product and after its last one; may be NULL. */
    void (*begin)(void);
    void (*end)(void);

    void (*multiply)(const struct tile_product *p);
};

// A panel that is a whole tile.
#define WHOLE { .queries = TILE, .keys = TILE, .ld = TILE }

extern const struct attention_form attention_f32, attention_bf16, attention_amx;

/* The fastest form for inputs of dt on this CPU. */
const struct attention_form *attention_form_of(enum dtype dt);

/* Functions of both bf16 forms. */
void attention_bf16_load(word *rows, const void *x, enum dtype dt, size_t stride, size_t have,
                         size_t n, size_t width);
void attention_bf16_fold(word *out, const word *rows, size_t width);
const word *attention_bf16_softmax(word *out, float *s, const struct running *r,
                                   const struct tile *t);
struct gradients attention_bf16_softmax_backward(const struct gradients_to *to, float *p, float *ds,
                                                 const struct tile *t);

#define LN_2 0x1.62e43p-1f
#define AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

/* 16 pairs of bf16: `even` in the lower halves of the words, `odd` in the upper halves. */
AVX512BF16 __attribute__((always_inline))
static inline __m512i bf16_pairs(__m256i even, __m256i odd)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/* Widens elements [first, first + m) of x to fp32, and writes zeros up to width. */
SIMD_INLINE void row_widen(float *out, const void *x, enum dtype dt, size_t first, size_t m,
                           size_t width)
{
    if (dt == DT_BF16)
        for (size_t j = 0; j < m; j++)
            out[j] = bf16_to_f32(((const bf16 *)x)[first + j]);
    else
        for (size_t j = 0; j < m; j++)
            out[j] = ((const float *)x)[first + j];
    for (size_t j = m; j < width; j++)
        out[j] = 0.0f;
}

/* Products in AVX-512. A block of sums has ROWS rows and at most 4 vectors of 16 columns. The n
 * columns are cut into as few blocks as possible, of nearly equal width. No block is so small
 * that its sums wait for each other. block: computes ROWS rows x 16 nv columns of p, at c, a, b. */
enum { ROWS = 4 };
SIMD_INLINE void multiply_blocks(void (*block)(const struct tile_product *p, float *c,
                                               const word *a, const word *b, int nv),
                                 const struct tile_product *p)
{
    for (size_t i = 0; i < p->m; i += ROWS) {
        float      *c = p->c + i * p->ldc;
        const word *a = p->a.p + i * p->a.row;

        for (size_t j = 0, nv; j < p->n; j += 16 * nv) {
            size_t left = (p->n - j) / 16, blocks = (left + 3) / 4;

            nv = (left + blocks - 1) / blocks;
            if (nv == 4)
                block(p, c + j, a, p->b + j, 4);
            else if (nv == 3)
                block(p, c + j, a, p->b + j, 3);
            else if (nv == 2)
                block(p, c + j, a, p->b + j, 2);
            else
                block(p, c + j, a, p->b + j, 1);
        }
    }
}

/* Bytes of scratch for each thread: of attention_decode, and of attention_backward with heads of
 * `width` elements, padded to the form's strip. shared: heads of queries share keys. */
size_t attention_decode_bytes(size_t T, size_t head_size);
size_t attention_backward_bytes(size_t T, size_t width, int shared);
