/* bert.c: defines BERT (Devlin et al. 2018) and RoBERTa (Liu et al. 2019): their parameters,
 * matrices and arithmetic. RoBERTa's positions begin behind the padding's position, and its head
 * has other tensor names. Names are Hugging Face's. Matrices are (out, in), as in torch's Linear.
 * Queries, keys and values stand one after the other and are one product. Embeddings are norm(words
 * + positions + types). A layer is post-norm:
 *
 *     x_mid = norm_1(x     + attention(x Wqkv' + bqkv) Wo' + bo)
 *     x_out = norm_2(x_mid + gelu(x_mid Wfc' + bfc) Wdown' + bdown)
 *
 * Both sums are saved, because the backward of their norms needs them. x_mid is recomputed from the
 * first sum. Dropout follows the norm of the embeddings. It also applies to attention's
 * probabilities, and to both projections before the residual addition. */
#include "model/family/bert.h"

#include "kernels/elementwise.h"
#include "kernels/rows/gelu.h"
#include "model/layer/layer.h"

#define VECTOR(text, kind, cols, init) { text, kind, DIM_ONE, cols, ARCH_INIT_##init, 0, 0 }
#define OUTSIDE(text, cols, init) { text, ARCH_FINAL, DIM_ONE, cols, ARCH_INIT_##init, 0, 1 }
#define MATRIX(text, kind, rows, cols) { text, kind, rows, cols, ARCH_INIT_NORMAL, 1, 0 }
#define NORM(weight, text, kind)                                                                 \
    [weight] = VECTOR(text ".weight", kind, DIM_WIDTH, ONE),                                     \
    [weight + 1] = VECTOR(text ".bias", kind, DIM_WIDTH, ZERO)
#define BODY                                                                                     \
    [BERT_WORDS] = MATRIX("embeddings.word_embeddings.weight", ARCH_EMBEDDINGS, DIM_VOCAB,       \
                          DIM_WIDTH),                                                            \
    [BERT_POSITIONS] = MATRIX("embeddings.position_embeddings.weight", ARCH_EMBEDDINGS,          \
                              DIM_POSITIONS, DIM_WIDTH),                                         \
    [BERT_TYPES] = MATRIX("embeddings.token_type_embeddings.weight", ARCH_EMBEDDINGS, DIM_TYPES, \
                          DIM_WIDTH),                                                            \
    NORM(BERT_NORM_0_W, "embeddings.LayerNorm", ARCH_EMBEDDINGS),                                \
    [BERT_Q_W] = MATRIX("attention.self.query.weight", ARCH_LAYER, DIM_HEADS, DIM_WIDTH),        \
    [BERT_K_W] = MATRIX("attention.self.key.weight", ARCH_LAYER, DIM_KEYS, DIM_WIDTH),           \
    [BERT_V_W] = MATRIX("attention.self.value.weight", ARCH_LAYER, DIM_KEYS, DIM_WIDTH),         \
    [BERT_Q_B] = VECTOR("attention.self.query.bias", ARCH_LAYER, DIM_HEADS, ZERO),               \
    [BERT_K_B] = VECTOR("attention.self.key.bias", ARCH_LAYER, DIM_KEYS, ZERO),                  \
    [BERT_V_B] = VECTOR("attention.self.value.bias", ARCH_LAYER, DIM_KEYS, ZERO),                \
    [BERT_O_W] = MATRIX("attention.output.dense.weight", ARCH_LAYER, DIM_WIDTH, DIM_HEADS),      \
    [BERT_O_B] = VECTOR("attention.output.dense.bias", ARCH_LAYER, DIM_WIDTH, ZERO),             \
    NORM(BERT_NORM_1_W, "attention.output.LayerNorm", ARCH_LAYER),                               \
    [BERT_FC_W] = MATRIX("intermediate.dense.weight", ARCH_LAYER, DIM_INNER, DIM_WIDTH),         \
    [BERT_FC_B] = VECTOR("intermediate.dense.bias", ARCH_LAYER, DIM_INNER, ZERO),                \
    [BERT_DOWN_W] = MATRIX("output.dense.weight", ARCH_LAYER, DIM_WIDTH, DIM_INNER),             \
    [BERT_DOWN_B] = VECTOR("output.dense.bias", ARCH_LAYER, DIM_WIDTH, ZERO),                    \
    NORM(BERT_NORM_2_W, "output.LayerNorm", ARCH_LAYER)
