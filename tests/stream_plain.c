/* stream_plain.c: see stream_plain.h. Blocks are flat and stand one after the other; block b begins
 * at first[b]. */
#include "tests/stream_plain.h"

#include "kernels/elementwise.h"
#include "kernels/update/reduce.h"
#include "model/pass_order.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 64, MAX_PIECES = 4096 };

struct stream_plain {
    struct stream stream; // first
    struct stream_plain_options o;
    struct route  route;
    size_t        blocks, first[MAX_BLOCKS + 1];
    float        *params, *m, *v, *grads;
    void         *lent[MAX_BLOCKS];
    int           asked[MAX_BLOCKS], sent[MAX_BLOCKS]; // gradient, in this step
    size_t        n_sent;
    enum stream_pass pass;
    void         *piece, *stack[MAX_PIECES]; // lent to be filled; those that were pushed
    size_t        begin[MAX_PIECES]; // the first one of each one's record
    size_t        pushed, popped, left; // left: still to be pushed
    size_t        next;              // which is popped next
    size_t        acquired; // blocks lent so far in this pass
    struct stream_step last;
};

static struct stream_plain *plain(const struct stream *s)
{
    return (struct stream_plain *)(uintptr_t)s;
}

static int plain_begin(struct stream *s, enum stream_pass pass, uint64_t step, struct err *err)
{
    struct stream_plain *p = plain(s);

    (void)step;
    (void)err;
    // a meter holds two steps until a log takes them; there is no log here
    meter_free(p->stream.meter);
    p->stream.meter = meter_new(256, 1);
    assert(p->stream.meter);
    p->pass = pass;
    p->acquired = p->n_sent = 0;
    memset(p->asked, 0, sizeof p->asked);
    memset(p->sent, 0, sizeof p->sent);
    for (size_t b = 0; b < p->blocks; b++)
        assert(!p->lent[b]);
    return 0;
}

static int plain_acquire(struct stream *s, size_t block, const void **wire, struct err *err)
{
    struct stream_plain *p = plain(s);
    size_t n = p->first[block + 1] - p->first[block], bytes = n * dtype_bytes(p->o.wire);

    (void)err;
    assert(block == route_block(&p->route, p->pass, ROUTE_READ, p->acquired));
    assert(!p->lent[block]);
    p->acquired++;
    p->lent[block] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    convert(p->lent[block], p->o.wire, p->params + p->first[block], DT_F32, n);
    *wire = p->lent[block];
    return 0;
}

static void plain_release(struct stream *s, size_t block)
{
    struct stream_plain *p = plain(s);

    assert(p->lent[block]);
    free(p->lent[block]);
    p->lent[block] = NULL;
}

/* Fresh: NaN, so that what the model does not write is seen. */
static int plain_grad(struct stream *s, size_t block, size_t group, float **grad, int *fresh,
                      struct err *err)
{
    struct stream_plain *p = plain(s);

    (void)err, (void)group;
    assert(!p->sent[block] && group == 0);
    *grad = p->grads + p->first[block];
    *fresh = !p->asked[block];
    for (size_t i = p->first[block]; *fresh && i < p->first[block + 1]; i++)
        p->grads[i] = NAN;
    p->asked[block] = 1;
    return 0;
}

static int plain_send_grad(struct stream *s, size_t block, struct norm_sum *norm,
                           struct err *err)
{
    struct stream_plain *p = plain(s);
    size_t n = p->first[block + 1] - p->first[block];
    void  *scratch = malloc(reduce_scratch(n) + 1);
    int    nonfinite = 0;

    (void)err;
    assert(p->asked[block] && !p->sent[block]);
    assert(block == route_block(&p->route, p->pass, ROUTE_SEND, p->n_sent));
    p->n_sent++;
    p->sent[block] = 1;
    norm->sumsq += reduce_sumsq(p->grads + p->first[block], n, &nonfinite, scratch);
    if (nonfinite)
        norm_sum_flag(norm, block);
    free(scratch);
    return 0;
}

/* A piece is lent in a place of its own each time, and comes back in one that is as large as what
 * was pushed. */
static void *piece_place(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert(p);
    return p;
}

static int plain_push(struct stream *s, int first, void **piece, struct err *err)
{
    struct stream_plain *p = plain(s);

    (void)err;
    if (p->popped == p->pushed)
        p->pushed = p->popped = 0;
    assert(p->o.piece_bytes && !p->piece && p->pass == STREAM_TRAIN);
    assert(p->popped == 0 && p->pushed < MAX_PIECES && (first || p->pushed > 0));
    p->begin[p->pushed] = first ? p->pushed : p->begin[p->pushed - 1];
    *piece = p->piece = piece_place(p->o.piece_bytes);
    memset(p->piece, 0xff, p->o.piece_bytes); // NaN
    return 0;
}

