/* block.c: one transformer layer of GPT-2 (Radford et al. 2019), pre-norm:
 *
 *     x_mid = x     + attention(ln_1(x) Wqkv + bqkv) Wproj + bproj
 *     x_out = x_mid + gelu(ln_2(x_mid) Wfc + bfc) Wmlp + bmlp
 *
 * What is independent per token (all but attention) runs in chunks of CHUNK_ROWS tokens, always:
 * sums over tokens then have one order, whatever the run's memory or devices, and the workspaces
 * are a chunk's size. The residual stream and its gradient are fp32; what goes into a product is of
 * the run's dtype. Normalised rows and GELU's output are not saved, backward makes them again from
 * what is. Dropout stands where GPT-2 has it: behind the embeddings, on attention's probabilities,
 * and on both projections before they are added. */
#include "model/block.h"

#include "data/base/clock.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gelu.h"

#include <assert.h>

void embed_forward(struct model *m, size_t micro, const void *wire)
{
    const int32_t    *x = m->acts.work.x + micro * model_tokens(m);
    struct acts_shape shape = model_shape(m, micro);
    struct dropout    drop = model_dropout(m, micro, 0, PLACE_EMBED);
    float            *out = acts_input(&m->acts, 1, micro);

    embedding_forward(out, model_wire(m, wire, GPT2_WTE), model_wire(m, wire, GPT2_WPE), m->o.dtype,
                      x, shape.rows, shape.seq, m->o.config.n_embd);
    if (drop.p > 0)
        dropout_rows(out, out, shape.rows * shape.seq, m->o.config.n_embd, 0, &drop);
}

void embed_backward(struct model *m, size_t micro, float *grad)
{
    const struct acts_work *w = &m->acts.work;
    size_t            N = model_tokens(m), C = m->o.config.n_embd;
    struct acts_shape shape = model_shape(m, micro);
    struct dropout    drop = model_dropout(m, micro, 0, PLACE_EMBED);
    float            *dx = w->dx + micro * N * C;

    if (drop.p > 0)
        dropout_rows(dx, dx, shape.rows * shape.seq, C, 0, &drop);
    embedding_backward(model_grad(m, grad, GPT2_WTE), model_grad(m, grad, GPT2_WPE), dx,
                       w->x + micro * N, shape.rows, shape.seq, C);
}

/* A layer at work: one micro-batch of it. */
struct layer {
    struct model           *m;
    const struct acts_work *w;
    size_t                  layer, micro;
    enum acts_way           way[ACTS_PARTS]; // of what goes this way in this pass
    struct acts_attn        a;
    const void *wire;
    float      *grad;        // backward only
    int         fresh;       // its matrices are written first
    float      *x, *x_out;   // (N, C): in and out of the residual stream
    float      *dx;          // (N, C): backward only
    size_t      rows, seq, N, C; // N = rows x seq
    enum dtype  dt;
    struct dropout drop_attn, drop_attn_proj, drop_mlp_proj;
};

static struct layer layer_of(struct model *m, size_t layer, size_t micro, const void *wire,
                             float *grad)
{
    struct acts_shape shape = model_shape(m, micro);
    struct layer l = {
        .m = m, .w = &m->acts.work, .layer = layer, .micro = micro,
        .a = acts_attn(&m->acts, layer, micro), .wire = wire, .grad = grad,
        .x = acts_input(&m->acts, layer, micro), .x_out = acts_input(&m->acts, layer + 1, micro),
        .rows = shape.rows, .seq = shape.seq, .N = shape.rows * shape.seq,
        .C = m->o.config.n_embd, .dt = m->o.dtype,
        .drop_attn = model_dropout(m, micro, layer, PLACE_ATTN),
        .drop_attn_proj = model_dropout(m, micro, layer, PLACE_ATTN_PROJ),
        .drop_mlp_proj = model_dropout(m, micro, layer, PLACE_MLP_PROJ),
    };

    for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
        l.way[p] = acts_way(&m->acts, layer, p);
        if (l.way[p] == ACTS_OFFLOADED && !m->records.stream) // an evaluation leaves nothing
            l.way[p] = ACTS_RECOMPUTED;
    }
    if (m->o.training)
        l.dx = l.w->dx + micro * model_tokens(m) * l.C;
    return l;
}

static float *dparam(const struct layer *l, size_t t)
{
    return model_grad(l->m, l->grad, t);
}

/* Row i of an array of the run's dtype with `width` columns. */
static void *row(const struct layer *l, const void *base, size_t i, size_t width)
{
    return model_at(l->m, base, i * width);
}

/* A projection's rows [i, i + n) before they are added to the residual stream. */
static void drop_rows(const struct layer *l, float *out, const float *x, size_t i, size_t n,
                      const struct dropout *drop)
{
    if (drop->p > 0)
        dropout_rows(out, x, n, l->C, i, drop);
}

