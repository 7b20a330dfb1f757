/* bench_families.h: a kernel as a row of what it takes and does, and the rows of what families
 * other than GPT-2 need. Private to bench_kernels.c. */
#pragma once

#include "data/base/dtype.h"

enum { FLOPS_EXP = 20, TABLE_ROWS = 8192 };

struct sizes {
    size_t     B, T, C, H, V, N;     // V: words, of a piece of the head; N: tokens of a chunk
    size_t     D, KV, F, W;          // of a head, heads of keys, of the MLP, a layer's window
    size_t     Q, qkv;               // columns of queries, and of all that attention takes
    size_t     n, bt, btc;           // N * C, B * T, B * T * C
    size_t     logit_rows, layer, k; // layer: parameters of one; k: of them, by Top-K
    size_t     e;                    // bytes of a dt
    enum dtype dt;
    int        threads;
    int32_t   *tokens, *targets; // (B, T); tokens below TABLE_ROWS
    int32_t   *types;            // (B, T): 0 or 1
    int32_t   *lengths;          // (B): three quarters of T, as a batch with padding may have it
    size_t     head;             // elements that are turned in pairs: an odd one stays
    float     *angles;           // (T, head): rope_table's; others would make numbers vanish
    float      plus;             // what is added to the weights of norms of heads
};

/* What is done with an operand; CACHED: it comes from a cache, and does not count. */
enum use { IN = 1, OUT = 2, BOTH = 3, CACHED = 4 };

enum { OPERANDS = 13 };

/* Values of `which` from here on are bench_families.c's. */
enum { FAMILIES = 64 };

struct kernel {
    const char *name;
    size_t      rows, columns; // columns 0: elements in a row
    double      flops;         // of each element
    int         which; // which one, as its file knows it
    struct operand { enum use use; size_t bytes; } p[OPERANDS];
    double reads, writes; // bytes beside the operands'
    int    one_thread;
    int    products; // its arithmetic is products: their peak in the run's dtype
    int    normal;   // on values as a gradient has them; else on such as overflow in no kernel
};

/* The kernels of other families, at this model's width: their rows, how many; a call of one. p: its
 * operands. */
size_t families_of(struct kernel *out, const struct sizes *s);
void   families_run(int which, const struct sizes *s, void *const *p);
