/* arch.h: the description of a model: its sizes, and the family (architecture) that it belongs
 * to. A family is one file (gpt2.c) and its name in ARCH_FAMILIES below. The file has ONE table
 * of the family's parameters. Initial values, weight decay, import, export and gradients all walk
 * over this table.
 *
 * A model's parameters are divided into blocks. The blocks are the embeddings, n_layer layers,
 * n_layer adapters if the model has them (lora.h), the final norm with a classifier's head, and an
 * untied language model head. The embeddings and
 * an untied head are one block each, or several pieces that each have some rows of the words'
 * tensor (arch_pieces). With pieces, no frame needs to hold the whole tensor.
 *
 * Matrices are stored as in the family's Hugging Face files, so import and export never
 * transpose. The tensors of a block stand one after the other without gaps, in the order of the
 * table. A block's parameters are therefore one flat range. A tensor is identified by its row in
 * the table. */
#pragma once

#include "data/base/dtype.h"
#include "data/base/err.h"
#include "kernels/attention/rope.h"
#include "model/arch/hf_keys.h"
#include "model/arch/placement.h"

/* Frozen parameters: they are read, but not trained. They have no gradient, and a block without
 * trained parameters has no gradient at all. tensors: bit t freezes tensor t of the family's
 * table, in every block. layers: all parameters of the first `layers` layers are frozen. The
 * tensors of one product are frozen together, and so are their biases. */
struct arch_frozen { uint64_t tensors; size_t layers; };

/* Adapters (LoRA, lora.h). rank 0: there are none. targets: bit t gives tensor t of the family's
 * table, a matrix of a layer, an adapter in every layer. alpha and rs: the scale (lora_scale).
 * dropout: of the adapters' input, in training. base: enum quant, in which a run stores the
 * matrices of layers (packed.h). */
struct arch_lora { size_t rank; float alpha, dropout; int rs, base; uint64_t targets; };

struct model_config {
    const struct arch *arch;
    size_t n_layer, n_head, n_embd, vocab, n_positions; // n_positions: length of the longest row
    size_t pieces;   // number of blocks of the embeddings, and of an untied head; 0: arch_pieces
                     // chooses it
    size_t n_labels; // 0: language model; 1: regressor; more: classifier with so many classes
    /* If these are 0, the family's settle sets them. */
    size_t n_kv_head; // number of heads of keys and values
    size_t head_dim;  // size of one attention head
    size_t n_inner;   // MLP width
    /* Options of some families; 0 in all others. */
    size_t window;    // tokens that a token sees, itself included; 0: all
    size_t global_every; // every global_every-th layer sees all tokens. Only the other layers have
                         // the window, and RoPE with theta_local. 0: all layers are alike
    size_t untied;    // the language model head has its own tensor
    size_t qkv_bias;  // queries, keys and values have biases
    size_t qk_norm;   // heads of queries and keys are normalised (QK norm)
    struct rope rope; // RoPE of queries and keys; D 0: none
    double theta_local;
    size_t n_types;   // number of token types (BERT's segments); 0: none
    size_t pad;       // an encoder's padding id
    size_t headless;  // the encoder's folder has neither labels nor a masked head
    float  norm_eps;
    float  drop_embd, drop_attn, drop_resid; // dropout: embd_pdrop, attn_pdrop, resid_pdrop
    struct arch_frozen frozen;
    struct arch_lora   lora; // lora_set sets it
};

enum arch_block_kind { ARCH_EMBEDDINGS, ARCH_LAYER, ARCH_ADAPTER, ARCH_FINAL, ARCH_OWN_HEAD };
/* ARCH_INIT_UNIFORM: uniform in [-1/sqrt(columns), 1/sqrt(columns)), as torch's Linear. */
enum arch_init {
    ARCH_INIT_NORMAL, ARCH_INIT_RESIDUAL, ARCH_INIT_ZERO, ARCH_INIT_ONE, ARCH_INIT_UNIFORM
};

/* A dimension of an array, computed from the model's sizes by arch_dim. */
enum arch_dim {
    DIM_NONE, DIM_ONE, DIM_VOCAB, DIM_POSITIONS, DIM_WIDTH, DIM_LABELS,
    DIM_HEAD_COUNT,
    DIM_HEADS, // n_head x head_dim: queries, and attention's output
    DIM_KEYS,  // n_kv_head x head_dim
    DIM_QKV,   // queries, keys and values side by side
    DIM_INNER,
    DIM_HEAD,  // head_dim
    DIM_GATED, // 2 x n_inner
    DIM_TYPES,
    DIM_NORMED_QKV, DIM_NORMED_HEADS, DIM_NORMED_KEYS, // with qk_norm: columns, heads; otherwise 0
    DIM_POST, DIM_POST_ONE, // with post_norms: the width, 1; otherwise 0
    DIM_RANK,               // of the adapters
    DIM_TARGET_IN, DIM_TARGET_OUT // of an adapter's target; arch_rows and arch_cols know them
};

