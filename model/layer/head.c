/* head.c: computes the losses and the head's gradients from the residual stream. For a language
 * model it works chunk by chunk: it computes logits for LOGIT_ROWS tokens at a time (or twice as
 * many), turns them into losses and their gradient, multiplies the gradient back, and reuses the
 * memory. A classifier needs only one position of each row. These positions are gathered into a
 * matrix of one row per sequence. A masked language model needs only the masked tokens (15 of 100).
 * These are gathered, chunk by chunk, before all products. */
#include "model/layer/head.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/rows/gelu.h"
#include "kernels/rows/softmax.h"
#include "kernels/tiled.h"
#include "model/layer/norm.h"

#include <assert.h>

/* Rows of the residual stream whose losses are computed together. */
struct rows {
    const struct model     *m;
    const struct head      *h;
    const struct acts_head *a;
    size_t           n, C, V; // V: columns of logits
    const int32_t   *target;  // (n)
    const float     *weight;  // (n): of the tokens' gradients; NULL: 1
    float           *x, *dx;  // (n, C); dx: backward only
    struct norm      norm;    // of x
    size_t           micro;   // of a classifier's
};

static struct rows rows_of(const struct model *m, const struct head *h, size_t n, float *x,
                           float *dx, const int32_t *target)
{
    const struct acts_head *a = &m->acts.head;

    return (struct rows){
        .m = m, .h = h, .a = a, .n = n, .C = m->o.config.n_embd, .target = target, .x = x, .dx = dx,
        .V = arch_logits(&m->o.config),
        .norm = { m, h->wire, n, x, a->mean, a->rstd },
    };
}

static double sum_losses(double sum, const struct rows *r, uint64_t *counted)
{
    for (size_t i = 0; i < r->n; i++) {
        sum += (double)r->a->losses[i];
        *counted += r->target[i] >= 0;
    }
    return sum;
}

/* ---- a language model's ---- */

void *head_dlogits(const struct model *m, size_t at, size_t V)
{
    return model_at(m, m->acts.head.dlogits, m->products->tiled ? tiled_at(V, at, 0) : at * V);
}

/* Computes logits = ln wte', piece by piece, then losses and, in training, the gradient of the
 * logits. If the plan says so, the gradient overwrites the logits. */
static void chunk_losses(const struct rows *r)
{
    const struct model     *m = r->m;
    const struct acts_head *a = r->a;
    int                     in_place = (void *)a->logits == a->dlogits;

    for (size_t at = 0, n; at < r->n; at += n) {
        void  *dlogits = r->h->trains ? head_dlogits(m, at, r->V) : NULL;
        float *logits = r->h->trains && in_place ? dlogits : a->logits;

        n = model_head_chunk(m, r->n - at, LOGIT_ROWS);
        model_logits(m, ARCH_HEAD, n, logits, model_at(m, a->ln, at * r->C), r->h->head_wire,
                     r->h->wire);
        softmax_xent(&(struct softmax_xent){
            .n = n, .V = r->V, .logits = logits, .split = products_split(r->V, m->o.dtype),
            .targets = r->target + at, .losses = a->losses + at, .dlogits = dlogits,
            .dt = m->o.dtype, .tiled = m->products->tiled,
            .scale = r->h->trains ? r->h->scale : 1.0f,
            .weights = r->weight ? r->weight + at : NULL, .smoothing = m->o.smoothing });
    }
}

