/* decode.c: runs the forward passes of generation. A pass takes some tokens of every sequence
 * through the layers, block by block in the stream's order, and reads every parameter once.
 * Sequences with one token go together, as rows of one product (matvec.c: a row's bits do not
 * depend on the others). A sequence with more tokens goes through the products of training, in
 * chunks of its own. Either way, other sequences do not change its bits. Nothing is allocated after
 * open. */
#include "model/decode.h"

#include "data/base/clock.h"
#include "data/base/round.h"
#include "kernels/attention/attention.h"
#include "kernels/product/matvec.h"
#include "model/layer/layer.h"
#include "model/layer/norm.h"

#include <assert.h>
#include <omp.h>

enum { UNIT = 16 }; // rows of a sequence's products are a multiple of this

/* The cache and the workspaces. B: sequences. P: o.prefill. R: rows of a pass computed together. K:
 * columns of keys. */
struct buffers {
    void    *keys, *values; // (n_layer, B, positions, K) dt
    int32_t *ids;           // (B, P): the pass's tokens
    float   *x;             // (B, P, C): their residual stream
    struct acts_set attn;   // R rows
    struct acts_set mlp;    // one chunk of them
    struct acts_work work;  // ln, proj, act, attention, matvec
    float   *mean, *rstd;   // (B): the final norm's
    float   *last;          // (B, C): residual stream of single tokens; at the end, of every last
                            // token
    float   *logits;        // (B, V)
    float   *piece;         // (B, words of a piece), if the head is in pieces
    size_t  *length;        // (B): tokens in the cache
    size_t  *now;           // (B): tokens of this pass
    size_t  *single;        // (B): the n_single sequences with one token, in order
    int32_t *at;            // (B): positions of these tokens
};

struct decode {
    struct decode_options o;
    struct stream *stream;
    struct model   model; // for chunks of one sequence
    struct arena   arena;
    struct buffers buf;
    size_t         n_single;
};

/* ---- memory ---- */

static size_t decode_rows(const struct decode_options *o) { return round_up(o->prefill, UNIT); }

static void lay_buffers(struct arena *a, struct buffers *u, const struct decode_options *o,
                        int threads)
{
    const struct model_config *g = &o->config;
    struct model_options       model = decode_model(o);
    size_t B = o->batch, C = g->n_embd, P = o->prefill, e = dtype_bytes(o->dtype),
           R = size_max(decode_rows(o), B), chunk = size_min(R, CHUNK_ROWS),
           cache = g->n_layer * B * o->positions * arch_dim(g, DIM_KEYS) * e;

    u->keys   = arena_take(a, cache);
    u->values = arena_take(a, cache);
    u->ids    = arena_take(a, B * P * sizeof(int32_t));
    u->x      = arena_take(a, B * P * C * sizeof(float));
    acts_lay(a, &u->attn, &model, ACTS_ATTN, R);
    acts_lay(a, &u->mlp, &model, ACTS_MLP, chunk);
    u->work.ln   = arena_take(a, chunk * C * e);
    u->work.proj = arena_take(a, chunk * C * sizeof(float));
    u->work.act  = arena_take(a, chunk * arch_dim(g, DIM_INNER) * e);
    u->mean   = arena_take(a, B * sizeof(float));
    u->rstd   = arena_take(a, B * sizeof(float));
    u->last   = arena_take(a, B * C * sizeof(float));
    u->logits = arena_take(a, B * g->vocab * sizeof(float));
    u->piece  = arch_pieces(g) > 1 ? arena_take(a, B * arch_words(g, 0).n * sizeof(float)) : NULL;
    u->work.matvec    = arena_take(a, size_max(B * arch_widest(g), acts_adapter_matvec(g, B)) *
                                          sizeof(float));
    acts_lay_adapter(a, &u->work, &model, chunk);
    u->work.attention = arena_take(a, attention_scratch_forward(o->positions,
                                                                arch_dim(g, DIM_HEADS),
                                                                g->n_head, threads));
    u->length = arena_take(a, B * sizeof(size_t));
    u->now    = arena_take(a, B * sizeof(size_t));
    u->single = arena_take(a, B * sizeof(size_t));
    u->at     = arena_take(a, B * sizeof(int32_t));
    acts_lay_rope(a, &u->work, g, o->positions);
}

