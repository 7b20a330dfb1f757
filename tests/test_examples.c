/* test_examples.c: files of tokenised examples come back as they were written; no damaged or
 * forged byte of one is believed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "data/task/examples.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

static void assert_says(const char *part)
{
    if (!strstr(e.text, part))
        fail_msg("'%s' does not say '%s'", e.text, part);
}

enum { LONGEST = 701 };

/* Row i of the test: a length from 1 to LONGEST, ids and label by i. */
static size_t row_make(uint64_t i, int32_t *ids, struct example *x)
{
    size_t n = 1 + (size_t)(i * 131 % LONGEST);

    for (size_t k = 0; k < n; k++)
        ids[k] = (int32_t)((i * 7919 + k * 31) % 50257);
    *x = (struct example){ .label = (int32_t)(i % 4) - 1, .value = (float)i / 8 };
    return n;
}

static void write_rows(const char *name, uint64_t rows)
{
    struct examples_new w;
    struct example       x;
    int32_t              ids[LONGEST];

    assert_int_equal(examples_new_open(&w, tempdir_at(name), &e), 0);
    for (uint64_t i = 0; i < rows; i++) {
        size_t n = row_make(i, ids, &x);

        assert_int_equal(examples_new_add(&w, ids, n, &x, &e), 0);
    }
    assert_int_equal(examples_new_commit(&w, &e), 0);
}

/* Lengths from 1 on and buffers filled many times over; rows in any order; bounds and room. */
static void test_round_trip(void **state)
{
    enum { ROWS = 3001 };
    struct examples *r;
    struct example   x, y;
    int32_t          ids[LONGEST], got[LONGEST + 1];
    size_t           n;

    (void)state;
    write_rows("a", ROWS);
    assert_int_equal(files_count(tempdir), 1);
    assert_int_equal(examples_open(&r, tempdir_at("a"), &e), 0);
    assert_int_equal(r->h.rows, ROWS);
    assert_int_equal(r->h.longest, LONGEST);
    assert_int_equal(r->h.max_label, 2);
    assert_in_range(r->h.max_id, 50000, 50256);
    assert_string_equal(r->path, tempdir_at("a"));
    for (uint64_t k = 0; k < ROWS; k++) {
        uint64_t i = k * 1000 % ROWS;
        size_t   want = row_make(i, ids, &x);

        got[want] = -7;
        assert_int_equal(examples_read(r, i, got, want, &n, &y, &e), 0);
        assert_int_equal(n, want);
        assert_memory_equal(got, ids, n * sizeof *ids);
        assert_int_equal(got[want], -7);
        assert_int_equal(y.label, x.label);
        assert_true(y.value == x.value);
    }
    assert_int_equal(r->h.version, 1);
    n = row_make(5, ids, &x);
    assert_int_equal(examples_read(r, 5, got, n - 1, &n, &y, &e), -EOVERFLOW);
    assert_says("row 5 has 656 ids, but there is room for 655");
    examples_close(r);
    examples_close(NULL);
}

/* The sum is that of everything: the same rows give it again, one id or label else another. */
static void test_sum(void **state)
{
    uint32_t sums[4];

    (void)state;
    for (int v = 0; v < 4; v++) {
        struct examples_new w;
        struct examples     *r;
        int32_t              ids[3] = { 5, v == 1 ? 4 : 3, 9 };

        assert_int_equal(examples_new_open(&w, tempdir_at("s"), &e), 0);
        assert_int_equal(examples_new_add(&w, ids, 3, &(struct example){ .label = v == 2 ? 0 : 1 },
                                          &e),
                         0);
        assert_int_equal(examples_new_add(&w, ids, 1, &(struct example){ .label = 1 }, &e), 0);
        assert_int_equal(examples_new_commit(&w, &e), 0);
        assert_int_equal(examples_open(&r, tempdir_at("s"), &e), 0);
        sums[v] = r->h.crc;
        examples_close(r);
    }
    assert_int_equal(sums[0], sums[3]);
    assert_int_not_equal(sums[0], sums[1]);
    assert_int_not_equal(sums[0], sums[2]);
    assert_int_not_equal(sums[1], sums[2]);
}

/* Ids of two types: the file is of another version, and gives them back; its largest id is that of
 * any type. Such an id in a file of the first version is damage, whatever its checksums say. */
