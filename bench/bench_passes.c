/* bench_passes.c: read off the families' files (gpt2.c, llama.c, bert.c) and the two ends that they
 * share (head.c, head_pieces.c). Dropout is none, and nothing is computed again. */
#include "bench/bench_passes.h"

/* ---- what not all models have ---- */

static int narrow(const struct model_config *g, enum dtype dt)
{
    (void)g;
    return dt != DT_F32;
}

static int normed(const struct model_config *g, enum dtype dt)
{
    (void)dt;
    return g->qk_norm != 0;
}

static int biased(const struct model_config *g, enum dtype dt)
{
    (void)dt;
    return g->qkv_bias != 0;
}

static int shares(const struct model_config *g, enum dtype dt)
{
    (void)dt;
    return g->n_kv_head < g->n_head;
}

static int shares_not(const struct model_config *g, enum dtype dt) { return !shares(g, dt); }

static int pieces(const struct model_config *g, enum dtype dt)
{
    (void)dt;
    return arch_pieces(g) > 1;
}

static int whole(const struct model_config *g, enum dtype dt) { return !pieces(g, dt); }

/* ---- the families' ---- */

static const struct pass gpt2[] = {
    {"attention forward", PASS_LAYER, 1, 0, NULL},
    {"attention backward", PASS_LAYER, 1, 0, NULL},
    {"layernorm forward", PASS_CHUNK, 1, 1, NULL},
    {"residual and layernorm", PASS_CHUNK, 1, 0, NULL},
    {"gelu forward", PASS_CHUNK, 1, 0, NULL},
    {"residual", PASS_CHUNK, 1, 0, NULL},
    {"sum of columns, rounding", PASS_CHUNK, 1, 0, NULL},
    {"gelu backward and sums", PASS_CHUNK, 1, 0, NULL},
    {"layernorm backward, rows, sums", PASS_CHUNK, 1, 0, NULL},
    {"sum of columns", PASS_CHUNK, 1, 0, NULL},
    {"layernorm backward, rows", PASS_CHUNK, 1, 0, NULL},
    {"layernorm backward", PASS_CHUNK, 0, 1, NULL},
    {"softmax, loss and gradient", PASS_LOGITS, 1, 0, NULL},
    {"embedding forward", PASS_BATCH, 1, 0, NULL},
    {"embedding backward", PASS_BATCH, 1, 0, NULL},
    {"sum of squares", PASS_PARAMS, 1, 0, NULL},
    {"AdamW and rounding", PASS_PARAMS, 1, 0, NULL},
    {0}
};

#define CAUSAL                                                                                   \
    {"attention forward", PASS_LAYER, 1, 0, shares_not},                                         \
    {"attention backward", PASS_LAYER, 1, 0, shares_not},                                        \
    {"grouped attention forward", PASS_LAYER, 1, 0, shares},                                     \
    {"grouped attention backward", PASS_LAYER, 1, 0, shares},                                    \
    {"windowed attention forward", PASS_WINDOW, 1, 0, NULL},                                     \
    {"windowed attention backward", PASS_WINDOW, 1, 0, NULL},                                    \
    {"rmsnorm of heads", PASS_CHUNK, 1, 0, normed},                                              \
    {"rmsnorm of heads, backward", PASS_CHUNK, 1, 0, normed},                                    \
    {"rope forward", PASS_CHUNK, 1, 0, NULL},                                                    \
    {"rope backward", PASS_CHUNK, 1, 0, NULL},                                                   \
    {"sum of columns", PASS_CHUNK, 1, 0, biased}
#define WORDS                                                                                    \
    {"softmax, loss and gradient", PASS_LOGITS, 1, 0, whole},                                    \
    {"softmax of a piece", PASS_LOGITS, 1, 0, pieces},                                           \
    {"rows of a piece, added", PASS_LOGITS, 1, 0, pieces},                                       \
    {"gradient of a piece", PASS_LOGITS, 1, 0, pieces},                                          \
    {"embedding, no positions", PASS_BATCH, 1, 0, NULL},                                         \
    {"embedding backward, no positions", PASS_BATCH, 1, 0, NULL},                                \
    {"sum of squares", PASS_PARAMS, 1, 0, NULL},                                                 \
    {"AdamW and rounding", PASS_PARAMS, 1, 0, NULL},                                             \
    {0}

