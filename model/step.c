/* step.c: one training step. READ THIS FIRST, from train_step (below its parts) on.
 *
 * Parameters come from the stream block by block and go back at once; the order of blocks is the
 * stream's contract (offload/stream/stream.h), it reads ahead along it. All micro-batches pass a
 * block before the next block is touched, so a step reads the parameters twice whatever grad_accum
 * is. A block's gradient is handed over when its last micro-batch is through, and travels while the
 * block before it computes. */
#include "model/step.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "model/block.h"
#include "model/head.h"
#include "model/together.h"

#include <assert.h>
#include <math.h>

struct trainer {
    struct trainer_options o;
    struct model   model;
    struct stream *stream;
    struct adapt adapt; // which activations are kept, recomputed, offloaded
    double *losses;     // (micros of all ranks) of a pass
};

/* A pass over the micro-batches that `data` gives for `number`: a step's, or an evaluation's. */
struct pass {
    uint64_t step;            // under which its spans are recorded
    int      evaluates;       // all of them as PHASE_EVAL
    uint64_t number;
    size_t   micros, all_micros; // this rank's; all ranks'
    const struct batch_source *data;
    uint64_t tokens, counted; // read: tokens that are not padding; what the loss is the mean of
    uint64_t scored, scored_before; // tokens or rows that have a loss; before this pass
    uint64_t start_ns;        // of the span that is open
    uint64_t before_ns;       // how long block 0 was waited for
    double   loss;
    struct norm_sum norm;  // of the gradients that were sent
};

/* The span that began at p->start_ns ends here. */
static void span_end(struct trainer *t, const struct pass *p, enum runlog_phase phase, size_t block)
{
    meter_span(t->stream->meter, p->step, p->evaluates ? PHASE_EVAL : phase, (int)block, -1,
               p->start_ns, clock_ns(), 0);
}

static int is_empty(const struct trainer *t, size_t micro)
{
    return model_shape(&t->model, micro).rows == 0;
}

/* The gradient of a block that a micro-batch's is added to, that of its group. *fresh: becomes 1
 * where the group is begun: the matrices that products make are written then by the first of its
 * micro-batches that is not empty, all else is zero. */
static int grad_of(struct trainer *t, struct pass *p, size_t block, size_t micro, float **grad,
                   int *fresh, struct err *err)
{
    size_t   each = t->o.model.grad_accum / t->o.groups, group = micro / each, filled = 0;
    uint64_t asked_ns = clock_ns();
    int      begins, rc = stream_grad(t->stream, block, group, grad, &begins, err);

    if (rc || !begins)
        return rc;
    p->start_ns += clock_ns() - asked_ns; // what it waited is not of the span
    for (size_t a = group * each; a < (group + 1) * each; a++)
        filled += !is_empty(t, a);
    model_grad_begin(&t->model, block, *grad, filled > 0);
    *fresh = 1;
    return 0;
}

/* What is predicted of a masked language model's rows. */
static uint64_t count_targets(const struct batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < b->rows * b->seq; i++)
        n += b->y[i] >= 0;
    return n;
}

static void count_batch(const struct trainer *t, struct pass *p, const struct batch *b)
{
    if (!arch_classifies(&t->o.model.config)) {
        p->tokens += b->rows * b->seq;
        p->counted += arch_is_masked(&t->o.model.config) ? count_targets(b) : b->rows * b->seq;
        return;
    }
    for (size_t i = 0; i < b->rows; i++) {
        p->tokens += (uint64_t)b->last[i] + 1;
        p->counted += b->label[i] >= 0;
    }
}

static int read_batch(struct trainer *t, struct pass *p, size_t micro, struct err *err)
{
    const struct acts_work     *w = &t->model.acts.work;
    const struct model_options *o = &t->o.model;
    size_t       N = model_tokens(&t->model), row = micro * o->batch;
    struct batch b = { .rows = o->batch, .seq = o->seq, .x = w->x + micro * N };

    if (arch_classifies(&o->config)) {
        b.label = w->label + row;
        b.value = w->value + row;
    } else {
        b.y = w->y + micro * N;
    }
    b.last = w->last ? w->last + row : NULL;
    b.types = w->types ? w->types + micro * N : NULL;
    int rc = p->data->batch(p->data->ctx, p->number, t->o.model.first_micro + micro, &b, err);
    if (rc)
        return rc;
    assert(o->varying ? b.rows <= o->batch && b.seq > 0 && b.seq <= o->seq &&
                            (b.seq % 16 == 0 || b.seq == o->seq)
                      : b.rows == o->batch && b.seq == o->seq);
    w->shape[micro] = (struct acts_shape){ b.rows, b.seq };
    for (size_t i = 0; w->length && i < b.rows; i++)
        w->length[row + i] = b.last[i] + 1;
    count_batch(t, p, &b);
    return 0;
}

