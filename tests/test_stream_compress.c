/* test_stream_compress.c: compressed gradients, and what is not sent of them: every mode ends with
 * the bits of the one in memory, with and without error feedback. */
#include "offload/devices/devices.h"
#include "tests/variant.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void compressed_same_bits(void **state)
{
    (void)state;
    struct variant       mem = variant_mem;
    const struct variant v[] = {
        { RUN_BASE, 3, 256 << 10, 3, 2, .disk = "uring", .compress = 0.05 },
        { RUN_SUO, 1, 128 << 10, 2, 1, .disk = "uring", .compress = 0.05, .stop_every = 1 },
        { RUN_SUO, 5, 1 << 20, 4, 2, .disk = "sync", .compress = 0.05 },
    };
    struct trained       want;

    mem.compress = 0.05;
    want = variant_run(&mem);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        variant_same(&v[i], &want);
}

static const struct variant with_feedback[] = {
    { RUN_MEM, 1, 1 << 20, 2, 1, .disk = "sync", .feedback = STREAMED, .stop_every = 1,
      .quit_block = 3 },
    { RUN_BASE, 3, 256 << 10, 3, 2, .disk = "uring", .feedback = STREAMED },
    { RUN_BASE, 2, 1 << 20, 2, 1, .disk = "uring", .feedback = IN_RAM },
    { RUN_SUO, 1, 128 << 10, 2, 1, .disk = "uring", .feedback = STREAMED, .stop_every = 1 },
    { RUN_SUO, 2, 128 << 10, 2, 1, .disk = "uring", .feedback = STREAMED, .stop_every = 2,
      .quit_block = 2 },
    { RUN_SUO, 1, 128 << 10, 2, 1, .disk = "uring", .feedback = IN_RAM, .stop_every = 1 },
    { RUN_SUO, 5, 1 << 20, 4, 2, .disk = "sync", .feedback = STREAMED },
    { RUN_SUO, 5, 256 << 10, 1, 2, .disk = "sync", .feedback = IN_RAM, .stop_every = 2,
      .quit_block = 1 },
    { RUN_SU, 2, 200 << 10, 2, 2, .disk = "uring", .feedback = IN_RAM },
};

/* Every mode in the variants of error feedback: streamed and in RAM, stopped, poisoned; and it is
 * not the same without it. */
static void error_feedback_same_bits(void **state)
{
    (void)state;
    for (int poison = 0; poison <= 3; poison += 3) {
        struct variant mem = variant_mem, v;
        struct trained want, without;

        mem.compress = 0.05;
        mem.poison_step = poison;
        mem.feedback = STREAMED;
        want = variant_run(&mem);
        for (size_t i = 0; i < sizeof with_feedback / sizeof *with_feedback; i++) {
            v = with_feedback[i];
            v.compress = 0.05;
            v.poison_step = poison;
            // the traffic is that of steps without a stop or a skip
            if (poison || (v.mode != RUN_MEM && v.stop_every == 0))
                variant_same(&v, &want);
        }
        mem.feedback = SENT_IS_ALL;
        without = variant_run(&mem);
        assert_true(without.loss[1] == want.loss[1]); // the first step owes nothing yet
        assert_true(without.loss[2] != want.loss[2]);
        assert_int_not_equal(without.params, want.params);
    }
}

/* A damaged residual is named, and never gets into a gradient. */
static void damaged_residual_is_named(void **state)
{
    (void)state;
    const struct variant v = { RUN_SUO, 1, 1 << 20, 2, 1, .disk = "sync", .compress = 0.05,
                               .feedback = IN_RAM };
    char               path[4096];
    const void        *wire[BLOCKS];
    struct norm_sum norm = { 0 };
    struct toy         t;
    struct store       st;
    struct stream     *s;
    float             *grad;
    double             loss;
    FILE              *f;
    int                fresh, rc;

    variant_make(&t, &v, WAIT);
    s = toy_open(&t);
    toy_train(&t, s, 0);
    toy_close(&t, s);
    must(&t, store_init(&st, &t.cfg, &t.err));
    snprintf(path, sizeof path, "%s/dev0/states", t.dir);
    f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)store_residual_off(&st.subs[st.block_sub[BLOCKS - 1]], 1) + 100,
                           SEEK_SET),
                     0);
    fputc(0x55, f);
    fclose(f);
    store_release(&st);

    s = toy_open(&t);
    must(&t, toy_forward(&t.cfg, s, 1, wire, &loss, &t.err));
    // it is being read by now, and may be known
    rc = stream_grad(s, BLOCKS - 1, 0, &grad, &fresh, &t.err);
    assert_int_equal(rc ? rc : stream_send_grad(s, BLOCKS - 1, &norm, &t.err), -EBADMSG);
    assert_non_null(strstr(t.err.text, "the residual of block 5, "));
    stream_close(s);
    toy_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_same_bits),
        cmocka_unit_test(error_feedback_same_bits),
        cmocka_unit_test(damaged_residual_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
