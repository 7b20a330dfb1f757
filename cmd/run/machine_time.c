/* machine_time.c: lines between what was measured. */
#include "cmd/run/machine_time.h"

#include "model/products.h"

#include <math.h>

/* FLOP of a token: of a layer's products by C^2, of attention by C T (causal: half of T), of the
 * head by C V. */
static const double layer_flop[] = { 24, 48, 16 }, attention_flop[] = { 2, 5, 2 };
#define HEAD_FLOP 6.0

static double columns_of(const struct machine_work *w)
{
    return w->columns > 0 ? w->columns : w->width;
}

static double dense_of(const struct machine_work *w) { return w->dense > 0 ? w->dense : 1; }

/* Of what lies at x among points that have been offered: the nearest below, and above. */
struct around { double x, below, below_y, above, above_y; int has_below, has_above; };

static void offer(struct around *a, double x, double y)
{
    if (x <= a->x && (!a->has_below || x > a->below)) {
        a->has_below = 1;
        a->below = x;
        a->below_y = y;
    }
    if (x >= a->x && (!a->has_above || x < a->above)) {
        a->has_above = 1;
        a->above = x;
        a->above_y = y;
    }
}

/* On the line in 1/x between the two; beyond the ends as at the end. */
static double between(const struct around *a)
{
    if (!a->has_below || !a->has_above)
        return a->has_below ? a->below_y : a->above_y;
    double part = a->above > a->below
                      ? (1 / a->x - 1 / a->below) / (1 / a->above - 1 / a->below) : 0;

    return a->below_y + part * (a->above_y - a->below_y);
}

static double rate_of(const struct machine_layer *p, enum machine_pass pass)
{
    return pass == MACHINE_FORWARD ? p->forward : pass == MACHINE_BACKWARD ? p->backward : p->again;
}

/* Seconds of p's tokens in its width. */
static double seconds_of(const struct machine_layer *p, enum machine_pass pass)
{
    return layer_flop[pass] * p->width * p->width * p->tokens / rate_of(p, pass);
}

static int same_line(const struct machine_layer *p, const struct machine_layer *q)
{
    return p->dt == q->dt && !(p->width < q->width) && !(p->width > q->width);
}

/* Seconds of a chunk of n tokens in the width of point p: on the line through the two lengths
 * beside n that were measured, or the two last ones before it; of one length alone by proportion.
 * */
static double chunk_seconds(const struct machine_file *m, const struct machine_layer *p, double n,
                            enum machine_pass pass)
{
    const struct machine_layer *low = NULL, *high = NULL, *next = NULL;

    for (const struct machine_layer *q = m->layer; q < m->layer + m->n_layers; q++) {
        if (!same_line(p, q))
            continue;
        if (q->tokens <= n && (!low || q->tokens > low->tokens))
            low = q;
        if (q->tokens > n && (!high || q->tokens < high->tokens))
            high = q;
    }
    // none on one side: the second on the other
    const struct machine_layer *end = low && high ? NULL : low ? low : high;
    for (const struct machine_layer *q = m->layer; end && q < m->layer + m->n_layers; q++)
        if (same_line(p, q) && (low ? q->tokens < end->tokens : q->tokens > end->tokens) &&
            (!next || fabs(q->tokens - end->tokens) < fabs(next->tokens - end->tokens)))
            next = q;
    const struct machine_layer *a = low ? low : high, *b = low && high ? high : next;
    double at = seconds_of(a, pass), one = at * n / a->tokens;
    if (!b)
        return one;
    double line = at + (seconds_of(b, pass) - at) * (n - a->tokens) / (b->tokens - a->tokens);
    return line > 0 ? line : one; // noise
}

/* Without attention, by FLOP. */
static double layer_by_flop(const struct machine_file *m, const struct machine_work *w, double n,
                            enum machine_pass pass)
{
    struct around a = { .x = w->width };

