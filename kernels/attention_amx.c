/* attention_amx.c: attention's tiles in bf16, multiplied by AMX: a tile register holds 16 rows of
 * 16 words, its product adds 16 x 32 bf16 times 32 x 16 bf16 to 16 x 16 fp32 sums. The block of
 * sums is 2 x 2 registers. Left operands stand row by row, so narrow's columns are written
 * transposed. */
#include "kernels/attention_form.h"

#include <assert.h>

enum {
    SIDE = 16, // rows, and words of a row, of a tile register
    HALF = 8,  // words along k that remain at the end of a product
};

static_assert((int)SIDE == (int)STRIP && 2 * (int)HALF == (int)STRIP,
              "a product's sizes are multiples of STRIP elements");

/* Tile registers 0-3: sums; 4, 5: operands A, B; 6, 7: those of HALF words along k. Their numbers
 * must be literals. */
struct tile_config { // as LDTILECFG has it
    uint8_t  palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
};

enum { ROW = SIDE * sizeof(word) };

static const struct tile_config config = {
    .palette = 1, .row_bytes = { ROW, ROW, ROW, ROW, ROW, ROW, HALF * sizeof(word), ROW },
    .rows = { SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, HALF },
};

#define AMX __attribute__((target("amx-tile,amx-bf16")))

AMX static void begin(void) { _tile_loadconfig(&config); }

AMX static void end(void) { _tile_release(); }

/* The block's sums, all to registers or all back. */
#define SUMS(MOVE)                                     \
    do {                                               \
        MOVE(0, c, c_row);                             \
        if (right)                                     \
            MOVE(1, c + SIDE, c_row);                  \
        if (low)                                       \
            MOVE(2, c + SIDE * ldc, c_row);            \
        if (low && right)                              \
            MOVE(3, c + SIDE * ldc + SIDE, c_row);     \
    } while (0)

/* The block's sums += A B in registers, one step along k; A and B: numbers of the operands'
 * registers. B's left half stays while A's upper and lower halves pass, then comes its right half.
 */
#define STEP(A, B)                                     \
    do {                                               \
        _tile_loadd(A, a, a_row);                      \
        _tile_loadd(B, b, b_row);                      \
        _tile_dpbf16ps(0, A, B);                       \
        if (low) {                                     \
            _tile_loadd(A, a + SIDE * lda, a_row);     \
            _tile_dpbf16ps(2, A, B);                   \
        }                                              \
        if (right) {                                   \
            _tile_loadd(B, b + SIDE, b_row);           \
            if (low) {                                 \
                _tile_dpbf16ps(3, A, B);               \
                _tile_loadd(A, a, a_row);              \
            }                                          \
            _tile_dpbf16ps(1, A, B);                   \
        }                                              \
    } while (0)

/* c (16 or 32, 16 or 32) += a b, k words; low, right: 32. gcc does not know that the loads read
 * memory: no ordinary store may stand in here or in mm_add. */
AMX __attribute__((always_inline)) static inline void
block(float *c, size_t ldc, struct operand left, const word *b, size_t ldb, size_t k,
      const int low, const int right)
{
    const word  *a = left.p;
    const size_t lda = left.row, c_row = ldc * sizeof *c, a_row = lda * sizeof *a,
                 b_row = ldb * sizeof *b;

    SUMS(_tile_loadd);
    for (; k >= SIDE; k -= SIDE, a += SIDE, b += SIDE * ldb)
        STEP(4, 5);
    assert(k == 0 || k == HALF);
    if (k > 0)
        STEP(6, 7);
    SUMS(_tile_stored);
}

AMX static void mm_add(float *c, size_t ldc, struct operand a, const word *b, size_t ldb, size_t m,
                       size_t n, size_t k)
{
    for (size_t i = 0; i < m; i += 2 * SIDE)
        for (size_t j = 0; j < n; j += 2 * SIDE) {
            float         *to = c + i * ldc + j;
            struct operand rows = { a.p + i * a.row, a.row, a.col };

            if (m - i > SIDE && n - j > SIDE)
                block(to, ldc, rows, b + j, ldb, k, 1, 1);
            else if (m - i > SIDE)
                block(to, ldc, rows, b + j, ldb, k, 1, 0);
            else if (n - j > SIDE)
                block(to, ldc, rows, b + j, ldb, k, 0, 1);
            else
                block(to, ldc, rows, b + j, ldb, k, 0, 0);
        }
}

/* 16 rows of 16 words, transposed: by pairs of words, then of pairs, then of quarters of a
 * register. */
AVX512BF16 __attribute__((always_inline)) static inline void transpose(__m512i x[SIDE])
{
    __m512i y[SIDE];

    for (int i = 0; i < SIDE; i += 2) {
        y[i]     = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int l = 0; l < 2; l++) {
            x[i + 2 * l]     = _mm512_unpacklo_epi64(y[i + l], y[i + l + 2]);
            x[i + 2 * l + 1] = _mm512_unpackhi_epi64(y[i + l], y[i + l + 2]);
        }
    for (int i = 0; i < 4; i++) { // x[4 r + i]: quarter q holds column 4 q + i of rows 4 r ..
        y[i]      = _mm512_shuffle_i32x4(x[i], x[4 + i], 0x88);
        y[4 + i]  = _mm512_shuffle_i32x4(x[i], x[4 + i], 0xdd);
        y[8 + i]  = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0x88);
        y[12 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        x[i]      = _mm512_shuffle_i32x4(y[i], y[8 + i], 0x88);
        x[4 + i]  = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0x88);
        x[8 + i]  = _mm512_shuffle_i32x4(y[i], y[8 + i], 0xdd);
        x[12 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0xdd);
    }
}

AVX512BF16 static void narrow(word *rows, word *cols, const float *s)
{
    for (size_t i = 0; i < TILE; i += 2 * SIDE)
        for (size_t j = 0; j < TILE; j += SIDE) {
            __m512i pair[SIDE];

            for (size_t p = 0; p < SIDE; p++) {
                size_t  at = (i + 2 * p) * TILE + j;
                __m256i even = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + at));
                __m256i odd  = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(s + at + TILE));

                if (rows) {
                    _mm256_storeu_si256((__m256i *)(void *)(rows + at / 2), even);
                    _mm256_storeu_si256((__m256i *)(void *)(rows + (at + TILE) / 2), odd);
                }
                pair[p] = bf16_pairs(even, odd);
            }
            if (!cols)
                continue;
            transpose(pair);
            for (size_t q = 0; q < SIDE; q++)
                _mm512_storeu_si512(cols + (j + q) * (TILE / 2) + i / 2, pair[q]);
        }
}

static int runs(enum dtype dt) { return dt == DT_BF16 && simd_amx_bf16(); }

const struct attention_form attention_amx = {
    .name = "amx", .depth = 2, .runs = runs, .load = attention_bf16_load,
    .fold = attention_bf16_fold, .narrow = narrow, .transposed = 1, .mm_add = mm_add,
    .begin = begin, .end = end,
};
