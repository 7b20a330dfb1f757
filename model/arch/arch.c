/* arch.c: computes everything that follows from a family's table of parameters alone: sizes,
 * offsets, initial values, ranges of weight decay. A block is a flat range without gaps. */
#include "model/arch/arch.h"

#include "data/base/round.h"
#include "kernels/attention/attention.h"
#include "kernels/rng.h"

#include <assert.h>
#include <math.h>

struct model_config arch_config(const struct arch *arch, struct model_config sizes)
{
    sizes.arch = arch;
    arch->settle(&sizes);
    return sizes;
}

enum arch_block_kind arch_block_kind(const struct model_config *g, size_t block)
{
    if (arch_layer(g, block) == 0)
        return ARCH_EMBEDDINGS;
    if (block < arch_final_block(g))
        return block - arch_pieces(g) < g->n_layer ? ARCH_LAYER : ARCH_ADAPTER;
    return block == arch_final_block(g) ? ARCH_FINAL : ARCH_OWN_HEAD;
}

/* ---- pieces of words ---- */

/* Whether the embeddings are words alone, without positions or types. */
static int is_words(const struct model_config *g)
{
    size_t n = 0;

    for (size_t t = 0; t < g->arch->n_params; t++)
        n += g->arch->params[t].block == ARCH_EMBEDDINGS;
    return n == 1;
}

size_t arch_pieces(const struct model_config *g)
{
    size_t n = g->vocab * g->n_embd;

    if (g->pieces)
        return g->pieces;
    return n > ARCH_WHOLE && is_words(g) ? div_up(n, ARCH_PIECE) : 1;
}

/* Rows of each piece but the last. If there are enough rows, a multiple of `line`, so that rows of
 * logits are whole cache lines. */
static size_t piece_rows(const struct model_config *g)
{
    const size_t line = 64;
    size_t       n = arch_pieces(g), rows = div_up(g->vocab, n), lines = round_up(rows, line);

    return lines * (n - 1) < g->vocab ? lines : rows;
}

struct arch_words arch_words(const struct model_config *g, size_t piece)
{
    size_t rows = piece_rows(g), first = piece * rows;

    assert(piece < arch_pieces(g));
    return (struct arch_words){ first, size_min(rows, g->vocab - first) };
}

size_t arch_head_blocks(const struct model_config *g)
{
    return arch_classifies(g) || arch_is_tied(g) ? 0 : arch_pieces(g);
}

size_t arch_head_block(const struct model_config *g)
{
    return arch_is_tied(g) ? 0 : arch_final_block(g) + 1;
}

/* The first of the blocks that share one tensor of words with `block`. */
static size_t first_piece(const struct model_config *g, size_t block)
{
    return block < arch_pieces(g) ? 0 : arch_final_block(g) + 1;
}

static int is_piece(const struct model_config *g, size_t block)
{
    return arch_pieces(g) > 1 && (block < arch_pieces(g) || block > arch_final_block(g));
}

int arch_is_later(const struct model_config *g, size_t block)
{
    return is_piece(g, block) && block > first_piece(g, block);
}

size_t arch_layer(const struct model_config *g, size_t block)
{
    size_t pieces = arch_pieces(g);

    assert(block < arch_blocks(g));
    if (block < pieces || block >= arch_final_block(g))
        return block < pieces ? 0 : g->n_layer + 1;
    return (block - pieces) % g->n_layer + 1;
}

/* ---- sizes ---- */

size_t arch_dim(const struct model_config *g, enum arch_dim dim)
{
    switch (dim) {
    case DIM_NONE:       return 0;
    case DIM_ONE:        return 1;
    case DIM_VOCAB:      return g->vocab;
    case DIM_POSITIONS:  return g->n_positions + arch_first_position(g);
    case DIM_WIDTH:      return g->n_embd;
    case DIM_LABELS:     return g->n_labels;
    case DIM_HEAD_COUNT: return g->n_head;
    case DIM_HEADS:      return g->n_head * g->head_dim;
    case DIM_KEYS:       return g->n_kv_head * g->head_dim;
    case DIM_QKV:        return (g->n_head + 2 * g->n_kv_head) * g->head_dim;
    case DIM_INNER:      return g->n_inner;
    case DIM_HEAD:       return g->head_dim;
    case DIM_GATED:      return 2 * g->n_inner;
    case DIM_TYPES:      return g->n_types;
    case DIM_NORMED_QKV: return g->qk_norm ? arch_dim(g, DIM_QKV) : 0;
    case DIM_NORMED_HEADS: return g->qk_norm ? g->n_head : 0;
    case DIM_NORMED_KEYS:  return g->qk_norm ? g->n_kv_head : 0;
    case DIM_POST:         return g->arch->post_norms ? g->n_embd : 0;
    case DIM_POST_ONE:     return g->arch->post_norms ? 1 : 0;
    case DIM_RANK:         return g->lora.rank;
    case DIM_TARGET_IN: case DIM_TARGET_OUT: break;
    }
    return 0;
}

