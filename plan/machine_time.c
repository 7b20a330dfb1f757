/* machine_time.c: interpolates between measurements of a machine's computing. */
#include "plan/machine_time.h"

#include "model/layer/products.h"

#include <assert.h>
#include <math.h>

/* FLOP per token of attention, per column and key that it sees. */
static const double attention_flop[] = { 4, 10, 4 };

enum machine_kind machine_kind_of(const struct arch *arch)
{
    enum machine_kind kind = machine_kind_named(arch->passes);

    assert(kind < MACHINE_KINDS);
    return kind;
}

struct machine_work machine_work_of(const struct model_config *g, enum dtype dt, size_t seq)
{
    double seen = 0, matrices = (double)arch_products(g), in = 0, out = 0;

    for (size_t layer = 1; layer <= g->n_layer; layer++)
        seen += arch_seen(g, layer, seq);
    for (size_t t = 0; t < g->arch->n_params; t++)
        if (arch_size(g, arch_a(t))) {
            in += (double)arch_cols(g, arch_a(t));
            out += (double)arch_rows(g, arch_b(t));
        }
    return (struct machine_work){
        .dt = dt, .kind = machine_kind_of(g->arch), .width = (double)g->n_embd,
        .seq = (double)seq, .head = (double)arch_dim(g, DIM_HEADS) / (double)g->n_head,
        .columns = (double)arch_dim(g, DIM_HEADS), .seen = seen / (double)g->n_layer,
        .matrices = matrices, .trained = g->lora.rank ? 0 : matrices,
        .adapters = g->lora.rank ? (double)arch_block_size(g, arch_adapter_block(g, 1)) : 0,
        .adapters_in = in, .adapters_out = out,
        .head_products = !arch_classifies(g) && arch_trains(g, arch_head_block(g)) ? 3 : 2,
        .attn_again = (double)arch_again(g, ACTS_ATTN),
        .mlp_again = (double)arch_again(g, ACTS_MLP) };
}

double machine_dense_flop(const struct machine_work *w, enum machine_pass pass)
{
    switch (pass) {
    case MACHINE_FORWARD: return 2 * (w->matrices + w->adapters) * w->tokens;
    case MACHINE_BACKWARD: return 2 * (w->matrices + w->trained + 2 * w->adapters) * w->tokens;
    case MACHINE_AGAIN: return 2 * (w->attn_again + w->mlp_again) * w->tokens;
    }
    return 0;
}

double machine_attention_flop(const struct machine_work *w, enum machine_pass pass)
{
    return attention_flop[pass] * w->columns * w->seen * w->tokens;
}

/* Bytes that adapters move in addition: a rank is so small that their products take the time of
 * their operands. Forward reads inputs, writes sums in fp32 and adds them to outputs; backward does
 * so with both exchanged, and reads both once more for the gradients. */
static double adapter_bytes(const struct machine_work *w, enum machine_pass pass)
{
    double e = (double)dtype_bytes(w->dt), added = 8 + 2 * e;

    switch (pass) {
    case MACHINE_FORWARD:  return (e * w->adapters_in + added * w->adapters_out) * w->tokens;
    case MACHINE_BACKWARD: return ((e + added) * w->adapters_in + 2 * e * w->adapters_out) *
                                  w->tokens;
    case MACHINE_AGAIN:    break;
    }
    return 0;
}

/* The nearest points below and above x, of those offered. */
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

/* The value on the line in 1/x between both points. Beyond the ends, it is that of the end. */
static double between(const struct around *a)
{
    if (!a->has_below || !a->has_above)
        return a->has_below ? a->below_y : a->above_y;
    double part = a->above > a->below
                      ? (1 / a->x - 1 / a->below) / (1 / a->above - 1 / a->below) : 0;

    return a->below_y + part * (a->above_y - a->below_y);
}

/* Seconds for p's tokens in its width, divided by the FLOP of a token. */
static double seconds_of(const struct machine_layer *p, enum machine_pass pass)
{
    return p->tokens / p->rate[pass];
}

