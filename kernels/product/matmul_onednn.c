/* matmul_onednn.c: runs the products with oneDNN's matmul primitive. Transposes are strides, the
 * bias is the primitive's, and C += is its sum post-op. Primitives and memory objects are made at
 * open. A run sets the data handles and executes, with the caller's scratch.
 *
 * One form is faster with help. The bf16 weight gradient (TN) would repack B for each slice of
 * rows, so B is first put into the layout that the primitive asks for (measured: 50257 x 768 x 256
 * from 260 to 350 GFLOP/s on two Zen 4 cores, the others a few per cent). For NN and NT the
 * primitive's own packing is as good. If the caller keeps B for many runs (pack_b), matmul_pack
 * does this once, unless the primitive asks for the plain layout. With AVX-512 the bf16 layout
 * without padded blocks is that of pairs.h, which copies several times as fast as oneDNN's own
 * reorder.
 *
 * siTrain's own engine computes the products that oneDNN computes wrongly (`wrong_here`): bf16 on
 * AMX, with a depth of 63, 95, 127 and so on (one below a multiple of 32). The versions from 2.2 to
 * 2.7.3 and 3.0 multiply the last 31 columns with the tile sizes of a whole block of rows, although
 * the last block has fewer (https://github.com/uxlfoundation/oneDNN/issues/1661). The result is
 * wrong in that block, or the process ends with SIGILL. Whether a shape fails also depends on
 * oneDNN's choice of blocks: 37 x 21 x 63 is always wrong, 70 x 70 x 1023 is right and 70 x 70 x
 * 4095 ends the process. All shapes with such a depth are therefore left out. In random shapes of
 * other depths (1 to 140; 1 and 2 threads; NaN around the operands) no result was wrong.
 *
 * The library's global cache of primitives is turned off, because it would keep closed ones alive.
 * The file compiles with oneDNN 2 and 3; "the two interfaces" below has all that differs. */
#include "kernels/product/matmul_engine.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "kernels/product/pairs.h"

#include <oneapi/dnnl/dnnl.h>

/* PRODUCT_ROOM: bytes that may still be mapped before a product is made. Where the library cannot
 * map the code of one (ulimit -v), it follows a null pointer. */
enum { ALIGN = 64, PRODUCT_ROOM = 32 << 20 };

/* The operands of a product. B is in the primitive's layout. PLAIN is the caller's B; if the two
 * differ, B is made from it first. */
enum { A, B, C, BIAS, PLAIN, OPERANDS, SCRATCHPAD = OPERANDS, MEMORIES };

struct product {
    dnnl_primitive_t primitive, pack; // pack: makes B from PLAIN; NULL: they are the same
    dnnl_memory_t    memory[MEMORIES];
    struct pairs     pairs;           // does what `pack` does, if wide > 0
    int              packed_by_caller; // matmul_pack is called before runs
    int              by_own; // onednn.own computes it, as product own_id; the rest is unset
    size_t           own_id;
    size_t           scratchpad_bytes, pack_bytes;
};

struct onednn { // matmul.own
    dnnl_engine_t  engine;
    dnnl_stream_t  stream;
    struct matmul *own; // siTrain's engine, for the products that oneDNN computes wrongly, or NULL
    struct product products[]; // one for each shape
};

/* ---- the two interfaces ---- A layout (dnnl_memory_desc_t) is a struct of its owner in version 2,
 * and in version 3 a handle that its owner destroys. `desc` is what functions take of it in both.
 * Version 2 describes an operation before its primitive; version 3 does both in one call, and its
 * sums also have a zero point and a type. Only in version 2 does this file inspect blocks; version
 * 3 uses its own reorder. */

#if DNNL_VERSION_MAJOR == 2

typedef const dnnl_memory_desc_t *desc;
#define DESC(layout)       (&(layout))
#define desc_strided       dnnl_memory_desc_init_by_strides
#define desc_tagged        dnnl_memory_desc_init_by_tag
#define desc_release(desc) ((void)(desc))
#define append_sum(ops)    dnnl_post_ops_append_sum(ops, 1.0f)

// The pairs that B consists of, if it has that layout.
static struct pairs pairs_of(desc b, const struct matmul_shape *s)
{
    const dnnl_blocking_desc_t *in = &b->format_desc.blocking;
    const dnnl_dim_t           *size = in->inner_blks, *of = in->inner_idxs;
    struct pairs p = { .k = s->k, .n = s->n, .transposed = s->form == MATMUL_NT };