static double chunks_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted)
{
    struct acts_shape shape = model_shape(m, micro);
    size_t N = shape.rows * shape.seq, C = m->o.config.n_embd, first = micro * model_tokens(m);
    float *x = acts_input(&m->acts, m->o.config.n_layer + 1, micro);
    double sum = 0;

    for (size_t i = 0, n; i < N; i += n) {
        float      *dx = h->trains ? m->acts.work.dx + (first + i) * C : NULL;
        struct rows r = rows_of(m, h, n = model_head_chunk(m, N - i, HEAD_ROWS), x + i * C, dx,
                                m->acts.work.y + first + i);

        r.weight = m->acts.work.weight ? m->acts.work.weight + first + i : NULL;
        norm_forward(r.a->ln, &r.norm);
        chunk_losses(&r);
        sum = sum_losses(sum, &r, counted);
        if (h->each)
            memcpy(h->each + i, r.a->losses, n * sizeof(float));
        if (!h->trains)
            continue;
        model_gradient(m, ARCH_HEAD, n, h->head_grad, r.a->ln, r.a->dlogits,
                       h->fresh && i == 0, NULL);
        model_product(m, ARCH_HEAD, PRODUCT_BACK, n, r.a->dln, r.a->dlogits, h->head_wire);
        norm_backward(&r.norm, h->grad, r.dx, r.a->dln);
    }
    return sum;
}

/* ---- a masked language model's ---- */

/* Copies the rows of the tokens at[i] to rows [0, n). The rows behind them do not count. */
static void gather(const struct rows *r, const int32_t *at, size_t n, const float *x,
                   const int32_t *y)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(r->x + i * r->C, x + (size_t)at[i] * r->C, r->C * sizeof *x);
        r->a->target[i] = y[at[i]];
    }
    floats_zero(r->x + n * r->C, (r->n - n) * r->C);
    memset(r->a->target + n, 0xff, (r->n - n) * sizeof *y); // -1
}

/* ln = norm(gelu(x W' + b)). */
static void masked_forward(const struct rows *r)
{
    const struct model     *m = r->m;
    const struct acts_head *a = r->a;

    convert(a->narrow, m->o.dtype, r->x, DT_F32, r->n * r->C);
    model_product(m, ARCH_TRANSFORM, PRODUCT_FORWARD, r->n, a->pooled, a->narrow, r->h->wire);
    gelu_erf_forward(a->act, a->pooled, DT_F32, r->n * r->C);
    norm_forward(a->ln, &r->norm);
}

static void masked_backward(const struct rows *r, int fresh)
{
    const struct model     *m = r->m;
    const struct acts_head *a = r->a;
    size_t                  head = m->o.config.arch->masked;
    void                   *sums = m->acts.work.sums, *dy = a->ln; // no longer needed

    model_gradient(m, ARCH_HEAD, r->n, r->h->head_grad, a->ln, a->dlogits, fresh, NULL);
    colsum_add(model_grad(m, r->h->grad, head + 4), NULL, a->dlogits, m->o.dtype, r->n, r->V, sums);
    model_product(m, ARCH_HEAD, PRODUCT_BACK, r->n, a->dln, a->dlogits, r->h->head_wire);
    norm_backward(&r->norm, r->h->grad, r->dx, a->dln);
    gelu_erf_backward(&(struct gelu_backward){
        .n = r->n, .C = r->C, .dt = DT_F32, .x = a->pooled, .dout = r->dx, .out = a->act,
        .dx = a->dln, .db = model_grad(m, r->h->grad, head + 1), .scratch = sums });
    convert(dy, m->o.dtype, a->dln, DT_F32, r->n * r->C);
    model_gradient(m, ARCH_TRANSFORM, r->n, r->h->grad, a->narrow, dy, fresh, NULL);
    model_product(m, ARCH_TRANSFORM, PRODUCT_BACK, r->n, r->dx, dy, r->h->wire);
}

static size_t masked_tokens(int32_t *at, const int32_t *y, size_t N)
{
    size_t n = 0;

    for (size_t i = 0; i < N; i++)
        if (y[i] >= 0)
            at[n++] = (int32_t)i;
    return n;
}

