/* gguf_names.c: one table of llama.cpp's names for each kind of family, and the ways in which
 * tensors are stored differently. Llama's and Mistral's queries and keys are permuted: llama.cpp
 * turns neighbours (2j, 2j + 1) in these models, and pairs (j, j + D/2) in all others. */
#include "model/file/gguf_names.h"

#include "model/family/gpt2.h"
#include "model/family/llama.h"

static const char *const gpt2_names[GPT2_TENSORS] = {
    [GPT2_WTE] = "token_embd.weight", [GPT2_WPE] = "position_embd.weight",
    [GPT2_LN1_W] = "attn_norm.weight", [GPT2_LN1_B] = "attn_norm.bias",
    [GPT2_QKV_W] = "attn_qkv.weight", [GPT2_QKV_B] = "attn_qkv.bias",
    [GPT2_ATTN_PROJ_W] = "attn_output.weight", [GPT2_ATTN_PROJ_B] = "attn_output.bias",
    [GPT2_LN2_W] = "ffn_norm.weight", [GPT2_LN2_B] = "ffn_norm.bias",
    [GPT2_FC_W] = "ffn_up.weight", [GPT2_FC_B] = "ffn_up.bias",
    [GPT2_MLP_PROJ_W] = "ffn_down.weight", [GPT2_MLP_PROJ_B] = "ffn_down.bias",
    [GPT2_LNF_W] = "output_norm.weight", [GPT2_LNF_B] = "output_norm.bias",
};

/* The tensors that a model lacks have no size, so one table serves Llama, Qwen and Gemma. */
static const char *const llama_names[LLAMA_TENSORS] = {
    [LLAMA_EMBED] = "token_embd.weight", [LLAMA_NORM_1] = "attn_norm.weight",
    [LLAMA_Q_W] = "attn_q.weight", [LLAMA_K_W] = "attn_k.weight", [LLAMA_V_W] = "attn_v.weight",
    [LLAMA_Q_B] = "attn_q.bias", [LLAMA_K_B] = "attn_k.bias", [LLAMA_V_B] = "attn_v.bias",
    [LLAMA_Q_NORM] = "attn_q_norm.weight", [LLAMA_K_NORM] = "attn_k_norm.weight",
    [LLAMA_O_W] = "attn_output.weight", [LLAMA_NORM_2] = "ffn_norm.weight",
    [LLAMA_GATE_W] = "ffn_gate.weight", [LLAMA_UP_W] = "ffn_up.weight",
    [LLAMA_DOWN_W] = "ffn_down.weight", [LLAMA_POST_1] = "post_attention_norm.weight",
    [LLAMA_POST_2] = "post_ffw_norm.weight", [LLAMA_NORM] = "output_norm.weight",
    [LLAMA_HEAD] = "output.weight",
};

/* llama.cpp has one architecture for Llama and Mistral. */
static const struct gguf_family families[] = {
    { &gpt2_arch, "gpt2", gpt2_names, 0 },
    { &llama_arch, "llama", llama_names, 1 },
    { &mistral_arch, "llama", llama_names, 1 },
    { &qwen2_arch, "qwen2", llama_names, 0 },
    { &qwen3_arch, "qwen3", llama_names, 0 },
    { &gemma3_arch, "gemma3", llama_names, 0 },
};
enum { FAMILIES = sizeof families / sizeof *families };

const struct gguf_family *gguf_family_at(size_t i) { return i < FAMILIES ? &families[i] : NULL; }

const struct gguf_family *gguf_family_of(const struct arch *arch)
{
    size_t i = 0;

    while (i < FAMILIES && families[i].arch != arch)
        i++;
    return gguf_family_at(i);
}

const struct gguf_family *gguf_family_named(const char *name, size_t n)
{
    size_t i = 0;

    while (i < FAMILIES &&
           !(strlen(families[i].name) == n && !memcmp(families[i].name, name, n)))
        i++;
    return gguf_family_at(i);
}

void gguf_name(char out[GGUF_NAME], const struct model_config *g, size_t block, size_t t)
{
    const char *name = gguf_family_of(g->arch)->tensors[t];

    if (arch_param(g, t)->block == ARCH_LAYER)
        snprintf(out, GGUF_NAME, "blk.%zu.%s", arch_layer(g, block) - 1, name);
    else
        snprintf(out, GGUF_NAME, "%s", name);
}

enum gguf_rows gguf_rows(const struct model_config *g, size_t t)
{
    if (gguf_family_of(g->arch)->interleaves && (t == LLAMA_Q_W || t == LLAMA_K_W))
        return GGUF_ROWS_INTERLEAVED;
    return g->arch == &gpt2_arch && arch_param(g, t)->block == ARCH_LAYER && !arch_is_vector(g, t)
               ? GGUF_ROWS_TRANSPOSED
               : GGUF_ROWS_PLAIN;
}

size_t gguf_row_ours(const struct model_config *g, size_t r)
{
    size_t in = r % g->head_dim;

    return r - in + in % 2 * (g->head_dim / 2) + in / 2;
}

size_t gguf_row_theirs(const struct model_config *g, size_t r)
{
    size_t in = r % g->head_dim, half = g->head_dim / 2;

    return r - in + in % half * 2 + in / half;
}

float gguf_plus(const struct model_config *g, size_t t)
{
    return arch_is_vector(g, t) ? g->arch->norm_plus : 0;
}

enum gguf_type gguf_type_of(const struct model_config *g, size_t t, enum gguf_type wanted)
{
    uint64_t dims[2];

    if (gguf_dims(dims, g, t) == 1 || (g->arch == &gpt2_arch && t == GPT2_WPE))
        return GGUF_TYPE_F32;
    return gguf_type_for(wanted, dims[0]);
}

int gguf_dims(uint64_t dims[2], const struct model_config *g, size_t t)
{
    int turned = gguf_rows(g, t) == GGUF_ROWS_TRANSPOSED;

    dims[0] = turned ? arch_rows(g, t) : arch_cols(g, t);
    dims[1] = turned ? arch_cols(g, t) : arch_rows(g, t);
    return arch_is_vector(g, t) ? 1 : 2;
}
