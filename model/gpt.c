/* gpt.c: the one table of GPT-2's parameters and everything that follows from it alone: sizes,
 * offsets, initial values, ranges of weight decay. Order and names are Hugging Face's; a block is a
 * flat range without gaps. */
#include "model/gpt.h"

#include "data/base/round.h"
#include "kernels/rng.h"

#include <assert.h>
#include <math.h>

const struct gpt_param gpt_params[GPT_TENSORS] = {
    [GPT_WTE]         = { "wte.weight",         GPT_EMBEDDINGS, 'V', 'C', GPT_INIT_NORMAL,   1 },
    [GPT_WPE]         = { "wpe.weight",         GPT_EMBEDDINGS, 'P', 'C', GPT_INIT_NORMAL,   1 },
    [GPT_LN1_W]       = { "ln_1.weight",        GPT_LAYER,      '1', 'C', GPT_INIT_ONE,      0 },
    [GPT_LN1_B]       = { "ln_1.bias",          GPT_LAYER,      '1', 'C', GPT_INIT_ZERO,     0 },
    [GPT_QKV_W]       = { "attn.c_attn.weight", GPT_LAYER,      'C', '3', GPT_INIT_NORMAL,   1 },
    [GPT_QKV_B]       = { "attn.c_attn.bias",   GPT_LAYER,      '1', '3', GPT_INIT_ZERO,     0 },
    [GPT_ATTN_PROJ_W] = { "attn.c_proj.weight", GPT_LAYER,      'C', 'C', GPT_INIT_RESIDUAL, 1 },
    [GPT_ATTN_PROJ_B] = { "attn.c_proj.bias",   GPT_LAYER,      '1', 'C', GPT_INIT_ZERO,     0 },
    [GPT_LN2_W]       = { "ln_2.weight",        GPT_LAYER,      '1', 'C', GPT_INIT_ONE,      0 },
    [GPT_LN2_B]       = { "ln_2.bias",          GPT_LAYER,      '1', 'C', GPT_INIT_ZERO,     0 },
    [GPT_FC_W]        = { "mlp.c_fc.weight",    GPT_LAYER,      'C', '4', GPT_INIT_NORMAL,   1 },
    [GPT_FC_B]        = { "mlp.c_fc.bias",      GPT_LAYER,      '1', '4', GPT_INIT_ZERO,     0 },
    [GPT_MLP_PROJ_W]  = { "mlp.c_proj.weight",  GPT_LAYER,      '4', 'C', GPT_INIT_RESIDUAL, 1 },
    [GPT_MLP_PROJ_B]  = { "mlp.c_proj.bias",    GPT_LAYER,      '1', 'C', GPT_INIT_ZERO,     0 },
    [GPT_LNF_W]       = { "ln_f.weight",        GPT_FINAL,      '1', 'C', GPT_INIT_ONE,      0 },
    [GPT_LNF_B]       = { "ln_f.bias",          GPT_FINAL,      '1', 'C', GPT_INIT_ZERO,     0 },
    // as torch's Linear: (out, in)
    [GPT_SCORE_W]     = { "score.weight",       GPT_FINAL,      'L', 'C', GPT_INIT_NORMAL,   1 },
};

static const struct { const char *name; size_t n_layer, n_head, n_embd; } presets[] = {
    { "gpt2",        12, 12,  768 },
    { "gpt2-medium", 24, 16, 1024 },
    { "gpt2-large",  36, 20, 1280 },
    { "gpt2-xl",     48, 25, 1600 },
    { "gpt2-2.7b",   32, 32, 2560 },
};

enum gpt_block_kind gpt_block_kind(const struct gpt_config *g, size_t block)
{
    assert(block < gpt_blocks(g));
    return block == 0 ? GPT_EMBEDDINGS : block <= g->n_layer ? GPT_LAYER : GPT_FINAL;
}

static size_t dimension(const struct gpt_config *g, char letter)
{
    switch (letter) {
    case 'V': return g->vocab;
    case 'P': return g->n_positions;
    case 'C': return g->n_embd;
    case '3': return 3 * g->n_embd;
    case '4': return 4 * g->n_embd;
    case 'L': return g->n_labels;
    default:  return 1;
    }
}

size_t gpt_rows(const struct gpt_config *g, enum gpt_tensor t)
{
    return dimension(g, gpt_params[t].rows);
}

size_t gpt_cols(const struct gpt_config *g, enum gpt_tensor t)
{
    return dimension(g, gpt_params[t].cols);
}

size_t gpt_size(const struct gpt_config *g, enum gpt_tensor t)
{
    return gpt_rows(g, t) * gpt_cols(g, t);
}

size_t gpt_offset(const struct gpt_config *g, enum gpt_tensor t)
{
    size_t offset = 0;

    for (enum gpt_tensor i = 0; i < t; i++)
        if (gpt_params[i].block == gpt_params[t].block)
            offset += gpt_size(g, i);
    return offset;
}

void gpt_block_tensors(const struct gpt_config *g, size_t block, enum gpt_tensor *first,
                       enum gpt_tensor *end)
{
    enum gpt_block_kind kind = gpt_block_kind(g, block);