static double masked_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted)
{
    const struct acts_head *a = &m->acts.head;
    struct acts_shape       shape = model_shape(m, micro);
    size_t         N = shape.rows * shape.seq, C = m->o.config.n_embd;
    size_t         row = micro * model_tokens(m);
    const float   *x = acts_input(&m->acts, m->o.config.n_layer + 1, micro);
    const int32_t *y = m->acts.work.y + row;
    float         *dx = h->trains ? m->acts.work.dx + row * C : NULL;
    size_t all = masked_tokens(a->masked, y, N), rows = round_up(size_max(all, 1),
                                                                 products_head_unit(&m->o));
    double sum = 0;

    if (h->each)
        floats_zero(h->each, N);
    if (dx)
        floats_zero(dx, N * C);
    for (size_t i = 0, n; i < rows; i += n) {
        const int32_t *at = a->masked + i;
        struct rows    r = rows_of(m, h, n = model_head_chunk(m, rows - i, HEAD_ROWS), a->x, a->dx,
                                   a->target);
        size_t         here = i < all ? size_min(n, all - i) : 0;

        r.norm.x = a->act;
        gather(&r, at, here, x, y);
        masked_forward(&r);
        chunk_losses(&r);
        sum = sum_losses(sum, &r, counted);
        for (size_t k = 0; k < here && h->each; k++)
            h->each[at[k]] = a->losses[k];
        if (!dx)
            continue;
        masked_backward(&r, h->fresh && i == 0);
        for (size_t k = 0; k < here; k++)
            memcpy(dx + (size_t)at[k] * C, r.dx + k * C, C * sizeof *dx);
    }
    return sum;
}

/* ---- an encoder's pooler, between the last layer and a classifier's head: tanh(x W' + b) of each
 * row's first token. Dropout follows it, and in some families also precedes it (arch.h). A
 * micro-batch has few such rows, so the plain kernel of a classifier is fast enough. ---- */

static struct score pool_score(const struct rows *r)
{
    const struct model *m = r->m;

    return (struct score){ .n = r->n, .L = r->C, .C = r->C, .dt = m->o.dtype, .x = r->a->narrow,
                           .w = model_wire(m, r->h->wire, m->o.config.arch->pool) };
}

/* Dropout of the pooler. It takes the number of a layer that does not exist, so that its masks are
 * its own. */
static struct dropout pool_dropout(const struct rows *r, enum model_place place)
{
    struct dropout drop = model_dropout(r->m, r->micro, r->m->o.config.n_layer + 1, place);

    if (place == PLACE_ATTN_PROJ && !r->m->o.config.arch->pool_drops)
        drop.p = 0;
    return drop;
}

static void pool_drop(const struct rows *r, float *out, const float *x, enum model_place place)
{
    struct dropout drop = pool_dropout(r, place);

    if (drop.p > 0)
        dropout_rows(out, x, r->n, r->C, 0, &drop);
}

static void pool_forward(const struct rows *r)
{
    const struct model *m = r->m;
    size_t              n = r->n * r->C;
    struct score        score = pool_score(r);
    float              *pooled = r->a->pooled, *work = r->a->dx; // work: in passes with dropout

    pool_drop(r, r->x, r->x, PLACE_ATTN_PROJ);
    convert(r->a->narrow, m->o.dtype, r->x, DT_F32, n);
    score_forward(pooled, &score);
    score_bias(pooled, model_wire(m, r->h->wire, m->o.config.arch->pool + 1), m->o.dtype, r->n,
               r->C);
    tanh_forward(pooled, pooled, DT_F32, n);
    pool_drop(r, work, pooled, PLACE_MLP_PROJ);
    convert(r->a->ln, m->o.dtype, pool_dropout(r, PLACE_MLP_PROJ).p > 0 ? work : pooled, DT_F32, n);
}

/* Computes dx from dln, which it overwrites, and the gradients of the pooler's parameters. */
static void pool_backward(const struct rows *r)
{
    const struct model *m = r->m;
    size_t              weight = m->o.config.arch->pool;
    float              *dout = r->a->dln, *grad = r->h->grad;
    struct score        score = pool_score(r);

    pool_drop(r, dout, dout, PLACE_MLP_PROJ);
    tanh_backward(dout, dout, r->a->pooled, DT_F32, r->n * r->C);
    colsum_add(model_grad(m, grad, weight + 1), NULL, dout, DT_F32, r->n, r->C,
               m->acts.work.sums);
    score_backward(r->dx, model_grad(m, grad, weight), dout, &score);
    pool_drop(r, r->dx, r->dx, PLACE_ATTN_PROJ);
}

/* ---- a classifier's ---- */