static int read_batches(struct trainer *t, struct pass *p, struct err *err)
{
    int rc = 0;

    p->start_ns = clock_ns();
    for (size_t a = 0; !rc && a < p->micros; a++)
        rc = read_batch(t, p, a, err);
    span_end(t, p, PHASE_DATA, 0);
    rc = rc ? rc : together_add(t->o.comm, &p->tokens, &p->counted, err);
    if (arch_is_masked(&t->o.model.config) && !p->counted)
        p->counted = 1; // nothing was masked: the loss is 0
    return rc;
}

/* A layer's forward or, with its `grad`, backward. What it offloads may wait for devices. */
static int layer_pass(struct trainer *t, size_t b, size_t micro, const void *wire, float *grad,
                      int fresh, struct err *err)
{
    size_t layer = arch_layer(&t->o.model.config, b);

    t->model.records.phase = grad ? PHASE_BACKWARD : PHASE_FORWARD;
    t->model.records.block = (int)b;
    return grad ? block_backward(&t->model, layer, micro, wire, grad, fresh, err)
                : block_forward(&t->model, layer, micro, wire, err);
}

/* What a training pass offloads goes to the stream. */
static void records_begin(struct trainer *t, struct pass *p)
{
    size_t left = 0;

    for (size_t b = 1; !p->evaluates && b <= t->o.model.config.n_layer; b++)
        for (size_t a = 0; a < p->micros; a++)
            left += block_pieces(&t->model, b, a);
    t->model.records = (struct records){ .stream = left ? t->stream : NULL, .left = left,
                                         .step = p->step, .start_ns = &p->start_ns };
}

static int forward_pass(struct trainer *t, struct pass *p, struct err *err)
{
    records_begin(t, p);
    for (size_t b = 0; b < arch_final_block(&t->o.model.config); b++) {
        const void *wire;
        uint64_t    asked_ns = clock_ns();
        int         rc = stream_acquire(t->stream, b, &wire, err); // waits for b's update and read

        if (rc)
            return rc;
        p->start_ns = clock_ns();
        p->before_ns += b == 0 ? p->start_ns - asked_ns : 0;
        products_begin(t->model.products);
        for (size_t a = 0; !rc && a < p->micros; a++) { // layer-major: parameters are read once
            if (is_empty(t, a))
                continue;
            if (arch_layer(&t->o.model.config, b) == 0)
                embed_forward(&t->model, a, b, wire);
            else
                rc = layer_pass(t, b, a, wire, NULL, 0, err);
        }
        if (rc)
            return rc;
        span_end(t, p, PHASE_FORWARD, b);
        stream_release(t->stream, b);
    }
    return 0;
}

/* Of a micro-batch: losses, or logits. */
static size_t each_n(const struct trainer *t)
{
    const struct model_options *o = &t->o.model;

    return arch_classifies(&o->config) ? o->batch * arch_logits(&o->config)
                                       : model_tokens(&t->model);
}

/* Where they go. */
static float *each_of(const struct trainer *t, float *each, size_t micro)
{
    return each ? each + (t->o.model.first_micro + micro) * each_n(t) : NULL;
}

/* A head whose words are in pieces: they pass one by one, a tied head's from the last one on, which
 * is still in its frame; then losses and the gradient of the residual stream are known. */
static int pieces_pass(struct trainer *t, struct pass *p, struct head *h, float *each,
                       struct err *err)
{
    const struct model_config *g = &t->o.model.config;
    size_t final = arch_final_block(g), n = arch_pieces(g);
    int    rc = 0;