/* A product of n tokens with the layer's parameters. */
static void product(const struct layer *l, enum product which, size_t n, void *out, const void *in)
{
    model_product(l->m, which, n, out, in, l->wire);
}

/* A matrix's gradient from tokens [i, i + n): x' dy. */
static void dmatrix(const struct layer *l, enum product which, size_t i, size_t n, const void *x,
                    const void *dy)
{
    model_gradient(l->m, which, n, l->grad, x, dy, l->fresh && i == 0);
}

static struct layernorm norm_1(const struct layer *l, size_t i, size_t n)
{
    return model_norm(l->m, GPT2_LN1_W, l->wire, n, l->x + i * l->C, l->a.ln1_mean + i,
                      l->a.ln1_rstd + i);
}

static struct layernorm norm_2(const struct layer *l, size_t n, const struct acts_mlp *mlp)
{
    return model_norm(l->m, GPT2_LN2_W, l->wire, n, mlp->x_mid, mlp->ln2_mean, mlp->ln2_rstd);
}

static struct attention attention_of(const struct layer *l)
{
    return (struct attention){
        .B = l->rows, .T = l->seq, .C = l->C, .H = l->m->o.config.n_head, .dt = l->dt,
        .qkv = l->a.qkv, .out = l->a.attn, .lse = l->a.lse,
        .drop = &l->drop_attn, .scratch = l->w->attention,
    };
}

/* Tokens [i, i + n): qkv = ln_1(x) Wqkv + bqkv. */
static void qkv_forward(const struct layer *l, size_t i, size_t n)
{
    struct layernorm norm = norm_1(l, i, n);

    layernorm_forward(l->w->ln, &norm);
    product(l, PRODUCT_QKV, n, row(l, l->a.qkv, i, 3 * l->C), l->w->ln);
}

/* x_mid = x + attn Wproj + bproj. */
static void mid_forward(const struct layer *l, size_t i, size_t n, const struct acts_mlp *mlp)
{
    struct layernorm norm = norm_2(l, n, mlp);

    product(l, PRODUCT_ATTN_PROJ, n, l->w->proj, row(l, l->a.attn, i, l->C));
    drop_rows(l, l->w->proj, l->w->proj, i, n, &l->drop_attn_proj);
    layernorm_residual(l->w->ln, l->x + i * l->C, l->w->proj, &norm);
}

/* fc = ln_2(x_mid) Wfc + bfc. */
static void fc_forward(const struct layer *l, size_t i, size_t n, const struct acts_mlp *mlp)
{
    mid_forward(l, i, n, mlp);
    product(l, PRODUCT_FC, n, mlp->fc, l->w->ln);
}

/* x_out = x_mid + gelu(fc) Wmlp + bmlp. */
static void mlp_forward(const struct layer *l, size_t i, size_t n, const struct acts_mlp *mlp)
{
    gelu_forward(l->w->gelu, mlp->fc, l->dt, n * 4 * l->C);
    product(l, PRODUCT_MLP_PROJ, n, l->w->proj, l->w->gelu);
    drop_rows(l, l->w->proj, l->w->proj, i, n, &l->drop_mlp_proj);
    residual_add(l->x_out + i * l->C, mlp->x_mid, l->w->proj, n * l->C);
}

static size_t chunk_at(const struct layer *l, size_t i)
{
    return model_chunk(l->m, l->N - i, CHUNK_ROWS);
}

/* ACTS_ATTN of all tokens. */
static void attn_forward(const struct layer *l)
{
    struct attention attention = attention_of(l);
    size_t           n;

    for (size_t i = 0; i < l->N; i += n) {
        n = chunk_at(l, i);
        qkv_forward(l, i, n);
    }
    attention_forward(&attention);
    acts_hold_attn(&l->m->acts, l->layer, l->micro);
}

/* ---- what is offloaded ---- */

size_t block_pieces(const struct model *m, size_t layer, size_t micro)
{
    struct acts_shape shape = model_shape(m, micro);
    size_t            pieces = 0, N = shape.rows * shape.seq, parts = 0;

    for (enum acts_part p = 0; p < ACTS_PARTS; p++)
        parts += acts_way(&m->acts, layer, p) == ACTS_OFFLOADED;
    for (size_t i = 0; i < N; i += model_chunk(m, N - i, CHUNK_ROWS))
        pieces += parts;
    return pieces;
}

typedef int records_copy(struct records *r, const struct acts_rows *rows, size_t arrays, size_t i,
                         size_t n, struct err *err);

