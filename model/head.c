/* head.c: the loss. A chunk's logits are made, LOGIT_ROWS at a time, and turned into losses and
 * their gradient; that is multiplied back both ways, and gone. */
#include "model/head.h"

#include "kernels/softmax.h"

#include <assert.h>
#include <string.h>

/* A chunk of the head: tokens [first, first + n) of a micro-batch. */
struct chunk {
    const struct model *m;
    size_t         n, C, V;
    float         *x;       // (n, C)
    float         *dx;      // (n, C); backward only
    const int32_t *targets; // (n)
    const void    *wire, *embed_wire;
};

static struct chunk chunk_of(const struct model *m, size_t micro, size_t first, const void *wire,
                             const void *embed_wire)
{
    const struct acts_work *w = acts_work(m->acts);
    struct acts_shape       shape = model_shape(m, micro);
    size_t                  N = model_tokens(m), C = m->o.gpt.n_embd;
    struct chunk            c = {
        .m = m, .n = model_chunk(m, shape.rows * shape.seq - first, HEAD_ROWS),
        .C = C, .V = m->o.gpt.vocab,
        .x = acts_input(m->acts, m->o.gpt.n_layer + 1, micro) + first * C,
        .targets = w->y + micro * N + first, .wire = wire, .embed_wire = embed_wire,
    };

    if (m->o.training)
        c.dx = w->dx + (micro * N + first) * C;
    return c;
}

static struct layernorm norm_of(const struct chunk *c)
{
    const struct acts_head *h = acts_head(c->m->acts);

    return model_norm(c->m, GPT_LNF_W, c->wire, c->n, c->x, h->mean, h->rstd);
}

/* logits = ln_f(x) wte', piece by piece; losses, and with `scale` the gradient of logits, which is
 * made in their place where the plan has it so. */
static void chunk_losses(const struct chunk *c, const float *scale)
{
    const struct acts_head *h = acts_head(c->m->acts);
    const struct model     *m = c->m;
    int                     in_place = (void *)h->logits == h->dlogits;
    struct layernorm        norm = norm_of(c);

    layernorm_forward(h->ln, &norm);
    for (size_t at = 0, n; at < c->n; at += n) {
        void  *dlogits = scale ? model_at(m, h->dlogits, at * c->V) : NULL;
        float *logits = scale && in_place ? dlogits : h->logits;

        n = model_chunk(m, c->n - at, LOGIT_ROWS);
        model_product(m, PRODUCT_LOGITS, n, logits, model_at(m, h->ln, at * c->C), c->embed_wire);
        softmax_xent(&(struct softmax_xent){
            .n = n, .V = c->V, .logits = logits, .split = products_split(c->V, m->o.dtype),
            .targets = c->targets + at, .losses = h->losses + at,
            .dlogits = dlogits, .dt = m->o.dtype, .scale = scale ? *scale : 1.0f });
    }
}

static void chunk_backward(const struct chunk *c, float *grad, float *embed_grad, int fresh)
{
    const struct acts_head *h = acts_head(c->m->acts);
    const struct model     *m = c->m;
    struct layernorm        norm = norm_of(c);

    model_gradient(m, PRODUCT_D_WTE, c->n, embed_grad, h->dlogits, h->ln, fresh);
    model_product(m, PRODUCT_D_LNF, c->n, h->dln, h->dlogits, c->embed_wire);
    memset(c->dx, 0, c->n * c->C * sizeof(float));
    layernorm_backward(c->dx, model_grad(m, grad, GPT_LNF_W), model_grad(m, grad, GPT_LNF_B),
                       h->dln, &norm, acts_work(m->acts)->sums);
}

static double sum_losses(double sum, const struct chunk *c, const float *losses, uint64_t *counted)
{
    for (size_t i = 0; i < c->n; i++) {
        sum += (double)losses[i];
        *counted += c->targets[i] >= 0;
    }
    return sum;
}

double head_loss(struct model *m, size_t micro, const void *wire, const void *embed_wire,
                 float *losses, uint64_t *counted)
{
    const struct acts_head *h = acts_head(m->acts);
    struct acts_shape shape = model_shape(m, micro);
    size_t N = shape.rows * shape.seq;
    double sum = 0;

    for (size_t i = 0, n; i < N; i += n) {
        struct chunk c = chunk_of(m, micro, i, wire, embed_wire);

        n = c.n;
        chunk_losses(&c, NULL);
        sum = sum_losses(sum, &c, h->losses, counted);
        if (losses)
            memcpy(losses + i, h->losses, c.n * sizeof(float));
    }
    return sum;
}

double head_step(struct model *m, size_t micro, const void *wire, const void *embed_wire,
                 float *grad, float *embed_grad, int fresh, float scale)
{
    const struct acts_head *h = acts_head(m->acts);
    struct acts_shape shape = model_shape(m, micro);
    size_t   N = shape.rows * shape.seq;
    double   sum = 0;
    uint64_t counted = 0;

    assert(m->o.training);
    for (size_t i = 0, n; i < N; i += n) {
        struct chunk c = chunk_of(m, micro, i, wire, embed_wire);

        n = c.n;
        chunk_losses(&c, &scale);
        sum = sum_losses(sum, &c, h->losses, &counted);
        chunk_backward(&c, grad, embed_grad, fresh && i == 0);
    }
    return sum;
}
