/* step.c: runs one training step. READ THIS FIRST, from top to bottom: a step is what these
 * functions do, in this order, and train_step at the end calls them.
 *
 * Parameters come from the stream block by block and go back at once. The order of blocks is the
 * stream's contract (offload/stream/stream.h); it reads ahead along it. All micro-batches pass a
 * block before the next block is touched, so a step reads the parameters twice whatever grad_accum
 * is. A block's gradient is handed over when its last micro-batch is through, and is sent while the
 * block before it computes.
 *
 * Elsewhere: options and sizes (trainer.c), micro-batches (batch.c), the arithmetic of a block
 * (block.c), the blocks that hold the vocabulary (vocab.c), the loss of pairs of answers (pairs.c),
 * what a pass asks of the stream, and its spans (pass.c), the placement of activations
 * (adapt.c). */
#include "model/step.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "model/together.h"
#include "model/vocab.h"

#include <assert.h>
#include <math.h>

/* ---- the micro-batches ---- */

static int read_batches(struct trainer *t, struct pass *p, struct err *err)
{
    int rc = 0;

    pass_span_begin(p, PHASE_DATA, 0);
    for (size_t a = 0; !rc && a < p->micros; a++)
        rc = batch_read(&t->model, p->data, p->number, a, &p->n, err);
    pass_span_end(t, p);
    rc = rc ? rc : together_add(t->o.comm, &p->n.tokens, &p->n.counted, err);
    if (!p->n.counted)
        p->n.counted = 1; // if nothing counts, the loss is 0
    return rc;
}

/* ---- forward: the embeddings, layers 1..L ---- */

static int forward_pass(struct trainer *t, struct pass *p, struct err *err)
{
    pass_offload_begin(t, p);
    for (size_t b = 0; b < t->n.behind; b++) {
        struct block_wires w;
        size_t             layer = pass_layer(t, b);
        int                rc = pass_acquire(t, p, PHASE_FORWARD, b, &w, err);

        for (size_t a = 0; !rc && a < p->micros; a++) { // layer-major: parameters are read once
            if (pass_is_empty(t, a))
                continue;
            if (layer == 0)
                embed_forward(&t->model, a, b, w.layer);
            else
                rc = block_forward(&t->model, layer, a, &w, err);
        }
        if (rc)
            return rc;
        pass_release(t, p, b, &w);
    }
    return 0;
}

/* ---- backward: layers L..1 ---- */

static int backward_pass(struct trainer *t, struct pass *p, struct err *err)
{
    for (size_t b = t->n.behind; b-- > t->n.lowest;) {
        struct block_wires w;
        struct block_grads grads = { 0 };
        int                rc = pass_acquire(t, p, PHASE_BACKWARD, b, &w, err);

        for (size_t a = p->micros; !rc && a-- > 0;) { // the last one's arrays are there
            rc = pass_layer_grads(t, p, b, a, &grads, err);
            if (rc || pass_is_empty(t, a))
                continue;
            rc = block_backward(&t->model, pass_layer(t, b), a, &w, &grads, err);
            grads.fresh = 0;
        }
        if (rc)
            return rc;
        pass_release(t, p, b, &w);
        rc = pass_layer_send(t, p, b, err); // norm, Top-K, write
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the update ---- */

/* The numbers of an update. With a clip factor of 1 they are known before the step. */
static struct optim_step update_numbers(const struct trainer *t, uint64_t step, double clip_factor)
{
    const struct trainer_options *o = &t->o;
    struct optim_step             out;

    optim_scalars(&out, o->optim, schedule_lr(&o->schedule, step), o->beta1, o->beta2, o->eps,
                  clip_factor, t->stream->applied + 1);
    return out;
}

/* Computes norm, rate and clip factor, and whether to skip: all that the update needs and commit A
 * records. */
static void step_scale(const struct trainer *t, const struct pass *p, struct step_result *out,
                       struct stream_step *update)
{
    out->tokens = p->n.tokens;
    out->loss = p->loss / (double)p->n.counted;
    out->grad_norm = sqrt(p->norm.sumsq);
    out->skipped = p->norm.nonfinite || !isfinite(out->grad_norm) || !isfinite(out->loss);
    out->skip_block = p->norm.nonfinite ? p->norm.block : SIZE_MAX;
    out->lr = schedule_lr(&t->o.schedule, p->step);
    out->clip_factor = out->skipped ? 1.0 : schedule_clip(t->o.clip, out->grad_norm);
    out->clipped = out->clip_factor < 1.0;
    if (t->o.model.paired)
        out->rewards = pairs_rewards(&p->pairs, p->n.counted);

    *update = (struct stream_step){ .skip = out->skipped, .choice = out->choice };
    update->row = (struct runlog_step){
        .step = p->step, .tokens = out->tokens, .loss = out->loss, .lr = out->lr,
        .grad_norm = out->grad_norm, .clipped = out->clipped, .skipped = out->skipped,
        .rewards = out->rewards,
    };
    update->optim = update_numbers(t, p->step, out->clip_factor);
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

    int rc = adapt_begin(&t->adapt, step, &out->choice, err); // --activations auto: other placement
    rc = rc ? rc : stream_begin(t->stream, STREAM_TRAIN, step, err); // reads start as updates end
    struct optim_step expected = update_numbers(t, step, 1.0);
    stream_expect(t->stream, &expected);               // --speculate: numbers if nothing is clipped
    rc = rc ? rc : read_batches(t, &p, err);
    rc = rc ? rc : forward_pass(t, &p, err);           // blocks 0, 1..L
    rc = rc ? rc : vocab_losses(t, &p, NULL, err);     // final norm, logits by chunks, loss, dx
    rc = rc ? rc : vocab_head_backward(t, &p, err);    // an untied head
    rc = rc ? rc : backward_pass(t, &p, err);          // blocks L..1
    rc = rc ? rc : vocab_embed_backward(t, &p, err);   // the embeddings' gradient is complete last
    rc = rc ? rc : stream_norm_end(t->stream, &p.norm, err); // of all ranks
    if (rc)
        return rc;
    step_scale(t, &p, out, &update);
    adapt_end(&t->adapt, step, start_ns, p.before_ns, out->skipped);
    update.began_ns = start_ns;
    return stream_update(t->stream, &update, err);     // devices update while commit A is written
}

int eval_step(struct trainer *t, uint64_t step, const struct batch_source *data, uint64_t pass,
              size_t micros, float *each, struct eval_result *out, struct err *err)
{
    size_t left = micros - size_min(micros, t->o.model.first_micro);
    struct pass p = { .step = step, .evaluates = 1, .number = pass,
                      .micros = size_min(left, t->o.model.grad_accum), .all_micros = micros,
                      .data = data, .loss = out->loss_sum, .scored = out->tokens,
                      .scored_before = out->tokens, .pairs = out->pairs };

    assert(micros >= 1 && micros <= t->o.model.micros);
    t->model.dropping = 0;
    adapt_disturb(&t->adapt);
    int rc = stream_begin(t->stream, STREAM_EVAL, step, err);
    rc = rc ? rc : read_batches(t, &p, err);
    rc = rc ? rc : forward_pass(t, &p, err);
    rc = rc ? rc : vocab_losses(t, &p, each, err);
    *out = (struct eval_result){ p.loss, p.scored, p.pairs };
    return rc;
}
