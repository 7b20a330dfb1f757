/* matmul_onednn.c: the products on oneDNN's matmul primitive. Transposes are strides, the bias is
 * the primitive's, C += is its sum post-op. Primitives, memory objects and argument lists are made
 * at open; a run sets the data handles and executes, with scratch that the caller gave.
 * One form does better with help: the bf16 weight gradient (TN) spends its time repacking B for
 * each slice of rows, so B is first put into the layout that the primitive asks for (measured:
 * 50257 x 768 x 256 from 260 to 350 GFLOP/s on two Zen 4 cores, the others a few per cent). For NN
 * and NT the primitive's own packing is as good.
 * Where the caller keeps B for many runs (pack_b), matmul_pack does that instead, once, if the
 * primitive asks for another layout than the plain one.
 * The library's global cache of primitives is turned off: it would keep closed ones alive.
 * Written to oneDNN 2 and to oneDNN 3; "the two interfaces" below has all that differs. */
#include "kernels/matmul_engine.h"

#include "data/base/round.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <oneapi/dnnl/dnnl.h>

enum { ALIGN = 64 };

struct pack { // B's copy in the primitive's layout; primitive NULL: B is used as it is
    dnnl_primitive_t primitive;
    dnnl_memory_t    from, to;
    size_t           bytes;
};

struct product {
    dnnl_primitive_t primitive;
    dnnl_memory_t    a, b, bias, c, scratchpad; // b: as the primitive takes it, maybe packed
    struct pack      pack;
    int              packed_by_caller; // matmul_pack has done it before a run
    size_t           scratchpad_bytes;
};

struct dnnl_impl {
    struct matmul_impl base;
    dnnl_engine_t      engine;
    dnnl_stream_t      stream;
    struct product    *products;
    size_t             n_products;
};

static dnnl_data_type_t data_type(enum dtype d)
{
    return d == DT_F32 ? dnnl_f32 : dnnl_bf16;
}

/* ---- the two interfaces ----
 * A layout (dnnl_memory_desc_t) is a struct that its owner holds in version 2 and a handle that its
 * owner destroys in version 3; `desc` is what functions take of it in both. Version 2 describes an
 * operation before its primitive, version 3 does both in one call; its sums have a zero point and a
 * type more. */

#if DNNL_VERSION_MAJOR == 2

typedef const dnnl_memory_desc_t *desc;

static desc desc_of(const dnnl_memory_desc_t *d)
{
    return d;
}

static dnnl_status_t desc_strided(dnnl_memory_desc_t *d, const dnnl_dims_t dims,
                                  dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static dnnl_status_t desc_any(dnnl_memory_desc_t *d, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_tag(d, 2, dims, type, dnnl_format_tag_any);
}

static void desc_release(dnnl_memory_desc_t *d)
{
    (void)d;
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

// `bias` NULL: without.
static dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, desc a, desc b,
                               desc bias, desc c, dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t      rc = dnnl_matmul_desc_init(&op, a, b, bias, c);

    return rc ? rc : dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
}

#elif DNNL_VERSION_MAJOR == 3

typedef const_dnnl_memory_desc_t desc;

static desc desc_of(const dnnl_memory_desc_t *d)
{
    return *d;
}

static dnnl_status_t desc_strided(dnnl_memory_desc_t *d, const dnnl_dims_t dims,
                                  dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(d, 2, dims, type, strides);
}

static dnnl_status_t desc_any(dnnl_memory_desc_t *d, const dnnl_dims_t dims, dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_tag(d, 2, dims, type, dnnl_format_tag_any);
}

static void desc_release(dnnl_memory_desc_t *d)
{
    dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, desc a, desc b,
                               desc bias, desc c, dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, a, b, bias, c, attr);
}

#else
#error "this file knows oneDNN 2 and 3; `make ONEDNN=0` builds without it"
#endif

/* ---- products ---- */

// A matrix (rows, cols) as the product sees it; transposed: it lies in memory as (cols, rows).
static dnnl_status_t matrix_desc(dnnl_memory_desc_t *d, size_t rows, size_t cols, int transposed,
                                 enum dtype dt)
{
    dnnl_dims_t dims    = { (dnnl_dim_t)rows, (dnnl_dim_t)cols };
    dnnl_dims_t strides = { (dnnl_dim_t)(transposed ? 1 : cols),
                            (dnnl_dim_t)(transposed ? rows : 1) };

    return desc_strided(d, dims, data_type(dt), strides);
}

static dnnl_status_t attr_make(dnnl_primitive_attr_t *attr, int accumulate)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t   rc  = dnnl_primitive_attr_create(attr);

    if (!rc)
        rc = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!rc && accumulate) {
        rc = dnnl_post_ops_create(&ops);
        if (!rc)
            rc = append_sum(ops);
        if (!rc)
            rc = dnnl_primitive_attr_set_post_ops(*attr, ops);
        dnnl_post_ops_destroy(ops);
    }
    return rc;
}

/* The reorder of B from `from` to `to`. Plain reorders need no scratchpad; one that did would be
 * refused here, since a run must not allocate. */
