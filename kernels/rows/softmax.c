/* softmax.c: computes losses and their gradients, and a classifier's products. A row of logits is
 * read from memory once, for its maximum, and then twice from cache: for its sum of exponentials
 * and its gradient. Exponentials are computed twice, not stored, because dlogits may be bf16. */
#include "kernels/rows/softmax.h"

#include "data/base/round.h"
#include "kernels/simd.h"
#include "kernels/tiled.h"
#include "kernels/vexp.h"

#include <assert.h>
#include <math.h>

enum { RUN = 4096 }; // elements summed in float before the sum is added to a double

SIMD_CLONES static float row_max(const float *x, size_t V)
{
    float  lane[SIMD_LANES], top = -INFINITY;
    size_t i = 0;

    for (size_t l = 0; l < SIMD_LANES; l++)
        lane[l] = -INFINITY;
    for (; i + SIMD_LANES <= V; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; i + l < V; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; l < SIMD_LANES; l++)
        top = lane[l] > top ? lane[l] : top;
    return top;
}

SIMD_CLONES static float run_sum(const float *x, float top, size_t n)
{
    float  lane[SIMD_LANES] = {0};
    size_t i = 0;

    for (; i + SIMD_LANES <= n; i += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += vexpf_low(x[i + l] - top);
    for (size_t l = 0; i + l < n; l++)
        lane[l] += vexpf_low(x[i + l] - top);
    return simd_sum(lane);
}

/* The factor of a row's exponentials, and what is taken from each of them afterwards. */
struct weigh { float top, factor, less; };

SIMD_INLINE void gradient_as(void *out, enum dtype dt, const float *x, struct weigh w, size_t V)
{
#pragma omp simd // out may be x: each element is read before it is written
    for (size_t i = 0; i < V; i++)
        dtype_put(out, dt, i, vexpf_low(x[i] - w.top) * w.factor - w.less);
}

SIMD_CLONES static void row_gradient(void *out, enum dtype dt, const float *x, struct weigh w,
                                     size_t V)
{
    dt == DT_F32 ? gradient_as(out, DT_F32, x, w, V) : gradient_as(out, DT_BF16, x, w, V);
}

/* Computes the gradient of a row in tiles. Its lines lie apart, so the CPU does not see which come
 * next. */
SIMD_CLONES static void row_gradient_tiled(bf16 *out, const float *x, struct weigh w, size_t V)
{
    enum { NEXT = TILED_ROWS * TILED_COLS, AHEAD = 24 * NEXT };

    for (; V >= TILED_COLS; V -= TILED_COLS, x += TILED_COLS, out += NEXT) {
        __builtin_prefetch(out + AHEAD, 1);
        gradient_as(out, DT_BF16, x, w, TILED_COLS);
    }
    gradient_as(out, DT_BF16, x, w, V);
}

/* Where a row's gradient goes. */
struct to { void *row; enum dtype dt; int tiled; };

static struct to to_row(void *all, enum dtype dt, int tiled, size_t V, size_t i)
{
    return (struct to){ all ? dtype_at(all, dt, tiled ? tiled_at(V, i, 0) : i * V) : NULL, dt,
                        tiled };
}

/* Returns the index of element `column` in the row. */
static size_t to_at(const struct to *out, size_t column)
{
    return out->tiled ? tiled_at(0, 0, column) : column;
}

/* Makes a row zero. */
static void to_zero(const struct to *out, size_t V)
{
    size_t step = out->tiled ? TILED_COLS : V;

    for (size_t at = 0; at < V; at += step)
        memset(dtype_at(out->row, out->dt, to_at(out, at)), 0, step * dtype_bytes(out->dt));
}

/* Makes the elements that fill a row's last tile zero. */
static void to_fill(const struct to *out, size_t V)
{
    for (size_t at = V; out->tiled && at % TILED_COLS; at++)
        ((bf16 *)out->row)[to_at(out, at)] = 0;
}

SIMD_CLONES static float run_total(const float *x, size_t n) { return simd_total(x, n); }

/* A row's logits: its first columns and the rest, which are stored apart. */
struct row { struct part { const float *x; size_t n; } part[2]; };

static float row_top(const struct row *r)
{
    float first = row_max(r->part[0].x, r->part[0].n), rest = row_max(r->part[1].x, r->part[1].n);

    return first > rest ? first : rest;
}

static double row_sum(const struct row *r, float top)
{
    double sum = 0.0;

    for (const struct part *p = r->part; p < r->part + 2; p++)
        for (size_t i = 0; i < p->n; i += RUN)
            sum += (double)run_sum(p->x + i, top, size_min(p->n - i, RUN));
    return sum;
}

/* Finds the two parts of row i: its first `split` columns, and the rest, which is stored behind
 * those of all n rows. */
static struct row row_of(const float *logits, size_t n, size_t V, size_t split, size_t i)
{
    const float *rest = logits + n * split;

    return (struct row){{{ logits + i * split, split }, { rest + i * (V - split), V - split }}};
}

/* The sum of a row's logits. */
static double row_total(const struct row *r)
{
    double sum = 0.0;

    for (const struct part *p = r->part; p < r->part + 2; p++)
        for (size_t i = 0; i < p->n; i += RUN)
            sum += (double)run_total(p->x + i, size_min(p->n - i, RUN));
    return sum;
}

/* out = exp(logit - top) * factor - less */
static void row_weights(struct to out, const struct row *r, struct weigh w)
{
    size_t at = 0;

    for (const struct part *p = r->part; p < r->part + 2; at += p->n, p++) {
        void *first = dtype_at(out.row, out.dt, to_at(&out, at));

        if (out.tiled)
            row_gradient_tiled(first, p->x, w, p->n);
        else
            row_gradient(first, out.dt, p->x, w, p->n);
    }
    to_fill(&out, at);
}

static float row_at(const struct row *r, size_t column)
{
    size_t split = r->part[0].n;

    return column < split ? r->part[0].x[column] : r->part[1].x[column - split];
}

/* Weights with which logits enter a loss: the target's own, and that of each column. */
struct smooth { double own, each; };

static struct smooth smooth_of(float smoothing, size_t columns)
{
    double e = (double)smoothing;

    return (struct smooth){ 1.0 - e, e > 0 ? e / (double)columns : 0 };
}

/* What the columns of a row add to so_far.of_target. target: its column, if it is among them. */
static float row_of_target(const struct row *r, size_t target, struct smooth s)
{
    float own = target < r->part[0].n + r->part[1].n ? row_at(r, target) : 0;

    return s.each > 0 ? (float)(s.own * (double)own + s.each * row_total(r)) : own;
}

/* Computes the gradient of a row, with all columns or a piece of them. target: its column, if it is
 * in the piece. */
static void row_backward(struct to out, const struct row *r, const struct softmax_so_far *known,
                         size_t target, float scale, struct smooth s)
{
    // out may be the logits
    float own = target < r->part[0].n + r->part[1].n ? row_at(r, target) : known->top;

    row_weights(out, r, (struct weigh){ known->top, (float)((double)scale / known->sum),
                                        (float)(s.each * (double)scale) });
    if (target < r->part[0].n + r->part[1].n) {
        double p = exp((double)(own - known->top)) / known->sum;

        dtype_put(out.row, out.dt, to_at(&out, target),
                  (float)((p - s.own - s.each) * (double)scale));
    }
}

static float row_scale(float scale, const float *weights, size_t i)
{
    return weights ? scale * weights[i] : scale;
}

float softmax_loss(const struct softmax_so_far *so_far, int32_t target)
{
    return target < 0 ? 0.0f
                      : (float)(log(so_far->sum) - (double)(so_far->of_target - so_far->top));
}

/* Asserts what the header asks of the formats. */
static void assert_ok(size_t V, size_t split, const void *logits, const void *out, enum dtype dt,
                      int tiled)
{
    assert(split <= V && (out != logits || (split == V && dt == DT_F32)));
    assert(!tiled || (dt == DT_BF16 && (split == V || split % TILED_COLS == 0)));
}

/* Computes one row, and returns its loss. */
static float row_xent(struct to dlogits, const struct row *r, int32_t target, float scale,
                      struct smooth s)
{
    struct softmax_so_far all = { .top = row_top(r),
                                  .of_target = row_of_target(r, (size_t)target, s) };

    all.sum = row_sum(r, all.top);
    if (dlogits.row)
        row_backward(dlogits, r, &all, (size_t)target, scale, s);
    return softmax_loss(&all, target);
}

void softmax_xent(const struct softmax_xent *s)
{
    size_t V = s->V, split = s->split;

    assert_ok(V, split, s->logits, s->dlogits, s->dt, s->tiled);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s->n; i++) {
        struct to  out = to_row(s->dlogits, s->dt, s->tiled, V, i);
        int32_t    target = s->targets[i];
        struct row r = row_of(s->logits, s->n, V, split, i);

        assert(target < 0 || (size_t)target < V);
        s->losses[i] = target < 0 ? 0.0f : row_xent(out, &r, target,
                                                      row_scale(s->scale, s->weights, i),
                                                      smooth_of(s->smoothing, V));
        if (target < 0 && out.row)
            to_zero(&out, V);
    }
}

