/* test_base.c: lists, arenas, rounding, and what a terminal gets of a stranger's text. */
#include "data/base/arena.h"
#include "data/base/err.h"
#include "data/base/list.h"
#include "data/base/machine.h"
#include "data/base/number.h"
#include "data/base/round.h"
#include "data/base/visible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct item { int number; struct item *next; };

static void test_list(void **state)
{
    struct item  item[4], *out[4];
    struct list  l;

    (void)state;
    list_init(&l, offsetof(struct item, next));
    assert_null(list_pop(&l));
    for (int round = 0; round < 4; round++) { // the first, one within, the last, and then all
        for (int i = 0; i < 4; i++)
            list_push(&l, &item[i]);
        if (round == 3)
            for (int i = 0; i < 4; i++)
                list_remove(&l, &item[i]);
        else
            list_remove(&l, &item[round == 2 ? 3 : round]);
        if (round < 3) {
            list_push(&l, &item[round == 2 ? 3 : round]);
            assert_int_equal(list_take(&l, out, 2), 2);
            assert_ptr_equal(out[0], &item[round == 0 ? 1 : 0]);
            assert_int_equal(list_take(&l, out + 2, 4), 2);
            assert_ptr_equal(out[3], &item[round == 2 ? 3 : round]);
            assert_null(out[3]->next);
        }
        assert_null(list_pop(&l));
    }
    list_push(&l, &item[2]);
    assert_ptr_equal(list_pop(&l), &item[2]);
    assert_int_equal(list_take(&l, out, 4), 0);
}

struct buffers { char *a; float *b; char *none, *c; };

static void lay(struct arena *a, struct buffers *b)
{
    b->a = arena_take(a, 1);
    b->b = arena_take(a, 100 * sizeof *b->b);
    b->none = arena_take(a, 0);
    b->c = arena_take(a, 5000);
}

static void test_arena(void **state)
{
    static const size_t align[] = {0, ARENA_LINE, ARENA_IO};
    struct err          err;
    struct buffers      b;

    (void)state;
    for (size_t i = 0; i < sizeof align / sizeof align[0]; i++) {
        size_t       to = align[i] ? align[i] : ARENA_LINE;
        struct arena a = {.align = align[i]};

        lay(&a, &b);
        assert_null(b.c);
        assert_int_equal(a.used, round_up(1, to) + round_up(400, to) + round_up(5000, to));
        assert_int_equal(arena_map(&a, "buffers", &err), 0);
        lay(&a, &b);
        assert_int_equal(a.used, a.bytes);
        assert_int_equal((uintptr_t)b.a % 4096, 0);
        assert_int_equal((uintptr_t)b.b % to, 0);
        assert_int_equal((char *)b.b - b.a, to);
        assert_ptr_equal(b.none, b.c);
        assert_int_equal(b.c[4999], 0);
        memset(b.a, 1, a.bytes);
        arena_free(&a);
        assert_null(a.base);
        arena_free(&a);
        assert_int_equal(a.align, align[i]);
    }
}

static void test_arena_refused(void **state)
{
    struct arena a = {0};
    struct err   err;

    (void)state;
    assert_int_equal(arena_map(&a, "no buffers", &err), 0);
    assert_null(arena_take(&a, 0));
    a.used = SIZE_MAX / 2;
    assert_true(arena_map(&a, "the buffers", &err) < 0);
    assert_non_null(strstr(err.text, "out of memory: the buffers need "));
    assert_null(a.base);
    arena_free(&a);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(div_up(0, 4), 0);
    assert_int_equal(div_up(5, 4), 2);
    assert_int_equal(round_up(8, 4), 8);
    assert_int_equal(round_up(9, 4), 12);
    assert_int_equal(size_min(2, 3), 2);
    assert_int_equal(size_max(2, 3), 3);
    assert_true(rss_now() > 0);
    assert_true(rss_peak() >= 4096);
}

