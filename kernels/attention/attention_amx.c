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

/* Multiplies two neighbouring tiles of sums of p over all of k, in the registers x and y. With WIDE
 * the tiles stand side by side and share the left operand; otherwise one stands above the other,
 * and they share the right operand. */
#define MULTIPLY(WIDE, x, y)                                                                       \
    do {                                                                                           \
        const word *a = left, *b = right;                                                          \
                                                                                                   \
        if (p->fresh) {                                                                            \
            tile_zero(x);                                                                          \
            tile_zero(y);                                                                          \
        } else {                                                                                   \
            tile_load(x, c, c_row);                                                                \
            tile_load(y, c + next, c_row);                                                         \
        }                                                                                          \
        for (size_t k = p->k; k > 0; k -= SIDE, a += SIDE, b += SIDE * p->ldb) {                   \
            tile_load(4, b, b_row);                                                                \
            tile_load(5, a, a_row);                                                                \
            tile_dot(x, 5, 4);                                                                     \
            if (WIDE) {                                                                            \
                tile_load(6, b + SIDE, b_row);                                                     \
                tile_dot(y, 5, 6);                                                                 \
            } else {                                                                               \
                tile_load(6, a + SIDE * p->a.row, a_row);                                          \
                tile_dot(y, 6, 4);                                                                 \
            }                                                                                      \
        }                                                                                          \
        tile_store(x, c, c_row);                                                                   \
        tile_store(y, c + next, c_row);                                                            \
    } while (0)

/* Two pairs of registers take turns, so that one is stored while the other is summed. No ordinary
 * store may be in here (tiles.h). */
TILES __attribute__((always_inline)) static inline void multiply_as(const struct tile_product *p,
                                                                    const int wide)
{
    const size_t c_row = p->ldc * sizeof(float), a_row = p->a.row * sizeof(word),
                 b_row = p->ldb * sizeof(word), next = wide ? SIDE : SIDE * p->ldc;
    int          odd = 0;

    for (size_t i = 0; i < p->m; i += wide ? SIDE : 2 * SIDE)
        for (size_t j = 0; j < p->n; j += wide ? 2 * SIDE : SIDE, odd = !odd) {
            float      *c = p->c + i * p->ldc + j;
            const word *left = p->a.p + i * p->a.row, *right = p->b + j;

            if (odd)
                MULTIPLY(wide, 2, 3);
            else
                MULTIPLY(wide, 0, 1);
        }
}

TILES static void multiply(const struct tile_product *p)
{
    assert(p->m % SIDE == 0 && p->n % SIDE == 0 && p->k % SIDE == 0);
    assert(p->m % (2 * SIDE) == 0 || p->n % (2 * SIDE) == 0);
    if (p->n % (2 * SIDE) == 0)
        multiply_as(p, 1);
    else
        multiply_as(p, 0);
}

static int runs(enum dtype dt) { return dt == DT_BF16 && tiles_here(); }

const struct attention_form attention_amx = {
    .name = "amx", .depth = 2, .strip = BLOCK, .runs = runs, .load = attention_bf16_load,
    .forward = { .queries = SIDE, .keys = TILE, .ld = SIDE },
    .backward = { .queries = BLOCK, .keys = SIDE, .ld = BLOCK },
    .fold = attention_bf16_fold, .contiguous = 1,
    .begin = begin, .end = end, .multiply = multiply,
    .softmax = attention_bf16_softmax, .unit = LN_2,
    .softmax_backward = attention_bf16_softmax_backward,
};
