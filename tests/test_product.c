/* siTrain's own products, in each form that this CPU has, and in the two of rarer CPUs with their
 * instructions emulated: fuzzed sizes, forms and formats against doubles, beside guard pages; the
 * same bits for any number of threads, fewer than planned too, any cuts and rows, with B packed
 * before, with A in tiles, and in a parallel region that does other work. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/base/round.h"
#include "kernels/product/product.h"
#include "kernels/tiled.h"
#include "tests/ref.h"

extern const struct block_form block_amx_emulated, block_pairs_emulated;

static const struct block_form *const forms[] = {
    &block_plain, &block_avx2, &block_avx512, &block_pairs, &block_pairs_emulated,
    &block_amx, &block_amx_emulated,
};

enum { FORMS = sizeof forms / sizeof *forms, FIRST_BF16 = 3 };

struct matrices {
    void  *a, *b, *bias, *before; // before: what C holds
    size_t c_bytes;
};

static size_t random_below(uint64_t *state, size_t n) { return ref_random(state) / 64 % n; }

static void *random_array(size_t n, enum dtype dt, float size, uint64_t *state)
{
    float *x = malloc(n * sizeof *x);
    void  *p = guard_alloc(n * dtype_bytes(dt));

    assert_non_null(x);
    ref_fill(x, n, -size, size, state);
    for (size_t i = 0; i < n; i++)
        dtype_put(p, dt, i, x[i]);
    free(x);
    return p;
}

static struct matrices matrices_make(const struct matmul_shape *s, float size, uint64_t *state)
{
    struct matrices x = { .c_bytes = s->m * s->n * dtype_bytes(s->c_dt) };

    x.a = random_array(s->m * s->k, s->ab_dt, size, state);
    x.b = random_array(s->k * s->n, s->ab_dt, size, state);
    x.bias = s->bias ? random_array(s->n, s->ab_dt, size, state) : NULL;
    x.before = random_array(s->m * s->n, s->c_dt, size, state);
    for (size_t i = 0; i < s->m * s->n && !s->accumulate; i++)
        dtype_put(x.before, s->c_dt, i, NAN); // nobody reads it
    return x;
}

static void matrices_free(struct matrices *x)
{
    guard_free(x->a);
    guard_free(x->b);
    guard_free(x->bias);
    guard_free(x->before);
}

/* Joins the product in a region whose first thread comes late, and others after other work. */
static void run_joined(const struct product *p, void *c, const struct matrices *x, const void *b,
                       void *scratch)
{
    product_begin(p, scratch);
    #pragma omp parallel
    {
        if (omp_get_thread_num() == 0)
            usleep(50);
        #pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < 7; i++)
            usleep(10);
        product_join(p, c, x->a, b, x->bias, scratch);
    }
}

enum how { ALONE, JOINED };

/* The product by this form and cuts (NULL: the form's), planned for `threads`, run by `team`. */
static void *run_team(const struct matmul_shape *s, const struct matrices *x,
                      const struct block_form *form, int threads, int team,
                      const struct cuts *cuts, enum how how)
{
    struct product p;
    void          *c = guard_alloc(x->c_bytes), *scratch, *packed = NULL;

    product_plan(&p, s, threads, form, cuts);
    omp_set_num_threads(team);
    scratch = guard_alloc(round_up(p.scratch_bytes, 64));
    memset(scratch, 0xff, p.scratch_bytes); // words are NaN
    if (s->pack_b) {
        packed = guard_alloc(product_packed(&p));
        product_pack(&p, packed, x->b);
    }
    memcpy(c, x->before, x->c_bytes);
    if (how == JOINED)
        run_joined(&p, c, x, packed ? packed : x->b, scratch);
    else
        product_run(&p, c, x->a, packed ? packed : x->b, x->bias, scratch);
    guard_free(scratch);
    guard_free(packed);
    return c;
}

static void *run(const struct matmul_shape *s, const struct matrices *x,
                 const struct block_form *form, int threads, const struct cuts *cuts)
{
    return run_team(s, x, form, threads, threads, cuts, ALONE);
}

static double element(const struct matmul_shape *s, const struct matrices *x, size_t i, size_t j,
                      double *size)
{
    double sum = s->bias ? (double)dtype_get(x->bias, s->ab_dt, j) : 0;

    sum += s->accumulate ? (double)dtype_get(x->before, s->c_dt, i * s->n + j) : 0;
    *size = fabs(sum);
    for (size_t k = 0; k < s->k; k++) {
        double u = (double)dtype_get(x->a, s->ab_dt,
                                     s->form == MATMUL_TN ? k * s->m + i : i * s->k + k);
        double v = (double)dtype_get(x->b, s->ab_dt,
                                     s->form == MATMUL_NT ? j * s->k + k : k * s->n + j);

        sum += u * v;
        *size += fabs(u * v);
    }
    return sum;
}

