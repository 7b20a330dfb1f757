/* test_packed.c: a packed base (model/lora/packed.h) is stored bit by bit. In every mode a run's
 * reader gives back the bits that packing gave, among them patterns that are no numbers. Unpacked,
 * they are what the kernels make of the whole tensors. A model with such a base trains to the same
 * bits in all modes, also stopped and opened again, and near one with a base in the run's dtype. */
#include "tests/tempdir.h"
#include "tests/toy_run.h"

#include "kernels/elementwise.h"
#include "kernels/quant/nf4.h"
#include "model/lora/lora.h"
#include "model/lora/packed.h"
#include "model/pass_order.h"
#include "tests/rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS = 4, BATCH = 2, SEQ = 13, ACCUM = 2, VOCAB = 61, MOST = 16, VALUES = 1 << 14 };

struct how { enum run_mode mode; size_t devices; int stopped; };
static const struct how hows[] = {
    { RUN_MEM, 1, 0 }, { RUN_MEM, 1, 1 }, { RUN_BASE, 2, 0 }, { RUN_SU, 1, 0 }, { RUN_SUO, 3, 1 },
};
enum { HOWS = sizeof hows / sizeof *hows };

static struct model_config config_of(enum quant base)
{
    struct model_config g = arch_config(arch_named("llama"), (struct model_config){
        .n_layer = 3, .n_head = 4, .n_kv_head = 2, .n_embd = 24, .n_inner = 36, .vocab = VOCAB,
        .n_positions = SEQ, .norm_eps = 1e-5f, .rope = { .theta = 10000 } });
    struct arch_lora lora = { .rank = 3, .alpha = 6, .base = (int)base };
    struct err       err;

    assert_int_equal(lora_targets_named(g.arch, "all", &lora.targets, &err), 0);
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    return g;
}

static int initial(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    (void)err;
    arch_init_values(out, ctx, block, first, n, 7);
    return 0;
}

static float decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    return arch_decays(ctx, block, i, n, 0, count) ? 0.1f : 0;
}

/* Makes a run. sizes: memory of the caller, MOST. */
static void make(struct toy *t, struct model_config *g, const struct how *h, enum dtype dt,
                 size_t *sizes)
{
    char path[4096];

    for (size_t b = 0; b < arch_blocks(g); b++)
        sizes[b] = packed_size(g, b, dt);
    *t = (struct toy){ .cfg = toy_config(NULL, h->mode, sizes, arch_blocks(g)),
                       .dir = tempdir_new() };
    t->cfg.dir = t->dir;
    t->cfg.route = pass_order_of(g);
    t->cfg.packed = packed_blocks(g, dt);
    t->cfg.decay = decay;
    t->cfg.decay_ctx = g;
    t->cfg.wire_dt = dt;
    t->cfg.csd_mem *= dt == DT_F32 ? 2 : 1;
    t->cfg.n_devices = h->devices;
    t->cfg.commit_every = 1;
    snprintf(path, sizeof path, "%s/run.db", t->dir);
    must(t, runlog_create(&t->cfg.log, path, 0, &t->err));
    must(t, packed_format(&t->cfg, g, &(struct params_source){ initial, g }, &t->err));
}

/* Compares a layer's bits in a run with those that packing gives, and counts the bf16 patterns that
 * are no numbers. Compares what both are unpacked to with what the kernels make of each tensor. */
static size_t layer_same(const struct toy *t, const struct model_config *g, size_t block,
                         const struct params_source *run, const struct params_source *packs,
                         const struct params_source *unpacked)
{
    static float got[VALUES], want[VALUES], scratch[VALUES], bits[VALUES];
    size_t       n = packed_size(g, block, t->cfg.wire_dt), tensor, end, odd = 0;
    struct err   err;

    assert_true(n <= VALUES && arch_block_size(g, block) <= VALUES);
    assert_int_equal(run->read(run->ctx, block, 0, n, got, &err), 0);
    assert_int_equal(packs->read(packs->ctx, block, 0, n, want, &err), 0);
    assert_memory_equal(got, want, n * sizeof *got);
    for (size_t i = 0; i < n; i++)
        odd += isfinite(got[i]) ? 0 : 1;
    assert_int_equal(unpacked->read(unpacked->ctx, block, 0, arch_block_size(g, block), got, &err),
                     0);
    for (arch_block_tensors(g, block, &tensor, &end); tensor < end; tensor++) {
        size_t at = arch_offset(g, tensor);
        size_t rows = arch_rows(g, tensor), cols = arch_cols(g, tensor);

        if (!arch_size(g, tensor))
            continue;
        arch_init_values(want, g, block, at, rows * cols, 7);
        if (lora_may(g->arch, tensor)) {
            quant_pack((enum quant)g->lora.base, bits, want, rows, cols, scratch);
            quant_unpack((enum quant)g->lora.base, want, DT_F32, bits, rows, cols);
        }
        convert(bits, t->cfg.wire_dt, want, DT_F32, rows * cols);
        convert(want, DT_F32, bits, t->cfg.wire_dt, rows * cols);
        assert_memory_equal(got + at, want, rows * cols * sizeof *want);
    }
    return odd;
}

