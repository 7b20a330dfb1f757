/* Products against a naive double-precision one, on each engine, in odd shapes, all forms and
 * formats; the same bits on each run; refusals with a sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/opt/opt_row.h"
#include "kernels/product/matmul_engine.h"

extern const struct matmul_ops matmul_skeleton; // matmul_skeleton.c

static uint32_t state = 1;

static float noise(void) // about uniform in [-1, 1]
{
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 2147483648.0f;
}

static void *buffer(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

    assert_non_null(p);
    return p;
}

static void *noise_array(size_t n, enum dtype dt)
{
    void *p = buffer(n * dtype_bytes(dt));

    for (size_t i = 0; i < n; i++)
        dtype_put(p, dt, i, noise());
    return p;
}

enum { MOST_SHAPES = 12 * 3 * 13 + 1 };

/* What a product has to be, in double, and the sums of magnitudes that its errors are measured by:
 * of each element that is checked. The operands of a shape are always the same ones, so that this
 * is computed once for all engines. */
static struct expected {
    struct matmul_shape s;
    double             *want, *scale;
} expected[MOST_SHAPES];

static size_t every(const struct matmul_shape *s) { return s->m * s->n < 20000 ? 1 : 997; }

static double naive(const struct matmul_shape *s, const void *a, const void *b, const void *bias,
                    size_t i, size_t j, double *scale)
{
    double sum = bias ? (double)dtype_get(bias, s->ab_dt, j) : 0;

    *scale = 1;
    for (size_t p = 0; p < s->k; p++) {
        double x =
            (double)dtype_get(a, s->ab_dt, s->form == MATMUL_TN ? p * s->m + i : i * s->k + p);
        double y =
            (double)dtype_get(b, s->ab_dt, s->form == MATMUL_NT ? j * s->k + p : p * s->n + j);

        sum += x * y;
        *scale += fabs(x * y);
    }
    return sum;
}

static int alike(const struct matmul_shape *x, const struct matmul_shape *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->form == y->form &&
           x->ab_dt == y->ab_dt && x->c_dt == y->c_dt && x->bias == y->bias &&
           x->accumulate == y->accumulate && x->pack_b == y->pack_b;
}

static const struct expected *expect(const struct matmul_shape *s, const void *a, const void *b,
                                     const void *bias, const void *before)
{
    struct expected *e = expected;
    size_t           n = s->m * s->n, step = every(s), t = 0;

    while (e->want && !alike(&e->s, s))
        e++;
    assert_true(e < expected + MOST_SHAPES);
    if (e->want)
        return e;
    *e = (struct expected){ *s, buffer(n * sizeof(double)), buffer(n * sizeof(double)) };
    for (size_t at = 0; at < n; at += step, t++) {
        e->want[t] = naive(s, a, b, bias, at / s->n, at % s->n, &e->scale[t]);
        e->want[t] += s->accumulate ? (double)dtype_get(before, s->c_dt, at) : 0;
    }
    return e;
}

// Run product `id` twice: right, and the same bits both times.
static void check_product(const struct matmul *mm, size_t id, const struct matmul_shape *s,
                          void *scratch)
{
    state = (uint32_t)(s->m * 7 + s->n * 3 + s->k);
    size_t n = s->m * s->n, bytes = n * dtype_bytes(s->c_dt);
    void  *a = noise_array(s->m * s->k, s->ab_dt), *b = noise_array(s->k * s->n, s->ab_dt);
    void  *bias = s->bias ? noise_array(s->n, s->ab_dt) : NULL, *c0 = noise_array(n, s->c_dt);
    void  *c = buffer(bytes + 64), *again = buffer(bytes);
    void  *packed = matmul_packed(mm, id) ? buffer(matmul_packed(mm, id)) : NULL;
    double tolerance = s->c_dt == DT_BF16 ? 4e-3 : 2e-6;

    if (!s->accumulate) // what is there does not count, whatever it is
        for (size_t i = 0; i < n; i++)
            dtype_put(c0, s->c_dt, i, NAN);
    memcpy(c, c0, bytes);
    memset((char *)c + bytes, 0x5a, 64);
    memcpy(again, c0, bytes);
    if (matmul_packed(mm, id))
        matmul_pack(mm, id, packed, b);
    matmul_run(mm, id, c, a, matmul_packed(mm, id) ? packed : b, bias, scratch);
    matmul_run(mm, id, again, a, matmul_packed(mm, id) ? packed : b, bias, scratch);
    assert_memory_equal(c, again, bytes);
    for (int i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)c)[bytes + (size_t)i], 0x5a);
    const struct expected *e = expect(s, a, b, bias, c0);
    for (size_t t = 0, at = 0; at < n; at += every(s), t++)
        if (!(fabs((double)dtype_get(c, s->c_dt, at) - e->want[t]) <= tolerance * e->scale[t]))
            fail_msg("product %zu, element %zu: %g, not %g", id, at,
                     (double)dtype_get(c, s->c_dt, at), e->want[t]);
    free(a);
    free(b);
    free(bias);
    free(c0);
    free(c);
    free(again);
    free(packed);
}