/* Some elements against doubles. Forms of bf16 may flush subnormal numbers. */
static void check_values(const struct matmul_shape *s, const struct matrices *x, const void *c,
                         const char *form)
{
    size_t n = s->m * s->n;

    for (size_t t = 0; t < n; t += n < 4000 ? 1 : 97) {
        double size, want = element(s, x, t / s->n, t % s->n, &size),
                     got = (double)dtype_get(c, s->c_dt, t);
        double bound = 2e-6 * size + (double)(s->k + 1) * 0x1p-126 +
                       (s->c_dt == DT_BF16 ? 0x1p-8 * fabs(want) : 0);

        if (!(fabs(got - want) <= bound))
            fail_msg("%s: form %d, %zu x %zu x %zu, element %zu: %g, not %g", form, s->form, s->m,
                     s->n, s->k, t, got, want);
    }
}

static struct matmul_shape random_shape(uint64_t *state, enum dtype dt)
{
    static const size_t most[] = { 1, 3, 17, 33, 70, 130, 300 };
    struct matmul_shape s = { .form = (enum matmul_form)random_below(state, 3), .ab_dt = dt };

    s.m = 1 + random_below(state, most[random_below(state, 7)]);
    s.n = 1 + random_below(state, most[random_below(state, 7)]);
    s.k = 1 + random_below(state, most[random_below(state, 7)]);
    s.c_dt = dt == DT_BF16 && random_below(state, 2) ? DT_BF16 : DT_F32;
    s.accumulate = s.c_dt == DT_F32 && random_below(state, 3) == 0;
    s.bias = !s.accumulate && random_below(state, 2);
    s.pack_b = random_below(state, 3) == 0;
    return s;
}

static struct cuts random_cuts(uint64_t *state)
{
    struct cuts c = { .least = 1 + random_below(state, 100), .most = 1 + random_below(state, 100),
                      .own = 1 + random_below(state, 4000), .wide = 1 + random_below(state, 100),
                      .turns = 1 + random_below(state, 9),
                      .deep = 16 * (1 + random_below(state, 9)),
                      .piece = 16 * (1 + random_below(state, 4)),
                      .ahead = 16 * random_below(state, 3) };

    c.shared = random_below(state, 2) ? 1 << 20 : 1;
    return c;
}

static void same_bits(const struct matmul_shape *s, const void *want, void *got, size_t bytes,
                      const char *form, const char *what)
{
    if (memcmp(want, got, bytes))
        fail_msg("%s: form %d, %zu x %zu x %zu: other bits %s", form, s->form, s->m, s->n, s->k,
                 what);
    guard_free(got);
}

/* The first rows of C, alone. A of TN would have other columns, so it is left out. */
static void check_rows(const struct matmul_shape *s, const struct matrices *x, const void *c,
                       const struct block_form *form, uint64_t *state)
{
    struct matmul_shape part = *s;
    struct matrices     of = *x;

    if (s->form == MATMUL_TN)
        return;
    part.m = 1 + random_below(state, s->m);
    of.c_bytes = x->c_bytes / s->m * part.m;
    same_bits(s, c, run(&part, &of, form, 2, NULL), of.c_bytes, form->name, "with fewer rows");
}

/* A in tiles, where the form takes it so: NaN in the rows behind the last one. */
static void check_tiled(const struct matmul_shape *s, const struct matrices *x, const void *c,
                        const struct block_form *form, const struct cuts *cuts, uint64_t *state)
{
    struct matmul_shape tiled = *s;
    struct matrices     of = *x;
    struct product      p;
    size_t rows = s->form == MATMUL_TN ? s->k : s->m, cols = s->form == MATMUL_TN ? s->m : s->k;

    tiled.tiled_a = 1;
    product_plan(&p, &tiled, 1, form, cuts);
    assert_int_equal(p.s.tiled_a, form->tiled);
    if (!form->tiled)
        return;
    of.a = guard_alloc(tiled_size(rows, cols) * sizeof(bf16));
    memset(of.a, 0xff, tiled_size(rows, cols) * sizeof(bf16));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < round_up(cols, TILED_COLS); j++)
            ((bf16 *)of.a)[tiled_at(cols, i, j)] = j < cols ? ((bf16 *)x->a)[i * cols + j] : 0;
    tiled.pack_b = (int)random_below(state, 2);
    same_bits(s, c, run(&tiled, &of, form, 1, NULL), x->c_bytes, form->name, "with A in tiles");
    same_bits(s, c, run(&tiled, &of, form, 3, cuts), x->c_bytes, form->name,
              "with A in tiles, in pieces");
    guard_free(of.a);
}

