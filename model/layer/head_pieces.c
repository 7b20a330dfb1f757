/* head_pieces.c: computes the loss over a vocabulary of which only one piece is in memory at a
 * time. Logits are computed chunk by chunk as in head.c. Each piece updates a token's largest logit
 * and its sum of exponentials, as FlashAttention does over keys. It also updates the gradient of
 * the token's row. Until the sum is final, that gradient stands unnormalised in
 * model.acts.work.dx. */
#include "model/layer/head.h"

#include "kernels/elementwise.h"
#include "kernels/rows/softmax.h"
#include "model/layer/norm.h"

/* Rows [at, at + n) of a micro-batch, which are computed together. */
struct chunk {
    struct model      *m;
    const struct head *h;
    size_t n, C, V, first, matrix; // V: words of the piece; first: its first word
    const int32_t         *target; // (n)
    const float           *weight; // (n): of the tokens' gradients; NULL: 1
    struct softmax_so_far *so_far; // (n)
    const void            *ln;     // (n, C)
    void                  *words;  // (n, C); training only
    float                 *dx;     // (n, C); training only
};

static size_t tokens_of(const struct model *m, size_t micro)
{
    return model_shape(m, micro).rows * model_shape(m, micro).seq;
}

static struct chunk chunk_of(struct model *m, size_t micro, const struct head *h, size_t at)
{
    const struct model_config *g = &m->o.config;
    const struct acts_head    *a = &m->acts.head;
    struct arch_words          words = arch_words(g, h->piece);
    size_t row = micro * model_tokens(m) + at, C = g->n_embd;

    return (struct chunk){
        .m = m, .h = h, .n = model_chunk(m, tokens_of(m, micro) - at, HEAD_ROWS), .C = C,
        .V = words.n, .first = words.first, .target = m->acts.work.y + row,
        .weight = m->acts.work.weight ? m->acts.work.weight + row : NULL,
        .matrix = h->piece + 1 == arch_pieces(g) ? ARCH_HEAD_LAST : ARCH_HEAD,
        .so_far = a->so_far + row, .ln = model_at(m, a->ln, row * C),
        .words = h->trains ? model_at(m, a->words, row * C) : NULL,
        .dx = h->trains ? m->acts.work.dx + row * C : NULL };
}

static struct norm norm_of(struct model *m, size_t micro, const struct head *h, size_t at,
                           size_t n)
{
    size_t row = micro * model_tokens(m) + at;
    float *x = acts_input(&m->acts, m->o.config.n_layer + 1, micro) + at * m->o.config.n_embd;

    return (struct norm){ m, h->wire, n, x, m->acts.head.mean + row, m->acts.head.rstd + row };
}

void head_begin(struct model *m, size_t micro, const struct head *h)
{
    size_t N = tokens_of(m, micro), row = micro * model_tokens(m), C = m->o.config.n_embd;

    for (size_t at = 0, n; at < N; at += n) {
        n = model_chunk(m, N - at, HEAD_ROWS);
        struct norm norm = norm_of(m, micro, h, at, n);

        norm_forward(model_at(m, m->acts.head.ln, (row + at) * C), &norm);
    }
    softmax_begin(m->acts.head.so_far + row, N);
    if (h->trains)
        floats_zero(m->acts.work.dx + row * C, N * C);
}

/* Computes the logits of a piece, LOGIT_ROWS at a time. They turn into weights, or with `known`
 * into their gradient. */
static void chunk_softmax(const struct chunk *c, int known)
{
    const struct acts_head *a = &c->m->acts.head;
    enum dtype              dt = c->m->o.dtype;
    int                     in_place = (void *)a->logits == a->dlogits;

    for (size_t at = 0, n; at < c->n; at += n) {
        void  *out = c->h->trains ? head_dlogits(c->m, at, c->V) : NULL;
        float *logits = c->h->trains && in_place ? out : a->logits;

        n = model_chunk(c->m, c->n - at, LOGIT_ROWS);
        model_logits(c->m, c->matrix, n, logits, model_at(c->m, c->ln, at * c->C),
                     c->h->head_wire, c->h->wire);
        struct softmax_piece piece = {
            .n = n, .V = c->V, .logits = logits, .split = products_split(c->V, dt),
            .targets = c->target + at, .first = c->first, .so_far = c->so_far + at, .out = out,
            .dt = dt, .tiled = c->m->products->tiled, .weights = c->weight ? c->weight + at : NULL,
            .smoothing = c->m->o.smoothing, .all = c->m->o.config.vocab };

        if (known)
            softmax_gradient(&piece, c->h->scale);
        else
            softmax_add(&piece, a->factors + at);
    }
}

