/* test_lora_modes.c: a model with adapters trained in all modes over real streams, against the one
 * in memory, bit for bit: frozen layers that are read, adapters that are read, added to and sent;
 * and with a classifier's head, a block that is frozen in part. Also stopped and opened again. */
#include "tests/tempdir.h"
#include "tests/toy_run.h"

#include "model/lora/lora.h"
#include "model/pass_order.h"
#include "tests/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 5, BATCH = 2, SEQ = 13, ACCUM = 2, VOCAB = 61, MOST = 16 };

/* How a run is trained. */
struct how {
    enum run_mode mode;
    size_t        devices, frames;
    int           speculate, stopped; // stopped: closed after the third step, and opened again
};

/* What a run ends with. */
struct ends { double loss[STEPS]; uint32_t params; };

/* A classifier, if there are labels. pieces: of the words; if several, the head has its own. */
struct model_kind { size_t labels, pieces; };

static struct model_config config_of(const struct model_kind *of)
{
    struct model_config g = arch_config(arch_named("llama"), (struct model_config){
        .n_layer = 3, .n_head = 4, .n_kv_head = 2, .n_embd = 24, .n_inner = 36, .vocab = VOCAB,
        .n_positions = SEQ, .norm_eps = 1e-5f, .n_labels = of->labels,
        .untied = of->pieces > 1, .pieces = of->pieces, .rope = { .theta = 10000 } });
    struct arch_lora lora = { .rank = 3, .alpha = 6, .dropout = 0.2f };
    struct err       err;

    assert_int_equal(lora_targets_named(g.arch, "all", &lora.targets, &err), 0);
    assert_int_equal(lora_set(&g, &lora, &err), 0);
    return g;
}

static int batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < BATCH * SEQ; i++) {
        b->x[i] = (int32_t)((step * 31 + micro * 17 + i * i) % VOCAB);
        if (b->y)
            b->y[i] = (int32_t)((step * 31 + micro * 17 + i * i + 5) % VOCAB);
    }
    for (size_t i = 0; i < BATCH && b->label; i++) {
        b->label[i] = (int32_t)((step + i) % 3);
        b->last[i] = SEQ - 1 - (int32_t)i;
    }
    return 0;
}

/* Weight decay of matrices (run_config's). */
static float decay(void *ctx, size_t block, size_t i, size_t n, size_t *count)
{
    return arch_decays(ctx, block, i, n, 0, count) ? 0.1f : 0;
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

static struct ends trained(const struct how *h, const struct model_kind *of,
                           enum dtype dt)
{
    struct model_config g = config_of(of);
    struct ends         out;
    struct toy          t;
    size_t              sizes[MOST];

    for (size_t b = 0; b < arch_blocks(&g); b++)
        sizes[b] = arch_block_size(&g, b);
    struct run_config cfg = toy_config(NULL, h->mode, sizes, arch_blocks(&g));
    cfg.route = pass_order_of(&g);
    assert_null(route_fault(&cfg.route));
    cfg.decay = decay;
    cfg.decay_ctx = &g;
    cfg.wire_dt = dt;
    cfg.csd_mem *= dt == DT_F32 ? 2 : 1;
    cfg.n_devices = h->devices;
    cfg.frames = h->frames;
    cfg.speculate = h->speculate;
    cfg.commit_every = 1;
    toy_make(&t, &cfg);
    if (h->stopped)
        steps(&t, &g, 0, 3, out.loss);
    steps(&t, &g, h->stopped ? 3 : 0, STEPS, out.loss);
    out.params = toy_sum(&t);
    toy_remove(&t);
    return out;
}

static void modes(const struct model_kind *of, enum dtype dt)
{
    static const struct how hows[] = {
        { .mode = RUN_MEM, .devices = 1, .frames = 2 },
        { .mode = RUN_MEM, .devices = 1, .frames = 2, .stopped = 1 },
        { .mode = RUN_BASE, .devices = 2, .frames = 2 },
        { .mode = RUN_SU, .devices = 1, .frames = 1 },
        { .mode = RUN_SUO, .devices = 3, .frames = 2, .stopped = 1 },
        { .mode = RUN_SUO, .devices = 2, .frames = 3, .speculate = 1 },
    };
    struct ends want = trained(&hows[0], of, dt);

    assert_true(want.loss[0] != want.loss[STEPS - 1]);
    for (size_t i = 1; i < sizeof hows / sizeof *hows; i++) {
        struct ends got = trained(&hows[i], of, dt);

        assert_memory_equal(got.loss, want.loss, sizeof want.loss);
        assert_int_equal(got.params, want.params);
    }
}

static void test_language_model(void **state)
{
    const struct model_kind whole = { 0, 1 }, cut = { 0, 3 };

    (void)state;
    modes(&whole, DT_F32);
    modes(&cut, DT_F32);
    if (rig_runs_bf16(MATMUL_AUTO))
        modes(&whole, DT_BF16);
}

static void test_classifier(void **state)
{
    const struct model_kind classifier = { 3, 1 };

    (void)state;
    modes(&classifier, DT_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_language_model),
                                        cmocka_unit_test(test_classifier) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
