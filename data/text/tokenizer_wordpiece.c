/* tokenizer_wordpiece.c: encodes words with WordPiece (Wu et al. 2016), as BERT does. It takes the
 * longest token at the beginning of a word, then the longest token for the rest that continues a
 * word ("##"), and so on. A word that does not consist of tokens, or is too long, is unknown as a
 * whole. */
#include "data/text/tokenizer_parts.h"

#include "data/json/json.h"
#include "data/base/round.h"
#include "data/base/utf8.h"

static int wordpiece_read(struct tokenizer_settings *s, const json_t *model, const char *path,
                          struct err *err)
{
    static const char *const known[] = { "s type", "* vocab", "s unk_token",
                                         "s continuing_subword_prefix",
                                         "i max_input_chars_per_word", NULL };
    const json_t *unk = json_object_get(model, "unk_token"),
                 *prefix = json_object_get(model, "continuing_subword_prefix"),
                 *most = json_object_get(model, "max_input_chars_per_word");

    s->unk = json_is_string(unk) ? json_string_value(unk) : "[UNK]";
    s->prefix = json_is_string(prefix) ? json_string_value(prefix) : "##";
    s->max_chars = 100;
    if (most && (!json_is_integer(most) || json_integer_value(most) < 0 ||
                 json_integer_value(most) > (json_int_t)TOKENIZER_MAX_BYTES))
        return err_misuse(err, "%s: its model's max_input_chars_per_word is no number from 0 to %u",
                          path, TOKENIZER_MAX_BYTES);
    if (most)
        s->max_chars = (size_t)json_integer_value(most);
    return members_check(model, known, "model", path, err);
}

static int wordpiece_complete(struct tokenizer *t, const struct tokenizer_settings *s,
                              const char *what, struct err *err)
{
    int rc = words_make(t, err);

    if (rc)
        return rc;
    t->unk = words_find(t, s->unk, strlen(s->unk));
    if (t->unk < 0)
        return err_misuse(err, "%s: its unk_token %.60s is none of its tokens", what, s->unk);
    for (size_t i = 0; i < t->n; i++)
        t->longest = size_max(t->longest, t->entries[i].n);
    t->n_prefix = strlen(s->prefix);
    t->max_chars = s->max_chars;
    t->piece = malloc(t->n_prefix + t->longest + 1);
    if (!t->piece)
        return err_set(err, -ENOMEM, "no memory for a tokenizer of %zu ids", t->n);
    memcpy(t->piece, s->prefix, t->n_prefix);
    return 0;
}

/* Length of the longest token at the beginning of text[0..n), and its id. 0: there is none. */
static size_t longest_piece(struct tokenizer *t, const char *text, size_t n, int goes_on,
                            int32_t *id)
{
    const char *name = goes_on ? t->piece : text;
    size_t      before = goes_on ? t->n_prefix : 0, end = size_min(n, t->longest);

    while (end < n && end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--; // a character is not cut
    if (goes_on)
        memcpy(t->piece + t->n_prefix, text, end);
    while (end > 0) {
        *id = before + end <= t->longest ? words_find(t, name, before + end) : -1;
        if (*id >= 0)
            return end;
        while (--end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
            ;
    }
    return 0;
}

static int wordpiece_encode(struct tokenizer *t, const char *bytes, size_t n, struct token_buf *out,
                            struct token_span *covers, struct err *err)
{
    size_t first = out->n, chars = 0, at = 0, len = 1;
    int    bad = 0, why;

    (void)err;
    for (size_t i = 0; i < n && chars <= t->max_chars; i += len, chars++) {
        int k = utf8_length(bytes + i, n - i);

        len = k > 0 ? (size_t)k : 1;
    }
    bad = chars > t->max_chars || utf8_valid(bytes, n, &why) < n;
    for (; at < n && !bad; at += len) {
        int32_t id = -1;

        len = longest_piece(t, bytes + at, n - at, at > 0, &id);
        bad = len == 0;
        if (bad)
            break;
        if (covers)
            covers[out->n - first] = (struct token_span){ at, at + len };
        out->ids[out->n++] = id;
    }
    if (bad) {
        out->n = first;
        out->ids[out->n++] = t->unk;
        if (covers)
            covers[0] = (struct token_span){ 0, n };
    }
    return 0;
}

const struct model_ops model_wordpiece = {
    .type = "WordPiece",
    .known = "BertPreTokenizer",
    .splits = 1u << SPLIT_BERT,
    .decoders = 1u << DECODER_WORDPIECE,
    .read = wordpiece_read,
    .complete = wordpiece_complete,
    .encode = wordpiece_encode,
};