// Every form and format of each size (few: of those that no engine cuts), and once more what was
// there already.
static size_t all_shapes(struct matmul_shape *out, int with_bf16, int few)
{
    static const size_t sizes[][3] = {
        { 1, 1, 1 },    { 1, 65, 33 },    { 17, 5, 130 },   { 65, 66, 67 },
        { 130, 33, 1 }, { 96, 2100, 64 }, { 2085, 40, 32 }, { 33, 17, 2101 },
        { 40, 192, 96 },
        { 37, 21, 63 }, { 70, 70, 63 },   { 37, 2, 20031 }, // oneDNN is wrong here (see its file)
    };
    size_t n = 0;

    for (size_t i = 0; i < (few ? 5 : sizeof sizes / sizeof *sizes); i++)
        for (int form = MATMUL_NN; form <= MATMUL_TN; form++)
            for (int kind = 0; kind < (with_bf16 ? 13 : 5); kind++) {
                struct matmul_shape s = { .form = (enum matmul_form)form,
                                          .m = sizes[i][0],
                                          .n = sizes[i][1],
                                          .k = sizes[i][2] };

                s.ab_dt      = kind < 5 ? DT_F32 : DT_BF16;
                s.c_dt       = kind >= 9 ? DT_BF16 : DT_F32;
                s.bias       = kind == 1 || kind == 3 || kind == 6 || kind == 10 || kind == 12;
                s.accumulate = kind == 2 || kind == 7;
                s.pack_b     = kind == 3 || kind == 4 || kind == 8 || kind >= 11;
                out[n++]     = s;
            }
    out[n++] = out[0];
    return n;
}

static void check_all(struct matmul *mm, const struct matmul_shape *shapes, size_t n)
{
    void *scratch = buffer(mm->scratch_bytes);

    for (size_t i = 0; i < n; i++)
        check_product(mm, i, &shapes[i], scratch);
    free(scratch);
    matmul_close(mm);
}

static void check_engine(enum matmul_engine engine, int threads)
{
    struct matmul_shape shapes[MOST_SHAPES];
    struct matmul      *mm;
    struct err          why;
    size_t              n = all_shapes(shapes, 1, 0);
    int                 rc = matmul_open(&mm, engine, shapes, n, threads, &why);

    if (rc == -ENOTSUP) { // no native bf16 for this engine here
        assert_non_null(strstr(why.text, "onednn"));
        n  = all_shapes(shapes, 0, 0);
        rc = matmul_open(&mm, engine, shapes, n, threads, &why);
    }
    assert_int_equal(rc, 0);
    check_all(mm, shapes, n);
}

static void test_onednn(void **unused)
{
    (void)unused;
    if (!matmul_has(MATMUL_ONEDNN))
        skip();
    check_engine(MATMUL_ONEDNN, 2);
    check_engine(MATMUL_ONEDNN, 1);
}

static void test_openblas(void **unused)
{
    (void)unused;
    check_engine(MATMUL_OPENBLAS, 2);
    check_engine(MATMUL_OPENBLAS, 1);
}

static void test_sitrain(void **unused)
{
    (void)unused;
    check_engine(MATMUL_SITRAIN, 2);
    check_engine(MATMUL_SITRAIN, 1);
}

static void test_skeleton(void **unused)
{
    struct matmul_shape shapes[MOST_SHAPES];
    struct matmul      *mm;
    struct err          why;
    size_t              n = all_shapes(shapes, 1, 1);

    (void)unused;
    assert_int_equal(matmul_open_engine(&mm, &matmul_skeleton, shapes, n, 2, &why), 0);
    assert_string_equal(mm->describe, "skeleton");
    check_all(mm, shapes, n);
}

