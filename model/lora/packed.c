/* packed.c: lays out packed blocks, and packs and unpacks them as they are read. A tensor is packed
 * as a whole, from fp32, so its bits depend neither on the mode nor on the number of devices. */
#include "model/lora/packed.h"

#include "data/base/round.h"
#include "data/base/table.h"
#include "kernels/elementwise.h"
#include "kernels/quant/nf4.h"
#include "model/lora/lora.h"

#include <assert.h>

TABLE_WORDS(packed_name, [QUANT_NONE] = "same", [QUANT_BF16] = "bf16", [QUANT_INT8] = "int8",
            [QUANT_NF4] = "nf4")

/* ---- the layout ---- */

int packed_is(const struct model_config *g, size_t block, enum dtype dt)
{
    enum quant kind = (enum quant)g->lora.base;

    return g->lora.rank && kind != QUANT_NONE && !(kind == QUANT_BF16 && dt == DT_BF16) &&
           arch_block_kind(g, block) == ARCH_LAYER;
}

struct route_span packed_blocks(const struct model_config *g, enum dtype dt)
{
    size_t first = arch_layer_block(g, 1);

    return packed_is(g, first, dt) ? (struct route_span){ first, first + g->n_layer }
                                   : (struct route_span){ 0 };
}

static size_t tensor_bytes(const struct model_config *g, size_t t, enum dtype dt)
{
    return lora_may(g->arch, t)
               ? quant_bytes((enum quant)g->lora.base, arch_rows(g, t), arch_cols(g, t))
               : round_up(arch_size(g, t) * dtype_bytes(dt), 4);
}

static size_t block_bytes(const struct model_config *g, size_t block, enum dtype dt)
{
    size_t sum = 0;

    for (size_t t = ARCH_BEFORE; arch_next(g, block, &t);)
        sum += tensor_bytes(g, t, dt);
    return sum;
}

size_t packed_size(const struct model_config *g, size_t block, enum dtype dt)
{
    return packed_is(g, block, dt) ? block_bytes(g, block, dt) / dtype_bytes(dt)
                                   : arch_block_size(g, block);
}

size_t packed_frame(const struct model_config *g, enum dtype dt)
{
    size_t first = arch_layer_block(g, 1);

    return packed_is(g, first, dt) ? arch_block_size(g, first) * dtype_bytes(dt) : 0;
}

void packed_unpack(void *out, const struct model_config *g, size_t block, enum dtype dt,
                   const void *packed)
{
    const char *at = packed;

    for (size_t t = ARCH_BEFORE; arch_next(g, block, &t);) {
        void *to = dtype_at(out, dt, arch_offset(g, t));

        if (lora_may(g->arch, t))
            quant_unpack((enum quant)g->lora.base, to, dt, at, arch_rows(g, t), arch_cols(g, t));
        else
            memcpy(to, at, arch_size(g, t) * dtype_bytes(dt));
        at += tensor_bytes(g, t, dt);
    }
}

/* ---- the sources ---- */

struct packed {
    struct model_config  config;
    enum dtype           dt;
    enum packed_way      way;
    struct params_source inner;
    size_t               held;   // the block in memory; SIZE_MAX: none
    struct arena         arena;  // has all that follows
    void                *bits;   // the block as devices hold it
    void                *values; // PACKED_UNPACKS: the block unpacked, in dt
    float               *wide;   // PACKED_PACKS: the largest tensor; else READ elements
    float               *scratch; // PACKED_PACKS: quant_pack's
};

enum { READ = 16384 }; // elements read at once

static void lay(struct packed *p, struct arena *a)
{
    const struct model_config *g = &p->config;
    size_t first = arch_layer_block(g, 1), most = READ;

    for (size_t t = ARCH_BEFORE; arch_next(g, first, &t);)
        most = p->way == PACKED_PACKS ? size_max(most, arch_size(g, t)) : READ;
    p->bits = arena_take(a, block_bytes(g, first, p->dt));
    p->values = arena_take(a, p->way == PACKED_UNPACKS ? packed_frame(g, p->dt) : 0);
    p->wide = arena_take(a, most * sizeof(float));
    p->scratch = arena_take(a, p->way == PACKED_PACKS ? nf4_blocks(most) * sizeof(float) : 0);
}