static const struct pass llama[] = {
    CAUSAL,
    {"rmsnorm forward", PASS_CHUNK, 1, 1, NULL},
    {"residual and rmsnorm", PASS_CHUNK, 1, 0, NULL},
    {"swiglu forward", PASS_CHUNK, 1, 0, NULL},
    {"residual", PASS_CHUNK, 1, 0, NULL},
    {"convert to bf16", PASS_CHUNK, 1, 0, narrow},
    {"swiglu backward", PASS_CHUNK, 1, 0, NULL},
    {"rmsnorm backward, rows, rounding", PASS_CHUNK, 1, 0, NULL},
    {"rmsnorm backward, rows", PASS_CHUNK, 1, 0, NULL},
    {"rmsnorm backward", PASS_CHUNK, 0, 1, NULL},
    WORDS
};

static const struct pass gemma[] = {
    CAUSAL,
    {"rmsnorm (1 + w) forward", PASS_CHUNK, 2, 1, NULL},
    {"rmsnorm (1 + w) and sum", PASS_CHUNK, 2, 0, NULL},
    {"geglu forward", PASS_CHUNK, 1, 0, NULL},
    {"geglu backward", PASS_CHUNK, 1, 0, NULL},
    {"rmsnorm (1 + w) backward, written", PASS_CHUNK, 2, 0, NULL},
    {"rmsnorm (1 + w) backward, rows", PASS_CHUNK, 2, 0, NULL},
    {"rmsnorm (1 + w) backward", PASS_CHUNK, 0, 1, NULL},
    {"scaling of embeddings", PASS_BATCH, 2, 0, NULL},
    WORDS
};

static const struct pass bert[] = {
    {"bidirectional attention forward", PASS_LAYER, 1, 0, NULL},
    {"bidirectional attention backward", PASS_LAYER, 1, 0, NULL},
    {"convert to bf16", PASS_CHUNK, 2, 0, narrow}, // a layer's input, again in backward
    {"residual and layernorm", PASS_CHUNK, 1, 0, NULL},
    {"layernorm apply, wide", PASS_CHUNK, 1, 0, NULL},
    {"gelu (erf) forward", PASS_CHUNK, 1, 0, NULL},
    {"residual", PASS_CHUNK, 3, 0, NULL},
    {"layernorm forward, wide", PASS_CHUNK, 1, 1, NULL}, // the embeddings'
    {"layernorm backward, written", PASS_CHUNK, 2, 1, NULL},
    {"copy", PASS_CHUNK, 2, 2, NULL},
    {"gelu (erf) backward", PASS_CHUNK, 1, 0, NULL},
    {"layernorm apply", PASS_CHUNK, 1, 0, NULL},
    {"sum of columns", PASS_CHUNK, 1, 0, NULL},
    {"layernorm forward", PASS_CHUNK, 0, 1, NULL}, // the embeddings', again in backward
    {"softmax, loss and gradient", PASS_LOGITS, 1, 0, NULL},
    {"sum of columns of logits", PASS_LOGITS, 1, 0, NULL},
    {"embedding forward", PASS_BATCH, 2, 0, NULL}, // again in backward
    {"embedding of types", PASS_BATCH, 2, 0, NULL},
    {"embedding backward", PASS_BATCH, 1, 0, NULL},
    {"embedding of types, backward", PASS_BATCH, 1, 0, NULL},
    {"sum of squares", PASS_PARAMS, 1, 0, NULL},
    {"AdamW and rounding", PASS_PARAMS, 1, 0, NULL},
    {0}
};

struct pass passes_at(const struct model_config *g, enum dtype dt, size_t i)
{
    const struct pass *p = g->arch->encoder      ? bert
                           : g->arch->post_norms ? gemma
                           : g->arch->rms        ? llama
                                                 : gpt2;

    for (; p->kernel; p++)
        if ((!p->when || p->when(g, dt)) && i-- == 0)
            break;
    return *p;
}
