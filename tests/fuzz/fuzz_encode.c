/* fuzz_encode.c: any bytes through small tokenizers with added tokens of both turns, whole, in
 * pieces and with the bytes of each id: the ids are the same, their bytes are the text where the
 * tokenizer is byte-level, and what they decode to is UTF-8. Control tokens overlap no plain bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "data/base/utf8.h"
#include "data/text/tokenizer.h"

#include "tests/fuzz/kinds.h"

#include <string.h>
#include <sys/stat.h>

enum { KINDS = 4 };
static struct tokenizer *plain, *added, *kinds[KINDS];

static const char added_json[] = "{\"added_tokens_decoder\": {\"268\": {\"content\": "
                                 "\"<|endoftext|>\", \"special\": true}, \"269\": {\"content\": "
                                 "\"<|end\", \"special\": true}, \"270\": {\"content\": \"the "
                                 "the\", \"special\": false}, \"271\": {\"content\": "
                                 "\"<|endof<|\", \"special\": true, \"normalized\": true}, "
                                 "\"272\": {\"content\": \"\xC3\xA9\xC3\xA9\"}}}";

static void start(void)
{
    static const uint32_t merges[][2] = { { 83, 71 },   { 256, 68 },  { 220, 257 }, { 220, 64 },
                                          { 128, 102 }, { 258, 258 }, { 15, 15 },   { 262, 262 },
                                          { 263, 263 }, { 198, 198 }, { 220, 220 }, { 266, 266 } };
    struct err            err;

    FUZZ_CHECK(!tokenizer_from_merges(&plain, merges, sizeof merges / sizeof *merges, &err));
    FUZZ_CHECK(tokenizer_vocab(plain) == 269 && !tokenizer_save(plain, fuzz_path("tok"), &err));
    fuzz_remove("tok/tokenizer.json");
    fuzz_put("tok/tokenizer_config.json", added_json, sizeof added_json - 1);
    if (tokenizer_open(&added, fuzz_path("tok"), &err))
        fuzz_fail(__FILE__, __LINE__, err.text);
    fuzz_remove("tok");
    FUZZ_CHECK(!mkdir(fuzz_path("tok"), 0700));
    for (size_t k = 0; k < KINDS; k++) {
        fuzz_put("tok/tokenizer.json", fuzz_kinds[k], strlen(fuzz_kinds[k]));
        if (tokenizer_open(&kinds[k], fuzz_path("tok"), &err))
            fuzz_fail(__FILE__, __LINE__, err.text);
    }
}

static void pieces(struct tokenizer *t, const char *text, size_t n, size_t step,
                   struct token_buf *out)
{
    struct err err;

    for (size_t at = 0; at < n; at += step)
        FUZZ_CHECK(!tokenizer_feed(t, text + at, n - at < step ? n - at : step, 0, out, &err));
    FUZZ_CHECK(!tokenizer_feed(t, NULL, 0, 1, out, &err));
}

static void compare(struct tokenizer *t, const struct token_buf *ids, const char *text, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < ids->n; i++) {
        size_t      len = 0;
        const char *bytes = tokenizer_bytes(t, ids->ids[i], &len);

        FUZZ_CHECK(bytes && len <= n - at && !memcmp(bytes, text + at, len));
        at += len;
    }
    FUZZ_CHECK(at == n);
}

/* The bytes of each id, without plain bytes and with two ranges of them. */
static void spans(struct tokenizer *t, const char *text, size_t n, size_t step,
                  const struct token_buf *want)
{
    struct token_span  ranges[2] = { { n / 5, n / 3 }, { n / 2, n - n / 8 } };
    struct token_buf   ids = { 0 };
    struct token_spans at = { 0 };
    struct err         err;

    for (size_t k = 0; k < 3; k += 1 + step % 2) {
        struct token_source source = { text, n, ranges, k };

        ids.n = at.n = 0;
        FUZZ_CHECK(!tokenizer_encode_spans(t, &source, &ids, &at, &err) && ids.n == at.n);
        FUZZ_CHECK(k || (ids.n == want->n &&
                         (!ids.n || !memcmp(ids.ids, want->ids, ids.n * sizeof *ids.ids))));
        for (size_t i = 0; i < ids.n; i++) {
            struct token_span s = at.list[i];

            FUZZ_CHECK(s.from <= s.to && s.to <= n);
            // without the white space that a token takes along
            while (s.from < s.to && (text[s.from] <= ' ' || text[s.from] & 0x80))
                s.from++;
            while (s.to > s.from && (text[s.to - 1] <= ' ' || text[s.to - 1] & 0x80))
                s.to--;
            for (size_t p = 0; p < k && tokenizer_is_control(t, ids.ids[i]); p++)
                FUZZ_CHECK(s.from == s.to || ranges[p].from == ranges[p].to ||
                           s.to <= ranges[p].from || s.from >= ranges[p].to);
        }
    }
    token_buf_free(&ids);
    token_spans_free(&at);
}

static void decode(const struct tokenizer *t, const struct token_buf *ids)
{
    struct token_text x = { 0 };
    struct err        err;
    int               why;

    for (size_t i = 0; i < ids->n; i++)
        FUZZ_CHECK(!tokenizer_text_add(t, &x, ids->ids[i], 0, &err));
    FUZZ_CHECK(!tokenizer_text_end(t, &x, &err) && utf8_valid(x.text, x.n, &why) == x.n);
    token_text_free(&x);
}

static int one(const uint8_t *in, size_t n)
{
    size_t           step = n ? 1 + in[0] % 64u * (in[0] % 64u) : 1;
    const char      *text = (const char *)in + (n > 0);
    struct token_buf whole = { 0 }, cut = { 0 };
    struct err       err;

    n -= n > 0;
    for (int k = 0; k < 2 + KINDS; k++) {
        struct tokenizer *t = k == 0 ? plain : k == 1 ? added : kinds[k - 2];

        FUZZ_CHECK(!tokenizer_encode(t, text, n, &whole, &err));
        if (k < 2)
            compare(t, &whole, text, n);
        decode(t, &whole);
        spans(t, text, n, step, &whole);
        pieces(t, text, n, step, &cut);
        FUZZ_CHECK(cut.n == whole.n &&
                   (!cut.n || !memcmp(cut.ids, whole.ids, cut.n * sizeof *cut.ids)));
        whole.n = cut.n = 0;
    }
    token_buf_free(&whole);
    token_buf_free(&cut);
    return 1;
}

static void seed_of(unsigned step, const char *text)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, step, 1);
    fuzz_add(&out, text, strlen(text));
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    seed_of(1, "the the other's 000000 of the<|endoftext|>they'll   go\n\n\n");
    seed_of(3, "<|endof<|endoftext|><|end|><|endof<|the the the\xC3\xA9\xC3\xA9 \xF0\x9F\x98\x80");
    seed_of(5, "The the <s>  the t \xE2\x96\x81the\xE2\x96\x81\xE2\x96\x81 CAF\xC3\x89 the t<s>t.");
    seed_of(63, "caf\xC3\xA9 \xE2\x80\x83\xE2\x82\xAC\xC2\xA0 12\xC2\xB2 \xFF\xFE\x80 'S'RE "
                "I'm\xE1\xA0\x8E");
}

const struct fuzz_target fuzz_encode = { "encode", start, one, seeds, 1 << 20, 512, 3000 };
