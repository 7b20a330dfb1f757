/* strips.h: operands of products, cut into strips and copied so that a block of product.h reads
 * them from beginning to end. The lanes of an operand are A's rows or B's columns. A strip has a
 * fixed number of lanes over all of the depth, in words (block_form.h):
 *
 *  lanes  word w of lane l is at w * lanes + l.
 *  tiles  of 16 x 16 words, one behind the other along the depth; lanes are rows of a tile.
 *
 * What is beyond the last lane, or beyond the last word, is zero. */
#pragma once

#include "kernels/product/block_form.h"

struct strips {
    size_t     n, k;   // lanes and depth of the operand, in elements
    int        along;  // x is (n, k): a lane's elements are adjacent. 0: x is (k, n)
    enum dtype from, to; // dtypes of x and of words: equal, or DT_BF16 and DT_F32
    size_t     lanes;  // of a strip, at most 48
    int        tiled;
    int        from_tiles; // x (k, n) is in tiles (tiled.h) of bf16; only if `tiled`
};

struct range { size_t from, to; };

/* Copies words [words.from, words.to), multiples of WORD_UNIT, of these strips. `out` is the place
 * of the first word of the first of them; `next` words on is the next strip. Not parallel. */
void strips_pack(word *out, size_t next, const struct strips *s, const void *x,
                 struct range strips, struct range words);

/* Words of the depth, a multiple of WORD_UNIT. */
size_t strips_words(const struct strips *s);
