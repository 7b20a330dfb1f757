/* test_tokenizer.c: byte-level BPE against a naive one, any bytes, texts in pieces, Hugging Face's
 * files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/json/json.h"
#include "data/text/tokenizer.h"
#include "tests/odd_text.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct err e;

static void put(const char *name, const char *text)
{
    FILE *f = fopen(tempdir_at(name), "wb");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void move(const char *from, const char *to)
{
    char old[512];

    snprintf(old, sizeof old, "%s", tempdir_at(from));
    assert_int_equal(rename(old, tempdir_at(to)), 0);
}

static int set_up(void **state)
{
    odd_seed(1);
    return tempdir_set_up(state);
}

/* ---- BPE ---- */

/* A tokenizer of random merges among a few letters and spaces, so that words have many ways to
 * merge. */
#define N_MERGES 300
static uint32_t merges[N_MERGES][2];

static int is_new(const struct tokenizer *t, size_t have, uint32_t a, uint32_t b)
{
    char        text[512];
    size_t      n, m, k;
    const char *p = tokenizer_bytes(t, (int32_t)a, &n), *q = tokenizer_bytes(t, (int32_t)b, &m);

    if (n + m > 40)
        return 0;
    memcpy(text, p, n);
    memcpy(text + n, q, m);
    for (size_t i = 0; i < have; i++) {
        const char *r = tokenizer_bytes(t, (int32_t)i, &k);

        if (k == n + m && !memcmp(r, text, k))
            return 0;
    }
    return 1;
}

static struct tokenizer *random_tokenizer(void)
{
    static const uint32_t letters[] = { 64, 65, 66, 220, 198, 6, 82 }; // a b c space newline ' s
    struct tokenizer     *t = NULL;

    assert_int_equal(tokenizer_from_merges(&t, (const uint32_t(*)[2])merges, 0, &e), 0);
    for (size_t r = 0; r < N_MERGES; r++) {
        uint32_t pick[2];

        do
            for (int k = 0; k < 2; k++)
                pick[k] = r == 0 || odd_number(3) == 0 ? letters[odd_number(7)]
                                                       : 256 + odd_number((uint32_t)r);
        while (!is_new(t, 256 + r, pick[0], pick[1]));
        merges[r][0] = pick[0];
        merges[r][1] = pick[1];
        tokenizer_close(t);
        assert_int_equal(tokenizer_from_merges(&t, (const uint32_t(*)[2])merges, r + 1, &e), 0);
    }
    return t;
}

/* BPE as it is defined: the pair of lowest rank, the leftmost first. */
static size_t naive_bpe(const struct tokenizer *t, const char *bytes, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        for (int32_t id = 0; id < 256; id++) {
            size_t      k;
            const char *p = tokenizer_bytes(t, id, &k);

            if (p[0] == bytes[i])
                ids[i] = id;
        }
    for (;;) {
        size_t best = N_MERGES, where = 0;

        for (size_t i = 0; i + 1 < n; i++)
            for (size_t r = 0; r < best; r++)
                if ((uint32_t)ids[i] == merges[r][0] && (uint32_t)ids[i + 1] == merges[r][1]) {
                    best = r;
                    where = i;
                }
        if (best == N_MERGES)
            return n;
        ids[where] = (int32_t)(256 + best);
        memmove(ids + where + 1, ids + where + 2, (n - where - 2) * sizeof *ids);
        n--;
    }
}

static void test_bpe_is_the_naive_one(void **state)
{
    struct tokenizer *t = random_tokenizer();
    struct token_buf  got = { 0 };
    char              word[300];
    int32_t           want[300];

    (void)state;
    for (int round = 0; round < 600; round++) {
        size_t n = 1 + odd_number(round % 10 ? 12 : sizeof word), m;

        for (size_t i = 0; i < n; i++)
            word[i] = (char)('a' + odd_number(3));
        m = naive_bpe(t, word, n, want);
        for (int again = 0; again < 2; again++) { // the second time from the cache
            got.n = 0;
            assert_int_equal(tokenizer_encode(t, word, n, &got, &e), 0);
            assert_int_equal(got.n, m);
            assert_memory_equal(got.ids, want, m * sizeof *want);
        }
    }
    token_buf_free(&got);
    tokenizer_close(t);
    tokenizer_close(NULL);
}

