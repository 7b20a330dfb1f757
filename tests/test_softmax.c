/* Losses and gradients of logits against double: odd sizes, both dtypes, in place, ignored targets.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/softmax.h"
#include "tests/ref.h"

#include <math.h>
#include <stdlib.h>

/* Columns of x (n, V) from `split` on moved behind the others, as softmax.h has its logits. */
static void part(float *x, size_t n, size_t V, size_t split)
{
    float *rest = malloc(n * (V - split) * 4 + 1);

    assert_non_null(rest);
    for (size_t i = 0; i < n; i++)
        memcpy(rest + i * (V - split), x + i * V + split, (V - split) * 4);
    for (size_t i = 0; i < n; i++)
        memmove(x + i * split, x + i * V, split * 4);
    memcpy(x + n * split, rest, n * (V - split) * 4);
    free(rest);
}

/* A column among the first `split` of V or behind them; any where there are no two parts. */
static size_t column(size_t V, size_t split, int behind, uint64_t *seed)
{
    size_t from = behind && split < V ? split : 0, to = behind || split == 0 ? V : split;

    return from + ref_random(seed) % (to - from);
}

/* Of two parts, rows have their target and their maximum in either: four rows, all there is. The
 * fifth has no target. */
static void check(enum dtype dt, size_t n, size_t V, size_t split, float reach, int in_place,
                  uint64_t *seed)
{
    const float scale = 0.125f;
    float *x = guard_alloc(n * V * 4), *losses = guard_alloc(n * 4), *only = guard_alloc(n * 4);
    float      *got = malloc(V * 4);
    void       *dx = in_place ? x : guard_alloc(n * V * dtype_bytes(dt));
    int32_t    *targets = guard_alloc(n * 4);
    double     *wide = malloc(n * V * 8), *want = malloc(V * 8);
    struct softmax_xent xent = { .n = n, .V = V, .logits = x, .split = split, .targets = targets,
                                 .dt = dt, .scale = scale };

    ref_fill(x, n * V, -reach, reach, seed);
    for (size_t i = 0; split < V && i < n; i++)
        x[i * V + column(V, split, i & 2, seed)] = 2 * reach;
    for (size_t i = 0; i < n * V; i++)
        wide[i] = (double)x[i];
    for (size_t i = 0; i < n; i++)
        targets[i] = i == 4 ? -1 : (int32_t)column(V, split, i & 1, seed);
    part(x, n, V, split);
    xent.losses = only;
    softmax_xent(&xent);
    xent.losses = losses;
    xent.dlogits = dx;
    softmax_xent(&xent);
    assert_memory_equal(losses, only, n * 4);
    for (size_t i = 0; i < n; i++) {
        double loss = 0.0;

        memset(want, 0, V * 8);
        if (targets[i] >= 0)
            loss = ref_xent(want, wide + i * V, V, (size_t)targets[i]);
        for (size_t j = 0; j < V; j++) {
            want[j] *= (double)scale;
            got[j] = dtype_get(dx, dt, i * V + j);
        }
        assert_true(ref_excess(losses + i, &loss, 1, 1e-6, 1e-6) <= 1.0);
        assert_true(ref_excess(got, want, V, 1e-8, dt == DT_F32 ? 1e-5 : 1.0 / 256) <= 1.0);
    }
    guard_free(in_place ? NULL : dx);
    guard_free(x);
    guard_free(losses);
    guard_free(only);
    guard_free(targets);
    free(got);
    free(wide);
    free(want);
}

static void test_against_double(void **state)
{
    static const size_t sizes[] = { 1, 2, 63, 64, 65, 257, 4095, 4097, 50257 };
    uint64_t            seed = 1;

    (void)state;
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
        for (int dt = DT_F32; dt <= DT_BF16; dt++) {
            check((enum dtype)dt, 5, sizes[j], sizes[j], 5.0f, 0, &seed);
            check((enum dtype)dt, 5, sizes[j], sizes[j] / 64 * 64, 5.0f, 0, &seed);
            check((enum dtype)dt, 2, sizes[j], sizes[j], 300.0f, 0, &seed);
            check((enum dtype)dt, 5, sizes[j], sizes[j] / 64 * 64, 300.0f, 0, &seed);
            check(DT_F32, 5, sizes[j], sizes[j], 5.0f, 1, &seed);
        }
}

/* A NaN among the logits is not hidden by the maximum, in neither part. */
static void test_nan(void **state)
{
    float         x[100] = {0}, loss;
    const int32_t target = 3;

    (void)state;
    x[70] = NAN;
    for (size_t split = 100; split >= 64; split -= 36) {
        softmax_xent(&(struct softmax_xent){ .n = 1, .V = 100, .logits = x, .split = split,
                                             .targets = &target, .losses = &loss, .scale = 1.0f });
        assert_true(isnan(loss));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
