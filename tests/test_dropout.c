/* Dropout's masks against a naive Philox, element by element, whatever part of them is asked for;
 * their share of zeros and their independence of neighbours of every kind; the same numbers for any
 * number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "kernels/dropout.h"
#include "tests/ref.h"

enum { SPAN = DROPOUT_SPAN };

static void check_factor(const struct dropout *d, uint64_t row, uint64_t column, float got)
{
    float want = (float)ref_dropout((double)d->p, d->seed, d->site, row, column);

    if (got != want)
        fail_msg("p %g seed %llu site %llu: factor (%llu, %llu) is %g, not %g", (double)d->p,
                 (unsigned long long)d->seed, (unsigned long long)d->site, (unsigned long long)row,
                 (unsigned long long)column, (double)got, (double)want);
}

/* The oracle itself: Salmon et al.'s known answers. */
static void test_known_answers(void **state)
{
    static const uint32_t counter[2][4] = { { 0 },
                                            { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 } };
    static const uint32_t key[2][2]     = { { 0 }, { 0xa4093822, 0x299f31d0 } };
    static const uint32_t want[2][4]    = { { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
                                            { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } };

    (void)state;
    for (int i = 0; i < 2; i++) {
        uint32_t got[4];

        ref_philox(got, counter[i], key[i]);
        assert_memory_equal(got, want[i], sizeof got);
    }
}

static const struct dropout cases[] = {
    { .p = 0.1f, .seed = 1, .site = 2 },
    { .p = 0.5f, .seed = UINT64_MAX, .site = UINT64_C(0x123456789abcdef0) },
    { .p = 0.99999f, .seed = UINT64_C(1) << 40, .site = UINT64_C(1) << 63 }, // rounds to 1
    { .p = 1e-6f, .seed = 3, .site = 4 },                                   // rounds to 0
};
// carries, too
static const uint64_t rows[] = { 0, 7, UINT32_MAX - 1, UINT64_C(5) << 32, UINT64_MAX - SPAN };

/* The factors of columns [0, n) of one row. */
static float *row_factors(size_t n, uint64_t row, const struct dropout *d)
{
    float *f = guard_alloc(n * sizeof *f);

    for (size_t j = 0; j < n; j++)
        f[j] = 1.0f;
    dropout_rows(f, f, 1, n, row, d);
    return f;
}

static void test_factors(void **state)
{
    static const size_t sizes[] = { 1, 7, 64, 65, 128, 300, 15 * SPAN + 300 };

    (void)state;
    for (size_t c = 0; c < 4; c++)
        for (size_t r = 0; r < 5; r++)
            for (size_t s = 0; s < 7; s++) {
                float *f = row_factors(sizes[s], rows[r], &cases[c]);

                for (size_t j = 0; j < sizes[s]; j++)
                    check_factor(&cases[c], rows[r], j, f[j]);
                guard_free(f);
            }
}

static void check_tile(const struct dropout *d, uint64_t row, size_t column)
{
    float *f = guard_alloc(SPAN * SPAN * sizeof *f);

    dropout_tile(f, row, column, d);
    for (size_t i = 0; i < SPAN; i++)
        for (size_t j = 0; j < SPAN; j++)
            check_factor(d, row + i, column + j, f[j * SPAN + i]);
    guard_free(f);
}

static void test_tile(void **state)
{
    size_t column = (size_t)(UINT32_MAX / 8) * SPAN; // the call's number carries

    (void)state;
    for (size_t c = 0; c < 4; c++)
        for (size_t r = 0; r < 5; r++)
            check_tile(&cases[c], rows[r], 3 * SPAN);
    for (size_t at = column; at < column + 5 * SPAN; at += SPAN)
        check_tile(&cases[0], 1, at);
}

/* Out of place and in place, one thread and three, in one piece and in two: the same. */
static void test_rows(void **state)
{
    static const size_t widths[] = { 1, 9, 64, 127, 130, 261 };
    enum { N = 13, CUT = 5 };
    int      before = omp_get_max_threads();
    uint64_t random = 1;

    (void)state;
    for (size_t s = 0; s < 6; s++) {
        size_t C = widths[s];
        float *x = guard_alloc(N * C * sizeof *x), *out = guard_alloc(N * C * sizeof *x);

        ref_fill(x, N * C, 1.0f, 2.0f, &random);
        omp_set_num_threads(1);
        dropout_rows(out, x, N, C, 1000, &cases[0]);
        for (size_t i = 0; i < N * C; i++)
            assert_true(out[i] ==
                        x[i] * (float)ref_dropout((double)cases[0].p, 1, 2, 1000 + i / C, i % C));
        omp_set_num_threads(3);
        dropout_rows(x, x, CUT, C, 1000, &cases[0]);
        dropout_rows(x + CUT * C, x + CUT * C, N - CUT, C, 1000 + CUT, &cases[0]);
        omp_set_num_threads(before);
        assert_memory_equal(out, x, N * C * sizeof *x);
        guard_free(x);
        guard_free(out);
    }
}

enum { SITES = 8, ROWS = 64, COLUMNS = 256 };

static int dropped(const float *f, size_t site, size_t row, size_t column)
{
    return f[(site * ROWS + row) * COLUMNS + column] == 0.0f;
}

// `hits` of n trials of probability p lie within sigmas standard deviations.
static void check_share(const char *what, size_t hits, size_t n, double p, double sigmas)
{
    double off = ((double)hits - (double)n * p) / sqrt((double)n * p * (1.0 - p));

    if (fabs(off) > sigmas)
        fail_msg("%s: %zu of %zu, %.1f standard deviations off %g", what, hits, n, off, p);
}

/* Sites that differ in one low bit each, all their rows and columns. Marginals of one row, column
 * or site get 5 sigma, there being hundreds of them; the rest 4. Pairs at a distance in one
 * direction fall together by chance only. */
static void test_statistics(void **state)
{
    static const size_t away[][3] = { { 0, 0, 1 }, { 0, 0, 8 }, { 0, 0, 16 }, { 0, 0, 64 },
                                      { 0, 1, 0 }, { 0, 2, 0 }, { 1, 0, 0 },  { 4, 0, 0 },
                                      { 0, 1, 1 }, { 1, 1, 1 } };
    float *f = malloc(SITES * ROWS * COLUMNS * sizeof *f);
    double p = 0.25;
    size_t all = 0, by_site[SITES] = { 0 }, by_row[ROWS] = { 0 }, by_column[COLUMNS] = { 0 };

    (void)state;
    assert_non_null(f);
    for (size_t i = 0; i < SITES * ROWS * COLUMNS; i++)
        f[i] = 1.0f;
    for (size_t s = 0; s < SITES; s++)
        dropout_rows(f + s * ROWS * COLUMNS, f + s * ROWS * COLUMNS, ROWS, COLUMNS, 0,
                     &(struct dropout){ .p = (float)p, .seed = 11, .site = s });
    for (size_t i = 0; i < SITES * ROWS * COLUMNS; i++) {
        size_t hit = f[i] == 0.0f;

        all += hit;
        by_site[i / (ROWS * COLUMNS)] += hit;
        by_row[i / COLUMNS % ROWS] += hit;
        by_column[i % COLUMNS] += hit;
    }
    check_share("all", all, SITES * ROWS * COLUMNS, p, 4);
    for (size_t i = 0; i < SITES; i++)
        check_share("site", by_site[i], ROWS * COLUMNS, p, 4);
    for (size_t i = 0; i < ROWS; i++)
        check_share("row", by_row[i], SITES * COLUMNS, p, 5);
    for (size_t i = 0; i < COLUMNS; i++)
        check_share("column", by_column[i], SITES * ROWS, p, 5);
    for (size_t a = 0; a < sizeof away / sizeof *away; a++) {
        size_t ds = away[a][0], dr = away[a][1], dc = away[a][2], both = 0;

        for (size_t s = 0; s + ds < SITES; s++)
            for (size_t r = 0; r + dr < ROWS; r++)
                for (size_t c = 0; c + dc < COLUMNS; c++)
                    both += (size_t)(dropped(f, s, r, c) & dropped(f, s + ds, r + dr, c + dc));
        check_share("pairs", both, (SITES - ds) * (ROWS - dr) * (COLUMNS - dc), p * p, 4);
    }
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_tile),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_statistics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
