/* decode.c: generation. The prompt goes through the same layers as training (block.c) and leaves its keys and
 * values in the cache; each further token goes through a layer as `batch` rows, attention looking into the
 * cache. Nothing is allocated after open; a pass reads every parameter once, in the stream's order. */
#include "model/decode.h"

#include "data/clock.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/layernorm.h"
#include "kernels/rng.h"
#include "model/block.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Workspaces of B = batch rows, and the cache. */
struct rows {
    void  *keys, *values; // (n_layer, B, positions, C) dt
    float *x;             // (B, C): the residual stream
    void  *ln;            // (B, C) dt
    float *mean, *rstd;   // (B)
    void  *qkv;           // (B, 3C) dt
    void  *attn;          // (B, C) dt
    float *proj;          // (B, C)
    void  *fc, *gelu;     // (B, 4C) dt
    float *logits;        // (B, V)
    void  *attention;     // attention_scratch
};

struct decode {
    struct decode_options o;
    struct stream   *stream;
    struct model    *model;    // the prompt's pass; also the product that makes logits
    struct products *products; // the layers' on B rows
    struct rows      rows;
    char            *arena;
    uint64_t         arena_bytes;
    void            *scratch;  // of products
    size_t           scratch_bytes;
    size_t           length;   // positions in the cache
};

static struct model_options model_options(const struct decode_options *o)
{
    return (struct model_options){.gpt = o->gpt,
                                  .batch = o->batch,
                                  .seq = o->prompt,
                                  .grad_accum = 1,
                                  .dtype = o->dtype,
                                  .engine = o->engine,
                                  .threads = o->threads,
                                  .logits = o->batch};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static void *take(char *base, uint64_t *used, uint64_t bytes)
{
    void *p = base ? base + *used : NULL;

    *used += (bytes + 63) / 64 * 64;
    return p;
}

/* Lay the buffers out from base (NULL: only measure); returns the bytes. */
static uint64_t lay_rows(struct rows *r, char *base, const struct decode_options *o)
{
    size_t   B = o->batch, C = o->gpt.n_embd, e = dtype_bytes(o->dtype);
    int      threads = o->threads ? o->threads : omp_get_max_threads();
    uint64_t used = 0, cache = (uint64_t)o->gpt.n_layer * B * o->positions * C * e;

    r->keys   = take(base, &used, cache);
    r->values = take(base, &used, cache);
    r->x      = take(base, &used, B * C * sizeof(float));
    r->ln     = take(base, &used, B * C * e);
    r->mean   = take(base, &used, B * sizeof(float));
    r->rstd   = take(base, &used, B * sizeof(float));
    r->qkv    = take(base, &used, B * 3 * C * e);
    r->attn   = take(base, &used, B * C * e);
    r->proj   = take(base, &used, B * C * sizeof(float));
    r->fc     = take(base, &used, B * 4 * C * e);
    r->gelu   = take(base, &used, B * 4 * C * e);
    r->logits = take(base, &used, B * o->gpt.vocab * sizeof(float));
    r->attention = take(base, &used, attention_scratch(B, o->positions, C, o->gpt.n_head, threads));
    return used;
}

uint64_t decode_bytes(const struct decode_options *o)
{
    struct model_options mo = model_options(o);
    struct acts_options  ao = model_acts(&mo);
    struct acts_sizes    s = acts_sizes(&ao);
    struct rows          r;

    return lay_rows(&r, NULL, o) + s.inputs + s.work + s.head;
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
    if (o->batch == 0 || o->batch > CHUNK_ROWS)
        return err_misuse(err, "1 to %d sequences can be generated at once, not %zu", CHUNK_ROWS, o->batch);
    if (o->prompt == 0)
        return err_misuse(err, "a prompt must have at least one token");
    if (o->positions < o->prompt || o->positions > o->gpt.n_positions)
        return err_misuse(err,
                          "a prompt of %zu tokens and its continuation, %zu together, do not fit: the model "
                          "has %zu positions",
                          o->prompt, o->positions, o->gpt.n_positions);
    return 0;
}

int decode_open(struct decode **out, const struct decode_options *o, struct stream *stream, struct err *err)
{
    struct model_options    mo = model_options(o);
    struct products_options po = {
        .gpt = o->gpt, .dtype = o->dtype, .engine = o->engine, .tokens = o->batch, .no_head_chunks = 1};
    struct decode *d;
    int            rc = check(o, err);

    *out = NULL;
    if (rc)
        return rc;
    d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, -ENOMEM, "out of memory for generation");
    d->o = *o;
    d->stream = stream;
    rc = model_open(&d->model, &mo, err);
    if (!rc) {
        po.threads = d->o.threads = d->model->o.threads;
        rc = products_open(&d->products, &po, err);
    }
    if (!rc) {
        d->scratch_bytes = matmul_scratch(products_matmul(d->products));
        rc = map(&d->scratch, d->scratch_bytes, "the matrix products", err);
    }
    if (!rc) {
        d->arena_bytes = lay_rows(&d->rows, NULL, &d->o);
        rc = map((void **)&d->arena, d->arena_bytes, "keys and values", err);
    }
    if (rc) {
        decode_close(d);
        return rc;
    }
    lay_rows(&d->rows, d->arena, &d->o);
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
    model_close(d->model);
    free(d);
}

