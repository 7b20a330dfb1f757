/* test_bpe_train.c: training finds the merges that counting everything anew each time finds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/file/file.h"
#include "data/text/bpe_train.h"
#include "tests/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char       path[64];
static struct err e;
static uint64_t   seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static int set_up(void **state)
{
    int fd;

    (void)state;
    snprintf(path, sizeof path, "/var/tmp/test_bpe_train.XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

/* The file at `path`, in pieces of odd sizes. */
static void feed(struct bpe_train *b)
{
    char  *text;
    size_t n;

    assert_int_equal(file_read_whole(&text, &n, path, 1 << 30, &e), 0);
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < 77777 ? n - at : 77777;
        assert_int_equal(bpe_train_feed(b, text + at, part, 0, &e), 0);
    }
    assert_int_equal(bpe_train_feed(b, NULL, 0, 1, &e), 0);
    free(text);
}

static int train(struct tokenizer **t, size_t vocab, int times)
{
    struct bpe_train *b;
    int               rc;

    assert_int_equal(bpe_train_open(&b, &e), 0);
    for (int i = 0; i < times; i++)
        feed(b);
    rc = bpe_train_finish(b, vocab, t, NULL, &e);
    bpe_train_close(b);
    return rc;
}

/* Words of letters a to c, one space before each but the first of a line. */
static size_t words_make(char *text, size_t n_words)
{
    size_t n = 0;

    for (size_t w = 0; w < n_words; w++) {
        if (w)
            text[n++] = ' ';
        for (uint32_t k = 0, len = 1 + rnd(7); k < len; k++)
            text[n++] = (char)('a' + rnd(3) * rnd(2));
    }
    return n;
}

/* Merge r by definition: over all words (separated by -1), the most frequent pair, ties to the
 * lower ids. */
static void naive_merge(int32_t *s, size_t *n, int32_t id, int32_t pair[2])
{
    static uint32_t counts[512][512];
    uint32_t        best = 0;
    size_t          m = 0;

    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i + 1 < *n; i++)
        if (s[i] >= 0 && s[i + 1] >= 0)
            counts[s[i]][s[i + 1]]++;
    for (int32_t a = 0; a < 512; a++)
        for (int32_t b = 0; b < 512; b++)
            if (counts[a][b] > best) {
                best = counts[a][b];
                pair[0] = a;
                pair[1] = b;
            }
    for (size_t i = 0; i < *n; m++) {
        int here = i + 1 < *n && s[i] == pair[0] && s[i + 1] == pair[1];

        s[m] = here ? id : s[i];
        i += here ? 2 : 1;
    }
    *n = m;
}

static void test_against_naive(void **state)
{
    enum { MERGES = 120 };
    char             *text = malloc(1 << 16);
    int32_t          *s = malloc((1 << 17) * sizeof *s);
    size_t            n = words_make(text, 3000), m = 0;
    struct tokenizer *t;

    (void)state;
    files_write(path, text, n);
    assert_int_equal(train(&t, 257 + MERGES, 1), 0);
    assert_int_equal(tokenizer_vocab(t), 257 + MERGES);
    assert_int_equal(tokenizer_endoftext(t), 256 + MERGES);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            s[m++] = -1;
        s[m++] = text[i] == ' ' ? 220 : 64 + text[i] - 'a'; // ids in GPT-2's order of bytes
    }
    for (int32_t r = 0; r < MERGES; r++) {
        int32_t     pair[2] = { 0, 0 };
        size_t      a, b, c;
        const char *p, *q, *got;

        naive_merge(s, &m, 256 + r, pair);
        p = tokenizer_bytes(t, pair[0], &a);
        q = tokenizer_bytes(t, pair[1], &b);
        got = tokenizer_bytes(t, 256 + r, &c);
        assert_int_equal(c, a + b);
        assert_memory_equal(got, p, a);
        assert_memory_equal(got + a, q, b);
    }
    tokenizer_close(t);
    free(text);
    free(s);
}

/* Trained on text, what it encodes is the text; the same text twice gives the same merges. */
static void test_deterministic(void **state)
{
    char             *text = malloc(1 << 16);
    size_t            n = words_make(text, 5000), k = 0, len, len2;
    struct tokenizer *t, *u;
    struct token_buf  ids = { 0 };

    (void)state;
    files_write(path, text, n);
    assert_int_equal(train(&t, 500, 1), 0);
    assert_int_equal(train(&u, 500, 2), 0);
    for (int32_t id = 0; id < 500; id++) {
        const char *p = tokenizer_bytes(t, id, &len), *q = tokenizer_bytes(u, id, &len2);

        assert_int_equal(len, len2);
        assert_memory_equal(p, q, len);
    }
    assert_int_equal(tokenizer_encode(t, text, n, &ids, &e), 0);
    assert_true(ids.n < n / 2);
    for (size_t i = 0; i < ids.n; i++) {
        const char *p = tokenizer_bytes(t, ids.ids[i], &len);

        assert_memory_equal(text + k, p, len);
        k += len;
    }
    assert_int_equal(k, n);
    token_buf_free(&ids);
    tokenizer_close(t);
    tokenizer_close(u);
    free(text);
}

static void test_limits(void **state)
{
    static const char text[] = "ab ab<|endoftext|>ab\xff";
    struct tokenizer *t;
    size_t            n;

    (void)state;
    files_write(path, text, sizeof text - 1);
    assert_int_equal(train(&t, 259, 1), 0); // a b, then space ab; nothing of <|endoftext|>
    assert_memory_equal(tokenizer_bytes(t, 256, &n), "ab", 2);
    assert_memory_equal(tokenizer_bytes(t, 257, &n), " ab", 3);
    tokenizer_close(t);
    assert_int_equal(train(&t, 260, 1), -EINVAL);
    assert_non_null(strstr(e.text, "259"));
    assert_null(t);
    assert_int_equal(train(&t, 256, 1), -EINVAL);
    assert_int_equal(train(&t, (size_t)1 << 40, 1), -EINVAL);
    files_write(path, "", 0);
    assert_int_equal(train(&t, 257, 1), 0); // bytes alone
    tokenizer_close(t);
    bpe_train_close(NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = { T(test_against_naive), T(test_deterministic),
                                        T(test_limits) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
