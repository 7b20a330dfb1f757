/* adapter.c: runs the products of adapters. Tensors of one matrix (queries, keys and values) have
 * an adapter each, which reads and writes the tensor's columns alone. */
#include "model/layer/adapter.h"

#include "kernels/columns.h"
#include "kernels/elementwise.h"
#include "kernels/product/matvec.h"
#include "model/lora/lora.h"

/* One adapted tensor of a matrix. */
struct target {
    size_t      t, in, out, rank;
    size_t      nth;            // of the matrix's tensors
    size_t      column, stride; // first of its columns in the product's output, which has `stride`
    int         out_rounded, in_rounded; // as the matrix's
    const void *a, *b;          // wire parameters
    struct dropout drop;
};

static struct target target_of(const struct adapter_rows *r, size_t matrix, size_t t)
{
    const struct model_config *g = &r->m->o.config;
    struct arch_matrix         of = arch_matrix(g, matrix);
    struct target              out = {
        .t = t, .nth = t - of.weight, .in = arch_cols(g, arch_a(t)), .out = arch_rows(g, arch_b(t)),
        .out_rounded = of.out_rounded, .in_rounded = of.in_rounded,
        .rank = g->lora.rank, .stride = arch_matrix_out(g, matrix),
        .a = model_wire(r->m, r->of.wire, arch_a(t)), .b = model_wire(r->m, r->of.wire, arch_b(t)),
        .drop = r->of.drop };

    for (size_t i = of.weight; i < t; i++)
        out.column += arch_rows(g, i);
    out.drop.site += t;
    return out;
}

/* Calls `run` for each adapted tensor of a matrix. */
typedef void target_run(const struct adapter_rows *r, const struct target *of, void *out,
                        const void *in);

static void each(const struct adapter_rows *r, size_t matrix, target_run *run, void *out,
                 const void *in)
{
    struct arch_matrix of = arch_matrix(&r->m->o.config, matrix);

    for (size_t t = of.weight; r->of.wire && t < of.weight + of.n; t++)
        if (arch_size(&r->m->o.config, arch_a(t))) {
            struct target target = target_of(r, matrix, t);

            run(r, &target, out, in);
        }
}

static enum dtype dtype_of(const struct adapter_rows *r) { return r->m->o.dtype; }

/* c (n, columns) fp32 = x times A' or B'. */
static void forward(const struct adapter_rows *r, const struct target *of,
                    enum adapter_product kind, float *c, const void *x)
{
    int         down = kind == ADAPTER_DOWN;
    const void *b = down ? of->a : of->b;

    if (r->padded)
        products_run(r->m->products, products_adapter(of->t, kind), r->padded, c, x, b, NULL,
                     r->m->scratch.base);
    else
        matvec_linear(c, DT_F32, &(struct matvec){
            .m = r->n, .n = down ? of->rank : of->out, .k = down ? of->in : of->rank,
            .dt = dtype_of(r), .a = x, .b = b, .scratch = r->w->matvec });
}

static void backward(const struct adapter_rows *r, const struct target *of,
                     enum adapter_product kind, float *c, const void *x)
{
    products_run(r->m->products, products_adapter(of->t, kind), r->n, c, x,
                 kind == ADAPTER_BACK_UP ? of->b : of->a, NULL, r->m->scratch.base);
}

/* The input after dropout. */
static const void *dropped(const struct adapter_rows *r, const struct target *of, const void *in)
{
    const struct acts_adapter *w = &r->w->adapter;
    size_t                     n = r->n * of->in;

    if (!(of->drop.p > 0))
        return in;
    if (dtype_of(r) == DT_F32) {
        dropout_rows(w->in, in, r->n, of->in, r->first, &of->drop);
        return w->in;
    }
    convert(w->wide, DT_F32, in, dtype_of(r), n);
    dropout_rows(w->wide, w->wide, r->n, of->in, r->first, &of->drop);
    convert(w->in, dtype_of(r), w->wide, DT_F32, n);
    return w->in;
}

