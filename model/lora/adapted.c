/* adapted.c: maps blocks of a model with adapters to those of its base, and merges a matrix as it
 * is read: A and B of the matrix at hand are in memory, nothing else. */
#include "model/lora/adapted.h"

#include "data/base/crc32c.h"
#include "data/base/dtype.h"
#include "data/base/round.h"

#include <assert.h>

/* ---- new adapters ---- */

static int adapted_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                        struct err *err)
{
    const struct adapted *a = ctx;
    size_t                of = lora_base_block(a->config, block);

    if (of != SIZE_MAX)
        return a->base.read(a->base.ctx, of, first, n, out, err);
    arch_init_values(out, a->config, block, first, n, a->seed);
    return 0;
}

struct params_source adapted_source(struct adapted *a)
{
    return (struct params_source){ adapted_read, a };
}

/* ---- without adapters ---- */

/* The block of a model with adapters that is this block of its base. */
static size_t with_adapters(const struct model_config *g, size_t block)
{
    return block < arch_pieces(g) + g->n_layer ? block : block + g->n_layer;
}

static int unadapted_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                          struct err *err)
{
    const struct unadapted *u = ctx;

    return u->inner.read(u->inner.ctx, with_adapters(u->config, block), first, n, out, err);
}

struct params_source unadapted_source(struct unadapted *u)
{
    return (struct params_source){ unadapted_read, u };
}

int base_sum(char out[BASE_SUM], const struct model_config *g, const struct params_source *source,
             struct err *err)
{
    enum { VALUES = 32 };
    float    values[VALUES];
    uint32_t sum = 0;
    int      rc = 0;

    for (size_t b = 0; b < arch_blocks(g) && !rc; b++) {
        if (arch_block_kind(g, b) != ARCH_LAYER)
            continue;
        for (size_t t = ARCH_BEFORE; !rc && arch_next(g, b, &t);) {
            size_t all = arch_size(g, t), n = size_min(all - all / 2, VALUES);

            rc = source->read(source->ctx, b, arch_offset(g, t) + all / 2, n, values, err);
            for (size_t i = 0; i < n && !rc; i++) {
                bf16 rounded = bf16_from_f32(values[i]);

                sum = crc32c(sum, &rounded, sizeof rounded);
            }
        }
    }
    snprintf(out, BASE_SUM, "%08" PRIx32, sum);
    return rc;
}

/* ---- merging ---- */

struct merged {
    struct model_config  config;
    struct params_source inner;
    float               *a, *b; // of tensor t in block; room for the largest
    size_t               block, t;
};

static void largest(const struct model_config *g, size_t *a, size_t *b)
{
    *a = *b = 0;
    for (size_t t = 0; t < g->arch->n_params; t++) {
        *a = size_max(*a, arch_size(g, arch_a(t)));
        *b = size_max(*b, arch_size(g, arch_b(t)));
    }
}

int merged_open(struct merged **out, const struct model_config *g,
                const struct params_source *inner, struct err *err)
{
    struct merged *m = calloc(1, sizeof *m);
    size_t         a, b;

    *out = NULL;
    assert(g->lora.rank);
    largest(g, &a, &b);
    if (m) {
        *m = (struct merged){ .config = *g, .inner = *inner, .a = malloc(a * sizeof(float)),
                              .b = malloc(b * sizeof(float)), .block = SIZE_MAX };
        *out = m;
    }
    if (m && m->a && m->b)
        return 0;
    merged_close(m);
    *out = NULL;
    return err_set(err, -ENOMEM, "out of memory to merge adapters");
}

void merged_close(struct merged *m)
{
    if (!m)
        return;
    free(m->a);
    free(m->b);
    free(m);
}

/* Reads A and B of tensor t in a block of the base, unless they are there. */
static int take(struct merged *m, size_t block, size_t t, struct err *err)
{
    const struct model_config *g = &m->config;
    size_t                     of = arch_adapter_block(g, arch_layer(g, block));

    if (m->block == block && m->t == t)
        return 0;
    m->block = SIZE_MAX;
    int rc = m->inner.read(m->inner.ctx, of, arch_offset(g, arch_a(t)), arch_size(g, arch_a(t)),
                           m->a, err);
    rc = rc ? rc : m->inner.read(m->inner.ctx, of, arch_offset(g, arch_b(t)),
                                 arch_size(g, arch_b(t)), m->b, err);
    if (rc)
        return rc;
    m->block = block;
    m->t = t;
    return 0;
}

static int merged_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                       struct err *err)
{
    struct merged             *m = ctx;
    const struct model_config *g = &m->config;
    size_t                     at_block = with_adapters(g, block);
    int                        rc = m->inner.read(m->inner.ctx, at_block, first, n, out, err);

    if (arch_block_kind(g, at_block) != ARCH_LAYER)
        return rc;
    for (size_t count; n && !rc; first += count, out += count) {
        struct arch_place at = arch_place(g, block, first);

        count = size_min(at.left, n);
        n -= count;
        if (!arch_size(g, arch_a(at.t)))
            continue;
        rc = take(m, block, at.t, err);
        if (!rc)
            lora_merged(out, g, at.t, at.in, count, out, m->a, m->b);
    }
    return rc;
}

struct params_source merged_source(struct merged *m)
{
    return (struct params_source){ merged_read, m };
}