static void bits_kept(enum quant base, enum dtype dt)
{
    struct model_config g = config_of(base);
    size_t              sizes[MOST], odd = 0;

    for (size_t i = 0; i < HOWS; i++) {
        struct params_source init = { initial, &g }, run, packs, unpacks;
        struct run_reader   *reader;
        struct packed       *packer, *unpacker;
        struct toy           t;

        make(&t, &g, &hows[i], dt, sizes);
        must(&t, run_reader(&reader, &run, &t.cfg, &t.err));
        must(&t, packed_open(&packer, &g, dt, PACKED_PACKS, &init, &t.err));
        must(&t, packed_open(&unpacker, &g, dt, PACKED_UNPACKS, &run, &t.err));
        packs = packed_source(packer);
        unpacks = packed_source(unpacker);
        for (size_t b = t.cfg.packed.first; b < t.cfg.packed.end; b++)
            odd += layer_same(&t, &g, b, &run, &packs, &unpacks);
        packed_close(packer);
        packed_close(unpacker);
        run_reader_close(reader);
        toy_remove(&t);
    }
    assert_true(odd > 0 || dt != DT_BF16 || base != QUANT_INT8);
}

static void test_bits(void **state)
{
    (void)state;
    bits_kept(QUANT_BF16, DT_F32);
    for (enum quant base = QUANT_INT8; base <= QUANT_NF4; base++) {
        bits_kept(base, DT_F32);
        bits_kept(base, DT_BF16);
    }
}

static int batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < BATCH * SEQ; i++) {
        b->x[i] = (int32_t)((step * 31 + micro * 17 + i * i) % VOCAB);
        if (b->y)
            b->y[i] = (int32_t)((step * 31 + micro * 17 + i * i + 5) % VOCAB);
    }
    return 0;
}

static void steps(struct toy *t, struct model_config *g, uint64_t from, uint64_t until,
                  double *loss)
{
    struct trainer_options o = rig_options(*g, BATCH, SEQ, t->cfg.wire_dt, MATMUL_AUTO);
    struct batch_source    data = { batch, NULL };
    struct stream         *s = toy_open(t);

    o.model.grad_accum = ACCUM;
    o.model.threads = 1;
    o.schedule.lr = 1e-2;
    rig_steps(s, &o, &data, from, until, loss);
    stream_close(s);
}

/* Trains in the first n ways, to the same losses. */
static void trained(enum quant base, enum dtype dt, size_t n, double loss[STEPS])
{
    struct model_config g = config_of(base);
    double              want[STEPS];
    size_t              sizes[MOST];
    struct toy          t;

    for (size_t i = 0; i < n; i++) {
        make(&t, &g, &hows[i], dt, sizes);
        if (hows[i].stopped)
            steps(&t, &g, 0, 2, loss);
        steps(&t, &g, hows[i].stopped ? 2 : 0, STEPS, loss);
        toy_remove(&t);
        if (i)
            assert_memory_equal(loss, want, sizeof want);
        memcpy(want, loss, sizeof want);
    }
}

static void losses(enum dtype dt)
{
    double whole[STEPS], packed[STEPS];

    trained(QUANT_NONE, dt, 1, whole);
    for (enum quant base = QUANT_BF16; base <= QUANT_NF4; base++) {
        trained(base, dt, base == QUANT_BF16 ? 1 : HOWS, packed);
        for (size_t i = 0; i < STEPS; i++)
            assert_true(fabs(packed[i] - whole[i]) < (base == QUANT_NF4 ? 1e-2 : 2e-3));
        assert_true((packed[0] == whole[0]) == (base == QUANT_BF16 && dt == DT_BF16));
    }
}

static void test_losses(void **state)
{
    (void)state;
    losses(DT_F32);
    if (rig_runs_bf16(MATMUL_AUTO))
        losses(DT_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits),
                                        cmocka_unit_test(test_losses) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
