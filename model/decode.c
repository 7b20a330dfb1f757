/* decode.c: generation. A pass takes some tokens of every sequence through the layers, block by
 * block in the stream's order, and reads every parameter once. Sequences with one token go
 * together, as rows of one product (matvec.c: a row's bits do not depend on the others); one with
 * more goes through the products of training in chunks of its own. Either way a sequence's bits are
 * the same in any company. Nothing is allocated after open. */
#include "model/decode.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/matvec.h"
#include "kernels/reduce.h"
#include "kernels/rng.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIT = 16 }; // rows of a sequence's products are a multiple of this

/* The cache and the workspaces. B sequences, P = piece, R = rows of a pass at work together. */
struct buffers {
    void    *keys, *values; // (n_layer, B, positions, C) dt
    int32_t *ids;           // (B, P): the pass's tokens
    float   *x;             // (B, P, C): their residual stream
    void    *qkv;           // (R, 3C) dt
    void    *attn;          // (R, C) dt
    void    *ln;            // (R, C) dt
    float   *mean, *rstd;   // (R)
    float   *proj;          // (R, C)
    void    *fc, *gelu;     // (R, 4C) dt
    float   *lse;           // (n_head, P)
    float   *last; // (B, C): residual stream of single tokens, and at the end of every last one
    float   *logits;        // (B, V)
    float   *matvec;        // matvec_scratch
    void    *attention;     // attention_scratch
};

struct decode {
    struct decode_options o;
    struct stream   *stream;
    struct products *products; // of chunks of one sequence
    void            *scratch;  // of products
    size_t           scratch_bytes;
    struct buffers   buf;
    char            *arena;
    uint64_t         arena_bytes;
    size_t          *length;   // (B): tokens in the cache
    size_t          *now;      // (B): tokens of this pass
    size_t          *single;   // (B): the n_single sequences with one token, in order
    size_t           n_single;
};

/* ---- memory
 * -------------------------------------------------------------------------------------------- */

static void *take(char *base, uint64_t *used, uint64_t bytes)
{
    void *p = base ? base + *used : NULL;

    *used += round_up(bytes, 64);
    return p;
}

/* Rows of a pass of one sequence, padding included. */
static size_t decode_rows(const struct decode_options *o)
{
    return round_up(o->piece, UNIT);
}

static int threads_of(const struct decode_options *o)
{
    return o->threads ? o->threads : omp_get_max_threads();
}

static uint64_t matvec_floats(const struct decode_options *o)
{
    size_t B = o->batch, C = o->gpt.n_embd, wide = matvec_scratch(B, 4 * C, C),
           deep = matvec_scratch(B, C, 4 * C);

    return wide > deep ? wide : deep;
}

/* Lay the buffers out from base (NULL: only measure); returns the bytes. */
static uint64_t lay_buffers(struct buffers *u, char *base, const struct decode_options *o)
{
    size_t B = o->batch, C = o->gpt.n_embd, P = o->piece, e = dtype_bytes(o->dtype),
           rows = decode_rows(o);
    size_t   R = rows > B ? rows : B;
    uint64_t used = 0, cache = (uint64_t)o->gpt.n_layer * B * o->positions * C * e;

    u->keys   = take(base, &used, cache);
    u->values = take(base, &used, cache);
    u->ids    = take(base, &used, B * P * sizeof(int32_t));
    u->x      = take(base, &used, (uint64_t)B * P * C * sizeof(float));
    u->qkv    = take(base, &used, R * 3 * C * e);
    u->attn   = take(base, &used, R * C * e);
    u->ln     = take(base, &used, R * C * e);
    u->mean   = take(base, &used, R * sizeof(float));
    u->rstd   = take(base, &used, R * sizeof(float));
    u->proj   = take(base, &used, R * C * sizeof(float));
    u->fc     = take(base, &used, R * 4 * C * e);
    u->gelu   = take(base, &used, R * 4 * C * e);
    u->lse    = take(base, &used, o->gpt.n_head * P * sizeof(float));
    u->last   = take(base, &used, B * C * sizeof(float));
    u->logits = take(base, &used, (uint64_t)B * o->gpt.vocab * sizeof(float));
    u->matvec = take(base, &used, matvec_floats(o) * sizeof(float));
    u->attention =
        take(base, &used, attention_scratch(B, o->positions, C, o->gpt.n_head, threads_of(o)));
    return used;
}

uint64_t decode_bytes(const struct decode_options *o)
{
    struct buffers u;

    return lay_buffers(&u, NULL, o);
}

