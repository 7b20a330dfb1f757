/* arch.h: what a model is: its sizes, and the family (architecture) that it belongs to. A family is
 * one file (gpt2.c) that says what its models are made of, and a row in arch.c; everything that
 * walks over parameters (initial values, weight decay, import, export, gradients) walks the
 * family's ONE table of them.
 *
 * Blocks: the embeddings, n_layer layers, the final norm with a classifier's head, and a language
 * model's head where it has a tensor of its own. The embeddings, and such a head, are one block, or
 * several that each have some rows of the words' tensor (arch_pieces): then no frame needs to hold
 * them whole. Matrices are stored as Hugging Face's files of the family have them, so
 * that import and export never transpose. Inside a block the tensors stand one after the other
 * without gaps, in the table's order; a block's parameters are one flat range. A tensor is called
 * by its row in the table. */
#pragma once

#include "data/base/dtype.h"
#include "data/base/err.h"
#include "kernels/rope.h"
#include "model/hf_keys.h"
#include "model/ways.h"

/* Parameters that are read, and not trained: they have no gradient, and a block of which nothing is
 * trained has none at all. These are tensors of the family's table, bit t for tensor t, in whatever
 * block, and the first `layers` layers. The tensors of one product are frozen together, and so are
 * their biases. */
struct arch_frozen { uint64_t tensors; size_t layers; };

struct model_config {
    const struct arch *arch;
    size_t n_layer, n_head, n_embd, vocab, n_positions; // n_positions: of the longest row
    size_t pieces;   // how many blocks the embeddings are, and a head of its own; 0: as many as
                     // arch_pieces says
    size_t n_labels; // 0: a language model; 1: a regressor; more: a classifier of so many classes
    /* The family's settle says what these are where they are 0. */
    size_t n_kv_head; // heads of keys and values
    size_t head_dim;  // columns of a head
    size_t n_inner;   // width of the MLP
    /* Of families that may have it or not; else 0. */
    size_t window;    // how far back a token sees; 0: to the beginning
    size_t global_every; // of so many layers the last one sees all, and only the others have the
                         // window, and heads turned by theta_local; 0: all layers are alike
    size_t untied;    // a language model's head has a tensor of its own
    size_t qkv_bias;  // queries, keys and values have biases
    size_t qk_norm;   // heads of queries and keys are normalised
    struct rope rope; // how heads are turned; D 0: they are not
    double theta_local;
    size_t n_types;   // of tokens (BERT's segments); 0: there are none
    size_t pad;       // an encoder's id of padding
    size_t headless;  // an encoder's folder has neither labels nor a masked head
    float  norm_eps;
    float  drop_embd, drop_attn, drop_resid; // dropout: embd_pdrop, attn_pdrop, resid_pdrop
    struct arch_frozen frozen;
};

enum arch_block_kind { ARCH_EMBEDDINGS, ARCH_LAYER, ARCH_FINAL, ARCH_OWN_HEAD };
enum arch_init { ARCH_INIT_NORMAL, ARCH_INIT_RESIDUAL, ARCH_INIT_ZERO, ARCH_INIT_ONE };

/* What a dimension of an array is, in the model's sizes. */
enum arch_dim {
    DIM_NONE, DIM_ONE, DIM_VOCAB, DIM_POSITIONS, DIM_WIDTH, DIM_LABELS,
    DIM_HEAD_COUNT,
    DIM_HEADS, // n_head x head_dim: queries, and what attention gives
    DIM_KEYS,  // n_kv_head x head_dim
    DIM_QKV,   // queries, keys and values side by side
    DIM_INNER,
    DIM_HEAD,  // head_dim
    DIM_GATED, // 2 x n_inner
    DIM_TYPES,
    DIM_NORMED_QKV, DIM_NORMED_HEADS, DIM_NORMED_KEYS, // of models with qk_norm: columns, heads
    DIM_POST, DIM_POST_ONE // of families with post_norms: the width, 1
};

struct arch_param {
    const char *name; // Hugging Face's, without the family's prefix and, in layers, the layer's
    enum arch_block_kind block;
    enum arch_dim        rows, cols; // a vector has rows DIM_ONE
    enum arch_init       init;
    int                  decay;   // whether --decay matrices decays it
    int                  outside; // of the prefix: a head that stands beside the transformer
};

/* A matrix of parameters that a layer's rows are multiplied with: out = in W + b. It is several
 * tensors where these stand one after the other, (out, in) each, and make one product. */
struct arch_matrix {
    const char *names[3];    // of its products (products.h), for bench
    size_t      weight, n;   // the first of its n tensors
    size_t      bias;        // the first of its biases, which are as many; ARCH_NONE
    int         out_rounded; // out is of the run's dtype, as what follows takes it; else fp32
    int         in_rounded;  // the same of in's gradient
};
#define ARCH_NONE SIZE_MAX
/* The most; the number of the head's; of the last piece's, which has fewer words; and of what
 * stands in front of a masked head. */
