/* pair_sum.c: adds compressed gradients of several groups. It expands a slice of all lists to dense
 * arrays, adds these in the order of the tree, and collects the pairs again. Slices in which no
 * list has a pair are skipped. */
#include "offload/gradient/pair_sum.h"

#include "data/base/round.h"
#include "kernels/update/reduce.h"

#include <assert.h>
#include <string.h>

enum { SLICE = 1024 }; // elements; slices of a few lists fit into the cache

struct work {
    float           *dense; // (n_lists, SLICE)
    float          **x;     // (n_lists)
    struct sum_node *nodes; // (n_lists)
    size_t          *at;    // (n_lists) the next pair
    float           *sum;   // (REDUCE_BLOCK)
    char            *there; // (SLICE)
};

/* Lays out the scratch memory, and returns its bytes. */
static size_t work_lay(struct work *w, char *scratch, size_t n)
{
    size_t at = 0;

    w->x = (float **)(scratch + at);
    at += n * sizeof *w->x;
    w->nodes = (struct sum_node *)(scratch + at);
    at += n * sizeof *w->nodes;
    w->at = (size_t *)(scratch + at);
    at += n * sizeof *w->at;
    w->dense = (float *)(scratch + at);
    at += n * SLICE * sizeof *w->dense;
    w->sum = (float *)(scratch + at);
    at += REDUCE_BLOCK * sizeof *w->sum;
    w->there = scratch + at;
    return at + SLICE;
}

size_t pair_sum_scratch(size_t n_lists)
{
    struct work w;
    char        none[1];

    return work_lay(&w, none, n_lists);
}

/* Expands elements [from, from + n) of all lists into w->dense. Returns whether there are any. */
static int spread(const struct pair_sum *s, const struct work *w, size_t from, size_t n)
{
    int any = 0;

    for (size_t k = 0; k < s->n_lists; k++)
        any |= w->at[k] < s->lists[k].n && s->lists[k].pairs[w->at[k]].index < from + n;
    if (!any)
        return 0;
    memset(w->there, 0, n);
    for (size_t k = 0; k < s->n_lists; k++) {
        const struct pair_list *l = &s->lists[k];

        w->x[k] = w->dense + k * SLICE;
        memset(w->x[k], 0, n * sizeof *w->dense);
        for (; w->at[k] < l->n && l->pairs[w->at[k]].index < from + n; w->at[k]++) {
            size_t i = l->pairs[w->at[k]].index - from;

            w->x[k][i] = l->pairs[w->at[k]].value;
            w->there[i] = 1;
        }
    }
    return 1;
}

size_t pair_sum(const struct pair_sum *s, struct topk_pair *out, double *sums)
{
    struct work w;
    size_t      made = 0;

    work_lay(&w, s->scratch, s->n_lists);
    memset(w.at, 0, s->n_lists * sizeof *w.at);
    for (size_t i = 0; i < s->n; i += REDUCE_BLOCK) {
        size_t block = size_min(s->n - i, REDUCE_BLOCK);

        memset(w.sum, 0, block * sizeof *w.sum);
        for (size_t j = 0; j < block; j += SLICE) {
            size_t from = s->first + i + j, n = size_min(block - j, SLICE);

            if (!spread(s, &w, from, n))
                continue;
            memcpy(w.nodes, s->nodes, s->n_lists * sizeof *w.nodes);
            size_t left = sum_merge(w.nodes, w.x, s->n_lists, s->groups, n);
            assert(left == 1);
            (void)left;
            memcpy(w.sum + j, w.x[0], n * sizeof *w.sum);
            for (size_t e = 0; e < n; e++)
                if (w.there[e])
                    out[made++] = (struct topk_pair){ (uint32_t)(from + e), w.x[0][e] };
        }
        if (sums)
            reduce_sums(&sums[i / REDUCE_BLOCK], w.sum, block);
    }
    return made;
}

/* The first pair whose index is not below this one. */
static size_t pair_at(struct pair_list l, size_t index)
{
    size_t low = 0, high = l.n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l.pairs[mid].index < index)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct pair_list pair_list_part(struct pair_list all, size_t first, size_t n)
{
    size_t from = pair_at(all, first);

    return (struct pair_list){ all.pairs + from, pair_at(all, first + n) - from };
}