static int map(void **out, uint64_t bytes, const char *what, struct err *err)
{
    *out = NULL;
    if (bytes == 0)
        return 0;
    *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*out != MAP_FAILED)
        return 0;
    *out = NULL;
    return err_set(err, -errno, "%s need %llu bytes of memory: %s", what, (unsigned long long)bytes,
                   strerror(errno));
}

static int check(const struct decode_options *o, struct err *err)
{
    int rc = gpt_check(&o->gpt, err);

    if (rc)
        return rc;
    if (o->gpt.n_labels)
        return err_misuse(err, "a classifier gives labels, it does not continue a text");
    if (o->batch == 0 || o->batch > CHUNK_ROWS)
        return err_misuse(err, "1 to %d sequences can be generated at once, not %zu", CHUNK_ROWS,
                          o->batch);
    if (o->piece == 0 || o->piece > o->positions || o->positions > o->gpt.n_positions)
        return err_misuse(err,
                          "a text of %zu tokens, %zu of them at once, does not fit: "
                          "the model has %zu positions",
                          o->positions, o->piece, o->gpt.n_positions);
    return 0;
}

struct products_options decode_products(const struct decode_options *o)
{
    return (struct products_options){ .gpt = o->gpt, .dtype = o->dtype, .engine = o->engine,
                                      .threads = threads_of(o), .tokens = decode_rows(o),
                                      .no_head = 1, .unit = UNIT };
}

static int open_products(struct decode *d, struct err *err)
{
    struct products_options po = decode_products(&d->o);
    int                     rc = products_open(&d->products, &po, err);

    if (rc)
        return rc;
    d->scratch_bytes = products_scratch(d->products);
    return map(&d->scratch, d->scratch_bytes, "the matrix products", err);
}

int decode_open(struct decode **out, const struct decode_options *o, struct stream *stream,
                struct err *err)
{
    struct decode *d;
    void          *arena = NULL;
    int            rc = check(o, err);

    *out = NULL;
    if (rc)
        return rc;
    d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, -ENOMEM, "out of memory for generation");
    d->o = *o;
    d->o.threads = threads_of(o);
    d->stream = stream;
    d->length = calloc(3 * o->batch, sizeof *d->length);
    omp_set_num_threads(d->o.threads);
    rc = d->length ? open_products(d, err)
                   : err_set(err, -ENOMEM, "out of memory for %zu sequences", o->batch);
    if (!rc)
        rc = map(&arena, decode_bytes(&d->o), "keys and values", err);
    if (rc) {
        decode_close(d);
        return rc;
    }
    d->now = d->length + o->batch;
    d->single = d->now + o->batch;
    d->arena = arena;
    d->arena_bytes = lay_buffers(&d->buf, d->arena, &d->o);
    *out = d;
    return 0;
}

void decode_close(struct decode *d)
{
    if (!d)
        return;
    if (d->arena)
        munmap(d->arena, d->arena_bytes);
    if (d->scratch)
        munmap(d->scratch, d->scratch_bytes);
    products_close(d->products);
    free(d->length);
    free(d);
}

/* ---- a layer
 * ------------------------------------------------------------------------------------------- */

/* Element i of an array of the run's dtype. */
static void *at(const struct decode *d, const void *base, size_t i)
{
    return (char *)(uintptr_t)base + i * dtype_bytes(d->o.dtype);
}

static const void *param(const struct decode *d, const void *wire, enum gpt_tensor t)
{
    return at(d, wire, gpt_offset(&d->o.gpt, t));
}

/* Where position t of sequence b stands in layer `layer`'s part of a cache. */
static void *cached(const struct decode *d, const void *cache, size_t layer, size_t b, size_t t)
{
    return at(d, cache, (((layer - 1) * d->o.batch + b) * d->o.positions + t) * d->o.gpt.n_embd);
}

/* Put n positions of sequence b, from row `row` of qkv on, behind those that are in the cache. */
static void cache_put(const struct decode *d, size_t layer, size_t row, size_t n, size_t b)
{
    size_t C = d->o.gpt.n_embd, bytes = C * dtype_bytes(d->o.dtype), t = d->length[b];

    for (size_t i = 0; i < n; i++) {
        const void *key = at(d, d->buf.qkv, (row + i) * 3 * C + C);

        memcpy(cached(d, d->buf.keys, layer, b, t + i), key, bytes);
        memcpy(cached(d, d->buf.values, layer, b, t + i), at(d, key, C), bytes);
    }
}