    p->start_ns = clock_ns();
    for (size_t a = 0; a < p->micros; a++)
        if (!is_empty(t, a))
            head_begin(&t->model, a, h);
    span_end(t, p, PHASE_LOSS, final);
    for (size_t i = 0; i < n; i++) {
        h->piece = arch_is_tied(g) ? n - 1 - i : i;
        size_t b = arch_head_block(g) + h->piece;

        rc = stream_acquire(t->stream, b, &h->head_wire, err);
        if (rc)
            return rc;
        p->start_ns = clock_ns();
        for (size_t a = 0; a < p->micros; a++)
            if (!is_empty(t, a))
                head_piece(&t->model, a, h);
        span_end(t, p, PHASE_LOSS, b);
        stream_release(t->stream, b);
    }
    h->piece = 0;
    p->start_ns = clock_ns();
    for (size_t a = 0; a < p->micros && !rc; a++) {
        h->each = each_of(t, each, a);
        rc = h->trains ? grad_of(t, p, final, a, &h->grad, &h->fresh, err) : 0;
        if (!rc && !is_empty(t, a))
            t->losses[t->o.model.first_micro + a] = head_end(&t->model, a, h, &p->scored);
    }
    span_end(t, p, PHASE_LOSS, final);
    return rc;
}

/* Gradients, and losses, of a head that is one matrix: a language model's is in a block apart from
 * the final norm. */
static int whole_pass(struct trainer *t, struct pass *p, struct head *h, float *each,
                      struct err *err)
{
    const struct model_config *g = &t->o.model.config;
    size_t final = arch_final_block(g);
    int    rc = 0;

    p->start_ns = clock_ns();
    for (size_t a = 0; a < p->micros && !rc; a++) {
        rc = h->trains ? grad_of(t, p, final, a, &h->grad, &h->fresh, err) : 0;
        if (!rc && h->trains && !arch_classifies(g))
            rc = grad_of(t, p, arch_head_block(g), a, &h->head_grad, &h->fresh, err);
        if (rc || is_empty(t, a))
            continue;
        h->each = each_of(t, each, a);
        t->losses[t->o.model.first_micro + a] = head_run(&t->model, a, h, &p->scored);
        h->fresh = 0;
    }
    span_end(t, p, PHASE_LOSS, final);
    return rc;
}

/* All ranks' losses, in the order of micro-batches, and what each row has of its own. */
static int losses_add(struct trainer *t, struct pass *p, float *each, struct err *err)
{
    size_t   n = t->o.model.grad_accum;
    uint64_t none = 0, scored = p->scored - p->scored_before;
    int      rc = together_gather(t->o.comm, t->losses, n * sizeof *t->losses, err);

    if (!rc && p->evaluates) // a step does not ask
        rc = together_add(t->o.comm, &scored, &none, err);
    rc = rc || !each ? rc : together_gather(t->o.comm, each, n * each_n(t) * sizeof *each, err);
    for (size_t a = 0; a < p->all_micros; a++)
        p->loss += t->losses[a];
    p->scored = p->scored_before + scored;
    return rc;
}

/* The head's parameters: the final norm's and, of a language model, its matrix's, which may be that
 * of the embeddings; of two blocks that are held at once, or pieces one by one. */
static int head_pass(struct trainer *t, struct pass *p, float *each, struct err *err)
{
    const struct model_config *g = &t->o.model.config;
    size_t      final = arch_final_block(g);
    struct head h = { .trains = !p->evaluates, .scale = (float)(1.0 / (double)p->counted) };
    int         words = !arch_classifies(g), pieces = words && arch_pieces(g) > 1;
    int         rc = stream_acquire(t->stream, final, &h.wire, err);

    for (size_t a = 0; a < p->micros; a++)
        t->losses[t->o.model.first_micro + a] = 0; // of one that is empty
    adapt_head(&t->adapt);
    if (!rc && words && !pieces)
        rc = stream_acquire(t->stream, arch_head_block(g), &h.head_wire, err);
    if (rc)
        return rc;
    rc = pieces ? pieces_pass(t, p, &h, each, err) : whole_pass(t, p, &h, each, err);
    rc = rc ? rc : losses_add(t, p, each, err);
    if (rc)
        return rc;
    stream_release(t->stream, final);
    if (words && !pieces)
        stream_release(t->stream, arch_head_block(g));
    return h.trains ? stream_send_grad(t->stream, final, &p->norm, err) : 0;
}

