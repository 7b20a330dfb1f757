/* llama.c: defines Llama 2 and 3 (Touvron et al. 2023, Dubey et al. 2024) and related families:
 * Mistral (a window), Qwen2 (biases of queries, keys and values), Qwen3 (norms of queries and keys)
 * and Gemma 3. Names are Hugging Face's. Matrices are (out, in), as in torch's Linear. Queries,
 * keys and values stand one after the other and are one product, and so are gate and up. A layer is
 * pre-norm:
 *
 *     x_mid = x     + attention(turned(rms_1(x) Wqkv')) Wo'
 *     x_out = x_mid + (silu(gate) up) Wdown', gate and up being the halves of rms_2(x_mid) Wgu'
 *
 * Gemma 3 has GELU instead of silu. It has norms of queries and keys, and of both outputs that are
 * added to x (post_1, post_2). Its norms multiply by 1 + weight. Most of its layers have a window
 * and a rotary base of their own.
 *
 * Heads of queries and keys are turned by their position (RoPE) before they are saved, because
 * attention only needs them turned. Backward turns their gradients back. */
#include "model/family/llama.h"

#include "kernels/elementwise.h"
#include "kernels/rows/rmsnorm.h"
#include "kernels/rows/swiglu.h"
#include "model/layer/layer.h"
#include "model/family/llama_config.h"

#define VECTOR(text, kind, cols, init) { text, kind, DIM_ONE, cols, ARCH_INIT_##init, 0, 0 }
#define MATRIX(text, kind, rows, cols) { text, kind, rows, cols, ARCH_INIT_NORMAL, 1, 0 }
/* one: initial value of the norms' weights. norm_2: name of the norm before the MLP. post_1: name
 * of the norm behind attention, if there is one. */
#define TABLE(one, norm_2, post_1)                                                               \
    [LLAMA_EMBED]  = MATRIX("embed_tokens.weight", ARCH_EMBEDDINGS, DIM_VOCAB, DIM_WIDTH),       \
    [LLAMA_NORM_1] = VECTOR("input_layernorm.weight", ARCH_LAYER, DIM_WIDTH, one),               \
    [LLAMA_Q_W]    = MATRIX("self_attn.q_proj.weight", ARCH_LAYER, DIM_HEADS, DIM_WIDTH),        \
    [LLAMA_K_W]    = MATRIX("self_attn.k_proj.weight", ARCH_LAYER, DIM_KEYS, DIM_WIDTH),         \
    [LLAMA_V_W]    = MATRIX("self_attn.v_proj.weight", ARCH_LAYER, DIM_KEYS, DIM_WIDTH),         \
    [LLAMA_Q_B]    = VECTOR("self_attn.q_proj.bias", ARCH_LAYER, DIM_HEADS, ZERO),               \
    [LLAMA_K_B]    = VECTOR("self_attn.k_proj.bias", ARCH_LAYER, DIM_KEYS, ZERO),                \
    [LLAMA_V_B]    = VECTOR("self_attn.v_proj.bias", ARCH_LAYER, DIM_KEYS, ZERO),                \
    [LLAMA_Q_NORM] = VECTOR("self_attn.q_norm.weight", ARCH_LAYER, DIM_HEAD, one),               \
    [LLAMA_K_NORM] = VECTOR("self_attn.k_norm.weight", ARCH_LAYER, DIM_HEAD, one),               \
    [LLAMA_O_W]    = MATRIX("self_attn.o_proj.weight", ARCH_LAYER, DIM_WIDTH, DIM_HEADS),        \
    [LLAMA_NORM_2] = VECTOR(norm_2, ARCH_LAYER, DIM_WIDTH, one),                                 \
    [LLAMA_GATE_W] = MATRIX("mlp.gate_proj.weight", ARCH_LAYER, DIM_INNER, DIM_WIDTH),           \
    [LLAMA_UP_W]   = MATRIX("mlp.up_proj.weight", ARCH_LAYER, DIM_INNER, DIM_WIDTH),             \
    [LLAMA_DOWN_W] = MATRIX("mlp.down_proj.weight", ARCH_LAYER, DIM_WIDTH, DIM_INNER),           \
    [LLAMA_POST_1] = VECTOR(post_1, ARCH_LAYER, DIM_WIDTH, one),                                 \
    [LLAMA_POST_2] = VECTOR("post_feedforward_layernorm.weight", ARCH_LAYER, DIM_WIDTH, one),    \
    [LLAMA_NORM]   = VECTOR("norm.weight", ARCH_FINAL, DIM_WIDTH, one),                          \
    [LLAMA_SCORE]  = { "score.weight", ARCH_FINAL, DIM_LABELS, DIM_WIDTH, ARCH_INIT_NORMAL,      \
                       .decay = 1, .outside = 1 },                                               \
    [LLAMA_HEAD]   = { "lm_head.weight", ARCH_OWN_HEAD, DIM_VOCAB, DIM_WIDTH, ARCH_INIT_NORMAL,  \
                       .decay = 1, .outside = 1 }
