/* block.c: runs the embeddings and single layers forward and backward over a micro-batch, for any
 * family. It decides which activations are kept, recomputed or offloaded.
 *
 * Everything but attention is independent per token and runs in chunks of CHUNK_ROWS tokens, or of
 * twice as many, whose products add sums up where chunks of CHUNK_ROWS end (products_at_once). Sums
 * over tokens therefore have one order, whatever the run's memory or devices, and workspaces have a
 * chunk's size. The residual stream and its gradient are fp32; operands of
 * products have the run's dtype. */
#include "model/layer/block.h"

#include "data/base/clock.h"
#include "kernels/attention/attention.h"
#include "model/layer/layer.h"

#include <assert.h>
#include <math.h>

#define NOISE_STREAM 0x6e65667475000000u // a stream of rng.h: "neftu" plus the micro-batch's number

/* NEFTune (Jain et al., 2023), as transformers has it: uniform noise of size alpha / sqrt(L x
 * width), where L is the number of tokens in the micro-batch's rows, with their padding. */
static float noise_size(const struct model *m, struct acts_shape shape)
{
    if (!m->dropping || !(m->o.neftune > 0))
        return 0;
    return (float)((double)m->o.neftune / sqrt((double)shape.seq * (double)m->o.config.n_embd));
}

static struct embed embed_of(struct model *m, size_t micro, size_t block, const void *wire)
{
    const struct acts_work *w = &m->acts.work;
    struct acts_shape       shape = model_shape(m, micro);
    size_t                  at = micro * model_tokens(m);

    return (struct embed){ .m = m, .block = block, .wire = wire, .B = shape.rows, .T = shape.seq,
                           .tokens = w->x + at, .types = w->types ? w->types + at : NULL,
                           .positions = w->at ? w->at + at : NULL,
                           .noise_size = noise_size(m, shape),
                           .noise = NOISE_STREAM + model_micro(m, micro) };
}

/* Dropout of the embeddings' output, or of its gradient. */
static void embed_drop(struct model *m, size_t micro, float *x)
{
    struct acts_shape shape = model_shape(m, micro);
    struct dropout    drop = model_dropout(m, micro, 0, PLACE_EMBED);

    if (drop.p > 0)
        dropout_rows(x, x, shape.rows * shape.seq, m->o.config.n_embd, 0, &drop);
}

void embed_forward(struct model *m, size_t micro, size_t block, const void *wire)
{
    struct embed e = embed_of(m, micro, block, wire);
    float       *out = acts_input(&m->acts, 1, micro);

    m->o.config.arch->embed_rows(out, &e);
    if (block + 1 < arch_pieces(&m->o.config))
        return;
    layer_embed_scale(&m->o.config, out, e.B * e.T);
    if (!m->o.config.arch->embeds_normed)
        layer_embed_noise(out, &e);
    embed_drop(m, micro, out);
}

void embed_backward(struct model *m, size_t micro, size_t block, const void *wire, float *grad)
{
    struct embed e = embed_of(m, micro, block, wire);
    float       *dx = m->acts.work.dx + micro * model_tokens(m) * m->o.config.n_embd;

    e.sums = acts_input(&m->acts, 1, micro); // the first layer's input, which is no longer needed
    if (block == 0) {
        embed_drop(m, micro, dx);
        layer_embed_scale(&m->o.config, dx, e.B * e.T);
    }
    m->o.config.arch->embed_backward(grad, dx, &e);
}

/* One micro-batch of a layer, in one pass. */
struct visit {
    struct model      *m;
    const struct arch *arch;
    size_t             layer, micro;
    enum acts_policy      way[ACTS_PARTS]; // how each part is treated in this pass
    int                offloads;        // this pass pushes and pops the offloaded parts
    int                inputs_first;    // see acts.h
    size_t             rows, seq, N;    // N = rows x seq
    struct layer       all;             // its N tokens, without the MLP's arrays
    struct dropout     drop_attn;
};

