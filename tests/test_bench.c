/* What bench measures beside computing: however short that was, and however late the thread of the
 * updates came, they have a rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "tests/tempdir.h"

static void test_beside(void **state)
{
    struct err           err = { 0 };
    struct bench_opts    o = { .quick = 1 };
    struct bench         b = { .o = &o, .scratch = tempdir };
    struct bench_beside *s = NULL;

    (void)state;
    assert_int_equal(train_opts_default(&o.train, &err), 0);
    o.train.seq = 16;
    o.train.csd_mem = 1 << 20;
    o.train.device_in_ram = 1;
    assert_int_equal(train_opts_check(&o.train, &err), 0);
    b.config = arch_config(&gpt2_arch, (struct model_config){
        .n_layer = 1, .n_head = 2, .n_embd = 32, .vocab = 96, .n_positions = 16,
        .norm_eps = 1e-5f });
    assert_int_equal(bench_beside_open(&s, &b, &err), 0);
    for (int turn = 0; turn < 20; turn++) {
        assert_int_equal(bench_beside_start(s, &err), 0);
        assert_true(bench_beside_stop(s, &err) > 0);
    }
    bench_beside_close(s);
    train_opts_release(&o.train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_beside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