static const struct arch_param params[LLAMA_TENSORS] = {
    TABLE(ONE, "post_attention_layernorm.weight", "post_self_attn_layernorm.weight")
};
static const struct arch_param gemma_params[LLAMA_TENSORS] = {
    TABLE(ZERO, "pre_feedforward_layernorm.weight", "post_attention_layernorm.weight")
};

enum { QKV, O_PROJ, GATE_UP, DOWN, MATRICES };
static const struct arch_matrix matrices[MATRICES] = {
    [QKV]     = { { "qkv", "d_rms1", "d_qkv_w" }, LLAMA_Q_W, 3, LLAMA_Q_B, .out_rounded = 1 },
    [O_PROJ]  = { { "o_proj", "d_attn", "d_o_proj_w" }, LLAMA_O_W, 1, ARCH_NONE, .in_rounded = 1 },
    [GATE_UP] = { { "gate_up", "d_rms2", "d_gate_up_w" }, LLAMA_GATE_W, 2, ARCH_NONE,
                  .out_rounded = 1 },
    [DOWN]    = { { "down", "d_swiglu", "d_down_w" }, LLAMA_DOWN_W, 1, ARCH_NONE, 0, 0 },
};

/* The family's own arrays, per token: reciprocal roots of the two norms. With norms of queries and
 * keys: what these norms take, and the reciprocal roots of the heads. With norms behind attention
 * and the MLP: what these norms take, and their reciprocal roots. */
enum { RSTD_1 = ATTN_OWN, RAW, Q_RSTD, K_RSTD };
enum { RSTD_2 = MLP_OWN, GAVE_1, POST_RSTD_1, GAVE_2, POST_RSTD_2 };

static int has(const struct model_config *g, size_t t)
{
    switch (t) {
    case LLAMA_Q_B: case LLAMA_K_B: case LLAMA_V_B: return g->qkv_bias != 0;
    case LLAMA_Q_NORM: case LLAMA_K_NORM:           return g->qk_norm != 0;
    case LLAMA_POST_1: case LLAMA_POST_2:           return g->arch->post_norms;
    case LLAMA_HEAD:                                return g->untied && !arch_classifies(g);
    default:                                        return 1;
    }
}

/* ---- the embeddings ---- */

static struct embedding_piece piece_of(const struct embed *e)
{
    struct arch_words words = arch_words(&e->m->o.config, e->block);

    return (struct embedding_piece){ words.first, words.n };
}

static void embed(float *out, const struct embed *e)
{
    embedding_piece_forward(out, e->wire, e->m->o.dtype, piece_of(e), e->tokens, e->B * e->T,
                            e->m->o.config.n_embd);
}

static void embed_backward(float *grad, const float *dout, const struct embed *e)
{
    embedding_piece_backward(grad, dout, piece_of(e), e->tokens, e->B * e->T,
                             e->m->o.config.n_embd);
}

/* ---- a layer, forward ---- */

static struct rmsnorm norm_1(const struct layer *l)
{
    return model_rms(l->m, LLAMA_NORM_1, l->wire, l->n, l->x, l->attn.at[RSTD_1]);
}

static struct rmsnorm norm_2(const struct layer *l)
{
    return model_rms(l->m, LLAMA_NORM_2, l->wire, l->n, l->mlp.at[MLP_MID], l->mlp.at[RSTD_2]);
}

static struct rmsnorm post_1(const struct layer *l)
{
    return model_rms(l->m, LLAMA_POST_1, l->wire, l->n, l->mlp.at[GAVE_1], l->mlp.at[POST_RSTD_1]);
}