static void test_auto(void **unused)
{
    (void)unused;
    check_engine(MATMUL_AUTO, 2);
}

// A second object with the same shapes gives the bits of the first: what a resume relies on.
static void test_same_bits_in_another_object(void **unused)
{
    static const enum matmul_engine engines[] = { MATMUL_OPENBLAS, MATMUL_AUTO };
    const struct matmul_shape       s = {
              .form = MATMUL_TN, .m = 200, .n = 300, .k = 150, .ab_dt = DT_BF16
    };
    void  *a = noise_array(s.m * s.k, s.ab_dt), *b = noise_array(s.k * s.n, s.ab_dt);
    float *c[2];
    struct err why;

    (void)unused;
    for (size_t e = 0; e < 2; e++) {
        for (int i = 0; i < 2; i++) {
            struct matmul *mm;
            void          *scratch;

            assert_int_equal(matmul_open(&mm, engines[e], &s, 1, 2, &why), 0);
            scratch = buffer(mm->scratch_bytes);
            c[i]    = buffer(s.m * s.n * 4);
            matmul_run(mm, 0, c[i], a, b, NULL, scratch);
            free(scratch);
            matmul_close(mm);
        }
        assert_memory_equal(c[0], c[1], s.m * s.n * 4);
        free(c[0]);
        free(c[1]);
    }
    free(a);
    free(b);
}

static int engine_of(const char *word)
{
    return opt_words_find(matmul_engine_name, word, strlen(word));
}

static void test_words(void **unused)
{
    struct matmul_shape s = { .m = 8, .n = 8, .k = 8 };
    struct matmul      *mm;
    struct err          why = { 0 };

    (void)unused;
    assert_int_equal(engine_of("auto"), MATMUL_AUTO);
    assert_int_equal(engine_of("openblas"), MATMUL_OPENBLAS);
    assert_int_equal(engine_of("onednn"), MATMUL_ONEDNN);
    assert_int_equal(engine_of("sitrain"), MATMUL_SITRAIN);
    assert_int_equal(engine_of("mkl"), -1);
    assert_string_equal(matmul_engine_name(MATMUL_ONEDNN), "onednn");
    assert_int_equal(matmul_open(&mm, MATMUL_OPENBLAS, &s, 1, 1, &why), 0);
    assert_non_null(strstr(mm->describe, "openblas 0."));
    matmul_close(mm);
    if (matmul_has(MATMUL_ONEDNN)) {
        assert_int_equal(matmul_open(&mm, MATMUL_ONEDNN, &s, 1, 1, &why), 0);
        assert_non_null(strstr(mm->describe, "onednn "));
        matmul_close(mm);
    } else {
        assert_int_equal(matmul_open(&mm, MATMUL_ONEDNN, &s, 1, 1, &why), -ENOTSUP);
        assert_non_null(strstr(why.text, "without onednn"));
    }
    matmul_close(NULL);
}

static void test_better_core(void **unused)
{
    const char *slow = matmul_better_core("Prescott");

    (void)unused;
    assert_null(matmul_better_core("Haswell"));
    assert_null(matmul_better_core("Zen"));
    assert_null(matmul_better_core("SkylakeX"));
    assert_true(!slow || !strcmp(slow, "Haswell") || !strcmp(slow, "SkylakeX"));
#ifdef __x86_64__
    assert_int_equal(slow != NULL, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#endif
}

static void test_refusals(void **unused)
{
    struct matmul_shape bad[] = {
        { .m = 0, .n = 8, .k = 8 },
        { .m = 8, .n = 8, .k = 8, .c_dt = DT_BF16 },
        { .m = 8, .n = 8, .k = 8, .ab_dt = DT_BF16, .c_dt = DT_BF16, .accumulate = 1 },
        { .m = 8, .n = 8, .k = 8, .bias = 1, .accumulate = 1 },
        { .m = 8, .n = 8, .k = 8, .ab_dt = DT_F16 },
    };

    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct matmul *mm = (struct matmul *)&bad;
        struct err     why = { 0 };

        assert_int_equal(matmul_open(&mm, MATMUL_AUTO, &bad[i], 1, 1, &why), -EINVAL);
        assert_null(mm);
        assert_true(strlen(why.text) > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onednn),
        cmocka_unit_test(test_openblas),
        cmocka_unit_test(test_sitrain),
        cmocka_unit_test(test_skeleton),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_same_bits_in_another_object),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_better_core),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