uint64_t decode_bytes(const struct decode_options *o)
{
    struct arena   a = { 0 };
    struct buffers u;

    lay_buffers(&a, &u, o, o->threads ? o->threads : omp_get_max_threads());
    return a.used;
}

static int check(const struct decode_options *o, struct err *err)
{
    int rc = arch_check(&o->config, err);

    if (rc)
        return rc;
    if (arch_classifies(&o->config))
        return err_misuse(err, "a classifier gives labels, it does not continue a text");
    if (o->config.arch->encoder)
        return err_misuse(err, "a %s sees whole texts, it does not continue one",
                          o->config.arch->title);
    if (o->batch == 0 || o->batch > CHUNK_ROWS)
        return err_misuse(err, "1 to %d sequences can be generated at once, not %zu", CHUNK_ROWS,
                          o->batch);
    if (o->prefill == 0 || o->prefill > o->positions || o->positions > o->config.n_positions)
        return err_misuse(err,
                          "a text of %zu tokens, %zu of them at once, does not fit: "
                          "the model has %zu positions",
                          o->positions, o->prefill, o->config.n_positions);
    return 0;
}

struct model_options decode_model(const struct decode_options *o)
{
    return (struct model_options){ .config = o->config, .batch = 1, .seq = decode_rows(o),
                                   .varying = 1, .dtype = o->dtype, .engine = o->engine,
                                   .threads = o->threads, .generates = 1 };
}

int decode_open(struct decode **out, const struct decode_options *o, struct stream *stream,
                struct err *err)
{
    struct model_options model = decode_model(o);
    int                  rc = check(o, err);

    *out = NULL;
    if (rc)
        return rc;
    struct decode *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, -ENOMEM, "out of memory for generation");
    d->o = *o;
    d->stream = stream;
    rc = model_open(&d->model, &model, err);
    lay_buffers(&d->arena, &d->buf, o, d->model.o.threads);
    rc = rc ? rc : arena_map(&d->arena, "keys and values", err);
    if (rc) {
        decode_close(d);
        return rc;
    }
    lay_buffers(&d->arena, &d->buf, o, d->model.o.threads);
    acts_fill_rope(&d->buf.work, &o->config, o->positions);
    *out = d;
    return 0;
}

void decode_close(struct decode *d)
{
    if (!d)
        return;
    arena_free(&d->arena);
    model_close(&d->model);
    free(d);
}

/* ---- a layer ---- */

/* The parameters of a layer, or of embeddings; and of a layer's adapter, if the model has them. */
struct wires { const void *layer, *adapter; };

/* Where position t of sequence b begins in layer `layer`'s part of a cache. */
static void *cached(const struct decode *d, const void *cache, size_t layer, size_t b, size_t t)
{
    return model_at(&d->model, cache, (((layer - 1) * d->o.batch + b) * d->o.positions + t) *
                                          arch_dim(&d->o.config, DIM_KEYS));
}

/* Row `row` of queries, keys and values, and of attention's output. */
static void *qkv_at(const struct decode *d, size_t row)
{
    return model_at(&d->model, d->buf.attn.at[ATTN_QKV], row * arch_dim(&d->o.config, DIM_QKV));
}

static void *attn_at(const struct decode *d, size_t row)
{
    return model_at(&d->model, d->buf.attn.at[ATTN_OUT], row * arch_dim(&d->o.config, DIM_HEADS));
}

/* Appends the keys and values of n positions of sequence b to the cache. They begin at row `row` of
 * qkv. */
static void cache_put(const struct decode *d, size_t layer, size_t row, size_t n, size_t b)
{
    size_t K = arch_dim(&d->o.config, DIM_KEYS), queries = arch_dim(&d->o.config, DIM_HEADS),
           bytes = K * dtype_bytes(d->o.dtype), t = d->buf.length[b];

    for (size_t i = 0; i < n; i++) {
        const void *key = model_at(&d->model, qkv_at(d, row + i), queries);

        memcpy(cached(d, d->buf.keys, layer, b, t + i), key, bytes);
        memcpy(cached(d, d->buf.values, layer, b, t + i), model_at(&d->model, key, K), bytes);
    }
}