/* A part that stands in arrays of all tokens leaves, or comes back. */
static int part_copy(const struct layer *l, enum acts_part part, records_copy *copy,
                     struct err *err)
{
    struct acts_rows rows[ACTS_ARRAYS];
    size_t arrays = acts_rows(&l->m->acts, l->layer, l->micro, part, rows), n;
    int    rc = 0;

    for (size_t i = 0; i < l->N && !rc; i += n) {
        n = chunk_at(l, i);
        rc = copy(&l->m->records, rows, arrays, i, n, err);
    }
    return rc;
}

/* ---- forward ---- */

/* Tokens [i, i + n) of the MLP; what goes into GELU may leave. */
static int chunk_forward(const struct layer *l, size_t i, size_t n, struct err *err)
{
    struct acts_mlp mlp = acts_mlp(&l->m->acts, l->layer, l->micro, i);
    int             leaves = l->way[ACTS_MLP] == ACTS_OFFLOADED,
        rc = leaves ? records_push(&l->m->records, &mlp.fc, err) : 0;

    if (rc)
        return rc;
    fc_forward(l, i, n, &mlp);
    mlp_forward(l, i, n, &mlp);
    if (leaves)
        records_push_done(&l->m->records, n * 4 * l->C * dtype_bytes(l->dt));
    acts_hold_mlp(&l->m->acts, leaves ? 0 : l->layer, l->micro, i);
    return 0;
}

int block_forward(struct model *m, size_t layer, size_t micro, const void *wire, struct err *err)
{
    struct layer l = layer_of(m, layer, micro, wire, NULL);
    size_t       n;
    int          rc = 0;

    m->records.first = 1;
    if (l.way[ACTS_INPUT] == ACTS_OFFLOADED)
        rc = part_copy(&l, ACTS_INPUT, records_push_rows, err);
    if (rc)
        return rc;
    attn_forward(&l);
    if (l.way[ACTS_ATTN] == ACTS_OFFLOADED)
        rc = part_copy(&l, ACTS_ATTN, records_push_rows, err);
    for (size_t i = 0; i < l.N && !rc; i += n) {
        n = chunk_at(&l, i);
        rc = chunk_forward(&l, i, n, err);
    }
    return rc;
}

/* ---- backward ---- */

/* A norm's dx, dw and db from the gradient of its rows, which is in w->proj; what else is done in
 * that pass is in `more`. */
static void norm_backward(const struct layer *l, size_t w, size_t i,
                          const struct layernorm *norm, struct layernorm_backward more)
{
    more.l = norm;
    more.dout = l->w->proj;
    more.dx = l->dx + i * l->C;
    more.dw = dparam(l, w);
    more.db = dparam(l, w + 1);
    more.scratch = l->w->sums;
    layernorm_backward(&more);
}

/* A chunk of dx behind a projection's dropout, as the products take it; its sums go to the
 * projection's bias. */
static const void *proj_backward(const struct layer *l, size_t bias, size_t i, size_t n,
                                 const struct dropout *drop)
{
    const float *dx = l->dx + i * l->C;
    void        *narrowed = l->dt == DT_F32 ? NULL : l->w->dy;

    drop_rows(l, l->w->proj, dx, i, n, drop);
    if (drop->p > 0)
        dx = l->w->proj;
    colsum_add(dparam(l, bias), narrowed, dx, DT_F32, n, l->C, l->w->sums);
    return narrowed ? narrowed : dx;
}

/* dx: of x_out on entry; the gradient of x_mid through the MLP is added. */
static void mlp_backward(const struct layer *l, size_t i, size_t n, const struct acts_mlp *mlp)
{
    const struct acts_work *w = l->w;
    struct layernorm        norm = norm_2(l, n, mlp);
    // dy may be w->proj, which is written again below.
    const void *dy = proj_backward(l, GPT2_MLP_PROJ_B, i, n, &l->drop_mlp_proj);

    product(l, PRODUCT_D_GELU, n, w->dgelu, dy);
    gelu_backward(&(struct gelu_backward){
        .n = n, .C = 4 * l->C, .dt = l->dt, .x = mlp->fc, .dout = w->dgelu,
        .out = w->gelu, .dx = w->dfc, .db = dparam(l, GPT2_FC_B), .scratch = w->sums });
    dmatrix(l, PRODUCT_D_MLP_PROJ_W, i, n, w->gelu, dy);

    layernorm_apply(w->ln, &norm);
    dmatrix(l, PRODUCT_D_FC_W, i, n, w->ln, w->dfc);
    product(l, PRODUCT_D_LN2, n, w->proj, w->dfc);
    if (l->drop_attn_proj.p > 0)
        norm_backward(l, GPT2_LN2_W, i, &norm, (struct layernorm_backward){ 0 });
    else // attention's projection takes dx as it is: its bias's sums and rounding in the same pass
        norm_backward(l, GPT2_LN2_W, i, &norm, (struct layernorm_backward){
            .dx_sums = dparam(l, GPT2_ATTN_PROJ_B), .narrowed = l->dt == DT_F32 ? NULL : w->dy });
}