static void test_any_bytes(void **state)
{
    struct tokenizer *t = random_tokenizer();
    struct token_buf  ids = { 0 };
    char              text[4000], back[4000];

    (void)state;
    assert_int_equal(tokenizer_vocab(t), 257 + N_MERGES);
    assert_int_equal(tokenizer_endoftext(t), 256 + N_MERGES);
    for (int round = 0; round < 50; round++) {
        size_t n = round % 2 ? odd_text(text, sizeof text) : sizeof text, k = 0, len;

        if (n == sizeof text)
            for (size_t i = 0; i < n; i++)
                text[i] = (char)odd_number(256);
        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, text, n, &ids, &e), 0);
        for (size_t i = 0; i < ids.n; i++) {
            const char *p = tokenizer_bytes(t, ids.ids[i], &len);

            assert_true(p && k + len <= n);
            memcpy(back + k, p, len);
            k += len;
        }
        assert_int_equal(k, n);
        assert_memory_equal(back, text, n);
    }
    assert_null(tokenizer_bytes(t, -1, &(size_t){ 0 }));
    assert_null(tokenizer_bytes(t, 257 + N_MERGES, &(size_t){ 0 }));
    token_buf_free(&ids);
    tokenizer_close(t);
}

static void check_stream(struct tokenizer *t, const char *text, size_t n)
{
    static const size_t pieces[] = { 1, 2, 7, 4096, 0 };
    struct token_buf    whole = { 0 }, ids = { 0 };

    assert_int_equal(tokenizer_encode(t, text, n, &whole, &e), 0);
    for (size_t k = 0; k < 5; k++) { // one tokenizer, used again after each finish
        ids.n = 0;
        for (size_t i = 0, m; i < n; i += m) {
            m = pieces[k] ? pieces[k] : 1 + odd_number(9000);
            m = m < n - i ? m : n - i;
            assert_int_equal(tokenizer_feed(t, text + i, m, 0, &ids, &e), 0);
        }
        assert_int_equal(tokenizer_feed(t, NULL, 0, 1, &ids, &e), 0);
        assert_int_equal(ids.n, whole.n);
        assert_memory_equal(ids.ids, whole.ids, whole.n * sizeof *ids.ids);
    }
    token_buf_free(&whole);
    token_buf_free(&ids);
}

static void test_streams(void **state)
{
    struct tokenizer *t = random_tokenizer();
    size_t            n = 60000;
    char             *text = malloc(n);

    (void)state;
    for (int round = 0; round < 4; round++)
        check_stream(t, text, odd_text(text, n));
    memset(text, ' ', n); // one pre-token longer than any buffer
    check_stream(t, text, n);
    text[n - 1] = 'a';
    check_stream(t, text, n);
    memset(text, 'b', n);
    check_stream(t, text, n);
    check_stream(t, text, 0);
    free(text);
    tokenizer_close(t);
}

/* ---- files ---- */

static void same_ids(struct tokenizer *a, struct tokenizer *b)
{
    struct token_buf x = { 0 }, y = { 0 };
    char             text[5000];

    assert_int_equal(tokenizer_vocab(a), tokenizer_vocab(b));
    assert_int_equal(tokenizer_endoftext(a), tokenizer_endoftext(b));
    for (int round = 0; round < 10; round++) {
        size_t n = odd_text(text, sizeof text);

        x.n = y.n = 0;
        for (size_t i = 0; i < 500; i++)
            text[i] = "abc s'\n"[odd_number(7)];
        assert_int_equal(tokenizer_encode(a, text, n, &x, &e), 0);
        assert_int_equal(tokenizer_encode(b, text, n, &y, &e), 0);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.ids, y.ids, x.n * sizeof *x.ids);
    }
    token_buf_free(&x);
    token_buf_free(&y);
}