/* Attention of the queries of n sequences, from row `row` on. The sequences stand next to each
 * other in the cache and have the same length. */
static void attend(struct decode *d, size_t layer, size_t b, size_t n, size_t row, size_t length)
{
    struct buffers *u = &d->buf;

    attention_decode(attn_at(d, row), &(struct attention_cached){
        .B = n, .T = length, .max_T = d->o.positions, .C = arch_dim(&d->o.config, DIM_HEADS),
        .H = d->o.config.n_head, .KV = d->o.config.n_kv_head,
        .window = arch_window(&d->o.config, layer), .dt = d->o.dtype, .qkv = qkv_at(d, row),
        .k = cached(d, u->keys, layer, b, 0), .v = cached(d, u->values, layer, b, 0),
        .scratch = u->work.attention });
}

static struct layer rows_at(struct decode *d, size_t layer, const struct wires *wires, float *x,
                            size_t row, size_t n)
{
    struct layer l = { .m = &d->model, .wire = wires->layer, .adapter.wire = wires->adapter,
                       .n = n, .first = row, .x = x, .x_out = x,
                       .local = arch_is_local(&d->o.config, layer),
                       .attn = d->buf.attn, .mlp = d->buf.mlp, .w = &d->buf.work };

    for (size_t i = 0; i < ARCH_ARRAYS && l.attn.at[i]; i++)
        l.attn.at[i] = (char *)l.attn.at[i] + row * acts_row_bytes(&d->model.o, ACTS_ATTN, i);
    return l;
}

static void after_attention(const struct arch *arch, const struct layer *l)
{
    arch->mid(l);
    layer_fc(l);
    arch->out(l);
}

static void single_layer(struct decode *d, size_t layer, const struct wires *wires)
{
    const struct arch *arch = d->o.config.arch;
    struct layer       l = rows_at(d, layer, wires, d->buf.last, 0, d->n_single);

    l.at = d->buf.at;
    arch->qkv(&l);
    for (size_t i = 0; i < l.n; i++)
        cache_put(d, layer, i, 1, d->buf.single[i]);
    for (size_t i = 0, n; i < l.n; i += n) { // neighbours of equal length go together
        size_t b = d->buf.single[i], length = d->buf.length[b];

        for (n = 1; i + n < l.n && d->buf.single[i + n] == b + n && d->buf.length[b + n] == length;)
            n++;
        attend(d, layer, b, n, i, length + 1);
    }
    after_attention(arch, &l);
}

static struct layer chunk(struct decode *d, size_t layer, size_t b, size_t i,
                          const struct wires *wires)
{
    size_t left = d->buf.now[b] - i, padded = products_rows(round_up(left, UNIT), CHUNK_ROWS, UNIT);
    float       *x = d->buf.x + (b * d->o.prefill + i) * d->o.config.n_embd;
    struct layer l = rows_at(d, layer, wires, x, i, size_min(left, padded));

    l.padded = padded;
    l.from = d->buf.length[b];
    l.T = d->o.positions - l.from;
    return l;
}

static void sequence_layer(struct decode *d, size_t layer, size_t b, const struct wires *wires)
{
    const struct arch *arch = d->o.config.arch;
    struct buffers    *u = &d->buf;
    struct layer       l;
    size_t             n = d->buf.now[b], window = arch_window(&d->o.config, layer);

    for (size_t i = 0; i < n; i += l.n) {
        l = chunk(d, layer, b, i, wires);
        arch->qkv(&l);
    }
    cache_put(d, layer, 0, n, b);
    if (d->buf.length[b] == 0)
        attention_forward(&(struct attention){
            .B = 1, .T = n, .C = arch_dim(&d->o.config, DIM_HEADS), .H = d->o.config.n_head,
            .KV = d->o.config.n_kv_head, .window = window,
            .kind = window ? ATTENTION_WINDOW : ATTENTION_CAUSAL,
            .dt = d->o.dtype, .qkv = qkv_at(d, 0), .out = attn_at(d, 0),
            .lse = u->attn.at[ATTN_LSE], .scratch = u->work.attention });
    for (size_t i = 0; d->buf.length[b] > 0 && i < n; i++)
        attend(d, layer, b, 1, i, d->buf.length[b] + i + 1);
    for (size_t i = 0; i < n; i += l.n) {
        l = chunk(d, layer, b, i, wires);
        after_attention(arch, &l);
    }
}