static struct rmsnorm post_2(const struct layer *l)
{
    return model_rms(l->m, LLAMA_POST_2, l->wire, l->n, l->mlp.at[GAVE_2], l->mlp.at[POST_RSTD_2]);
}

/* Heads of queries, or of keys, as the product computes them. */
static struct rmsnorm_heads heads_of(const struct layer *l, int keys)
{
    const struct model_config *g = &l->m->o.config;

    return (struct rmsnorm_heads){
        .n = l->n, .H = keys ? g->n_kv_head : g->n_head, .D = g->head_dim,
        .stride = arch_dim(g, DIM_QKV), .dt = l->m->o.dtype, .eps = g->norm_eps,
        .plus = g->arch->norm_plus,
        .x = model_at(l->m, l->attn.at[RAW], keys ? arch_dim(g, DIM_HEADS) : 0),
        .w = model_wire(l->m, l->wire, keys ? LLAMA_K_NORM : LLAMA_Q_NORM),
        .rstd = l->attn.at[keys ? K_RSTD : Q_RSTD] };
}

/* From RAW, normalises the heads of queries and keys, and copies values. */
static void heads_forward(const struct layer *l)
{
    const struct model_config *g = &l->m->o.config;
    size_t stride = arch_dim(g, DIM_QKV), heads = arch_dim(g, DIM_HEADS),
           keys = arch_dim(g, DIM_KEYS), bytes = keys * dtype_bytes(l->m->o.dtype);
    struct rmsnorm_heads q = heads_of(l, 0), k = heads_of(l, 1);

    rmsnorm_heads_forward(l->attn.at[ATTN_QKV], &q);
    rmsnorm_heads_forward(model_at(l->m, l->attn.at[ATTN_QKV], heads), &k);
    for (size_t i = 0; i < l->n; i++) {
        size_t at = i * stride + heads + keys;

        memcpy(model_at(l->m, l->attn.at[ATTN_QKV], at), model_at(l->m, l->attn.at[RAW], at),
               bytes);
    }
}

static void qkv_forward(const struct layer *l)
{
    struct rmsnorm norm = norm_1(l);
    int            normed = l->m->o.config.qk_norm != 0;

    rmsnorm_forward(l->w->ln, &norm);
    layer_product(l, QKV, l->attn.at[normed ? RAW : ATTN_QKV], l->w->ln);
    if (normed)
        heads_forward(l);
    layer_rotate(l, l->attn.at[ATTN_QKV], rope_forward);
}

/* x_mid = x + attn Wo'. Also computes rms_2(x_mid). */
static void mid_forward(const struct layer *l)
{
    struct rmsnorm norm = norm_2(l), post = post_1(l);

    if (l->m->o.config.arch->post_norms) {
        layer_product(l, O_PROJ, post.x, l->attn.at[ATTN_OUT]);
        rmsnorm_add(norm.x, l->x, &post);
        rmsnorm_forward(l->w->ln, &norm);
        return;
    }
    layer_product(l, O_PROJ, l->w->proj, l->attn.at[ATTN_OUT]);
    rmsnorm_residual(l->w->ln, l->x, l->w->proj, &norm);
}

static struct swiglu swiglu_of(const struct layer *l)
{
    size_t I = l->m->o.config.n_inner;

    return (struct swiglu){ .n = l->n, .F = I, .stride = 2 * I, .dt = l->m->o.dtype,
                            .form = l->m->o.config.arch->gates_gelu ? GLU_GELU : GLU_SILU,
                            .gate = l->mlp.at[MLP_FC],
                            .up = model_at(l->m, l->mlp.at[MLP_FC], I) };
}

/* x_out = x_mid + (silu(gate) up) Wdown'. */
static void out_forward(const struct layer *l)
{
    struct swiglu  swiglu = swiglu_of(l);
    struct rmsnorm post = post_2(l);

    swiglu_forward(l->w->act, &swiglu);
    if (l->m->o.config.arch->post_norms) {
        layer_product(l, DOWN, post.x, l->w->act);
        rmsnorm_add(l->x_out ? l->x_out : l->w->proj, l->mlp.at[MLP_MID], &post);
        return;
    }
    layer_product(l, DOWN, l->w->proj, l->w->act);
    residual_add(l->x_out, l->mlp.at[MLP_MID], l->w->proj, l->n * l->m->o.config.n_embd);
}