static struct visit visit_of(struct model *m, size_t layer, size_t micro,
                             const struct block_wires *wires, const struct block_grads *grads)
{
    const struct acts_work *w = &m->acts.work;
    struct acts_shape       shape = model_shape(m, micro);
    struct visit            t = {
        .m = m, .arch = m->o.config.arch, .layer = layer, .micro = micro, .rows = shape.rows,
        .seq = shape.seq, .N = shape.rows * shape.seq,
        .drop_attn = model_dropout(m, micro, layer, PLACE_ATTN),
        .all = { .drop_attn_proj = model_dropout(m, micro, layer, PLACE_ATTN_PROJ),
                 .drop_mlp_proj = model_dropout(m, micro, layer, PLACE_MLP_PROJ),
                 .m = m, .wire = wires->layer, .grad = grads->layer, .fresh = grads->fresh, .w = w,
                 .adapter = { wires->adapter, grads->adapter,
                              model_dropout_adapter(m, micro, layer) },
                 .local = arch_is_local(&m->o.config, layer),
                 .x = acts_input(&m->acts, layer, micro),
                 .x_out = acts_input(&m->acts, layer + 1, micro),
                 .attn = acts_at(&m->acts, ACTS_ATTN, layer, micro, 0),
                 .dattn = w->dattn, .dqkv = w->dqkv, .T = shape.seq,
                 .at = w->at ? w->at + micro * model_tokens(m) : NULL } };

    t.offloads = m->records.stream && layer >= m->lowest; // an evaluation offloads nothing
    for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
        t.way[p] = acts_policy(&m->acts, layer, p);
        if (t.way[p] == ACTS_OFFLOADED && !t.offloads)
            t.way[p] = ACTS_RECOMPUTED;
    }
    t.inputs_first = t.offloads && acts_inputs_first(&m->acts.placement, m->o.config.n_layer,
                                                     layer);
    if (m->o.training)
        t.all.dx = w->dx + micro * model_tokens(m) * m->o.config.n_embd;
    return t;
}

static struct layer chunk_at(const struct visit *t, size_t i)
{
    const struct model_config *g = &t->m->o.config;
    struct layer               l = t->all;

    l.first = i;
    l.n = l.padded = model_chunk(t->m, t->N - i, CHUNK_ROWS);
    l.at = l.at ? l.at + i : NULL;
    l.x += i * g->n_embd;
    l.x_out += i * g->n_embd;
    l.attn = acts_at(&t->m->acts, ACTS_ATTN, t->layer, t->micro, i);
    l.mlp = acts_at(&t->m->acts, ACTS_MLP, t->layer, t->micro, i);
    if (!t->m->o.training)
        return l;
    l.dx += i * g->n_embd;
    l.dattn = model_at(t->m, l.dattn, i * arch_dim(g, DIM_HEADS));
    l.dqkv = model_at(t->m, l.dqkv, i * arch_dim(g, DIM_QKV));
    return l;
}

static struct attention attention_of(const struct visit *t)
{
    const int32_t   *length = t->all.w->length, *begin = t->all.w->begin;
    struct attention a = model_attention(&t->m->o, t->layer, t->rows, t->seq);

    a.lengths = length ? length + t->micro * t->m->o.batch : NULL;
    a.begin = begin ? begin + t->micro * model_tokens(t->m) : NULL;
    a.qkv = t->all.attn.at[ATTN_QKV];
    a.out = t->all.attn.at[ATTN_OUT];
    a.lse = t->all.attn.at[ATTN_LSE];
    a.drop = &t->drop_attn;
    a.scratch = t->all.w->attention;
    return a;
}

/* ---- offloaded activations ---- */

