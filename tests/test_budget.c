/* The memory plan: what fits is used in the stated order, what does not is refused with a size that
 * then does. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/estimate/budget.h"

#include <errno.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Minimum: 20 + 154 + 2 x 14 + 28 + 50 + 60 + 70 + 2 = 412 MiB. */
static struct budget_request small(uint64_t host_mem)
{
    return (struct budget_request){ .host_mem = host_mem,
                                    .process = 20 * MIB,
                                    .fixed_streams = 154 * MIB,
                                    .layer_frame = 14 * MIB,
                                    .layer_grad = 28 * MIB,
                                    .n_layer = 12,
                                    .training = 1,
                                    .block_inputs = 50 * MIB,
                                    .kept_per_layer = 100 * MIB,
                                    .work = 60 * MIB,
                                    .head = 70 * MIB,
                                    .spans = 2 * MIB,
                                    .keep = 1 };
}

static void plan(struct budget *b, uint64_t mib)
{
    struct budget_request r = small(mib * MIB);
    struct err            err;
    uint64_t              sum = 0;

    assert_int_equal(budget_plan(b, &r, &err), 0);
    for (size_t i = 0; i < b->n_items; i++)
        sum += b->items[i].bytes;
    assert_int_equal(sum, b->total);
    assert_true(b->total <= b->limit);
    assert_int_equal(b->limit, mib * MIB);
}

static void test_route(void **state)
{
    struct budget b;

    (void)state;
    plan(&b, 412);
    assert_true(b.frames == 2 && b.grad_buffers == 1 && b.kept == 0);
    plan(&b, 412 + 28); // first the second gradient buffer
    assert_true(b.frames == 2 && b.grad_buffers == 2 && b.kept == 0);
    plan(&b, 412 + 28 + 14);
    assert_true(b.frames == 3 && b.grad_buffers == 2 && b.kept == 0);
    plan(&b, 412 + 28 + 14 + 250);
    assert_true(b.frames == 3 + 50 / 14 && b.grad_buffers == 2 && b.kept == 2);
    plan(&b, 100000);
    assert_true(b.frames == 12 && b.grad_buffers == 2 && b.kept == 12);
}

/* 160 MiB of residual in all; streamed 48 and 14 for each gradient buffer. */
static void test_error_feedback(void **state)
{
    struct budget_request r = small((412 + 48 + 14) * MIB);
    struct budget         b;
    struct err            err;

    (void)state;
    r.residual_ram = 160 * MIB;
    r.residual_ends = 48 * MIB;
    r.residual_layer = 14 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.grad_buffers == 1 && !b.residual_in_ram && b.total == b.limit);
    r.host_mem += (28 + 14 + 14) * MIB; // a second gradient buffer and a third frame come first
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.grad_buffers == 2 && b.frames == 3 && !b.residual_in_ram && b.total == b.limit);
    r.host_mem += (160 - 48 - 2 * 14) * MIB; // its own buffers are what it takes the place of
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.residual_in_ram && b.kept == 0 && b.total == b.limit);
    r.host_mem -= 1;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(!b.residual_in_ram && b.frames > 3 && b.total <= b.limit);
    r.in_memory = 1;
    r.host_mem = 10000 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.residual_in_ram);
}

static void test_refusal(void **state)
{
    struct budget_request r = small(300 * MIB);
    struct budget         b;
    struct err            err = { 0 };

    (void)state;
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_true(err.misuse);
    assert_string_equal(err.text, "--host-mem 300M is too small: this run needs at least 412M, of "
                                  "which embeddings, final norm and head take 154M");
    r = small(400); // where 400M was meant
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--host-mem 400 bytes is too small: "));
    r = small(411 * MIB);
    r.process += 1; // and what it names is rounded up
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "at least 413M"));
}

static void test_keep(void **state)
{
    struct budget_request r = small(100000 * MIB);
    struct budget         b;
    struct err            err = { 0 };

    (void)state;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_int_equal(b.kept, 12);
    r.keep = 0;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_int_equal(b.kept, 0);
}

/* Three buffers of 40 MiB before anything else, more after the third frame; none where nothing is
 * left to offload. What is chosen later gets what is left, before a cache of frames. */
static void test_offload(void **state)
{
    struct budget_request r = small((412 + 120) * MIB);
    struct budget         b;
    struct err            err = { 0 };

    (void)state;
    r.record_buffer = 40 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.record_buffers == 3 && b.total == r.host_mem);
    r.host_mem -= 1;
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "at least 532M"));
    r.host_mem = (532 + 28 + 14 + 39) * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.grad_buffers == 2 && b.record_buffers == 3 && b.frames > 3);
    r.host_mem = (532 + 28 + 14 + 9 * 40 + 100) * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.frames == 3 && b.record_buffers == 12 && b.kept == 1);
    r.pool_most = 1200 * MIB;
    r.host_mem += 150 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.frames == 3 && b.record_buffers == 6 && b.kept == 0 && b.pool == 490 * MIB);
    assert_int_equal(b.spare, 240 * MIB);
    r.host_mem = 100000 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.kept == 12 && b.record_buffers == 0 && b.pool == 0);
    r.pool_most = 0;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.kept == 12 && b.record_buffers == 0);
}

static void test_shapes(void **state)
{
    struct budget_request r = small(412 * MIB);
    struct budget         b;
    struct err            err = { 0 };

    (void)state;
    r.n_layer = 1; // one frame is enough, and there is nothing to double
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.frames == 1 && b.grad_buffers == 1 && b.kept == 0);
    r = small(800 * MIB);
    r.training = 0;
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.frames == 12 && b.grad_buffers == 0 && b.kept == 0);
    r = small(2000 * MIB);
    r.in_memory = 1; // nothing is a choice but the activations
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_true(b.frames == 12 && b.grad_buffers == 12);
    r.host_mem = 800 * MIB;
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "at least 860M"));
}

/* Without a limit the machine gives one, which has to hold the arenas too. */
static void test_machine(void **state)
{
    struct budget_request r = { .process = 1, .n_layer = 1, .layer_frame = 1, .arenas = 1 << 20 };
    struct budget         b;
    struct err            err = { 0 };

    (void)state;
    assert_true(budget_available() > 0);
    assert_int_equal(budget_plan(&b, &r, &err), 0);
    assert_int_equal(b.arenas, 1 << 20);
    assert_int_equal(b.total, 2);
    r.arenas = UINT64_MAX / 2;
    assert_int_equal(budget_plan(&b, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "this machine has 0K of memory to spare"));
}

static void test_print(void **state)
{
    struct budget b;
    char          text[4096], tiny[16];

    (void)state;
    plan(&b, 454);
    b.arenas = 3 * MIB;
    budget_print(&b, text, sizeof text);
    assert_non_null(strstr(text, "embeddings, final norm and head         154.0 MiB  parameters "
                                 "and gradients\n"));
    assert_non_null(strstr(text, "3 of 12 layers"));
    assert_non_null(strstr(text, "total                                   454.0 MiB\n"));
    assert_non_null(strstr(text, "arenas of emulated devices                3.0 MiB  on top of "
                                 "it\n"));
    budget_print(&b, tiny, sizeof tiny); // cut, not overrun
    assert_int_equal(strlen(tiny), sizeof tiny - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route),   cmocka_unit_test(test_error_feedback),
        cmocka_unit_test(test_refusal), cmocka_unit_test(test_keep),
        cmocka_unit_test(test_offload), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_machine), cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
