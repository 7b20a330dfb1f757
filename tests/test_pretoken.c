/* test_pretoken.c: GPT-2's pre-tokens, around special tokens, and texts cut anywhere. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/text/pretoken.h"
#include "tests/odd_text.h"

#include <string.h>

static struct err e;

/* Pre-tokens joined by '|', specials in [ ]. */
struct cuts { char text[1 << 16]; size_t n; };

static int note(void *arg, const char *bytes, size_t n, int32_t special, struct err *err)
{
    struct cuts *c = arg;

    (void)err;
    assert_true(c->n + n + 3 < sizeof c->text);
    if (special >= 0)
        c->text[c->n++] = '[';
    memcpy(c->text + c->n, bytes, n);
    c->n += n;
    c->text[c->n++] = special >= 0 ? ']' : '|';
    c->text[c->n] = 0;
    return 0;
}

static int special(struct pretoken *p, const char *content, int32_t id, int second)
{
    struct pretoken_special s = { .content = content, .n = strlen(content), .id = id,
                                  .second = second };

    return pretoken_special(p, &s, &e);
}

static struct pretoken *cutter(void)
{
    struct pretoken *p;

    assert_int_equal(pretoken_open(&p, NULL, &e), 0);
    assert_int_equal(special(p, "<|endoftext|>", 7, 0), 0);
    return p;
}

static void test_pretokens(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "Hello world", "Hello| world|" },
        { "it's we'll I'd they've I'm don't you're", "it|'s| we|'ll| I|'d| they|'ve| I|'m| don|'t| "
                                                     "you|'re|" },
        { "IT'S 'tis '' 'r 'v", "IT|'|S| '|tis| ''| '|r| '|v|" },
        { "a  b   c \n\n d\t", "a| | b|  | c| \n\n| d|\t|" },
        { "x \n", "x| \n|" },
        { "1234 5,678.9", "1234| 5|,|678|.|9|" },
        { "a1!? b2", "a|1|!?| b|2|" },
        { "caf\xc3\xa9 \xe6\x9d\xb1\xe4\xba\xac\xe3\x80\x80x", "caf\xc3\xa9| "
                                                               "\xe6\x9d\xb1\xe4\xba\xac|"
                                                               "\xe3\x80\x80|x|" },
        { "\xc2\xbd\xe2\x85\xa7 \xd9\xa3", "\xc2\xbd\xe2\x85\xa7| \xd9\xa3|" },
        { "a\xc2\xa0 b\xe1\xa0\x8e", "a|\xc2\xa0| b|\xe1\xa0\x8e|" }, // U+180E is no space
        // a letter and a digit of Unicode 15
        { "x\xf0\xb1\x8d\x90 \xf0\x91\xbd\x90", "x\xf0\xb1\x8d\x90| \xf0\x91\xbd\x90|" },
        { "e\xcc\x81", "e|\xcc\x81|" },
        { "a <|endoftext|> b", "a| |[<|endoftext|>] b|" },
        { "<|endoftext|><|endoftext|>", "[<|endoftext|>][<|endoftext|>]" },
        { "<|endof <<|endoftext|>", "<||endof| <|[<|endoftext|>]" },
        { "a\xff\xffz\xe2\x82", "a|\xff|\xff|z|\xe2|\x82|" },
        { "\xed\xa0\x80", "\xed|\xa0|\x80|" },
    };
    struct pretoken *p = cutter();
    struct cuts      c;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t used, n = strlen(cases[i][0]);

        c.n = 0;
        c.text[0] = 0;
        assert_int_equal(pretoken_cut(p, cases[i][0], n, 1,
                                      &(struct pretoken_to){ note, &c }, &used, &e), 0);
        assert_int_equal(used, n);
        assert_string_equal(c.text, cases[i][1]);
    }
    pretoken_close(p);
    pretoken_close(NULL);
}

/* The longest of the special tokens that begin at a place, and not before it is known to be. */
static void test_specials_overlap(void **state)
{
    struct pretoken *p;
    struct cuts      c = { .n = 0 };
    size_t           used;

    (void)state;
    assert_int_equal(pretoken_open(&p, NULL, &e), 0);
    assert_int_equal(special(p, "<a>", 1, 0), 0);
    assert_int_equal(special(p, "<a>bc", 2, 0), 0);
    assert_int_equal(special(p, "xy", 3, 0), 0);
    assert_int_equal(pretoken_cut(p, "q<a>bd <a>bcxy<a>b", 18, 0,
                                  &(struct pretoken_to){ note, &c }, &used, &e), 0);
    assert_string_equal(c.text, "q|[<a>]bd| |[<a>bc][xy]");
    assert_int_equal(used, 14);
    assert_int_equal(pretoken_cut(p, "<a>b", 4, 1,
                                  &(struct pretoken_to){ note, &c }, &used, &e), 0);
    assert_string_equal(c.text, "q|[<a>]bd| |[<a>bc][xy][<a>]b|");
    pretoken_close(p);
}

/* A token of the second turn is not seen where one of the first stands, nor before it is known that
 * none does. */
static void test_specials_second_turn(void **state)
{
    struct pretoken *p;
    struct cuts      c = { .n = 0 };
    size_t           used;

    (void)state;
    assert_int_equal(pretoken_open(&p, NULL, &e), 0);
    assert_int_equal(special(p, "<a>", 1, 0), 0);
    assert_int_equal(special(p, "x<a", 2, 1), 0);
    assert_int_equal(pretoken_cut(p, "x<ab x<a>", 9, 1,
                                  &(struct pretoken_to){ note, &c }, &used, &e), 0);
    assert_string_equal(c.text, "[x<a]b| x|[<a>]");
    assert_int_equal(pretoken_cut(p, "x<a", 3, 0, &(struct pretoken_to){ note, &c }, &used, &e), 0);
    assert_int_equal(used, 0);
    pretoken_close(p);
}

static void test_cut_anywhere(void **state)
{
    struct pretoken *p = cutter();
    struct cuts      whole, c;
    struct pretoken_to into_whole = { note, &whole }, into_c = { note, &c };
    char             text[80];

    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t n = odd_text(text, sizeof text), used, rest;

        whole.n = 0;
        assert_int_equal(pretoken_cut(p, text, n, 1, &into_whole, &used, &e), 0);
        for (size_t at_byte = 0; at_byte <= n; at_byte++) {
            c.n = 0;
            assert_int_equal(pretoken_cut(p, text, at_byte, 0, &into_c, &used, &e), 0);
            assert_true(used <= at_byte);
            assert_int_equal(pretoken_cut(p, text + used, n - used, 1, &into_c, &rest, &e), 0);
            assert_int_equal(c.n, whole.n);
            assert_memory_equal(c.text, whole.text, c.n);
        }
    }
    pretoken_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretokens),
        cmocka_unit_test(test_specials_overlap),
        cmocka_unit_test(test_specials_second_turn),
        cmocka_unit_test(test_cut_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