static void norm(struct decode *d, const float *x, size_t n, const void *wire,
                 enum gpt_tensor weight)
{
    struct buffers *u = &d->buf;

    layernorm_forward(u->ln, d->o.dtype, u->mean, u->rstd, x, param(d, wire, weight),
                      param(d, wire, weight + 1), d->o.dtype, n, d->o.gpt.n_embd,
                      d->o.gpt.norm_eps);
}

/* Rows of a layer at work: a chunk of one sequence, or the single tokens of many. */
struct part {
    struct decode *d;
    const void    *wire;
    float         *x;      // (n, C)
    size_t         n;      // rows
    size_t         padded; // rows that the products run on; 0: single tokens
};

/* out (n, width) = in (n, depth) W + b, the bias standing behind its matrix. */
static void product(const struct part *p, enum product which, void *out, enum dtype out_dt,
                    const void *in, enum gpt_tensor weight)
{
    const struct decode *d = p->d;
    const void          *w = param(d, p->wire, weight), *bias = param(d, p->wire, weight + 1);

    if (p->padded)
        products_run(d->products, which, p->padded, out, in, w, bias, d->scratch);
    else
        matvec_forward(out, out_dt, in, w, bias, d->o.dtype, p->n, gpt_cols(&d->o.gpt, weight),
                       gpt_rows(&d->o.gpt, weight), d->buf.matvec);
}

/* Rows [row, row + n) of qkv = ln_1(x) Wqkv + bqkv. */
static void before_attention(const struct part *p, size_t row)
{
    struct decode *d = p->d;

    norm(d, p->x, p->n, p->wire, GPT_LN1_W);
    product(p, PRODUCT_QKV, at(d, d->buf.qkv, row * 3 * d->o.gpt.n_embd), d->o.dtype, d->buf.ln,
            GPT_QKV_W);
}

/* Rows [row, row + n) of attn: the rest of the layer, into x in place. */
static void after_attention(const struct part *p, size_t row)
{
    struct decode  *d = p->d;
    struct buffers *u = &d->buf;
    size_t          C = d->o.gpt.n_embd;

    product(p, PRODUCT_ATTN_PROJ, u->proj, DT_F32, at(d, u->attn, row * C), GPT_ATTN_PROJ_W);
    residual_add(p->x, p->x, u->proj, p->n * C);
    norm(d, p->x, p->n, p->wire, GPT_LN2_W);
    product(p, PRODUCT_FC, u->fc, d->o.dtype, u->ln, GPT_FC_W);
    gelu_forward(u->gelu, u->fc, d->o.dtype, p->n * 4 * C);
    product(p, PRODUCT_MLP_PROJ, u->proj, DT_F32, u->gelu, GPT_MLP_PROJ_W);
    residual_add(p->x, p->x, u->proj, p->n * C);
}

/* Queries of n sequences from `row` on, which stand one after the other in the cache and are of one
 * length. */
static void attend(struct decode *d, size_t layer, size_t b, size_t n, size_t row, size_t length)
{
    struct buffers *u = &d->buf;
    size_t          C = d->o.gpt.n_embd;

    attention_decode(at(d, u->attn, row * C), at(d, u->qkv, row * 3 * C), 3 * C,
                     cached(d, u->keys, layer, b, 0), cached(d, u->values, layer, b, 0), d->o.dtype,
                     n, length, d->o.positions, C, d->o.gpt.n_head, u->attention);
}

static void single_layer(struct decode *d, size_t layer, const void *wire)
{
    struct part p = { d, wire, d->buf.last, d->n_single, 0 };

    before_attention(&p, 0);
    for (size_t i = 0; i < p.n; i++)
        cache_put(d, layer, i, 1, d->single[i]);
    for (size_t i = 0, n = 1; i < p.n; i += n) {
        size_t b = d->single[i];

        for (n = 1; i + n < p.n && d->single[i + n] == b + n && d->length[b + n] == d->length[b];)
            n++;
        attend(d, layer, b, n, i, d->length[b] + 1);
    }
    after_attention(&p, 0);
}

/* The chunk of a sequence's pass that begins at row i. */
static struct part chunk(struct decode *d, size_t b, size_t i, const void *wire)
{
    size_t left = d->now[b] - i, padded = products_rows(round_up(left, UNIT), CHUNK_ROWS, UNIT);

    return (struct part){ d, wire, d->buf.x + (b * d->o.piece + i) * d->o.gpt.n_embd,
                          left < padded ? left : padded, padded };
}

