/* bench_kernels.h: a kernel as a row of what it takes and does. Private to bench_kernels.c, which
 * measures, and bench_kernel_rows.c, which has the rows. */
#pragma once

#include "data/base/dtype.h"

enum { OPERANDS = 13, TABLE_ROWS = 8192 };
enum { UPDATE_PARAMS = 1 << 16, STEP_PARAMS = 1 << 22 };

/* The sizes of the model at hand. `of` has them by the letters of a row:
 *
 * B T C H D F Q V  as in model/arch/arch.h: rows, their length, width, heads, a head's columns, the
 *                  MLP's, queries', and words of a piece of the head
 * N t R y          tokens of a chunk, of a micro-batch, of the head's chunk, and of those of a
 *                  micro-batch that are no padding
 * q G K            columns of queries, keys and values; and where heads share keys, of these and of
 *                  the keys alone
 * h m              heads of queries and keys, and what of their columns rope turns
 * L k p U P w      parameters of a block; those that Top-K takes, and bytes of one; parameters of a
 *                  subgroup's piece and of mem's update; words of the table of embeddings, of which
 *                  more would not change what is moved
 * e r f            bytes of the run's dtype; of a rounded copy beside fp32 (0: there is none); of a
 *                  row's softmax so far
 * s a d x          scratch of sums of columns, attention, sums of squares, Top-K */
struct sizes {
    size_t     B, T, C, H, D, KV, F, Q, V, N, t, R;
    size_t     shared, window, length, head; // heads of keys that are shared; keys in a window;
                                             // tokens of a row that is padded; columns turned
    size_t     of[128];
    enum dtype dt;
    int        threads;
    int32_t   *tokens, *targets, *types, *lengths; // (B, T); types 0 or 1; lengths (B)
    float     *angles; // (T, head): rope_table's; others would make numbers vanish
    float      plus;   // what is added to the weights of norms of heads
};

/* Which keys a query sees: attention's FLOPs are by element and key, and its arithmetic is
 * products, whose peak in the run's dtype bounds it. KEYS_HALF is causal, without the half. */
enum keys { KEYS_NONE, KEYS_HALF, KEYS_CAUSAL, KEYS_WINDOW, KEYS_PADDED, KEYS_ALL };

enum { ONE_THREAD = 1, NORMAL = 2 }; // NORMAL: on values as a gradient has them

struct kernel {
    const char *name, *rows, *columns; // columns NULL: elements in a row
    double      flops; // of each element
    void      (*call)(const struct sizes *s, void *const *p, int how);
    int         how; // which of its calls
    /* One word for each p: how it is used, and its bytes, a product of numbers and letters.
     * i: read, o: written, b: both, c: it comes from a cache and does not count. r and w: bytes
     * that are read and written beside those, of no operand of their own. */
    const char *operands;
    enum keys   keys;
    int         flags;
};
extern const struct kernel bench_kernel_rows[]; // ends with { 0 }
