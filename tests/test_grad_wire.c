/* test_grad_wire.c: what is packed comes out again however it is cut, and nothing that is wrong
 * gets near the gradient. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "csd/engine/grad_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5000, FIRST = 70000 };

static size_t pairs_make(struct topk_pair *p, size_t every)
{
    size_t n = 0;

    for (size_t i = every - 1; every > 0 && i < N; i += every)
        p[n++] = (struct topk_pair){(uint32_t)(FIRST + i), (float)i + 0.5f};
    return n;
}

static int unpack(float *dense, const char *packed, size_t pairs, size_t piece, struct err *err)
{
    struct grad_wire_reader r;
    size_t                  bytes = grad_wire_bytes(pairs);
    int                     rc = 0;

    memset(dense, 0, N * sizeof *dense);
    grad_wire_begin(&r, N, pairs);
    for (size_t at = 0; at < bytes && rc == 0; at += piece)
        rc =
            grad_wire_scatter(&r, dense, packed + at, bytes - at < piece ? bytes - at : piece, err);
    return rc;
}

static void test_round_trip(void **state)
{
    static const size_t every[] = {0, 1, 2, 7, 4999, 5000}, pieces[] = {4096, 8192, 1 << 20};
    struct topk_pair   *p = calloc(N, sizeof *p);
    float              *dense = calloc(N, sizeof *dense);
    struct err          err;

    (void)state;
    for (size_t e = 0; e < sizeof every / sizeof every[0]; e++)
        for (size_t c = 0; c < sizeof pieces / sizeof pieces[0]; c++) {
            size_t pairs = pairs_make(p, every[e]), bytes = grad_wire_bytes(pairs);
            char  *packed = malloc(bytes);

            memset(packed, 0xff, bytes);
            grad_wire_pack(packed, p, pairs, FIRST, N);
            assert_int_equal(bytes % GRAD_WIRE_ALIGN, 0);
            for (size_t i = GRAD_WIRE_HEADER + 8 * pairs; i < bytes; i++)
                assert_int_equal(packed[i], 0);
            if (unpack(dense, packed, pairs, pieces[c], &err))
                fail_msg("%s", err.text);
            for (size_t i = 0; i < N; i++)
                assert_true(dense[i] ==
                            (every[e] && (i + 1) % every[e] == 0 ? (float)i + 0.5f : 0.0f));
            free(packed);
        }
    free(p);
    free(dense);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(grad_wire_bytes(0), 4096);
    assert_int_equal(grad_wire_bytes(504), 4096);
    assert_int_equal(grad_wire_bytes(505), 8192);
}

/* Put `value` over the index of pair `at`, or (at < 0) over byte -at of the header. */
static void test_refusals(void **state)
{
    static const struct {
        long     at;
        uint32_t value;
    } bad[] = { { 3, N },  { 3, 0xffffffffu }, { 3, 0 },      { 0, 9999 },
                { 9, 19 }, { -1, 1 },          { -8, N + 1 }, { -16, 11 } };
    struct topk_pair *p = calloc(N, sizeof *p);
    float            *dense = calloc(N, sizeof *dense);
    size_t            pairs = pairs_make(p, 2), bytes = grad_wire_bytes(pairs);
    char             *packed = malloc(bytes);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};

        grad_wire_pack(packed, p, pairs, FIRST, N);
        memcpy(packed + (bad[i].at < 0 ? -bad[i].at : GRAD_WIRE_HEADER + 8 * bad[i].at),
               &bad[i].value, 4);
        if (bad[i].at == 9) // 19 is its own index: twice the same
            memcpy(packed + GRAD_WIRE_HEADER + 8 * 10, &bad[i].value, 4);
        assert_int_equal(unpack(dense, packed, pairs, 4096, &err), -EBADMSG);
        assert_true(err.text[0] != 0);
    }
    free(packed);
    free(dense);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
