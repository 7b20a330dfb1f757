/* evaluate.c: batches of a file in order, through eval_step. */
#include "cmd/evaluate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rows {
    const struct evaluate *e;
    struct tokens         *data;
    int32_t               *row; // (seq + 1)
    uint64_t               rows;
};

uint64_t evaluate_rows(const struct tokens *t, size_t seq)
{
    return tokens_count(t) ? (tokens_count(t) - 1) / seq : 0;
}

/* Micro-batch `micro` of pass `pass`: rows one after the other; where there is none left, targets that do not count. */
static int rows_batch(void *ctx, uint64_t pass, size_t micro, struct batch *batch, struct err *err)
{
    const struct rows     *f = ctx;
    const struct evaluate *e = f->e;
    uint64_t               first = (pass * e->grad_accum + micro) * e->batch;
    int32_t               *x = batch->x, *y = batch->y;

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

int evaluate(double *loss, uint64_t *tokens, struct trainer *t, struct tokens *data, const struct evaluate *e, uint64_t step,
             struct err *err)
{
    struct rows         f = { e, data, malloc((e->seq + 1) * sizeof *f.row), evaluate_rows(data, e->seq) };
    struct batch_source source = { rows_batch, &f };
    struct eval_result  sum = { 0 };
    int                 rc = 0;

    if (!f.row)
        return err_set(err, -ENOMEM, "out of memory for a row of %zu tokens", e->seq);
    if (!f.rows)
        rc = err_misuse(err, "%s has %llu tokens; a row of --seq %zu needs %zu", tokens_path(data),
                        (unsigned long long)tokens_count(data), e->seq, e->seq + 1);
    for (uint64_t done = 0, pass = 0; done < f.rows && !rc; pass++) {
        uint64_t left = f.rows - done, micros = (left + e->batch - 1) / e->batch;

        micros = micros < e->grad_accum ? micros : e->grad_accum;
        rc = eval_step(t, step, &source, pass, micros, NULL, &sum, err);
        done += micros * e->batch;
    }
    *loss = sum.tokens ? sum.loss_sum / (double)sum.tokens : 0;
    *tokens = sum.tokens;
    free(f.row);
    return rc;
}