    for (const struct machine_layer *p = m->layer; p < m->layer + m->n_layers; p++)
        if (p->dt == w->dt)
            offer(&a, p->width, chunk_seconds(m, p, n, pass) / (layer_flop[pass] * p->width *
                                                                p->width * n));
    return between(&a);
}

/* All of a micro-batch: whole chunks, and what remains. */
static double layer_seconds(const struct machine_file *m, const struct machine_work *w,
                            enum machine_pass pass)
{
    double whole = floor(w->tokens / CHUNK_ROWS), rest = w->tokens - whole * CHUNK_ROWS, sum = 0;

    if (whole > 0)
        sum += whole * CHUNK_ROWS * layer_by_flop(m, w, CHUNK_ROWS, pass);
    if (rest > 0)
        sum += rest * layer_by_flop(m, w, rest, pass);
    return dense_of(w) * layer_flop[pass] * w->width * w->width * sum;
}

/* Of the head width that is nearest by its ratio, since each was measured in all lengths. */
static double attention_by_flop(const struct machine_file *m, const struct machine_work *w,
                                enum machine_pass pass)
{
    double        size = columns_of(w) / w->heads, nearest = 0;
    struct around a = { .x = w->seq };

    for (const struct machine_attention *p = m->attention; p < m->attention + m->n_attentions; p++)
        if (p->dt == w->dt &&
            (!(nearest > 0) || fabs(log(p->head / size)) < fabs(log(nearest / size))))
            nearest = p->head;
    for (const struct machine_attention *p = m->attention; p < m->attention + m->n_attentions; p++)
        if (p->dt == w->dt && !(p->head < nearest) && !(p->head > nearest))
            offer(&a, p->seq, 1 / (pass == MACHINE_BACKWARD ? p->backward : p->forward));
    return between(&a);
}

double machine_threads(const struct machine_file *m, double threads)
{
    if (!(m->threads > 0) || !(threads > 0))
        return 1;
    return m->serial + (1 - m->serial) * m->threads / threads;
}

double machine_layer(const struct machine_file *m, const struct machine_work *w,
                     enum machine_pass pass)
{
    double attention = attention_flop[pass] * columns_of(w) * w->seq * w->tokens;
    double dense = dense_of(w) * layer_flop[pass] * w->width * w->width * w->tokens;

    if (m->flops > 0)
        return (dense + attention) / m->flops;
    return (layer_seconds(m, w, pass) + attention * attention_by_flop(m, w, pass)) *
           machine_threads(m, w->threads);
}

double machine_again_mlp(const struct machine_file *m, const struct machine_work *w)
{
    double flop = dense_of(w) * layer_flop[MACHINE_AGAIN] * w->width * w->width * w->tokens;
    double all = m->flops > 0 ? flop / m->flops
                              : layer_seconds(m, w, MACHINE_AGAIN) * machine_threads(m, w->threads);

    return all * 10 / layer_flop[MACHINE_AGAIN];
}

double machine_head(const struct machine_file *m, const struct machine_work *w)
{
    double        flop = HEAD_FLOP * w->width * w->words * w->tokens;
    struct around a = { .x = w->width };

    if (m->flops > 0)
        return flop / m->flops;
    for (const struct machine_head *p = m->head; p < m->head + m->n_heads; p++)
        if (p->dt == w->dt)
            offer(&a, p->width, 1 / p->rate);
    return flop * between(&a) * machine_threads(m, w->threads);
}

int machine_has(const struct machine_file *m, enum dtype dt)
{
    int layer = 0, attention = 0, head = 0;

    for (size_t i = 0; i < m->n_layers; i++)
        layer |= m->layer[i].dt == dt;
    for (size_t i = 0; i < m->n_attentions; i++)
        attention |= m->attention[i].dt == dt;
    for (size_t i = 0; i < m->n_heads; i++)
        head |= m->head[i].dt == dt;
    return m->flops > 0 || (layer && attention && head);
}