/* ---- a layer ------------------------------------------------------------------------------------------- */

/* Where position t of sequence b stands in layer `layer`'s part of a cache. */
static void *cached(const struct decode *d, const void *cache, size_t layer, size_t b, size_t t)
{
    return model_at(d->model, cache, (((layer - 1) * d->o.batch + b) * d->o.positions + t) * d->o.gpt.n_embd);
}

/* Put n positions of sequence b, from row `row` of qkv (., 3C) on, into the cache at position t. */
static void cache_put(const struct decode *d, size_t layer, const void *qkv, size_t row, size_t n, size_t b,
                      size_t t)
{
    size_t C = d->o.gpt.n_embd, bytes = C * dtype_bytes(d->o.dtype);

    for (size_t i = 0; i < n; i++) {
        memcpy(cached(d, d->rows.keys, layer, b, t + i), model_at(d->model, qkv, (row + i) * 3 * C + C),
               bytes);
        memcpy(cached(d, d->rows.values, layer, b, t + i), model_at(d->model, qkv, (row + i) * 3 * C + 2 * C),
               bytes);
    }
}

static void prompt_layer(struct decode *d, size_t layer, const void *wire)
{
    block_forward(d->model, layer, 0, wire);
    for (size_t b = 0; b < d->o.batch; b++)
        cache_put(d, layer, acts_layer(d->model->acts, layer, 0).qkv, b * d->o.prompt, d->o.prompt, b, 0);
}

static void norm(struct decode *d, const void *wire, enum gpt_tensor weight, enum gpt_tensor bias)
{
    struct rows *r = &d->rows;

    layernorm_forward(r->ln, d->o.dtype, r->mean, r->rstd, r->x, model_wire(d->model, wire, weight),
                      model_wire(d->model, wire, bias), d->o.dtype, d->o.batch, d->o.gpt.n_embd,
                      d->o.gpt.norm_eps);
}

/* out = in W + b */
static void product(struct decode *d, enum product which, void *out, const void *in, const void *wire,
                    enum gpt_tensor weight, enum gpt_tensor bias)
{
    products_run(d->products, which, d->o.batch, out, in, model_wire(d->model, wire, weight),
                 model_wire(d->model, wire, bias), d->scratch);
}

static void next_layer(struct decode *d, size_t layer, const void *wire)
{
    struct rows *r = &d->rows;
    size_t       B = d->o.batch, C = d->o.gpt.n_embd;

    norm(d, wire, GPT_LN1_W, GPT_LN1_B);
    product(d, PRODUCT_QKV, r->qkv, r->ln, wire, GPT_QKV_W, GPT_QKV_B);
    for (size_t b = 0; b < B; b++)
        cache_put(d, layer, r->qkv, b, 1, b, d->length);
    attention_decode(r->attn, r->qkv, 3 * C, cached(d, r->keys, layer, 0, 0),
                     cached(d, r->values, layer, 0, 0), d->o.dtype, B, d->length + 1, d->o.positions, C,
                     d->o.gpt.n_head, r->attention);
    product(d, PRODUCT_ATTN_PROJ, r->proj, r->attn, wire, GPT_ATTN_PROJ_W, GPT_ATTN_PROJ_B);
    residual_add(r->x, r->x, r->proj, B * C);

    norm(d, wire, GPT_LN2_W, GPT_LN2_B);
    product(d, PRODUCT_FC, r->fc, r->ln, wire, GPT_FC_W, GPT_FC_B);
    gelu_forward(r->gelu, r->fc, d->o.dtype, B * 4 * C);
    product(d, PRODUCT_MLP_PROJ, r->proj, r->gelu, wire, GPT_MLP_PROJ_W, GPT_MLP_PROJ_B);
    residual_add(r->x, r->x, r->proj, B * C);
}

/* ---- a pass -------------------------------------------------------------------------------------------- */