static void sequence_layer(struct decode *d, size_t layer, size_t b, const void *wire)
{
    struct buffers *u = &d->buf;
    size_t          n = d->now[b];

    for (size_t i = 0; i < n;) {
        struct part p = chunk(d, b, i, wire);

        before_attention(&p, i);
        i += p.n;
    }
    cache_put(d, layer, 0, n, b);
    if (d->length[b] == 0)
        attention_forward(u->attn, u->lse, u->qkv, d->o.dtype, 1, n, d->o.gpt.n_embd,
                          d->o.gpt.n_head, NULL, u->attention);
    for (size_t i = 0; d->length[b] > 0 && i < n; i++)
        attend(d, layer, b, 1, i, d->length[b] + i + 1);
    for (size_t i = 0; i < n;) {
        struct part p = chunk(d, b, i, wire);

        after_attention(&p, i);
        i += p.n;
    }
}

/* ---- a pass
 * -------------------------------------------------------------------------------------------- */

/* Block 0: single tokens into `last`, the others into x. */
static void embed(struct decode *d, const void *wire)
{
    struct buffers *u = &d->buf;
    size_t          C = d->o.gpt.n_embd, singles = 0;

    for (size_t b = 0; b < d->o.batch; b++) {
        float *x = d->now[b] == 1 ? u->last + singles++ * C : u->x + b * d->o.piece * C;

        if (d->now[b])
            embedding_forward(x, param(d, wire, GPT_WTE), param(d, wire, GPT_WPE), d->o.dtype,
                              u->ids + b * d->o.piece, 1, d->now[b], C, d->length[b]);
    }
}

static int layers(struct decode *d, struct err *err)
{
    for (size_t block = 0; block <= d->o.gpt.n_layer; block++) {
        const void *wire;
        int         rc = stream_acquire(d->stream, block, &wire, err);

        if (rc)
            return rc;
        if (block == 0)
            embed(d, wire);
        if (block > 0 && d->n_single)
            single_layer(d, block, wire);
        for (size_t b = 0; block > 0 && b < d->o.batch; b++)
            if (d->now[b] > 1)
                sequence_layer(d, block, b, wire);
        stream_release(d->stream, block);
    }
    return 0;
}

/* The residual stream at the last token of every sequence that took part, one after the other in
 * `last`: single tokens stand there already, in order. Returns how many they are. */
static size_t gather(struct decode *d)
{
    size_t C = d->o.gpt.n_embd, n = 0, singles = d->n_single;

    for (size_t b = 0; b < d->o.batch; b++)
        n += d->now[b] > 0;
    // from the end, so that nothing is overwritten before it is moved
    for (size_t b = d->o.batch, row = n; b-- > 0;) {
        if (!d->now[b])
            continue;
        row--;
        memmove(d->buf.last + row * C,
                d->now[b] == 1 ? d->buf.last + --singles * C
                               : d->buf.x + (b * d->o.piece + d->now[b] - 1) * C,
                C * sizeof(float));
    }
    return n;
}

/* Blocks L + 1 and 0: logits of the last tokens, each in its sequence's row. */
static int head(struct decode *d, int wanted, struct err *err)
{
    const void *wire, *embed_wire;
    size_t      final = d->o.gpt.n_layer + 1, V = d->o.gpt.vocab, n = gather(d);
    int         rc = stream_acquire(d->stream, final, &wire, err);

    if (!rc)
        rc = stream_acquire(d->stream, 0, &embed_wire, err);
    if (rc)
        return rc;
    if (wanted) {
        norm(d, d->buf.last, n, wire, GPT_LNF_W);
        matvec_logits(d->buf.logits, d->buf.ln, param(d, embed_wire, GPT_WTE), d->o.dtype, n, V,
                      d->o.gpt.n_embd, d->buf.matvec);
    }
    for (size_t b = d->o.batch; wanted && b-- > 0;)
        if (d->now[b] && --n != b)
            memcpy(d->buf.logits + b * V, d->buf.logits + n * V, V * sizeof(float));
    stream_release(d->stream, final);
    stream_release(d->stream, 0);
    return 0;
}

static int pass(struct decode *d, int wanted, struct err *err)
{
    uint64_t start_ns = clock_ns();
    int      rc = stream_begin(d->stream, STREAM_EVAL, 0, err);

    d->n_single = 0;
    for (size_t b = 0; b < d->o.batch; b++)
        if (d->now[b] == 1)
            d->single[d->n_single++] = b;
    if (!rc)
        rc = layers(d, err);
    if (!rc)
        rc = head(d, wanted, err);
    if (rc)
        return rc;
    for (size_t b = 0; b < d->o.batch; b++)
        d->length[b] += d->now[b];
    meter_span(stream_meter(d->stream), 0, PHASE_EVAL, 0, -1, start_ns, clock_ns(), 0);
    return 0;
}

