/* acts.c: lays the arena out. Each part has one function that takes its buffers one after the
 * other; run without memory it gives the part's size, run with it the pointers, so that plan and
 * arena cannot disagree. */
#include "model/acts.h"

#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "model/products.h"

#include <assert.h>
#include <omp.h>

static size_t tokens(const struct model_options *o) { return o->batch * o->seq; }

/* Of N tokens; in a record or not. */
static void lay_layer(struct arena *a, struct acts_layer *l, const struct model_options *o,
                      size_t N, int record)
{
    size_t C = o->gpt.n_embd, e = dtype_bytes(o->dtype);

    l->x = record && o->offload == ACTS_OFFLOAD ? arena_take(a, N * C * sizeof(float)) : NULL;
    l->ln1_mean = arena_take(a, N * sizeof(float));
    l->ln1_rstd = arena_take(a, N * sizeof(float));
    l->qkv      = arena_take(a, N * 3 * C * e);
    l->attn     = arena_take(a, N * C * e);
    l->lse      = arena_take(a, N * o->gpt.n_head * sizeof(float));
    l->x_mid    = arena_take(a, N * C * sizeof(float));
    l->ln2_mean = arena_take(a, N * sizeof(float));
    l->ln2_rstd = arena_take(a, N * sizeof(float));
    l->fc       = arena_take(a, N * 4 * C * e);
}

static void lay_work(struct arena *a, struct acts_work *w, struct acts_layer *shared,
                     const struct model_options *o)
{
    size_t N = tokens(o), C = o->gpt.n_embd, e = dtype_bytes(o->dtype), R = size_min(N, CHUNK_ROWS);

    w->shape = arena_take(a, o->grad_accum * sizeof *w->shape);
    w->x     = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    if (o->gpt.n_labels) {
        w->last  = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
        w->label = arena_take(a, o->grad_accum * o->batch * sizeof(int32_t));
        w->value = arena_take(a, o->grad_accum * o->batch * sizeof(float));
    } else {
        w->y = arena_take(a, o->grad_accum * N * sizeof(int32_t));
    }
    w->ln   = arena_take(a, R * C * e);
    w->proj = arena_take(a, R * C * sizeof(float));
    w->gelu = arena_take(a, R * 4 * C * e);
    w->attention = arena_take(a, attention_scratch(o->seq, C, o->gpt.n_head, o->threads));
    if (o->training) {
        w->dx    = arena_take(a, o->grad_accum * N * C * sizeof(float));
        w->dy    = arena_take(a, R * C * e);
        w->dgelu = arena_take(a, R * 4 * C * sizeof(float));
        w->dfc   = arena_take(a, R * 4 * C * e);
        w->dattn = arena_take(a, N * C * e);
        w->dqkv  = arena_take(a, N * 3 * C * e);
        // a classifier's head has a row a sequence
        w->sums  = arena_take(a, colsum_scratch(size_max(R, o->batch), 4 * C));
    }
    lay_layer(a, shared, o, N, 0);
}

static void lay_head(struct arena *a, struct acts_head *h, const struct model_options *o)
{
    size_t L = o->gpt.n_labels, R = L ? o->batch : size_min(tokens(o), HEAD_ROWS),
           V = L ? L : o->gpt.vocab;
    size_t C = o->gpt.n_embd, P = L ? R : size_min(R, LOGIT_ROWS);
    int    in_place = o->training && (L || o->dtype == DT_F32); // logits turn into their gradients

    if (L)
        h->x = arena_take(a, R * C * sizeof(float));
    if (L && o->training)
        h->dx = arena_take(a, R * C * sizeof(float));
    h->ln     = arena_take(a, R * C * dtype_bytes(o->dtype));
    h->mean   = arena_take(a, R * sizeof(float));
    h->rstd   = arena_take(a, R * sizeof(float));
    h->logits = arena_take(a, (in_place ? R : P) * V * sizeof(float));
    h->losses = arena_take(a, R * sizeof(float));
    if (o->training) {
        h->dlogits = in_place ? h->logits : arena_take(a, R * V * dtype_bytes(o->dtype));
        h->dln     = arena_take(a, R * C * sizeof(float));
    }
}

/* Offloaded layers' inputs alternate between two places; of each kept layer, and of the head, one
 * stays. */
enum { ALTERNATING = 2 };

/* A block's, of all micro-batches. */
static uint64_t input_bytes(const struct model_options *o)
{
    return round_up(o->grad_accum * tokens(o) * o->gpt.n_embd * sizeof(float), ARENA_LINE);
}

/* Which of the arena's inputs is block's, 1..n_layer + 1. */
static size_t input_place(const struct model_options *o, size_t block)
{
    size_t offloaded = o->gpt.n_layer - o->kept;

    if (!o->training)
        return 0;
    if (o->offload != ACTS_OFFLOAD)
        return block - 1;
    return block <= offloaded ? block % ALTERNATING : block - offloaded - 1 + ALTERNATING;
}

/* What is asked for, without what does not go together. */
static struct model_options settled(const struct model_options *asked)
{
    struct model_options o = *asked;

    if (!o.training)
        o.kept = 0;
    if (!o.training || o.kept == o.gpt.n_layer)
        o.offload = ACTS_STAY;
    if (!o.threads)
        o.threads = omp_get_max_threads();
    return o;
}

