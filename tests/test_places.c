/* test_places.c: where tokenizers of all kinds say that a text may be cut, the ids of both parts
 * are those of the whole text. The texts are made of whatever matters near a cut. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/json/json.h"
#include "data/text/tokenizer.h"
#include "tests/tempdir.h"

#include <string.h>

static struct err e;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* A text of pieces that matter at a cut: parts of the cases, white space, signs, marks, tokens. */
static size_t draw_text(char *text, size_t most, const json_t *cases, const json_t *added,
                        uint64_t *state)
{
    static const char *const odd[] = { " ", " ", " ", "\n", "\n", "\r\n", "\t", "  ", "\xC2\xA0",
        "\xE2\x80\xA8", "a", "Be", "'s", "'ll", "1", "234", ".", "/", "!?", "\xCC\x81",
        "\xE4\xB8\xAD\xE6\x96\x87", "\xE2\x96\x81", "\xEA\xB0\x80", "\xE1\x84\x80\xE1\x85\xA1",
        "\xC2\xB2", "\x01", "\xE2\x80\x8B", "\xCF\x83", "\xCE\xA3", "_", "e" };
    enum { ODD = sizeof odd / sizeof *odd };
    size_t n = 0;

    for (;;) {
        const json_t *c = json_array_get(cases, (size_t)draw(state, json_array_size(cases)));
        const char   *add = odd[draw(state, ODD)];
        uint64_t      kind = draw(state, 12);

        if (kind == 0)
            add = json_str(c, "text");
        else if (kind == 1 && json_array_size(added))
            add = json_str(json_array_get(added, (size_t)draw(state, json_array_size(added))),
                           "content");
        if (n + strlen(add) > most)
            return n;
        memcpy(text + n, add, strlen(add));
        n += strlen(add);
    }
}

/* The ids of both parts are those of the whole, at each place of many texts. Returns how many
 * places there were. A copy of the tokenizer encodes the parts. */
static size_t check_places(struct tokenizer *t, const json_t *cases, const json_t *added)
{
    struct tokenizer *copy;
    struct token_buf  whole = { 0 }, parts = { 0 };
    uint64_t          state = 7;
    size_t            places = 0;
    char              text[400];

    assert_int_equal(tokenizer_copy(&copy, t, &e), 0);
    for (int round = 0; round < 3000; round++) {
        size_t n = draw_text(text, 20 + (size_t)round % 380, cases, added, &state), at = 0;

        whole.n = 0;
        assert_int_equal(tokenizer_encode(t, text, n, &whole, &e), 0);
        while (n && (at = tokenizer_place(t, text, n, at + 1))) {
            places++;
            parts.n = 0;
            assert_int_equal(tokenizer_encode(copy, text, at, &parts, &e), 0);
            assert_int_equal(tokenizer_encode(copy, text + at, n - at, &parts, &e), 0);
            if (parts.n != whole.n || memcmp(parts.ids, whole.ids, whole.n * sizeof *whole.ids))
                fail_msg("other ids, cut at byte %zu of \"%.*s\"", at, (int)n, text);
        }
    }
    tokenizer_close(copy);
    token_buf_free(&whole);
    token_buf_free(&parts);
    return places;
}

static void test_places(void **s)
{
    json_t     *kinds, *kind;
    const char *name;
    size_t      cut = 0;

    (void)s;
    assert_int_equal(json_read(&kinds, "tests/fixtures/tokenizers.json", (size_t)1 << 30, &e), 0);
    json_object_foreach(kinds, name, kind) {
        struct tokenizer *t;
        const json_t     *file = json_object_get(kind, "tokenizer");

        if (!file)
            continue; // a folder of several files, whose kind is another one's, too
        assert_int_equal(json_write(file, tempdir_at("tokenizer.json"), 0, &e), 0);
        if (tokenizer_open(&t, tempdir, &e))
            fail_msg("%s: %s", name, e.text);
        size_t places = check_places(t, json_object_get(kind, "cases"),
                                     json_object_get(file, "added_tokens"));
        print_message("%s: %zu places\n", name, places);
        cut += places > 1000;
        tokenizer_close(t);
    }
    assert_true(cut >= 8);
    json_decref(kinds);
}

/* A token that is found in normalized text, and takes white space along, may be written otherwise
 * in the text itself. */
static void test_stripped(void **s)
{
    static const char text[] = "an <e\xCC\x81 b and an <e\xCC\x81 b";
    json_t           *kinds, *file, *added;
    struct tokenizer *t;
    size_t            id;

    (void)s;
    assert_int_equal(json_read(&kinds, "tests/fixtures/tokenizers.json", (size_t)1 << 30, &e), 0);
    file = json_object_get(json_object_get(kinds, "qwen2"), "tokenizer");
    added = json_object_get(file, "added_tokens");
    id = json_object_size(json_object_get(json_object_get(file, "model"), "vocab")) +
         json_array_size(added);
    json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                           (json_int_t)id, "content", "<\xC3\xA9", "single_word", 0,
                                           "lstrip", 0, "rstrip", 1, "normalized", 1, "special",
                                           0));
    assert_int_equal(json_write(file, tempdir_at("tokenizer.json"), 0, &e), 0);
    if (tokenizer_open(&t, tempdir, &e))
        fail_msg("%s", e.text);
    struct token_buf whole = { 0 }, parts = { 0 };
    assert_int_equal(tokenizer_encode(t, text, sizeof text - 1, &whole, &e), 0);
    for (size_t at = 0; (at = tokenizer_place(t, text, sizeof text - 1, at + 1)); parts.n = 0) {
        assert_int_equal(tokenizer_encode(t, text, at, &parts, &e), 0);
        assert_int_equal(tokenizer_encode(t, text + at, sizeof text - 1 - at, &parts, &e), 0);
        if (parts.n != whole.n || memcmp(parts.ids, whole.ids, whole.n * sizeof *whole.ids))
            fail_msg("other ids, cut at byte %zu of \"%s\"", at, text);
    }
    token_buf_free(&whole);
    token_buf_free(&parts);
    tokenizer_close(t);
    json_decref(kinds);
}

int main(void)
{
    const struct CMUnitTest tests[] = { IN_TEMPDIR(test_places), IN_TEMPDIR(test_stripped) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