/* The tensors of an adapter are numbered behind those of the table: tensor t has A and B of numbers
 * arch_a(t) and arch_b(t). A tensor without an adapter has A and B of size 0. A is (rank, in), B is
 * (out, rank), for either layout of the tensor itself. arch_target: the tensor to which A or B
 * belongs. */
enum { ARCH_TENSORS = 64 }; // the most tensors of a family's table
static inline size_t arch_a(size_t t) { return ARCH_TENSORS + 2 * t; }
static inline size_t arch_b(size_t t) { return ARCH_TENSORS + 2 * t + 1; }
static inline size_t arch_target(size_t t) { return (t - ARCH_TENSORS) / 2; }

struct arch_param {
    const char *name; // Hugging Face's name, without the family's prefix and the layer's
    enum arch_block_kind block;
    enum arch_dim        rows, cols; // a vector has rows DIM_ONE
    enum arch_init       init;
    int                  decay;   // true if --decay matrices decays it
    int                  outside; // the name has no prefix: a head outside the transformer
};

/* A parameter matrix of a layer's product: out = in W + b. Several (out, in) tensors that stand
 * one after the other form one matrix and make one product. */
struct arch_matrix {
    const char *names[3];    // names of its products (products.h), for bench
    size_t      weight, n;   // first of its n tensors
    size_t      bias;        // first of its n biases; ARCH_NONE: no bias
    int         out_rounded; // out has the run's dtype; otherwise fp32
    int         in_rounded;  // the gradient of in has the run's dtype; otherwise fp32
};
#define ARCH_NONE SIZE_MAX
/* ARCH_MATRICES: the most matrices of a layer. The others are numbers of matrices outside
 * layers. ARCH_HEAD: the head. ARCH_HEAD_LAST: the last piece of the head, which has fewer
 * words. ARCH_TRANSFORM: W in front of a masked head. */
enum { ARCH_MATRICES = 6, ARCH_HEAD = ARCH_MATRICES, ARCH_HEAD_LAST, ARCH_TRANSFORM };

/* Activations of a layer for backward: arrays with one row a token. ACTS_ATTN begins with
 * attention's inputs and outputs. ACTS_MLP begins with MLP_FC, the input of the activation
 * function, and MLP_MID, the residual stream behind attention. An offloaded MLP always offloads
 * MLP_FC; the other arrays can be recomputed. The family's own arrays follow. */
struct arch_array { enum arch_dim cols; int fp32; }; // fp32 0: the run's dtype; DIM_NONE ends the
                                                     // list
enum { ATTN_QKV, ATTN_OUT, ATTN_LSE, ATTN_OWN };     // (N, DIM_QKV), (N, DIM_HEADS), lse
enum { MLP_FC, MLP_MID, MLP_OWN };                   // input of the activation function, (N, C)
enum { ARCH_ARRAYS = 8 };

struct layer; // layer.h
struct embed;

/* A model by name, with the sizes that differ within a family. */
struct arch_preset { const char *name; struct model_config sizes; };

