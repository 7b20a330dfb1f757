/* test_nfc.c: Unicode's normalization form C by examples of UAX 15 and of each way to compose, cut
 * anywhere; bytes that are no UTF-8; long runs of marks; the answers about all code points, which
 * no version of utf8proc may change. test_tokenizer_kinds.c has what Hugging Face's tokenizers make
 * of odd strings. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/crc32c.h"
#include "data/base/utf8.h"
#include "data/text/nfc.h"
#include "data/text/unicode.h"

#include <errno.h>
#include <string.h>

static struct err e;

struct gathered { char text[1 << 20]; size_t n; };

static int gather(void *arg, const char *text, size_t n, struct err *err)
{
    struct gathered *g = arg;

    (void)err;
    assert_true(g->n + n < sizeof g->text);
    memcpy(g->text + g->n, text, n);
    g->n += n;
    return 0;
}

static int stop(void *arg, const char *text, size_t n, struct err *err)
{
    (void)arg;
    (void)text;
    return err_set(err, -EIO, "%zu bytes were not wanted", n);
}

static void feed(struct nfc *c, const char *text, size_t n, size_t piece, struct gathered *g)
{
    struct text_to to = { gather, g };

    g->n = 0;
    for (size_t at = 0; at < n; at += piece)
        assert_int_equal(nfc_feed(c, text + at, n - at < piece ? n - at : piece, 0, &to, &e), 0);
    assert_int_equal(nfc_feed(c, NULL, 0, 1, &to, &e), 0);
    g->text[g->n] = 0;
}

static void test_examples(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "plain", "plain" },
        { "caf\u00e9", "caf\u00e9" },
        { "cafe\u0301s", "caf\u00e9s" },
        { "\u212b\u2126", "\u00c5\u03a9" },             // singletons
        { "s\u0323\u0307", "\u1e69" },                    // two marks
        { "s\u0307\u0323", "\u1e69" },                    // the same in another order
        { "d\u0307\u0323", "\u1e0d\u0307" },             // the nearer one by class composes
        { "\u1e0b\u0323", "\u1e0d\u0307" },              // a composed one is taken apart
        { "a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315" "b" },
        { "e\u0334\u0301", "\u00e9\u0334" },             // a mark of another class blocks none
        { "e\u0338\u0338\u0301", "\u00e9\u0338\u0338" },
        { "\u0958", "\u0915\u093c" },                    // excluded from composition
        { "\u0344", "\u0308\u0301" },                    // marks alone
        { "\u0301e", "\u0301e" },
        { "\u1100\u1161\u11a8\u1100\u1161", "\uac01\uac00" },
        { "\uac00\u11a8\u11a8", "\uac01\u11a8" },
        { "\u09c7\u09be", "\u09cb" },                    // a pair of two starters
        { "\u09c7\u0334\u09be", "\u09c7\u0334\u09be" },  // blocked
        { "\U0001d15e", "\U0001d157\U0001d165" },
        { "\uf900", "\u8c48" },
        { "\xff" "e\xcc\x81\xf0\x9f\xcc\x81\x80", "\xff\xc3\xa9\xf0\x9f\xcc\x81\x80" },
        { "e\xcc", "e\xcc" },
    };
    static struct gathered g;
    struct nfc            *c;

    (void)state;
    assert_int_equal(nfc_open(&c, 1, &e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece < 9; piece++) {
            feed(c, cases[i][0], strlen(cases[i][0]), piece, &g);
            assert_string_equal(g.text, cases[i][1]);
        }
    assert_int_equal(nfc_feed(c, "abc", 3, 1, &(struct text_to){ stop, NULL }, &e), -EIO);
    feed(c, "d", 1, 1, &g); // and nothing is left of it
    assert_string_equal(g.text, "d");
    nfc_close(c);
    nfc_close(NULL);
}

/* A letter and many marks of two classes in turns, letters between, in pieces of any size. */
static void test_long(void **state)
{
    enum { MARKS = 60000 };
    static struct gathered g;
    static char            text[4 * MARKS + 100], want[4 * MARKS + 100];
    size_t                 n = 0, m = 0;
    struct nfc            *c;

    (void)state;
    text[n++] = 'a';
    for (size_t i = 0; i < MARKS; i++, n += 2)
        memcpy(text + n, i % 2 ? "\u0323" : "\u0301", 2);
    memcpy(text + n, "e\u0301", 3);
    n += 3;
    memcpy(want, "\u1ea1", 3); // with the first mark below; the one above is behind all of those
    m = 3;
    for (size_t i = 1; i < MARKS; i++, m += 2)
        memcpy(want + m, i < MARKS / 2 ? "\u0323" : "\u0301", 2);
    memcpy(want + m, "\u00e9", 2);
    m += 2;
    assert_int_equal(nfc_open(&c, 1, &e), 0);
    for (size_t piece = 1; piece < 200000; piece = piece * 7 + 1) {
        feed(c, text, n, piece, &g);
        assert_int_equal(g.n, m);
        assert_memory_equal(g.text, want, m);
    }
    nfc_close(c);
}

/* The checksums are those of tables that were made of Hugging Face's answers alone. */
static void test_versions(void **state)
{
    static struct gathered g;
    uint32_t               flags = 0, lower = 0, forms[2] = { 0, 0 };
    struct nfc            *c[2];

    (void)state;
    for (int k = 0; k < 2; k++)
        assert_int_equal(nfc_open(&c[k], k, &e), 0);
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        uint8_t  f = unicode_flags(cp) & (UNICODE_NEWER - 1);
        uint32_t to[2];
        char     text[32] = "x\u0345"; // its class is above all others, that of U+0334 is below
        size_t   n = 3;

        if (cp - 0xd800 < 0x800) // surrogates are no code points of UTF-8
            continue;
        flags = crc32c(flags, &f, 1);
        lower = crc32c(lower, to, (size_t)unicode_lower(cp, to) * sizeof *to);
        n += utf8_encode(text + n, cp);
        memcpy(text + n, "\u0334a", 3);
        n += 3 + utf8_encode(text + n + 3, cp);
        memcpy(text + n, "\u0301", 2);
        for (int k = 0; k < 2; k++) {
            feed(c[k], text, n + 2, n + 2, &g);
            forms[k] = crc32c(forms[k], g.text, g.n);
        }
    }
    for (int k = 0; k < 2; k++)
        nfc_close(c[k]);
    assert_int_equal(flags, 0xf557b6db);
    assert_int_equal(lower, 0xeb947498);
    assert_int_equal(forms[0], 0x38b4cd8e);
    assert_int_equal(forms[1], 0xa601e938);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_examples),
                                        cmocka_unit_test(test_long),
                                        cmocka_unit_test(test_versions) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