static void check_form(const struct block_form *form, enum dtype dt, size_t rounds)
{
    static const int threads[] = { 2, 3, 5 };
    uint64_t         state = 7;

    for (size_t r = 0; r < rounds; r++) {
        struct matmul_shape s = random_shape(&state, dt), other = s;
        struct matrices     x = matrices_make(&s, r % 8 == 7 ? 1e-20f : 1.0f, &state);
        struct cuts         cuts = random_cuts(&state);
        void               *c = run(&s, &x, form, 1, NULL);

        check_values(&s, &x, c, form->name);
        for (size_t t = 0; t < 3; t++)
            same_bits(&s, c, run(&s, &x, form, threads[t], t == 1 ? &cuts : NULL), x.c_bytes,
                      form->name, "with more threads");
        same_bits(&s, c, run_team(&s, &x, form, 5, 2, &cuts, ALONE), x.c_bytes, form->name,
                  "with fewer threads than planned");
        same_bits(&s, c, run_team(&s, &x, form, 4, 3, r % 2 ? &cuts : NULL, JOINED), x.c_bytes,
                  form->name, "in another parallel region");
        other.pack_b = !s.pack_b;
        same_bits(&s, c, run(&other, &x, form, 2, &cuts), x.c_bytes, form->name,
                  "with B packed or not");
        if (form->dt == DT_F32)
            same_bits(&s, c, run(&s, &x, &block_plain, 2, NULL), x.c_bytes, form->name,
                      "than in plain C");
        check_rows(&s, &x, c, form, &state);
        check_tiled(&s, &x, c, form, &cuts, &state);
        guard_free(c);
        matrices_free(&x);
    }
}

static void test_forms(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMS; f++) {
        if (!forms[f]->runs()) {
            printf("# %s does not run here\n", forms[f]->name);
            continue;
        }
        if (f < FIRST_BF16)
            check_form(forms[f], DT_F32, 150);
        check_form(forms[f], DT_BF16, 40);
    }
}

/* A product whose operands have several panels, whose sums wait in C or in scratch. */
static void test_panels(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (int kind = 0; kind < 3 && forms[f]->runs(); kind++) {
            struct matmul_shape s = { .form = MATMUL_NN, .m = 40, .n = 70, .k = 700, .c_dt = DT_F32,
                                      .ab_dt = f < FIRST_BF16 ? DT_F32 : DT_BF16 };
            struct cuts small = { 64, 64, 640, 64, 9, 128, 40 * 64, 64, 0 }, large = forms[f]->cuts;
            uint64_t    state = 3;

            s.accumulate = kind == 1;
            s.c_dt = kind == 2 ? s.ab_dt : DT_F32;
            struct matrices x = matrices_make(&s, 1.0f, &state);
            void           *c = run(&s, &x, forms[f], 1, &large);

            check_values(&s, &x, c, forms[f]->name);
            same_bits(&s, c, run(&s, &x, forms[f], 3, &small), x.c_bytes, forms[f]->name,
                      "in panels");
            guard_free(c);
            matrices_free(&x);
        }
}

/* One product that folds its sums, and one after the other over each fold. */
static void test_folds(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < FORMS; f++)
        for (size_t r = 0; r < 60 && forms[f]->runs(); r++) {
            uint64_t            state = r + 1;
            enum dtype          dt = f < FIRST_BF16 ? DT_F32 : DT_BF16;
            size_t              e = dtype_bytes(dt), fold = (size_t)32 << random_below(&state, 4);
            struct matmul_shape s = { .form = MATMUL_TN, .m = 1 + random_below(&state, 90),
                                      .n = 1 + random_below(&state, 90),
                                      .k = 1 + random_below(&state, 5 * fold), .ab_dt = dt,
                                      .c_dt = DT_F32, .accumulate = (int)random_below(&state, 2) };
            struct matrices x = matrices_make(&s, 1.0f, &state), part = x;
            struct cuts     cuts = random_cuts(&state);
            void           *want = guard_alloc(x.c_bytes);

            memcpy(want, x.before, x.c_bytes);
            for (size_t at = 0; at < s.k; at += fold) {
                struct matmul_shape one = s;

                one.k = size_min(fold, s.k - at);
                one.accumulate = s.accumulate || at > 0;
                part.a = (char *)x.a + at * s.m * e;
                part.b = (char *)x.b + at * s.n * e;
                part.before = want;
                want = run(&one, &part, forms[f], 2, NULL);
                guard_free(part.before);
            }
            s.fold = fold;
            same_bits(&s, want, run(&s, &x, forms[f], 1, NULL), x.c_bytes, forms[f]->name,
                      "folded by one thread");
            same_bits(&s, want, run(&s, &x, forms[f], 3, &cuts), x.c_bytes, forms[f]->name,
                      "folded in pieces");
            check_tiled(&s, &x, want, forms[f], &cuts, &state);
            guard_free(want);
            matrices_free(&x);
        }
}

/* The form that a dtype gets runs here. */
static void test_choice(void **unused)
{
    (void)unused;
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        const struct block_form *form = block_form_of((enum dtype)dt);

        assert_true(form->runs());
        assert_true(dt == DT_BF16 || form->dt == DT_F32);
        assert_true(form->rows * form->cols <= MOST_BLOCK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_panels),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
