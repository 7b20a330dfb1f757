/* block_form.h: the forms of arithmetic of siTrain's own products (product.h). A form multiplies a
 * block: a few rows of the left operand by some columns of the right one, over a piece of the
 * depth, in registers. Operands lie in strips (strips.h) of words. A word is one fp32 number, or
 * two bf16 that are adjacent along the depth. Every element of a block is one chain of sums over
 * ascending depth, which goes on where the piece before has ended. So its bits depend on nothing
 * but its row, its column and the form. Private to kernels/product and its tests.
 *
 *  block_avx512, block_avx2, block_plain
 *                Products of fp32, and of bf16 that strips widen. Each element is a chain of fused
 *                multiply-adds: all three give the same bits.
 *  block_pairs   Products of bf16 in pairs with AVX512-BF16, which flushes subnormal numbers.
 *  block_amx     Products of bf16 in AMX tiles. */
#pragma once

#include "data/base/dtype.h"

typedef uint32_t word;

enum { WORD_UNIT = 16, MOST_BLOCK = 32 * 48 }; // the depth is padded to it; floats of a block

/* Small pieces of other work. A form whose unit would otherwise rest may do them between its steps;
 * what is left then, the caller does. */
struct aside {
    void (*next)(struct aside *a); // does a piece, and counts it off
    size_t left;
};

struct block {
    float      *sums;          // (rows, cols) of the form
    const word *a, *b;         // the first strips of the operands
    size_t      a_next, b_next; // words to the next strip
    size_t      words;         // of the depth, a multiple of WORD_UNIT
    int         fresh;         // sums are written, not added to
    int         asks_a;        // lines of a are prefetched; 0: those of b
    size_t      ahead;         // words of the depth between a load and its prefetch; 0: none
    struct aside *aside;       // touches neither sums nor operands; NULL: none
};

/* How products are cut for the caches. Bits do not depend on it. */
struct cuts {
    size_t least, most; // lanes that a task packs itself, where sizes allow
    size_t own;         // words that it packs, at most, unless a block needs more
    size_t wide;        // lanes of the other operand in a task, at most
    size_t turns;       // tasks for each thread, at least, where sizes allow
    size_t deep;        // words of the depth of a panel, at most
    size_t shared;      // words that all threads pack for a panel, at most
    size_t piece;       // words of the depth of a piece, at most
    size_t ahead;       // of struct block
};

struct block_form {
    const char *name;
    enum dtype  dt;          // of a word's elements
    size_t      rows, cols;  // of a block
    size_t      left, right; // lanes of a strip of either operand
    int         tiled;       // left strips lie in tiles
    struct cuts cuts;

    int (*runs)(void); // true if this CPU can run the form

    /* Called by each thread before its first block and after its last one; may be NULL. */
    void (*begin)(void);
    void (*end)(void);

    void (*multiply)(const struct block *b);
};

extern const struct block_form block_avx512, block_avx2, block_plain, block_pairs, block_amx;

/* The fastest form for operands of dt on this CPU. */
const struct block_form *block_form_of(enum dtype dt);