/* ---- a vocabulary in pieces ---- */

void softmax_begin(struct softmax_so_far *so_far, size_t n)
{
    for (size_t i = 0; i < n; i++)
        so_far[i] = (struct softmax_so_far){ 0, -INFINITY, 0 };
}

/* The target's column in this piece, or V. */
static size_t target_column(const struct softmax_piece *p, size_t i)
{
    size_t target = (size_t)p->targets[i];

    return target >= p->first && target - p->first < p->V ? target - p->first : p->V;
}

/* Adds a row's piece to its maximum and sum. Returns the factor by which earlier weights change. */
static float add_row(const struct softmax_piece *p, size_t i, struct to out)
{
    struct softmax_so_far *known = &p->so_far[i];
    struct row             r = row_of(p->logits, p->n, p->V, p->split, i);
    size_t                 column = target_column(p, i);
    float                  here = row_top(&r), top = here > known->top ? here : known->top;
    float                  factor = known->sum > 0 ? expf(known->top - top) : 0;

    if (column < p->V || p->smoothing > 0)
        known->of_target += row_of_target(&r, column, smooth_of(p->smoothing, p->all));
    known->sum = known->sum * (double)factor + row_sum(&r, top);
    known->top = top;
    if (out.row)
        row_weights(out, &r, (struct weigh){ top, 1.0f, 0 });
    return factor;
}