size_t block_items(const struct model *m, size_t layer, size_t micro)
{
    struct acts_shape shape = model_shape(m, micro);
    size_t            n = 0, N = layer < m->lowest ? 0 : shape.rows * shape.seq;

    for (size_t i = 0; i < N; i += model_chunk(m, N - i, CHUNK_ROWS))
        n++;
    return n * acts_items(&m->acts, layer);
}

typedef int records_copy(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                         struct err *err);

/* Pushes or pops a chunk's item, if it is offloaded. */
static int item_copy(const struct visit *t, enum item_kind item, const struct layer *l,
                     records_copy *copy, struct err *err)
{
    const struct acts *acts = &t->m->acts;
    struct acts_rows   rows[ACTS_ROWS];
    size_t             arrays = 0;

    if (t->offloads)
        arrays = acts_rows(acts, t->layer, t->micro, item, l->first, rows);
    return arrays ? copy(&t->m->records, rows, arrays, l->n, err) : 0;
}

/* The same for all chunks. */
static int items_copy(const struct visit *t, enum item_kind item, records_copy *copy,
                      struct err *err)
{
    struct layer l;
    int          rc = 0;

    for (size_t i = 0; i < t->N && !rc; i += l.n) {
        l = chunk_at(t, i);
        rc = item_copy(t, item, &l, copy, err);
    }
    return rc;
}

/* ---- forward ---- */

static int attn_forward(const struct visit *t, struct err *err)
{
    struct attention attention = attention_of(t);
    struct layer     l;
    int              rc = 0;

    for (size_t i = 0; i < t->N && !rc; i += l.n) {
        l = chunk_at(t, i);
        t->arch->qkv(&l);
        rc = item_copy(t, ITEM_QKV, &l, records_push_rows, err);
    }
    if (rc)
        return rc;
    attention_forward(&attention);
    acts_hold(&t->m->acts, ACTS_ATTN, t->layer, t->micro, 0);
    return 0;
}

/* Runs the MLP for one chunk. Pushes its input and its activation's input if they are offloaded. */
static int chunk_forward(const struct visit *t, struct layer *l, struct err *err)
{
    struct model *m = t->m;
    int leaves = t->way[ACTS_MLP] == ACTS_OFFLOADED,
        rc = t->inputs_first ? 0 : item_copy(t, ITEM_MID, l, records_push_rows, err);

    if (rc)
        return rc;
    t->arch->mid(l);
    rc = item_copy(t, ITEM_MLP, l, records_push_rows, err);
    if (!rc && leaves)
        rc = records_push(&m->records, &l->mlp.at[MLP_FC], err);
    if (rc)
        return rc;
    layer_fc(l);
    t->arch->out(l);
    if (leaves)
        records_push_done(&m->records, l->n * m->acts.sizes.row[ACTS_MLP][MLP_FC]);
    acts_hold(&m->acts, ACTS_MLP, leaves ? 0 : t->layer, t->micro, l->first);
    return 0;
}

int block_forward(struct model *m, size_t layer, size_t micro, const struct block_wires *wires,
                  struct err *err)
{
    struct visit t = visit_of(m, layer, micro, wires, &(struct block_grads){ 0 });
    struct layer l;
    int          rc = 0;

    m->records.first = 1;
    if (t.inputs_first)
        rc = items_copy(&t, ITEM_MID, records_push_rows, err);
    rc = rc ? rc : attn_forward(&t, err);
    if (!t.inputs_first)
        m->records.first = 1;
    for (size_t i = 0; i < t.N && !rc; i += l.n) {
        l = chunk_at(&t, i);
        rc = chunk_forward(&t, &l, err);
    }
    return rc;
}

/* ---- backward ---- */

/* Measures the time of recomputing, which keeping or offloading would save. */
static void count_again(const struct visit *t, enum acts_part part, uint64_t start_ns, size_t n)
{
    t->m->again[part].ns += clock_ns() - start_ns;
    t->m->again[part].tokens += n;
}

