/* evaluate.c: reads a file's batches in order and passes them to eval_step. */
#include "run/sources/evaluate.h"

#include "data/base/clock.h"
#include "data/base/number.h"
#include "data/base/round.h"
#include "kernels/update/reduce.h"

struct rows {
    const struct evaluator *e;
    const struct mixture   *data;
};

/* Fill micro-batch `micro` of pass `pass` with consecutive rows. Past the last row, targets are -1
 * and do not count. */
static int rows_batch(void *ctx, uint64_t pass, size_t micro, struct batch *b, struct err *err)
{
    const struct rows      *f = ctx;
    const struct evaluator *e = f->e;
    uint64_t                first = (pass * e->grad_accum + micro) * e->batch;
    size_t n = first < f->data->rows ? size_min(f->data->rows - first, e->batch) : 0;
    size_t at = n * e->seq, rest = (e->batch * e->seq - at) * sizeof *b->x;
    int    rc = n ? mixture_batch(f->data, first, n, e->seq, e->vocab, b->x, b->y, err) : 0;

    memset(b->x + at, 0, rest);
    memset(b->y + at, 0xff, rest); // -1
    return rc;
}

/* rows_batch for a masked language model. */
static int masked_batch(void *ctx, uint64_t pass, size_t micro, struct batch *b, struct err *err)
{
    const struct rows *f = ctx;
    uint64_t           first = (pass * f->e->grad_accum + micro) * f->e->batch;

    return masking_batch(f->e->masking, f->data, 1, first, b, err);
}

int evaluate_tokens(const struct evaluator *e, struct mixture *data, uint64_t step, double *loss,
                    uint64_t *tokens, struct err *err)
{
    struct rows         f = { e, data };
    struct batch_source source = { e->masking ? masked_batch : rows_batch, &f };
    struct eval_result  sum = { 0 };
    int                 rc = 0;

    masking_rows(e->masking, data, e->seq);
    if (!data->rows)
        rc = err_misuse(err, "%s has %llu tokens; a row of --seq %zu needs %zu",
                        data->source->tokens->path,
                        (unsigned long long)data->source->tokens->count, e->seq, e->seq + 1);
    struct watch w = work_begin(e->events, "evaluating");
    for (uint64_t done = 0, pass = 0; done < data->rows && !rc; pass++) {
        size_t micros = size_min(div_up(data->rows - done, e->batch), e->grad_accum);

        rc = watch_look(&w, done, data->rows, err);
        rc = rc ? rc : eval_step(e->trainer, step, &source, pass, micros, NULL, &sum, err);
        done += micros * e->batch;
    }
    work_end(e->events);
    if (!rc && !sum.tokens)
        rc = err_misuse(err, "no token of the evaluation data can be masked: all are the "
                             "tokenizer's special tokens (padding, masks, ends of texts)");
    *loss = sum.tokens ? sum.loss_sum / (double)sum.tokens : 0;
    *tokens = sum.tokens;
    return rc;
}

/* ---- labelled examples ---- */

enum { PAD_TO = 16 };

/* Reads each row at the largest stride, then moves all rows to the final stride. */
int evaluate_fill(struct batch *b, const struct examples *x, size_t n,
                  uint64_t (*row)(const void *ctx, size_t i), const void *ctx, struct err *err)
{
    size_t most = b->seq, longest = 1;

    for (size_t i = 0; i < n; i++) {
        struct example label;
        size_t         len;
        int            rc = examples_read(x, row(ctx, i), b->x + i * most, most, &len, &label, err);

        if (rc)
            return rc;
        b->last[i] = (int32_t)len - 1;
        b->label[i] = label.label;
        b->value[i] = label.value;
        longest = size_max(len, longest);
    }
    b->rows = n;
    b->seq = size_min(round_up(longest, PAD_TO), most);
    for (size_t i = 0; i < n; i++) {
        size_t len = (size_t)b->last[i] + 1;

        for (size_t k = 0; k < b->seq; k++) {
            int32_t id = k < len ? b->x[i * most + k] : 0; // a row moves to the left of its place

            if (b->types)
                b->types[i * b->seq + k] = examples_type(id);
            b->x[i * b->seq + k] = examples_id(id);
        }
    }
    return 0;
}

/* Predictions and true values: classes and labels for a classifier, values and truth for a
 * regressor. The other two are NULL. */
struct predictions {
    int32_t *classes, *labels; // (n) each, in one allocation of 2 n
    float   *values, *truth;
    float   *logits;           // (n, n_labels), of a classifier if they were asked for
    size_t   n, broken; // broken: first row with a logit that is not finite; n: none
    float    logit;     // that logit
};

static void predictions_free(struct predictions *p)
{
    free(p->classes);
    free(p->values);
    free(p->logits);
}

enum { METRIC_SCRATCH = 4 }; // doubles per row for metric_values

uint64_t predictions_bytes(uint64_t n, size_t n_labels, int written)
{
    enum { FIELD = 12 }; // characters of a probability
    uint64_t row = n_labels > 1 ? 2 * sizeof(int32_t)
                                : 2 * sizeof(float) + METRIC_SCRATCH * sizeof(double);

    return n * (row + (written && n_labels > 1 ? n_labels * (sizeof(float) + FIELD) : 0));
}

struct predicting {
    const struct evaluator *e;
    const struct examples  *x;
    size_t                  first; // first row of the micro-batch
};

static uint64_t next_row(const void *ctx, size_t i)
{
    return ((const struct predicting *)ctx)->first + i;
}

static int predicting_batch(void *ctx, uint64_t pass, size_t micro, struct batch *b,
                            struct err *err)
{
    struct predicting *p = ctx;

    p->first = (pass * p->e->grad_accum + micro) * p->e->batch;
    size_t n = size_min(p->x->h.rows - p->first, p->e->batch);

