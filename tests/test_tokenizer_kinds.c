/* test_tokenizer_kinds.c: tokenizers of today's kinds, against what Hugging Face's tokenizers gave
 * (tests/fixtures/tokenizers.json, made by make_tokenizers.py; or the file named as an argument):
 * ids, of whole texts and of pieces, rows of one text and of two with their types, texts of ids,
 * what is saved again; and what is asked for and refused by its name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/json/json.h"
#include "data/base/utf8.h"
#include "data/text/tokenizer.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err  e;
static const char *fixture_path = "tests/fixtures/tokenizers.json";

/* All kinds, read anew. */
static json_t *fixture(void)
{
    json_t *kinds;

    if (json_read(&kinds, fixture_path, (size_t)1 << 30, &e))
        fail_msg("%s", e.text);
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

/* Whether a text has a control token; the unknown token's id says nothing of that. */
static int any_control(const struct tokenizer *t, const char *text, const struct token_buf *ids)
{
    size_t i = 0;

    while (i < ids->n && !tokenizer_is_control(t, ids->ids[i]))
        i++;
    return i < ids->n || strcasestr(text, "[UNK]") || strstr(text, "<unk>");
}

/* The bytes of each id lie in the text in order. No bytes are plain, then all, then some: no
 * control token overlaps these, and the ids stay as they are if there was none. */
static void check_spans(struct tokenizer *t, const char *text, size_t n, const json_t *want)
{
    struct token_span   plain[3] = { { 0, n }, { n / 4, n / 3 }, { n / 2, n } };
    struct token_source sources[] = { { text, n, NULL, 0 }, { text, n, plain, 1 },
                                      { text, n, plain + 1, 2 } };
    struct token_buf    ids = { 0 };
    struct token_spans  spans = { 0 };

    for (size_t k = 0; k < 3; k++) {
        int before = k > 0 && any_control(t, text, &ids);

        ids.n = spans.n = 0;
        assert_int_equal(tokenizer_encode_spans(t, &sources[k], &ids, &spans, &e), 0);
        assert_int_equal(spans.n, ids.n);
        if (k == 0 || (k == 1 && !before))
            same_ids(&ids, want, text);
        for (size_t i = 0; i < ids.n; i++) {
            struct token_span s = spans.list[i];

            assert_true(s.from <= s.to && s.to <= n);
            assert_true(i == 0 || s.from >= spans.list[i - 1].from);
            for (; s.from < s.to && text[s.from] <= ' ';) // taken along
                s.from++;
            while (s.to > s.from && text[s.to - 1] <= ' ')
                s.to--;
            for (size_t p = 0; p < sources[k].n_plain; p++)
                assert_true(!tokenizer_is_control(t, ids.ids[i]) || s.to <= s.from ||
                            s.to <= sources[k].plain[p].from || s.from >= sources[k].plain[p].to);
        }
    }
    token_buf_free(&ids);
    token_spans_free(&spans);
}

/* The ids of all cases: of the text at once, and in pieces of every size up to 7. */
static void check_cases(struct tokenizer *t, const json_t *cases)
{
    struct token_buf ids = { 0 };

    assert_true(json_array_size(cases) > 50);
    for (size_t k = 0; k < json_array_size(cases); k++) {
        const json_t *c = json_array_get(cases, k), *want = json_object_get(c, "ids");
        const char   *text = json_str(c, "text");
        size_t        n = json_string_length(json_object_get(c, "text"));

        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, text, n, &ids, &e), 0);
        same_ids(&ids, want, text);
        check_spans(t, text, n, want);
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

static void same_pieces(const struct token_buf *got, const struct token_buf *want, size_t piece)
{
    size_t i = 0;

    while (i < got->n && i < want->n && got->ids[i] == want->ids[i])
        i++;
    if (i != got->n || i != want->n)
        fail_msg("pieces of %zu: id %zu of %zu (expected %zu) differs", piece, i, got->n, want->n);
}

/* One long text of all cases, so that pieces are cut while more follows. */
static void check_long(struct tokenizer *t, const json_t *cases)
{
    static char      text[1 << 17];
    struct token_buf whole = { 0 }, pieces = { 0 };
    size_t           n = 0;

    for (size_t k = 0; n < sizeof text / 4; k++) {
        const json_t *c = json_array_get(cases, k % json_array_size(cases));
        const json_t *s = json_object_get(c, "text");
        size_t        len = json_string_length(s);

        len = len < sizeof text - n ? len : sizeof text - n; // maybe within a character
        memcpy(text + n, json_string_value(s), len);
        n += len;
    }
    assert_int_equal(tokenizer_encode(t, text, n, &whole, &e), 0);
    for (size_t piece = 1; piece < 20000; piece = piece * 3 + 1) {
        pieces.n = 0;
        for (size_t at = 0; at < n; at += piece)
            assert_int_equal(tokenizer_feed(t, text + at, n - at < piece ? n - at : piece, 0,
                                            &pieces, &e), 0);
        assert_int_equal(tokenizer_feed(t, NULL, 0, 1, &pieces, &e), 0);
        same_pieces(&pieces, &whole, piece);
    }
    token_buf_free(&whole);
    token_buf_free(&pieces);
}

static void check_rows(struct tokenizer *t, const json_t *rows)
{
    struct token_buf ids = { 0 }, types = { 0 };

    assert_true(json_array_size(rows) >= 20);
    for (size_t k = 0; k < json_array_size(rows); k++) {
        const json_t    *r = json_array_get(rows, k), *a = json_object_get(r, "a"),
                     *b = json_object_get(r, "b");
        struct token_row row = { json_string_value(a), json_string_value(b), json_string_length(a),
                                 json_string_length(b), (size_t)json_num(r, "most") };

        ids.n = types.n = 0;
        assert_int_equal(tokenizer_encode_row(t, &row, &ids, &types, &e), 0);
        same_ids(&ids, json_object_get(r, "ids"), row.a);
        same_ids(&types, json_object_get(r, "types"), row.a);
    }
    token_buf_free(&ids);
    token_buf_free(&types);
}

/* The text of ids; what is final is always UTF-8, and is only added to. */
static void check_decode(const struct tokenizer *t, const json_t *d, const char *name, int skip)
{
    const json_t     *ids = json_object_get(d, "ids"), *want = json_object_get(d, name);
    struct token_text x = { 0 };

    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        int     why;

        assert_int_equal(tokenizer_text_add(t, &x, id, skip, &e), 0);
        assert_int_equal(utf8_valid(x.text, x.n, &why), x.n);
    }
    assert_int_equal(tokenizer_text_end(t, &x, &e), 0);
    if (x.n != json_string_length(want) || (x.n && memcmp(x.text, json_string_value(want), x.n)))
        fail_msg("%s: \"%.*s\" instead of \"%s\"", name, (int)x.n, x.text,
                 json_string_value(want));
    token_text_free(&x);
}