static void test_types(void **state)
{
    const int32_t        ids[] = { 2, 9, 3, ~4, ~0, ~12 };
    struct examples_new  w;
    struct examples     *r;
    struct example       x = { .label = 1 };
    int32_t              got[6];
    size_t               n;

    (void)state;
    assert_int_equal(examples_new_open(&w, tempdir_at("t"), &e), 0);
    assert_int_equal(examples_new_add(&w, ids, 6, &x, &e), 0);
    assert_int_equal(examples_new_add(&w, ids, 3, &x, &e), 0);
    assert_int_equal(examples_new_commit(&w, &e), 0);
    assert_int_equal(examples_open(&r, tempdir_at("t"), &e), 0);
    assert_int_equal(r->h.version, 2);
    assert_int_equal(r->h.max_id, 12);
    assert_int_equal(examples_read(r, 0, got, 6, &n, &x, &e), 0);
    assert_memory_equal(got, ids, sizeof ids);
    assert_true(examples_type(got[4]) && examples_id(got[4]) == 0);
    assert_true(!examples_type(got[1]) && examples_id(got[1]) == 9);
    r->h.version = 1;
    assert_int_equal(examples_read(r, 0, got, 6, &n, &x, &e), -EINVAL);
    assert_says("an id that the header does not allow");
    assert_int_equal(examples_read(r, 1, got, 6, &n, &x, &e), 0);
    examples_close(r);
}

/* No rows, no ids, a folder that is missing: refused, and nothing stays behind. */
static void test_refused(void **state)
{
    struct examples_new w;
    int32_t              id = 3;

    (void)state;
    assert_int_equal(examples_new_open(&w, tempdir_at("n"), &e), 0);
    assert_int_equal(examples_new_commit(&w, &e), -EINVAL);
    assert_says("at least one row");
    assert_int_equal(examples_new_open(&w, tempdir_at("n"), &e), 0);
    assert_int_equal(examples_new_add(&w, &id, 1, &(struct example){ .label = -1 }, &e), 0);
    assert_int_equal(examples_new_add(&w, &id, 0, &(struct example){ .label = -1 }, &e), -EINVAL);
    assert_says("row 1 for");
    examples_new_abort(&w);
    examples_new_abort(&w);
    assert_int_equal(files_count(tempdir), 0);
    assert_int_equal(examples_new_open(&w, tempdir_at("no/such/folder"), &e), -ENOENT);
    assert_null(w.ids.buf);
}

/* Open and read all; 0 or the first error. */
static int read_all(const char *name, uint64_t *row)
{
    struct examples *r;
    struct example   x;
    int32_t          ids[LONGEST];
    size_t           n;
    int              rc = examples_open(&r, tempdir_at(name), &e);

    *row = UINT64_MAX;
    if (rc)
        return rc;
    for (uint64_t i = 0; !rc && i < r->h.rows; i++) {
        rc = examples_read(r, i, ids, LONGEST, &n, &x, &e);
        *row = i;
    }
    examples_close(r);
    return rc;
}

/* Bits of every byte of a small file, every length it can be cut to, a byte too many, records that
 * swap. */
static void test_damage(void **state)
{
    size_t         size;
    unsigned char *bytes;
    uint64_t       row;

    (void)state;
    write_rows("d", 3); // of 1, 132 and 263 ids
    bytes = (unsigned char *)files_read(tempdir_at("d"), &size);
    assert_int_equal(size, 48 + 4 * (1 + 132 + 263) + 3 * 24);
    for (size_t i = 0; i < 8 * size; i += i < 8 * 64 ? 1 : 7) {
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        files_write(tempdir_at("x"), bytes, size);
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_true(read_all("x", &row) < 0);
        assert_says("/x");
        if (i / 8 >= 48) {
            assert_says("damaged");
            assert_int_equal(row, i / 8 < 52     ? 0
                                  : i / 8 < 580  ? 1
                                  : i / 8 < 1632 ? 2
                                                 : (i / 8 - 1632) / 24);
        }
    }
    for (size_t n = 0; n < size; n++) {
        files_write(tempdir_at("x"), bytes, n);
        assert_true(read_all("x", &row) < 0);
        assert_int_equal(row, UINT64_MAX);
    }
    bytes[size] = 0;
    files_write(tempdir_at("x"), bytes, size + 1);
    assert_int_equal(read_all("x", &row), -EINVAL);
    assert_says("does not fit");
    files_write(tempdir_at("x"), bytes, size);
    assert_int_equal(read_all("x", &row), 0);
    for (size_t i = 0; i < 24; i++) { // two whole records that change places
        unsigned char b = bytes[1632 + i];

        bytes[1632 + i] = bytes[1656 + i];
        bytes[1656 + i] = b;
    }
    files_write(tempdir_at("x"), bytes, size);
    assert_int_equal(read_all("x", &row), -EINVAL);
    assert_int_equal(row, 0);
    free(bytes);
}

