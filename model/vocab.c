/* vocab.c: computes the loss and the gradients of the blocks that hold the vocabulary. A whole head
 * is held in memory together with the final norm. A head in pieces is streamed piece by piece, each
 * for all micro-batches. */
#include "model/vocab.h"

#include "data/base/clock.h"
#include "model/layer/head.h"
#include "model/together.h"

static float *each_of(const struct trainer *t, float *each, size_t micro)
{
    return each ? each + (t->o.model.first_micro + micro) * t->n.each : NULL;
}

/* ---- losses ---- */

/* The losses of a micro-batch's pairs, and from them the weights of its tokens in the gradient. A
 * whole head computes the tokens' losses for this, as an evaluation does. */
static void pairs_pass(struct trainer *t, struct pass *p, const struct head *h, size_t a)
{
    struct model     *m = &t->model;
    struct acts_shape shape = model_shape(m, a);
    float            *weight = m->acts.work.weight + a * model_tokens(m);
    size_t            at = t->o.model.first_micro + a;
    uint64_t          tokens = 0;
    struct head       only = { .wire = h->wire, .head_wire = h->head_wire, .each = weight };

    if (t->n.cut)
        head_losses(m, a, weight);
    else
        head_run(m, a, &only, &tokens);
    if (h->each)
        memcpy(h->each, weight, shape.rows * shape.seq * sizeof *weight);
    pairs_weigh(&t->pairs[at], m, a, &t->o.pairs);
    t->losses[at] = t->pairs[at].loss;
    p->scored += shape.rows / 2;
}

/* The losses of a micro-batch and, in training, the gradients that they have in the head's blocks
 * and in the residual stream. */
static void micro_pass(struct trainer *t, struct pass *p, const struct head *h, size_t a)
{
    double (*run)(struct model *, size_t, const struct head *, uint64_t *) =
        t->n.cut ? head_end : head_run;
    uint64_t tokens = 0;

    if (!t->o.model.paired) {
        t->losses[t->o.model.first_micro + a] = run(&t->model, a, h, &p->scored);
        return;
    }
    pairs_pass(t, p, h, a);
    if (h->trains)
        run(&t->model, a, h, &tokens);
}

/* The losses of a head whose words are in pieces. The pieces pass one by one. A tied head begins
 * with the last piece, which is still in its frame. Then the losses and the gradient of the
 * residual stream are known. */
static int pieces_pass(struct trainer *t, struct pass *p, struct head *h, float *each,
                       struct err *err)
{
    int rc = 0;

    pass_span_begin(p, PHASE_LOSS, t->n.final);
    for (size_t a = 0; a < p->micros; a++)
        if (!pass_is_empty(t, a))
            head_begin(&t->model, a, h);
    pass_span_end(t, p);
    for (size_t i = 0; i < t->n.pieces; i++) {
        h->piece = t->n.tied ? t->n.pieces - 1 - i : i;
        size_t b = t->n.head + h->piece;

        rc = stream_acquire(t->stream, b, &h->head_wire, err);
        if (rc)
            return rc;
        pass_span_begin(p, PHASE_LOSS, b);
        head_words(&t->model, h, i == 0);
        for (size_t a = 0; a < p->micros; a++)
            if (!pass_is_empty(t, a))
                head_piece(&t->model, a, h);
        pass_span_end(t, p);
        stream_release(t->stream, b);
    }
    h->piece = 0;
    pass_span_begin(p, PHASE_LOSS, t->n.final);
    for (size_t a = 0; a < p->micros && !rc; a++) {
        h->each = each_of(t, each, a);
        rc = pass_grad(t, p, t->n.final, a, &h->grad, &h->fresh, err);
        if (!rc && !pass_is_empty(t, a))
            micro_pass(t, p, h, a);
    }
    pass_span_end(t, p);
    return rc;
}

/* The losses and gradients of a head that is one matrix. A language model's matrix is in another
 * block than the final norm. */
static int whole_pass(struct trainer *t, struct pass *p, struct head *h, float *each,
                      struct err *err)
{
    int rc = 0;

    pass_span_begin(p, PHASE_LOSS, t->n.final);
    for (size_t a = 0; a < p->micros && !rc; a++) {
        rc = pass_grad(t, p, t->n.final, a, &h->grad, &h->fresh, err);
        if (!rc && !t->n.classifies)
            rc = pass_grad(t, p, t->n.head, a, &h->head_grad, &h->fresh, err);
        if (rc || pass_is_empty(t, a))
            continue;
        h->each = each_of(t, each, a);
        micro_pass(t, p, h, a);
        h->fresh = 0;
    }
    pass_span_end(t, p);
    return rc;
}