static void test_save_and_open(void **state)
{
    struct tokenizer *t = random_tokenizer(), *u;

    (void)state;
    assert_int_equal(tokenizer_save(t, tempdir, &e), 0);
    assert_int_equal(tokenizer_open(&u, tempdir, &e), 0);
    same_ids(t, u);
    assert_int_equal(tokenizer_save(u, tempdir, &e), 0); // what was opened is saved as well
    tokenizer_close(u);
    unlink(tempdir_at("tokenizer.json"));
    assert_int_equal(tokenizer_open(&u, tempdir, &e), 0);
    same_ids(t, u);
    tokenizer_close(u);
    move("vocab.json", "encoder.json");
    move("merges.txt", "vocab.bpe");
    assert_int_equal(tokenizer_open(&u, tempdir, &e), 0);
    same_ids(t, u);
    tokenizer_close(u);
    tokenizer_close(t);
}

/* tokenizer.json as we write it, with one value set: path of keys, JSON text. */
static int open_changed(const char *section, const char *key, const char *value)
{
    struct tokenizer *t;
    json_t           *root, *v;
    char              text[256];
    int               rc;

    assert_int_equal(json_read(&root, tempdir_at("good.json"), 1 << 24, &e), 0);
    snprintf(text, sizeof text, "[%s]", value);
    assert_int_equal(json_parse(&v, text, strlen(text), "value", &e), 0);
    json_object_set(section ? json_object_get(root, section) : root, key, json_array_get(v, 0));
    json_decref(v);
    assert_int_equal(json_write(root, tempdir_at("tokenizer.json"), JSON_INDENT(2), &e), 0);
    json_decref(root);
    rc = tokenizer_open(&t, tempdir, &e);
    tokenizer_close(t);
    return rc;
}

static void test_refusals(void **state)
{
    static const char *const bad[][3] = {
        { NULL, "model", "{}" },
        { NULL, "model", "3" },
        { NULL, "normalizer", "{\"type\": \"NFKC\"}" },
        { NULL, "pre_tokenizer", "null" },
        { "pre_tokenizer", "type", "\"Metaspace\"" },
        { "pre_tokenizer", "add_prefix_space", "true" },
        { "pre_tokenizer", "use_regex", "false" },
        { "model", "type", "\"WordPiece\"" },
        { "model", "byte_fallback", "true" },
        { "model", "vocab", "{\"a\": 0}" },
        { "model", "vocab", "{\"a\": -1}" },
        { "model", "vocab", "{\"a\": 1e3}" },
        { "model", "vocab", "{\"a\": 9999999999}" },
        { "model", "vocab", "{\"a\": 0, \"b\": 0}" },
        { "model", "vocab", "[]" },
        { "model", "merges", "[\"ab\"]" },
        { "model", "merges", "[\"a zz\"]" },
        { "model", "merges", "[\"a \"]" },
        { "model", "merges", "[\" a\"]" },
        { "model", "merges", "[[\"a\"]]" },
        { "model", "merges", "[[\"a\", 3]]" },
        { "model", "merges", "[3]" },
        { NULL, "added_tokens", "[3]" },
        { NULL, "added_tokens", "[{\"id\": 3, \"content\": \"\"}]" },
        { NULL, "added_tokens", "[{\"id\": 3, \"content\": \"x\"}]" },
        { NULL, "added_tokens", "[{\"id\": -3, \"content\": \"x\"}]" },
        { NULL, "added_tokens", "[{\"id\": 9000, \"content\": \"x\", \"lstrip\": true}]" },
    };
    struct tokenizer *t;

    (void)state;
    assert_int_equal(tokenizer_open(&t, tempdir_at("absent"), &e), -EINVAL);
    t = random_tokenizer();
    assert_int_equal(tokenizer_save(t, tempdir, &e), 0);
    tokenizer_close(t);
    move("tokenizer.json", "good.json");
    assert_int_equal(open_changed(NULL, "padding", "{\"length\": 8}"), 0); // ignored
    assert_int_equal(open_changed(NULL, "truncation", "{\"max_length\": 8}"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (struct err){ 0 };
        assert_int_equal(open_changed(bad[i][0], bad[i][1], bad[i][2]), -EINVAL);
        assert_true(e.misuse && strlen(e.text) > 20);
    }
    unlink(tempdir_at("tokenizer.json"));
    put("merges.txt", "#version: 0.2\na  b\n");
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    put("merges.txt", "a\n");
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    unlink(tempdir_at("merges.txt"));
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -ENOENT);
}