/* Text of ids, of which the first `from` came before and are left out; special tokens are, too. */
static void text_of(const struct tokenizer *t, const json_t *ids, size_t from, size_t to,
                    struct token_text *x)
{
    int32_t before[200];

    *x = (struct token_text){ 0 };
    for (size_t i = 0; i < to; i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));

        if (i < from)
            before[i] = id;
        if (i + 1 == from)
            assert_int_equal(tokenizer_text_behind(t, x, before, from, &e), 0);
        if (i >= from)
            assert_int_equal(tokenizer_text_add(t, x, id, 1, &e), 0);
    }
}

/* Wherever nothing waits between two ids, what stands behind goes on as if all had come at once. */
static void check_behind(const struct tokenizer *t, const json_t *d)
{
    const json_t     *ids = json_object_get(d, "ids"), *want = json_object_get(d, "skipped");
    struct token_text x, y;

    assert_true(json_array_size(ids) <= 200);
    for (size_t k = 0; k <= json_array_size(ids); k++) {
        text_of(t, ids, 0, k, &x);
        text_of(t, ids, k, json_array_size(ids), &y);
        assert_int_equal(tokenizer_text_end(t, &y, &e), 0);
        if (x.n_held == 0 &&
            (x.n + y.n != json_string_length(want) ||
             (x.n && memcmp(x.text, json_string_value(want), x.n)) ||
             (y.n && memcmp(y.text, json_string_value(want) + x.n, y.n))))
            fail_msg("behind %zu: \"%.*s\" and \"%.*s\" instead of \"%s\"", k, (int)x.n, x.text,
                     (int)y.n, y.text, json_string_value(want));
        token_text_free(&x);
        token_text_free(&y);
    }
}