/* The token of each row that the head takes: the last one, or an encoder's first one. */
static size_t row_token(const struct model *m, size_t micro, size_t i, size_t seq)
{
    int32_t last = m->acts.work.last[micro * m->o.batch + i];

    assert(last >= 0 && (size_t)last < seq);
    return i * seq + (m->o.config.arch->encoder ? 0 : (size_t)last);
}

static void logits_forward(const struct rows *r, const struct score *score)
{
    const struct arch *arch = r->m->o.config.arch;

    if (arch->encoder)
        pool_forward(r);
    else
        norm_forward(r->a->ln, &r->norm);
    score_forward(r->a->logits, score);
    if (arch->encoder)
        score_bias(r->a->logits, model_wire(r->m, r->h->wire, arch->score + 1), r->m->o.dtype,
                   r->n, r->V);
}

/* Computes dx and the gradients of the block's tensors from the gradient of the logits. */
static void logits_backward(const struct rows *r, const struct score *score)
{
    const struct arch *arch = r->m->o.config.arch;
    float             *grad = r->h->grad;

    score_backward(r->a->dln, model_grad(r->m, grad, arch->score), r->a->logits, score);
    if (!arch->encoder) {
        norm_backward(&r->norm, grad, r->dx, r->a->dln);
        return;
    }
    colsum_add(model_grad(r->m, grad, arch->score + 1), NULL, r->a->logits, DT_F32, r->n, r->V,
               r->m->acts.work.sums);
    pool_backward(r);
}

/* Losses and, in training, their gradients, which overwrite the logits. */
static void rows_losses(const struct rows *r, const float *value)
{
    float *logits = r->a->logits, *dlogits = r->h->trains ? logits : NULL;
    float  scale = r->h->trains ? r->h->scale : 1.0f;

    if (r->V == 1)
        score_squares(r->a->losses, dlogits, logits, value, r->target, r->n, scale);
    else
        softmax_xent(&(struct softmax_xent){
            .n = r->n, .V = r->V, .logits = logits, .split = r->V, .targets = r->target,
            .losses = r->a->losses, .dlogits = dlogits, .dt = DT_F32, .scale = scale,
            .smoothing = r->m->o.smoothing });
}

static double rows_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted)
{
    const struct acts_work *w = &m->acts.work;
    struct acts_shape       shape = model_shape(m, micro);
    size_t       at = micro * m->o.batch, C = m->o.config.n_embd, bytes = C * sizeof(float);
    struct rows  r = rows_of(m, h, shape.rows, m->acts.head.x, m->acts.head.dx, w->label + at);
    const float *x = acts_input(&m->acts, m->o.config.n_layer + 1, micro);
    float       *dx = h->trains ? w->dx + micro * model_tokens(m) * C : NULL;
    struct score score = { .n = r.n, .L = r.V, .C = C, .dt = m->o.dtype, .x = r.a->ln,
                           .w = model_wire(m, h->wire, m->o.config.arch->score) };

    r.micro = micro;
    for (size_t i = 0; i < r.n; i++)
        memcpy(r.x + i * C, x + row_token(m, micro, i, shape.seq) * C, bytes);
    logits_forward(&r, &score);
    if (h->each)
        memcpy(h->each, r.a->logits, r.n * r.V * sizeof(float));
    rows_losses(&r, w->value + at);
    if (!h->trains)
        return sum_losses(0, &r, counted);
    logits_backward(&r, &score);
    memset(dx, 0, r.n * shape.seq * bytes);
    for (size_t i = 0; i < r.n; i++)
        memcpy(dx + row_token(m, micro, i, shape.seq) * C, r.dx + i * C, bytes);
    return sum_losses(0, &r, counted);
}

double head_run(struct model *m, size_t micro, const struct head *h, uint64_t *counted)
{
    assert(!h->trains || m->o.training);
    return arch_classifies(&m->o.config)  ? rows_run(m, micro, h, counted)
           : arch_is_masked(&m->o.config) ? masked_run(m, micro, h, counted)
                                          : chunks_run(m, micro, h, counted);
}
