/* evaluate.c: batches of a file in order, through eval_step. */
#include "cmd/run/evaluate.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rows {
    const struct evaluator *e;
    struct tokens          *data;
    int32_t                *row; // (seq + 1)
    uint64_t                rows;
};

/* Micro-batch `micro` of pass `pass`: rows one after the other; where there is none left, targets
 * that do not count. */
static int rows_batch(void *ctx, uint64_t pass, size_t micro, struct batch *batch, struct err *err)
{
    const struct rows      *f = ctx;
    const struct evaluator *e = f->e;
    uint64_t                first = (pass * e->grad_accum + micro) * e->batch;
    int32_t                *x = batch->x, *y = batch->y;

    for (size_t b = 0; b < e->batch; b++, x += e->seq, y += e->seq) {
        int rc;

        if (first + b >= f->rows) {
            memset(x, 0, e->seq * sizeof *x);
            memset(y, 0xff, e->seq * sizeof *y); // -1
            continue;
        }
        rc = tokens_read(f->data, (first + b) * e->seq, e->seq + 1, e->vocab, f->row, err);
        if (rc)
            return rc;
        memcpy(x, f->row, e->seq * sizeof *x);
        memcpy(y, f->row + 1, e->seq * sizeof *y);
    }
    return 0;
}

int evaluate_tokens(const struct evaluator *e, struct tokens *data, uint64_t step, double *loss,
                    uint64_t *tokens, struct err *err)
{
    struct rows f = { e, data, malloc((e->seq + 1) * sizeof *f.row),
                      data->count ? (data->count - 1) / e->seq : 0 };
    struct batch_source source = { rows_batch, &f };
    struct eval_result  sum = { 0 };
    struct watch        w;
    int                 rc = 0;

    if (!f.row)
        return err_set(err, -ENOMEM, "out of memory for a row of %zu tokens", e->seq);
    if (!f.rows)
        rc = err_misuse(err, "%s has %llu tokens; a row of --seq %zu needs %zu", data->path,
                        (unsigned long long)data->count, e->seq, e->seq + 1);
    w = work_begin(e->events, "evaluating");
    for (uint64_t done = 0, pass = 0; done < f.rows && !rc; pass++) {
        uint64_t left = f.rows - done, micros = (left + e->batch - 1) / e->batch;

        micros = micros < e->grad_accum ? micros : e->grad_accum;
        rc = watch_look(&w, done, f.rows, err);
        if (!rc)
            rc = eval_step(e->trainer, step, &source, pass, micros, NULL, &sum, err);
        done += micros * e->batch;
    }
    work_end(e->events);
    *loss = sum.tokens ? sum.loss_sum / (double)sum.tokens : 0;
    *tokens = sum.tokens;
    free(f.row);
    return rc;
}

/* ---- labelled examples ---- */

enum { PAD_TO = 16 };

/* Rows are read at the largest distance that may be and then moved together. */
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
        longest = len > longest ? len : longest;
    }
    b->rows = n;
    b->seq = round_up(longest, PAD_TO);
    b->seq = b->seq < most ? b->seq : most;
    for (size_t i = 0; i < n; i++) {
        size_t len = (size_t)b->last[i] + 1;

        memmove(b->x + i * b->seq, b->x + i * most, len * sizeof *b->x);
        memset(b->x + i * b->seq + len, 0, (b->seq - len) * sizeof *b->x);
    }
    return 0;
}

void predictions_free(struct predictions *p)
{
    free(p->classes);
    free(p->labels);
    free(p->values);
    free(p->truth);
    *p = (struct predictions){ 0 };
}

enum { METRIC_SCRATCH = 4 }; // doubles a row, of metric_values

uint64_t predictions_bytes(uint64_t n, size_t n_labels)
{
    return n * (n_labels > 1 ? 2 * sizeof(int32_t)
                             : 2 * sizeof(float) + METRIC_SCRATCH * sizeof(double));
}

