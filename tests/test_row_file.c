/* test_row_file.c: rows of a stream of which one read fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/task/row_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct err e;

/* A stream whose nth read fails. */
struct failing { const char *text; size_t at, left; };

static ssize_t failing_read(void *ctx, char *to, size_t n)
{
    struct failing *s = ctx;
    size_t          has = strlen(s->text) - s->at;

    if (s->left-- == 0)
        return errno = EIO, -1;
    n = n < 5 ? n : 5;
    n = n < has ? n : has;
    memcpy(to, s->text + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static int failing_seek(void *ctx, off64_t *to, int whence)
{
    struct failing *s = ctx;

    s->at = (size_t)*to + (whence == SEEK_CUR ? s->at : 0);
    return 0;
}

/* Reads all rows of a stream whose nth read fails: *rc, and a text of its fields. */
static void read_failing(char *out, size_t size, int *rc, const char *text, enum row_kind kind,
                         size_t nth)
{
    struct failing  s = { .text = text, .left = nth };
    struct row_file r;
    size_t          n = 0;
    FILE *f = fopencookie(&s, "r", (cookie_io_functions_t){ failing_read, NULL, failing_seek,
                                                            NULL });

    *out = '\0';
    *rc = row_file_open_stream(&r, f, NULL, "f", kind, &e);
    while (!*rc && (*rc = row_file_next(&r, &e)) > 0) {
        for (size_t i = 0; i < r.n_fields; i++)
            n += (size_t)snprintf(out + n, size - n, "%s|", row_file_field(&r, i));
        *rc = 0;
    }
    row_file_close(&r);
}

/* A read that fails is neither a row's end nor its user's mistake. */
static void test_failed_reads(void **state)
{
    static const struct { const char *text; enum row_kind kind; } files[] = {
        { "\xEF\xBB\xBFprompt,label\na,\"b, long and quoted\"\nc,d\n", ROWS_CSV },
        { "\xEF\xBB\xBF[{\"a\": 1},\n {\"b\": [2, 3]}]\n", ROWS_JSON },
        { "a\tb\nc\td\n", ROWS_TSV } };
    char whole[256], got[256];
    int  rc;

    (void)state;
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        size_t failed = 0;

        read_failing(whole, sizeof whole, &rc, files[k].text, files[k].kind, SIZE_MAX);
        assert_int_equal(rc, 0);
        for (size_t nth = 0; nth < 64; nth++) {
            read_failing(got, sizeof got, &rc, files[k].text, files[k].kind, nth);
            failed += rc != 0;
            if (rc)
                assert_int_equal(rc, -EIO);
            else
                assert_string_equal(got, whole);
        }
        assert_true(failed > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_failed_reads) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
