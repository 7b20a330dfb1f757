/* The mem mode against the same steps written down naively: bits of masters and wire copies, dense
 * and compressed, through resume, kill, skip, and damaged images. */
#include "tests/mem_run.h"

static void test_adamw(void **state)
{
    steps_equal(*state);
}

static void test_fp32_compressed(void **state)
{
    struct fixture *f = *state;

    f->cfg.wire_dt = DT_F32;
    f->cfg.compress = 0.02;
    steps_equal(f);
}

static void test_norm(void **state)
{
    struct fixture    *f = *state;
    struct norm_sum norm = { 0 };
    double             want = 0.0;

    f->cfg.compress = 0.02; // of the uncompressed gradient all the same
    open_run(f);
    step_grads(f, 0, &norm);
    for (size_t b = BLOCKS; b-- > 0;) {
        float *g = malloc(sizes[b] * sizeof *g);
        void  *scratch = malloc(reduce_scratch(sizes[b]));
        int    nonfinite = 0;

        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = grad_value(0, b, i);
        want += reduce_sumsq(g, sizes[b], &nonfinite, scratch);
        free(scratch);
        free(g);
    }
    assert_memory_equal(&norm.sumsq, &want, sizeof want);
}

/* A step with a NaN goes by without a trace in the states; its gradient does not reach the next
 * one. */
static void test_skip(void **state)
{
    struct fixture    *f = *state;
    struct oracle      o;
    struct norm_sum norm = { 0 };
    struct stream_step up = { .row = { .step = 1, .skipped = 1 }, .skip = 1 };
    struct err         err;
    float             *g;
    int                fresh;

    f->cfg.compress = 0.02;
    f->cfg.commit_every = 1;
    oracle_init(&o);
    open_run(f);
    run_step(f, 0);
    oracle_step(&o, &f->cfg, 0);
    assert_int_equal(stream_begin(f->s, STREAM_TRAIN, 1, &err), 0);
    for (size_t b = BLOCKS; b-- > 0;) {
        assert_int_equal(stream_grad(f->s, b, 0, &g, &fresh, &err), 0);
        for (size_t i = 0; i < sizes[b]; i++)
            g[i] = 0.0f;
        if (b == 2)
            g[69999] = NAN;
        assert_int_equal(stream_send_grad(f->s, b, &norm, &err), 0);
    }
    assert_true(norm.nonfinite);
    assert_int_equal(stream_update(f->s, &up, &err), 0);
    same_wire(f, &o);
    assert_int_equal(f->s->applied, 1);
    expect_position(f, 2, 1);
    run_step(f, 2);
    oracle_step(&o, &f->cfg, 2);
    same_wire(f, &o);
    oracle_release(&o);
}

/* What was not sent is owed: through steps, a skip, a clean stop and the resume. */
static void test_error_feedback(void **state)
{
    struct fixture            *f = *state;
    const struct params_source init = { .read = init_read };
    struct oracle              o;
    struct norm_sum         norm = { 0 };
    struct stream_step         skipped = { .row = { .step = 1 }, .skip = 1 };
    struct err                 err = { 0 };

    f->cfg.compress = 0.05;
    f->cfg.error_feedback = 1;
    unlink(f->db); // an image without residuals
    assert_int_equal(runlog_create(&f->log, f->db, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &init, &err), 0);
    runlog_close(f->log);
    open_run(f);
    oracle_init(&o);
    run_step(f, 0);
    oracle_step(&o, &f->cfg, 0);
    step_grads(f, 1, &norm); // these blocks' gradients are sent, and then the step is skipped
    assert_int_equal(stream_update(f->s, &skipped, &err), 0);
    run_step(f, 2);
    oracle_step(&o, &f->cfg, 2);
    same_wire(f, &o);
    assert_int_equal(stream_drain(f->s, &err), 0);
    close_run(f);
    open_run(f);
    for (uint64_t t = 3; t < 5; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
        same_wire(f, &o);
    }
    oracle_release(&o);
}

/* The other optimizers have one moment, and images of another size. */
static void test_one_moment(void **state)
{
    struct fixture            *f = *state;
    const struct params_source init = { .read = init_read };
    struct run_memory          mem;
    struct oracle              o;
    struct err                 err = { 0 };
    char                       db2[128];

    snprintf(db2, sizeof db2, "%s/run2.db", f->dir);
    f->cfg.optim = OPTIM_SGD;
    assert_int_equal(runlog_create(&f->log, db2, 0, &err), 0);
    f->cfg.log = f->log;
    assert_int_equal(image_format(&f->cfg, &init, &err), 0);
    assert_int_equal(stream_mem_open(&f->s, &f->cfg, &err), 0);
    oracle_init(&o);
    for (uint64_t t = 0; t < 3; t++) {
        run_step(f, t);
        oracle_step(&o, &f->cfg, t);
    }
    same_wire(f, &o);
    stream_mem_memory(&f->cfg, &mem);
    assert_int_equal(mem.device_bytes, 2 * 8 * 180034);
    assert_int_equal(mem.layer_grad, 280000);
    oracle_release(&o);
    close_run(f);
    unlink(db2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adamw, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fp32_compressed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_norm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_skip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_error_feedback, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_moment, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
