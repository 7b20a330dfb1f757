/* pool.c: computes an encoder's pooler and its gradients. A micro-batch has few such rows, so the
 * plain kernel of a classifier is fast enough. */
#include "model/layer/pool.h"

#include "kernels/elementwise.h"
#include "kernels/rows/softmax.h"

static struct score score_of(const struct pool *p)
{
    const struct model_config *g = &p->m->o.config;

    return (struct score){ .n = p->n, .L = g->n_embd, .C = g->n_embd, .dt = p->m->o.dtype,
                           .x = p->narrow, .w = model_wire(p->m, p->wire, g->arch->pool) };
}

/* Dropout of the pooler. It takes the number of a layer that does not exist, so that its masks are
 * its own. */
static struct dropout drop_of(const struct pool *p, enum model_place place)
{
    struct dropout drop = model_dropout(p->m, p->micro, p->m->o.config.n_layer + 1, place);

    if (place == PLACE_ATTN_PROJ && !p->m->o.config.arch->pool_drops)
        drop.p = 0;
    return drop;
}

static void drop_rows(const struct pool *p, float *out, const float *x, enum model_place place)
{
    struct dropout drop = drop_of(p, place);

    if (drop.p > 0)
        dropout_rows(out, x, p->n, p->m->o.config.n_embd, 0, &drop);
}

void pool_forward(void *out, const struct pool *p)
{
    const struct model *m = p->m;
    size_t              C = m->o.config.n_embd;
    const void         *bias = model_wire(m, p->wire, m->o.config.arch->pool + 1);
    struct score        score = score_of(p);
    int                 drops = drop_of(p, PLACE_MLP_PROJ).p > 0;

    drop_rows(p, p->x, p->x, PLACE_ATTN_PROJ);
    convert(p->narrow, m->o.dtype, p->x, DT_F32, p->n * C);
    score_forward(p->pooled, &score);
    score_bias(p->pooled, bias, m->o.dtype, p->n, C);
    tanh_forward(p->pooled, p->pooled, DT_F32, p->n * C);
    drop_rows(p, p->work, p->pooled, PLACE_MLP_PROJ);
    convert(out, m->o.dtype, drops ? p->work : p->pooled, DT_F32, p->n * C);
}

void pool_backward(const struct pool *p, float *grad, float *dx, float *dout)
{
    const struct model *m = p->m;
    size_t              C = m->o.config.n_embd, weight = m->o.config.arch->pool;
    struct score        score = score_of(p);

    drop_rows(p, dout, dout, PLACE_MLP_PROJ);
    tanh_backward(dout, dout, p->pooled, DT_F32, p->n * C);
    colsum_add(model_grad(m, grad, weight + 1), NULL, dout, DT_F32, p->n, C, m->acts.work.sums);
    score_backward(dx, model_grad(m, grad, weight), dout, &score);
    drop_rows(p, dx, dx, PLACE_ATTN_PROJ);
}