size_t arch_head(const struct model_config *g)
{
    return g->untied ? g->arch->head : g->arch->tokens;
}

int arch_is_tied(const struct model_config *g)
{
    return arch_param(g, arch_head(g))->block == ARCH_EMBEDDINGS;
}

struct arch_matrix arch_matrix(const struct model_config *g, size_t matrix)
{
    assert(matrix < g->arch->n_matrices || matrix >= ARCH_HEAD);
    if (matrix < g->arch->n_matrices)
        return g->arch->matrices[matrix];
    if (matrix == ARCH_TRANSFORM)
        return (struct arch_matrix){ { "transform", "d_transform", "d_transform_w" },
                                     g->arch->masked, 1, g->arch->masked + 1, 0, 0 };
    if (matrix == ARCH_HEAD_LAST)
        return (struct arch_matrix){ { "last logits", "last d_lnf", "last d_wte" }, arch_head(g),
                                     1, ARCH_NONE, 0, 0 };
    return (struct arch_matrix){ { "logits", "d_lnf", "d_wte" }, arch_head(g), 1,
                                 arch_is_masked(g) ? g->arch->masked + 4 : ARCH_NONE, 0, 0 };
}

int arch_is_linear(const struct model_config *g, size_t matrix)
{
    return matrix >= ARCH_HEAD || g->arch->linear;
}

int arch_has_bias(const struct model_config *g, size_t matrix)
{
    size_t bias = arch_matrix(g, matrix).bias;

    return bias != ARCH_NONE && arch_size(g, bias) > 0;
}

size_t arch_matrix_out(const struct model_config *g, size_t matrix)
{
    struct arch_matrix of = arch_matrix(g, matrix);
    size_t             out = 0;

    if (matrix == ARCH_HEAD || matrix == ARCH_HEAD_LAST)
        return arch_words(g, matrix == ARCH_HEAD ? 0 : arch_pieces(g) - 1).n;
    if (!arch_is_linear(g, matrix))
        return arch_cols(g, of.weight);
    for (size_t t = of.weight; t < of.weight + of.n; t++)
        out += arch_rows(g, t);
    return out;
}

size_t arch_matrix_in(const struct model_config *g, size_t matrix)
{
    size_t t = arch_matrix(g, matrix).weight;

    return arch_is_linear(g, matrix) ? arch_cols(g, t) : arch_rows(g, t);
}

static size_t matrix_size(const struct model_config *g, size_t m)
{
    return arch_matrix_out(g, m) * arch_matrix_in(g, m);
}

size_t arch_products(const struct model_config *g)
{
    size_t n = 0;

    for (size_t m = 0; m < g->arch->n_matrices; m++)
        n += matrix_size(g, m);
    return n;
}

/* Elements that are multiplied again for a norm behind the MLP: it needs the output of the last
 * product. */
static size_t end_again(const struct model_config *g)
{
    return g->arch->ends_normed ? matrix_size(g, g->arch->n_matrices - 1) : 0;
}

size_t arch_again(const struct model_config *g, enum acts_part part)
{
    size_t n = part == ACTS_MLP ? end_again(g) : 0;

    if (part == ACTS_ATTN)
        return matrix_size(g, 0);
    for (size_t m = 1; part == ACTS_MLP && m + 1 < g->arch->n_matrices; m++)
        n += matrix_size(g, m);
    return n;
}

size_t arch_fetched(const struct model_config *g) { return matrix_size(g, 1) + end_again(g); }

double arch_seen(const struct model_config *g, size_t layer, size_t seq)
{
    size_t window = arch_window(g, layer);
    double T = (double)seq, w = window && window < seq ? (double)window : T;

    return g->arch->encoder ? T : w * (1 - w / (2 * T));
}

size_t arch_fc(const struct model_config *g)
{
    return arch_dim(g, g->arch->arrays[ACTS_MLP][MLP_FC].cols);
}

size_t arch_widest(const struct model_config *g)
{
    size_t widest = 0;

    for (size_t m = 0; m < g->arch->n_matrices; m++)
        widest = size_max(widest, arch_matrix_out(g, m) + arch_matrix_in(g, m));
    return widest;
}

