/* block_rate.c: measures blocks over one set of operands, which every thread reads into a cache of
 * its own. Blocks are deep, so that writing their sums takes nothing. */
#include "kernels/product/block_rate.h"

#include "data/base/clock.h"
#include "data/base/round.h"

#include <unistd.h>

enum { DEEP = 1024 }; // words

size_t block_rate_l2(void)
{
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes > 0 ? (size_t)bytes / 4 : 256 << 10;
}

/* Multiplies blocks for ns nanoseconds on the calling thread. Returns how many in a nanosecond. */
static double blocks_run(const struct block_form *f, struct block b, size_t sets, uint64_t ns)
{
    _Alignas(64) float sums[MOST_BLOCK];
    const word *first = b.a;
    uint64_t    start_ns = clock_ns(), spent_ns;
    double      blocks = 0;

    b.sums = sums;
    do {
        for (size_t i = 0; i < sets; i++, blocks++) {
            b.a = first + i * b.words * (f->rows + f->cols);
            b.b = b.a + b.words * f->rows;
            f->multiply(&b);
        }
        spent_ns = clock_ns() - start_ns;
    } while (spent_ns < ns);
    return blocks / (double)spent_ns;
}

double block_rate(const struct block_form *f, const void *operands, size_t bytes, size_t ahead,
                  uint64_t ns)
{
    size_t lanes = f->rows + f->cols, fit = bytes / (lanes * sizeof(word));
    size_t words = size_max(size_min(fit, DEEP) / WORD_UNIT, 1) * WORD_UNIT;
    double flops = (f->dt == DT_BF16 ? 4.0 : 2.0) * (double)(words * f->rows * f->cols), rate = 0;
    struct block b = { .a = operands, .a_next = words * f->left, .b_next = words * f->right,
                       .words = words, .fresh = 1, .ahead = ahead };

    #pragma omp parallel
    {
        if (f->begin)
            f->begin();
        #pragma omp barrier
        double mine = blocks_run(f, b, size_max(fit / words, 1), ns);
        #pragma omp atomic
        rate += mine;
        if (f->end)
            f->end();
    }
    return rate * flops * 1e9;
}
