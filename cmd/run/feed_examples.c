/* feed_examples.c: labelled examples: each epoch all training rows in an order of its own, and the
 * task's metrics on the development set. A step's number alone says which rows are its: an epoch
 * has ceil(rows / (batch x grad-accum)) steps, the last of which may have fewer rows, or
 * micro-batches without any. */
#include "cmd/run/feed.h"

#include "cmd/run/evaluate.h"
#include "cmd/run/labelled.h"
#include "kernels/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EPOCH_STREAM 0x65706f6368000000u // of rng.h: "epoch", and its number

struct feed_examples {
    struct feed     feed;
    struct labelled labelled;
    struct examples *train, *dev[TASK_SPLITS];
    struct evaluator evaluator;
    uint64_t        seed, rows, epoch_steps;
    int             shuffled;
};

/* Where a micro-batch begins in its epoch. */
struct place { const struct feed_examples *f; uint64_t epoch, first; };

static uint64_t epoch_row(const void *ctx, size_t i)
{
    const struct place         *p = ctx;
    const struct feed_examples *f = p->f;

    return f->shuffled ? rng_permute(f->seed, EPOCH_STREAM + p->epoch, p->first + i, f->rows)
                       : p->first + i;
}

static int examples_batch(struct feed *feed, uint64_t step, size_t micro, struct batch *b,
                          struct err *err)
{
    const struct feed_examples *f = (const struct feed_examples *)feed;
    size_t                      batch = f->evaluator.batch;
    struct place p = { f, step / f->epoch_steps,
                       (step % f->epoch_steps * f->evaluator.grad_accum + micro) * batch };
    uint64_t                    left = p.first < f->rows ? f->rows - p.first : 0;

    return evaluate_fill(b, f->train, left < batch ? (size_t)left : batch, epoch_row, &p, err);
}

static void add_value(struct feed_values *out, const char *name, const char *suffix, double value)
{
    snprintf(out->value[out->n].name, sizeof out->value[0].name, "%s%s", name, suffix);
    out->value[out->n++].value = value;
}

static void add_values(struct feed_values *out, const struct task *task, size_t split,
                       const struct results_eval *v)
{
    const char *suffix = split ? task->suffix[split] : "";

    for (size_t i = 0; i < task->n_metrics; i++)
        add_value(out, metric_names[task->metric[i]], suffix, v->metric[i]);
    if (task->n_metrics > 1)
        add_value(out, "combined_score", suffix, evaluate_combined(task, v));
    add_value(out, "loss", suffix, v->loss);
    out->count += v->samples;
    out->seconds[split] = v->seconds;
}

static int examples_evaluate(struct feed *feed, struct trainer *t, uint64_t step,
                             struct feed_values *out, struct err *err)
{
    struct feed_examples *f = (struct feed_examples *)feed;
    const struct task    *task = &f->labelled.task;
    int                   rc = 0;

    *out = (struct feed_values){ .larger_better = metric_larger_better(task->metric[0]) };
    for (size_t i = 0; i < TASK_SPLITS && f->dev[i] && !rc; i++) {
        struct results_eval v;

        f->evaluator.trainer = t;
        rc = evaluate_examples(&f->evaluator, f->dev[i], task, step, &v, err);
        if (!rc)
            add_values(out, task, i, &v);
    }
    return rc;
}

static void examples_feed_close(struct feed *feed)
{
    struct feed_examples *f = (struct feed_examples *)feed;

    examples_close(f->train);
    for (size_t i = 0; i < TASK_SPLITS; i++)
        examples_close(f->dev[i]);
    labelled_release(&f->labelled);
    free(f);
}

static const struct feed_ops examples_ops = { .counts = "rows",
                                              .batch = examples_batch,
                                              .evaluate = examples_evaluate,
                                              .close = examples_feed_close };

int feed_examples_open(struct feed **out, struct session *s, struct err *err)
{
    struct feed_examples *f = calloc(1, sizeof *f);
    int                   rc;

    if (!f)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    f->feed.ops = &examples_ops;
    f->evaluator = (struct evaluator){ NULL, s->o.batch, s->o.seq, s->o.grad_accum, s->gpt.vocab,
                                       s->events, NULL };
    f->seed = s->o.seed;
    f->shuffled = s->o.order == TRAIN_SHUFFLED;
    rc = labelled_load(&f->labelled, s, err);
    if (!rc)
        rc = labelled_open(&f->train, s, "train", err);
    if (!rc && !f->train)
        rc = err_set(err, -EBADMSG, "%s/run.db has no training rows", s->dir);
    if (!rc)
        rc = labelled_open(&f->dev[0], s, "dev", err);
    if (!rc)
        rc = labelled_open(&f->dev[1], s, "dev_mm", err);
    if (!rc) {
        f->rows = f->train->h.rows;
        f->epoch_steps = labelled_epoch_steps(f->rows, &s->o);
        *out = &f->feed;
    } else {
        examples_feed_close(&f->feed);
    }
    return rc;
}
