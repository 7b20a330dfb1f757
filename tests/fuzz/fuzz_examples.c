/* fuzz_examples.c: the file of tokenised examples. Its checksums hide what lies behind them, so an
 * input may ask for them to be made right (the layout: data/task/examples.c). Rows that read are
 * the same ones when they are written anew. */
#include "tests/fuzz/fuzz.h"

#include "data/base/crc32c.h"
#include "data/task/examples.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 48, RECORD = 24, MOST = 64 };

static uint64_t at64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t at32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static void seal(uint8_t *f, size_t n)
{
    uint64_t rows, ids;
    uint32_t crc;

    if (n < HEADER)
        return;
    rows = at64(f + 16);
    ids = at64(f + 24);
    if (ids <= n / 4 && rows <= n / RECORD && HEADER + 4 * ids + RECORD * rows == n)
        for (uint64_t i = 0; i < rows; i++) {
            uint8_t *r = f + HEADER + 4 * ids + RECORD * i;
            uint64_t first = at64(r), len = at32(r + 8);

            crc = crc32c(crc32c(0, &i, sizeof i), r, RECORD - 4);
            if (first <= ids && len <= ids - first)
                crc = crc32c(crc, f + HEADER + 4 * first, 4 * len);
            memcpy(r + RECORD - 4, &crc, 4);
        }
    if (ids <= n / 4 && rows <= n / RECORD && HEADER + 4 * ids + RECORD * rows == n) {
        crc = crc32c(0, f + HEADER + 4 * ids, RECORD * rows);
        memcpy(f + HEADER - 8, &crc, 4);
    }
    crc = crc32c(0, f, HEADER - 4);
    memcpy(f + HEADER - 4, &crc, 4);
}

/* The first rows of e into `copy`; -1 if one of them does not read. */
static int rows_copy(const struct examples *e, const char *copy)
{
    size_t               rows = e->h.rows < MOST ? (size_t)e->h.rows : MOST, n;
    struct examples_new w;
    struct example       x;
    struct err           err = { 0 };
    int32_t              ids[MOST];
    int                  rc = 0;

    FUZZ_CHECK(!examples_new_open(&w, copy, &err));
    if (examples_marked(e))
        examples_new_marks(&w);
    for (size_t i = 0; i < rows && !rc; i++) {
        rc = examples_read(e, i, ids, MOST, &n, &x, &err);
        if (rc) {
            fuzz_refused(rc, &err);
            break;
        }
        FUZZ_CHECK(n > 0 && n <= e->h.longest && x.label <= e->h.max_label);
        for (size_t k = 0; k < n; k++)
            FUZZ_CHECK(examples_id(ids[k]) >= 0 && examples_id(ids[k]) <= e->h.max_id);
        FUZZ_CHECK(!examples_new_add(&w, ids, n, &x, &err));
    }
    if (rc)
        examples_new_abort(&w);
    else
        FUZZ_CHECK(!examples_new_commit(&w, &err));
    return rc;
}

static void compare(const struct examples *e)
{
    struct examples *back;
    struct example   x, y;
    struct err       err;
    int32_t          a[MOST], b[MOST];
    size_t           n, m;

    FUZZ_CHECK(!examples_open(&back, fuzz_path("copy"), &err));
    for (uint64_t i = 0; i < back->h.rows; i++) {
        FUZZ_CHECK(!examples_read(e, i, a, MOST, &n, &x, &err) &&
                   !examples_read(back, i, b, MOST, &m, &y, &err));
        FUZZ_CHECK(n == m && !memcmp(a, b, n * sizeof *a) && x.label == y.label &&
                   !memcmp(&x.value, &y.value, sizeof x.value));
    }
    examples_close(back);
}

/* Lengths that are given are those of the rows. */
static void lengths(const struct examples *e)
{
    uint32_t      *n = malloc(e->h.rows * sizeof *n);
    int32_t        ids[MOST];
    struct example x;
    struct err     err = { 0 };
    size_t         len;

    FUZZ_CHECK(n);
    int rc = examples_lengths(e, n, &err);

    if (rc)
        fuzz_refused(rc, &err);
    for (uint64_t i = 0; i < e->h.rows && i < MOST && !rc; i++)
        if (!examples_read(e, i, ids, MOST, &len, &x, &err))
            FUZZ_CHECK(len == n[i]);
    free(n);
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in   in = { bytes, n };
    int              sealed = fuzz_number(&in, 1) % 2, rc;
    uint8_t         *file = malloc(in.n + 1);
    struct examples *e;
    struct err       err = { 0 };

    FUZZ_CHECK(file);
    if (in.n)
        memcpy(file, in.p, in.n);
    if (sealed)
        seal(file, in.n);
    fuzz_put("x.ex", file, in.n);
    free(file);
    rc = examples_open(&e, fuzz_path("x.ex"), &err);
    if (rc)
        return fuzz_refused(rc, &err);
    FUZZ_CHECK(e->h.rows > 0 && e->h.rows <= in.n / RECORD);
    rc = rows_copy(e, fuzz_path("copy"));
    if (!rc)
        compare(e);
    lengths(e);
    examples_close(e);
    return !rc;
}

static void seed_of(int sealed, size_t rows, int marked)
{
    struct examples_new w;
    struct fuzz_out      out = { 0 };
    struct err           err;
    uint8_t             *p;
    size_t               n;

    FUZZ_CHECK(!examples_new_open(&w, fuzz_path("x.ex"), &err));
    if (marked)
        examples_new_marks(&w);
    for (size_t i = 0; i < rows; i++) {
        int32_t        ids[4] = { (int32_t)i, marked ? ~7 : 7, 50256, 3 };
        struct example x = { .label = (int32_t)(i % 3) - (rows > 4), .value = (float)i / 2 };

        FUZZ_CHECK(!examples_new_add(&w, ids, 1 + i % 4, &x, &err));
    }
    FUZZ_CHECK(!examples_new_commit(&w, &err));
    fuzz_take("x.ex", &p, &n);
    fuzz_add_number(&out, (uint64_t)sealed, 1);
    fuzz_add(&out, p, n);
    fuzz_seed_out(&out);
    free(p);
}

static void seeds(void)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        seed_of(sealed, 1, 0);
        seed_of(sealed, 9, 0);
        seed_of(sealed, 9, 1);
    }
}

const struct fuzz_target fuzz_examples = { "examples", NULL, one, seeds, 1 << 20, 4, 2000 };
