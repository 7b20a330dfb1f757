/* The reading stream: right values in every frame count, nothing read that is still there, errors
 * with their sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "offload/run.h"
#include "offload/stream/stream_open.h"
#include "tests/toy.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

enum { BLOCKS = 7 }; // five layers

static const size_t sizes[BLOCKS] = { 70001, 66000, 1, 65536, 300, 131073, 17 };

struct counted {
    atomic_size_t reads[BLOCKS]; // from a block's first parameter
    size_t        fails;         // block that cannot be read, or 0
};

static float value(size_t block, size_t i)
{
    return (float)block + (float)(i % 1000) * 0.001f;
}

static int counted_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                        struct err *err)
{
    struct counted *c = ctx;

    assert_true(first + n <= sizes[block]);
    if (first == 0)
        atomic_fetch_add(&c->reads[block], 1);
    if (c->fails && block == c->fails)
        return err_set(err, -EIO, "block %zu is not there", block);
    for (size_t i = 0; i < n; i++)
        out[i] = value(block, first + i);
    return 0;
}

static struct stream *open_stream(struct counted *c, enum dtype dt, size_t frames)
{
    struct params_source source = { .read = counted_read, .ctx = c };
    const struct route   route = toy_route(BLOCKS);
    struct stream       *s;
    struct err           err;

    assert_int_equal(stream_read_open(&s, &source, &route, sizes, dt, frames, &err), 0);
    return s;
}

static const void *take(struct stream *s, size_t block, enum dtype dt)
{
    const void *wire;
    struct err  err;
    size_t      wrong = 0;

    assert_int_equal(stream_acquire(s, block, &wire, &err), 0);
    assert_int_equal((uintptr_t)wire % 64, 0);
    for (size_t i = 0; i < sizes[block]; i++)
        wrong += dtype_get(wire, dt, i) !=
                 (dt == DT_F32 ? value(block, i) : bf16_to_f32(bf16_from_f32(value(block, i))));
    assert_int_equal(wrong, 0);
    return wire;
}

static void pass(struct stream *s, enum dtype dt)
{
    struct err  err;
    const void *first, *again;

    assert_int_equal(stream_begin(s, STREAM_EVAL, 3, &err), 0);
    first = take(s, 0, dt);
    stream_release(s, 0);
    for (size_t b = 1; b < BLOCKS - 1; b++) {
        take(s, b, dt);
        stream_release(s, b);
    }
    take(s, BLOCKS - 1, dt);
    again = take(s, 0, dt);
    assert_ptr_equal(first, again);
    stream_release(s, 0);
    stream_release(s, BLOCKS - 1);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t frames = 1; frames <= 6; frames++)
        for (int f32 = 0; f32 < 2; f32++) {
            struct counted c = { 0 };
            enum dtype     dt = f32 ? DT_F32 : DT_BF16;
            struct stream *s = open_stream(&c, dt, frames);

            for (int p = 0; p < 3; p++)
                pass(s, dt);
            assert_int_equal(c.reads[0], 1); // their frames are their own
            assert_int_equal(c.reads[BLOCKS - 1], 1);
            for (size_t b = 1; b < BLOCKS - 1; b++) {
                size_t own = b + frames > 5 && b <= frames; // no other layer shares its frame

                assert_int_equal(c.reads[b], own ? 1 : 3);
            }
            assert_true(meter_total(s->meter, 3, PHASE_PARAM_READ) > 0);
            stream_close(s);
        }
}

/* The reader works ahead as far as frames go, and no further. */
static void test_ahead(void **state)
{
    struct counted        c = { 0 };
    struct stream        *s = open_stream(&c, DT_BF16, 2);
    const struct timespec blink = { .tv_nsec = 1000000 };
    struct err            err;

    (void)state;
    assert_int_equal(stream_begin(s, STREAM_EVAL, 0, &err), 0);
    while (!c.reads[2])
        nanosleep(&blink, NULL);
    take(s, 0, DT_BF16);
    stream_release(s, 0);
    take(s, 1, DT_BF16);
    nanosleep(&blink, NULL);
    assert_int_equal(c.reads[3], 0); // layer 3 needs layer 1's frame
    stream_release(s, 1);
    while (!c.reads[3])
        nanosleep(&blink, NULL);
    take(s, 2, DT_BF16);
    stream_close(s); // in the middle of a pass
}

/* A pass may be left; the next one takes its frames back. */
static void test_left_pass(void **state)
{
    struct counted c = { 0 };
    struct stream *s = open_stream(&c, DT_F32, 2);
    struct err     err;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(stream_begin(s, STREAM_EVAL, 3, &err), 0);
        for (size_t b = 0; b <= (size_t)i % 4; b++) {
            take(s, b, DT_F32);
            stream_release(s, b);
        }
    }
    pass(s, DT_F32);
    stream_close(s);
}

static void test_errors(void **state)
{
    struct counted     c = { .fails = 3 };
    struct stream     *s = open_stream(&c, DT_BF16, 3);
    const void        *wire;
    float             *grad;
    struct norm_sum norm;
    struct stream_step step = { 0 };
    struct err         err = { 0 };
    int                fresh, rc = 0;

    (void)state;
    assert_int_equal(stream_begin(s, STREAM_TRAIN, 0, &err), -ENOTSUP);
    assert_int_equal(stream_grad(s, 0, 0, &grad, &fresh, &err), -ENOTSUP);
    assert_int_equal(stream_send_grad(s, 0, &norm, &err), -ENOTSUP);
    assert_int_equal(stream_update(s, &step, &err), -ENOTSUP);
    assert_int_equal(stream_drain(s, &err), 0);
    assert_int_equal(s->applied, 0);
    assert_int_equal(stream_begin(s, STREAM_EVAL, 0, &err), 0);
    for (size_t b = 0; b < BLOCKS && !rc; b++) {
        rc = stream_acquire(s, b, &wire, &err);
        if (!rc)
            stream_release(s, b);
    }
    assert_int_equal(rc, -EIO);
    assert_string_equal(err.text, "block 3 is not there");
    stream_close(s);
}

static void test_unused(void **state)
{
    struct counted c = { 0 };

    (void)state;
    stream_close(open_stream(&c, DT_BF16, 2));
    assert_int_equal(c.reads[0], 0);
    stream_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),    cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_left_pass), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_unused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