static void plain_pushed(struct stream *s, size_t bytes, size_t left)
{
    struct stream_plain *p = plain(s);

    assert(p->pushed == 0 || left + 1 == p->left);
    p->left = left;
    assert(p->piece && bytes > 0 && bytes <= p->o.piece_bytes);
    p->stack[p->pushed] = piece_place(bytes);
    memcpy(p->stack[p->pushed++], p->piece, bytes);
    free(p->piece);
    p->piece = NULL;
    p->next = p->begin[p->pushed - 1];
}

static int plain_pop(struct stream *s, void **piece, struct err *err)
{
    struct stream_plain *p = plain(s);

    (void)err;
    assert(p->popped < p->pushed && p->left == 0);
    *piece = p->stack[p->next];
    return 0;
}

static void plain_popped(struct stream *s)
{
    struct stream_plain *p = plain(s);
    size_t               begin = p->begin[p->next];

    free(p->stack[p->next++]);
    p->popped++;
    if (p->next == p->pushed || p->begin[p->next] != begin)
        p->next = begin > 0 ? p->begin[begin - 1] : 0;
}

static int plain_update(struct stream *s, const struct stream_step *step, struct err *err)
{
    struct stream_plain *p = plain(s);

    (void)err;
    assert(p->n_sent == route_uses(&p->route, STREAM_TRAIN, ROUTE_SEND) &&
           p->popped == p->pushed);
    p->last = *step;
    if (step->skip)
        return 0;
    for (size_t b = 0; b < p->blocks; b++)
        for (size_t i = p->first[b], n; p->sent[b] && i < p->first[b + 1]; i += n) {
            int decays = arch_decays(&p->o.config, b, i - p->first[b], p->first[b + 1] - i,
                                    p->o.decay_all, &n);

            optim_update(p->params + i, p->m + i, p->v + i, p->grads + i, n,
                         decays ? p->o.weight_decay : 0.0f, &p->last.optim);
        }
    p->stream.applied++;
    return 0;
}

static int plain_drain(struct stream *s, struct err *err)
{
    (void)s;
    (void)err;
    return 0;
}

static void plain_close(struct stream *s)
{
    struct stream_plain *p = plain(s);

    for (size_t b = 0; b < p->blocks; b++)
        free(p->lent[b]);
    meter_free(p->stream.meter);
    free(p->params);
    free(p->m);
    free(p->v);
    free(p->grads);
    free(p);
}

static const struct stream_ops plain_ops = {
    .begin = plain_begin,
    .acquire = plain_acquire,
    .release = plain_release,
    .grad = plain_grad,
    .send_grad = plain_send_grad,
    .push = plain_push,
    .pushed = plain_pushed,
    .pop = plain_pop,
    .popped = plain_popped,
    .update = plain_update,
    .drain = plain_drain,
    .close = plain_close,
};

struct stream *stream_plain_open(const struct stream_plain_options *o)
{
    struct stream_plain *p = calloc(1, sizeof *p);
    size_t total = arch_total(&o->config);

    assert(p && arch_blocks(&o->config) <= MAX_BLOCKS);
    p->stream.ops = &plain_ops;
    p->stream.meter = meter_new(1, 1);
    assert(p->stream.meter);
    p->o = *o;
    p->route = pass_order_of(&o->config);
    p->blocks = route_blocks(&p->route);
    p->params = malloc(total * sizeof(float));
    p->m = calloc(total, sizeof(float));
    p->v = calloc(total, sizeof(float));
    p->grads = calloc(total, sizeof(float));
    assert(p->params && p->m && p->v && p->grads);
    for (size_t b = 0; b < p->blocks; b++) {
        p->first[b + 1] = p->first[b] + arch_block_size(&o->config, b);
        if (!o->params)
            arch_init_values(p->params + p->first[b], &o->config, b, 0,
                             arch_block_size(&o->config, b), 1);
    }
    if (o->params)
        memcpy(p->params, o->params, total * sizeof(float));
    return &p->stream;
}

float *stream_plain_params(struct stream *s)
{
    return plain(s)->params;
}

const float *stream_plain_grads(struct stream *s)
{
    return plain(s)->grads;
}

const struct stream_step *stream_plain_last(struct stream *s)
{
    return &plain(s)->last;
}