static struct to row_out(const struct softmax_piece *p, size_t i)
{
    assert_ok(p->V, p->split, p->logits, p->out, p->dt, p->tiled);
    return to_row(p->out, p->dt, p->tiled, p->V, i);
}

void softmax_add(const struct softmax_piece *p, float *factors)
{
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < p->n; i++) {
        struct to out = row_out(p, i);

        factors[i] = p->targets[i] < 0 ? 0 : add_row(p, i, out);
        if (p->targets[i] < 0 && out.row)
            to_zero(&out, p->V);
    }
}

void softmax_gradient(const struct softmax_piece *p, float scale)
{
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < p->n; i++) {
        struct row r = row_of(p->logits, p->n, p->V, p->split, i);
        struct to  out = row_out(p, i);

        if (p->targets[i] < 0)
            to_zero(&out, p->V);
        else
            row_backward(out, &r, &p->so_far[i], target_column(p, i),
                         row_scale(scale, p->weights, i), smooth_of(p->smoothing, p->all));
    }
}

void softmax_rows_add(float *sums, const float *factors, const float *more, size_t n, size_t C)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < C; c++)
            sums[i * C + c] = sums[i * C + c] * factors[i] + more[i * C + c];
}

void softmax_words_add(double *total, const void *words, enum dtype dt, size_t n, size_t C)
{
    enum { COLUMNS = 64 }; // of one thread: words are read by cache lines

#pragma omp parallel for schedule(static)
    for (size_t from = 0; from < C; from += COLUMNS)
        for (size_t i = 0; i < n; i++)
            for (size_t c = from; c < size_min(from + COLUMNS, C); c++)
                total[c] += (double)dtype_get(words, dt, i * C + c);
}

