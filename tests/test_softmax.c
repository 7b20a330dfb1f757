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

/* A vocabulary in pieces; and the same losses, and gradients of logits, with all of it. */
struct cut {
    enum dtype dt;
    size_t     n, V, piece;
    float      rough, *x, *losses, *word; // word: the rows of logits are products with this column
    void      *gradient, *target_words;
    int32_t   *targets;
    struct softmax_so_far *so_far;
    float     *columns, *sums, *factors, *more; // of a piece
    void      *out;
};

static const float cut_scale = 0.125f;

static struct cut cut_make(enum dtype dt, size_t n, size_t V, size_t piece, float reach,
                           uint64_t *seed)
{
    size_t     e = dtype_bytes(dt);
    struct cut c = { .dt = dt, .n = n, .V = V, .piece = piece,
                     .rough = dt == DT_F32 ? 1e-6f : 1.0f / 128,
                     .x = guard_alloc(n * V * 4), .losses = guard_alloc(n * 4),
                     .word = guard_alloc(V * 4), .gradient = guard_alloc(n * V * e),
                     .target_words = guard_alloc(n * e), .targets = guard_alloc(n * 4),
                     .so_far = guard_alloc(n * sizeof *c.so_far),
                     .columns = guard_alloc(n * piece * 4), .sums = guard_alloc(n * 4),
                     .factors = guard_alloc(n * 4), .more = guard_alloc(n * 4),
                     .out = guard_alloc(n * piece * e) };

    ref_fill(c.x, n * V, -reach, reach, seed);
    ref_fill(c.word, V, -1, 1, seed);
    for (size_t v = 0; v < V; v++)
        c.word[v] = bf16_to_f32(bf16_from_f32(c.word[v]));
    for (size_t i = 0; i < n; i++)
        c.targets[i] = i == 4 ? -1 : (int32_t)(ref_random(seed) % V);
    softmax_xent(&(struct softmax_xent){ .n = n, .V = V, .logits = c.x, .split = V, .dt = dt,
                                         .targets = c.targets, .losses = c.losses,
                                         .dlogits = c.gradient, .scale = cut_scale });
    softmax_begin(c.so_far, n);
    memset(c.sums, 0, n * 4);
    return c;
}

static void cut_free(struct cut *c)
{
    void *all[] = { c->x, c->losses, c->word, c->gradient, c->target_words, c->targets, c->so_far,
                    c->columns, c->sums, c->factors, c->more, c->out };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guard_free(all[i]);
}

/* Its `here` columns from `first` on; again: when all were seen. */
static void cut_piece(struct cut *c, size_t first, size_t here, int again)
{
    size_t split = here - here % 8;
    struct softmax_piece p = { .n = c->n, .V = here, .logits = c->columns, .split = split,
                               .targets = c->targets, .first = first, .so_far = c->so_far,
                               .out = c->out, .dt = c->dt };

    for (size_t i = 0; i < c->n; i++)
        memcpy(c->columns + i * here, c->x + i * c->V + first, here * 4);
    part(c->columns, c->n, here, split);
    if (again)
        softmax_gradient(&p, cut_scale);
    else
        softmax_add(&p, c->factors);
    memset(c->more, 0, c->n * 4);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < here; j++) {
            float got = dtype_get(c->out, c->dt, i * here + j),
                  want = dtype_get(c->gradient, c->dt, i * c->V + first + j);

            if (again)
                assert_true(fabsf(got - want) <= c->rough * fmaxf(fabsf(want), 1e-3f));
            c->more[i] += got * c->word[first + j];
            if (c->targets[i] == (int32_t)(first + j))
                dtype_put(c->target_words, c->dt, i, c->word[first + j]);
        }
    if (!again)
        softmax_rows_add(c->sums, c->factors, c->more, c->n, 1);
}

/* From the last piece on, and again. */
static void pieces(enum dtype dt, size_t n, size_t V, size_t piece, float reach, uint64_t *seed)
{
    struct cut c = cut_make(dt, n, V, piece, reach, seed);

    for (int again = 0; again < 2; again++)
        for (size_t k = (V + piece - 1) / piece; k-- > 0;)
            cut_piece(&c, k * piece, (k + 1) * piece <= V ? piece : V - k * piece, again);
    softmax_rows_end(c.more, &(struct softmax_rows){
        .n = n, .C = 1, .sums = c.sums, .so_far = c.so_far, .targets = c.targets,
        .words = c.target_words, .dt = dt, .scale = cut_scale });
    for (size_t i = 0; i < n; i++) {
        double want = 0;

        for (size_t v = 0; v < V; v++)
            want += (double)dtype_get(c.gradient, dt, i * V + v) * (double)c.word[v];
        assert_true(fabsf(softmax_loss(&c.so_far[i], c.targets[i]) - c.losses[i]) <=
                    1e-6f * fmaxf(c.losses[i], 1));
        assert_true(fabs((double)c.more[i] - want) <= (double)c.rough);
    }
    cut_free(&c);
}

static void test_pieces(void **state)
{
    static const size_t sizes[] = { 2, 9, 77, 300 };
    uint64_t            seed = 5;

    (void)state;
    for (int dt = 0; dt < 2; dt++)
        for (size_t i = 0; i < 4; i++)
            for (size_t n = 1; n < 4; n++) {
                pieces(dt ? DT_BF16 : DT_F32, 6, sizes[i], (sizes[i] + n - 1) / n, 5, &seed);
                pieces(dt ? DT_BF16 : DT_F32, 6, sizes[i], (sizes[i] + n - 1) / n, 200, &seed);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