static int backward_pass(struct trainer *t, struct pass *p, struct err *err)
{
    const struct model_config *g = &t->o.model.config;

    for (size_t b = arch_layer_block(g, g->n_layer); b >= arch_layer_block(g, 1); b--) {
        const void *wire;
        float      *grad;
        int fresh = 0, rc = stream_acquire(t->stream, b, &wire, err); // waits for b, asks for b - 1

        if (rc)
            return rc;
        p->start_ns = clock_ns();
        products_begin(t->model.products);
        for (size_t a = p->micros; !rc && a-- > 0;) { // what the last one left is still at hand
            rc = grad_of(t, p, b, a, &grad, &fresh, err);
            if (rc || is_empty(t, a))
                continue;
            rc = layer_pass(t, b, a, wire, grad, fresh, err);
            fresh = 0;
        }
        if (rc)
            return rc;
        span_end(t, p, PHASE_BACKWARD, b);
        stream_release(t->stream, b);
        rc = stream_send_grad(t->stream, b, &p->norm, err); // norm, Top-K, write
        if (rc)
            return rc;
    }
    return 0;
}

/* The words of a piece, which are the head's: the gradient that they have as such, of a group. */
static int piece_backward(struct trainer *t, struct pass *p, size_t b, struct route_span of,
                          struct head h, struct err *err)
{
    int rc = 0;

    for (size_t a = of.first; a < of.end && !rc; a++) {
        rc = grad_of(t, p, b, a, &h.head_grad, &h.fresh, err);
        if (rc || is_empty(t, a))
            continue;
        head_gradient(&t->model, a, &h);
        h.fresh = 0;
    }
    return rc;
}

/* One block of the embeddings, or of a head of its own, whose gradient is complete with it. Only an
 * encoder's embeddings and the pieces of a head need parameters. A whole head had its gradient. */
static int words_block(struct trainer *t, struct pass *p, size_t b, struct err *err)
{
    const struct model_config *g = &t->o.model.config;
    size_t      n = arch_pieces(g), piece = b - arch_head_block(g);
    int         embeds = arch_block_kind(g, b) == ARCH_EMBEDDINGS,
                head = !arch_classifies(g) && n > 1 && piece < n,
                reads = head || (embeds && g->arch->encoder);
    struct head h = { .trains = 1, .piece = piece, .scale = (float)(1.0 / (double)p->counted) };
    float      *grad;
    int         fresh = 0, rc = reads ? stream_acquire(t->stream, b, &h.head_wire, err) : 0;

    p->start_ns = clock_ns();
    for (size_t from = 0, to; from < p->micros && !rc; from = to) { // a group is complete at once
        to = from + p->micros / t->o.groups;
        rc = head ? piece_backward(t, p, b, (struct route_span){ from, to }, h, err) : 0;
        for (size_t a = from; a < to && embeds && !rc; a++) {
            rc = grad_of(t, p, b, a, &grad, &fresh, err);
            if (!rc && !is_empty(t, a))
                embed_backward(&t->model, a, b, h.head_wire, grad);
        }
    }
    if (rc)
        return rc;
    span_end(t, p, PHASE_BACKWARD, b);
    if (reads)
        stream_release(t->stream, b);
    return stream_send_grad(t->stream, b, &p->norm, err);
}

static int head_backward(struct trainer *t, struct pass *p, struct err *err)
{
    const struct model_config *g = &t->o.model.config;
    int                        rc = 0;

    for (size_t b = arch_blocks(g); --b > arch_final_block(g) && !rc;)
        rc = words_block(t, p, b, err);
    return rc;
}

static int embed_pass(struct trainer *t, struct pass *p, struct err *err)
{
    int rc = 0;

    for (size_t b = 0; b < arch_pieces(&t->o.model.config) && !rc; b++)
        rc = words_block(t, p, b, err);
    return rc;
}

/* With a clip factor of 1 all of it is known before the step. */
static struct optim_step update_numbers(const struct trainer *t, uint64_t step, double clip_factor)
{
    const struct trainer_options *o = &t->o;
    struct optim_step             out;