struct arch {
    /* Hugging Face's names. */
    const char *name;       // model_type
    const char *title;      // name in messages
    const char *class;      // "architectures" in config.json of a language model
    const char *classifier; // "architectures" of a classifier
    const char *prefix;     // prefix of tensor names, such as "transformer."; files may lack it
    const char *layers;     // name of the layers in tensor names: "h" of "h.0.ln_1.weight"
    /* Name of a layer's operations other than its products. Families with the same name have the
     * same passes over rows, so one measurement of a layer holds for all of them
     * (machine_file.h). */
    const char *passes;
    const char *extras[4];  // name patterns of tensors in files that are not parameters
    /* If the head is tied, files may hold a tensor a second time: the second name, and the
     * tensor. */
    struct arch_copy { const char *name; size_t of; } copies[2];
    /* Hooks for config.json. config_read reads the family's keys into sizes, rates and flags.
     * config_write returns a new object with the keys between "architectures" and "use_cache". */
    int     (*config_read)(struct model_config *g, const struct hf_keys *k, struct err *err);
    json_t *(*config_write)(const struct model_config *g);
    const struct arch_param  *params;
    size_t                    n_params;
    const struct arch_preset *presets;
    size_t                    n_presets;
    int (*has)(const struct model_config *g, size_t t); // true if the model has tensor t; NULL:
                                                        // every model has all
    size_t tokens; // tensor (vocab, width) of the token embeddings, also of a tied head
    size_t head;  // tensor (vocab, width) of an untied head
    size_t norm;  // weight of the final norm; a layernorm's bias follows it. An encoder's final
                  // norm is in its masked head
    size_t score; // tensor (labels, width) of a classifier's head; an encoder's bias follows it
    /* encoder: the family is an encoder (BERT). A token attends to its whole row, up to the
     * row's length. Embeddings are normalised, and norms follow the residual additions
     * (post-norm). A row is classified at its first token, through a pooler: tanh(x W' + b).
     * Dropout follows the pooler, and with pool_drops also precedes it. Without labels, the
     * model has a masked language model head, which predicts masked tokens: norm(gelu(x W' + b))
     * times the embeddings, plus a bias. */
    int    encoder, pool_drops;
    size_t pool;  // pooler's W (width, width); b follows it
    size_t masked; // W of the masked head; its b, the norm's weight and bias, and the words' bias
                   // follow
    int    padded_positions; // the first token has position pad + 1 (RoBERTa), not 0
    int    rms;    // norms are RMSNorm; otherwise layernorm
    float  norm_plus;    // constant added to the weights of norms
    int    post_norms;   // outputs of attention and MLP are normalised before the residual addition
    int    ends_normed;  // a norm follows the last product of a layer, and its backward needs the
                         // product's output. The output is recomputed unless the MLP's part is kept
                         // whole
    int    embeds_normed; // embeddings are normalised, so their backward needs their parameters
    int    scales_embed; // embeddings are multiplied by sqrt(width)
    int    gates_gelu;   // the MLP's gate is GELU; otherwise SiLU
    int    drops;  // dropout also follows the embeddings and projections, not only attention's
                   // probabilities
    int    linear; // matrices are (out, in), as in torch's Linear; otherwise (in, out)
    /* The matrices of a layer. The first gives attention's input, and the second is applied to
     * attention's output. `fc` gives the input of the activation function. The last gives the
     * output of the MLP. */
    const struct arch_matrix *matrices;
    size_t                    n_matrices, fc;
    const char *adapted; // names of the modules that PEFT adapts if none are given (lora.h)
    struct arch_array arrays[ACTS_PARTS][ARCH_ARRAYS]; // arrays of ACTS_ATTN and ACTS_MLP
    void (*settle)(struct model_config *g); // sets the sizes that follow from others
    int  (*check)(const struct model_config *g, struct err *err); // the family's own checks

    /* embed_rows writes the embeddings of tokens, out (B, T, width). It writes only rows whose
     * words the block has. embed_backward adds to their gradient. The caller applies dropout. */
    void (*embed_rows)(float *out, const struct embed *e);
    void (*embed_backward)(float *grad, const float *dout, const struct embed *e);
    /* The three steps of a layer's forward. qkv: x to ATTN_QKV, the input of attention. mid: x
     * and attention's output to MLP_MID and to the input rows of the MLP; layer_fc then computes
     * MLP_FC from those. out: MLP_FC and MLP_MID to x_out. In families with norms behind
     * products (encoder, post_norms) x_out may be NULL: out then only fills the MLP's arrays. */
    void (*qkv)(const struct layer *l);
    void (*mid)(const struct layer *l);
    void (*out)(const struct layer *l);
    /* The three steps of a layer's backward. mlp_backward: takes dx back through the MLP.
     * mid_backward: computes dattn from dx, and does not write the workspace's ln and dfc, which
     * a gradient may still read (layer.h). qkv_backward: adds to dx the gradient from dqkv, which
     * attention's backward computed from dattn. */
    void (*mlp_backward)(const struct layer *l);
    void (*mid_backward)(const struct layer *l);
    void (*qkv_backward)(const struct layer *l);
};

/* All families. Each family is defined in its own file as NAME_arch. Other files know it only by
 * its row here. */
#define ARCH_FAMILIES(row)                                                                       \
    row(gpt2) row(llama) row(mistral) row(qwen2) row(qwen3) row(gemma3) row(bert) row(roberta)
#define ARCH_DECLARE(name) extern const struct arch name##_arch;
ARCH_FAMILIES(ARCH_DECLARE)
#undef ARCH_DECLARE