/* The id of the one token that `text` is, or -1. */
static int32_t only_id(const char *text)
{
    struct token_buf  ids = { 0 };
    struct tokenizer *t;
    int32_t           id;

    assert_int_equal(tokenizer_open(&t, tempdir, &e), 0);
    assert_int_equal(tokenizer_encode(t, text, strlen(text), &ids, &e), 0);
    id = ids.n == 1 ? ids.ids[0] : -1;
    token_buf_free(&ids);
    tokenizer_close(t);
    return id;
}

/* Tokens that the files beside the vocabulary add: their ids follow it, by the files' order; which
 * file counts; what is refused. */
static void test_added_tokens(void **state)
{
    enum { N = 257 + N_MERGES };
    static const char *const refused[] = {
        "{\"[PAD]\": 9}",           "{\"[PAD]\": \"x\"}", "{\"\": 557}",
        "{\"<|endoftext|>\": 557}", "{\"[PAD]\": 558}",
    };
    struct tokenizer *t = random_tokenizer();

    (void)state;
    assert_int_equal(tokenizer_save(t, tempdir, &e), 0);
    tokenizer_close(t);
    assert_int_equal(only_id("[PAD]"), -1);
    put("added_tokens.json", "{\"two words\": 558, \"[PAD]\": 557}");
    for (int pair = 0; pair < 2; pair++) {
        assert_int_equal(only_id("[PAD]"), N);
        assert_int_equal(only_id("two words"), N + 1);
        assert_int_equal(only_id("<|endoftext|>"), N - 1);
        if (!pair)
            move("tokenizer.json", "kept.json");
    }
    move("kept.json", "tokenizer.json");
    put("special_tokens_map.json", "{\"pad_token\": {\"content\": \"<pad>\"}, "
                                   "\"additional_special_tokens\": [\"<x>\", \"[PAD]\"]}");
    assert_int_equal(only_id("<pad>"), N + 2);
    assert_int_equal(only_id("<x>"), N + 3);
    put("tokenizer_config.json",
        "{\"added_tokens_decoder\": {\"557\": {\"content\": \"<x>\"}}, \"sep_token\": \"<sep>\"}");
    assert_int_equal(only_id("<x>"), N); // the two older files do not count beside it
    assert_int_equal(only_id("<sep>"), N + 1);
    assert_int_equal(only_id("[PAD]"), -1);
    put("special_tokens_map.json", "{}");
    put("tokenizer_config.json", "{\"pad_token\": {\"content\": \"<m>\", \"lstrip\": true}}");
    assert_int_equal(only_id(" \t<m>"), N + 2);
    put("tokenizer_config.json", "{\"pad_token\": {\"content\": \"<m>\", \"rstrip\": true}, "
                                 "\"sep_token\": \" <n>\"}"); // which of them has the space?
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    assert_non_null(strstr(e.text, "rstrip"));
    put("tokenizer_config.json", "{\"add_prefix_space\": true}");
    assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
    unlink(tempdir_at("tokenizer_config.json"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put("added_tokens.json", refused[i]);
        assert_int_equal(tokenizer_open(&t, tempdir, &e), -EINVAL);
        assert_non_null(strstr(e.text, "added_tokens.json"));
    }
}

static void test_merges_refusals(void **state)
{
    static const uint32_t late[1][2] = { { 256, 0 } };
    uint32_t(*doubling)[2] = malloc(40 * sizeof *doubling);
    struct tokenizer *t;

    (void)state;
    assert_int_equal(tokenizer_from_merges(&t, late, 1, &e), -EINVAL);
    for (uint32_t r = 0; r < 40; r++)
        doubling[r][0] = doubling[r][1] = r ? 255 + r : 64;
    assert_int_equal(tokenizer_from_merges(&t, (const uint32_t(*)[2])doubling, 40, &e),
                     -EINVAL); // a token of 2^40 bytes
    assert_null(t);
    free(doubling);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tempdir_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_bpe_is_the_naive_one), T(test_any_bytes), T(test_streams), T(test_save_and_open),
        T(test_refusals), T(test_added_tokens), T(test_merges_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