/* Brings attention's arrays back by recomputing them, if necessary. */
static int attn_again(const struct visit *t, struct err *err)
{
    struct acts *acts = &t->m->acts;
    uint64_t     start_ns;
    int          rc = 0;

    if (t->inputs_first)
        rc = items_copy(t, ITEM_MID, records_pop_rows, err);
    if (t->way[ACTS_ATTN] == ACTS_OFFLOADED) // valid from here on
        acts_hold(acts, ACTS_ATTN, t->layer, t->micro, 0);
    if (rc || t->way[ACTS_ATTN] == ACTS_KEPT ||
        acts_holds(acts, ACTS_ATTN, t->layer, t->micro, 0))
        return rc;
    start_ns = clock_ns();
    rc = attn_forward(t, err);
    count_again(t, ACTS_ATTN, start_ns, t->N);
    return rc;
}

/* Brings back what a chunk's backward needs, without queries, keys and values. Offloaded arrays of
 * the MLP are lent by the stream. */
static int chunk_back(const struct visit *t, struct layer *l, struct err *err)
{
    struct model *m = t->m;
    uint64_t      start_ns;
    int           came = t->way[ACTS_MLP] == ACTS_OFFLOADED,
        rc = t->inputs_first ? 0 : item_copy(t, ITEM_MID, l, records_pop_rows, err);

    rc = rc ? rc : item_copy(t, ITEM_MLP, l, records_pop_rows, err);
    if (!rc && came)
        rc = records_pop(&m->records, &l->mlp.at[MLP_FC], err);
    if (rc || (!came && acts_holds(&m->acts, ACTS_MLP, t->layer, t->micro, l->first)))
        return rc;
    start_ns = clock_ns();
    if (!came || !m->o.whole)
        t->arch->mid(l);
    if (!came)
        layer_fc(l);
    if (t->arch->ends_normed && (!came || !m->o.whole)) {
        struct layer end = *l; // recomputes the input of the norm there, which its backward needs

        end.x_out = NULL;
        t->arch->out(&end);
    }
    acts_hold(&m->acts, ACTS_MLP, came ? 0 : t->layer, t->micro, l->first);
    if (!came)
        count_again(t, ACTS_MLP, start_ns, l->n);
    return 0;
}

/* Runs backward for one chunk: dx through the MLP and attention's projection. */
static int chunk_backward(const struct visit *t, struct layer *l, struct err *err)
{
    int rc = chunk_back(t, l, err);

    if (rc)
        return rc;
    t->arch->mlp_backward(l);
    if (t->way[ACTS_MLP] == ACTS_OFFLOADED)
        records_pop_done(&t->m->records);
    t->arch->mid_backward(l);
    return 0;
}

static void join(const void *later) { matmul_join(later); }

int block_backward(struct model *m, size_t layer, size_t micro, const struct block_wires *wires,
                   const struct block_grads *grads, struct err *err)
{
    struct visit     t = visit_of(m, layer, micro, wires, grads);
    struct attention attention = attention_of(&t);
    struct matmul_call later = { .mm = NULL };
    struct layer     l;
    int              rc;

    assert(m->o.training);
    rc = attn_again(&t, err);
    for (size_t i = 0; i < t.N && !rc; i += l.n) {
        l = chunk_at(&t, i);
        l.later = i + l.n == t.N ? &later : NULL; // the next chunk would overwrite its operands
        rc = chunk_backward(&t, &l, err);
    }
    rc = rc ? rc : items_copy(&t, ITEM_QKV, records_pop_rows, err);
    if (rc)
        return rc;
    if (later.mm) {
        matmul_begin(&later);
        attention.idle = join;
        attention.ctx = &later;
    }
    attention_backward(t.all.dqkv, t.all.dattn, &attention);
    for (size_t i = 0; i < t.N; i += l.n) {
        l = chunk_at(&t, i);
        t.arch->qkv_backward(&l);
    }
    return 0;
}
