/* attention_form.h: the arithmetics that attention's tiles are multiplied in. One algorithm
 * (attention.c) runs on each: it sees operands as words of 4 bytes, of which each holds `depth`
 * elements that are next to each other along the summed dimension: one float, or two bf16. Private
 * to attention*.c and their test.
 *
 *   attention_f32   inputs widened to fp32; every element of a product is one chain of fused
 *                   multiply-adds over k in ascending order, so its AVX2 and its AVX-512 code give
 *                   the same bits.
 *   attention_bf16  for bf16 inputs on CPUs with AVX512-BF16: products of bf16 summed in fp32, in
 *                   the order of k, two at a time; probabilities and their gradients are rounded to
 *                   bf16 as operands (what flash attention does). Maximum, sum, lse, exponentials
 *                   and all sums stay fp32. Other bits than attention_f32's, so a run's row names
 *                   it (run/loop/training.c). Up to twice attention_f32's rate on AMD's CPUs; on
 *                   Intel's without AMX 0.6 of it, and there not taken.
 *   attention_amx   the same operands, multiplied in AMX's tile registers, where the CPU has them,
 *                   at several times the rate; sums of pairs in another order. */
#pragma once

#include "data/base/dtype.h"
#include "kernels/simd.h"

#include <immintrin.h>

enum {
    TILE  = 64, // queries, keys
    STRIP = 16, // floats of a vector; forms pad to this or to
    WIDE_STRIP = 32,
    AHEAD = 8,  // rows that load asks for in advance
};

typedef uint32_t word;

struct operand { // the left one: row i at depth k is word p[i * row + k * col]
    const word *p;
    size_t      row, col;
};

/* c (m, n) += a (m, k) b (k, n), k in words; fresh: c is written, not added to. m and n are
 * multiples of the form's strip, k of strip / depth; rows of b and c are contiguous, those of a too
 * where the form says so. */
struct tile_product {
    float         *c;
    size_t         ldc;
    struct operand a;
    const word    *b;
    size_t         ldb, m, n, k;
    int            fresh;
};

/* A tile of scores at work, (keys, queries). */
struct tile {
    float        scale;    // of scores, in the form's unit
    int          diagonal; // a key later than its query is masked
    const float *drop;     // (TILE, TILE): dropout's factors of probabilities, or NULL
    const float *lse, *delta; // (TILE): backward's, of each query
};

struct running { float *max, *sum, *corr; }; // (TILE): of each query

/* What backward multiplies: probabilities with dropout, summed over queries; gradients, summed over
 * queries and, folded, over keys. (TILE, TILE / depth) words each; and where they may stand. */
struct gradients { const word *p, *ds, *ds_folded; };
struct gradients_to { word *p, *ds, *ds_folded; };

struct attention_form {
    const char *name;
    size_t      depth;
    size_t      strip; // columns are padded to this, the diagonal is cut at this

    int (*runs)(enum dtype dt); // whether this CPU has what it takes for inputs of dt

    /* rows (TILE, width / depth): n elements of each of `have` rows of x, `stride` elements apart;
     * zero beyond. */
    void (*load)(word *rows, const void *x, enum dtype dt, size_t stride, size_t have, size_t n,
                 size_t width);

    /* out (TILE / depth, width): the right operand where rows are summed over. NULL: rows serve as
     * they are. */
    void (*fold)(word *out, const word *rows, size_t width);

    /* Scores s to probabilities against each query's running maximum, which may grow: *corr is what
     * earlier sums shrink by. Returns them, dropped and folded: s itself, or `out`. */
    const word *(*softmax)(word *out, float (*s)[TILE], const struct running *r,
                           const struct tile *t);
    float unit; // of the running maximum, in which scale is, too: 1, or ln 2

    /* Scores p to probabilities by their queries' lse, gradients ds of probabilities to those of
     * scores, as operands. */
    struct gradients (*softmax_backward)(const struct gradients_to *to, float (*p)[TILE],
                                         float (*ds)[TILE], const struct tile *t);

    int contiguous; // left operands' rows have to be: their col is 1

    /* What a thread does before its first product and after its last, if anything. */
    void (*begin)(void);
    void (*end)(void);

    void (*multiply)(const struct tile_product *p);
};

extern const struct attention_form attention_f32, attention_bf16, attention_amx;

/* The fastest for inputs of dt that this CPU runs. */
const struct attention_form *attention_form_of(enum dtype dt);

/* Of both forms in bf16. */
void attention_bf16_load(word *rows, const void *x, enum dtype dt, size_t stride, size_t have,
                         size_t n, size_t width);
void attention_bf16_fold(word *out, const word *rows, size_t width);
const word *attention_bf16_softmax(word *out, float (*s)[TILE], const struct running *r,
                                   const struct tile *t);
struct gradients attention_bf16_softmax_backward(const struct gradients_to *to, float (*p)[TILE],
                                                 float (*ds)[TILE], const struct tile *t);

#define LN_2 0x1.62e43p-1f
#define AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

/* 16 pairs: `even` in the lower halves of the words, `odd` in the upper ones. */
AVX512BF16 __attribute__((always_inline))
static inline __m512i bf16_pairs(__m256i even, __m256i odd)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/* Elements [first, first + m) of x, widened; zero up to width. */
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

/* AVX-512's products, where a block of sums is ROWS rows x up to 64 columns: as many blocks as n
 * columns take with at most 4 vectors of 16 each, of like size, none so small that its sums wait
 * for each other. block: the part of p at c, a, b, ROWS rows x 16 nv columns. */
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

/* What attention_decode needs of scratch for each thread. */
size_t attention_decode_bytes(size_t T, size_t head_size);