/* ---- a layer, backward ---- */

/* Computes a norm's dx and dw from the gradient of its rows, which is in w->proj. The same pass
 * writes the rows themselves to w->ln. narrowed: if not NULL, gets dx in the products' dtype. */
static void norm_backward(const struct layer *l, size_t weight, const struct rmsnorm *norm,
                          void *narrowed)
{
    rmsnorm_backward(&(struct rmsnorm_backward){
        .r = norm, .dout = l->w->proj, .dx = l->dx, .dw = layer_grad(l, weight),
        .narrowed = narrowed, .out = l->w->ln, .scratch = l->w->sums });
}

/* Returns the gradient of attention's or the MLP's output, in the products' dtype. On entry dx is
 * the gradient of the sum to which the output is added. */
static const void *gave_backward(const struct layer *l, size_t weight, const struct rmsnorm *post)
{
    void *narrowed = l->m->o.dtype == DT_F32 ? NULL : l->w->dy;

    rmsnorm_backward(&(struct rmsnorm_backward){
        .r = post, .dout = l->dx, .dx = l->w->proj, .fresh = 1, .dw = layer_grad(l, weight),
        .narrowed = narrowed, .scratch = l->w->sums });
    return narrowed ? narrowed : l->w->proj;
}

/* On entry dx is the gradient of x_out. Adds the gradient of x_mid through the MLP. */
static void mlp_backward(const struct layer *l)
{
    const struct acts_work *w = l->w;
    enum dtype              dt = l->m->o.dtype;
    struct rmsnorm          norm = norm_2(l), post = post_2(l);
    struct swiglu           swiglu = swiglu_of(l);
    const void             *dy = dt == DT_F32 ? (const void *)l->dx : w->dy;

    if (l->m->o.config.arch->post_norms)
        dy = gave_backward(l, LLAMA_POST_2, &post);
    else if (dt != DT_F32)
        convert(w->dy, dt, l->dx, DT_F32, l->n * l->m->o.config.n_embd);
    layer_back(l, DOWN, w->dact, dy);
    swiglu_backward(&(struct swiglu_backward){
        .s = &swiglu, .dout = w->dact, .out = w->act, .dgate = w->dfc,
        .dup = model_at(l->m, w->dfc, swiglu.F) });
    layer_gradient(l, DOWN, w->act, dy);

    layer_back(l, GATE_UP, w->proj, w->dfc);
    norm_backward(l, LLAMA_NORM_2, &norm, dt == DT_F32 ? NULL : w->dy);
    layer_gradient(l, GATE_UP, w->ln, w->dfc);
}

/* Computes dattn from dx, which is now the gradient of x_mid. */
static void mid_backward(const struct layer *l)
{
    struct rmsnorm post = post_1(l);
    const void    *dy = l->m->o.dtype == DT_F32 ? (const void *)l->dx : l->w->dy;

    if (l->m->o.config.arch->post_norms)
        dy = gave_backward(l, LLAMA_POST_1, &post);
    layer_back(l, O_PROJ, l->dattn, dy);
    layer_gradient(l, O_PROJ, l->attn.at[ATTN_OUT], dy);
}

/* Turns gradients of normalised heads into those of RAW. */
static void heads_backward(const struct layer *l)
{
    for (int keys = 0; keys < 2; keys++) {
        struct rmsnorm_heads heads = heads_of(l, keys);
        size_t at = keys ? arch_dim(&l->m->o.config, DIM_HEADS) : 0;

        rmsnorm_heads_backward(&(struct rmsnorm_heads_backward){
            .r = &heads, .d = model_at(l->m, l->dqkv, at),
            .dw = layer_grad(l, keys ? LLAMA_K_NORM : LLAMA_Q_NORM), .scratch = l->w->sums });
    }
}