static void forge(unsigned char *bytes, size_t size, size_t off, uint64_t value, size_t n)
{
    unsigned char saved[8];
    uint32_t      crc;

    memcpy(saved, bytes + off, n);
    memcpy(bytes + off, &value, n);
    crc = crc32c(0, bytes, 44);
    memcpy(bytes + 44, &crc, 4);
    files_write(tempdir_at("f"), bytes, size);
    memcpy(bytes + off, saved, n);
}

/* Marks are kept; all lengths come at once, checked against the header. */
static void test_marks(void **state)
{
    enum { ROWS = 2500, MOST = 9 };
    struct examples_new w;
    struct examples    *r;
    struct example      x = { 0 }, y;
    int32_t             ids[MOST], got[MOST];
    uint32_t           *n = malloc(ROWS * sizeof *n);
    size_t              one, size;
    unsigned char      *bytes;

    (void)state;
    assert_non_null(n);
    assert_int_equal(examples_new_open(&w, tempdir_at("m"), &e), 0);
    examples_new_marks(&w);
    for (int32_t i = 0; i < ROWS; i++) {
        for (int32_t k = 0; k < MOST; k++)
            ids[k] = (i + k) % 3 ? i + k : ~(i + k);
        assert_int_equal(examples_new_add(&w, ids, (size_t)(1 + i % MOST), &x, &e), 0);
    }
    assert_int_equal(examples_new_commit(&w, &e), 0);
    assert_int_equal(examples_open(&r, tempdir_at("m"), &e), 0);
    assert_int_equal(r->h.version, 3);
    assert_true(examples_marked(r));
    assert_int_equal(examples_lengths(r, n, &e), 0);
    for (int32_t i = 0; i < ROWS; i++) {
        assert_int_equal(n[i], 1 + i % MOST);
        assert_int_equal(examples_read(r, (uint64_t)i, got, MOST, &one, &y, &e), 0);
        assert_int_equal(one, n[i]);
        for (int32_t k = 0; k < (int32_t)one; k++) {
            assert_int_equal(examples_id(got[k]), i + k);
            assert_int_equal(examples_counts(got[k]), (i + k) % 3 != 0);
        }
    }
    examples_close(r);
    bytes = (unsigned char *)files_read(tempdir_at("m"), &size);
    bytes[size - 24 * 7 + 8] ^= 1; // a length
    files_write(tempdir_at("f"), (char *)bytes, size);
    assert_int_equal(examples_open(&r, tempdir_at("f"), &e), 0);
    assert_int_equal(examples_lengths(r, n, &e), -EINVAL);
    assert_says("damaged");
    examples_close(r);
    free(bytes);
    free(n);
}

/* Wrong headers and records under a right checksum: no offset, count or length leads out of the
 * file. */
static void test_forged(void **state)
{
    static const struct { size_t off; uint64_t value; size_t n; const char *says; } cases[] = {
        { 0, 'X', 1, "does not begin with" },
        { 8, 4, 4, "version 4" },
        { 12, 0, 4, "impossible" },
        { 12, UINT32_MAX, 4, "impossible" },
        { 16, 0, 8, "does not fit" },
        { 16, UINT64_MAX / 24 + 1, 8, "does not fit" }, // times 24 wraps
        { 24, (uint64_t)1 << 62, 8, "does not fit" },
        { 32, UINT32_MAX, 4, "impossible" },
        { 32, 1, 4, "an id that the header does not allow" },
        { 36, (uint32_t)-2, 4, "impossible" },
        { 36, UINT32_MAX, 4, "its label" },
        { 12, 100, 4, "its length" },
        { 1632 + 24, UINT64_MAX, 8, "outside the file" },
        { 1632 + 24, 397, 8, "outside the file" },
        { 1632 + 24 + 8, 0, 4, "its length" },
        { 1632 + 24 + 8, UINT32_MAX, 4, "its length" },
        { 1632 + 24 + 16, 0x7FC00000, 4, "its label" },
    };
    size_t         size;
    unsigned char *bytes;
    uint64_t       row;

    (void)state;
    write_rows("d", 3);
    bytes = (unsigned char *)files_read(tempdir_at("d"), &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forge(bytes, size, cases[i].off, cases[i].value, cases[i].n);
        e.text[0] = 0;
        assert_true(read_all("f", &row) < 0);
        assert_says(cases[i].says);
    }
    free(bytes);
    assert_int_equal(read_all("missing", &row), -ENOENT);
    assert_says("missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(test_round_trip),
        IN_TEMPDIR(test_sum), IN_TEMPDIR(test_types),
        IN_TEMPDIR(test_refused),
        IN_TEMPDIR(test_marks),
        IN_TEMPDIR(test_damage),
        IN_TEMPDIR(test_forged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