#define HEAD(weight, text, rows, prefixed)                                                       \
    [weight] = { text ".weight", ARCH_FINAL, rows, DIM_WIDTH, ARCH_INIT_NORMAL, 1, !(prefixed) },\
    [weight + 1] = { text ".bias", ARCH_FINAL, DIM_ONE, rows, ARCH_INIT_ZERO, 0, !(prefixed) }
#define MASKED_HEAD(dense, norm, words)                                                          \
    HEAD(BERT_MASKED_W, dense, DIM_WIDTH, 0),                                                    \
    [BERT_MASKED_NORM_W] = OUTSIDE(norm ".weight", DIM_WIDTH, ONE),                              \
    [BERT_MASKED_NORM_B] = OUTSIDE(norm ".bias", DIM_WIDTH, ZERO),                               \
    [BERT_MASKED_BIAS] = OUTSIDE(words, DIM_VOCAB, ZERO)

static const struct arch_param bert_params[BERT_TENSORS] = {
    BODY, HEAD(BERT_POOL_W, "pooler.dense", DIM_WIDTH, 1),
    HEAD(BERT_SCORE_W, "classifier", DIM_LABELS, 0),
    MASKED_HEAD("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                "cls.predictions.bias"),
};
static const struct arch_param roberta_params[BERT_TENSORS] = {
    BODY, HEAD(BERT_POOL_W, "classifier.dense", DIM_WIDTH, 0),
    HEAD(BERT_SCORE_W, "classifier.out_proj", DIM_LABELS, 0),
    MASKED_HEAD("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
};

enum { QKV, ATTN_PROJ, FC, DOWN, MATRICES };
static const struct arch_matrix matrices[MATRICES] = {
    [QKV]       = { { "qkv", "d_x", "d_qkv_w" }, BERT_Q_W, 3, BERT_Q_B, .out_rounded = 1 },
    [ATTN_PROJ] = { { "attn_proj", "d_attn", "d_attn_proj_w" }, BERT_O_W, 1, BERT_O_B,
                    .in_rounded = 1 },
    [FC]        = { { "fc", "d_x_mid", "d_fc_w" }, BERT_FC_W, 1, BERT_FC_B, .out_rounded = 1 },
    [DOWN]      = { { "down", "d_gelu", "d_down_w" }, BERT_DOWN_W, 1, BERT_DOWN_B, 0, 0 },
};

/* The family's own arrays, per token. For the first sum, which is MLP_MID: its mean and reciprocal
 * deviation. For the second sum: itself, its mean and reciprocal deviation. */
enum { MEAN_1 = MLP_OWN, RSTD_1, SUM, MEAN_2, RSTD_2 };

/* Whether a model has tensor t. The head is a classifier's, a masked language model's, or
 * absent. */
static int has(const struct model_config *g, size_t t)
{
    if (t < BERT_POOL_W)
        return 1;
    return t < BERT_MASKED_W ? arch_classifies(g) : arch_is_masked(g) && !g->headless;
}

/* ---- the embeddings ---- */

/* out (B, T, C) = words + positions + types, and in training noise. */
static void embed_sum(float *out, const struct embed *e)
{
    const struct model *m = e->m;

    layer_embed(out, e, BERT_WORDS, BERT_POSITIONS);
    embedding_add(out, model_wire(m, e->wire, BERT_TYPES), m->o.dtype, e->types, e->B * e->T,
                  m->o.config.n_embd);
    layer_embed_noise(out, e);
}

static struct layernorm embed_norm(const struct embed *e, size_t rows, float *x)
{
    const struct acts_work *w = &e->m->acts.work;

    return model_norm(e->m, BERT_NORM_0_W, e->wire, rows, x, w->mean, w->rstd);
}

static void embed(float *out, const struct embed *e)
{
    size_t N = e->B * e->T, C = e->m->o.config.n_embd;

    embed_sum(out, e);
    for (size_t i = 0, n; i < N; i += n) {
        n = model_chunk(e->m, N - i, CHUNK_ROWS);
        struct layernorm norm = embed_norm(e, n, e->m->acts.work.proj);

        memcpy(norm.x, out + i * C, n * C * sizeof *out);
        norm.wide = out + i * C;
        layernorm_forward(NULL, &norm);
    }
}

static void embed_backward(float *grad, const float *dout, const struct embed *e)
{
    const struct model      *m = e->m;
    const struct acts_work  *w = &m->acts.work;
    size_t N = e->B * e->T, C = m->o.config.n_embd;

    embed_sum(e->sums, e);
    for (size_t i = 0, n; i < N; i += n) {
        n = model_chunk(m, N - i, CHUNK_ROWS);
        struct layernorm norm = embed_norm(e, n, e->sums + i * C);

        layernorm_forward(w->ln, &norm);
        layernorm_backward(&(struct layernorm_backward){
            .l = &norm, .dout = dout + i * C, .dx = w->proj, .fresh = 1,
            .dw = model_grad(m, grad, BERT_NORM_0_W), .db = model_grad(m, grad, BERT_NORM_0_B),
            .scratch = w->sums });
        memcpy(e->sums + i * C, w->proj, n * C * sizeof *dout); // from here on, gradients of the
                                                                // sums
    }
    layer_embed_backward(grad, e->sums, e, BERT_WORDS, BERT_POSITIONS);
    if (!arch_is_frozen(&m->o.config, BERT_TYPES))
        embedding_piece_backward(model_grad(m, grad, BERT_TYPES), e->sums,
                             (struct embedding_piece){ 0, m->o.config.n_types }, e->types, N, C);
}

/* ---- a layer, forward ---- */

static struct layernorm norm_1(const struct layer *l)
{
    return model_norm(l->m, BERT_NORM_1_W, l->wire, l->n, l->mlp.at[MLP_MID], l->mlp.at[MEAN_1],
                      l->mlp.at[RSTD_1]);
}

static struct layernorm norm_2(const struct layer *l)
{
    return model_norm(l->m, BERT_NORM_2_W, l->wire, l->n, l->mlp.at[SUM], l->mlp.at[MEAN_2],
                      l->mlp.at[RSTD_2]);
}

/* The layer's input in the dtype that products take. */
static const void *input(const struct layer *l)
{
    enum dtype dt = l->m->o.dtype;

    if (dt == DT_F32)
        return l->x;
    convert(l->w->ln, dt, l->x, DT_F32, l->n * l->m->o.config.n_embd);
    return l->w->ln;
}

static void qkv_forward(const struct layer *l)
{
    layer_product(l, QKV, l->attn.at[ATTN_QKV], input(l));
}

/* The first sum, and its normalised rows. */
static void mid_forward(const struct layer *l)
{
    struct layernorm norm = norm_1(l);

    layer_proj(l, ATTN_PROJ, l->attn.at[ATTN_OUT], &l->drop_attn_proj);
    layernorm_residual(l->w->ln, l->x, l->w->proj, &norm);
}

/* The second sum and, if wanted, its normalised rows. */
static void out_forward(const struct layer *l)
{
    const struct model_config *g = &l->m->o.config;
    struct layernorm           mid = norm_1(l), norm = norm_2(l);
    float                     *sum = l->mlp.at[SUM];

    mid.wide = sum;
    layernorm_apply(NULL, &mid);
    gelu_erf_forward(l->w->act, l->mlp.at[MLP_FC], l->m->o.dtype, l->n * g->n_inner);
    layer_proj(l, DOWN, l->w->act, &l->drop_mlp_proj);
    residual_add(sum, sum, l->w->proj, l->n * g->n_embd);
    norm.wide = l->x_out;
    layernorm_forward(l->x_out ? NULL : l->w->ln, &norm);
}

/* ---- a layer, backward ---- */

/* On entry dx is the gradient of a norm's rows; on return, that of the sum that the norm took.
 * Returns the gradient of the projection in that sum, in the products' dtype. The projection's bias
 * gets the gradient's column sums. */
static const void *sum_backward(const struct layer *l, size_t weight, const struct layernorm *norm,
                                size_t bias, const struct dropout *drop)
{
    const struct acts_work *w = l->w;
    int                     drops = drop->p > 0, fp32 = l->m->o.dtype == DT_F32;

    layernorm_backward(&(struct layernorm_backward){
        .l = norm, .dout = l->dx, .dx = w->proj, .fresh = 1, .dw = layer_grad(l, weight),
        .db = layer_grad(l, weight + 1), .dx_sums = drops ? NULL : layer_grad(l, bias),
        .narrowed = drops || fp32 ? NULL : w->dy, .scratch = w->sums });
    memcpy(l->dx, w->proj, l->n * l->m->o.config.n_embd * sizeof *l->dx);
    return drops ? layer_proj_back(l, bias, drop) : fp32 ? (const void *)l->dx : w->dy;
}

/* dx is the gradient of x_out on entry, and of x_mid on return. */
static void mlp_backward(const struct layer *l)
{
    const struct acts_work    *w = l->w;
    const struct model_config *g = &l->m->o.config;
    struct layernorm           mid = norm_1(l), norm = norm_2(l);
    // dy may be w->proj, which is overwritten below.
    const void *dy = sum_backward(l, BERT_NORM_2_W, &norm, BERT_DOWN_B, &l->drop_mlp_proj);

    layer_back(l, DOWN, w->dact, dy);
    gelu_erf_backward(&(struct gelu_backward){
        .n = l->n, .C = g->n_inner, .dt = l->m->o.dtype, .x = l->mlp.at[MLP_FC], .dout = w->dact,
        .out = w->act, .dx = w->dfc, .db = layer_grad(l, BERT_FC_B), .scratch = w->sums });
    layer_gradient(l, DOWN, w->act, dy);

    layernorm_apply(w->ln, &mid);
    layer_back(l, FC, w->proj, w->dfc);
    layer_gradient(l, FC, w->ln, w->dfc);
    residual_add(l->dx, l->dx, w->proj, l->n * g->n_embd);
}

/* Computes dattn. dx becomes the gradient of the first sum, which is x's without the part through
 * attention. */
static void mid_backward(const struct layer *l)
{
    struct layernorm norm = norm_1(l);
    const void *dy = sum_backward(l, BERT_NORM_1_W, &norm, BERT_O_B, &l->drop_attn_proj);

    layer_back(l, ATTN_PROJ, l->dattn, dy);
    layer_gradient(l, ATTN_PROJ, l->attn.at[ATTN_OUT], dy);
}

/* Adds the gradient of x through attention to dx. */
static void qkv_backward(const struct layer *l)
{
    const struct model_config *g = &l->m->o.config;

    // the three biases stand one after the other
    colsum_add(layer_grad(l, BERT_Q_B), NULL, l->dqkv, l->m->o.dtype, l->n, arch_dim(g, DIM_QKV),
               l->w->sums);
    layer_back(l, QKV, l->w->proj, l->dqkv);
    layer_gradient(l, QKV, input(l), l->dqkv);
    residual_add(l->dx, l->dx, l->w->proj, l->n * g->n_embd);
}

/* ---- the families ---- */

#define FAMILY(type, text, stem, table)                                                          \
    .name = type, .title = text, .class = stem "ForMaskedLM",                                    \
    .classifier = stem "ForSequenceClassification", .prefix = type ".",                          \
    .layers = "encoder.layer", .passes = "bert", .config_read = bert_config_read,                \
    .config_write = bert_config_write, .params = table, .n_params = BERT_TENSORS, .has = has,    \
    .tokens = BERT_WORDS, .head = BERT_WORDS, .norm = BERT_MASKED_NORM_W,                        \
    .score = BERT_SCORE_W, .encoder = 1, .pool = BERT_POOL_W, .masked = BERT_MASKED_W,           \
    .drops = 1, .linear = 1, .ends_normed = 1, .embeds_normed = 1,                               \
    .matrices = matrices, .n_matrices = MATRICES, .fc = FC, .adapted = "query,value",            \
    .arrays = {                                                                                  \
        [ACTS_ATTN] = { [ATTN_QKV] = { DIM_QKV, 0 }, [ATTN_OUT] = { DIM_HEADS, 0 },              \
                        [ATTN_LSE] = { DIM_HEAD_COUNT, 1 } },                                    \
        [ACTS_MLP]  = { [MLP_FC] = { DIM_INNER, 0 }, [MLP_MID] = { DIM_WIDTH, 1 },               \
                        [MEAN_1] = { DIM_ONE, 1 }, [RSTD_1] = { DIM_ONE, 1 },                    \
                        [SUM] = { DIM_WIDTH, 1 }, [MEAN_2] = { DIM_ONE, 1 },                     \
                        [RSTD_2] = { DIM_ONE, 1 } },                                             \
    },                                                                                           \
    .settle = bert_settle, .check = bert_check,                                                  \
    .embed_rows = embed, .embed_backward = embed_backward,                                       \
    .qkv = qkv_forward, .mid = mid_forward, .out = out_forward,                                  \
    .mlp_backward = mlp_backward, .mid_backward = mid_backward, .qkv_backward = qkv_backward

#define SIZES(layers, heads, width, words, types, eps)                                           \
    { .n_layer = layers, .n_head = heads, .n_embd = width, .vocab = words, .n_positions = 512,   \
      .n_types = types, .pad = types == 1, .norm_eps = eps, .drop_embd = 0.1f,                   \
      .drop_attn = 0.1f, .drop_resid = 0.1f }
static const struct arch_preset bert_presets[] = {
    { "bert-base",     SIZES(12, 12,  768, 30522, 2, 1e-12f) },
    { "bert-large",    SIZES(24, 16, 1024, 30522, 2, 1e-12f) },
};
static const struct arch_preset roberta_presets[] = {
    { "roberta-base",  SIZES(12, 12,  768, 50265, 1, 1e-5f) },
    { "roberta-large", SIZES(24, 16, 1024, 50265, 1, 1e-5f) },
};

/* `extras` are tensors of a file that are no parameters of the model: another kind of head, tied
 * copies, the head of a second task, and a pooler without classifier. */
const struct arch bert_arch = {
    FAMILY("bert", "BERT", "Bert", bert_params),
    .presets = bert_presets, .n_presets = sizeof bert_presets / sizeof *bert_presets,
    .extras = { "*embeddings.position_ids", "cls.*", "*pooler.dense.*" },
    .copies = { { "cls.predictions.decoder.weight", BERT_WORDS },
                { "cls.predictions.decoder.bias", BERT_MASKED_BIAS } },
};
const struct arch roberta_arch = {
    FAMILY("roberta", "RoBERTa", "Roberta", roberta_params),
    .presets = roberta_presets, .n_presets = sizeof roberta_presets / sizeof *roberta_presets,
    .pool_drops = 1, .padded_positions = 1,
    .extras = { "*embeddings.position_ids", "lm_head.*", "*pooler.dense.*" },
    .copies = { { "lm_head.decoder.weight", BERT_WORDS },
                { "lm_head.decoder.bias", BERT_MASKED_BIAS } },
};
