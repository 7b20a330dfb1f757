/* gpt2.c: defines GPT-2 (Radford et al. 2019): its parameters, config.json and arithmetic. The
 * parameter table has Hugging Face's order and names. Matrices are (in, out), as in Conv1D. A
 * language model's head is tied to wte. A layer is pre-norm:
 *
 *     x_mid = x     + attention(ln_1(x) Wqkv + bqkv) Wproj + bproj
 *     x_out = x_mid + gelu(ln_2(x_mid) Wfc + bfc) Wmlp + bmlp
 *
 * Normalised rows and GELU's output are not saved; backward recomputes them from saved arrays.
 * Dropout follows the embeddings. It also applies to attention's probabilities, and to both
 * projections before the residual addition. */
#include "model/family/gpt2.h"

#include "kernels/elementwise.h"
#include "kernels/rows/gelu.h"
#include "model/layer/layer.h"

static const struct arch_param params[GPT2_TENSORS] = {
#define VECTOR(text, kind, cols, init) { text, kind, DIM_ONE, cols, ARCH_INIT_##init, 0, 0 }
#define MATRIX(text, kind, rows, cols, init) { text, kind, rows, cols, ARCH_INIT_##init, 1, 0 }
    [GPT2_WTE]         = MATRIX("wte.weight", ARCH_EMBEDDINGS, DIM_VOCAB, DIM_WIDTH, NORMAL),
    [GPT2_WPE]         = MATRIX("wpe.weight", ARCH_EMBEDDINGS, DIM_POSITIONS, DIM_WIDTH, NORMAL),
    [GPT2_LN1_W]       = VECTOR("ln_1.weight", ARCH_LAYER, DIM_WIDTH, ONE),
    [GPT2_LN1_B]       = VECTOR("ln_1.bias", ARCH_LAYER, DIM_WIDTH, ZERO),
    [GPT2_QKV_W]       = MATRIX("attn.c_attn.weight", ARCH_LAYER, DIM_WIDTH, DIM_QKV, NORMAL),
    [GPT2_QKV_B]       = VECTOR("attn.c_attn.bias", ARCH_LAYER, DIM_QKV, ZERO),
    [GPT2_ATTN_PROJ_W] = MATRIX("attn.c_proj.weight", ARCH_LAYER, DIM_HEADS, DIM_WIDTH, RESIDUAL),
    [GPT2_ATTN_PROJ_B] = VECTOR("attn.c_proj.bias", ARCH_LAYER, DIM_WIDTH, ZERO),
    [GPT2_LN2_W]       = VECTOR("ln_2.weight", ARCH_LAYER, DIM_WIDTH, ONE),
    [GPT2_LN2_B]       = VECTOR("ln_2.bias", ARCH_LAYER, DIM_WIDTH, ZERO),
    [GPT2_FC_W]        = MATRIX("mlp.c_fc.weight", ARCH_LAYER, DIM_WIDTH, DIM_INNER, NORMAL),
    [GPT2_FC_B]        = VECTOR("mlp.c_fc.bias", ARCH_LAYER, DIM_INNER, ZERO),
    [GPT2_MLP_PROJ_W]  = MATRIX("mlp.c_proj.weight", ARCH_LAYER, DIM_INNER, DIM_WIDTH, RESIDUAL),
    [GPT2_MLP_PROJ_B]  = VECTOR("mlp.c_proj.bias", ARCH_LAYER, DIM_WIDTH, ZERO),
    [GPT2_LNF_W]       = VECTOR("ln_f.weight", ARCH_FINAL, DIM_WIDTH, ONE),
    [GPT2_LNF_B]       = VECTOR("ln_f.bias", ARCH_FINAL, DIM_WIDTH, ZERO),
    // as torch's Linear: (out, in)
    [GPT2_SCORE_W]     = { "score.weight", ARCH_FINAL, DIM_LABELS, DIM_WIDTH, ARCH_INIT_NORMAL,
                           .decay = 1, .outside = 1 },
#undef VECTOR
#undef MATRIX
};

#define SIZES(layers, heads, width) { .n_layer = layers, .n_head = heads, .n_embd = width, \
                                      .vocab = 50257, .n_positions = 1024, .norm_eps = 1e-5f }
