/* test_packing.c: each example is in one row, no row is too full, and rows are as full as best-fit
 * decreasing, written plainly, makes them; the same lengths give the same rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/rng.h"
#include "run/sources/packing.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 600 };

/* The number of rows that best-fit decreasing needs: of the examples, the longest first, each goes
 * into the row that it leaves the least room in. */
static uint64_t plain_rows(const uint32_t *length, uint64_t n, uint32_t size)
{
    uint32_t room[MOST], left[MOST];
    uint64_t rows = 0;

    memcpy(left, length, n * sizeof *left);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t at = 0, best = UINT64_MAX;

        for (uint64_t i = 1; i < n; i++)
            at = left[i] > left[at] ? i : at;
        for (uint64_t r = 0; r < rows; r++)
            if (room[r] >= left[at] && (best == UINT64_MAX || room[r] < room[best]))
                best = r;
        if (best == UINT64_MAX)
            room[best = rows++] = size;
        room[best] -= left[at];
        left[at] = 0;
    }
    return rows;
}

static void check(const uint32_t *length, uint64_t n, uint32_t size)
{
    struct packing p, again;
    struct err     err;
    char           seen[MOST] = { 0 };

    assert_int_equal(packing_make(&p, length, n, size, &err), 0);
    assert_int_equal(p.items, n);
    assert_int_equal(p.start[0], 0);
    assert_int_equal(p.start[p.rows], n);
    for (uint64_t r = 0; r < p.rows; r++) {
        uint32_t full = 0;

        assert_true(p.start[r] < p.start[r + 1]);
        assert_true(r == 0 || p.item[p.start[r - 1]] < p.item[p.start[r]]);
        for (uint32_t k = p.start[r]; k < p.start[r + 1]; k++) {
            assert_true(p.item[k] < n && !seen[p.item[k]]);
            assert_true(k == p.start[r] || p.item[k - 1] < p.item[k]);
            seen[p.item[k]] = 1;
            full += length[p.item[k]];
        }
        assert_true(full <= size);
    }
    assert_int_equal(p.rows, plain_rows(length, n, size));
    assert_int_equal(packing_make(&again, length, n, size, &err), 0);
    assert_int_equal(again.rows, p.rows);
    assert_memory_equal(again.item, p.item, n * sizeof *p.item);
    assert_memory_equal(again.start, p.start, (p.rows + 1) * sizeof *p.start);
    packing_free(&p);
    packing_free(&again);
}

static void test_packing(void **state)
{
    uint32_t length[MOST];

    (void)state;
    for (uint32_t size = 1; size <= 260; size += size < 70 ? 1 : 63)
        for (uint64_t n = 1; n <= MOST; n = 2 * n + size % 7) {
            for (uint64_t i = 0; i < n; i++)
                length[i] = 1 + (uint32_t)(rng_bits(size, n, i) % size);
            check(length, n, size);
        }
    for (uint64_t i = 0; i < MOST; i++)
        length[i] = 64; // all fill a row, or a half of one
    check(length, MOST, 64);
    check(length, MOST, 128);
    check(length, MOST, 127);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_packing) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