enum { ARCH_MATRICES = 6, ARCH_HEAD = ARCH_MATRICES, ARCH_HEAD_LAST, ARCH_TRANSFORM };

/* What a layer leaves for backward, in arrays of one row a token. Of ACTS_ATTN the first ones are
 * what attention works on, of ACTS_MLP what leaves wherever the MLP is offloaded (the rest can be
 * made again), and what attention adds to; behind them stand the family's own. */
struct arch_array { enum arch_dim cols; int fp32; }; // else of the run's dtype; DIM_NONE: the end
enum { ATTN_QKV, ATTN_OUT, ATTN_LSE, ATTN_OWN };     // (N, DIM_QKV), (N, DIM_HEADS), lse
enum { MLP_FC, MLP_MID, MLP_OWN };                   // what the activation takes, (N, C)
enum { ARCH_ARRAYS = 8 };

struct layer; // layer.h
struct embed;

/* A model by name: the sizes that are not the same in all of a family. */
struct arch_preset { const char *name; struct model_config sizes; };

struct arch {
    /* As Hugging Face has it. */
    const char *name;       // model_type
    const char *title;      // in sentences
    const char *class;      // architectures: a language model's,
    const char *classifier; // and a classifier's
    const char *prefix;     // of tensors' names; files may lack it: "transformer."
    const char *layers;     // what layers are called in them: "h" of "h.0.ln_1.weight"
    /* What layers are made of beside their products. Families with the same word have the same
     * passes over their rows, so one measurement of a layer holds for all (machine_file.h). */
    const char *passes;
    const char *extras[4];  // patterns of what files hold beside parameters
    /* What files may hold once more where the head is tied: under which name, and which tensor. */
    struct arch_copy { const char *name; size_t of; } copies[2];
    /* What of config.json is this family's: read into sizes, rates and flags; and written, a new
     * object of the keys between "architectures" and "use_cache". */
    int     (*config_read)(struct model_config *g, const struct hf_keys *k, struct err *err);
    json_t *(*config_write)(const struct model_config *g);
    const struct arch_param  *params;
    size_t                    n_params;
    const struct arch_preset *presets;
    size_t                    n_presets;
    int (*has)(const struct model_config *g, size_t t); // not all have all tensors; NULL: they do
    size_t tokens; // the tensor (vocab, width) of tokens, which is the tied head's, too
    size_t head;  // the tensor (vocab, width) of an untied head
    size_t norm;  // the final norm's weight, behind which a layernorm's bias stands; an encoder's
                  // is in its masked head
    size_t score; // the tensor (labels, width) of a classifier's head; an encoder's bias behind it
    /* An encoder (BERT): a token sees its whole row up to the row's length, embeddings are
     * normalised, norms stand behind what they are to be added to, and a row is classified at its
     * first token, through a pooler: tanh(x W' + b), dropped behind it and, where pool_drops, in
     * front of it. Without labels it has a masked language model's head, which says what tokens
     * were: norm(gelu(x W' + b)) times the embeddings, and a bias. */
    int    encoder, pool_drops;
    size_t pool;  // the pooler's W (width, width), behind which b stands
    size_t masked; // the masked head's W, and behind it b, the norm's two and the words' bias
    int    padded_positions; // the first token stands at position pad + 1 (RoBERTa), not at 0
    int    rms;    // norms are RMSNorm, else layernorm
    float  norm_plus;    // added to the weights of norms
    int    post_norms;   // what attention and the MLP give is normalised before it is added
    int    ends_normed;  // so a norm's backward takes what a layer's last product gave, which is
                         // made again where the MLP's part is not kept whole
    int    embeds_normed; // the same of embeddings: their backward takes their parameters
    int    scales_embed; // embeddings are multiplied by the root of the width
    int    gates_gelu;   // the gate of the MLP is GELU, else SiLU
    int    drops;  // dropout is behind the embeddings and on projections, too, not on attention's
                   // probabilities alone
    int    linear; // matrices are (out, in), as torch's Linear; else (in, out)
    /* The first makes what attention takes, the second takes what it gives, `fc` makes what the
     * activation takes, the last leads back to the residual stream. */
    const struct arch_matrix *matrices;
    size_t                    n_matrices, fc;
    struct arch_array arrays[ACTS_PARTS][ARCH_ARRAYS]; // of ACTS_ATTN and ACTS_MLP
    void (*settle)(struct model_config *g); // the sizes that follow from others
    int  (*check)(const struct model_config *g, struct err *err); // what arch_check does not

