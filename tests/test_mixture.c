/* test_mixture.c: which row of which source each number is, counted row by row, and read from token
 * files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/text/mixture.h"
#include "data/text/tokens_writer.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <string.h>

static struct err e;

enum { SOURCES = 3, LONGEST = 5000 };

/* Sources that are shorter and longer than their part of a block. */
static struct mixture_source sources[SOURCES] = { { NULL, 97, 2500 }, { NULL, 5000, 1590 },
                                                  { NULL, 1, 6 } };

static struct mixture mix(int weighted, int shuffled, uint64_t seed)
{
    return (struct mixture){ .source = sources, .n = SOURCES, .rows = 97 + 5000 + 1,
                             .weighted = weighted, .shuffled = shuffled, .seed = seed };
}

/* Without weights an epoch has each row of each source once: in order, or in another one in each
 * epoch and for each seed. */
static void test_pool(void **state)
{
    static uint8_t seen[SOURCES][LONGEST];
    struct mixture m, other;
    size_t         s, t;
    uint64_t       row, row2, same[2] = { 0 };

    (void)state;
    for (int shuffled = 0; shuffled < 2; shuffled++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            m = mix(0, shuffled, 5);
            other = mix(0, shuffled, 6);
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < m.rows; i++) {
                mixture_find(&m, epoch * m.rows + i, &s, &row);
                assert_true(s < SOURCES && row < sources[s].rows && !seen[s][row]++);
                if (!shuffled)
                    assert_int_equal(i, row + (s > 0 ? 97 : 0) + (s > 1 ? 5000 : 0));
                mixture_find(&m, (epoch + 1) * m.rows + i, &t, &row2);
                same[0] += shuffled && s == t && row == row2;
                mixture_find(&other, epoch * m.rows + i, &t, &row2);
                same[1] += shuffled && s == t && row == row2;
            }
        }
    assert_true(same[0] < 30 && same[1] < 30); // of 15,294; about 3 are expected
}

static void check_taken(const struct mixture *m, uint64_t numbers, const uint64_t *own)
{
    uint64_t taken[SOURCES];

    mixture_taken(m, numbers, taken);
    assert_memory_equal(taken, own, sizeof taken);
}

/* With weights each block has the exact number of rows of each source, and each source goes through
 * its own rows, once in each of its epochs. */
static void test_weighted(void **state)
{
    static uint8_t  seen[SOURCES][LONGEST];
    static uint64_t own[SOURCES];

    (void)state;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        struct mixture m = mix(1, shuffled, 5);

        memset(seen, 0, sizeof seen);
        memset(own, 0, sizeof own);
        for (uint64_t i = 0; i < 5 * MIXTURE_BLOCK; i++) {
            size_t   s;
            uint64_t row, epoch;

            if (i % MIXTURE_BLOCK == 0)
                for (size_t k = 0; k < SOURCES; k++)
                    assert_int_equal(own[k], i / MIXTURE_BLOCK * sources[k].part);
            if (i % 1000 == 0 || i < 10)
                check_taken(&m, i, own);
            mixture_find(&m, i, &s, &row);
            epoch = own[s] / sources[s].rows;
            assert_true(row < sources[s].rows);
            assert_int_equal(seen[s][row]++, (uint8_t)epoch);
            if (!shuffled)
                assert_int_equal(row, own[s] % sources[s].rows);
            own[s]++;
        }
    }
}

/* The rows of a pool are counted, too, also those of an epoch that has just begun. */
static void test_taken(void **state)
{
    uint64_t own[SOURCES] = { 0 }, row;
    struct mixture m = mix(0, 1, 9);

    (void)state;
    for (uint64_t i = 0; i < 2 * m.rows + 100; i++) {
        size_t s;

        if (i % 777 == 0)
            check_taken(&m, i, own);
        mixture_find(&m, i, &s, &row);
        own[s]++;
    }
}

/* The order of runs that exist: these bits may not change. */
static void test_bits(void **state)
{
    struct mixture m = mix(1, 1, 1234);
    uint64_t       sum = 0;

    (void)state;
    for (uint64_t i = 0; i < 3 * MIXTURE_BLOCK; i += 7) {
        size_t   s;
        uint64_t row;

        mixture_find(&m, i, &s, &row);
        sum = sum * 31 + row * SOURCES + s;
    }
    assert_int_equal(sum, UINT64_C(0xb3aa009738d66122));
}

static void test_divide(void **state)
{
    static const double weights[][3] = { { 1, 1, 1 }, { 0.7, 0.2, 0.1 }, { 2867, 819, 410 },
                                         { 5e-10, 3e-10, 2e-10 }, { 1, 1, 1e-5 },
                                         { 4094.4, 1.3, 0.3 } };
    static const uint64_t want[][3] = { { 1366, 1365, 1365 }, { 2867, 819, 410 },
                                        { 2867, 819, 410 }, { 2048, 1229, 819 }, { 2048, 2048, 0 },
                                        { 4095, 1, 0 } };
    static const size_t none[] = { 3, 3, 3, 3, 2, 2 };
    uint64_t part[3];

    (void)state;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        assert_int_equal(mixture_divide(weights[i], 3, part), none[i]);
        assert_int_equal(part[0] + part[1] + part[2], MIXTURE_BLOCK);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(part[k], want[i][k]);
    }
    assert_int_equal(mixture_divide(weights[0], 1, part), 1);
    assert_int_equal(part[0], MIXTURE_BLOCK);
}

/* Ids first, first + 1, ... */
static struct tokens *file_of(const char *name, int32_t first, size_t n)
{
    struct tokens_writer w;
    struct tokens       *t;

    assert_int_equal(tokens_writer_open(&w, tempdir_at(name), 65536, &e), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(tokens_writer_add(&w, &(int32_t){ first + (int32_t)i }, 1, &e), 0);
    assert_int_equal(tokens_writer_commit(&w, &e), 0);
    append_close(&w.ids);
    assert_int_equal(tokens_open(&t, tempdir_at(name), 2, &e), 0);
    return t;
}

static void test_batch(void **state)
{
    struct mixture m = { .source = calloc(2, sizeof *m.source), .n = 2, .rows = 5 + 2 };
    int32_t        x[3 * 7], y[3 * 7];
    uint64_t       row = 0;

    (void)state;
    m.source[0] = (struct mixture_source){ file_of("a.bin", 0, 36), 5, 0 }; // 35 has no target
    m.source[1] = (struct mixture_source){ file_of("b.bin", 1000, 15), 2, 0 };
    for (uint64_t b = 0; b < 9; b++) {
        assert_int_equal(mixture_batch(&m, 3 * b, 3, 7, 65536, x, y, &e), 0);
        for (size_t i = 0; i < 21; i++) {
            uint64_t at = (row + i / 7) % 7;
            int32_t  want = (int32_t)((at < 5 ? at * 7 : 1000 + (at - 5) * 7) + i % 7);

            assert_int_equal(x[i], want);
            assert_int_equal(y[i], want + 1);
        }
        row += 3;
    }
    m.rows = 0;
    assert_int_equal(mixture_batch(&m, 0, 1, 36, 65536, x, y, &e), -EINVAL);
    assert_non_null(strstr(e.text, "36 tokens, but one row and its targets take 37"));
    mixture_close(&m);
    mixture_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),  cmocka_unit_test(test_weighted), cmocka_unit_test(test_taken),
        cmocka_unit_test(test_bits),  cmocka_unit_test(test_divide),   IN_TEMPDIR(test_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