    if (b->format_kind == dnnl_blocked && b->data_type == dnnl_bf16 && in->inner_nblks == 3 &&
        2 * size[0] == PAIRS_ROWS && size[1] % 16 == 0 && size[2] == 2 && of[0] == 0 &&
        of[1] == 1 && of[2] == 0 && s->k % PAIRS_ROWS == 0 && s->n % (size_t)size[1] == 0 &&
        dnnl_memory_desc_get_size(b) == s->k * s->n * sizeof(bf16)) {
        p.wide = (size_t)size[1];
        p.down = (size_t)in->strides[0];
        p.on   = (size_t)in->strides[1];
    }
    return p;
}

// `bias` NULL: none.
static dnnl_status_t matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, desc a, desc b,
                               desc bias, desc c, dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t      rc = dnnl_matmul_desc_init(&op, a, b, bias, c);

    return rc ? rc : dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
}

#elif DNNL_VERSION_MAJOR == 3

typedef const_dnnl_memory_desc_t desc;
#define DESC(layout)    (layout)
#define desc_strided    dnnl_memory_desc_create_with_strides
#define desc_tagged     dnnl_memory_desc_create_with_tag
#define desc_release    dnnl_memory_desc_destroy
#define append_sum(ops) dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef)
#define matmul_pd       dnnl_matmul_primitive_desc_create
#define pairs_of(b, s)  ((struct pairs){ 0 })

#else
#error "this file knows oneDNN 2 and 3; `make ONEDNN=0` builds without it"
#endif

/* ---- products ---- */

static dnnl_status_t attr_make(dnnl_primitive_attr_t *attr, int accumulate)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t   rc  = dnnl_primitive_attr_create(attr);

    rc = rc ? rc : dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!rc && accumulate) {
        rc = dnnl_post_ops_create(&ops);
        rc = rc ? rc : append_sum(ops);
        rc = rc ? rc : dnnl_primitive_attr_set_post_ops(*attr, ops);
        dnnl_post_ops_destroy(ops);
    }
    return rc;
}

/* Makes the reorder of B from its plain layout. Plain reorders need no scratchpad. One that did
 * would be refused here, because a run must not allocate. */
static dnnl_status_t pack_make(struct product *p, dnnl_engine_t engine, desc plain, desc b)
{
    dnnl_primitive_desc_t pd   = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t         rc   = attr_make(&attr, 0);

    rc = rc ? rc : dnnl_reorder_primitive_desc_create(&pd, plain, engine, b, engine, attr);
    if (!rc && dnnl_memory_desc_get_size(
                   dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) > 0)
        rc = dnnl_unimplemented;
    rc = rc ? rc : dnnl_primitive_create(&p->pack, pd);
    p->pack_bytes = dnnl_memory_desc_get_size(b);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return rc;
}

/* Whether the primitive chooses B's layout: if B serves many runs, or repacking would take long. */
static int wants_pack(const struct matmul_shape *s)
{
    return s->pack_b || (s->form == MATMUL_TN && s->ab_dt == DT_BF16);
}

/* Describes the operands as (rows, cols), as the product sees them. A transposed one is in memory
 * as (cols, rows). */
static dnnl_status_t descs_make(dnnl_memory_desc_t d[OPERANDS], const struct matmul_shape *s)
{
    const struct { size_t rows, cols; int transposed; enum dtype dt; } of[OPERANDS] = {
        [A] = { s->m, s->k, s->form == MATMUL_TN, s->ab_dt },
        [B] = { s->k, s->n, s->form == MATMUL_NT, s->ab_dt },
        [C] = { s->m, s->n, 0, s->c_dt },
        [BIAS] = { 1, s->n, 0, s->ab_dt },
        [PLAIN] = { s->k, s->n, s->form == MATMUL_NT, s->ab_dt },
    };
    dnnl_status_t rc = dnnl_success;

    for (int i = 0; i < OPERANDS && !rc; i++) {
        dnnl_dim_t       rows = (dnnl_dim_t)of[i].rows, cols = (dnnl_dim_t)of[i].cols;
        dnnl_dims_t      dims = { rows, cols };
        dnnl_dims_t      strides = { of[i].transposed ? 1 : cols, of[i].transposed ? rows : 1 };
        dnnl_data_type_t type = of[i].dt == DT_F32 ? dnnl_f32 : dnnl_bf16;

        rc = i == B && wants_pack(s) ? desc_tagged(&d[i], 2, dims, type, dnnl_format_tag_any)
                                     : desc_strided(&d[i], 2, dims, type, strides);
    }
    return rc;
}