static const struct arch_preset presets[] = {
    { "gpt2",        SIZES(12, 12,  768) },
    { "gpt2-medium", SIZES(24, 16, 1024) },
    { "gpt2-large",  SIZES(36, 20, 1280) },
    { "gpt2-xl",     SIZES(48, 25, 1600) },
    { "gpt2-2.7b",   SIZES(32, 32, 2560) },
};

enum { QKV, ATTN_PROJ, FC, MLP_PROJ, MATRICES };
static const struct arch_matrix matrices[MATRICES] = {
    [QKV]       = { { "qkv", "d_ln1", "d_qkv_w" }, GPT2_QKV_W, 1, GPT2_QKV_B, .out_rounded = 1 },
    [ATTN_PROJ] = { { "attn_proj", "d_attn", "d_attn_proj_w" },
                    GPT2_ATTN_PROJ_W, 1, GPT2_ATTN_PROJ_B, .in_rounded = 1 },
    [FC]        = { { "fc", "d_ln2", "d_fc_w" }, GPT2_FC_W, 1, GPT2_FC_B, .out_rounded = 1 },
    [MLP_PROJ]  = { { "mlp_proj", "d_gelu", "d_mlp_proj_w" },
                    GPT2_MLP_PROJ_W, 1, GPT2_MLP_PROJ_B, 0, 0 },
};

/* The family's own arrays: each token's mean and reciprocal deviation. */
enum { LN1_MEAN = ATTN_OWN, LN1_RSTD };
enum { LN2_MEAN = MLP_OWN, LN2_RSTD };

static void settle(struct model_config *g)
{
    g->n_kv_head = g->n_head;
    g->head_dim = g->n_head ? g->n_embd / g->n_head : 0;
    g->n_inner = 4 * g->n_embd;
    g->window = g->global_every = g->untied = g->qkv_bias = g->qk_norm = 0;
    g->rope = (struct rope){ 0 };
}

static int check(const struct model_config *g, struct err *err)
{
    if (g->n_head == 0 || g->n_embd % g->n_head != 0)
        return err_misuse(err, "the width %zu is not divisible by %zu heads", g->n_embd, g->n_head);
    return 0;
}

/* ---- config.json ---- */

/* Checks keys that may be absent or null, but otherwise must have the one supported value. */
static int config_variants(const struct model_config *g, const struct hf_keys *k, struct err *err)
{
    static const struct { const char *key; int value; } flags[] = {
        { "scale_attn_weights", 1 }, { "scale_attn_by_inverse_layer_idx", 0 },
        { "add_cross_attention", 0 }, { "tie_word_embeddings", 1 },
    };
    const json_t *inner = json_object_get(k->config, "n_inner");
    int rc = hf_key_word("gelu_new", "gelu_pytorch_tanh", k, "activation_function", err);

    for (size_t i = 0; !rc && i < sizeof flags / sizeof *flags; i++)
        rc = hf_key_must(flags[i].value, k, flags[i].key, "GPT-2", err);
    if (!rc && hf_key_has(k, "n_inner") && json_integer_value(inner) != (json_int_t)(4 * g->n_embd))
        rc = err_misuse(err, "%s: \"n_inner\" must be null or 4 x n_embd = %zu", k->path,
                        4 * g->n_embd);
    return rc;
}

/* Reads sizes and dropout. If the folder gives no dropout, transformers' default holds. */
static int config_read(struct model_config *g, const struct hf_keys *k, struct err *err)
{
    const char *positions = json_object_get(k->config, "n_positions") ? "n_positions" : "n_ctx";
    const struct { const char *key; size_t *size; float *rate; } keys[] = {
        { "n_layer", &g->n_layer, NULL }, { "n_head", &g->n_head, NULL },
        { "n_embd", &g->n_embd, NULL }, { "vocab_size", &g->vocab, NULL },
        { positions, &g->n_positions, NULL }, { "embd_pdrop", NULL, &g->drop_embd },
        { "attn_pdrop", NULL, &g->drop_attn }, { "resid_pdrop", NULL, &g->drop_resid },
    };
    int rc = 0;

    for (size_t i = 0; !rc && i < sizeof keys / sizeof *keys; i++)
        rc = keys[i].size ? hf_key_size(keys[i].size, k, keys[i].key, err)
                          : hf_key_rate(keys[i].rate, 0.1f, k, keys[i].key, err);
    rc = rc ? rc : hf_key_epsilon(&g->norm_eps, 1e-5f, k, "layer_norm_epsilon", err);
    return rc ? rc : config_variants(g, k, err);
}

