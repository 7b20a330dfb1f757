/* test_tokenizer_kinds.c: tokenizers of today's kinds, against what Hugging Face's tokenizers gave
 * (tests/fixtures/tokenizers.json, made by make_tokenizers.py): ids, of whole texts and of pieces,
 * what stands around a text, what is saved again; and what is asked for and refused by its name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/base/json.h"
#include "data/text/tokenizer.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

/* All kinds, read anew. */
static json_t *fixture(void)
{
    json_t *kinds;

    assert_int_equal(json_read(&kinds, "tests/fixtures/tokenizers.json", 16 << 20, &e), 0);
    return kinds;
}

static int opened(struct tokenizer **t, const json_t *file)
{
    assert_int_equal(json_write(file, tempdir_at("tokenizer.json"), 0, &e), 0);
    return tokenizer_open(t, tempdir, &e);
}

static void same_ids(const struct token_buf *got, const json_t *want, const char *text)
{
    size_t n = json_array_size(want), i = 0;

    while (i < n && i < got->n && json_integer_value(json_array_get(want, i)) == got->ids[i])
        i++;
    if (i != n || i != got->n)
        fail_msg("id %zu of %zu (expected %zu) differs: %s", i, got->n, n, text);
}

/* The ids of all cases: of the text at once, and in pieces of every size up to 7. */
static void check_cases(struct tokenizer *t, const json_t *cases)
{
    struct token_buf ids = { 0 };

    assert_true(json_array_size(cases) > 100);
    for (size_t k = 0; k < json_array_size(cases); k++) {
        const json_t *c = json_array_get(cases, k), *want = json_object_get(c, "ids");
        const char   *text = json_str(c, "text");
        size_t        n = json_string_length(json_object_get(c, "text"));

        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, text, n, &ids, &e), 0);
        same_ids(&ids, want, text);
        for (size_t piece = 1; piece < 8; piece++) {
            ids.n = 0;
            for (size_t at = 0; at < n; at += piece)
                assert_int_equal(tokenizer_feed(t, text + at, n - at < piece ? n - at : piece, 0,
                                                &ids, &e), 0);
            assert_int_equal(tokenizer_feed(t, NULL, 0, 1, &ids, &e), 0);
            same_ids(&ids, want, text);
        }
    }
    token_buf_free(&ids);
}

/* One long text of all cases, so that pieces are cut while more follows. */
static void check_long(struct tokenizer *t, const json_t *cases)
{
    static char      text[1 << 18];
    struct token_buf whole = { 0 }, pieces = { 0 };
    size_t           n = 0;

    for (int times = 0; times < 8; times++)
        for (size_t k = 0; k < json_array_size(cases); k++) {
            const json_t *c = json_object_get(json_array_get(cases, k), "text");

            assert_true(n + json_string_length(c) < sizeof text);
            memcpy(text + n, json_string_value(c), json_string_length(c));
            n += json_string_length(c);
        }
    assert_true(n > 20000);
    assert_int_equal(tokenizer_encode(t, text, n, &whole, &e), 0);
    for (size_t piece = 1; piece < 20000; piece = piece * 3 + 1) {
        pieces.n = 0;
        for (size_t at = 0; at < n; at += piece)
            assert_int_equal(tokenizer_feed(t, text + at, n - at < piece ? n - at : piece, 0,
                                            &pieces, &e), 0);
        assert_int_equal(tokenizer_feed(t, NULL, 0, 1, &pieces, &e), 0);
        assert_int_equal(pieces.n, whole.n);
        assert_memory_equal(pieces.ids, whole.ids, whole.n * sizeof *whole.ids);
    }
    token_buf_free(&whole);
    token_buf_free(&pieces);
}

static void check_around(struct tokenizer *t, const json_t *kind)
{
    struct token_buf ids = { 0 };

    assert_int_equal(tokenizer_put(t, TOKENIZER_BEFORE, &ids, &e), 0);
    assert_int_equal(tokenizer_encode(t, "a", 1, &ids, &e), 0);
    assert_int_equal(tokenizer_put(t, TOKENIZER_BEHIND, &ids, &e), 0);
    same_ids(&ids, json_object_get(kind, "single"), "a");
    ids.n = 0;
    assert_int_equal(tokenizer_put(t, TOKENIZER_BEFORE, &ids, &e), 0);
    assert_int_equal(tokenizer_encode(t, "a", 1, &ids, &e), 0);
    assert_int_equal(tokenizer_put(t, TOKENIZER_BETWEEN, &ids, &e), 0);
    assert_int_equal(tokenizer_encode(t, "b", 1, &ids, &e), 0);
    assert_int_equal(tokenizer_put(t, TOKENIZER_BEHIND, &ids, &e), 0);
    same_ids(&ids, json_object_get(kind, "pair"), "a, b");
    token_buf_free(&ids);
}