    optim_scalars(&out, o->optim, schedule_lr(&o->schedule, step), o->beta1, o->beta2, o->eps,
                  clip_factor, t->stream->applied + 1);
    return out;
}

/* Norm, rate, clip factor, and whether to skip: all that the update needs and commit A records. */
static void step_scale(const struct trainer *t, const struct pass *p, struct step_result *out,
                       struct stream_step *update)
{
    out->tokens = p->tokens;
    out->loss = p->loss / (double)p->counted;
    out->grad_norm = sqrt(p->norm.sumsq);
    out->skipped = p->norm.nonfinite || !isfinite(out->grad_norm) || !isfinite(out->loss);
    out->skip_block = p->norm.nonfinite ? p->norm.block : SIZE_MAX;
    out->lr = schedule_lr(&t->o.schedule, p->step);
    out->clip_factor = out->skipped ? 1.0 : schedule_clip(t->o.clip, out->grad_norm);
    out->clipped = out->clip_factor < 1.0;

    *update = (struct stream_step){ .skip = out->skipped };
    update->row = (struct runlog_step){
        .step = p->step, .tokens = out->tokens, .loss = out->loss, .lr = out->lr,
        .grad_norm = out->grad_norm, .clipped = out->clipped, .skipped = out->skipped,
    };
    update->optim = update_numbers(t, p->step, out->clip_factor);
}

/* What of a step's seconds the activations' ways depend on. */
static void adapt_to(struct trainer *t, const struct pass *p, uint64_t start_ns)
{
    struct meter *m = t->stream->meter;
    double F = (double)meter_total(m, p->step, PHASE_FORWARD) * 1e-9, B = 0;
    static const enum runlog_phase after[] = { PHASE_LOSS, PHASE_BACKWARD, PHASE_GRAD_NORM,
                                               PHASE_GRAD_COMPRESS };

    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        B += (double)meter_total(m, p->step, after[i]) * 1e-9;
    adapt_end(&t->adapt, (double)(clock_ns() - start_ns) * 1e-9, F, B,
              (double)p->before_ns * 1e-9);
}

/* ---- the step ---- */

int train_step(struct trainer *t, uint64_t step, const struct batch_source *data,
               struct step_result *out, struct err *err)
{
    struct pass p = { .step = step, .number = step, .micros = t->o.model.grad_accum,
                      .all_micros = t->o.model.micros, .data = data };
    struct stream_step update;
    uint64_t           start_ns = clock_ns();

    assert(t->o.model.training);
    *out = (struct step_result){ 0 };
    t->model.dropping = 1;
    t->model.step = step;

    int rc = adapt_begin(&t->adapt, step, &out->choice, err); // --activations auto: other ways
    rc = rc ? rc : stream_begin(t->stream, STREAM_TRAIN, step, err); // reads start as updates end
    struct optim_step expected = update_numbers(t, step, 1.0);
    stream_expect(t->stream, &expected);                 // --speculate: if nothing is clipped
    rc = rc ? rc : read_batches(t, &p, err);
    if (!rc)
        rc = forward_pass(t, &p, err);                   // blocks 0, 1..L
    if (!rc)
        rc = head_pass(t, &p, NULL, err);                // final norm, logits by chunks, loss, dx
    if (!rc)
        rc = head_backward(t, &p, err);                  // of a head of its own
    if (!rc)
        rc = backward_pass(t, &p, err);                  // blocks L..1
    if (!rc)
        rc = embed_pass(t, &p, err);                     // the embeddings' is complete last
    if (!rc)
        rc = stream_norm_end(t->stream, &p.norm, err);   // of all ranks
    if (rc)
        return rc;

    step_scale(t, &p, out, &update);
    adapt_to(t, &p, start_ns);
    if (out->skipped)
        adapt_disturb(&t->adapt);
    update.began_ns = start_ns;
    update.choice = out->choice;
    return stream_update(t->stream, &update, err);       // devices update, commit A beside it
}

