/* Look-up and its transpose: exact, in the stated order of sums, for any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/elementwise.h"
#include "tests/ref.h"

#include <omp.h>
#include <stdlib.h>

enum { V = 11, P = 9 };

struct tables {
    enum dtype     dt;
    const void    *wte, *types; // of P rows
    const int32_t *tokens;
    size_t         B, T, C;
};

/* Without positions, in two pieces and whole; then a further table added to it. */
static void check_others(const struct tables *t, float *out, uint64_t *seed)
{
    size_t   n = t->B * t->T, C = t->C;
    int32_t *ids = guard_alloc(n * 4);

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(ref_random(seed) % P);
    omp_set_num_threads(2);
    for (size_t cut = 0; cut < V; cut += 4) {
        ref_fill(out, n * C, 2.0f, 3.0f, seed); // values that no table has
        embedding_piece_forward(out, dtype_at(t->wte, t->dt, cut * C), t->dt,
                                (struct embedding_piece){ cut, V - cut }, t->tokens, n, C);
        for (size_t i = 0; i < n; i++)
            assert_true(((size_t)t->tokens[i] < cut) == (out[i * C] >= 2.0f));
        embedding_piece_forward(out, t->wte, t->dt, (struct embedding_piece){ 0, cut }, t->tokens,
                                n, C);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < C; j++)
                assert_true(out[i * C + j] ==
                            dtype_get(t->wte, t->dt, (size_t)t->tokens[i] * C + j));
    }
    embedding_add(out, t->types, t->dt, ids, n, C);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < C; j++)
            assert_true(out[i * C + j] == dtype_get(t->wte, t->dt, (size_t)t->tokens[i] * C + j) +
                                              dtype_get(t->types, t->dt, (size_t)ids[i] * C + j));
    guard_free(ids);
}

static void check_forward(enum dtype dt, size_t B, size_t T, size_t C, size_t first, uint64_t *seed)
{
    void *wte = guard_alloc(V * C * dtype_bytes(dt)), *wpe = guard_alloc(P * C * dtype_bytes(dt));
    float   *out = guard_alloc(B * T * C * 4), x;
    int32_t *tokens = guard_alloc(B * T * 4);

    for (size_t i = 0; i < V * C; i++) {
        ref_fill(&x, 1, -1.0f, 1.0f, seed);
        dtype_put(wte, dt, i, x);
        if (i < P * C)
            dtype_put(wpe, dt, i, x * 0.3f);
    }
    for (size_t i = 0; i < B * T; i++)
        tokens[i] = (int32_t)(ref_random(seed) % V);
    embedding_forward(out, wte, dtype_at(wpe, dt, first * C), dt, tokens, B, T, C);
    for (size_t i = 0; i < B * T; i++)
        for (size_t j = 0; j < C; j++)
            assert_true(out[i * C + j] == dtype_get(wte, dt, (size_t)tokens[i] * C + j) +
                                              dtype_get(wpe, dt, (first + i % T) * C + j));
    check_others(&(struct tables){ dt, wte, wpe, tokens, B, T, C }, out, seed);
    guard_free(wte);
    guard_free(wpe);
    guard_free(out);
    guard_free(tokens);
}

static void check_backward(size_t B, size_t T, size_t C, uint64_t *seed)
{
    float   *dout = guard_alloc(B * T * C * 4), *want = malloc((V + P) * C * 4);
    int32_t *tokens = guard_alloc(B * T * 4);

    ref_fill(dout, B * T * C, -1.0f, 1.0f, seed);
    ref_fill(want, (V + P) * C, -1.0f, 1.0f, seed);
    for (size_t i = 0; i < B * T; i++)
        tokens[i] = (int32_t)(ref_random(seed) % V);
    for (int threads = 1; threads <= 3; threads++) {
        float *dwte = guard_alloc(V * C * 4), *dwpe = guard_alloc(P * C * 4),
              *sums = malloc((V + P) * C * 4);

        memcpy(sums, want, (V + P) * C * 4);
        memcpy(dwte, want, V * C * 4);
        memcpy(dwpe, want + V * C, P * C * 4);
        omp_set_num_threads(threads);
        embedding_backward(dwte, dwpe, dout, tokens, B, T, C);
        for (size_t i = 0; i < B * T; i++)
            for (size_t j = 0; j < C; j++) {
                sums[(size_t)tokens[i] * C + j] += dout[i * C + j];
                sums[(V + i % T) * C + j] += dout[i * C + j];
            }
        assert_memory_equal(dwte, sums, V * C * 4);
        assert_memory_equal(dwpe, sums + V * C, P * C * 4);
        memcpy(dwte, want, V * C * 4);
        embedding_piece_backward(dwte, dout, (struct embedding_piece){ 0, 4 }, tokens, B * T, C);
        embedding_piece_backward(dwte + 4 * C, dout, (struct embedding_piece){ 4, V - 4 }, tokens,
                                 B * T, C);
        assert_memory_equal(dwte, sums, V * C * 4);
        guard_free(dwte);
        guard_free(dwpe);
        free(sums);
    }
    guard_free(dout);
    guard_free(tokens);
    free(want);
}

static void test_embedding(void **state)
{
    static const size_t Cs[] = { 1, 15, 16, 17, 48, 77 };
    uint64_t            seed = 1;

    (void)state;
    for (size_t i = 0; i < sizeof Cs / sizeof Cs[0]; i++) {
        check_forward(DT_F32, 3, 7, Cs[i], 0, &seed);
        check_forward(DT_BF16, 3, 7, Cs[i], 2, &seed);
        check_forward(DT_BF16, 4, 1, Cs[i], 8, &seed);
        check_backward(3, 9, Cs[i], &seed);
        check_backward(1, 1, Cs[i], &seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
