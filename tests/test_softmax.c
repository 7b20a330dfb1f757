/* Losses and gradients of logits against double: odd sizes, both dtypes, in place, ignored targets,
 * label smoothing; and that against PyTorch. Gradients in tiles have the bits of those in rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/rows/softmax.h"
#include "kernels/tiled.h"
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

/* Memory for n rows in tiles, filled with what no gradient is. */
static bf16 *tiles_make(size_t n, size_t V)
{
    bf16 *tiles = guard_alloc(tiled_size(n, V) * sizeof *tiles);

    memset(tiles, 0xff, tiled_size(n, V) * sizeof *tiles);
    return tiles;
}

/* Compares tiles with rows, and frees them. */
static void tiles_check(bf16 *tiles, const bf16 *rows, size_t n, size_t V)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < round_up(V, TILED_COLS); j++)
            assert_int_equal(tiles[tiled_at(V, i, j)], j < V ? rows[i * V + j] : 0);
    guard_free(tiles);
}

/* ref_xent with label smoothing e: the mean of -log softmax(x) by the targets' weights. */
static double smoothed(double *dx, const double *x, size_t V, size_t target, double e)
{
    double loss = ref_xent(dx, x, V, target), mean = 0;

    for (size_t j = 0; j < V; j++) {
        mean += (loss + x[target] - x[j]) / (double)V; // of -log softmax(x)[j]
        dx[j] -= e / (double)V - (j == target ? e : 0);
    }
    return e > 0 ? (1 - e) * loss + e * mean : loss;
}

/* Of two parts, rows have their target and their maximum in either: four rows, all there is. The
 * fifth has no target. */
static void check(enum dtype dt, size_t n, size_t V, size_t split, float reach, int in_place,
                  float smoothing, uint64_t *seed)
{
    const float scale = 0.125f;
    float *x = guard_alloc(n * V * 4), *losses = guard_alloc(n * 4), *only = guard_alloc(n * 4);
    float      *got = malloc(V * 4);
    void       *dx = in_place ? x : guard_alloc(n * V * dtype_bytes(dt));
    int32_t    *targets = guard_alloc(n * 4);
    double     *wide = malloc(n * V * 8), *want = malloc(V * 8);
    struct softmax_xent xent = { .n = n, .V = V, .logits = x, .split = split, .targets = targets,
                                 .dt = dt, .scale = scale, .smoothing = smoothing };

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
    if (dt == DT_BF16) {
        xent.dlogits = tiles_make(n, V);
        xent.tiled = 1;
        softmax_xent(&xent);
        tiles_check(xent.dlogits, dx, n, V);
    }
    for (size_t i = 0; i < n; i++) {
        double loss = 0.0;

        memset(want, 0, V * 8);
        if (targets[i] >= 0)
            loss = smoothed(want, wide + i * V, V, (size_t)targets[i], (double)smoothing);
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
            check((enum dtype)dt, 5, sizes[j], sizes[j], 5.0f, 0, 0, &seed);
            check((enum dtype)dt, 5, sizes[j], sizes[j] / 64 * 64, 5.0f, 0, 0, &seed);
            check((enum dtype)dt, 2, sizes[j], sizes[j], 300.0f, 0, 0, &seed);
            check((enum dtype)dt, 5, sizes[j], sizes[j] / 64 * 64, 300.0f, 0, 0, &seed);
            check(DT_F32, 5, sizes[j], sizes[j], 5.0f, 1, 0, &seed);
            check((enum dtype)dt, 5, sizes[j], sizes[j] / 64 * 64, 5.0f, 0, 0.1f, &seed);
            check(DT_F32, 5, sizes[j], sizes[j], 300.0f, 1, 0.6f, &seed);
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
    float      rough, smoothing, *x, *losses;
    float     *word; // the rows of logits are products with this column
    void      *gradient, *target_words;
    int32_t   *targets;
    struct softmax_so_far *so_far;
    double     total; // of word
    float     *columns, *sums, *factors, *more; // of a piece
    void      *out;
};

static const float cut_scale = 0.125f;

static struct cut cut_make(enum dtype dt, size_t n, size_t V, size_t piece, float reach,
                           float smoothing, uint64_t *seed)
{
    size_t     e = dtype_bytes(dt);
    struct cut c = { .dt = dt, .n = n, .V = V, .piece = piece, .smoothing = smoothing,
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
                                         .dlogits = c.gradient, .scale = cut_scale,
                                         .smoothing = smoothing });
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

static void cut_run(const struct softmax_piece *p, float *factors, int again)
{
    if (again)
        softmax_gradient(p, cut_scale);
    else
        softmax_add(p, factors);
}

/* Its `here` columns from `first` on; again: when all were seen. */
static void cut_piece(struct cut *c, size_t first, size_t here, int again)
{
    size_t split = here - here % (c->dt == DT_F32 ? 8 : TILED_COLS);
    struct softmax_piece p = { .n = c->n, .V = here, .logits = c->columns, .split = split,
                               .targets = c->targets, .first = first, .so_far = c->so_far,
                               .out = c->out, .dt = c->dt, .smoothing = c->smoothing,
                               .all = c->V };

    for (size_t i = 0; i < c->n; i++)
        memcpy(c->columns + i * here, c->x + i * c->V + first, here * 4);
    part(c->columns, c->n, here, split);
    struct softmax_piece   tiled = p;
    struct softmax_so_far *before = malloc(c->n * sizeof *before);

    assert_non_null(before);
    memcpy(before, c->so_far, c->n * sizeof *before);
    cut_run(&p, c->factors, again);
    if (c->dt == DT_BF16) {
        tiled.so_far = before;
        tiled.out = tiles_make(c->n, here);
        tiled.tiled = 1;
        cut_run(&tiled, c->more, again);
        tiles_check(tiled.out, c->out, c->n, here);
    }
    free(before);
    memset(c->more, 0, c->n * 4);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < here; j++) {
            float got = dtype_get(c->out, c->dt, i * here + j),
                  want = dtype_get(c->gradient, c->dt, i * c->V + first + j);

            if (again) // with smoothing, a difference of two larger numbers
                assert_true(fabsf(got - want) <=
                            c->rough * fmaxf(fabsf(want), c->smoothing > 0 ? 0.1f : 1e-3f));
            c->more[i] += got * c->word[first + j];
            if (c->targets[i] == (int32_t)(first + j))
                dtype_put(c->target_words, c->dt, i, c->word[first + j]);
        }
    if (again)
        return;
    softmax_rows_add(c->sums, c->factors, c->more, c->n, 1);
    softmax_words_add(&c->total, c->word + first, DT_F32, here, 1);
}