static const struct arch_param adapter[2] = { // A and B of any tensor
    { "lora_A.weight", ARCH_ADAPTER, DIM_RANK, DIM_TARGET_IN, ARCH_INIT_UNIFORM, .decay = 1 },
    { "lora_B.weight", ARCH_ADAPTER, DIM_TARGET_OUT, DIM_RANK, ARCH_INIT_ZERO, .decay = 1 },
};

const struct arch_param *arch_param(const struct model_config *g, size_t t)
{
    if (t >= ARCH_TENSORS)
        return &adapter[t % 2];
    assert(t < g->arch->n_params);
    return &g->arch->params[t];
}

/* A dimension of tensor t. What goes into the target of an adapter is its columns if it is (out,
 * in), otherwise its rows. */
static size_t dim_of(const struct model_config *g, size_t t, enum arch_dim dim)
{
    if (dim != DIM_TARGET_IN && dim != DIM_TARGET_OUT)
        return arch_dim(g, dim);

    const struct arch_param *of = arch_param(g, arch_target(t));

    return arch_dim(g, (dim == DIM_TARGET_IN) == g->arch->linear ? of->cols : of->rows);
}

size_t arch_rows(const struct model_config *g, size_t t)
{
    return dim_of(g, t, arch_param(g, t)->rows);
}

size_t arch_cols(const struct model_config *g, size_t t)
{
    return dim_of(g, t, arch_param(g, t)->cols);
}

static int has(const struct model_config *g, size_t t)
{
    if (t >= ARCH_TENSORS)
        return g->lora.rank && (g->lora.targets >> arch_target(t) & 1);
    return !g->arch->has || g->arch->has(g, t);
}

size_t arch_size(const struct model_config *g, size_t t)
{
    return has(g, t) ? arch_rows(g, t) * arch_cols(g, t) : 0;
}

int arch_is_vector(const struct model_config *g, size_t t)
{
    return arch_param(g, t)->rows == DIM_ONE;
}

size_t arch_offset(const struct model_config *g, size_t t)
{
    size_t offset = 0;

    for (size_t i = t < ARCH_TENSORS ? 0 : ARCH_TENSORS; i < t; i++)
        if (arch_param(g, i)->block == arch_param(g, t)->block)
            offset += arch_size(g, i);
    return offset;
}

void arch_block_tensors(const struct model_config *g, size_t block, size_t *first, size_t *end)
{
    enum arch_block_kind kind = arch_block_kind(g, block);

    if (kind == ARCH_ADAPTER) {
        *first = arch_a(0);
        *end = arch_a(g->arch->n_params);
        return;
    }
    for (*first = 0; arch_param(g, *first)->block != kind;)
        ++*first;
    for (*end = *first; *end < g->arch->n_params && arch_param(g, *end)->block == kind;)
        ++*end;
}

int arch_next(const struct model_config *g, size_t block, size_t *t)
{
    size_t first, end;

    arch_block_tensors(g, block, &first, &end);
    for (*t = size_max(*t + 1, first); *t < end && !arch_size(g, *t);)
        ++*t;
    return *t < end;
}

size_t arch_score_offset(const struct model_config *g, size_t block)
{
    return arch_classifies(g) && block == arch_final_block(g) ? arch_offset(g, g->arch->score)
                                                              : SIZE_MAX;
}

struct arch_spot arch_spot(const struct model_config *g, size_t block, size_t t, size_t in)
{
    size_t i = arch_offset(g, t) + in, size = arch_size(g, t), piece = arch_block_size(g, 0);

    if (!is_piece(g, block))
        return (struct arch_spot){ block, i, size - in };
    block = first_piece(g, block) + in / piece;
    return (struct arch_spot){ block, in % piece, arch_block_size(g, block) - in % piece };
}

struct arch_place arch_place(const struct model_config *g, size_t block, size_t i)
{
    size_t t, end;

    arch_block_tensors(g, block, &t, &end);
    if (is_piece(g, block)) {
        size_t before = arch_words(g, block - first_piece(g, block)).first * arch_cols(g, t);

        return (struct arch_place){ t, before + i, arch_block_size(g, block) - i };
    }
    for (; i >= arch_size(g, t); t++)
        i -= arch_size(g, t);
    assert(t < end);
    return (struct arch_place){ t, i, arch_size(g, t) - i };
}

