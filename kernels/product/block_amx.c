/* block_amx.c: multiplies blocks of bf16 in AMX tile registers. A block of sums is 2 x 2 registers,
 * so that each of the four tiles that a step loads is used twice. A step loads them all before it
 * multiplies: where another thread shares the core's tile unit, loads between products wait for
 * these. One operand was packed long ago and comes from L3: a step asks for its tiles of a later
 * one. The unit takes hundreds of nanoseconds to begin anew after a pause, so the block's aside is
 * done between steps. */
#include "kernels/product/block_form.h"

#include "data/base/round.h"
#include "kernels/tiles.h"

enum { BLOCK = 2 * TILE_SIDE, STEP = TILE_SIDE * TILE_SIDE }; // words of a tile

/* Tile registers 0-3: sums; 4, 5: upper and lower half of the left operand; 6, 7: left and right
 * half of the right one. */

TILES static void begin(void) { tiles_begin(); }

TILES static void end(void) { tiles_end(); }

TILES __attribute__((always_inline)) static inline void ask(const word *tile)
{
    for (int i = 0; i < TILE_SIDE; i++)
        __builtin_prefetch(tile + i * TILE_SIDE, 0, 3);
}

/* No ordinary store may be in here (tiles.h). An aside stores nothing that a tile is loaded from. */
TILES __attribute__((always_inline)) static inline void steps(const struct block *p, const int asks)
{
    const word  *a = p->a, *b = p->b, *low = a + p->a_next, *right = b + p->b_next;
    const word  *first = p->asks_a ? a : b, *second = p->asks_a ? low : right;
    const size_t ahead = p->ahead * TILE_SIDE, left = p->aside ? p->aside->left : 0;
    size_t       turns = div_up(left, p->words / TILE_SIDE); // of the aside in a step

    for (size_t k = p->words; k > 0; k -= TILE_SIDE) {
        if (asks) {
            ask(first + ahead);
            ask(second + ahead);
            first += STEP;
            second += STEP;
        }
        tile_load(4, a, TILE_ROW);
        tile_load(6, b, TILE_ROW);
        tile_load(7, right, TILE_ROW);
        tile_load(5, low, TILE_ROW);
        tile_dot(0, 4, 6);
        tile_dot(1, 4, 7);
        tile_dot(2, 5, 6);
        tile_dot(3, 5, 7);
        a += STEP;
        b += STEP;
        low += STEP;
        right += STEP;
        for (size_t i = 0; i < turns && p->aside->left > 0; i++)
            p->aside->next(p->aside);
    }
}

TILES static void multiply(const struct block *p)
{
    enum { ROW = BLOCK * sizeof(float) };
    float *upper = p->sums, *lower = p->sums + TILE_SIDE * BLOCK;

    if (p->fresh) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, upper, ROW);
        tile_load(1, upper + TILE_SIDE, ROW);
        tile_load(2, lower, ROW);
        tile_load(3, lower + TILE_SIDE, ROW);
    }
    if (p->ahead)
        steps(p, 1);
    else
        steps(p, 0);
    tile_store(0, upper, ROW);
    tile_store(1, upper + TILE_SIDE, ROW);
    tile_store(2, lower, ROW);
    tile_store(3, lower + TILE_SIDE, ROW);
}

const struct block_form block_amx = {
    .name = "amx", .dt = DT_BF16, .rows = BLOCK, .cols = BLOCK, .left = TILE_SIDE,
    .right = TILE_SIDE, .tiled = 1, .cuts = { 64, 256, 1 << 18, 128, 8, 8192, 1 << 20, 8192, 16 },
    .runs = tiles_here, .begin = begin, .end = end, .multiply = multiply,
};