static dnnl_status_t pack_make(struct pack *p, dnnl_engine_t engine, desc from, desc to)
{
    dnnl_primitive_desc_t pd   = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t         rc   = attr_make(&attr, 0);

    if (!rc)
        rc = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    if (!rc && dnnl_memory_desc_get_size(
                   dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) > 0)
        rc = dnnl_unimplemented;
    if (!rc)
        rc = dnnl_primitive_create(&p->primitive, pd);
    if (!rc)
        rc = dnnl_memory_create(&p->from, from, engine, DNNL_MEMORY_NONE);
    if (!rc)
        rc = dnnl_memory_create(&p->to, to, engine, DNNL_MEMORY_NONE);
    p->bytes = dnnl_memory_desc_get_size(to);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return rc;
}

static int wants_pack(const struct matmul_shape *s)
{
    return s->pack_b || (s->form == MATMUL_TN && s->ab_dt == DT_BF16);
}

struct descs {
    dnnl_memory_desc_t a, b, b_asked, bias, c; // b_asked: b, or any layout that is liked better
};

static dnnl_status_t descs_make(struct descs *d, const struct matmul_shape *s)
{
    dnnl_dims_t   b_dims = { (dnnl_dim_t)s->k, (dnnl_dim_t)s->n };
    dnnl_status_t rc     = matrix_desc(&d->a, s->m, s->k, s->form == MATMUL_TN, s->ab_dt);

    if (!rc)
        rc = matrix_desc(&d->b, s->k, s->n, s->form == MATMUL_NT, s->ab_dt);
    if (!rc && wants_pack(s))
        rc = desc_any(&d->b_asked, b_dims, data_type(s->ab_dt));
    else if (!rc)
        rc = matrix_desc(&d->b_asked, s->k, s->n, s->form == MATMUL_NT, s->ab_dt);
    if (!rc)
        rc = matrix_desc(&d->bias, 1, s->n, 0, s->ab_dt);
    if (!rc)
        rc = matrix_desc(&d->c, s->m, s->n, 0, s->c_dt);
    return rc;
}

static void descs_release(struct descs *d)
{
    desc_release(&d->a);
    desc_release(&d->b);
    desc_release(&d->b_asked);
    desc_release(&d->bias);
    desc_release(&d->c);
}

static dnnl_status_t memories_make(struct product *p, dnnl_engine_t engine, const struct descs *d,
                                   desc b_used, desc scratchpad)
{
    dnnl_status_t rc = dnnl_memory_create(&p->a, desc_of(&d->a), engine, DNNL_MEMORY_NONE);

    if (!rc)
        rc = dnnl_memory_create(&p->b, b_used, engine, DNNL_MEMORY_NONE);
    if (!rc)
        rc = dnnl_memory_create(&p->bias, desc_of(&d->bias), engine, DNNL_MEMORY_NONE);
    if (!rc)
        rc = dnnl_memory_create(&p->c, desc_of(&d->c), engine, DNNL_MEMORY_NONE);
    if (!rc)
        rc = dnnl_memory_create(&p->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE);
    p->scratchpad_bytes = dnnl_memory_desc_get_size(scratchpad);
    return rc;
}

static dnnl_status_t product_make(struct product *p, dnnl_engine_t engine,
                                  const struct matmul_shape *s)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd   = NULL;
    desc                  b_used = NULL; // the primitive's
    struct descs          d      = { 0 };
    dnnl_status_t         rc     = descs_make(&d, s);

    if (!rc)
        rc = attr_make(&attr, s->accumulate);
    if (!rc)
        rc = matmul_pd(&pd, engine, desc_of(&d.a), desc_of(&d.b_asked),
                       s->bias ? desc_of(&d.bias) : NULL, desc_of(&d.c), attr);
    if (!rc)
        rc = dnnl_primitive_create(&p->primitive, pd);
    if (!rc) {
        b_used = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        rc = memories_make(p, engine, &d, b_used,
                           dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    }
    if (!rc && !dnnl_memory_desc_equal(desc_of(&d.b), b_used))
        rc = pack_make(&p->pack, engine, desc_of(&d.b), b_used);
    p->packed_by_caller = s->pack_b && p->pack.primitive;
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    descs_release(&d);
    return rc;
}

static void product_release(struct product *p)
{
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->bias);
    dnnl_memory_destroy(p->c);
    dnnl_memory_destroy(p->scratchpad);
    dnnl_memory_destroy(p->pack.from);
    dnnl_memory_destroy(p->pack.to);
    if (p->pack.primitive)
        dnnl_primitive_destroy(p->pack.primitive);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
}

