/* layer.c: what the families' layers have in common: products that training and generation run in
 * different ways, and the two projections that are added to the residual stream. */
#include "model/layer.h"

#include "kernels/elementwise.h"

#include <math.h>

void layer_embed_scale(const struct model_config *g, float *x, size_t n)
{
    if (g->arch->scales_embed)
        floats_scale(x, sqrtf((float)g->n_embd), n * g->n_embd);
}

void layer_product(const struct layer *l, size_t which, void *out, const void *in)
{
    if (l->padded)
        model_product(l->m, which, PRODUCT_FORWARD, l->padded, out, in, l->wire);
    else
        model_matvec(l->m, which, l->n, out, in, l->wire, l->w->matvec);
}

void layer_fc(const struct layer *l)
{
    layer_product(l, l->m->o.config.arch->fc, l->mlp.at[MLP_FC], l->w->ln);
}

void layer_back(const struct layer *l, size_t which, void *din, const void *dout)
{
    model_product(l->m, which, PRODUCT_BACK, l->n, din, dout, l->wire);
}

void layer_gradient(const struct layer *l, size_t which, const void *in, const void *dout)
{
    model_gradient(l->m, which, l->n, l->grad, in, dout, l->fresh && l->first == 0);
}

void layer_turn(const struct layer *l, void *x, void (*turn)(const struct rope_rows *))
{
    const struct model_config *g = &l->m->o.config;
    const float               *table = l->local ? l->w->rope_local : l->w->rope;
    struct rope_rows           rows = {
        .n = l->n, .H = g->n_head + g->n_kv_head, .D = g->head_dim,
        .stride = arch_dim(g, DIM_QKV), .dt = l->m->o.dtype, .x = x,
        .table = table + l->from * g->head_dim, .T = l->T, .first = l->first };

    if (!l->at) {
        turn(&rows);
        return;
    }
    rows.n = rows.T = 1;
    rows.first = 0;
    for (size_t i = 0; i < l->n; i++) {
        rows.x = model_at(l->m, x, i * rows.stride);
        rows.table = table + l->at[i] * g->head_dim;
        turn(&rows);
    }
}

/* Rows of a projection, or of its gradient; out may be x. */
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