    /* out (B, T, width): embeddings of the tokens whose words the block has, rows of others stay;
     * and their gradient is added to. Dropout is the caller's. */
    void (*embed_rows)(float *out, const struct embed *e);
    void (*embed_backward)(float *grad, const float *dout, const struct embed *e);
    /* A layer's forward is three parts: x to ATTN_QKV, which attention takes; x and what attention
     * gave to MLP_MID and the rows that the MLP begins with, of which layer_fc makes MLP_FC; that
     * and MLP_MID to x_out, which where norms stand behind (encoder, post_norms) may be NULL: only
     * what stays in the MLP's arrays is wanted. */
    void (*qkv)(const struct layer *l);
    void (*mid)(const struct layer *l);
    void (*out)(const struct layer *l);
    /* Backward three: dx through the MLP; dattn from it; and dqkv, which attention made of that,
     * added to dx. */
    void (*mlp_backward)(const struct layer *l);
    void (*mid_backward)(const struct layer *l);
    void (*qkv_backward)(const struct layer *l);
};

/* All families. Each says what it is in a file of its own, as NAME_arch; its row here is all that
 * others hear of it. */
#define ARCH_FAMILIES(row)                                                                       \
    row(gpt2) row(llama) row(mistral) row(qwen2) row(qwen3) row(gemma3) row(bert) row(roberta)
#define ARCH_DECLARE(name) extern const struct arch name##_arch;
ARCH_FAMILIES(ARCH_DECLARE)
#undef ARCH_DECLARE

/* The i-th family; NULL past the last. And the one of that name, or NULL. */
const struct arch *arch_at(size_t i);
const struct arch *arch_named(const char *name);
/* These sizes, in this family, with what follows from them. */
struct model_config arch_config(const struct arch *arch, struct model_config sizes);

/* A classifier or a regressor; else a language model. */
static inline int arch_classifies(const struct model_config *g) { return g->n_labels > 0; }
/* Of layers of two kinds (global_every): one of those with the window. And a layer's window; 0: it
 * sees all. */
static inline int arch_is_local(const struct model_config *g, size_t layer)
{
    return g->global_every && layer % g->global_every;
}
static inline size_t arch_window(const struct model_config *g, size_t layer)
{
    return g->global_every && !arch_is_local(g, layer) ? 0 : g->window;
}
/* An encoder with the head that says what masked tokens were. */
static inline int arch_is_masked(const struct model_config *g)
{
    return g->arch->encoder && !arch_classifies(g);
}
/* Columns of the head's output. */
static inline size_t arch_logits(const struct model_config *g)
{
    return arch_classifies(g) ? g->n_labels : g->vocab;
}

size_t arch_dim(const struct model_config *g, enum arch_dim dim);
/* The tensor of a language model's head, and whether it is that of the embeddings. */
size_t arch_head(const struct model_config *g);
int    arch_is_tied(const struct model_config *g);
/* The family's matrix; or ARCH_HEAD, ARCH_HEAD_LAST: a language model's head, (vocab, width), or
 * where it is in pieces the rows of a piece, and of the last one (a masked head's bias
 * stands in another block than its weight); or ARCH_TRANSFORM, a masked head's W. */
struct arch_matrix arch_matrix(const struct model_config *g, size_t matrix);
size_t arch_matrix_out(const struct model_config *g, size_t matrix); // columns of out
size_t arch_matrix_in(const struct model_config *g, size_t matrix);
int    arch_has_bias(const struct model_config *g, size_t matrix);
int    arch_is_linear(const struct model_config *g, size_t matrix);  // its tensors are (out, in)
size_t arch_products(const struct model_config *g); // parameters of a layer's matrices
/* Of these, those whose products are run again where a part is computed again; and with an MLP that
 * is offloaded, since what stands before it is not. */
size_t arch_again(const struct model_config *g, enum acts_part part);
size_t arch_fetched(const struct model_config *g);
/* Keys that a token of rows like these sees in a layer, the mean: attention has 4 FLOPs forward for
 * each and column of heads. */
double arch_seen(const struct model_config *g, size_t layer, size_t seq);
/* Columns of what the activation takes, and the widest matrix's out + in. */
size_t arch_fc(const struct model_config *g);
size_t arch_widest(const struct model_config *g);

/* How many blocks the embeddings are, and as many a head of its own. It follows from the model
 * alone, since the bits of its loss depend on it: one, but where embeddings are words alone and
 * more than ARCH_WHOLE parameters; then pieces of ARCH_PIECE at most (about a layer of the smallest
 * of such models), all of one size but for the last. GPT-2 XL's 80 million stay one block. */
enum { ARCH_WHOLE = 96 << 20, ARCH_PIECE = 32 << 20 };
size_t arch_pieces(const struct model_config *g);
/* The words that a piece has. */
struct arch_words { size_t first, n; };
struct arch_words arch_words(const struct model_config *g, size_t piece);

