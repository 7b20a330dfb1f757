/* source.c: a language model's rows are those of token files, in the order of mixture.h, or
 * conversations (chat_source.h).
 *
 * Labelled examples are permuted anew in each epoch, unless they have weights (row_sources.h). A
 * step's number alone determines its rows. An epoch has ceil(rows / (batch * grad-accum)) steps.
 * Its last step may have fewer rows, or micro-batches without any. */
#include "run/sources/source.h"

#include "data/base/clock.h"
#include "data/base/permute.h"
#include "data/base/round.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/sources/chat_source.h"
#include "run/sources/corpus.h"
#include "run/sources/evaluate.h"
#include "run/sources/task_files.h"
#include "run/sources/masking.h"
#include "run/sources/row_sources.h"

#include <math.h>

struct source {
    struct evaluator    evaluator;
    const struct train_opts *o; // the session's
    // a language model's
    struct mixture      data, eval;  // eval.n 0: none
    struct masking      masking;     // only for a masked one
    struct chat_source *chat;        // only of conversations
    int                 paired;      // they are pairs of answers
    // a classifier's
    struct task_labels  labels;
    struct examples    *train, *dev[TASK_SPLITS]; // train NULL: a language model
    uint64_t            rows, epoch_steps;
    struct row_sources  sources;
};

/* The position of a micro-batch: in its epoch; with weights, in the training. */
struct creation { const struct source *f; uint64_t epoch, first; };

static uint64_t epoch_row(const void *ctx, size_t i)
{
    const struct creation *p = ctx;
    const struct source  *f = p->f;

    if (f->sources.order.weighted)
        return row_sources_row(&f->sources, p->first + i);
    return f->o->order == TRAIN_SHUFFLED
               ? permute(f->o->seed, ROWS_EPOCH + p->epoch, p->first + i, f->rows)
               : p->first + i;
}

int source_batch(void *source, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct source *f = source;
    uint64_t             first = (step * f->o->grad_accum + micro) * f->o->batch;
    struct creation      p = { .f = f };

    if (f->chat)
        return chat_source_batch(f->chat, step, micro, b, err);
    if (f->evaluator.masking)
        return masking_batch(&f->masking, &f->data, 0, first, b, err);
    if (!f->train)
        return mixture_batch(&f->data, first, f->o->batch, f->o->seq, f->evaluator.vocab, b->x,
                             b->y, err);
    if (f->sources.order.weighted) {
        p.first = first;
        return evaluate_fill(b, f->train, f->o->batch, epoch_row, &p, err);
    }
    p.epoch = step / f->epoch_steps;
    p.first = (step % f->epoch_steps * f->o->grad_accum + micro) * f->o->batch;
    size_t n = p.first < f->rows ? size_min(f->rows - p.first, f->o->batch) : 0;
    return evaluate_fill(b, f->train, n, epoch_row, &p, err);
}

static void add_value(struct source_values *out, const char *name, const char *suffix, double value)
{
    struct training_evaluation *e = &out->told;

    snprintf(e->value[e->n].name, sizeof e->value[0].name, "%s%s", name, suffix);
    e->value[e->n++].value = value;
}

static int evaluate_dev(struct source *f, size_t split, uint64_t step, struct source_values *out,
                        struct err *err)
{
    const struct task  *task = &f->labels.task;
    const char         *suffix = split ? task->suffix[split] : "";
    struct results_eval v;
    int rc = evaluate_examples(&f->evaluator, f->dev[split], task, step, &v, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < task->n_metrics; i++)
        add_value(out, metric_names[task->metric[i]], suffix, v.metric[i]);
    if (task->n_metrics > 1)
        add_value(out, "combined_score", suffix, results_combined(task, &v));
    add_value(out, "loss", suffix, v.loss);
    out->told.count += v.samples;
    out->seconds[split] = v.seconds;
    return 0;
}

/* TRL's names. */
static void add_rewards(struct source_values *out, const struct eval_result *v)
{
    struct runlog_rewards r = pairs_rewards(&v->pairs, v->tokens);

    out->told.counts = "pairs";
    add_value(out, results_rewards[0], "", r.chosen);
    add_value(out, results_rewards[1], "", r.rejected);
    add_value(out, results_rewards[2], "", r.accuracy);
    add_value(out, results_rewards[3], "", r.chosen - r.rejected);
}

int source_evaluate(struct source *f, struct trainer *t, uint64_t step, struct source_values *out,
                  struct err *err)
{
    uint64_t           start_ns = clock_ns();
    struct eval_result of_chat = { 0 };
    double             loss;
    int                rc = 0;

    *out = (struct source_values){ .told.counts = f->train ? "rows" : "tokens" };
    f->evaluator.trainer = t;
    if (f->train) {
        out->larger_better = metric_larger_better(f->labels.task.metric[0]);
        for (size_t i = 0; i < TASK_SPLITS && f->dev[i] && !rc; i++)
            rc = evaluate_dev(f, i, step, out, err);
        return rc;
    }
    if (f->chat) {
        rc = chat_source_evaluate(f->chat, &f->evaluator, step, &of_chat, err);
        loss = of_chat.loss_sum;
        out->told.count = of_chat.tokens;
    } else {
        rc = evaluate_tokens(&f->evaluator, &f->eval, step, &loss, &out->told.count, err);
    }
    if (rc)
        return rc;
    add_value(out, "loss", "", loss);
    if (f->paired)
        add_rewards(out, &of_chat);
    else
        add_value(out, "perplexity", "", exp(loss));
    out->seconds[0] = (double)(clock_ns() - start_ns) * 1e-9;
    return 0;
}