int eval_step(struct trainer *t, uint64_t step, const struct batch_source *data, uint64_t pass,
              size_t micros, float *each, struct eval_result *out, struct err *err)
{
    size_t left = micros - size_min(micros, t->o.model.first_micro);
    struct pass p = { .step = step, .evaluates = 1, .number = pass,
                      .micros = size_min(left, t->o.model.grad_accum), .all_micros = micros,
                      .data = data, .loss = out->loss_sum, .scored = out->tokens,
                      .scored_before = out->tokens };

    assert(micros >= 1 && micros <= t->o.model.micros);
    t->model.dropping = 0;
    adapt_disturb(&t->adapt);
    int rc = stream_begin(t->stream, STREAM_EVAL, step, err);
    rc = rc ? rc : read_batches(t, &p, err);
    rc = rc ? rc : forward_pass(t, &p, err);
    rc = rc ? rc : head_pass(t, &p, each, err);
    *out = (struct eval_result){ p.loss, p.scored };
    return rc;
}

/* ---- the trainer ---- */

static int check(const struct trainer_options *t, struct err *err)
{
    const struct model_options *o = &t->model;
    const struct model_dropout *d = &o->dropout;
    int                         rc = arch_check(&o->config, err);

    rc = rc ? rc : arch_check_head(&o->config, err);
    if (rc)
        return rc;
    if (o->batch == 0 || o->seq == 0 || o->grad_accum == 0)
        return err_misuse(err, "batch, seq and grad-accum must be at least 1, not %zu, %zu and %zu",
                          o->batch, o->seq, o->grad_accum);
    if (o->seq > o->config.n_positions)
        return err_misuse(err, "rows of %zu tokens do not fit: the model has %zu positions", o->seq,
                          o->config.n_positions);
    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        if (o->ways.of[p].kept + o->ways.of[p].offloaded > o->config.n_layer)
            return err_misuse(err, "activations of %zu layers cannot be kept, and of %zu "
                              "offloaded: there are %zu", o->ways.of[p].kept,
                              o->ways.of[p].offloaded, o->config.n_layer);
    if (!(d->embd >= 0 && d->embd < 1) || !(d->attn >= 0 && d->attn < 1) ||
        !(d->resid >= 0 && d->resid < 1))
        return err_misuse(err, "dropout must be in [0, 1), not %g, %g and %g", (double)d->embd,
                          (double)d->attn, (double)d->resid);
    if (o->dtype != DT_F32 && o->dtype != DT_BF16)
        return err_misuse(err, "a model runs in fp32 or bf16");
    if (!o->training)
        return 0;
    if (!(t->schedule.lr >= 0) || !(t->schedule.min_lr >= 0) || !isfinite(t->schedule.lr) ||
        !isfinite(t->schedule.min_lr))
        return err_misuse(err, "learning rates must be finite and not negative, not %g and %g",
                          t->schedule.lr, t->schedule.min_lr);
    if (!(t->clip >= 0))
        return err_misuse(err, "the clipping norm must be 0 (none) or positive, not %g", t->clip);
    if (!(t->beta1 >= 0 && t->beta1 < 1) || !(t->beta2 >= 0 && t->beta2 < 1))
        return err_misuse(err, "beta1 and beta2 must be in [0, 1), not %g and %g", t->beta1,
                          t->beta2);
    if (!(t->eps >= 0))
        return err_misuse(err, "eps must not be negative: %g", t->eps);
    return 0;
}

int trainer_open(struct trainer **out, const struct trainer_options *o, struct stream *stream,
                 struct err *err)
{
    int rc = check(o, err);

    *out = NULL;
    if (rc)
        return rc;
    struct trainer *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, -ENOMEM, "out of memory for the trainer");
    t->o = *o;
    t->o.groups = size_max(o->groups, 1);
    t->stream = stream;
    t->losses = calloc(size_max(o->model.micros, o->model.grad_accum), sizeof *t->losses);
    rc = t->losses ? 0 : err_set(err, -ENOMEM, "out of memory for the trainer");
    rc = rc ? rc : model_open(&t->model, &o->model, err);
    t->o.model = t->model.o;
    adapt_open(&t->adapt, o->adapts, &t->model, stream);
    if (rc)
        trainer_close(t);
    else
        *out = t;
    return rc;
}

void trainer_close(struct trainer *t)
{
    if (t) {
        model_close(&t->model);
        free(t->losses);
    }
    free(t);
}

const char *trainer_engine(const struct trainer *t) { return t->model.products->matmul->describe; }
