/* model.c: opens the products and activations of a model before the first pass, and runs single
 * products, norms and attention on its tensors. */
#include "model/layer/model.h"

#include "data/base/round.h"
#include "kernels/elementwise.h"
#include "kernels/product/matvec.h"
#include "model/lora/packed.h"

#include <omp.h>

/* Offset in the sink for gradients of frozen vectors, which are computed and not used. */
static size_t sink_at(const struct model *m, size_t t)
{
    const struct model_config *g = &m->o.config;
    size_t                     at = 0;

    for (size_t i = 0; i < t; i++)
        at += arch_is_vector(g, i) ? arch_size(g, i) : 0;
    return at;
}

static int sink_open(struct model *m, struct err *err)
{
    const struct model_config *g = &m->o.config;

    if (!m->o.training || (!g->frozen.tensors && !g->frozen.layers))
        return 0;
    arena_take(&m->sink, sink_at(m, g->arch->n_params) * sizeof(float));
    return arena_map(&m->sink, "gradients of frozen vectors", err);
}

int model_open(struct model *m, const struct model_options *o, struct err *err)
{
    m->o = *o;
    m->o.micros = size_max(o->micros, o->grad_accum);
    if (!o->threads)
        m->o.threads = omp_get_max_threads();
    omp_set_num_threads(m->o.threads);
    int rc = products_open(&m->products, &m->o, err);
    if (rc)
        return rc;
    arena_take(&m->scratch, m->products->scratch_bytes);
    rc = arena_map(&m->scratch, "the matrix products", err);
    rc = rc ? rc : sink_open(m, err);
    arena_take(&m->unpacked, packed_frame(&o->config, o->dtype));
    rc = rc ? rc : arena_map(&m->unpacked, "the parameters of a layer", err);
    return rc || o->generates ? rc : acts_open(&m->acts, &m->o, err);
}

void model_close(struct model *m)
{
    acts_close(&m->acts);
    arena_free(&m->scratch);
    arena_free(&m->sink);
    arena_free(&m->unpacked);
    products_close(m->products);
}

const void *model_unpacked(const struct model *m, size_t block, const void *wire)
{
    if (!packed_is(&m->o.config, block, m->o.dtype))
        return wire;
    packed_unpack(m->unpacked.base, &m->o.config, block, m->o.dtype, wire);
    return m->unpacked.base;
}

const void *model_wire(const struct model *m, const void *wire, size_t t)
{
    return model_at(m, wire, arch_offset(&m->o.config, t));
}

float *model_grad(const struct model *m, float *grad, size_t t)
{
    if (!grad || arch_is_frozen(&m->o.config, t))
        return arch_is_vector(&m->o.config, t) ? (float *)m->sink.base + sink_at(m, t) : NULL;
    return grad + arch_offset(&m->o.config, t);
}

/* Whether model_gradient computes the gradient of tensor t. A classifier has no product with the
 * words' tensor. */
static int is_product(const struct model *m, size_t t)
{
    const struct model_config *g = &m->o.config;

    for (size_t i = 0; i < g->arch->n_matrices; i++)
        if (t - g->arch->matrices[i].weight < g->arch->matrices[i].n)
            return 1;
    return (arch_is_masked(g) && t == g->arch->masked) ||
           (!arch_classifies(g) && t == arch_matrix(g, ARCH_HEAD).weight);
}

void model_grad_begin(const struct model *m, size_t block, float *grad, int products)
{
    for (size_t t = ARCH_BEFORE; arch_next(&m->o.config, block, &t);)
        if (!products || !is_product(m, t) || arch_is_frozen(&m->o.config, t))
            floats_zero(grad + arch_offset(&m->o.config, t),
                        size_min(arch_size(&m->o.config, t), arch_block_size(&m->o.config, block)));
}

static const void *bias_of(const struct model *m, size_t matrix, const void *wire)
{
    return arch_has_bias(&m->o.config, matrix)
               ? model_wire(m, wire, arch_matrix(&m->o.config, matrix).bias)
               : NULL;
}

void model_product(const struct model *m, size_t matrix, enum product_kind kind, size_t rows,
                   void *out, const void *in, const void *wire)
{
    products_run(m->products, products_of(matrix, kind), rows, out, in,
                 model_wire(m, wire, arch_matrix(&m->o.config, matrix).weight),
                 kind == PRODUCT_FORWARD ? bias_of(m, matrix, wire) : NULL, m->scratch.base);
}

void model_logits(const struct model *m, size_t matrix, size_t rows, float *out, const void *in,
                  const void *head_wire, const void *wire)
{
    products_run(m->products, products_of(matrix, PRODUCT_FORWARD), rows, out, in,
                 model_wire(m, head_wire, arch_matrix(&m->o.config, matrix).weight),
                 bias_of(m, matrix, wire), m->scratch.base);
}