static int same_line(const struct machine_layer *p, const struct machine_layer *q)
{
    return p->dt == q->dt && p->kind == q->kind && p->width == q->width;
}

/* Seconds of a chunk of n tokens in the width of point p, divided by the FLOP of a token. The line
 * goes through the measured lengths on both sides of n, or if n is beyond these, through the last
 * two. With one length, time is proportional. */
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
    // if one side has none, the second on the other side
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

/* The same without attention, between widths. */
static double layer_by_flop(const struct machine_file *m, const struct machine_work *w, double n,
                            enum machine_pass pass)
{
    struct around a = { .x = w->width };

    for (const struct machine_layer *p = m->layer; p < m->layer + m->n_layers; p++)
        if (p->dt == w->dt && p->kind == w->kind)
            offer(&a, p->width, chunk_seconds(m, p, n, pass) / n);
    return between(&a);
}

static double layer_seconds(const struct machine_file *m, const struct machine_work *w,
                            enum machine_pass pass)
{
    double whole = floor(w->tokens / CHUNK_ROWS), rest = w->tokens - whole * CHUNK_ROWS, sum = 0;
    double one = machine_dense_flop(w, pass) / w->tokens;

    if (whole > 0)
        sum += whole * CHUNK_ROWS * layer_by_flop(m, w, CHUNK_ROWS, pass);
    if (rest > 0)
        sum += rest * layer_by_flop(m, w, rest, pass);
    return one * sum;
}

/* Seconds of attention per FLOP, of the nearest head width (each was measured in all lengths). */
static double attention_by_flop(const struct machine_file *m, const struct machine_work *w,
                                enum machine_pass pass)
{
    double        nearest = 0;
    struct around a = { .x = w->seq };

    for (const struct machine_attention *p = m->attention; p < m->attention + m->n_attentions; p++)
        if (p->dt == w->dt && p->kind == w->kind &&
            (!(nearest > 0) || fabs(log(p->head / w->head)) < fabs(log(nearest / w->head))))
            nearest = p->head;
    for (const struct machine_attention *p = m->attention; p < m->attention + m->n_attentions; p++)
        if (p->dt == w->dt && p->kind == w->kind && p->head == nearest)
            offer(&a, p->seq, 1 / p->rate[pass == MACHINE_AGAIN ? MACHINE_FORWARD : pass]);
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
    double attention = machine_attention_flop(w, pass), dense = machine_dense_flop(w, pass);

    if (m->flops > 0)
        return (dense + attention) / m->flops;
    double moved = m->memory > 0 && !m->adapted ? adapter_bytes(w, pass) / m->memory : 0;

    return moved + (layer_seconds(m, w, pass) + attention * attention_by_flop(m, w, pass)) *
                       machine_threads(m, w->threads);
}

double machine_again_mlp(const struct machine_file *m, const struct machine_work *w)
{
    double flop = machine_dense_flop(w, MACHINE_AGAIN);
    double all = m->flops > 0 ? flop / m->flops
                              : layer_seconds(m, w, MACHINE_AGAIN) * machine_threads(m, w->threads);

    return all * w->mlp_again / (w->attn_again + w->mlp_again);
}

double machine_head(const struct machine_file *m, const struct machine_work *w)
{
    double        flop = 2 * w->head_products * w->width * w->words * w->tokens;
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
    int head = 0, any = 0;

    for (size_t i = 0; i < m->n_heads; i++)
        head |= m->head[i].dt == dt;
    for (enum machine_kind kind = 0; kind < MACHINE_KINDS; kind++)
        any |= machine_has_kind(m, dt, kind);
    return m->flops > 0 || (head && any);
}

int machine_has_kind(const struct machine_file *m, enum dtype dt, enum machine_kind kind)
{
    int layer = 0, attention = 0;

    for (size_t i = 0; i < m->n_layers; i++)
        layer |= m->layer[i].dt == dt && m->layer[i].kind == kind;
    for (size_t i = 0; i < m->n_attentions; i++)
        attention |= m->attention[i].dt == dt && m->attention[i].kind == kind;
    return m->flops > 0 || (layer && attention);
}