/* The block of a layer, 1..n_layer, and that behind them: the final norm's. */
static inline size_t arch_layer_block(const struct model_config *g, size_t layer)
{
    return arch_pieces(g) + layer - 1;
}
static inline size_t arch_final_block(const struct model_config *g)
{
    return arch_pieces(g) + g->n_layer;
}
/* How many blocks a head of its own has, and the first block of a language model's head, be it
 * that of the embeddings. */
size_t arch_head_blocks(const struct model_config *g);
size_t arch_head_block(const struct model_config *g);
static inline size_t arch_blocks(const struct model_config *g)
{
    return arch_final_block(g) + 1 + arch_head_blocks(g);
}
/* The layer of a block; 0: the embeddings; n_layer + 1: behind the layers. */
size_t arch_layer(const struct model_config *g, size_t block);
enum arch_block_kind arch_block_kind(const struct model_config *g, size_t block);
/* Tensors that a model does not have (the score of a language model) have size 0. */
const struct arch_param *arch_param(const struct model_config *g, size_t t);
size_t arch_rows(const struct model_config *g, size_t t);
size_t arch_cols(const struct model_config *g, size_t t);
size_t arch_size(const struct model_config *g, size_t t);   // rows * cols
int    arch_is_vector(const struct model_config *g, size_t t);
size_t arch_offset(const struct model_config *g, size_t t); // of t in its block
size_t arch_block_size(const struct model_config *g, size_t block);  // parameters
size_t arch_total(const struct model_config *g);
size_t arch_embeddings(const struct model_config *g); // of tables that rows are looked up in
/* First and one-past-last tensor of a block; and whether a block has a later piece of its tensor,
 * not the first. */
void arch_block_tensors(const struct model_config *g, size_t block, size_t *first, size_t *end);
int  arch_is_later(const struct model_config *g, size_t block);
/* Where a classifier's head begins in a block, at the end of which it stands; SIZE_MAX: it has
 * none. */
size_t arch_score_offset(const struct model_config *g, size_t block);

/* Where parameter i of a block stands: its tensor, where in that, and how many are left there. */
struct arch_place { size_t t, in, left; };
struct arch_place arch_place(const struct model_config *g, size_t block, size_t i);
/* Where element `in` of a tensor stands, which `block` has or has a piece of: in which block, where
 * there, and how many are left in that. */
struct arch_spot { size_t block, i, left; };
struct arch_spot arch_spot(const struct model_config *g, size_t block, size_t t, size_t in);

/* What a tensor is called: arch_param's name, in a layer after "h.N." (or what the family has for
 * h), all after `prefix` but for those outside. */
void arch_tensor_name(const struct model_config *g, char *out, size_t size, const char *prefix,
                      size_t block, size_t t);

/* Tokens of a row where nobody says how many: all positions, but of models whose heads are turned,
 * which have more than fit anywhere, 1,024. */
size_t arch_usual_seq(const struct model_config *g);

/* Named sizes of all families: gpt2, gpt2-medium, ... -1 for another name. */
int  arch_preset(struct model_config *g, const char *name);
const char *arch_preset_name(size_t i); // NULL past the last
/* Dropout of p wherever the family has it. */
void arch_drop(struct model_config *g, float p);
/* What can be trained: positive sizes, heads that divide the width, vocab <= 2^31... */
int  arch_check(const struct model_config *g, struct err *err);
/* Whether it has a head: an encoder's folder may have none, to which a new one can be given. */
int  arch_check_head(const struct model_config *g, struct err *err);
/* The row of the table of positions at which a text begins. */
static inline size_t arch_first_position(const struct model_config *g)
{
    return g->arch->padded_positions ? g->pad + 1 : 0;
}
/* FLOPs a token of forward and backward: 6 x parameters of matrices that it is multiplied with + 12
 * x layers x columns of heads x keys that it sees. head: of all tokens, those that the head of a
 * language model is asked for; 1, but where they are masked. */
double arch_flops_per_token(const struct model_config *g, size_t seq, double head);

/* Initial values of parameters [first, first + n) of a block: any part alone, in any order
 * (docs/design.md, Exact meanings). */
void arch_init_values(float *out, const struct model_config *g, size_t block, size_t first,
                      size_t n, uint64_t seed);

/* Whether a tensor is frozen in whatever block it stands in; and whether anything of a block is
 * trained. */
static inline int arch_is_frozen(const struct model_config *g, size_t t)
{
    return (int)(g->frozen.tensors >> t & 1);
}
int arch_trains(const struct model_config *g, size_t block);
/* Whether what is frozen can be, and leaves anything to train. */
int arch_check_frozen(const struct model_config *g, struct err *err);

/* Does weight decay move parameter i of a block? *count: as many from there on, of n at most, are
 * as it is. */
int arch_decays(const struct model_config *g, size_t block, size_t i, size_t n, int decay_all,
                size_t *count);
