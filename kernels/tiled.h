/* tiled.h: matrices of bf16 in tiles. A tile has 16 rows of 32 elements, each row a cache line, as
 * AMX loads the left operand of a product. Tiles of the same rows follow each other. The
 * writer sets the columns behind the last one to zero. Rows behind the last one are undefined. */
#pragma once

#include "data/base/dtype.h"
#include "data/base/round.h"

enum { TILED_ROWS = 16, TILED_COLS = 32, TILED_BLOCK = 2 * TILED_ROWS }; // BLOCK: of whole rows

/* Elements from one tile's rows to the next ones'. */
static inline size_t tiled_next(size_t cols) { return TILED_ROWS * round_up(cols, TILED_COLS); }

/* Elements of a matrix. */
static inline size_t tiled_size(size_t rows, size_t cols)
{
    return round_up(rows, TILED_BLOCK) * round_up(cols, TILED_COLS);
}

/* Returns the index of an element. */
static inline size_t tiled_at(size_t cols, size_t row, size_t col)
{
    return row / TILED_ROWS * tiled_next(cols) + col / TILED_COLS * TILED_ROWS * TILED_COLS +
           row % TILED_ROWS * TILED_COLS + col % TILED_COLS;
}