size_t packed_memory(const struct model_config *g, enum dtype dt, enum packed_way way)
{
    struct packed p = { .config = *g, .dt = dt, .way = way };
    struct arena  a = { 0 };

    if (packed_frame(g, dt))
        lay(&p, &a);
    return a.used;
}

int packed_open(struct packed **out, const struct model_config *g, enum dtype dt,
                enum packed_way way, const struct params_source *inner, struct err *err)
{
    struct packed *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return err_set(err, -ENOMEM, "out of memory for packed parameters");
    p->config = *g;
    p->dt = dt;
    p->way = way;
    p->inner = *inner;
    p->held = SIZE_MAX;
    lay(p, &p->arena);
    int rc = arena_map(&p->arena, "packed parameters", err);
    if (rc) {
        free(p);
        return rc;
    }
    lay(p, &p->arena);
    *out = p;
    return 0;
}

void packed_close(struct packed *p)
{
    if (p)
        arena_free(&p->arena);
    free(p);
}

static int block_pack(struct packed *p, size_t block, struct err *err)
{
    const struct model_config *g = &p->config;
    char                      *at = p->bits;

    for (size_t t = ARCH_BEFORE; arch_next(g, block, &t);) {
        size_t n = arch_size(g, t);
        int    rc = p->inner.read(p->inner.ctx, block, arch_offset(g, t), n, p->wide, err);
        if (rc)
            return rc;
        memset(at, 0, tensor_bytes(g, t, p->dt));
        if (lora_may(g->arch, t))
            quant_pack((enum quant)g->lora.base, at, p->wide, arch_rows(g, t), arch_cols(g, t),
                       p->scratch);
        else
            convert(at, p->dt, p->wide, DT_F32, n);
        at += tensor_bytes(g, t, p->dt);
    }
    return 0;
}

static int block_unpack(struct packed *p, size_t block, struct err *err)
{
    size_t all = packed_size(&p->config, block, p->dt);

    for (size_t i = 0, n; i < all; i += n) {
        n = size_min(all - i, READ);
        int rc = p->inner.read(p->inner.ctx, block, i, n, p->wide, err);
        if (rc)
            return rc;
        run_bits_put(dtype_at(p->bits, p->dt, i), p->dt, p->wide, n);
    }
    packed_unpack(p->values, &p->config, block, p->dt, p->bits);
    return 0;
}

static int packed_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    struct packed *p = ctx;

    if (!packed_is(&p->config, block, p->dt))
        return p->inner.read(p->inner.ctx, block, first, n, out, err);
    if (p->held != block) {
        p->held = SIZE_MAX;
        int rc = p->way == PACKED_PACKS ? block_pack(p, block, err) : block_unpack(p, block, err);
        if (rc)
            return rc;
        p->held = block;
    }
    const void *from = p->way == PACKED_PACKS ? p->bits : p->values;
    convert(out, DT_F32, dtype_at(from, p->dt, first), p->dt, n); // a shift: also keeps bits
    return 0;
}

struct params_source packed_source(struct packed *p)
{
    return (struct params_source){ packed_read, p };
}

int packed_format(const struct run_config *cfg, const struct model_config *g,
                  const struct params_source *init, struct err *err)
{
    struct packed *p;

    if (!cfg->packed.end)
        return run_format(cfg, init, err);
    int rc = packed_open(&p, g, cfg->wire_dt, PACKED_PACKS, init, err);
    if (rc)
        return rc;
    struct params_source bits = packed_source(p);

    rc = run_format(cfg, &bits, err);
    packed_close(p);
    return rc;
}