void softmax_rows_end(float *out, const struct softmax_rows *r)
{
    struct smooth s = smooth_of(r->smoothing, r->all);

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < r->n; i++) {
        const float *sums = r->sums + i * r->C;
        const void  *word = dtype_at(r->words, r->dt, i * r->C);
        float        scale = row_scale(r->scale, r->weights, i);
        float       *row = out + i * r->C, by = (float)((double)scale / r->so_far[i].sum);

        if (r->targets[i] < 0)
            memset(row, 0, r->C * sizeof *row);
        for (size_t c = 0; r->targets[i] >= 0 && c < r->C; c++)
            row[c] = s.each > 0
                         ? sums[c] * by - (float)((double)scale *
                                                  (s.own * (double)dtype_get(word, r->dt, c) +
                                                   s.each * r->total[c]))
                         : sums[c] * by - scale * dtype_get(word, r->dt, c);
    }
}

/* ---- a classifier's head: products of a row with a handful of label vectors. They take as long as
 * reading memory, and run once per batch. ---- */

SIMD_CLONES static float dot(const void *a, const void *b, enum dtype dt, size_t C)
{
    float  lane[SIMD_LANES] = { 0 };
    size_t c = 0;

    for (; c + SIMD_LANES <= C; c += SIMD_LANES)
        for (size_t l = 0; l < SIMD_LANES; l++)
            lane[l] += dtype_get(a, dt, c + l) * dtype_get(b, dt, c + l);
    for (size_t l = 0; c < C; c++, l++)
        lane[l] += dtype_get(a, dt, c) * dtype_get(b, dt, c);
    return simd_sum(lane);
}

/* y[c] += a x[c] */
SIMD_CLONES static void axpy(float *y, float a, const void *x, enum dtype dt, size_t C)
{
    for (size_t c = 0; c < C; c++)
        y[c] += a * dtype_get(x, dt, c);
}

void score_forward(float *logits, const struct score *s)
{
    size_t L = s->L, C = s->C;

    #pragma omp parallel for
    for (size_t i = 0; i < s->n; i++)
        for (size_t l = 0; l < L; l++)
            logits[i * L + l] =
                dot(dtype_at(s->x, s->dt, i * C), dtype_at(s->w, s->dt, l * C), s->dt, C);
}

void score_bias(float *logits, const void *bias, enum dtype dt, size_t n, size_t L)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < L; l++)
            logits[i * L + l] += dtype_get(bias, dt, l);
}

void score_backward(float *dx, float *dw, const float *dlogits, const struct score *s)
{
    size_t n = s->n, L = s->L, C = s->C;

    #pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        memset(dx + i * C, 0, C * sizeof *dx);
        for (size_t l = 0; l < L; l++)
            axpy(dx + i * C, dlogits[i * L + l], dtype_at(s->w, s->dt, l * C), s->dt, C);
    }
    #pragma omp parallel for if (dw)
    for (size_t l = 0; l < (dw ? L : 0); l++)
        for (size_t i = 0; i < n; i++)
            axpy(dw + l * C, dlogits[i * L + l], dtype_at(s->x, s->dt, i * C), s->dt, C);
}

void score_squares(float *losses, float *dpredicted, const float *predicted, const float *value,
                   const int32_t *label, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float off = label[i] < 0 ? 0.0f : predicted[i] - value[i];

        losses[i] = off * off;
        if (dpredicted)
            dpredicted[i] = 2.0f * off * scale;
    }
}