static void check_decodes(const struct tokenizer *t, const json_t *decodes)
{
    assert_true(json_array_size(decodes) >= 20);
    for (size_t k = 0; k < json_array_size(decodes); k++) {
        check_decode(t, json_array_get(decodes, k), "text", 0);
        check_decode(t, json_array_get(decodes, k), "skipped", 1);
        check_behind(t, json_array_get(decodes, k));
    }
}

/* All that a folder may hold is gone. */
static void clear(void)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "config.json",
                                         "special_tokens_map.json", "vocab.json", "merges.txt" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(tempdir_at(names[i]));
}

/* A file of the tokenizer's folder that says this. */
static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(tempdir_at(name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* The tokenizer of a kind: of one file, or of a folder's. */
static int opened_kind(struct tokenizer **t, const json_t *kind)
{
    const json_t *files = json_object_get(kind, "files");
    const char   *name;
    json_t       *v;

    clear();
    if (!files)
        return opened(t, json_object_get(kind, "tokenizer"));
    json_object_foreach((json_t *)(uintptr_t)files, name, v) {
        if (json_is_string(v))
            put_file(name, json_string_value(v));
        else
            assert_int_equal(json_write(v, tempdir_at(name), 0, &e), 0);
    }
    return tokenizer_open(t, tempdir, &e);
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

        print_message("# %s\n", name);
        assert_int_equal(opened_kind(&t, kind), 0);
        check_cases(t, cases);
        check_long(t, cases);
        check_rows(t, json_object_get(kind, "rows"));
        check_decodes(t, json_object_get(kind, "decodes"));
        assert_int_equal(tokenizer_save(t, tempdir, &e), 0);
        assert_int_equal(tokenizer_open(&again, tempdir, &e), 0);
        assert_int_equal(tokenizer_vocab(again), tokenizer_vocab(t));
        assert_int_equal(tokenizer_endoftext(again), tokenizer_endoftext(t));
        check_cases(again, cases);
        check_rows(again, json_object_get(kind, "rows"));
        check_decodes(again, json_object_get(kind, "decodes"));
        tokenizer_close(again);
        tokenizer_close(t);
    }
    clear();
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

/* A step that makes ten characters of one, and a normalizer of four such steps. */
#define TENS "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, " \
             "\"content\": \"aaaaaaaaaa\"}"
#define TEN_THOUSAND "{\"type\": \"Sequence\", \"normalizers\": [" TENS ", " TENS ", " TENS ", " \
                     TENS "]}"

static void test_refusals(void **state)
{
    static const struct { const char *path, *value, *says; } cases[] = {
        { "normalizer", "{\"type\": \"NFKC\"}", "NFKC" },
        { "normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Strip\"}]}",
          "Strip" },
        { "normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a+\"}}", "\"a+\"" },
        { "normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}}", "\"ab\"" },
        { "normalizer", TEN_THOUSAND, "more than 1024 bytes" },
        { "normalizer", "{\"type\": \"BertNormalizer\", \"novelty\": 1}", "novelty" },
        { "normalizer", "{\"type\": \"Sequence\"}", "normalizers" },
        { "normalizer", "{\"type\": \"BertNormalizer\", \"lowercase\": 1}", "no true or false" },
        { "normalizer", "{\"type\": \"Prepend\", \"prepend\": 1}", "no text" },
        { "added_tokens/0/lstrip", "1", "lstrip" },
        { "model/ignore_merges", "\"yes\"", "ignore_merges" },
        { "pre_tokenizer", "null", "its decoder, ByteLevel, does not go with" },
        { "pre_tokenizer", "{\"type\": \"Whitespace\"}", "Whitespace" },
        { "pre_tokenizer", "{\"type\": \"BertPreTokenizer\"}", "does not go with its model" },
        { "pre_tokenizer", "{\"type\": \"Metaspace\"}", "Metaspace" },
        { "pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", "
                           "\"prepend_scheme\": \"often\"}", "often" },
        { "pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", "
                           "\"prepend_scheme\": \"first\", \"add_prefix_space\": false}", "first" },
        { "pre_tokenizer/pretokenizers/0", "{\"type\": \"Punctuation\"}", "Punctuation" },
        { "pre_tokenizer/pretokenizers", "[{\"type\": \"Sequence\", \"pretokenizers\": "
          "[{\"type\": \"CharDelimiterSplit\"}]}, {\"type\": \"ByteLevel\"}]",
          "CharDelimiterSplit" },
        { "pre_tokenizer/pretokenizers", "[{\"type\": \"Sequence\"}, {\"type\": "
          "\"ByteLevel\"}]", "without pretokenizers" },
        { "model/dropout", "0.1", "dropout" },
        { "pre_tokenizer/pretokenizers/0", "{\"type\": \"Digits\"}", "with its expression" },
        { "pre_tokenizer/pretokenizers/0/pattern", "{\"Regex\": \"\\\\w+\"}", "\"\\w+\"" },
        { "pre_tokenizer/pretokenizers/0/pattern", "{\"String\": \" \"}", "splits by" },
        { "pre_tokenizer/pretokenizers/0/behavior", "\"Removed\"", "Removed" },
        { "pre_tokenizer/pretokenizers/0/invert", "true", "inverted" },
        { "pre_tokenizer/pretokenizers/1/use_regex", "true", "without it behind a Split" },
        { "pre_tokenizer/pretokenizers/1/add_prefix_space", "true", "prefix space" },
        { "post_processor", "{\"type\": \"BertProcessing\"}", "BertProcessing" },
        { "post_processor", "{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 1], \"sep\": "
                            "[\"b\", 99999]}", "RobertaProcessing" },
        { "post_processor/processors/1/pair/0/SpecialToken/type_id", "-1", "type_id" },
        { "post_processor/processors/1/single/1/Sequence/type_id", "256", "type_id" },
        { "post_processor/processors/1/single", "[]", "around the text A" },
        { "post_processor/processors/1/single/1/Sequence/id", "\"B\"", "around the text A" },
        { "post_processor/processors/1/pair/3/Sequence", "{}", "texts A and B" },
        { "post_processor/processors/1/pair/0/SpecialToken/id", "\"<x>\"", "<x>" },
        { "post_processor/processors/1/single/0/SpecialToken/id", "\"<x>\"", "<x>" },
        { "post_processor/processors/1/special_tokens/<|begin_of_text|>/ids", "[100000]",
          "none of the tokenizer's" },
        { "decoder", "{\"type\": \"WordPiece\"}", "WordPiece" },
        { "decoder", "{\"type\": \"CTC\"}", "CTC" },
        { "decoder", "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, "
                     "{\"type\": \"ByteFallback\"}]}", "ByteFallback" },
        { "decoder", "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, "
                     "{\"type\": \"Strip\", \"content\": \" \", \"stop\": 1}]}", "Strip" },
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

/* BERT's tokenizer as its older files have it: a token a line, and what is said beside. */
static void test_vocab_txt(void **state)
{
    json_t       *kinds = fixture(), *kind = json_object_get(kinds, "bert"), *v,
           *file = json_object_get(kind, "tokenizer"), *config = json_object(),
           *decoder = json_object(),
           *vocab = json_object_get(json_object_get(file, "model"), "vocab");
    const char  **lines = calloc(json_object_size(vocab), sizeof *lines), *name;
    FILE         *f = fopen(tempdir_at("vocab.txt"), "w");
    struct tokenizer *t;
    size_t            i;

    (void)state;
    assert_true(lines && f);
    json_object_foreach(vocab, name, v)
        lines[json_integer_value(v)] = name;
    for (i = 0; i < json_object_size(vocab); i++)
        fprintf(f, "%s\n", lines[i]);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    assert_non_null(strstr(e.text, "no tokenizer_config.json"));
    json_array_foreach(json_object_get(file, "added_tokens"), i, v) {
        char id[24];

        snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(v, "id")));
        json_object_set(decoder, id, v);
    }
    json_object_set_new(config, "added_tokens_decoder", decoder);
    json_object_set_new(config, "sep_token", json_string("[SEP]"));
    assert_int_equal(json_write(config, tempdir_at("tokenizer_config.json"), 0, &e), 0);
    assert_int_equal(tokenizer_open(&t, tempdir, &e), 0);
    check_cases(t, json_object_get(kind, "cases"));
    check_rows(t, json_object_get(kind, "rows"));
    check_decodes(t, json_object_get(kind, "decodes"));
    tokenizer_close(t);
    json_decref(config);
    json_decref(kinds);
    free(lines);
}

/* What tokenizer_config.json says of the normalization, and the end of a text. */
static void test_config(void **state)
{
    static const struct { const char *kind, *config, *says; } cases[] = {
        { "bert", "{\"do_lower_case\": false}", "do_lower_case" },
        { "bert", "{\"tokenize_chinese_chars\": false}", "tokenize_chinese_chars" },
        { "bert", "{\"do_lower_case\": true, \"strip_accents\": null}", NULL },
        { "llama2", "{\"add_prefix_space\": false}", "add_prefix_space" },
        { "llama2", "{\"add_prefix_space\": true}", NULL },
        { "roberta", "{\"add_prefix_space\": true}", "add_prefix_space" },
        { "bert cased", "{\"tokenizer_class\": \"BertTokenizer\"}", "do_lower_case" },
        { "bert cased", "{\"tokenizer_class\": \"BertTokenizer\", "
                        "\"do_lower_case\": false}", NULL },
        { "bert cased", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", "
                        "\"do_lower_case\": true}", NULL },
        { "llama3", "{\"fix_mistral_regex\": 1}", "fix_mistral_regex\" must be true" },
        { "llama3", "{\"truncation_side\": \"up\"}", "truncation_side" },
        { "llama3", "{\"split_special_tokens\": 1}", "split_special_tokens" },
        { "roberta", "{\"add_prefix_space\": \"yes\"}", "add_prefix_space\" must be true" },
        { "bert", "{\"do_lower_case\": 1}", "do_lower_case\" must be true" },
        { "qwen2", "{\"eos_token\": {\"content\": \"<|im_end|>\"}}", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t           *kinds = fixture();
        struct tokenizer *t;
        size_t            n = 0;

        put_file("tokenizer_config.json", cases[i].config);
        int rc = opened(&t, json_object_get(json_object_get(kinds, cases[i].kind), "tokenizer"));
        assert_int_equal(rc, cases[i].says ? -EINVAL : 0);
        if (cases[i].says && !strstr(e.text, cases[i].says))
            fail_msg("%s: %s", cases[i].config, e.text);
        if (!strcmp(cases[i].kind, "qwen2")) {
            assert_string_equal(tokenizer_bytes(t, tokenizer_endoftext(t), &n) ? "a token" : "",
                                "a token");
            assert_int_equal(n, strlen("<|im_end|>"));
        }
        tokenizer_close(t);
        json_decref(kinds);
    }
    put_file("tokenizer_config.json", "{\"tokenizer_class\": \"T5Tokenizer\"}");
    assert_int_equal(remove(tempdir_at("tokenizer.json")), 0);
    put_file("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n");
    struct tokenizer *t;
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    assert_non_null(strstr(e.text, "T5Tokenizer"));
    put_file("tokenizer_config.json", "{}");
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    assert_non_null(strstr(e.text, "mask_token"));
}

/* fix_mistral_regex counts where transformers 5.24 follows it, and tokenizer.json is otherwise. */
static void test_mistral_regex(void **state)
{
    enum { LARGE = 100000 };
    static const struct { const char *kind, *flag, *model; size_t vocab; int refused; } cases[] = {
        { "llama3", "true", "{\"model_type\": \"mistral\"}", LARGE + 1, 1 },
        { "llama3", "true", "{\"model_type\": \"mistral\"}", LARGE, 0 },
        { "llama3", "false", "{\"model_type\": \"mistral\"}", LARGE + 1, 0 },
        { "tekken", "true", "{\"model_type\": \"mistral\"}", LARGE + 1, 0 },
        { "llama3", "true", "{\"model_type\": \"qwen2\"}", LARGE + 1, 0 },
        { "llama3", "true", "{\"transformers_version\": \"4.57.3\"}", LARGE + 1, 1 },
        { "llama3", "true", "{\"transformers_version\": \"5.0.0.dev0\"}", LARGE + 1, 1 },
        { "llama3", "true", "{\"transformers_version\": \"5.0.0\"}", LARGE + 1, 0 },
        { "llama3", "true", NULL, LARGE + 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *kinds = fixture(), *file = json_object_get(json_object_get(kinds, cases[i].kind),
                                                           "tokenizer"),
               *vocab = json_object_get(json_object_get(file, "model"), "vocab"), *v;
        struct tokenizer *t;
        const char       *name;
        size_t            k;
        json_int_t        most = 0;
        char              text[64];

        json_object_foreach(vocab, name, v)
            most = json_integer_value(v) > most ? json_integer_value(v) : most;
        json_array_foreach(json_object_get(file, "added_tokens"), k, v) {
            json_int_t id = json_integer_value(json_object_get(v, "id"));

            most = id > most ? id : most;
            json_object_set_new(vocab, json_str(v, "content"), json_integer(id));
        }
        while (++most < (json_int_t)cases[i].vocab) {
            snprintf(text, sizeof text, "more%lld", (long long)most);
            json_object_set_new(vocab, text, json_integer(most));
        }
        snprintf(text, sizeof text, "{\"fix_mistral_regex\": %s}", cases[i].flag);
        put_file("tokenizer_config.json", text);
        if (cases[i].model)
            put_file("config.json", cases[i].model);
        else
            assert_int_equal(remove(tempdir_at("config.json")), 0);
        int rc = opened(&t, file);
        if (rc != (cases[i].refused ? -EINVAL : 0))
            fail_msg("case %zu: %d, %s", i, rc, rc ? e.text : "opened");
        if (rc && !(strstr(e.text, "fix_mistral_regex") && strstr(e.text, "save_pretrained")))
            fail_msg("%s", e.text);
        tokenizer_close(t);
        json_decref(kinds);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        fixture_path = argv[1];

    const struct CMUnitTest tests[] = { IN_TEMPDIR(test_kinds), IN_TEMPDIR(test_refusals),
                                        IN_TEMPDIR(test_vocab_txt), IN_TEMPDIR(test_config),
                                        IN_TEMPDIR(test_mistral_regex) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