static dnnl_status_t product_make(struct product *p, dnnl_engine_t engine,
                                  const struct matmul_shape *s)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd   = NULL;
    dnnl_memory_desc_t    d[OPERANDS] = { 0 };
    dnnl_status_t         rc   = descs_make(d, s);

    rc = rc ? rc : attr_make(&attr, s->accumulate);
    if (!rc)
        rc = matmul_pd(&pd, engine, DESC(d[A]), DESC(d[B]), s->bias ? DESC(d[BIAS]) : NULL,
                       DESC(d[C]), attr);
    rc = rc ? rc : dnnl_primitive_create(&p->primitive, pd);
    if (!rc) {
        desc b = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        desc scratchpad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

        for (int i = 0; i < MEMORIES && !rc; i++)
            rc = dnnl_memory_create(&p->memory[i],
                                    i == B ? b : i == SCRATCHPAD ? scratchpad : DESC(d[i]), engine,
                                    DNNL_MEMORY_NONE);
        p->scratchpad_bytes = dnnl_memory_desc_get_size(scratchpad);
        if (!rc && !dnnl_memory_desc_equal(DESC(d[PLAIN]), b)) {
            p->pairs = pairs_of(b, s);
            rc = pack_make(p, engine, DESC(d[PLAIN]), b);
        }
    }
    p->packed_by_caller = s->pack_b && p->pack;
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < OPERANDS; i++)
        desc_release(d[i]);
    return rc;
}