void model_matvec(const struct model *m, size_t matrix, size_t rows, void *out, const void *in,
                  const void *wire, float *scratch)
{
    const struct model_config *g = &m->o.config;
    struct arch_matrix         of = arch_matrix(g, matrix);

    struct matvec p = {
        .m = rows, .n = arch_matrix_out(g, matrix), .k = arch_matrix_in(g, matrix),
        .dt = m->o.dtype, .a = in, .b = model_wire(m, wire, of.weight),
        .bias = bias_of(m, matrix, wire), .scratch = scratch };

    if (arch_is_linear(g, matrix))
        matvec_linear(out, of.out_rounded ? m->o.dtype : DT_F32, &p);
    else
        matvec_forward(out, of.out_rounded ? m->o.dtype : DT_F32, &p);
}

void model_gradient(const struct model *m, size_t matrix, size_t rows, float *grad, const void *in,
                    const void *dout, int fresh, struct matmul_call *later)
{
    size_t      which = products_of(matrix, PRODUCT_GRADIENT);
    int         linear = arch_is_linear(&m->o.config, matrix);
    float      *c = model_grad(m, grad, arch_matrix(&m->o.config, matrix).weight);
    const void *a = linear ? dout : in, *b = linear ? in : dout;

    if (!c)
        return;
    struct matmul_call call = products_gradient(m->products, which, rows, !fresh, c, a, b,
                                                m->scratch.base);
    if (later && matmul_joins(call.mm))
        *later = call;
    else
        matmul_call_run(&call);
}

struct layernorm model_norm(const struct model *m, size_t weight, const void *wire,
                            size_t rows, float *x, float *mean, float *rstd)
{
    return (struct layernorm){ .n = rows, .C = m->o.config.n_embd, .dt = m->o.dtype, .x = x,
                               .w = model_wire(m, wire, weight),
                               .b = model_wire(m, wire, weight + 1), .mean = mean, .rstd = rstd,
                               .eps = m->o.config.norm_eps };
}

struct rmsnorm model_rms(const struct model *m, size_t weight, const void *wire, size_t rows,
                         float *x, float *rstd)
{
    return (struct rmsnorm){ .n = rows, .C = m->o.config.n_embd, .dt = m->o.dtype, .x = x,
                             .w = model_wire(m, wire, weight), .rstd = rstd,
                             .eps = m->o.config.norm_eps, .plus = m->o.config.arch->norm_plus };
}

size_t model_chunk(const struct model *m, size_t left, size_t chunk)
{
    return products_rows(left, products_at_once(&m->o, chunk), m->acts.sizes.unit);
}

struct attention model_attention(const struct model_options *o, size_t layer, size_t rows,
                                 size_t seq)
{
    const struct model_config *g = &o->config;
    size_t                     window = arch_window(g, layer);

    return (struct attention){
        .B = rows, .T = seq, .C = arch_dim(g, DIM_HEADS), .H = g->n_head, .KV = g->n_kv_head,
        .kind = g->arch->encoder ? ATTENTION_BIDIRECTIONAL
                : window         ? ATTENTION_WINDOW
                                 : ATTENTION_CAUSAL,
        .window = window, .dt = o->dtype };
}

struct acts_shape model_shape(const struct model *m, size_t micro)
{
    return m->acts.work.shape[micro];
}

size_t model_head_chunk(const struct model *m, size_t left, size_t chunk)
{
    return products_rows(left, products_at_once(&m->o, chunk), products_head_unit(&m->o));
}

uint64_t model_micro(const struct model *m, size_t micro)
{
    return m->step * m->o.micros + m->o.first_micro + micro;
}

struct dropout model_dropout(const struct model *m, size_t micro, size_t layer,
                             enum model_place place)
{
    const struct model_dropout *d = &m->o.dropout;
    float    p = place == PLACE_EMBED ? d->embd : place == PLACE_ATTN ? d->attn : d->resid;
    uint64_t use = model_micro(m, micro) * (m->o.config.n_layer + 2) + layer;

    return (struct dropout){ m->dropping ? p : 0, d->seed, .site = use * PLACES + place };
}

/* Sites of adapters have the highest bit, which no other site has. */
struct dropout model_dropout_adapter(const struct model *m, size_t micro, size_t layer)
{
    uint64_t use = model_micro(m, micro) * (m->o.config.n_layer + 1) + layer;

    return (struct dropout){ m->dropping ? m->o.config.lora.dropout : 0, m->o.dropout.seed,
                             .site = (uint64_t)1 << 63 | use * ARCH_TENSORS };
}