struct acts_sizes acts_sizes(const struct model_options *asked)
{
    struct model_options settled_o = settled(asked), *o = &settled_o;
    int                  offload = o->offload == ACTS_OFFLOAD;
    size_t inputs = !o->training ? 1 : offload ? ALTERNATING + 1 : o->gpt.n_layer + 1;
    struct arena kept = { 0 }, work = { 0 }, head = { 0 }, record = { 0 };
    struct acts_layer l;
    struct acts_work  w;
    struct acts_head  h;

    lay_layer(&kept, &l, o, tokens(o), 0);
    lay_layer(&record, &l, o, tokens(o), 1);
    lay_work(&work, &w, &l, o);
    lay_head(&head, &h, o);
    return (struct acts_sizes){
        .inputs = inputs * input_bytes(o),
        .kept_per_layer =
            o->training ? o->grad_accum * kept.used + (offload ? input_bytes(o) : 0) : 0,
        .work = work.used, .head = head.used,
        .record = o->offload != ACTS_STAY ? record.used : 0,
    };
}

/* All of it. */
static void lay(struct acts *a, size_t inputs)
{
    const struct model_options *o = &a->o;

    a->inputs = arena_take(&a->arena, inputs);
    a->kept   = arena_take(&a->arena, o->kept * o->grad_accum * a->kept_micro);
    lay_work(&a->arena, &a->work, &a->shared, o);
    lay_head(&a->arena, &a->head, o);
}

int acts_open(struct acts *a, const struct model_options *o, struct err *err)
{
    struct arena kept = { 0 };

    assert(o->kept <= o->gpt.n_layer);
    *a = (struct acts){ .o = settled(o) };
    lay_layer(&kept, &a->shared, o, tokens(o), 0);
    a->kept_micro = kept.used;
    size_t inputs =
        acts_sizes(o).inputs + (a->o.offload == ACTS_OFFLOAD ? a->o.kept * input_bytes(o) : 0);
    lay(a, inputs);
    int rc = arena_map(&a->arena, "the activations", err);
    if (rc)
        return rc;
    lay(a, inputs);
    for (size_t i = 0; i < o->grad_accum; i++)
        a->work.shape[i] = (struct acts_shape){ o->batch, o->seq };
    return 0;
}

float *acts_input(const struct acts *a, size_t block, size_t micro)
{
    assert(block >= 1 && block <= a->o.gpt.n_layer + 1 && micro < a->o.grad_accum);
    return dtype_at(a->inputs + input_place(&a->o, block) * input_bytes(&a->o), DT_F32,
                    micro * tokens(&a->o) * a->o.gpt.n_embd);
}

/* Whether layer `layer` has a place of its own: one of the last `kept`. */
static int is_kept(const struct acts *a, size_t layer)
{
    return a->o.training && layer + a->o.kept > a->o.gpt.n_layer;
}

static int is_lent(const struct acts *a, size_t layer, size_t micro)
{
    return a->lent && a->lent_layer == layer && a->lent_micro == micro;
}

void acts_offload_layers(struct acts *a, size_t n)
{
    assert(a->o.offload == ACTS_AUTO && n <= a->o.gpt.n_layer - a->o.kept);
    a->offloaded = n;
}

int acts_offloads(const struct acts *a, size_t layer)
{
    size_t others = a->o.gpt.n_layer - a->o.kept;
    size_t n = a->o.offload == ACTS_OFFLOAD ? others : a->offloaded;

    return layer >= 1 && layer <= others && layer * n / others != (layer - 1) * n / others;
}

/* The record's layout, of what stands in the micro-batch. */
static struct acts_layer record_of(const struct acts *a, size_t micro, void *record, size_t *bytes)
{
    struct acts_shape shape = a->work.shape[micro];
    struct arena      in = { .base = record, .bytes = SIZE_MAX };
    struct acts_layer l;

    lay_layer(&in, &l, &a->o, shape.rows * shape.seq, 1);
    *bytes = in.used;
    return l;
}

size_t acts_lend(struct acts *a, size_t layer, size_t micro, void *record)
{
    size_t bytes = 0;

    assert(!record || acts_offloads(a, layer));
    a->lent = record;
    a->lent_layer = layer;
    a->lent_micro = micro;
    if (record)
        record_of(a, micro, record, &bytes);
    return bytes;
}

struct acts_layer acts_layer(const struct acts *a, size_t layer, size_t micro)
{
    struct acts_layer l = a->shared;
    struct arena      in = { .bytes = a->kept_micro };
    size_t            bytes;

    if (is_lent(a, layer, micro))
        return record_of(a, micro, a->lent, &bytes);
    if (!is_kept(a, layer))
        return l;
    layer += a->o.kept - a->o.gpt.n_layer - 1; // among those that are kept
    in.base = a->kept + (layer * a->o.grad_accum + micro) * a->kept_micro;
    lay_layer(&in, &l, &a->o, tokens(&a->o), 0);
    return l;
}

int acts_holds(const struct acts *a, size_t layer, size_t micro)
{
    return is_kept(a, layer) || is_lent(a, layer, micro) ||
           (a->shared_layer == layer && a->shared_micro == micro);
}

void acts_hold(struct acts *a, size_t layer, size_t micro)
{
    if (is_kept(a, layer) || is_lent(a, layer, micro))
        return;
    a->shared_layer = layer;
    a->shared_micro = micro;
}