/* ---- a pass ---- */

/* The embeddings, or one piece of them: single tokens go to `last`, others to x. */
static void embed(struct decode *d, size_t block, const void *wire)
{
    struct buffers *u = &d->buf;
    size_t          C = d->o.config.n_embd, singles = 0;

    for (size_t b = 0; b < d->o.batch; b++) {
        float *x = d->buf.now[b] == 1 ? u->last + singles++ * C : u->x + b * d->o.prefill * C;

        if (!d->buf.now[b])
            continue;
        d->o.config.arch->embed_rows(x, &(struct embed){
            .m = &d->model, .block = block, .wire = wire, .tokens = u->ids + b * d->o.prefill,
            .B = 1, .T = d->buf.now[b], .at = d->buf.length[b] });
        if (block + 1 == arch_pieces(&d->o.config))
            layer_embed_scale(&d->o.config, x, d->buf.now[b]);
    }
}

static int layers(struct decode *d, struct err *err)
{
    const struct model_config *g = &d->o.config;

    for (size_t block = 0; block < arch_pieces(g) + g->n_layer; block++) {
        size_t       layer = arch_layer(g, block),
               adapter = layer && g->lora.rank ? arch_adapter_block(g, layer) : 0;
        struct wires w = { NULL, NULL };
        int          rc = stream_acquire(d->stream, block, &w.layer, err);

        rc = rc || !adapter ? rc : stream_acquire(d->stream, adapter, &w.adapter, err);
        if (rc)
            return rc;
        if (layer == 0)
            embed(d, block, w.layer);
        if (layer > 0 && d->n_single)
            single_layer(d, layer, &w);
        for (size_t b = 0; layer > 0 && b < d->o.batch; b++)
            if (d->buf.now[b] > 1)
                sequence_layer(d, layer, b, &w);
        stream_release(d->stream, block);
        if (adapter)
            stream_release(d->stream, adapter);
    }
    return 0;
}

/* Gathers in `last` the residual stream at the last token of every sequence of this pass, in order.
 * Single tokens are there already. Returns the number of rows. */
static size_t gather(struct decode *d)
{
    size_t C = d->o.config.n_embd, n = 0, singles = d->n_single;

    for (size_t b = 0; b < d->o.batch; b++)
        n += d->buf.now[b] > 0;
    // from the end, so that no row is overwritten before it is moved
    for (size_t b = d->o.batch, row = n; b-- > 0;) {
        if (!d->buf.now[b])
            continue;
        row--;
        memmove(d->buf.last + row * C,
                d->buf.now[b] == 1 ? d->buf.last + --singles * C
                               : d->buf.x + (b * d->o.prefill + d->buf.now[b] - 1) * C,
                C * sizeof(float));
    }
    return n;
}

/* Logits (n, V) of n normalised rows for the V words of `words`. */
static void logits_of(const struct decode *d, float *out, size_t n, const void *words, size_t V)
{
    matvec_logits(out, &(struct matvec){ .m = n, .n = V, .k = d->o.config.n_embd, .dt = d->o.dtype,
                                         .a = d->buf.work.ln, .b = words,
                                         .scratch = d->buf.work.matvec });
}