static void onednn_close(struct matmul_impl *impl)
{
    struct dnnl_impl *di = (struct dnnl_impl *)impl;

    if (!di)
        return;
    for (size_t i = 0; i < di->n_products; i++)
        product_release(&di->products[i]);
    free(di->products);
    if (di->stream)
        dnnl_stream_destroy(di->stream);
    if (di->engine)
        dnnl_engine_destroy(di->engine);
    free(di);
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        unsigned    isa;
        const char *name;
    } names[] = {
        { dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx" },
        { dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16" },
        { dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni" },
        { dnnl_cpu_isa_avx512_core, "avx512_core" },
        { dnnl_cpu_isa_avx2_vnni, "avx2_vnni" },
        { dnnl_cpu_isa_avx2, "avx2" },
        { dnnl_cpu_isa_avx, "avx" },
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (((unsigned)isa & names[i].isa) == names[i].isa)
            return names[i].name;
    return "sse41";
}

static int onednn_refuse(struct dnnl_impl *di, const struct matmul_shape *s, dnnl_status_t rc,
                         char *why, size_t why_size)
{
    snprintf(why, why_size,
             "onednn does not run %s products of %zu x %zu x %zu on this CPU (%s, status %d); "
             "openblas does",
             s->ab_dt == DT_BF16 ? "bf16" : "fp32", s->m, s->n, s->k,
             isa_name(dnnl_get_effective_cpu_isa()), (int)rc);
    onednn_close(&di->base);
    return rc == dnnl_out_of_memory ? -ENOMEM : -ENOTSUP;
}

static int onednn_open(struct matmul_impl **out, const struct matmul_shape *shapes, size_t n_shapes,
                       int threads, char *why, size_t why_size)
{
    const dnnl_version_t *v  = dnnl_version();
    struct dnnl_impl     *di = calloc(1, sizeof *di);

    (void)threads; // it takes OpenMP's setting, which stands at that number now and in each run
    *out = NULL;
    if (di)
        di->products = calloc(n_shapes + 1, sizeof *di->products);
    dnnl_set_primitive_cache_capacity(0);
    if (!di || !di->products || dnnl_engine_create(&di->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&di->stream, di->engine, dnnl_stream_in_order)) {
        onednn_close((struct matmul_impl *)di);
        snprintf(why, why_size, "onednn did not start, for want of memory or of a CPU engine");
        return -ENOMEM;
    }
    for (di->n_products = 0; di->n_products < n_shapes;) {
        const struct matmul_shape *s = &shapes[di->n_products];
        struct product            *p = &di->products[di->n_products++];
        dnnl_status_t              rc = product_make(p, di->engine, s);
        size_t                     bytes =
            round_up(p->scratchpad_bytes, ALIGN) +
            (p->packed_by_caller ? 0 : round_up(p->pack.bytes, ALIGN));

        if (rc)
            return onednn_refuse(di, s, rc, why, why_size);
        if (bytes > di->base.scratch_bytes)
            di->base.scratch_bytes = bytes;
    }
    snprintf(di->base.describe, sizeof di->base.describe, "onednn %d.%d.%d %s", v->major, v->minor,
             v->patch, isa_name(dnnl_get_effective_cpu_isa()));
    *out = &di->base;
    return 0;
}

// The library takes handles without const; it reads what is an input.
static void handle_set(dnnl_memory_t mem, const void *p)
{
    dnnl_memory_set_data_handle(mem, (void *)(uintptr_t)p);
}

static void pack_run(const struct pack *p, dnnl_stream_t stream, const void *b, void *packed)
{
    dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, p->from }, { DNNL_ARG_TO, p->to } };

    handle_set(p->from, b);
    handle_set(p->to, packed);
    dnnl_primitive_execute(p->primitive, stream, 2, args);
}

static size_t onednn_packed(const struct matmul_impl *impl, size_t id)
{
    const struct product *p = &((const struct dnnl_impl *)impl)->products[id];

    return p->packed_by_caller ? round_up(p->pack.bytes, ALIGN) : 0;
}

static void onednn_pack(const struct matmul_impl *impl, size_t id, void *packed, const void *b)
{
    const struct dnnl_impl *di = (const struct dnnl_impl *)impl;

    pack_run(&di->products[id].pack, di->stream, b, packed);
    dnnl_stream_wait(di->stream);
}

static void onednn_run(const struct matmul_impl *impl, size_t id, void *c, const void *a,
                       const void *b, const void *bias, void *scratch)
{
    const struct dnnl_impl *di = (const struct dnnl_impl *)impl;
    const struct product   *p  = &di->products[id];
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_SRC, p->a }, { DNNL_ARG_WEIGHTS, p->b }, { DNNL_ARG_DST, p->c },
        { DNNL_ARG_SCRATCHPAD, p->scratchpad }, { DNNL_ARG_BIAS, p->bias },
    };

    if (p->pack.primitive && !p->packed_by_caller) {
        void *packed = (char *)scratch + round_up(p->scratchpad_bytes, ALIGN);

        pack_run(&p->pack, di->stream, b, packed);
        b = packed;
    }
    handle_set(p->a, a);
    handle_set(p->b, b);
    handle_set(p->c, c);
    handle_set(p->bias, bias);
    handle_set(p->scratchpad, scratch);
    dnnl_primitive_execute(p->primitive, di->stream, bias ? 5 : 4, args);
    dnnl_stream_wait(di->stream);
}

const struct matmul_ops matmul_onednn = {
    .name = "onednn",
    .open = onednn_open,
    .run = onednn_run,
    .packed = onednn_packed,
    .pack = onednn_pack,
    .close = onednn_close,
};