    return evaluate_fill(b, p->x, n, next_row, p, err);
}

/* Read the true values of all rows. A rank needs all of them, but computes only some rows
 * itself. */
static int read_truth(struct predictions *out, const struct examples *x, struct err *err)
{
    int32_t *ids = malloc(x->h.longest * sizeof *ids);
    int      rc = ids ? 0 : err_set(err, -ENOMEM, "out of memory for a row");

    for (size_t i = 0; i < out->n && !rc; i++) {
        struct example e;
        size_t         n;

        rc = examples_read(x, i, ids, x->h.longest, &n, &e, err);
        if (!rc && out->labels)
            out->labels[i] = e.label;
        else if (!rc)
            out->truth[i] = e.value;
    }
    free(ids);
    return rc;
}

/* Remember the first logit that is not finite. Its row has no valid class or value. */
static void look_finite(struct predictions *p, size_t first, const float *logits, size_t rows,
                        size_t n_labels)
{
    for (size_t i = 0; i < rows * n_labels && p->broken == p->n; i++)
        if (!isfinite(logits[i])) {
            p->broken = first + i / n_labels;
            p->logit = logits[i];
        }
}

/* Predict every row in order, and sum up the losses. keep: with the logits of classes. */
static int predict(const struct evaluator *e, const struct examples *x, size_t n_labels, int keep,
                   uint64_t step, struct predictions *out, double *loss_sum, struct err *err)
{
    struct predicting   p = { .e = e, .x = x };
    struct batch_source source = { predicting_batch, &p };
    struct eval_result  sum = { 0 };
    size_t              n = x->h.rows, per_pass = e->batch * e->grad_accum;
    float              *logits = malloc(per_pass * n_labels * sizeof *logits);
    int                 rc = 0;

    *out = (struct predictions){ .n = n, .broken = n };
    if (n_labels > 1 && (out->classes = calloc(2 * n, sizeof *out->classes)))
        out->labels = out->classes + n;
    if (n_labels == 1 && (out->values = calloc(2 * n, sizeof *out->values)))
        out->truth = out->values + n;
    keep = keep && n_labels > 1;
    if (keep)
        out->logits = malloc(n * n_labels * sizeof *logits);
    if (!logits || (!out->classes && !out->values) || (keep && !out->logits))
        rc = err_set(err, -ENOMEM, "out of memory for %zu predictions", n);
    rc = rc ? rc : read_truth(out, x, err);
    struct watch w = work_begin(e->events, "evaluating");
    for (size_t first = 0, pass = 0; !rc && first < n; first += per_pass, pass++) {
        size_t rows = size_min(n - first, per_pass);

        rc = watch_look(&w, first, n, err);
        rc = rc ? rc
                : eval_step(e->trainer, step, &source, pass, div_up(rows, e->batch), logits, &sum,
                            err);
        if (!rc)
            look_finite(out, first, logits, rows, n_labels);
        if (!rc && keep)
            memcpy(out->logits + first * n_labels, logits, rows * n_labels * sizeof *logits);
        for (size_t i = 0; i < rows && !rc; i++) // (micros, batch, n_labels)
            if (out->classes)
                out->classes[first + i] = (int32_t)reduce_argmax(logits + i * n_labels, n_labels);
            else
                out->values[first + i] = logits[i];
    }
    work_end(e->events);
    *loss_sum = sum.loss_sum;
    free(logits);
    return rc;
}

static int take_metrics(struct results_eval *out, const struct predictions *p,
                        const struct task *task, struct err *err)
{
    double *scratch = p->values ? malloc(METRIC_SCRATCH * p->n * sizeof *scratch) : NULL;

    if (p->values && !scratch)
        return err_set(err, -ENOMEM, "out of memory for the metrics of %zu rows", p->n);
    for (size_t i = 0; i < task->n_metrics; i++)
        out->metric[i] = p->values
                             ? metric_values(task->metric[i], p->values, p->truth, p->n, scratch)
                             : metric_classes(task->metric[i], p->classes, p->labels, p->n);
    free(scratch);
    return 0;
}

int evaluate_examples(const struct evaluator *e, const struct examples *x, const struct task *task,
                      uint64_t step, struct results_eval *out, struct err *err)
{
    struct predictions p;
    uint64_t           start_ns = clock_ns();
    double             loss_sum;
    int                rc = predict(e, x, task->n_labels, 0, step, &p, &loss_sum, err);

    *out = (struct results_eval){ .samples = p.n, .batches = div_up(p.n, e->batch) };
    rc = rc ? rc : take_metrics(out, &p, task, err);
    if (!rc && p.broken < p.n) // even a finite loss is invalid then
        out->loss = out->metric[0] = out->metric[1] = (double)NAN;
    else if (!rc)
        out->loss = loss_sum / (double)p.n;
    if (!rc)
        out->seconds = (double)(clock_ns() - start_ns) * 1e-9;
    predictions_free(&p);
    return rc;
}

int evaluate_predict(const struct evaluator *e, const struct examples *x, const struct task *task,
                     char **text, size_t *bytes, struct err *err)
{
    struct predictions p;
    double             loss_sum;
    int                rc = predict(e, x, task->n_labels, 1, 0, &p, &loss_sum, err);

    *text = NULL;
    if (!rc && p.broken < p.n)
        rc = err_set(err, -ERANGE, "a logit of the model is %f for row %zu, no number: what it "
                     "computes is too large, and no predictions are written",
                     nan_plain((double)p.logit), p.broken);
    rc = rc ? rc : results_predictions(text, bytes, task, p.classes,
                                       p.logits ? p.logits : p.values, p.n, err);
    predictions_free(&p);
    return rc;
}