/* From the last piece on, and again. */
static void pieces(enum dtype dt, size_t n, size_t V, size_t piece, float reach, float smoothing,
                   uint64_t *seed)
{
    struct cut c = cut_make(dt, n, V, piece, reach, smoothing, seed);

    for (int again = 0; again < 2; again++)
        for (size_t k = (V + piece - 1) / piece; k-- > 0;)
            cut_piece(&c, k * piece, (k + 1) * piece <= V ? piece : V - k * piece, again);
    softmax_rows_end(c.more, &(struct softmax_rows){
        .n = n, .C = 1, .sums = c.sums, .so_far = c.so_far, .targets = c.targets,
        .words = c.target_words, .dt = dt, .scale = cut_scale, .smoothing = smoothing,
        .total = &c.total, .all = V });
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
    uint64_t            seed = 5, other = 6;

    (void)state;
    for (int dt = 0; dt < 2; dt++)
        for (size_t i = 0; i < 4; i++)
            for (size_t n = 1; n < 4; n++) {
                enum dtype as = dt ? DT_BF16 : DT_F32;
                size_t     piece = (sizes[i] + n - 1) / n;

                pieces(as, 6, sizes[i], piece, 5, 0, &seed);
                pieces(as, 6, sizes[i], piece, 200, 0, &seed);
                pieces(as, 6, sizes[i], piece, 5, 0.2f, &other);
            }
}

/* What torch.nn.CrossEntropyLoss(label_smoothing=0.1) computes; in all columns, and in pieces. */
static void test_torch(void **state)
{
    enum { N = 3, V = 5 };
    const float x[N * V] = { 0.5f, -1.25f, 2.0f, 0.0f,  -0.75f, 3.0f, 1.5f, -2.5f,
                             0.25f, 1.0f,  -0.5f, 0.5f, 1.0f,   -1.0f, 0.0f };
    const int32_t y[N] = { 2, 1, -1 };
    const float   losses[N] = { 0.56923580f, 1.94021010f, 0 },
                gradient[N * V] = { 0.06635337f, 0.00326823f,  -0.11780789f, 0.03631067f,
                                    0.01187561f, 0.34051305f,  -0.38178995f, -0.00856753f,
                                    0.01240755f, 0.03743678f };
    float                 got[N], dx[N * V], factors[N], columns[N * V];
    struct softmax_so_far so_far[N];

    (void)state;
    softmax_xent(&(struct softmax_xent){ .n = N, .V = V, .logits = x, .split = V, .targets = y,
                                         .losses = got, .dlogits = dx, .dt = DT_F32,
                                         .scale = 0.5f, .smoothing = 0.1f });
    for (size_t i = 0; i < N * V; i++)
        assert_true(fabsf(dx[i] - gradient[i]) < 1e-7f);
    softmax_begin(so_far, N);
    for (size_t pass = 0; pass < 4; pass++) { // both pieces, then their gradients
        size_t first = pass % 2 ? 3 : 0, n = pass % 2 ? 2 : 3;
        struct softmax_piece p = { .n = N, .V = n, .logits = columns, .split = n, .targets = y,
                                   .first = first, .so_far = so_far, .out = dx, .dt = DT_F32,
                                   .smoothing = 0.1f, .all = V };

        for (size_t i = 0; i < N; i++)
            memcpy(columns + i * n, x + i * V + first, n * sizeof *x);
        if (pass < 2)
            softmax_add(&p, factors);
        else
            softmax_gradient(&p, 0.5f);
        for (size_t i = 0; i < N * n && pass > 1; i++)
            assert_true(fabsf(dx[i] - gradient[i / n * V + first + i % n]) < 1e-7f);
    }
    for (size_t i = 0; i < N; i++) {
        assert_true(fabsf(got[i] - losses[i]) < 1e-6f);
        assert_true(fabsf(softmax_loss(&so_far[i], y[i]) - losses[i]) < 1e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_torch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