/* Adds the gradient of x through attention to dx. */
static void qkv_backward(const struct layer *l)
{
    const struct model_config *g = &l->m->o.config;
    struct rmsnorm             norm = norm_1(l);

    layer_rotate(l, l->dqkv, rope_backward);
    if (g->qk_norm)
        heads_backward(l);
    if (g->qkv_bias) // the three biases stand one after the other
        colsum_add(layer_grad(l, LLAMA_Q_B), NULL, l->dqkv, l->m->o.dtype, l->n,
                   arch_dim(g, DIM_QKV), l->w->sums);
    layer_back(l, QKV, l->w->proj, l->dqkv);
    norm_backward(l, LLAMA_NORM_1, &norm, NULL);
    layer_gradient(l, QKV, l->w->ln, l->dqkv);
}

/* ---- the families ---- */

#define FAMILY(type, text, stem, own, table, kind)                                               \
    .name = type, .title = text, .class = stem "ForCausalLM",                                    \
    .classifier = own "ForSequenceClassification", .prefix = "model.", .layers = "layers",       \
    .passes = kind, .extras = { "*.rotary_emb.inv_freq", "lm_head.weight" },                     \
    .copies = { { "lm_head.weight", LLAMA_EMBED } },                                             \
    .params = table, .n_params = LLAMA_TENSORS, .has = has,                                      \
    .tokens = LLAMA_EMBED, .head = LLAMA_HEAD, .norm = LLAMA_NORM, .score = LLAMA_SCORE,         \
    .linear = 1, .rms = 1, .matrices = matrices, .n_matrices = MATRICES, .fc = GATE_UP,          \
    .adapted = "q_proj,v_proj",                                                                  \
    .arrays = {                                                                                  \
        [ACTS_ATTN] = { [ATTN_QKV] = { DIM_QKV, 0 }, [ATTN_OUT] = { DIM_HEADS, 0 },              \
                        [ATTN_LSE] = { DIM_HEAD_COUNT, 1 }, [RSTD_1] = { DIM_ONE, 1 },           \
                        [RAW] = { DIM_NORMED_QKV, 0 }, [Q_RSTD] = { DIM_NORMED_HEADS, 1 },       \
                        [K_RSTD] = { DIM_NORMED_KEYS, 1 } },                                     \
        [ACTS_MLP]  = { [MLP_FC] = { DIM_GATED, 0 }, [MLP_MID] = { DIM_WIDTH, 1 },               \
                        [RSTD_2] = { DIM_ONE, 1 }, [GAVE_1] = { DIM_POST, 1 },                   \
                        [POST_RSTD_1] = { DIM_POST_ONE, 1 }, [GAVE_2] = { DIM_POST, 1 },         \
                        [POST_RSTD_2] = { DIM_POST_ONE, 1 } },                                   \
    },                                                                                           \
    .settle = llama_settle, .check = llama_check,                                                \
    .embed_rows = embed, .embed_backward = embed_backward,                                       \
    .qkv = qkv_forward, .mid = mid_forward, .out = out_forward,                                  \
    .mlp_backward = mlp_backward, .mid_backward = mid_backward, .qkv_backward = qkv_backward

const struct arch llama_arch = { FAMILY("llama", "Llama", "Llama", "Llama", params, "llama"),
                                 .presets = llama_presets, .n_presets = LLAMA_PRESETS,
                                 .config_read = llama_config_read,
                                 .config_write = llama_config_write };
const struct arch mistral_arch = { FAMILY("mistral", "Mistral", "Mistral", "Mistral", params,
                                          "llama"),
                                   .config_read = llama_config_mistral,
                                   .config_write = llama_config_write_mistral };
const struct arch qwen2_arch = { FAMILY("qwen2", "Qwen2", "Qwen2", "Qwen2", params, "llama"),
                                 .presets = qwen2_presets, .n_presets = QWEN2_PRESETS,
                                 .config_read = llama_config_qwen2,
                                 .config_write = llama_config_write_qwen };
const struct arch qwen3_arch = { FAMILY("qwen3", "Qwen3", "Qwen3", "Qwen3", params, "llama"),
                                 .config_read = llama_config_qwen3,
                                 .config_write = llama_config_write_qwen };
const struct arch gemma3_arch = {
    FAMILY("gemma3_text", "Gemma 3", "Gemma3", "Gemma3Text", gemma_params, "gemma"),
    .norm_plus = 1, .post_norms = 1, .ends_normed = 1, .scales_embed = 1, .gates_gelu = 1,
    .presets = gemma3_presets, .n_presets = GEMMA3_PRESETS, .config_read = llama_config_gemma3,
    .config_write = llama_config_write_gemma3
};