/* n_ctx: an older name of n_positions, which llama.cpp's converter reads. */
static json_t *config_write(const struct model_config *g)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:n, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:b}",
                     "activation_function", "gelu_new", "n_layer", (json_int_t)g->n_layer,
                     "n_head", (json_int_t)g->n_head, "n_embd", (json_int_t)g->n_embd, "n_inner",
                     "vocab_size", (json_int_t)g->vocab, "n_positions", (json_int_t)g->n_positions,
                     "n_ctx", (json_int_t)g->n_positions, "layer_norm_epsilon",
                     hf_decimal(g->norm_eps), "initializer_range", 0.02, "attn_pdrop",
                     hf_decimal(g->drop_attn), "embd_pdrop", hf_decimal(g->drop_embd),
                     "resid_pdrop", hf_decimal(g->drop_resid),
                     "scale_attn_weights", 1, "tie_word_embeddings", 1);
}

/* ---- the embeddings ---- */

static void embed(float *out, const struct embed *e)
{
    layer_embed(out, e, GPT2_WTE, GPT2_WPE);
}

static void embed_backward(float *grad, const float *dout, const struct embed *e)
{
    layer_embed_backward(grad, dout, e, GPT2_WTE, GPT2_WPE);
}

/* ---- a layer, forward ---- */

static struct layernorm norm_1(const struct layer *l)
{
    return model_norm(l->m, GPT2_LN1_W, l->wire, l->n, l->x, l->attn.at[LN1_MEAN],
                      l->attn.at[LN1_RSTD]);
}

static struct layernorm norm_2(const struct layer *l)
{
    return model_norm(l->m, GPT2_LN2_W, l->wire, l->n, l->mlp.at[MLP_MID], l->mlp.at[LN2_MEAN],
                      l->mlp.at[LN2_RSTD]);
}

/* qkv = ln_1(x) Wqkv + bqkv. */
static void qkv_forward(const struct layer *l)
{
    struct layernorm norm = norm_1(l);

    layernorm_forward(l->w->ln, &norm);
    layer_product(l, QKV, l->attn.at[ATTN_QKV], l->w->ln);
}

/* x_mid = x + attn Wproj + bproj. Also computes ln_2(x_mid). */
static void mid_forward(const struct layer *l)
{
    struct layernorm norm = norm_2(l);

    layer_proj(l, ATTN_PROJ, l->attn.at[ATTN_OUT], &l->drop_attn_proj);
    layernorm_residual(l->w->ln, l->x, l->w->proj, &norm);
}

/* x_out = x_mid + gelu(fc) Wmlp + bmlp. */
static void out_forward(const struct layer *l)
{
    const struct model_config *g = &l->m->o.config;

    gelu_forward(l->w->act, l->mlp.at[MLP_FC], l->m->o.dtype, l->n * g->n_inner);
    layer_proj(l, MLP_PROJ, l->w->act, &l->drop_mlp_proj);
    residual_add(l->x_out, l->mlp.at[MLP_MID], l->w->proj, l->n * g->n_embd);
}

/* ---- a layer, backward ---- */

/* Computes a norm's dx, dw and db from the gradient of its rows, which is in w->proj. The same pass
 * writes the rows themselves to w->ln. `more` has further outputs. */
static void norm_backward(const struct layer *l, size_t weight, const struct layernorm *norm,
                          struct layernorm_backward more)
{
    more.l = norm;
    more.dout = l->w->proj;
    more.dx = l->dx;
    more.dw = layer_grad(l, weight);
    more.db = layer_grad(l, weight + 1);
    more.out = l->w->ln;
    more.scratch = l->w->sums;
    layernorm_backward(&more);
}

