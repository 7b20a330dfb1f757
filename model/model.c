/* model.c: opens the products and the activations of a model once, before the first pass. */
#include "model/model.h"

#include "kernels/elementwise.h"

#include <omp.h>

int model_open(struct model *m, const struct model_options *o, struct err *err)
{
    m->o = *o;
    if (!o->threads)
        m->o.threads = omp_get_max_threads();
    omp_set_num_threads(m->o.threads);
    int rc = products_open(&m->products, &m->o, err);
    if (rc)
        return rc;
    arena_take(&m->scratch, m->products->scratch_bytes);
    rc = arena_map(&m->scratch, "the matrix products", err);
    return rc || o->generates ? rc : acts_open(&m->acts, &m->o, err);
}

void model_close(struct model *m)
{
    acts_close(&m->acts);
    arena_free(&m->scratch);
    products_close(m->products);
}

const void *model_wire(const struct model *m, const void *wire, size_t t)
{
    return model_at(m, wire, arch_offset(&m->o.config, t));
}

float *model_grad(const struct model *m, float *grad, size_t t)
{
    return grad + arch_offset(&m->o.config, t);
}

/* Whether model_gradient makes it. A classifier has no product with wte. */
static int is_product(const struct model *m, size_t t)
{
    return t == GPT2_QKV_W || t == GPT2_ATTN_PROJ_W || t == GPT2_FC_W || t == GPT2_MLP_PROJ_W ||
           (t == GPT2_WTE && !arch_classifies(&m->o.config));
}

void model_grad_begin(const struct model *m, size_t block, float *grad, int products)
{
    size_t t, end;

    for (arch_block_tensors(&m->o.config, block, &t, &end); t < end; t++)
        if (!products || !is_product(m, t))
            floats_zero(model_grad(m, grad, t), arch_size(&m->o.config, t));
}

void model_product(const struct model *m, enum product which, size_t rows, void *c, const void *a,
                   const void *wire)
{
    const struct product_row *of = &products_table[which];
    const void *bias = of->bias ? model_wire(m, wire, of->weight + 1) : NULL;

    products_run(m->products, which, rows, c, a, model_wire(m, wire, of->weight), bias,
                 m->scratch.base);
}

void model_gradient(const struct model *m, enum product which, size_t rows, float *grad,
                    const void *a, const void *b, int fresh)
{
    float *c = model_grad(m, grad, products_table[which].weight);

    if (fresh)
        products_run(m->products, which, rows, c, a, b, NULL, m->scratch.base);
    else
        products_add(m->products, which, rows, c, a, b, m->scratch.base);
}

struct layernorm model_norm(const struct model *m, size_t weight, const void *wire,
                            size_t rows, float *x, float *mean, float *rstd)
{
    return (struct layernorm){ .n = rows, .C = m->o.config.n_embd, .dt = m->o.dtype, .x = x,
                               .w = model_wire(m, wire, weight),
                               .b = model_wire(m, wire, weight + 1), .mean = mean, .rstd = rstd,
                               .eps = m->o.config.norm_eps };
}

size_t model_chunk(const struct model *m, size_t left, size_t chunk)
{
    return products_rows(left, chunk, products_unit(&m->o));
}

struct dropout model_dropout(const struct model *m, size_t micro, size_t block,
                             enum model_place place)
{
    const struct model_dropout *d = &m->o.dropout;
    float    p = place == PLACE_EMBED ? d->embd : place == PLACE_ATTN ? d->attn : d->resid;
    uint64_t use = (m->step * m->o.grad_accum + micro) * arch_blocks(&m->o.config) + block;

    return (struct dropout){ m->dropping ? p : 0, d->seed, .site = use * PLACES + place };
}
