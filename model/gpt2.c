/* gpt2.c: GPT-2 (Radford et al. 2019): its table of parameters, in Hugging Face's order and under
 * its names, its matrices as Conv1D has them, (in, out), and its sizes. A language model's head is
 * tied to wte. */
#include "model/gpt2.h"

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

static void settle(struct model_config *g)
{
    g->n_kv_head = g->n_head;
    g->head_dim = g->n_head ? g->n_embd / g->n_head : 0;
    g->n_inner = 4 * g->n_embd;
}

const struct arch gpt2_arch = {
    .name = "gpt2", .title = "GPT-2", .layers = "h",
    .params = params, .n_params = GPT2_TENSORS,
    .presets = presets, .n_presets = sizeof presets / sizeof *presets,
    .embed = GPT2_WTE, .score = GPT2_SCORE_W, .settle = settle,
};
