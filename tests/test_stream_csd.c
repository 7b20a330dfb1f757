/* test_stream_csd.c: the stream over devices against the one in memory, bit for bit, with a toy
 * model whose gradients are a function of its parameters: modes, devices, subgroup sizes, frames,
 * disks, stops and resumes at any step, skipped steps, evaluations between the steps. */
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

static void all_modes_same_bits(void **state)
{
    (void)state;
    static const enum optim_kind kinds[] = { OPTIM_ADAMW, OPTIM_ADAM, OPTIM_SGD, OPTIM_ADAGRAD };
    static const struct variant  rows[] = {
        { RUN_BASE, 2, 256 << 10, 3, 2, .disk = "uring" },
        { RUN_SU, 1, 128 << 10, 2, 1, .disk = "uring" },
        { RUN_SUO, 5, 128 << 10, 4, 2, .disk = "uring" },
        { RUN_SUO, 1, 4 << 20, 1, 1, .disk = "sync", .stop_every = 2 },
        { RUN_SUO, 2, 200 << 10, 2, 2, .disk = "uring", .stop_every = 1 },
    };

    for (size_t k = 0; k < 4; k++) {
        struct variant v = variant_mem;
        struct trained want;

        v.optim = kinds[k];
        v.fp32 = k % 2;
        want = variant_run(&v);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            v = rows[i];
            v.optim = kinds[k];
            v.fp32 = k % 2;
            variant_same(&v, &want);
        }
    }
}

/* The same on accelerator cards. */
static void cards_same_bits(void **state)
{
    (void)state;
    static const struct variant rows[] = {
        { RUN_SU, 1, 128 << 10, 2, 1, .disk = "uring", .cards = 1 },
        { RUN_SUO, 3, 200 << 10, 4, 2, .disk = "uring", .cards = 1, .fp32 = 1, .stop_every = 2,
          .optim = OPTIM_ADAGRAD },
        { RUN_SUO, 2, 1 << 20, 2, 1, .disk = "uring", .cards = 1, .compress = 0.05,
          .feedback = STREAMED, .poison_step = 2, .optim = OPTIM_SGD },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct variant mem = rows[i];

        mem.mode = RUN_MEM;
        mem.cards = mem.stop_every = 0;
        struct trained want = variant_run(&mem);
        variant_same(&rows[i], &want);
    }
}

static void skipped_steps_leave_states_alone(void **state)
{
    (void)state;
    struct variant       mem = variant_mem;
    const struct variant v = { RUN_SUO, 2, 128 << 10, 2, 2, .disk = "uring", .poison_step = 3 };
    struct trained       want;

    mem.poison_step = 3;
    want = variant_run(&mem);
    assert_true(!isnan(want.loss[STEPS - 1])); // no NaN got in
    variant_same(&v, &want);
}

/* Evaluations between the steps change no bit, and no step's traffic (variant_run checks it): not
 * where all layers stay in frames either. */
static void evaluations_between_steps(void **state)
{
    (void)state;
    struct trained       want = variant_run(&variant_mem);
    const struct variant v[] = {
        { RUN_SUO, 2, 200 << 10, 2, 2, .disk = "uring" },
        { RUN_BASE, 1, 1 << 20, LAYERS, 1, .disk = "uring" },
    };

    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        variant_same_evals(&v[i], &want, 2);
}

/* Most devices hold nothing of most blocks, some nothing at all. */
static void more_devices_than_subgroups(void **state)
{
    (void)state;
    struct trained       want = variant_run(&variant_mem);
    const struct variant v = { RUN_SUO, 60, 128 << 10, 2, 2, .disk = "uring" };

    variant_same(&v, &want);
}

/* Who rounds to what the wire has gets the wire, which is the rounded masters. */
static void read_rounded(void **state)
{
    enum { MOST = 40000 };
    static float         exact[BLOCKS][MOST], rounded[MOST];
    struct variant       v = { RUN_SUO, 3, 128 << 10, 2, 1, .disk = "sync" };
    struct params_source src;
    struct run_reader   *r;
    struct toy           t;

    (void)state;
    for (v.fp32 = 0; v.fp32 < 2; v.fp32++) {
        variant_make(&t, &v, WAIT);
        struct stream *s = toy_open(&t);
        toy_train(&t, s, 0);
        toy_close(&t, s);
        must(&t, run_reader(&r, &src, &t.cfg, &t.err));
        for (size_t b = 0; b < BLOCKS; b++) {
            assert_true(t.cfg.block_params[b] <= MOST);
            must(&t, src.read(src.ctx, b, 0, t.cfg.block_params[b], exact[b], &t.err));
        }
        run_reader_rounded(r, t.cfg.wire_dt);
        for (size_t b = 0; b < BLOCKS; b++) {
            must(&t, src.read(src.ctx, b, 0, t.cfg.block_params[b], rounded, &t.err));
            for (size_t i = 0; i < t.cfg.block_params[b]; i++) {
                float want = v.fp32 ? exact[b][i] : bf16_to_f32(bf16_from_f32(exact[b][i]));

                assert_true(want == rounded[i]);
            }
        }
        run_reader_close(r);
        toy_remove(&t);
    }
}

/* A run that is stored is not gone on with where nothing is, nor is one read that never was. */
static void nothing_is_stored(void **state)
{
    (void)state;
    struct variant       v = { RUN_SUO, 2, 1 << 20, 2, 1, .disk = "sync" };
    struct params_source src;
    struct run_reader   *r;
    struct stream       *s;
    struct toy           t;

    for (int stored = 0; stored < 2; stored++) {
        char notice[512];

        v.disk = stored ? "sync" : "null";
        variant_make(&t, &v, WAIT);
        t.cfg.disk = "null";
        assert_int_equal(run_train(&s, &t.cfg, notice, sizeof notice, &t.err),
                         stored ? -EINVAL : 0);
        if (!stored) {
            toy_train(&t, s, 0);
            toy_close(&t, s);
        }
        assert_int_equal(run_reader(&r, &src, &t.cfg, &t.err), -EINVAL);
        toy_remove(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_modes_same_bits),
        cmocka_unit_test(cards_same_bits),
        cmocka_unit_test(skipped_steps_leave_states_alone),
        cmocka_unit_test(evaluations_between_steps),
        cmocka_unit_test(more_devices_than_subgroups),
        cmocka_unit_test(read_rounded),
        cmocka_unit_test(nothing_is_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