    *first = kind == GPT_EMBEDDINGS ? GPT_WTE : kind == GPT_LAYER ? GPT_LN1_W : GPT_LNF_W;
    *end   = kind == GPT_EMBEDDINGS ? GPT_LN1_W : kind == GPT_LAYER ? GPT_LNF_W : GPT_TENSORS;
}

struct gpt_place gpt_place(const struct gpt_config *g, size_t block, size_t i)
{
    enum gpt_tensor t, end;

    gpt_block_tensors(g, block, &t, &end);
    for (; i >= gpt_size(g, t); t++)
        i -= gpt_size(g, t);
    assert(t < end);
    return (struct gpt_place){ t, i, gpt_size(g, t) - i };
}

void gpt_tensor_name(char *out, size_t size, const char *prefix, size_t block, enum gpt_tensor t)
{
    if (t == GPT_SCORE_W)
        prefix = "";
    if (gpt_params[t].block == GPT_LAYER)
        snprintf(out, size, "%sh.%zu.%s", prefix, block - 1, gpt_params[t].name);
    else
        snprintf(out, size, "%s%s", prefix, gpt_params[t].name);
}

size_t gpt_block_size(const struct gpt_config *g, size_t block)
{
    enum gpt_tensor first, end;

    gpt_block_tensors(g, block, &first, &end);
    return gpt_offset(g, end - 1) + gpt_size(g, end - 1);
}

size_t gpt_total(const struct gpt_config *g)
{
    return gpt_block_size(g, 0) + g->n_layer * gpt_block_size(g, 1) +
           gpt_block_size(g, g->n_layer + 1);
}

const char *gpt_preset_name(size_t i)
{
    return i < sizeof presets / sizeof *presets ? presets[i].name : NULL;
}

int gpt_preset(struct gpt_config *g, const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (!strcmp(name, presets[i].name)) {
            *g = (struct gpt_config){ presets[i].n_layer, presets[i].n_head, presets[i].n_embd,
                                      .vocab = 50257, .n_positions = 1024, .norm_eps = 1e-5f };
            return 0;
        }
    return -1;
}

int gpt_check(const struct gpt_config *g, struct err *err)
{
    /* Bounds that keep every product of two dimensions, in bytes, far from overflow. */
    const size_t most_layers = 1u << 16, most_width = 1u << 20, most_positions = 1u << 24,
                 most_labels = 1u << 16;

    if (g->n_layer == 0 || g->n_layer > most_layers)
        return err_misuse(err, "a model has 1 to %zu layers, not %zu", most_layers, g->n_layer);
    if (g->n_embd == 0 || g->n_embd > most_width)
        return err_misuse(err, "the width (n_embd) must be 1 to %zu, not %zu", most_width,
                          g->n_embd);
    if (g->n_head == 0 || g->n_embd % g->n_head != 0)
        return err_misuse(err, "the width %zu is not divisible by %zu heads", g->n_embd, g->n_head);
    if (g->vocab == 0 || g->vocab > (size_t)1 << 31)
        return err_misuse(err, "the vocabulary must have 1 to 2^31 tokens, not %zu", g->vocab);
    if (g->n_positions == 0 || g->n_positions > most_positions)
        return err_misuse(err, "the number of positions must be 1 to %zu, not %zu", most_positions,
                          g->n_positions);
    if (g->n_labels > most_labels)
        return err_misuse(err, "a classifier has at most %zu labels, not %zu", most_labels,
                          g->n_labels);
    if (!(g->norm_eps > 0) || !isfinite(g->norm_eps))
        return err_misuse(err, "layer_norm_epsilon must be a positive number, not %g",
                          (double)g->norm_eps);
    return 0;
}

double gpt_flops_per_token(const struct gpt_config *g, size_t seq)
{
    return 6.0 * (double)gpt_total(g) + 6.0 * (double)g->n_layer * (double)g->n_embd * (double)seq;
}

void gpt_init_values(float *out, const struct gpt_config *g, size_t block, size_t first, size_t n,
                     uint64_t seed)
{
    assert(first + n <= gpt_block_size(g, block));
    for (size_t at = 0, count; at < n; at += count) {
        struct gpt_place place = gpt_place(g, block, first + at);
        enum gpt_init    init = gpt_params[place.t].init;
        double           fan = init == GPT_INIT_RESIDUAL ? 2.0 * (double)g->n_layer : 1.0;

        count = size_min(place.left, n - at);
        if (init == GPT_INIT_NORMAL || init == GPT_INIT_RESIDUAL)
            rng_normal(out + at, count, (float)(0.02 / sqrt(fan)), seed,
                       (uint64_t)block * 64 + (uint64_t)place.t, place.in);
        else
            for (size_t i = 0; i < count; i++)
                out[at + i] = init == GPT_INIT_ONE ? 1.0f : 0.0f;
    }
}

int gpt_decays(const struct gpt_config *g, size_t block, size_t i, size_t n, int decay_all,
               size_t *count)
{
    int decays = 0;

    *count = 0;
    while (*count < n) { // neighbours of equal decay are one piece
        struct gpt_place place = gpt_place(g, block, i + *count);
        int              next = decay_all || gpt_params[place.t].decay;

        if (*count && next != decays)
            break;
        decays = next;
        *count += size_min(place.left, n - *count);
    }
    return decays;
}