/* dattn from dx, which is that of x_mid by now. */
static void attn_proj_backward(const struct layer *l, size_t i, size_t n)
{
    const void *dy = l->dt == DT_F32 ? (const void *)(l->dx + i * l->C) : l->w->dy;

    if (l->drop_attn_proj.p > 0)
        dy = proj_backward(l, GPT2_ATTN_PROJ_B, i, n, &l->drop_attn_proj);

    dmatrix(l, PRODUCT_D_ATTN_PROJ_W, i, n, row(l, l->a.attn, i, l->C), dy);
    product(l, PRODUCT_D_ATTN, n, row(l, l->w->dattn, i, l->C), dy);
}

/* The gradient of x through attention is added to dx. */
static void qkv_backward(const struct layer *l, size_t i, size_t n)
{
    const struct acts_work *w = l->w;
    struct layernorm        norm = norm_1(l, i, n);
    const void             *dqkv = row(l, w->dqkv, i, 3 * l->C);

    colsum_add(dparam(l, GPT2_QKV_B), NULL, dqkv, l->dt, n, 3 * l->C, w->sums);
    layernorm_apply(w->ln, &norm);
    dmatrix(l, PRODUCT_D_QKV_W, i, n, w->ln, dqkv);
    product(l, PRODUCT_D_LN1, n, w->proj, dqkv);
    norm_backward(l, GPT2_LN1_W, i, &norm, (struct layernorm_backward){ 0 });
}

/* What backward computes once more is measured: it is what keeping or offloading would save. */
static void count_again(const struct layer *l, enum acts_part part, uint64_t start_ns, size_t n)
{
    l->m->again[part].ns += clock_ns() - start_ns;
    l->m->again[part].tokens += n;
}

/* The layer's input and what attention left are there afterwards. */
static int attn_back(const struct layer *l, struct err *err)
{
    uint64_t start_ns;
    int      rc = 0;

    if (l->way[ACTS_INPUT] == ACTS_OFFLOADED)
        rc = part_copy(l, ACTS_INPUT, records_pop_rows, err);
    if (rc || l->way[ACTS_ATTN] == ACTS_KEPT)
        return rc;
    if (l->way[ACTS_ATTN] == ACTS_OFFLOADED) {
        acts_hold_attn(&l->m->acts, l->layer, l->micro);
        return part_copy(l, ACTS_ATTN, records_pop_rows, err);
    }
    if (acts_holds_attn(&l->m->acts, l->layer, l->micro))
        return 0;
    start_ns = clock_ns();
    attn_forward(l);
    count_again(l, ACTS_ATTN, start_ns, l->N);
    return 0;
}

/* Tokens [i, i + n): dx through the MLP and the projection of attention. */
static int chunk_backward(const struct layer *l, size_t i, size_t n, struct err *err)
{
    struct acts_mlp mlp = acts_mlp(&l->m->acts, l->layer, l->micro, i);
    uint64_t        start_ns = clock_ns();
    int             came = l->way[ACTS_MLP] == ACTS_OFFLOADED, rc = 0;

    if (came && (rc = records_pop(&l->m->records, &mlp.fc, err)))
        return rc;
    if (came) {
        mid_forward(l, i, n, &mlp);
        acts_hold_mlp(&l->m->acts, 0, 0, 0);
    } else if (!acts_holds_mlp(&l->m->acts, l->layer, l->micro, i)) {
        fc_forward(l, i, n, &mlp);
        acts_hold_mlp(&l->m->acts, l->layer, l->micro, i);
        count_again(l, ACTS_MLP, start_ns, n);
    }
    mlp_backward(l, i, n, &mlp);
    if (came)
        records_pop_done(&l->m->records);
    attn_proj_backward(l, i, n);
    return 0;
}

int block_backward(struct model *m, size_t layer, size_t micro, const void *wire, float *grad,
                   int fresh, struct err *err)
{
    struct layer     l = layer_of(m, layer, micro, wire, grad);
    struct attention attention = attention_of(&l);
    size_t           n;
    int              rc;

    assert(m->o.training);
    l.fresh = fresh;
    rc = attn_back(&l, err);
    for (size_t i = 0; i < l.N && !rc; i += n) {
        n = chunk_at(&l, i);
        rc = chunk_backward(&l, i, n, err);
    }
    if (rc)
        return rc;
    attention_backward(l.w->dqkv, l.w->dattn, &attention);
    for (size_t i = 0; i < l.N; i += n) {
        n = chunk_at(&l, i);
        qkv_backward(&l, i, n);
    }
    return 0;
}