uint64_t source_rows(struct session *s)
{
    uint64_t dev = task_files_rows(s, run_dev[0]);

    if (s->rows != SESSION_WHOLE)
        return dev + task_files_rows(s, RUN_TRAIN);
    return size_max(dev, task_files_rows(s, run_dev[1]));
}

uint64_t source_eval_rows(struct session *s)
{
    uint64_t all = task_files_rows(s, run_dev[0]) + task_files_rows(s, run_dev[1]), rows;
    char     name[CORPUS_NAME];

    for (size_t i = 0; settings_scan(s->log, "%" SCNu64, &rows, "%s.rows",
                                     corpus_name(name, "eval", i)); i++)
        all += rows;
    return all;
}

uint64_t source_epoch_steps(struct session *s)
{
    uint64_t rows = task_files_rows(s, RUN_TRAIN);

    settings_scan(s->log, "%" SCNu64, &rows, RUN_TRAIN ".packed");
    return task_files_epoch_steps(rows, &s->o);
}

int source_told(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                struct err *err)
{
    return (settings_has(s->log, "task") ? row_sources_told : corpus_sources)(out, n, s, steps,
                                                                              err);
}

int source_compares(char *name, size_t size, int *larger, struct session *s, struct err *err)
{
    struct task_labels of = { 0 };
    int                rc = settings_has(s->log, "task") ? task_labels_load(&of, s, err) : 0;
    int                metric = of.task.n_metrics > 0;

    snprintf(name, size, "%s", metric ? metric_names[of.task.metric[0]] : "loss");
    *larger = metric && metric_larger_better(of.task.metric[0]);
    task_labels_release(&of);
    return rc;
}

int source_has_eval(struct session *s)
{
    return settings_has(s->log, "eval.path") || settings_has(s->log, "dev.sum");
}

int source_lacks_reference(const struct source *f)
{
    return f->paired && chat_source_lacks_reference(f->chat);
}

int source_reference(struct source *f, struct trainer *t, struct err *err)
{
    f->evaluator.trainer = t;
    return chat_source_reference(f->chat, &f->evaluator, err);
}

int source_keep_reference(struct source *f, struct session *s, struct err *err)
{
    return chat_source_keep_reference(f->chat, s, err);
}

static int open_labelled(struct source *f, struct session *s, struct err *err)
{
    int rc;

    if ((rc = task_labels_load(&f->labels, s, err)) ||
        (rc = task_files_open(&f->train, s, RUN_TRAIN, err)))
        return rc;
    if (!f->train)
        return err_set(err, -EBADMSG, "%s/run.db has no training rows", s->dir);
    f->rows = f->train->h.rows;
    f->epoch_steps = task_files_epoch_steps(f->rows, &s->o);
    rc = row_sources_open(&f->sources, s, err);
    if (!rc && f->sources.order.weighted && f->sources.order.rows != f->rows)
        rc = err_set(err, -EBADMSG, "%s/run.db: the rows of its sources are not those of train.ex",
                     s->dir);
    rc = rc ? rc : task_files_open(&f->dev[0], s, run_dev[0], err);
    return rc ? rc : task_files_open(&f->dev[1], s, run_dev[1], err);
}

int source_open(struct source **out, struct session *s, struct err *err)
{
    const struct train_opts *o = &s->o;
    struct source             *f = *out = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    // ranks agree to stop only between steps, so a single rank must not stop an evaluation
    f->evaluator = (struct evaluator){ .batch = o->batch, .seq = o->seq,
                                       .events = s->ranks.comm ? NULL : s->events,
                                       .grad_accum = o->grad_accum, .vocab = s->config.vocab };
    f->o = o;
    f->paired = s->rows == SESSION_PAIRS;
    if (s->rows != SESSION_WHOLE)
        return chat_source_open(&f->chat, s, err);
    if (settings_has(s->log, "task"))
        return open_labelled(f, s, err);
    int rc = corpus_open(&f->data, s, "data", err);
    rc = rc ? rc : corpus_open(&f->eval, s, "eval", err);
    if (!rc && arch_is_masked(&s->config)) {
        f->evaluator.masking = &f->masking;
        rc = corpus_masking(&f->masking, s, err);
    }
    if (rc)
        return rc;
    masking_rows(f->evaluator.masking, &f->data, o->seq);
    return f->data.rows || !f->data.n
               ? 0
               : err_misuse(err, "%s holds %" PRIu64 " tokens, too few for a row of %" PRIu64,
                            f->data.source->tokens->path, f->data.source->tokens->count, o->seq);
}

void source_close(struct source *f)
{
    if (!f)
        return;
    mixture_close(&f->data);
    mixture_close(&f->eval);
    row_sources_close(&f->sources);
    chat_source_close(f->chat);
    examples_close(f->train);
    for (size_t i = 0; i < TASK_SPLITS; i++)
        examples_close(f->dev[i]);
    task_labels_release(&f->labels);
    free(f);
}
