/* trainer.c: opens a trainer: checks options, computes sizes and allocates memory before the first
 * step. */
#include "model/trainer_parts.h"

#include "data/base/round.h"

#include <math.h>

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
    if (o->paired && (arch_classifies(&o->config) || arch_is_masked(&o->config) || o->packed ||
                      o->batch % 2))
        return err_misuse(err, "pairs of answers are two neighbouring rows of a language model, so "
                          "a batch has an even number of rows, which are not packed");
    if (o->paired && (!(t->pairs.beta > 0) || !isfinite(t->pairs.beta) ||
                      !(t->pairs.smoothing >= 0 && t->pairs.smoothing < 0.5)))
        return err_misuse(err, "beta must be positive and label smoothing in [0, 0.5), not %g and "
                          "%g", t->pairs.beta, t->pairs.smoothing);
    if (!(o->smoothing >= 0 && o->smoothing < 1) || (o->smoothing > 0 && o->paired))
        return err_misuse(err, "label smoothing must be in [0, 1), and pairs have their own, not "
                          "%g", (double)o->smoothing);
    if (o->smoothing > 0 && o->config.n_labels == 1)
        return err_misuse(err, "label smoothing is for words and classes, and a regressor has "
                          "neither");
    if (!(o->neftune >= 0 && isfinite(o->neftune)))
        return err_misuse(err, "the noise of embeddings must be 0 (none) or positive, not %g",
                          (double)o->neftune);
    if (o->packed && arch_classifies(&o->config))
        return err_misuse(err, "a row of a classifier is one text, not several");
    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        if (o->placement.of[p].kept + o->placement.of[p].offloaded > o->config.n_layer)
            return err_misuse(err, "activations of %zu layers cannot be kept, and of %zu "
                              "offloaded: there are %zu", o->placement.of[p].kept,
                              o->placement.of[p].offloaded, o->config.n_layer);
    if (!(d->embd >= 0 && d->embd < 1) || !(d->attn >= 0 && d->attn < 1) ||
        !(d->resid >= 0 && d->resid < 1))
        return err_misuse(err, "dropout must be in [0, 1), not %g, %g and %g", (double)d->embd,
                          (double)d->attn, (double)d->resid);
    if (o->dtype != DT_F32 && o->dtype != DT_BF16)
        return err_misuse(err, "a model runs in fp32 or bf16");
    if (!o->training)
        return 0;
    if ((rc = arch_check_frozen(&o->config, err)))
        return rc;
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

/* The block of the lowest layer that backward passes. */
static size_t lowest_of(const struct model_config *g)
{
    size_t b = arch_layer_block(g, 1);

    if (g->lora.rank || arch_trains(g, 0)) // all do
        return b;
    while (b < arch_final_block(g) && !arch_trains(g, b))
        b++;
    return b;
}

static struct trainer_sizes sizes_of(const struct trainer_options *o)
{
    const struct model_config *g = &o->model.config;
    int                        classifies = arch_classifies(g);

    return (struct trainer_sizes){
        .layer = arch_layer_block(g, 1), .behind = arch_layer_block(g, g->n_layer + 1),
        .adapter = g->lora.rank ? arch_adapter_block(g, 1) : 0, .final = arch_final_block(g),
        .head = arch_head_block(g),
        .blocks = arch_blocks(g), .pieces = arch_pieces(g),
        .group = o->model.grad_accum / o->groups,
        .each = o->model.batch * (classifies ? arch_logits(g) : o->model.seq),
        .classifies = classifies, .tied = arch_is_tied(g),
        .cut = !classifies && arch_pieces(g) > 1, .lowest = lowest_of(g) };
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
    t->n = sizes_of(&t->o);
    t->stream = stream;
    t->losses = calloc(size_max(o->model.micros, o->model.grad_accum), sizeof *t->losses);
    t->pairs = calloc(size_max(o->model.micros, o->model.grad_accum), sizeof *t->pairs);
    t->trains = calloc(t->n.blocks, 1);
    for (size_t b = 0; t->trains && b < t->n.blocks; b++)
        t->trains[b] = (unsigned char)arch_trains(&o->model.config, b);
    rc = t->losses && t->pairs && t->trains
             ? 0
             : err_set(err, -ENOMEM, "out of memory for the trainer");
    rc = rc ? rc : model_open(&t->model, &o->model, err);
    t->o.model = t->model.o;
    t->model.lowest = t->n.lowest - t->n.layer + 1;
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
        free(t->pairs);
        free(t->trains);
    }
    free(t);
}

const char *trainer_engine(const struct trainer *t) { return t->model.products->matmul->describe; }
