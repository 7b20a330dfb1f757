/* classify.c: a classifier's loss. Only one position a row counts, so those are gathered, and
 * everything here works on a matrix of as many rows as the micro-batch has. */
#include "model/classify.h"

#include "kernels/score.h"
#include "kernels/softmax.h"

#include <assert.h>
#include <string.h>

struct rows {
    const struct model *m;
    size_t         n, seq, C, L;
    const float   *x;     // (n * seq, C): the residual stream
    const int32_t *last, *label;
    const float   *value;
    struct layernorm norm;
    struct score   score;
};

static struct rows rows_of(const struct model *m, size_t micro, const void *wire)
{
    const struct acts_work *w = acts_work(m->acts);
    const struct acts_head *h = acts_head(m->acts);
    struct acts_shape       shape = model_shape(m, micro);
    size_t                  at = micro * m->o.batch;

    return (struct rows){
        .m = m, .n = shape.rows, .seq = shape.seq, .C = m->o.gpt.n_embd, .L = m->o.gpt.n_labels,
        .x = acts_input(m->acts, m->o.gpt.n_layer + 1, micro),
        .last = w->last + at, .label = w->label + at, .value = w->value + at,
        .norm = model_norm(m, GPT_LNF_W, wire, shape.rows, h->x, h->mean, h->rstd),
        .score = { .n = shape.rows, .L = m->o.gpt.n_labels, .C = m->o.gpt.n_embd,
                   .dt = m->o.dtype, .x = h->ln, .w = model_wire(m, wire, GPT_SCORE_W) },
    };
}

/* logits = ln_f(x[last]) score' */
static void rows_logits(const struct rows *r)
{
    const struct acts_head *h = acts_head(r->m->acts);

    for (size_t i = 0; i < r->n; i++) {
        assert(r->last[i] >= 0 && (size_t)r->last[i] < r->seq);
        memcpy(h->x + i * r->C, r->x + (i * r->seq + (size_t)r->last[i]) * r->C,
               r->C * sizeof(float));
    }
    layernorm_forward(h->ln, &r->norm);
    score_forward(h->logits, &r->score);
}

/* Losses, and with `scale` their gradients in place of the logits. */
static double rows_losses(const struct rows *r, const float *scale, uint64_t *counted)
{
    const struct acts_head *h = acts_head(r->m->acts);
    float *dlogits = scale ? h->logits : NULL;
    double sum = 0;

    if (r->L == 1)
        score_squares(h->losses, dlogits, h->logits, r->value, r->label, r->n,
                      scale ? *scale : 1.0f);
    else
        softmax_xent(&(struct softmax_xent){
            .n = r->n, .V = r->L, .logits = h->logits, .split = r->L, .targets = r->label,
            .losses = h->losses, .dlogits = dlogits, .dt = DT_F32,
            .scale = scale ? *scale : 1.0f });
    for (size_t i = 0; i < r->n; i++) {
        sum += (double)h->losses[i];
        *counted += r->label[i] >= 0;
    }
    return sum;
}

static void rows_backward(const struct rows *r, float *dx, float *grad)
{
    const struct acts_head *h = acts_head(r->m->acts);
    const struct model     *m = r->m;

    score_backward(h->dln, model_grad(m, grad, GPT_SCORE_W), h->logits, &r->score);
    memset(h->dx, 0, r->n * r->C * sizeof(float));
    layernorm_backward(h->dx, model_grad(m, grad, GPT_LNF_W), model_grad(m, grad, GPT_LNF_B),
                       h->dln, &r->norm, acts_work(m->acts)->sums);
    memset(dx, 0, r->n * r->seq * r->C * sizeof(float));
    for (size_t i = 0; i < r->n; i++)
        memcpy(dx + (i * r->seq + (size_t)r->last[i]) * r->C, h->dx + i * r->C,
               r->C * sizeof(float));
}

double classify_loss(struct model *m, size_t micro, const void *wire, float *logits,
                     uint64_t *counted)
{
    struct rows r = rows_of(m, micro, wire);

    rows_logits(&r);
    if (logits)
        memcpy(logits, acts_head(m->acts)->logits, r.n * r.L * sizeof(float));
    return rows_losses(&r, NULL, counted);
}

double classify_step(struct model *m, size_t micro, const void *wire, float *grad, float scale)
{
    struct rows r = rows_of(m, micro, wire);
    uint64_t    counted = 0;
    double      sum;

    assert(m->o.training);
    rows_logits(&r);
    sum = rows_losses(&r, &scale, &counted);
    rows_backward(&r, acts_work(m->acts)->dx + micro * model_tokens(m) * r.C, grad);
    return sum;
}