/* Blocks L + 1 and 0: logits of the rows in x. */
static int head(struct decode *d, struct err *err)
{
    const void *wire, *embed_wire;
    size_t      final = d->o.gpt.n_layer + 1;
    int         rc = stream_acquire(d->stream, final, &wire, err);

    if (!rc)
        rc = stream_acquire(d->stream, 0, &embed_wire, err);
    if (rc)
        return rc;
    norm(d, wire, GPT_LNF_W, GPT_LNF_B);
    model_product(d->model, PRODUCT_LOGITS, d->o.batch, d->rows.logits, d->rows.ln,
                  model_wire(d->model, embed_wire, GPT_WTE), NULL);
    stream_release(d->stream, final);
    stream_release(d->stream, 0);
    return 0;
}

/* Block 0: the residual stream of the prompt (ids NULL: those in the model's tokens), or of one more token
 * each. */
static void embed(struct decode *d, const int32_t *ids, const void *wire)
{
    if (!ids)
        embed_forward(d->model, 0, wire);
    else
        embedding_forward(d->rows.x, model_wire(d->model, wire, GPT_WTE), model_wire(d->model, wire, GPT_WPE),
                          d->o.dtype, ids, d->o.batch, 1, d->o.gpt.n_embd, d->length);
}

/* Blocks 0, 1..L of the prompt (ids NULL) or of one token each. */
static int layers(struct decode *d, const int32_t *ids, struct err *err)
{
    for (size_t b = 0; b <= d->o.gpt.n_layer; b++) {
        const void *wire;
        int         rc = stream_acquire(d->stream, b, &wire, err);

        if (rc)
            return rc;
        if (b == 0)
            embed(d, ids, wire);
        else if (ids)
            next_layer(d, b, wire);
        else
            prompt_layer(d, b, wire);
        stream_release(d->stream, b);
    }
    return 0;
}

/* The residual stream at the prompt's last position of each sequence. */
static void last_rows(struct decode *d)
{
    size_t C = d->o.gpt.n_embd, T = d->o.prompt;

    for (size_t b = 0; b < d->o.batch; b++)
        memcpy(d->rows.x + b * C, acts_input(d->model->acts, d->o.gpt.n_layer + 1, 0) + (b * T + T - 1) * C,
               C * sizeof(float));
}

static int pass(struct decode *d, const int32_t *ids, const float **logits, struct err *err)
{
    uint64_t start_ns = clock_ns();
    int      rc = stream_begin(d->stream, STREAM_EVAL, 0, err);

    if (!rc)
        rc = layers(d, ids, err);
    if (rc)
        return rc;
    if (!ids)
        last_rows(d);
    rc = head(d, err);
    if (rc)
        return rc;
    d->length = ids ? d->length + 1 : d->o.prompt;
    *logits = d->rows.logits;
    meter_span(stream_meter(d->stream), 0, PHASE_EVAL, 0, -1, start_ns, clock_ns(), 0);
    return 0;
}

int decode_prompt(struct decode *d, const int32_t *ids, const float **logits, struct err *err)
{
    memcpy(acts_work(d->model->acts)->x, ids, d->o.batch * d->o.prompt * sizeof *ids);
    return pass(d, NULL, logits, err);
}

int decode_next(struct decode *d, const int32_t *ids, const float **logits, struct err *err)
{
    assert(d->length >= d->o.prompt && d->length < d->o.positions);
    return pass(d, ids, logits, err);
}

/* ---- choosing a token ---------------------------------------------------------------------------------- */

static int32_t greedy(const float *logits, size_t V)
{
    size_t best = 0;

    for (size_t i = 1; i < V; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

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

int32_t sampling_pick(const struct sampling *s, const float *logits, size_t V, uint64_t sequence,
                      uint64_t position, float *scratch)
{
    int32_t largest = greedy(logits, V), last = largest;
    float   least = -INFINITY;
    double  total = 0, sum = 0, wanted;

    if (!(s->temperature > 0))
        return largest;
    if (s->top_k && s->top_k < V)
        least = kth_largest(logits, V, s->top_k, scratch);
    for (size_t i = 0; i < V; i++) {
        double above = ((double)logits[i] - (double)logits[largest]) / s->temperature;

        scratch[i] = logits[i] >= least ? (float)exp(above) : 0.0f;
        total += (double)scratch[i];
    }
    wanted = (double)rng_uniform(s->seed, sequence, position) * total;
    for (size_t i = 0; i < V; i++) {
        if (scratch[i] <= 0)
            continue;
        sum += (double)scratch[i];
        last = (int32_t)i;
        if (sum > wanted)
            break;
    }
    return last;
}