static void onednn_close(struct matmul *mm)
{
    struct onednn *o = mm->own;

    if (!o)
        return;
    matmul_close(o->own);
    for (struct product *p = o->products; p < o->products + mm->n_shapes; p++) {
        for (int i = 0; i < MEMORIES; i++)
            dnnl_memory_destroy(p->memory[i]);
        if (p->pack)
            dnnl_primitive_destroy(p->pack);
        if (p->primitive)
            dnnl_primitive_destroy(p->primitive);
    }
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
    free(o);
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct { unsigned isa; const char *name; } names[] = {
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

// True if this version of oneDNN computes the shape wrongly on this CPU: see the head of the file.
static int wrong_here(const struct matmul_shape *s)
{
    const dnnl_version_t *v = dnnl_version();
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(), amx = dnnl_cpu_isa_avx512_core_amx;
    int      mended = v->major == 2 ? v->minor > 7 || (v->minor == 7 && v->patch > 3)
                                    : v->major > 3 || v->minor > 0;

    return !mended && (isa & amx) == amx && s->ab_dt == DT_BF16 && s->k > 32 && s->k % 32 == 31;
}

// Opens siTrain's engine with all products that oneDNN computes wrongly, if there are any.
static int own_open(struct matmul *mm, struct onednn *o, struct err *err)
{
    struct matmul_shape *shapes = calloc(mm->n_shapes + 1, sizeof *shapes);
    size_t               n = 0;

    if (!shapes)
        return err_set(err, -ENOMEM, "no memory for a list of %zu products", mm->n_shapes);
    for (size_t i = 0; i < mm->n_shapes; i++)
        if (wrong_here(&mm->shapes[i])) {
            o->products[i].by_own = 1;
            o->products[i].own_id = n;
            shapes[n++] = mm->shapes[i];
        }
    int rc = n ? matmul_open_engine(&o->own, &matmul_sitrain, shapes, n, mm->threads, err) : 0;
    if (o->own)
        mm->scratch_bytes = o->own->scratch_bytes;
    free(shapes);
    return rc;
}

static int room_check(struct err *err)
{
    char option;

    return machine_room(&option) >= PRODUCT_ROOM
               ? 0
               : err_set(err, -ENOMEM, "ulimit -%c leaves no room for the matrix products of "
                         "onednn: raise it (ulimit -%c unlimited)", option, option);
}

static int onednn_open(struct matmul *mm, struct err *err)
{
    const dnnl_version_t *v = dnnl_version();
    const char           *isa = isa_name(dnnl_get_effective_cpu_isa());
    struct onednn        *o = calloc(1, sizeof *o + mm->n_shapes * sizeof *o->products);

    mm->own = o;
    dnnl_set_primitive_cache_capacity(0);
    if (!o || dnnl_engine_create(&o->engine, dnnl_cpu, 0) ||
        dnnl_stream_create(&o->stream, o->engine, dnnl_stream_in_order))
        return err_set(err, -ENOMEM, "onednn did not start, for want of memory or of a CPU engine");
    int failed = own_open(mm, o, err);
    if (failed)
        return failed;
    for (size_t i = 0; i < mm->n_shapes; i++) {
        const struct matmul_shape *s = &mm->shapes[i];
        struct product            *p = &o->products[i];

        if (p->by_own)
            continue;
        if (room_check(err))
            return -ENOMEM;
        dnnl_status_t rc = product_make(p, o->engine, s);
        size_t pack_bytes = p->packed_by_caller ? 0 : round_up(p->pack_bytes, ALIGN);

        if (rc)
            return err_set(err, rc == dnnl_out_of_memory ? -ENOMEM : -ENOTSUP,
                           "onednn does not run %s products of %zu x %zu x %zu on this CPU (%s, "
                           "status %d); openblas does", s->ab_dt == DT_BF16 ? "bf16" : "fp32",
                           s->m, s->n, s->k, isa, (int)rc);
        mm->scratch_bytes =
            size_max(mm->scratch_bytes, round_up(p->scratchpad_bytes, ALIGN) + pack_bytes);
    }
    snprintf(mm->describe, sizeof mm->describe, "onednn %d.%d.%d %s%s%.30s", v->major, v->minor,
             v->patch, isa, o->own ? " + " : "", o->own ? o->own->describe : "");
    return 0;
}

// Sets an operand's memory. The library takes pointers without const, but only reads inputs.
static dnnl_memory_t memory_at(const struct product *p, int operand, const void *at)
{
    dnnl_memory_set_data_handle(p->memory[operand], (void *)(uintptr_t)at);
    return p->memory[operand];
}

static void pack_run(const struct product *p, dnnl_stream_t stream, const void *b, void *packed)
{
    if (p->pairs.wide) {
        pairs_pack(packed, b, &p->pairs);
        return;
    }
    dnnl_exec_arg_t args[] = {
        { DNNL_ARG_FROM, memory_at(p, PLAIN, b) }, { DNNL_ARG_TO, memory_at(p, B, packed) },
    };

    dnnl_primitive_execute(p->pack, stream, 2, args);
}

static size_t onednn_packed(const struct matmul *mm, size_t shape)
{
    const struct onednn  *o = mm->own;
    const struct product *p = &o->products[shape];

    if (p->by_own)
        return matmul_packed(o->own, p->own_id);
    return p->packed_by_caller ? round_up(p->pack_bytes, ALIGN) : 0;
}

static void onednn_pack(const struct matmul *mm, size_t shape, void *packed, const void *b)
{
    const struct onednn  *o = mm->own;
    const struct product *p = &o->products[shape];

    if (p->by_own) {
        matmul_pack(o->own, p->own_id, packed, b);
        return;
    }
    pack_run(p, o->stream, b, packed);
    dnnl_stream_wait(o->stream);
}

static void onednn_run(const struct matmul *mm, size_t shape, void *c, const void *a,
                       const void *b, const void *bias, void *scratch)
{
    const struct onednn  *o = mm->own;
    const struct product *p = &o->products[shape];
    void                 *packed = (char *)scratch + round_up(p->scratchpad_bytes, ALIGN);
    int                   pack = p->pack && !p->packed_by_caller;

    if (p->by_own) {
        matmul_run(o->own, p->own_id, c, a, b, bias, scratch);
        return;
    }
    if (pack)
        pack_run(p, o->stream, b, packed);
    dnnl_primitive_execute(p->primitive, o->stream, bias ? 5 : 4, (dnnl_exec_arg_t[]){
        { DNNL_ARG_SRC, memory_at(p, A, a) }, { DNNL_ARG_DST, memory_at(p, C, c) },
        { DNNL_ARG_WEIGHTS, memory_at(p, B, pack ? packed : b) },
        { DNNL_ARG_SCRATCHPAD, memory_at(p, SCRATCHPAD, scratch) },
        { DNNL_ARG_BIAS, memory_at(p, BIAS, bias) },
    });
    dnnl_stream_wait(o->stream);
}

const struct matmul_ops matmul_onednn = {
    .open = onednn_open, .run = onednn_run, .packed = onednn_packed, .pack = onednn_pack,
    .close = onednn_close,
};