struct predicting {
    const struct evaluator *e;
    const struct examples  *x;
    struct predictions     *out;
    size_t                  first; // the row that a micro-batch begins with
};

static uint64_t next_row(const void *ctx, size_t i)
{
    return ((const struct predicting *)ctx)->first + i;
}

static int predicting_batch(void *ctx, uint64_t pass, size_t micro, struct batch *b,
                            struct err *err)
{
    struct predicting *p = ctx;
    size_t             left, n;
    int                rc;

    p->first = (pass * p->e->grad_accum + micro) * p->e->batch;
    left = p->out->n - p->first;
    n = left < p->e->batch ? left : p->e->batch;
    rc = evaluate_fill(b, p->x, n, next_row, p, err);
    if (!rc && p->out->labels)
        memcpy(p->out->labels + p->first, b->label, n * sizeof *b->label);
    else if (!rc)
        memcpy(p->out->truth + p->first, b->value, n * sizeof *b->value);
    return rc;
}

/* The logits of a pass, (micros, batch, n_labels), of rows from `first` on. */
static void take_logits(struct predictions *out, const float *logits, size_t first, size_t rows,
                        size_t n_labels)
{
    for (size_t i = 0; i < rows; i++) {
        if (out->classes)
            out->classes[first + i] = (int32_t)reduce_argmax(logits + i * n_labels, n_labels);
        else
            out->values[first + i] = logits[i];
    }
}

static int predictions_open(struct predictions *p, size_t n, size_t n_labels, struct err *err)
{
    *p = (struct predictions){ .n = n };
    if (n_labels > 1) {
        p->classes = calloc(n, sizeof *p->classes);
        p->labels = calloc(n, sizeof *p->labels);
    } else {
        p->values = calloc(n, sizeof *p->values);
        p->truth = calloc(n, sizeof *p->truth);
    }
    return (p->classes && p->labels) || (p->values && p->truth)
               ? 0
               : err_set(err, -ENOMEM, "out of memory for %zu predictions", n);
}

int evaluate_predict(const struct evaluator *e, const struct examples *x, size_t n_labels,
                     uint64_t step, struct predictions *out, double *loss_sum, struct err *err)
{
    struct predicting   p = { .e = e, .x = x, .out = out };
    struct batch_source source = { predicting_batch, &p };
    struct eval_result  sum = { 0 };
    struct watch        w;
    size_t              per_pass = e->batch * e->grad_accum;
    float              *logits = malloc(per_pass * n_labels * sizeof *logits);
    int                 rc = predictions_open(out, x->h.rows, n_labels, err);

    if (!rc && !logits)
        rc = err_set(err, -ENOMEM, "out of memory for the logits of %zu rows", per_pass);
    w = work_begin(e->events, "evaluating");
    for (size_t first = 0, pass = 0; !rc && first < out->n; first += per_pass, pass++) {
        size_t left = out->n - first, rows = left < per_pass ? left : per_pass;

        rc = watch_look(&w, first, out->n, err);
        if (!rc)
            rc = eval_step(e->trainer, step, &source, pass, (rows + e->batch - 1) / e->batch,
                           logits, &sum, err);
        if (!rc)
            take_logits(out, logits, first, rows, n_labels);
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
    struct predictions p = { 0 };
    uint64_t           start_ns = clock_ns();
    double             loss_sum;
    int                rc = evaluate_predict(e, x, task->n_labels, step, &p, &loss_sum, err);

    *out = (struct results_eval){ .samples = p.n, .batches = (p.n + e->batch - 1) / e->batch };
    if (!rc)
        rc = take_metrics(out, &p, task, err);
    if (!rc) {
        out->loss = loss_sum / (double)p.n;
        out->seconds = (double)(clock_ns() - start_ns) * 1e-9;
    }
    predictions_free(&p);
    return rc;
}

double evaluate_combined(const struct task *task, const struct results_eval *v)
{
    double sum = 0;

    for (size_t i = 0; i < task->n_metrics; i++)
        sum += v->metric[i];
    return sum / (double)task->n_metrics;
}