/* Gathers all ranks' losses, in the order of micro-batches, and the values of each row. */
static int losses_add(struct trainer *t, struct pass *p, float *each, struct err *err)
{
    size_t   n = t->o.model.grad_accum;
    uint64_t scored = p->scored - p->scored_before;
    int      rc = together_gather(t->o.comm, t->losses, n * sizeof *t->losses, err);

    if (!rc && t->o.model.paired)
        rc = together_gather(t->o.comm, t->pairs, n * sizeof *t->pairs, err);
    if (!rc && p->evaluates) // a training step does not need it
        rc = together_add(t->o.comm, &scored, NULL, err);
    rc = rc || !each ? rc : together_gather(t->o.comm, each, n * t->n.each * sizeof *each, err);
    for (size_t a = 0; a < p->all_micros; a++) {
        p->loss += t->losses[a];
        pairs_add(&p->pairs, &t->pairs[a]);
    }
    p->scored = p->scored_before + scored;
    return rc;
}

static struct head head_of(const struct pass *p)
{
    return (struct head){ .trains = !p->evaluates, .scale = (float)(1.0 / (double)p->n.counted) };
}

int vocab_losses(struct trainer *t, struct pass *p, float *each, struct err *err)
{
    struct head h = head_of(p);
    int         held = !t->n.classifies && !t->n.cut; // the head's block, with the final norm's
    int         rc = stream_acquire(t->stream, t->n.final, &h.wire, err);

    for (size_t a = 0; a < p->micros; a++) { // empty micro-batches keep 0
        t->losses[t->o.model.first_micro + a] = 0;
        t->pairs[t->o.model.first_micro + a] = (struct pairs_sums){ 0 };
    }
    adapt_head(&t->adapt);
    if (!rc && held)
        rc = stream_acquire(t->stream, t->n.head, &h.head_wire, err);
    if (rc)
        return rc;
    rc = t->n.cut ? pieces_pass(t, p, &h, each, err) : whole_pass(t, p, &h, each, err);
    rc = rc ? rc : losses_add(t, p, each, err);
    if (rc)
        return rc;
    stream_release(t->stream, t->n.final);
    if (held)
        stream_release(t->stream, t->n.head);
    return pass_send(t, p, t->n.final, err);
}

/* ---- the remaining gradients ---- */

/* Computes the gradient that a piece's words have from the head, for a group of micro-batches. */
static int piece_backward(struct trainer *t, struct pass *p, size_t b, struct route_span of,
                          struct head h, struct err *err)
{
    int rc = 0;

    for (size_t a = of.first; a < of.end && !rc; a++) {
        rc = pass_grad(t, p, b, a, &h.head_grad, &h.fresh, err);
        if (rc || pass_is_empty(t, a))
            continue;
        head_gradient(&t->model, a, &h);
        h.fresh = 0;
    }
    return rc;
}

/* Completes and sends the gradient of one block of the embeddings, or of an untied head. Only
 * normalised embeddings and the pieces of a head need parameters for it. A whole head has its
 * gradient already. */
static int block_send(struct trainer *t, struct pass *p, size_t b, struct err *err)
{
    size_t      piece = b - t->n.head;
    int         embeds = b < t->n.layer, head = t->n.cut && piece < t->n.pieces,
                reads = head || (embeds && t->o.model.config.arch->embeds_normed);
    struct head h = head_of(p);
    float      *grad;
    int         fresh = 0, rc = reads ? stream_acquire(t->stream, b, &h.head_wire, err) : 0;

    h.piece = piece;
    pass_span_begin(p, PHASE_BACKWARD, b);
    for (size_t from = 0, to; from < p->micros && !rc; from = to) { // one group after the other
        to = from + t->n.group;
        rc = head ? piece_backward(t, p, b, (struct route_span){ from, to }, h, err) : 0;
        for (size_t a = from; a < to && embeds && !rc; a++) {
            rc = pass_grad(t, p, b, a, &grad, &fresh, err);
            if (!rc && !pass_is_empty(t, a))
                embed_backward(&t->model, a, b, h.head_wire, grad);
        }
    }
    if (rc)
        return rc;
    pass_span_end(t, p);
    if (reads)
        stream_release(t->stream, b);
    return pass_send(t, p, b, err);
}

int vocab_head_backward(struct trainer *t, struct pass *p, struct err *err)
{
    int rc = 0;

    for (size_t b = t->n.blocks; --b > t->n.final && !rc;)
        rc = t->trains[b] ? block_send(t, p, b, err) : 0;
    return rc;
}

int vocab_embed_backward(struct trainer *t, struct pass *p, struct err *err)
{
    int rc = 0;

    for (size_t b = 0; t->trains[0] && b < t->n.layer && !rc; b++)
        rc = block_send(t, p, b, err);
    return rc;
}
