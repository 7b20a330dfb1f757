/* fuzz_tokenizer.c: the files of a tokenizer's folder. What opens encodes any text (a byte-level
 * one without loss), makes text of any ids, and is the same tokenizer once saved. */
#include "tests/fuzz/fuzz.h"

#include "data/json/json.h"
#include "data/base/utf8.h"
#include "data/text/tokenizer.h"
#include "tests/fuzz/kinds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const names[] = { "t/tokenizer.json",
                                     "t/vocab.json",
                                     "t/merges.txt",
                                     "t/encoder.json",
                                     "t/vocab.bpe",
                                     "t/tokenizer_config.json",
                                     "t/special_tokens_map.json",
                                     "t/added_tokens.json",
                                     "t/vocab.txt" };
enum {
    NAMES = sizeof names / sizeof *names,
    JSON = 1,
    PAIR = 6,
    OLD_PAIR = 24,
    CONFIG = 32,
    MAP = 64,
    ADDED = 128,
    VOCAB = 256
};

static const char text[] = "The the theatre, caf\xC3\xA9 e\xCC\x81 0000 'll I'm <|endoftext|>"
                           "<|pad|> \xF0\x9F\x98\x80\xFF\x80\n\n  x";

static void start(void)
{
    FUZZ_CHECK(!mkdir(fuzz_path("t"), 0700));
}

/* Of the bytes of no added token, which stand for themselves. */
static void encode(struct tokenizer *t, struct token_buf *ids)
{
    struct err err;

    FUZZ_CHECK(!tokenizer_encode(t, text, sizeof text - 1, ids, &err));
    for (size_t i = 0; i < ids->n; i++) {
        size_t len;

        FUZZ_CHECK(ids->ids[i] >= 0 && (size_t)ids->ids[i] < tokenizer_vocab(t) &&
                   tokenizer_bytes(t, ids->ids[i], &len));
    }
    FUZZ_CHECK(tokenizer_endoftext(t) < (int32_t)tokenizer_vocab(t));
}

/* Where there are no added tokens but <|endoftext|>, the ids' bytes are the text. */
static void compare(struct tokenizer *t, const struct token_buf *ids)
{
    size_t at = 0;

    for (size_t i = 0; i < ids->n; i++) {
        size_t      len;
        const char *bytes = tokenizer_bytes(t, ids->ids[i], &len);

        FUZZ_CHECK(len <= sizeof text - 1 - at && !memcmp(bytes, text + at, len));
        at += len;
    }
    FUZZ_CHECK(at == sizeof text - 1);
}

/* The text of the ids, and rows of one text and of two. */
static void decode(struct tokenizer *t, const struct token_buf *ids)
{
    struct token_text x = { 0 };
    struct token_buf  row = { 0 }, types = { 0 };
    struct err        err;
    int               why;

    for (size_t i = 0; i < ids->n; i++)
        FUZZ_CHECK(!tokenizer_text_add(t, &x, ids->ids[i], (int)(i & 1), &err) &&
                   utf8_valid(x.text, x.n, &why) == x.n);
    FUZZ_CHECK(!tokenizer_text_end(t, &x, &err) && utf8_valid(x.text, x.n, &why) == x.n);
    for (size_t most = 0; most < 40; most += 13) {
        struct token_row two = { text, most & 1 ? text + 9 : NULL, 20, 15, most };
        int              rc = tokenizer_encode_row(t, &two, &row, &types, &err);

        if (rc)
            fuzz_refused(rc, &err);
        else
            FUZZ_CHECK(row.n == types.n && (!most || row.n <= most));
        row.n = types.n = 0;
    }
    token_text_free(&x);
    token_buf_free(&row);
    token_buf_free(&types);
}

static void round_trip(struct tokenizer *t, const struct token_buf *ids)
{
    struct tokenizer *back;
    struct token_buf  again = { 0 };
    struct err        err;

    if (tokenizer_save(t, fuzz_path("copy"), &err) ||
        tokenizer_open(&back, fuzz_path("copy"), &err))
        fuzz_fail(__FILE__, __LINE__, err.text);
    encode(back, &again);
    FUZZ_CHECK(again.n == ids->n && !memcmp(again.ids, ids->ids, again.n * sizeof *again.ids));
    FUZZ_CHECK(tokenizer_vocab(back) == tokenizer_vocab(t));
    token_buf_free(&again);
    tokenizer_close(back);
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in    in = { bytes, n };
    struct tokenizer *t;
    struct token_buf  ids = { 0 };
    struct err        err = { 0 };
    unsigned          there = (unsigned)fuzz_number(&in, 2);
    int               rc;

    for (size_t i = 0; i < NAMES; i++) {
        fuzz_remove(names[i]);
        if (there >> i & 1) {
            struct fuzz_in part = fuzz_part(&in);

            fuzz_put(names[i], part.p, part.n);
        }
    }
    rc = tokenizer_open(&t, fuzz_path("t"), &err);
    if (rc)
        return fuzz_refused(rc, &err);
    encode(t, &ids);
    decode(t, &ids);
    if (!(there & (JSON | CONFIG | MAP | ADDED)) && there & (PAIR | OLD_PAIR))
        compare(t, &ids);
    round_trip(t, &ids);
    token_buf_free(&ids);
    tokenizer_close(t);
    return 1;
}