/* Copies the head's rows of the targets that are in this piece. */
static void take_words(const struct chunk *c)
{
    const struct model *m = c->m;
    size_t              bytes = c->C * dtype_bytes(m->o.dtype);

    for (size_t i = 0; i < c->n; i++) {
        size_t word = (size_t)c->target[i] - c->first; // large if it is before them

        if (c->target[i] >= 0 && word < c->V)
            memcpy(model_at(m, c->words, i * c->C), model_at(m, c->h->head_wire, word * c->C),
                   bytes);
    }
}

void head_words(struct model *m, const struct head *h, int first)
{
    double *total = m->acts.head.total; // NULL: nothing is smoothed, or there is no backward
    size_t  C = m->o.config.n_embd;

    if (total && first)
        memset(total, 0, C * sizeof *total);
    if (total && h->trains)
        softmax_words_add(total, h->head_wire, m->o.dtype,
                          arch_words(&m->o.config, h->piece).n, C);
}

void head_piece(struct model *m, size_t micro, const struct head *h)
{
    const struct acts_head *a = &m->acts.head;
    size_t                  N = tokens_of(m, micro);

    for (size_t at = 0, n; at < N; at += n) {
        struct chunk c = chunk_of(m, micro, h, at);

        n = c.n;
        chunk_softmax(&c, 0);
        if (!h->trains)
            continue;
        model_product(m, c.matrix, PRODUCT_BACK, n, a->dln, a->dlogits, h->head_wire);
        softmax_rows_add(c.dx, a->factors, a->dln, n, c.C);
        take_words(&c);
    }
}

void head_losses(const struct model *m, size_t micro, float *each)
{
    size_t                       row = micro * model_tokens(m), N = tokens_of(m, micro);
    const struct softmax_so_far *so_far = m->acts.head.so_far + row;

    for (size_t i = 0; i < N; i++)
        each[i] = softmax_loss(&so_far[i], m->acts.work.y[row + i]);
}

double head_end(struct model *m, size_t micro, const struct head *h, uint64_t *counted)
{
    const struct acts_head *a = &m->acts.head;
    size_t                  N = tokens_of(m, micro);
    double                  sum = 0;

    for (size_t at = 0, n; at < N; at += n) {
        struct chunk c = chunk_of(m, micro, h, at);
        struct norm  norm = norm_of(m, micro, h, at, n = c.n);

        for (size_t i = 0; i < n; i++) {
            a->losses[i] = softmax_loss(&c.so_far[i], c.target[i]);
            sum += (double)a->losses[i];
            *counted += c.target[i] >= 0;
        }
        if (h->each)
            memcpy(h->each + at, a->losses, n * sizeof(float));
        if (!h->trains)
            continue;
        softmax_rows_end(a->dln, &(struct softmax_rows){
            .n = n, .C = c.C, .sums = c.dx, .so_far = c.so_far, .targets = c.target,
            .words = c.words, .dt = m->o.dtype, .scale = h->scale, .weights = c.weight,
            .smoothing = m->o.smoothing, .total = a->total, .all = m->o.config.vocab });
        norm_backward(&norm, h->grad, c.dx, a->dln);
    }
    return sum;
}

void head_gradient(struct model *m, size_t micro, const struct head *h)
{
    size_t N = tokens_of(m, micro);

    for (size_t at = 0, n; at < N; at += n) {
        struct chunk c = chunk_of(m, micro, h, at);

        n = c.n;
        chunk_softmax(&c, 1);
        model_gradient(m, c.matrix, n, h->head_grad, c.ln, m->acts.head.dlogits,
                       h->fresh && at == 0, NULL);
    }
}
