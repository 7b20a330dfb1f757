/* model.c: opens the products and the activations of a model once, before the first pass. */
#include "model/model.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The largest power of two, 16 at most, that divides every length a row can have (16, 32, ..., and
 * the longest). */
static size_t unit_of(size_t seq)
{
    size_t unit = 16;

    while (seq % unit)
        unit /= 2;
    return unit;
}

struct products_options model_products(const struct model_options *o)
{
    return (struct products_options){
        .gpt = o->gpt, .dtype = o->dtype, .engine = o->engine,
        .threads = o->threads ? o->threads : omp_get_max_threads(), .training = o->training,
        .tokens = o->batch * o->seq, .micros = o->grad_accum, .no_head = o->gpt.n_labels > 0,
        .unit = o->varying ? unit_of(o->seq) : 0,
    };
}

static int check(const struct model_options *o, struct err *err)
{
    int rc = gpt_check(&o->gpt, err);

    if (rc)
        return rc;
    if (o->batch == 0 || o->seq == 0 || o->grad_accum == 0)
        return err_misuse(err, "batch, seq and grad-accum must be at least 1, not %zu, %zu and %zu",
                          o->batch, o->seq, o->grad_accum);
    if (o->seq > o->gpt.n_positions)
        return err_misuse(err, "rows of %zu tokens do not fit: the model has %zu positions", o->seq,
                          o->gpt.n_positions);
    if (o->kept > o->gpt.n_layer)
        return err_misuse(err, "activations of %zu layers cannot be kept: there are %zu", o->kept,
                          o->gpt.n_layer);
    if (!(o->dropout.embd >= 0 && o->dropout.embd < 1) ||
        !(o->dropout.attn >= 0 && o->dropout.attn < 1) ||
        !(o->dropout.resid >= 0 && o->dropout.resid < 1))
        return err_misuse(err, "dropout must be in [0, 1), not %g, %g and %g",
                          (double)o->dropout.embd, (double)o->dropout.attn,
                          (double)o->dropout.resid);
    if (o->dtype != DT_F32 && o->dtype != DT_BF16)
        return err_misuse(err, "a model runs in fp32 or bf16");
    return 0;
}

static int scratch_open(struct model *m, struct err *err)
{
    arena_take(&m->scratch, products_scratch(m->products));
    return arena_map(&m->scratch, "the matrix products", err);
}

int model_open(struct model **out, const struct model_options *o, struct err *err)
{
    struct products_options products = model_products(o);
    struct model *m;
    int           rc = check(o, err);

    *out = NULL;
    if (rc)
        return rc;
    m = calloc(1, sizeof *m);
    if (!m)
        return err_set(err, -ENOMEM, "out of memory for the model");
    m->o = *o;
    m->o.threads = products.threads;
    omp_set_num_threads(products.threads);
    rc = products_open(&m->products, &products, err);
    if (!rc)
        rc = scratch_open(m, err);
    if (!rc)
        rc = acts_open(&m->acts, &m->o, err);
    if (rc) {
        model_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    acts_close(m->acts);
    arena_free(&m->scratch);
    products_close(m->products);
    free(m);
}

const void *model_wire(const struct model *m, const void *wire, enum gpt_tensor t)
{
    return model_at(m, wire, gpt_offset(&m->o.gpt, t));
}

float *model_grad(const struct model *m, float *grad, enum gpt_tensor t)
{
    return grad + gpt_offset(&m->o.gpt, t);
}

/* Whether model_gradient makes it. A classifier has no product with wte. */
static int is_product(const struct model *m, enum gpt_tensor t)
{
    return t == GPT_QKV_W || t == GPT_ATTN_PROJ_W || t == GPT_FC_W || t == GPT_MLP_PROJ_W ||
           (t == GPT_WTE && !m->o.gpt.n_labels);
}

void model_grad_begin(const struct model *m, size_t block, float *grad, int products)
{
    enum gpt_tensor t, end;

    for (gpt_block_tensors(&m->o.gpt, block, &t, &end); t < end; t++)
        if (!products || !is_product(m, t))
            floats_zero(model_grad(m, grad, t), gpt_size(&m->o.gpt, t));
}

void model_product(const struct model *m, enum product which, size_t rows, void *c, const void *a,
                   const void *wire)
{
    enum gpt_tensor weight = products_weight(which);
    const void     *w = model_wire(m, wire, weight);
    const void     *bias = products_has_bias(which) ? model_wire(m, wire, weight + 1) : NULL;

    products_run(m->products, which, rows, c, a, w, bias, m->scratch.base);
}

void model_gradient(const struct model *m, enum product which, size_t rows, float *grad,
                    const void *a, const void *b, int fresh)
{
    float *c = model_grad(m, grad, products_weight(which));

    if (fresh)
        products_run(m->products, which, rows, c, a, b, NULL, m->scratch.base);
    else
        products_add(m->products, which, rows, c, a, b, m->scratch.base);
}

struct layernorm model_norm(const struct model *m, enum gpt_tensor weight, const void *wire,
                            size_t rows, float *x, float *mean, float *rstd)
{
    return (struct layernorm){ .n = rows, .C = m->o.gpt.n_embd, .dt = m->o.dtype, .x = x,
                               .w = model_wire(m, wire, weight),
                               .b = model_wire(m, wire, weight + 1), .mean = mean, .rstd = rstd,
                               .eps = m->o.gpt.norm_eps };
}

size_t model_chunk(const struct model *m, size_t left, size_t chunk)
{
    return products_rows(left, chunk, m->o.varying ? unit_of(m->o.seq) : 0);
}

struct dropout model_dropout(const struct model *m, size_t micro, size_t block,
                             enum model_place place)
{
    const struct model_dropout *d = &m->o.dropout;
    float    p = place == PLACE_EMBED ? d->embd : place == PLACE_ATTN ? d->attn : d->resid;
    uint64_t use = (m->step * m->o.grad_accum + micro) * gpt_blocks(&m->o.gpt) + block;

    return (struct dropout){ m->dropping ? p : 0, d->seed, .site = use * PLACES + place };
}