/* The files of a folder that the project wrote, and others of this text. */
static void seed_of(unsigned there, const char *config, const char *map, const char *more)
{
    const char *vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nt\n##he\n##at\r\n.\n";
    const char *const from[] = { "w/tokenizer.json", "w/vocab.json", "w/merges.txt", "w/vocab.json",
                                 "w/merges.txt" };
    const char *const texts[] = { config, map, more, vocab };
    struct fuzz_out   out = { 0 };

    fuzz_add_number(&out, there, 2);
    for (size_t i = 0; i < NAMES; i++) {
        uint8_t *p;
        size_t   n;

        if (!(there >> i & 1))
            continue;
        if (out.n > 2)
            fuzz_add_mark(&out);
        if (i < 5) {
            fuzz_take(from[i], &p, &n);
            fuzz_add(&out, p, n);
            free(p);
        } else {
            fuzz_add(&out, texts[i - 5], strlen(texts[i - 5]));
        }
    }
    fuzz_seed_out(&out);
}

/* The written tokenizer.json, with what the tokenizers of today's models ask for. */
static void today_seed(void)
{
    static const char said[] =
        "{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
        "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
        "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)"
        "|\\\\s+\"}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", "
        "\"use_regex\": false}]}, \"post_processor\": {\"type\": \"TemplateProcessing\", "
        "\"single\": [{\"SpecialToken\": {\"id\": \"b\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
        "\"pair\": [{\"SpecialToken\": {\"id\": \"b\"}}, {\"Sequence\": {\"id\": \"A\"}}, "
        "{\"Sequence\": {\"id\": \"B\"}}], \"special_tokens\": {\"b\": {\"ids\": [261]}}}}";
    json_t    *file, *today;
    struct err err;

    FUZZ_CHECK(!json_read(&file, fuzz_path("w/tokenizer.json"), TOKENIZER_FILE_MAX, &err) &&
               !json_parse(&today, said, sizeof said - 1, "the seed", &err));
    json_object_update(file, today);
    json_object_set_new(json_object_get(file, "model"), "ignore_merges", json_true());
    FUZZ_CHECK(!json_write(file, fuzz_path("w/tokenizer.json"), 0, &err));
    json_decref(today);
    json_decref(file);
    seed_of(JSON, NULL, NULL, NULL);
}

static void seeds(void)
{
    static const uint32_t merges[][2] = {
        { 83, 71 }, { 256, 68 }, { 220, 257 }, { 15, 15 }, { 220, 64 }
    };
    const char *config = "{\"bos_token\": \"<|endoftext|>\", \"add_prefix_space\": false, "
                         "\"added_tokens_decoder\": {\"261\": {\"content\": \"<|endoftext|>\", "
                         "\"special\": true, \"normalized\": false, \"lstrip\": false},\"262\": "
                         "{\"content\": \"<|pad|>\", \"special\": true}}}";
    const char *map = "{\"eos_token\": {\"content\": \"<|endoftext|>\"}, "
                      "\"additional_special_tokens\": [\"<|a|>\", \"<|b|>\"]}";
    struct tokenizer     *t;
    struct err            err;
    uint8_t              *merges_text;
    size_t                n;

    FUZZ_CHECK(!tokenizer_from_merges(&t, merges, sizeof merges / sizeof *merges, &err) &&
               !tokenizer_save(t, fuzz_path("w"), &err));
    tokenizer_close(t);
    fuzz_take("w/merges.txt", &merges_text, &n);
    fuzz_put("w/merges.txt", "h\0x e\n", 6); // a NUL, behind which nothing was looked at
    seed_of(PAIR, NULL, NULL, NULL);
    fuzz_put("w/merges.txt", merges_text, n);
    free(merges_text);
    seed_of(JSON, NULL, NULL, NULL);
    seed_of(PAIR, NULL, NULL, NULL);
    seed_of(OLD_PAIR | MAP, NULL, "{\"pad_token\": \"<|endoftext|>\"}", NULL);
    seed_of(PAIR | CONFIG, config, NULL, NULL);
    seed_of(JSON | CONFIG, config, NULL, NULL);
    seed_of(PAIR | MAP | ADDED, NULL, map, "{\"<|pad|>\": 262, \"<|c|>\": 263}");
    seed_of(VOCAB | CONFIG, "{\"do_lower_case\": false, \"tokenizer_class\": \"BertTokenizer\"}",
            NULL, NULL);
    for (const char *const *k = fuzz_kinds; *k; k++) {
        fuzz_put("w/tokenizer.json", *k, strlen(*k));
        seed_of(JSON, NULL, NULL, NULL);
    }
    FUZZ_CHECK(!tokenizer_from_merges(&t, merges, sizeof merges / sizeof *merges, &err) &&
               !tokenizer_save(t, fuzz_path("w"), &err));
    tokenizer_close(t);
    today_seed();
}

/* Ids may go up to 2^20, of 24 bytes each, in however short a file; the cache of words takes 4 MiB.
 */
const struct fuzz_target fuzz_tokenizer = { "tokenizer",       start, one, seeds,
                                            (size_t)160 << 20, 512,   700 };
