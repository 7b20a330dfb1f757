/* tokenizer_decode.c: turns ids into text, one after the other, with the result of Hugging Face's
 * decode for all.
 *
 * A token's text depends only on what precedes it, except for bytes. A character's bytes wait for
 * each other. If the vocabulary has bytes as tokens (<0x41>), a run of them is text only if all of
 * it is UTF-8, so it waits for its end. Bytes that cannot be text become U+FFFD. */
#include "data/text/tokenizer_parts.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"

#include <ctype.h>

#define REPLACEMENT "\xEF\xBF\xBD"

void token_text_free(struct token_text *x)
{
    free(x->text);
    free(x->held);
    free(x->piece);
    *x = (struct token_text){ 0 };
}

/* ---- putting text and bytes ---- */

static int text_put(struct token_text *x, const char *text, size_t n, struct err *err)
{
    return grow_add(&x->text, &x->n, &x->cap, text, n, 1, "bytes of text", err);
}

/* The same, without what is stripped at the beginning. */
static int text_strip(struct token_text *x, const struct decoder *d, const char *text, size_t n,
                      struct err *err)
{
    size_t len = d->strip ? strlen(d->strip) : 0;

    while (n > 0 && !x->begun && x->stripped < d->strips && n >= len &&
           !memcmp(text, d->strip, len)) {
        text += len;
        n -= len;
        x->stripped++;
    }
    x->begun |= n > 0;
    return text_put(x, text, n, err);
}

static int held_add(struct token_text *x, const char *bytes, size_t n, struct err *err)
{
    return grow_add(&x->held, &x->n_held, &x->held_cap, bytes, n, 1, "bytes of text", err);
}

/* Length of the bytes at p[0..n) that are not UTF-8: as many as begin a character, at least one. */
static size_t broken(const unsigned char *p, size_t n)
{
    size_t k = n < 3 ? n : 3;

    while (k > 1 && utf8_length(p, k) != 0)
        k--;
    return k;
}

/* Turns waiting bytes into text, unless following bytes may matter. */
static int held_put(struct token_text *x, int last, struct err *err)
{
    size_t i = 0;
    int    rc = 0;

    while (i < x->n_held && !rc) {
        const unsigned char *p = (const unsigned char *)x->held + i;
        int                  why;
        size_t               valid = utf8_valid((const char *)p, x->n_held - i, &why);

        rc = text_put(x, (const char *)p, valid, err);
        i += valid;
        if (i == x->n_held || (why == 0 && !last) || rc)
            break;
        i += broken((const unsigned char *)x->held + i, x->n_held - i);
        rc = text_put(x, REPLACEMENT, 3, err);
    }
    x->n_held -= i;
    if (x->n_held)
        memmove(x->held, x->held + i, x->n_held);
    return rc;
}

/* Ends a run of bytes: it is text if all of it is UTF-8, otherwise each byte becomes U+FFFD. */
static int run_put(struct token_text *x, const struct decoder *d, struct err *err)
{
    int why, rc = 0;

    if (utf8_valid(x->held, x->n_held, &why) == x->n_held)
        rc = text_strip(x, d, x->held, x->n_held, err);
    else
        for (size_t i = 0; i < x->n_held && !rc; i++)
            rc = text_strip(x, d, REPLACEMENT, 3, err);
    x->n_held = 0;
    return rc;
}

/* ---- a token's text, in x->piece[0..n) ---- */

/* A token's name, and whether bytes are mapped in it. */
struct name { const char *bytes; size_t n; int mapped; };

struct piece { struct token_text *x; size_t n; };

static int piece_put(struct piece *p, const char *text, size_t n, struct err *err)
{
    return grow_add(&p->x->piece, &p->n, &p->x->piece_cap, text, n, 1, "bytes of a token", err);
}

/* Replaces every `from` in text[0..n) by `to`. */
static int piece_replace(struct piece *p, const char *text, size_t n, const char *from,
                         const char *to, struct err *err)
{
    size_t len = strlen(from);
    int    rc = 0;

    p->n = 0;
    for (size_t i = 0; i < n && !rc;) {
        const char *at = memmem(text + i, n - i, from, len);
        size_t      before = at ? (size_t)(at - text) - i : n - i;

        rc = piece_put(p, text + i, before, err);
        if (!rc && at)
            rc = piece_put(p, to, strlen(to), err);
        i += before + (at ? len : 0);
    }
    return rc;
}