static void test_kinds(void **state)
{
    json_t     *kinds = fixture(), *kind;
    const char *name;

    (void)state;
    assert_true(json_object_size(kinds) > 0);
    json_object_foreach(kinds, name, kind) {
        const json_t     *cases = json_object_get(kind, "cases");
        struct tokenizer *t, *again;

        assert_int_equal(opened(&t, json_object_get(kind, "tokenizer")), 0);
        check_cases(t, cases);
        check_long(t, cases);
        check_around(t, kind);
        assert_int_equal(tokenizer_save(t, tempdir, &e), 0);
        assert_int_equal(tokenizer_open(&again, tempdir, &e), 0);
        assert_int_equal(tokenizer_vocab(again), tokenizer_vocab(t));
        assert_int_equal(tokenizer_endoftext(again), tokenizer_endoftext(t));
        check_cases(again, cases);
        check_around(again, kind);
        tokenizer_close(again);
        tokenizer_close(t);
        assert_int_equal(remove(tempdir_at("tokenizer_config.json")), 0);
        assert_int_equal(remove(tempdir_at("special_tokens_map.json")), 0);
    }
    json_decref(kinds);
}

/* The value at path "a/b/0/c" of a file becomes `value`. */
static void put(json_t *at, const char *path, const char *value)
{
    char        key[64];
    json_t     *v;
    const char *slash;

    for (; (slash = strchr(path, '/')); path = slash + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(slash - path), path);
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
        assert_non_null(at);
    }
    v = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    if (json_is_array(at))
        assert_int_equal(json_array_set_new(at, (size_t)atoi(path), v), 0);
    else
        assert_int_equal(json_object_set_new(at, path, v), 0);
}

static void test_refusals(void **state)
{
    static const struct { const char *path, *value, *says; } cases[] = {
        { "normalizer", "{\"type\": \"NFKC\"}", "NFKC" },
        { "normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}]}",
          "Lowercase" },
        { "normalizer", "{\"type\": \"Sequence\"}", "normalizers" },
        { "pre_tokenizer", "null", "absent" },
        { "pre_tokenizer", "{\"type\": \"Metaspace\"}", "Metaspace" },
        { "pre_tokenizer/pretokenizers/0", "{\"type\": \"Digits\"}", "Digits" },
        { "pre_tokenizer/pretokenizers/0/pattern", "{\"Regex\": \"\\\\w+\"}", "\"\\w+\"" },
        { "pre_tokenizer/pretokenizers/0/pattern", "{\"String\": \" \"}", "splits by" },
        { "pre_tokenizer/pretokenizers/0/behavior", "\"Removed\"", "Removed" },
        { "pre_tokenizer/pretokenizers/0/invert", "true", "inverted" },
        { "pre_tokenizer/pretokenizers/1/use_regex", "true", "a Split before it instead" },
        { "pre_tokenizer/pretokenizers/1/add_prefix_space", "true", "prefix space" },
        { "post_processor", "{\"type\": \"BertProcessing\"}", "BertProcessing" },
        { "post_processor/processors/1/single", "[]", "around the text A" },
        { "post_processor/processors/1/single/1/Sequence/id", "\"B\"", "around the text A" },
        { "post_processor/processors/1/pair/3/Sequence", "{}", "texts A and B" },
        { "post_processor/processors/1/pair/0/SpecialToken/id", "\"<x>\"", "<x>" },
        { "post_processor/processors/1/single/0/SpecialToken/id", "\"<x>\"", "<x>" },
        { "post_processor/processors/1/special_tokens/<|begin_of_text|>/ids", "[100000]",
          "none of the tokenizer's" },
        { "decoder", "{\"type\": \"WordPiece\"}", "WordPiece" },
        { "model/type", "\"Unigram\"", "Unigram" },
        { "model/byte_fallback", "true", "byte_fallback" },
        { "model/novelty", "1", "novelty" },
        { "novelty", "1", "novelty" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t           *kinds = fixture();
        json_t           *file = json_object_get(json_object_get(kinds, "llama3"), "tokenizer");
        struct tokenizer *t;

        put(file, cases[i].path, cases[i].value);
        if (opened(&t, file) != -EINVAL || t || !e.misuse || !strstr(e.text, cases[i].says))
            fail_msg("%s = %s: %s", cases[i].path, cases[i].value, e.text);
        json_decref(kinds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { IN_TEMPDIR(test_kinds), IN_TEMPDIR(test_refusals) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