/* On entry dx is the gradient of x_out. Adds the gradient of x_mid through the MLP. */
static void mlp_backward(const struct layer *l)
{
    const struct acts_work *w = l->w;
    enum dtype              dt = l->m->o.dtype;
    struct layernorm        norm = norm_2(l);
    // dy may be w->proj, which is overwritten below.
    const void *dy = layer_proj_back(l, GPT2_MLP_PROJ_B, &l->drop_mlp_proj);

    layer_back(l, MLP_PROJ, w->dact, dy);
    gelu_backward(&(struct gelu_backward){
        .n = l->n, .C = l->m->o.config.n_inner, .dt = dt, .x = l->mlp.at[MLP_FC],
        .dout = w->dact, .out = w->act, .dx = w->dfc, .db = layer_grad(l, GPT2_FC_B),
        .scratch = w->sums });
    layer_gradient(l, MLP_PROJ, w->act, dy);

    layer_back(l, FC, w->proj, w->dfc);
    if (l->drop_attn_proj.p > 0)
        norm_backward(l, GPT2_LN2_W, &norm, (struct layernorm_backward){ 0 });
    else // attention's projection needs dx rounded, and its column sums: the same pass makes both
        norm_backward(l, GPT2_LN2_W, &norm, (struct layernorm_backward){
            .dx_sums = layer_grad(l, GPT2_ATTN_PROJ_B), .narrowed = dt == DT_F32 ? NULL : w->dy });
    layer_gradient(l, FC, w->ln, w->dfc);
}

/* Computes dattn from dx, which is now the gradient of x_mid. */
static void mid_backward(const struct layer *l)
{
    const void *dy = l->m->o.dtype == DT_F32 ? (const void *)l->dx : l->w->dy;

    if (l->drop_attn_proj.p > 0)
        dy = layer_proj_back(l, GPT2_ATTN_PROJ_B, &l->drop_attn_proj);
    layer_back(l, ATTN_PROJ, l->dattn, dy);
    layer_gradient(l, ATTN_PROJ, l->attn.at[ATTN_OUT], dy);
}

/* Adds the gradient of x through attention to dx. */
static void qkv_backward(const struct layer *l)
{
    const struct acts_work *w = l->w;
    struct layernorm        norm = norm_1(l);

    colsum_add(layer_grad(l, GPT2_QKV_B), NULL, l->dqkv, l->m->o.dtype, l->n,
               arch_dim(&l->m->o.config, DIM_QKV), w->sums);
    layer_back(l, QKV, w->proj, l->dqkv);
    norm_backward(l, GPT2_LN1_W, &norm, (struct layernorm_backward){ 0 });
    layer_gradient(l, QKV, w->ln, l->dqkv);
}

const struct arch gpt2_arch = {
    .name = "gpt2", .title = "GPT-2", .class = "GPT2LMHeadModel",
    .classifier = "GPT2ForSequenceClassification", .prefix = "transformer.", .layers = "h",
    .passes = "gpt2",
    .extras = { "*.attn.bias", "*.attn.masked_bias", "lm_head.weight" }, // masks; a copy of the
                                                                         // head
    .copies = { { "lm_head.weight", GPT2_WTE } },
    .config_read = config_read, .config_write = config_write,
    .params = params, .n_params = GPT2_TENSORS,
    .presets = presets, .n_presets = sizeof presets / sizeof *presets,
    .tokens = GPT2_WTE, .norm = GPT2_LNF_W, .score = GPT2_SCORE_W,
    .matrices = matrices, .n_matrices = MATRICES, .fc = FC, .adapted = "c_attn",
    .arrays = {
        [ACTS_ATTN] = { [ATTN_QKV] = { DIM_QKV, 0 }, [ATTN_OUT] = { DIM_HEADS, 0 },
                        [ATTN_LSE] = { DIM_HEAD_COUNT, 1 },
                        [LN1_MEAN] = { DIM_ONE, 1 }, [LN1_RSTD] = { DIM_ONE, 1 } },
        [ACTS_MLP]  = { [MLP_FC] = { DIM_INNER, 0 }, [MLP_MID] = { DIM_WIDTH, 1 },
                        [LN2_MEAN] = { DIM_ONE, 1 }, [LN2_RSTD] = { DIM_ONE, 1 } },
    },
    .settle = settle, .check = check, .drops = 1,
    .embed_rows = embed, .embed_backward = embed_backward,
    .qkv = qkv_forward, .mid = mid_forward, .out = out_forward,
    .mlp_backward = mlp_backward, .mid_backward = mid_backward, .qkv_backward = qkv_backward,
};