/* Tidies in place: no replacement is longer than the text it replaces. */
static void piece_tidy(struct piece *p)
{
    static const char *const tidy[][2] = {
        { " .", "." },      { " ?", "?" },             { " !", "!" },     { " ,", "," },
        { " ' ", "'" },     { " n't", "n't" },         { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" },    { " 've", "'ve" },         { " 're", "'re" },
    };

    for (size_t k = 0; k < sizeof tidy / sizeof *tidy; k++) {
        size_t from = strlen(tidy[k][0]), to = strlen(tidy[k][1]), out = 0;
        char  *s = p->x->piece;

        for (size_t i = 0; i < p->n;) {
            int is = p->n - i >= from && !memcmp(s + i, tidy[k][0], from);

            memmove(s + out, is ? tidy[k][1] : s + i, is ? to : 1);
            out += is ? to : 1;
            i += is ? from : 1;
        }
        p->n = out;
    }
}

/* The bytes for which a name stands. If it has other characters than mapped bytes, its own. */
static int piece_unmap(struct piece *p, const struct name *e, struct err *err)
{
    struct byte_map m;
    struct token_text *x = p->x;
    int  rc = grow(&x->piece, &x->piece_cap, e->n, 1, "bytes of a token", err);
    long n = -1;

    if (!rc && !e->mapped) {
        byte_map_make(&m);
        n = name_decode(&m, e->bytes, e->n, x->piece);
    }
    p->n = n > 0 ? (size_t)n : 0;
    return rc || n >= 0 ? rc : piece_put(p, e->bytes, e->n, err);
}

/* ---- kinds of decoders ---- */

static int add_bytes(struct token_text *x, const struct name *e, struct err *err)
{
    struct piece p = { x, 0 };
    int          rc = piece_unmap(&p, e, err);

    rc = rc ? rc : held_add(x, x->piece, p.n, err);
    return rc ? rc : held_put(x, 0, err);
}

static int add_wordpiece(struct token_text *x, const struct decoder *d, const struct name *e,
                         struct err *err)
{
    struct piece p = { x, 0 };
    size_t       len = strlen(d->mark);
    int          goes_on = e->n >= len && !memcmp(e->bytes, d->mark, len), rc = 0;

    if (x->tokens && !goes_on)
        rc = piece_put(&p, " ", 1, err);
    len = x->tokens && goes_on ? len : 0;
    rc = rc ? rc : piece_put(&p, e->bytes + len, e->n - len, err);
    if (!rc && d->cleanup)
        piece_tidy(&p);
    return rc ? rc : text_put(x, x->piece, p.n, err);
}

/* The value of <0x41>, or -1 for other tokens. */
static int byte_of(const char *name, size_t n)
{
    if (n != 6 || memcmp(name, "<0x", 3) || name[5] != '>' || !isxdigit((unsigned char)name[3]) ||
        !isxdigit((unsigned char)name[4]))
        return -1;
    return (int)strtol((const char[]){ name[3], name[4], 0 }, NULL, 16);
}

static int add_steps(struct token_text *x, const struct decoder *d, const struct name *e,
                     struct err *err)
{
    struct piece p = { x, 0 };
    char        *copy = NULL;
    int          rc = piece_put(&p, e->bytes, e->n, err);

    for (size_t i = 0; i < d->n_replaces && !rc; i++) {
        size_t n = p.n;

        copy = malloc(n + 1);
        rc = copy ? 0 : err_set(err, -ENOMEM, "no memory for a token's text");
        if (!rc && n)
            memcpy(copy, x->piece, n);
        rc = rc ? rc : piece_replace(&p, copy, n, d->replaces[i].from, d->replaces[i].to, err);
        free(copy);
    }
    int byte = d->bytes && !rc ? byte_of(x->piece, p.n) : -1;
    if (byte >= 0)
        return held_add(x, &(char){ (char)byte }, 1, err);
    rc = rc ? rc : run_put(x, d, err);
    return rc ? rc : text_strip(x, d, x->piece, p.n, err);
}

int tokenizer_text_add(const struct tokenizer *t, struct token_text *x, int32_t id, int skip,
                       struct err *err)
{
    const struct decoder     *d = &t->decoder;
    const struct token_entry *e = id >= 0 && (size_t)id < t->n ? &t->entries[id] : NULL;
    struct piece              p = { x, 0 };
    int                       rc = 0;

    // Hugging Face recognises a special token by its name, which normalization may have changed
    if (!e || !e->bytes || (skip && e->added && e->special && !e->shown))
        return 0;
    const struct name name = { e->shown ? e->shown : e->bytes, e->shown ? e->n_shown : e->n,
                               !e->raw };
    if (d->kind == DECODER_BYTES) {
        rc = add_bytes(x, &name, err);
    } else if (d->kind == DECODER_WORDPIECE) {
        rc = add_wordpiece(x, d, &name, err);
    } else if (d->kind == DECODER_MARKS) {
        rc = piece_replace(&p, name.bytes, name.n, d->mark,
                           d->drop && !x->tokens ? "" : " ", err);
        rc = rc ? rc : text_put(x, x->piece, p.n, err);
    } else {
        rc = add_steps(x, d, &name, err);
    }
    x->tokens++;
    return rc;
}

int tokenizer_text_end(const struct tokenizer *t, struct token_text *x, struct err *err)
{
    return t->decoder.kind == DECODER_STEPS ? run_put(x, &t->decoder, err) : held_put(x, 1, err);
}

int tokenizer_text_behind(const struct tokenizer *t, struct token_text *x, const int32_t *ids,
                          size_t n, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++)
        rc = tokenizer_text_add(t, x, ids[i], 1, err);
    rc = rc ? rc : tokenizer_text_end(t, x, err);
    x->n = 0;
    return rc;
}