/* Streams the head, or its pieces in the order of blocks, and computes each one's logits. */
static int head_logits(struct decode *d, size_t n, int wanted, struct err *err)
{
    const struct model_config *g = &d->o.config;
    size_t                     pieces = arch_pieces(g);

    for (size_t k = 0; k < pieces; k++) {
        size_t            piece = arch_is_tied(g) ? pieces - 1 - k : k;
        size_t            b = arch_head_block(g) + piece;
        struct arch_words w = arch_words(g, piece);
        const void       *wire;
        int               rc = stream_acquire(d->stream, b, &wire, err);

        if (rc)
            return rc;
        if (wanted && pieces == 1)
            logits_of(d, d->buf.logits, n, model_wire(&d->model, wire, arch_head(g)), w.n);
        else if (wanted)
            logits_of(d, d->buf.piece, n, wire, w.n);
        for (size_t i = 0; wanted && pieces > 1 && i < n; i++)
            memcpy(d->buf.logits + i * g->vocab + w.first, d->buf.piece + i * w.n,
                   w.n * sizeof(float));
        stream_release(d->stream, b);
    }
    return 0;
}

/* Logits of the last tokens, each in the row of its sequence. */
static int head(struct decode *d, int wanted, struct err *err)
{
    const struct model_config *g = &d->o.config;
    const void *wire;
    size_t      final = arch_final_block(g), V = g->vocab, n = gather(d);
    int         rc = stream_acquire(d->stream, final, &wire, err);

    if (rc)
        return rc;
    if (wanted)
        norm_forward(d->buf.work.ln, &(struct norm){
            .m = &d->model, .wire = wire, .n = n, .x = d->buf.last, .mean = d->buf.mean,
            .rstd = d->buf.rstd });
    rc = head_logits(d, n, wanted, err);
    if (rc)
        return rc;
    for (size_t b = d->o.batch; wanted && b-- > 0;)
        if (d->buf.now[b] && --n != b)
            memcpy(d->buf.logits + b * V, d->buf.logits + n * V, V * sizeof(float));
    stream_release(d->stream, final);
    return 0;
}

static int pass(struct decode *d, int wanted, struct err *err)
{
    uint64_t start_ns = clock_ns();
    int      rc = stream_begin(d->stream, STREAM_GENERATE, 0, err);

    d->n_single = 0;
    for (size_t b = 0; b < d->o.batch; b++)
        if (d->buf.now[b] == 1) {
            d->buf.at[d->n_single] = (int32_t)d->buf.length[b];
            d->buf.single[d->n_single++] = b;
        }
    rc = rc ? rc : layers(d, err);
    rc = rc ? rc : head(d, wanted, err);
    if (rc)
        return rc;
    for (size_t b = 0; b < d->o.batch; b++)
        d->buf.length[b] += d->buf.now[b];
    meter_span(d->stream->meter, 0, PHASE_EVAL, 0, -1, start_ns, clock_ns(), 0);
    return 0;
}

/* Texts longer than o.prefill begin some passes earlier than short ones, so that all texts end in
 * the last pass. Only that pass computes logits. */
int decode_feed(struct decode *d, const int32_t *const *ids, const size_t *n, const float **logits,
                struct err *err)
{
    size_t P = d->o.prefill, passes = 0;
    int    rc = 0;

    for (size_t b = 0; b < d->o.batch; b++) {
        assert(n[b] <= d->o.positions - d->buf.length[b]);
        passes = size_max(passes, div_up(n[b], P));
    }
    for (size_t left = passes; !rc && left > 0; left--) {
        for (size_t b = 0; b < d->o.batch; b++) {
            size_t own = div_up(n[b], P), from = own < left ? 0 : (own - left) * P;

            d->buf.now[b] = own < left ? 0 : n[b] - from < P ? n[b] - from : P;
            if (d->buf.now[b])
                memcpy(d->buf.ids + b * P, ids[b] + from, d->buf.now[b] * sizeof *d->buf.ids);
        }
        rc = pass(d, left == 1, err);
    }
    *logits = d->buf.logits;
    return rc;
}

size_t decode_length(const struct decode *d, size_t sequence) { return d->buf.length[sequence]; }

void decode_rewind(struct decode *d, size_t sequence, size_t length)
{
    assert(length <= d->buf.length[sequence]);
    d->buf.length[sequence] = length;
}