/* Texts longer than a piece begin so many passes earlier that all end with the last one, which
 * alone gives logits. */
int decode_feed(struct decode *d, const int32_t *const *ids, const size_t *n, const float **logits,
                struct err *err)
{
    size_t P = d->o.piece, passes = 0;
    int    rc = 0;

    for (size_t b = 0; b < d->o.batch; b++) {
        assert(n[b] <= d->o.positions - d->length[b]);
        passes = size_max(passes, div_up(n[b], P));
    }
    for (size_t left = passes; !rc && left > 0; left--) {
        for (size_t b = 0; b < d->o.batch; b++) {
            size_t own = div_up(n[b], P), from = own < left ? 0 : (own - left) * P;

            d->now[b] = own < left ? 0 : n[b] - from < P ? n[b] - from : P;
            if (d->now[b])
                memcpy(d->buf.ids + b * P, ids[b] + from, d->now[b] * sizeof *d->buf.ids);
        }
        rc = pass(d, left == 1, err);
    }
    *logits = d->buf.logits;
    return rc;
}

size_t decode_length(const struct decode *d, size_t sequence)
{
    return d->length[sequence];
}

void decode_rewind(struct decode *d, size_t sequence, size_t length)
{
    assert(length <= d->length[sequence]);
    d->length[sequence] = length;
}

/* ---- choosing a token
 * ---------------------------------------------------------------------------------- */

static void sift_down(float *heap, size_t n, size_t i)
{
    for (size_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
        float held = heap[i];

        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (held <= heap[child])
            return;
        heap[i] = heap[child];
        heap[child] = held;
    }
}

/* The k-th largest of x[0..n), by a heap of the k largest so far with the smallest on top. */
static float kth_largest(const float *x, size_t n, size_t k, float *heap)
{
    memcpy(heap, x, k * sizeof *heap);
    for (size_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i);
    for (size_t i = k; i < n; i++) {
        if (x[i] <= heap[0])
            continue;
        heap[0] = x[i];
        sift_down(heap, k, 0);
    }
    return heap[0];
}

/* Leave the smallest set of the likeliest whose weights come to `wanted` at least; the others'
 * become 0. Of equal ones those with the lower ids come first. heap: n floats. */
static double nucleus(float *weight, size_t n, double wanted, float *heap)
{
    double sum = 0;
    float  least = 0;
    size_t left = 0, equal = 0;

    for (size_t i = 0; i < n; i++)
        if (weight[i] > 0)
            heap[left++] = -weight[i]; // the smallest on top: the likeliest
    for (size_t i = left / 2; i-- > 0;)
        sift_down(heap, left, i);
    while (left > 0 && sum < wanted) {
        equal = -heap[0] < least || equal == 0 ? 1 : equal + 1;
        least = -heap[0];
        sum += (double)least;
        heap[0] = heap[--left];
        sift_down(heap, left, 0);
    }
    for (size_t i = 0; i < n; i++)
        if (weight[i] < least || (weight[i] <= least && equal == 0))
            weight[i] = 0;
        else
            equal -= weight[i] <= least;
    return sum;
}

int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch)
{
    int32_t largest = (int32_t)reduce_argmax(logits, V), last = largest;
    float   least = -INFINITY, *weight = scratch;
    double  total = 0, sum = 0, wanted;

    if (!(s->temperature > 0))
        return largest;
    if (s->top_k && s->top_k < V)
        least = kth_largest(logits, V, s->top_k, scratch);
    for (size_t i = 0; i < V; i++) {
        double above = ((double)logits[i] - (double)logits[largest]) / s->temperature;

        weight[i] = logits[i] >= least ? (float)exp(above) : 0.0f;
        total += (double)weight[i];
    }
    if (s->top_p > 0 && s->top_p < 1)
        total = nucleus(weight, V, s->top_p * total, scratch + V);
    wanted = (double)rng_uniform(s->seed, sequence, position) * total;
    for (size_t i = 0; i < V; i++) {
        if (weight[i] <= 0)
            continue;
        sum += (double)weight[i];
        last = (int32_t)i;
        if (sum > wanted)
            break;
    }
    return last;
}