/* arch_at: the i-th family; NULL past the last. arch_named: the family of that name, or NULL. */
const struct arch *arch_at(size_t i);
const struct arch *arch_named(const char *name);
/* Returns the given sizes for the family, after its settle. */
struct model_config arch_config(const struct arch *arch, struct model_config sizes);

/* True for a classifier or regressor, false for a language model. */
static inline int arch_classifies(const struct model_config *g) { return g->n_labels > 0; }
/* arch_is_local: true if layers are of two kinds (global_every) and this one has the window.
 * arch_window: the window of a layer; 0: it sees all tokens. */
static inline int arch_is_local(const struct model_config *g, size_t layer)
{
    return g->global_every && layer % g->global_every;
}
static inline size_t arch_window(const struct model_config *g, size_t layer)
{
    return g->global_every && !arch_is_local(g, layer) ? 0 : g->window;
}
/* True for an encoder with a masked language model head. */
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
/* arch_head: the tensor of a language model's head. arch_is_tied: true if that is the
 * embeddings' tensor. */
size_t arch_head(const struct model_config *g);
int    arch_is_tied(const struct model_config *g);
/* Returns a matrix of the family, or one outside the layers. ARCH_HEAD is a language model's
 * head, (vocab, width), or one of its pieces; ARCH_HEAD_LAST is the last piece. A masked head's
 * bias is not in the block of its weight. ARCH_TRANSFORM is a masked head's W. */
struct arch_matrix arch_matrix(const struct model_config *g, size_t matrix);
size_t arch_matrix_out(const struct model_config *g, size_t matrix); // columns of out
size_t arch_matrix_in(const struct model_config *g, size_t matrix);
int    arch_has_bias(const struct model_config *g, size_t matrix);
int    arch_is_linear(const struct model_config *g, size_t matrix);  // true if its tensors are
                                                                     // (out, in)
size_t arch_products(const struct model_config *g); // parameters of all matrices of a layer
/* arch_again: parameters of the matrices that backward multiplies again when `part` is
 * recomputed. arch_fetched: parameters of the matrices that it multiplies again when the MLP is
 * offloaded. These include the matrix before the MLP, because its output is not stored. */
size_t arch_again(const struct model_config *g, enum acts_part part);
size_t arch_fetched(const struct model_config *g);
/* The mean number of keys that a token attends to in a layer, in rows of seq tokens. Forward
 * attention costs 4 FLOPs for each such key and each column of the heads. */
double arch_seen(const struct model_config *g, size_t layer, size_t seq);
/* arch_fc: columns of the activation function's input. arch_widest: out + in of the widest
 * matrix. */
size_t arch_fc(const struct model_config *g);
size_t arch_widest(const struct model_config *g);

/* The number of blocks of the embeddings, and of an untied head. The bits of the loss depend on
 * it, so it follows from the model alone. It is one unless the embeddings are words alone and
 * have more than ARCH_WHOLE parameters. Then pieces have about ARCH_PIECE parameters at most,
 * roughly a layer of the smallest such model. All pieces but the last have one size. GPT-2 XL's
 * 80 million stay one block. */
enum { ARCH_WHOLE = 96 << 20, ARCH_PIECE = 32 << 20 };
size_t arch_pieces(const struct model_config *g);
/* The words of a piece: n words from `first` on. */
struct arch_words { size_t first, n; };
struct arch_words arch_words(const struct model_config *g, size_t piece);

/* arch_layer_block: the block of a layer, 1..n_layer. arch_adapter_block: the block of a layer's
 * adapter, in a model that has adapters. arch_final_block: the block of the final norm, which
 * follows the layers and adapters. */
static inline size_t arch_layer_block(const struct model_config *g, size_t layer)
{
    return arch_pieces(g) + layer - 1;
}
static inline size_t arch_adapter_block(const struct model_config *g, size_t layer)
{
    return arch_pieces(g) + g->n_layer + layer - 1;
}
static inline size_t arch_final_block(const struct model_config *g)
{
    return arch_pieces(g) + (g->lora.rank ? 2 : 1) * g->n_layer;
}
/* arch_head_blocks: the number of blocks of an untied head. arch_head_block: the first block of
 * a language model's head, tied or not. */
size_t arch_head_blocks(const struct model_config *g);
size_t arch_head_block(const struct model_config *g);
static inline size_t arch_blocks(const struct model_config *g)
{
    return arch_final_block(g) + 1 + arch_head_blocks(g);
}
/* The layer of a block, or of an adapter's block; 0: embeddings; n_layer + 1: a block behind these.
 */
size_t arch_layer(const struct model_config *g, size_t block);
enum arch_block_kind arch_block_kind(const struct model_config *g, size_t block);
/* The table's row of tensor t. A tensor that the model lacks, such as the score of a language
 * model, has size 0. */
