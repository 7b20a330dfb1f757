/* attention_amx.c: multiplies attention's tiles in bf16 with AMX. A tile register holds 16 rows of
 * 16 words. Its product adds 16 x 32 bf16 times 32 x 16 bf16 to 16 x 16 fp32 sums.
 *
 * Panels of scores are small for two reasons: they stay in L1, and the unit's first products after
 * a pause of some 300 ns take longer, so softmax between them should be shorter than that. */
#include "kernels/attention/attention_form.h"
#include "kernels/tiles.h"

#include <assert.h>

enum { SIDE = TILE_SIDE, BLOCK = 2 * SIDE };

static_assert((int)BLOCK == (int)WIDE_STRIP, "scratch has room for any form's padding");

TILES static void begin(void) { tiles_begin(); }

TILES static void end(void) { tiles_end(); }

/* Multiplies two tiles of sums of p, one above the other, over all of k in the registers x and y.
 * They share the right operand. */
#define MULTIPLY(x, y)                                                                             \
    do {                                                                                           \
        const word *a = left, *b = right;                                                          \
                                                                                                   \
        if (p->fresh) {                                                                            \
            tile_zero(x);                                                                          \
            tile_zero(y);                                                                          \
        } else {                                                                                   \
            tile_load(x, c, c_row);                                                                \
            tile_load(y, c + below, c_row);                                                        \
        }                                                                                          \
        for (size_t k = p->k; k > 0; k -= SIDE, a += SIDE, b += SIDE * p->ldb) {                   \
            tile_load(4, b, b_row);                                                                \
            tile_load(5, a, a_row);                                                                \
            tile_dot(x, 5, 4);                                                                     \
            tile_load(6, a + SIDE * p->a.row, a_row);                                              \
            tile_dot(y, 6, 4);                                                                     \
        }                                                                                          \
        tile_store(x, c, c_row);                                                                   \
        tile_store(y, c + below, c_row);                                                           \
    } while (0)

/* A column of tiles. Two pairs of registers take turns, so that one is stored while the other is
 * summed. No ordinary store may be in here (tiles.h). */
TILES static void multiply_column(const struct tile_product *p, size_t j)
{
    const size_t c_row = p->ldc * sizeof(float), a_row = p->a.row * sizeof(word),
                 b_row = p->ldb * sizeof(word), below = SIDE * p->ldc;

    for (size_t i = 0; i < p->m; i += BLOCK) {
        float      *c = p->c + i * p->ldc + j;
        const word *left = p->a.p + i * p->a.row, *right = p->b + j;

        if (i % (2 * BLOCK))
            MULTIPLY(2, 3);
        else
            MULTIPLY(0, 1);
    }
}

/* Two columns of tiles, four tiles at a time, which share two tiles of each operand: a third fewer
 * loads. */
TILES static void multiply_columns(const struct tile_product *p, size_t j)
{
    const size_t c_row = p->ldc * sizeof(float), a_row = p->a.row * sizeof(word),
                 b_row = p->ldb * sizeof(word), below = SIDE * p->ldc;

    for (size_t i = 0; i < p->m; i += BLOCK) {
        float      *c = p->c + i * p->ldc + j;
        const word *a = p->a.p + i * p->a.row, *b = p->b + j;

        if (p->fresh) {
            tile_zero(0);
            tile_zero(1);
            tile_zero(2);
            tile_zero(3);
        } else {
            tile_load(0, c, c_row);
            tile_load(1, c + SIDE, c_row);
            tile_load(2, c + below, c_row);
            tile_load(3, c + below + SIDE, c_row);
        }
        for (size_t k = p->k; k > 0; k -= SIDE, a += SIDE, b += SIDE * p->ldb) {
            tile_load(4, a, a_row);
            tile_load(6, b, b_row);
            tile_load(7, b + SIDE, b_row);
            tile_load(5, a + SIDE * p->a.row, a_row);
            tile_dot(0, 4, 6);
            tile_dot(1, 4, 7);
            tile_dot(2, 5, 6);
            tile_dot(3, 5, 7);
        }
        tile_store(0, c, c_row);
        tile_store(1, c + SIDE, c_row);
        tile_store(2, c + below, c_row);
        tile_store(3, c + below + SIDE, c_row);
    }
}

TILES static void multiply(const struct tile_product *p)
{
    size_t j = 0;

    assert(p->m % BLOCK == 0 && p->n % SIDE == 0 && p->k % SIDE == 0);
    for (; j + BLOCK <= p->n; j += BLOCK)
        multiply_columns(p, j);
    if (j < p->n)
        multiply_column(p, j);
}

static int runs(enum dtype dt) { return dt == DT_BF16 && tiles_here(); }

const struct attention_form attention_amx = {
    .name = "amx", .depth = 2, .strip = BLOCK, .runs = runs, .load = attention_bf16_load,
    .forward = { .queries = SIDE, .keys = TILE, .ld = SIDE },
    .backward = { .queries = BLOCK, .keys = BLOCK, .ld = BLOCK },
    .fold = attention_bf16_fold, .contiguous = 1,
    .begin = begin, .end = end, .multiply = multiply,
    .softmax = attention_bf16_softmax, .unit = LN_2,
    .softmax_backward = attention_bf16_softmax_backward,
};
