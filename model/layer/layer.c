/* layer.c: runs what all families' layers share: the embeddings, products that training and
 * generation run in different ways, and the two projections that are added to the residual
 * stream. */
#include "model/layer/layer.h"

#include "kernels/elementwise.h"
#include "kernels/rng.h"

#include <math.h>

void layer_embed_scale(const struct model_config *g, float *x, size_t n)
{
    if (g->arch->scales_embed)
        floats_scale(x, sqrtf((float)g->n_embd), n * g->n_embd);
}

void layer_embed_noise(float *x, const struct embed *e)
{
    if (e->noise_size > 0)
        rng_uniform_add(x, e->B * e->T * e->m->o.config.n_embd, e->noise_size, e->m->o.dropout.seed,
                        e->noise);
}

static size_t positions_at(const struct embed *e)
{
    return (arch_first_position(&e->m->o.config) + e->at) * e->m->o.config.n_embd;
}

/* The piece that has all rows of a table. */
static struct embedding_piece all_of(const struct embed *e, size_t table)
{
    return (struct embedding_piece){ 0, arch_rows(&e->m->o.config, table) };
}

void layer_embed(float *out, const struct embed *e, size_t words, size_t positions)
{
    const struct model *m = e->m;
    size_t              C = m->o.config.n_embd, N = e->B * e->T;
    const void         *wte = model_wire(m, e->wire, words),
               *wpe = model_at(m, model_wire(m, e->wire, positions), positions_at(e));

    if (!e->positions) {
        embedding_forward(out, wte, wpe, m->o.dtype, e->tokens, e->B, e->T, C);
        return;
    }
    embedding_piece_forward(out, wte, m->o.dtype, all_of(e, words), e->tokens, N, C);
    embedding_add(out, wpe, m->o.dtype, e->positions, N, C);
}

void layer_embed_backward(float *grad, const float *dout, const struct embed *e, size_t words,
                          size_t positions)
{
    size_t C = e->m->o.config.n_embd, N = e->B * e->T;
    float *dwte = model_grad(e->m, grad, words), *dwpe = model_grad(e->m, grad, positions);

    dwpe = dwpe ? dwpe + positions_at(e) : NULL;
    if (!e->positions && (dwte || dwpe))
        embedding_backward(dwte, dwpe, dout, e->tokens, e->B, e->T, C);
    if (e->positions && dwte)
        embedding_piece_backward(dwte, dout, all_of(e, words), e->tokens, N, C);
    if (e->positions && dwpe)
        embedding_piece_backward(dwpe, dout, all_of(e, positions), e->positions, N, C);
}

static struct adapter_rows adapter_of(const struct layer *l)
{
    return (struct adapter_rows){ .m = l->m, .of = l->adapter, .w = l->w, .n = l->n,
                                  .padded = l->padded, .first = l->first };
}

void layer_product(const struct layer *l, size_t which, void *out, const void *in)
{
    struct adapter_rows adapter = adapter_of(l);

    if (l->padded)
        model_product(l->m, which, PRODUCT_FORWARD, l->padded, out, in, l->wire);
    else
        model_matvec(l->m, which, l->n, out, in, l->wire, l->w->matvec);
    adapter_forward(&adapter, which, out, in);
}

void layer_fc(const struct layer *l)
{
    layer_product(l, l->m->o.config.arch->fc, l->mlp.at[MLP_FC], l->w->ln);
}

void layer_back(const struct layer *l, size_t which, void *din, const void *dout)
{
    struct adapter_rows adapter = adapter_of(l);

    model_product(l->m, which, PRODUCT_BACK, l->n, din, dout, l->wire);
    adapter_back(&adapter, which, din, dout);
}

void layer_gradient(const struct layer *l, size_t which, const void *in, const void *dout)
{
    struct adapter_rows adapter = adapter_of(l);

    model_gradient(l->m, which, l->n, l->grad, in, dout, l->fresh && l->first == 0,
                   which == l->m->o.config.arch->fc ? l->later : NULL);
    adapter_gradient(&adapter, which, in, dout);
}

void layer_rotate(const struct layer *l, void *x, void (*rotate)(const struct rope_rows *))
{
    const struct model_config *g = &l->m->o.config;
    const float               *table = l->local ? l->w->rope_local : l->w->rope;
    struct rope_rows           rows = {
        .n = l->n, .H = g->n_head + g->n_kv_head, .D = g->head_dim,
        .stride = arch_dim(g, DIM_QKV), .dt = l->m->o.dtype, .x = x,
        .table = l->at ? table : table + l->from * g->head_dim, .T = l->T, .first = l->first,
        .at = l->at };

    rotate(&rows);
}

/* Applies dropout to rows of a projection, or to their gradient. out may be x. */
static void drop_rows(const struct layer *l, float *out, const float *x,
                      const struct dropout *drop)
{
    if (drop->p > 0)
        dropout_rows(out, x, l->n, l->m->o.config.n_embd, l->first, drop);
}

void layer_proj(const struct layer *l, size_t which, const void *in, const struct dropout *drop)
{
    layer_product(l, which, l->w->proj, in);
    drop_rows(l, l->w->proj, l->w->proj, drop);
}

const void *layer_proj_back(const struct layer *l, size_t bias, const struct dropout *drop)
{
    const float *dx = l->dx;
    void        *narrowed = l->m->o.dtype == DT_F32 ? NULL : l->w->dy;

    drop_rows(l, l->w->proj, dx, drop);
    if (drop->p > 0)
        dx = l->w->proj;
    colsum_add(layer_grad(l, bias), narrowed, dx, DT_F32, l->n, l->m->o.config.n_embd, l->w->sums);
    return narrowed ? narrowed : dx;
}