/* A wrong name is misuse; what may be right and cannot be read keeps its cause. */
static void test_name(void **state)
{
    static const int wrong[] = { ENOENT, ENOTDIR, ELOOP }, other[] = { EIO, ENOMEM, EACCES, EINTR };
    struct err       e;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(err_name(&e, wrong[i], "%s", "a"), -EINVAL);
        assert_true(e.misuse && !e.stopped);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_int_equal(err_name(&e, other[i], "%s", "b"), -other[i]);
        assert_false(e.misuse);
        assert_string_equal(e.text, "b");
    }
}

/* What a string that is printed becomes. */
static void test_visible(void **state)
{
    static const struct { const char *text, *shown; } texts[] = {
        { "a\033[31mb", "a\\x1b[31mb" },
        { "\x7f\x01", "\\x7f\\x01" },
        { "a\nb\tc\rd", "a\\nb\\tc\\rd" },
        { "\xc2\x9b" "31m", "\\xc2\\x9b31m" },      // CSI as one character
        { "\x9b" "31m", "\\x9b31m" },              // and as one byte
        { "\xe2\x82", "\\xe2\\x82" },             // cut off
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" },   // a surrogate
        { "caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac" },
        { "\xf0\x9f\x9a\xa2", "\xf0\x9f\x9a\xa2" },
        { "\\x1b", "\\x1b" },
        { "gnp.\xe2\x80\xaetab", "gnp.\\xe2\\x80\\xaetab" }, // U+202E: from right to left
        { "a\xe2\x81\xa6z", "a\\xe2\\x81\\xa6z" },
        { "\xef\xbb\xbf" "a\xe2\x80\x8b", "\\xef\\xbb\\xbfa\\xe2\\x80\\x8b" },
        { "\xf3\xa0\x81\xa1", "\\xf3\\xa0\\x81\\xa1" }, // a tag
        { "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae", "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae" },
    };
    char       to[64], *file = NULL;
    size_t     n;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        n = visible_text(to, sizeof to, texts[i].text, strlen(texts[i].text));
        assert_string_equal(to, texts[i].shown);
        assert_int_equal(n, strlen(to));
        err_misuse(&err, "%s", texts[i].text);
        assert_string_equal(err.text, texts[i].shown);
    }
    assert_int_equal(visible_text(to, sizeof to, "a\0b", 3), 6);
    assert_string_equal(to, "a\\x00b");
    visible_text(to, 6, "ab\033c", 4); // no half of an escape
    assert_string_equal(to, "ab");
    visible_text(to, 4, "ab\xe2\x82\xac", 5); // nor of a character
    assert_string_equal(to, "ab");
    FILE *f = open_memstream(&file, &n);
    visible_write(f, "a\n\tb\r\033", 6, "\n\t");
    fclose(f);
    assert_string_equal(file, "a\n\tb\\r\\x1b");
    free(file);
}

static void test_number(void **state)
{
    static const struct { const char *text; double bytes; int is; } sizes[] = {
        { "0", 0, 1 },           { "12", 12, 1 },         { "1.5", 0, 0 },
        { "1.5K", 1536, 1 },     { "2g", 2147483648, 1 }, { "4 GB", 4294967296, 1 },
        { "4GiB", 4294967296, 1 }, { "4 ", 0, 0 },        { "4 B", 0, 0 },
        { "4GX", 0, 0 },         { "-1", 0, 0 },          { " 1", 0, 0 },
        { "0x10", 0, 0 },        { "inf", 0, 0 },         { "1e999", 0, 0 },
        { "", 0, 0 },            { ".", 0, 0 },           { "1e3", 1000, 1 },
    };
    const char *text = "0.25%";
    double      v;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(number_size(sizes[i].text, &v), sizes[i].is);
        if (sizes[i].is)
            assert_true(v == sizes[i].bytes);
    }
    assert_ptr_equal(number_decimal(text, &v), text + 4);
    assert_true(v == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list), cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_refused), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_visible),
        cmocka_unit_test(test_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