void arch_tensor_name(const struct model_config *g, char *out, size_t size, const char *prefix,
                      size_t block, size_t t)
{
    const struct arch_param *p = arch_param(g, t);
    size_t                   layer = arch_layer(g, block) - 1;
    const char              *of;

    if (p->outside)
        prefix = "";
    if (p->block == ARCH_LAYER)
        snprintf(out, size, "%s%s.%zu.%s", prefix, g->arch->layers, layer, p->name);
    else if (p->block == ARCH_ADAPTER) {
        of = arch_param(g, arch_target(t))->name;
        snprintf(out, size, "%s%s.%zu.%.*s%s", prefix, g->arch->layers, layer,
                 (int)(strlen(of) - strlen("weight")), of, p->name);
    } else
        snprintf(out, size, "%s%s", prefix, p->name);
}

size_t arch_block_size(const struct model_config *g, size_t block)
{
    size_t first, end;

    arch_block_tensors(g, block, &first, &end);
    if (is_piece(g, block))
        return arch_words(g, block - first_piece(g, block)).n * arch_cols(g, first);
    return arch_offset(g, end - 1) + arch_size(g, end - 1);
}

size_t arch_total(const struct model_config *g)
{
    size_t sum = 0;

    for (size_t t = 0; t < g->arch->n_params; t++)
        sum += (arch_size(g, t) + arch_size(g, arch_a(t)) + arch_size(g, arch_b(t))) *
               (arch_param(g, t)->block == ARCH_LAYER ? g->n_layer : 1);
    return sum;
}

size_t arch_embeddings(const struct model_config *g)
{
    size_t sum = 0;

    for (size_t t = 0; t < g->arch->n_params; t++)
        if (arch_param(g, t)->block == ARCH_EMBEDDINGS && !arch_is_vector(g, t))
            sum += arch_size(g, t);
    return sum;
}

size_t arch_usual_seq(const struct model_config *g)
{
    return g->rope.D ? size_min(g->n_positions, 1024) : g->n_positions;
}

void arch_drop(struct model_config *g, float p)
{
    g->drop_attn = p;
    g->drop_embd = g->drop_resid = g->arch->drops ? p : 0;
}

int arch_check(const struct model_config *g, struct err *err)
{
    /* With these bounds no product of two dimensions overflows. Neither do the bytes of all
     * parameters with their optimizer states. */
    const size_t most_layers = 1u << 16, most_width = 1u << 20, most_positions = 1u << 24,
                 most_labels = 1u << 16, most_columns = 1u << 22,
                 most_params = (size_t)1 << 58;

    assert(g->arch); // arch_config sets it
    if (g->n_layer == 0 || g->n_layer > most_layers)
        return err_misuse(err, "a model has 1 to %zu layers, not %zu", most_layers, g->n_layer);
    if (g->n_embd == 0 || g->n_embd > most_width)
        return err_misuse(err, "the width (n_embd) must be 1 to %zu, not %zu", most_width,
                          g->n_embd);
    if (g->vocab == 0 || g->vocab > (size_t)1 << 31)
        return err_misuse(err, "the vocabulary must have 1 to 2^31 tokens, not %zu", g->vocab);
    if (g->pieces > 1 && (!is_words(g) || g->pieces > g->vocab ||
                          piece_rows(g) * (g->pieces - 1) >= g->vocab))
        return err_misuse(err, "the embeddings cannot be in %zu pieces", g->pieces);
    if (g->n_positions == 0 || g->n_positions > most_positions)
        return err_misuse(err, "the number of positions must be 1 to %zu, not %zu", most_positions,
                          g->n_positions);
    if (g->n_labels > most_labels)
        return err_misuse(err, "a classifier has at most %zu labels, not %zu", most_labels,
                          g->n_labels);
    if (!(g->norm_eps > 0) || !isfinite(g->norm_eps))
        return err_misuse(err, "the epsilon of norms must be a positive number, not %g",
                          (double)g->norm_eps);
    if (g->head_dim > ATTENTION_HEAD)
        return err_misuse(err, "a head of attention has at most %d elements, not %zu",
                          ATTENTION_HEAD, g->head_dim);
    if (g->n_head > most_columns || g->n_head * g->head_dim > most_columns)
        return err_misuse(err, "%zu heads of %zu elements are more than %zu columns", g->n_head,
                          g->head_dim, most_columns);
    int rc = g->arch->check(g, err);
    return rc || arch_total(g) <= most_params
               ? rc
               : err_misuse(err, "a model has at most 2^58 parameters, not %zu", arch_total(g));
}

int arch_check_head(const struct model_config *g, struct err *err)
{
    if (!g->headless)
        return 0;
    return err_misuse(err, "this %s has no head: siTrain finetune gives it a classifier's, siTrain "
                      "pretrain --init a masked language model's", g->arch->title);
}