const struct arch_param *arch_param(const struct model_config *g, size_t t);
size_t arch_rows(const struct model_config *g, size_t t);
size_t arch_cols(const struct model_config *g, size_t t);
size_t arch_size(const struct model_config *g, size_t t);   // rows * cols
int    arch_is_vector(const struct model_config *g, size_t t);
size_t arch_offset(const struct model_config *g, size_t t); // offset of t in its block
size_t arch_block_size(const struct model_config *g, size_t block);  // parameters
size_t arch_total(const struct model_config *g);
size_t arch_embeddings(const struct model_config *g); // parameters of the embedding tables
/* arch_block_tensors: the first and one-past-last tensor of a block. arch_next: moves *t to the
 * block's next tensor that the model has; 0: there is none. arch_is_later: true if the block is a
 * piece, but not the first. */
#define ARCH_BEFORE SIZE_MAX // before the first tensor
void arch_block_tensors(const struct model_config *g, size_t block, size_t *first, size_t *end);
int  arch_next(const struct model_config *g, size_t block, size_t *t);
int  arch_is_later(const struct model_config *g, size_t block);
/* The offset of a classifier's head, which is the end of its block; SIZE_MAX: the block has
 * none. */
size_t arch_score_offset(const struct model_config *g, size_t block);

/* The tensor of parameter i of a block, its index `in` the tensor, and the number of parameters
 * left in the block's part of the tensor. */
struct arch_place { size_t t, in, left; };
struct arch_place arch_place(const struct model_config *g, size_t block, size_t i);
/* The place of element `in` of a tensor that `block` has, whole or as a piece. spot.block is the
 * block of the element, i its index there, and left the number of elements left there. */
struct arch_spot { size_t block, i, left; };
struct arch_spot arch_spot(const struct model_config *g, size_t block, size_t t, size_t in);

/* Writes the name of a tensor to out: arch_param's name. In a layer it follows "h.N.", or the
 * family's word for h. All names follow `prefix`, except those of tensors outside. */
void arch_tensor_name(const struct model_config *g, char *out, size_t size, const char *prefix,
                      size_t block, size_t t);

/* The default number of tokens in a row: all positions. For models with RoPE it is at most
 * 1,024, because their positions would need too much memory. */
size_t arch_usual_seq(const struct model_config *g);

/* Sets g to a preset of any family: gpt2, gpt2-medium, ... Returns -1 for an unknown name. */
int  arch_preset(struct model_config *g, const char *name);
const char *arch_preset_name(size_t i); // NULL past the last
/* Sets dropout to p at every place where the family has dropout. */
void arch_drop(struct model_config *g, float p);
/* Checks that the model can be trained: positive sizes, heads that divide the width, vocab <=
 * 2^31... */
int  arch_check(const struct model_config *g, struct err *err);
/* Checks that the model has a head. An encoder's folder may have none; it can then be given a
 * new one. */
int  arch_check_head(const struct model_config *g, struct err *err);
/* The row of the position table for the first token of a text. */
static inline size_t arch_first_position(const struct model_config *g)
{
    return g->arch->padded_positions ? g->pad + 1 : 0;
}
/* FLOPs of forward and backward per token: 6 x the parameters of its matrices + 12 x layers x
 * columns of heads x attended keys. With adapters: 4 x the parameters of its matrices, which are
 * frozen, and 6 x those of the adapters. head: the fraction of tokens that the language model head
 * computes; 1 unless tokens are masked. */
double arch_flops_per_token(const struct model_config *g, size_t seq, double head);

/* Writes the initial values of parameters [first, first + n) of a block. Any range may be
 * computed alone, in any order (docs/design.md, Exact meanings). */
void arch_init_values(float *out, const struct model_config *g, size_t block, size_t first,
                      size_t n, uint64_t seed);

/* arch_is_frozen: true if a tensor is frozen in every block. arch_trains: true if any parameter
 * of a block is trained. */
static inline int arch_is_frozen(const struct model_config *g, size_t t)
{
    return t < ARCH_TENSORS && (g->frozen.tensors >> t & 1);
}
int arch_trains(const struct model_config *g, size_t block);
/* Checks that these parameters can be frozen, and that some are left to train. */
int arch_check_frozen(const struct model_config *g, struct err *err);

/* True if weight decay applies to parameter i of a block. *count: the number of parameters from
 * i on, at most n, with the same answer. */
int arch_decays(const struct model_config *g, size_t block, size_t i, size_t n, int decay_all,
                size_t *count);