/* out = scale x w->sums (rows, rank), as products take it. */
static const void *scaled(const struct adapter_rows *r, const struct target *of, void *out)
{
    float *sums = r->w->adapter.sums;
    size_t n = (r->padded ? r->padded : r->n) * of->rank;

    floats_scale(sums, lora_scale(&r->m->o.config.lora), n);
    convert(out, dtype_of(r), sums, DT_F32, n);
    return out;
}

/* h = scale x A'. x is the input behind dropout. */
static const void *h_of(const struct adapter_rows *r, const struct target *of, const void *x)
{
    forward(r, of, ADAPTER_DOWN, r->w->adapter.sums, x);
    return scaled(r, of, r->w->adapter.h);
}

/* The place of dh, which adapter_back leaves for adapter_gradient. */
static void *dh_at(const struct adapter_rows *r, const struct target *of)
{
    return dtype_at(r->w->adapter.dh, dtype_of(r), of->nth * r->n * of->rank);
}

/* dh = scale dy B. */
static const void *dh_of(const struct adapter_rows *r, const struct target *of, const void *dy)
{
    backward(r, of, ADAPTER_BACK_UP, r->w->adapter.sums, dy);
    return scaled(r, of, dh_at(r, of));
}

/* The tensor's columns of dout. */
static const void *part_of(const struct adapter_rows *r, const struct target *of, const void *dout)
{
    if (of->out == of->stride)
        return dout;
    columns_take(r->w->adapter.part, &(struct columns){
        r->n, of->out, of->stride, dtype_of(r), model_at(r->m, dout, of->column) });
    return r->w->adapter.part;
}

static void forward_one(const struct adapter_rows *r, const struct target *of, void *out,
                        const void *in)
{
    float     *y = r->w->adapter.wide;
    enum dtype dt = of->out_rounded ? dtype_of(r) : DT_F32;

    forward(r, of, ADAPTER_UP, y, h_of(r, of, dropped(r, of, in)));
    columns_add(&(struct columns){ r->n, of->out, of->stride, dt, dtype_at(out, dt, of->column) },
                y);
}

static void back_one(const struct adapter_rows *r, const struct target *of, void *din,
                     const void *dout)
{
    float     *dx = r->w->adapter.wide;
    enum dtype dt = of->in_rounded ? dtype_of(r) : DT_F32;

    backward(r, of, ADAPTER_BACK_DOWN, dx, dh_of(r, of, part_of(r, of, dout)));
    if (of->drop.p > 0)
        dropout_rows(dx, dx, r->n, of->in, r->first, &of->drop);
    columns_add(&(struct columns){ r->n, of->in, of->in, dt, din }, dx);
}

static void gradient_one(const struct adapter_rows *r, const struct target *of, void *dout,
                         const void *in)
{
    const struct model *m = r->m;
    const void         *x = dropped(r, of, in), *dy = part_of(r, of, dout);

    products_add(m->products, products_adapter(of->t, ADAPTER_DB), r->n,
                 model_grad(m, r->of.grad, arch_b(of->t)), dy, h_of(r, of, x), m->scratch.base);
    products_add(m->products, products_adapter(of->t, ADAPTER_DA), r->n,
                 model_grad(m, r->of.grad, arch_a(of->t)), dh_at(r, of), x, m->scratch.base);
}

void adapter_forward(const struct adapter_rows *a, size_t matrix, void *out, const void *in)
{
    each(a, matrix, forward_one, out, in);
}

void adapter_back(const struct adapter_rows *a, size_t matrix, void *din, const void *dout)
{
    each(a, matrix, back_one, din, dout);
}

void adapter_gradient(const struct adapter_rows *a, size_t matrix, const void *in, const void *dout)
{
    each(a, matrix, gradient_one, (void *)(uintptr_t)dout, in);
}