double arch_flops_per_token(const struct model_config *g, size_t seq, double head)
{
    double seen = 0, layers = (double)g->n_layer * (double)arch_products(g),
           each = g->lora.rank ? 4 : 6, // a frozen matrix has no gradient
           adapters = g->lora.rank ? (double)g->n_layer *
                                     (double)arch_block_size(g, arch_adapter_block(g, 1)) : 0,
           words = arch_classifies(g) ? 0 : (double)g->vocab * (double)g->n_embd;

    for (size_t layer = 1; layer <= g->n_layer; layer++)
        seen += arch_seen(g, layer, seq);
    if (arch_is_masked(g))
        words += (double)matrix_size(g, ARCH_TRANSFORM);
    return each * (layers + head * words) + 6 * adapters +
           12 * (double)arch_dim(g, DIM_HEADS) * seen;
}

/* out[i] = number first + i of the uniform distribution over [-reach, reach). */
static void uniform_values(float *out, size_t n, float reach, uint64_t seed, uint64_t stream,
                           size_t first)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (2 * rng_uniform(seed, stream, first + i) - 1) * reach;
}

void arch_init_values(float *out, const struct model_config *g, size_t block, size_t first,
                      size_t n, uint64_t seed)
{
    assert(first + n <= arch_block_size(g, block));
    for (size_t at = 0, count; at < n; at += count) {
        struct arch_place place = arch_place(g, block, first + at);
        enum arch_init    init = arch_param(g, place.t)->init;
        double           fan = init == ARCH_INIT_RESIDUAL ? 2.0 * (double)g->n_layer : 1.0;
        uint64_t         adapters = (uint64_t)1 << 62; // streams of their own

        count = size_min(place.left, n - at);
        if (init == ARCH_INIT_UNIFORM) {
            uniform_values(out + at, count, (float)(1 / sqrt((double)arch_cols(g, place.t))), seed,
                           adapters + (uint64_t)arch_layer(g, block) * 256 + (uint64_t)place.t,
                           place.in);
            continue;
        }
        if (init == ARCH_INIT_NORMAL || init == ARCH_INIT_RESIDUAL)
            rng_normal(out + at, count, (float)(0.02 / sqrt(fan)), seed,
                       (uint64_t)arch_layer(g, block) * 64 + (uint64_t)place.t, place.in);
        else
            for (size_t i = 0; i < count; i++)
                out[at + i] = init == ARCH_INIT_ONE ? 1.0f : 0.0f;
    }
}

int arch_trains(const struct model_config *g, size_t block)
{
    if (!g->frozen.tensors && !g->frozen.layers)
        return 1;
    if (arch_block_kind(g, block) == ARCH_LAYER && arch_layer(g, block) <= g->frozen.layers)
        return 0;
    for (size_t t = ARCH_BEFORE; arch_next(g, block, &t);)
        if (!arch_is_frozen(g, t))
            return 1;
    return 0;
}

static int frozen_alike(const struct model_config *g, size_t first, size_t n)
{
    for (size_t t = first; t < first + n; t++)
        if (arch_is_frozen(g, t) != arch_is_frozen(g, first))
            return 0;
    return 1;
}

int arch_check_frozen(const struct model_config *g, struct err *err)
{
    const struct arch *arch = g->arch;
    int                trains = 0;

    assert(arch->n_params <= 64);
    if (g->frozen.layers > g->n_layer)
        return err_misuse(err, "%zu layers cannot be frozen: there are %zu", g->frozen.layers,
                          g->n_layer);
    for (size_t m = 0; m < arch->n_matrices; m++)
        if (!frozen_alike(g, arch->matrices[m].weight, arch->matrices[m].n) ||
            (arch_has_bias(g, m) && !frozen_alike(g, arch->matrices[m].bias, arch->matrices[m].n)))
            return err_misuse(err, "%s is one product with its neighbours: freeze all, or none",
                              arch_param(g, arch->matrices[m].weight)->name);
    for (size_t b = 0; b < arch_blocks(g); b++)
        trains += arch_trains(g, b);
    return trains ? 0 : err_misuse(err, "all parameters are frozen: there is nothing to train");
}

int arch_decays(const struct model_config *g, size_t block, size_t i, size_t n, int decay_all,
                size_t *count)
{
    int decays = 0;

    *count = 0;
    while (*count < n) { // neighbours with equal decay are one range
        struct arch_place place = arch_place(g, block, i + *count);
        int              next = !arch_is_frozen(g, place.t) &&
                   (decay_all || arch_param(g, place.t)->decay);

        if (*count && next != decays)
            break;
        decays = next;
        *count += size_min(place.left, n - *count);
    }
    return decays;
}
