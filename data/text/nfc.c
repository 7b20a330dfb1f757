/* nfc.c: converts a text in pieces to normalization form C or D.
 *
 * Below U+0300 (in form D, below U+00C0) nothing changes and nothing combines with the text before,
 * so such text is passed on unchanged. Other text is cut before a code point that does not combine
 * with anything before it. The part before the cut is decomposed, ordered and, in form C, composed
 * as a whole. utf8proc decomposes and composes. The marks are ordered here, because utf8proc needs
 * quadratic time for a long run of marks.
 *
 * A code point that the forms do not know (UNICODE_NEWER) passes unchanged and ends the text before
 * it. For all others Unicode promises that no later version changes the forms. */
#include "data/text/nfc.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"
#include "data/text/held.h"
#include "data/text/unicode.h"

#include <assert.h>
#include <utf8proc.h>

/* A decomposed code point: its combining class, its place before ordering, and itself, in one
 * number. These numbers sort as the marks do. */
enum { CP_BITS = 21, AT_BITS = 32 };

struct nfc {
    int               compose;
    struct held       held;    // text that may still combine
    uint64_t         *points; // of the text being normalized
    size_t            n, cap;
    utf8proc_int32_t *ordered; // the same code points, without class and place
    size_t            ordered_cap;
    char             *out;
    size_t            out_cap;
};

int nfc_open(struct nfc **out, int compose, struct err *err)
{
    struct nfc *c = *out = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for a normalizer");
    c->compose = compose;
    return 0;
}

void nfc_close(struct nfc *c)
{
    if (!c)
        return;
    free(c->held.text);
    free(c->points);
    free(c->ordered);
    free(c->out);
    free(c);
}

void nfc_reset(struct nfc *c) { held_reset(&c->held); }

/* ---- a run of code points ---- */

/* Whether cp cannot combine with text before it. */
static int begins(uint32_t cp)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    int mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
    int jamo = cp >= 0x1160 && cp < 0x1200; // vowels and finals of Hangul

    return cp < 0x300 || unicode_flags(cp) & UNICODE_NEWER || !(mark || jamo);
}

static int point_add(struct nfc *c, uint32_t cp, struct err *err)
{
    utf8proc_int32_t to[4]; // the longest decomposition of a code point
    int              bound = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, to, 4, UTF8PROC_DECOMPOSE,
                                                 &bound);
    int rc = grow(&c->points, &c->cap, c->n + 4, sizeof *c->points, "code points", err);

    assert(n > 0 && n <= 4);
    for (utf8proc_ssize_t i = 0; i < n && !rc; i++, c->n++) {
        uint64_t class = (uint64_t)utf8proc_get_property(to[i])->combining_class;

        c->points[c->n] = class << (AT_BITS + CP_BITS) | c->n << CP_BITS | (uint32_t)to[i];
    }
    return rc;
}

static int has_class(uint64_t point) { return point >> (AT_BITS + CP_BITS) != 0; }

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void points_order(struct nfc *c)
{
    for (size_t i = 0, end; i < c->n; i = end) {
        for (end = i; end < c->n && has_class(c->points[end]);)
            end++;
        if (end - i > 1)
            qsort(&c->points[i], end - i, sizeof *c->points, by_number);
        end += end == i;
    }
}

static int points_write(struct nfc *c, const struct text_to *to, struct err *err)
{
    size_t           bytes = 0;
    utf8proc_ssize_t n = (utf8proc_ssize_t)c->n;

    if (n == 0)
        return 0;
    points_order(c);
    int rc = grow(&c->ordered, &c->ordered_cap, c->n, sizeof *c->ordered, "code points", err);

    rc = rc ? rc : grow(&c->out, &c->out_cap, 4 * c->n, 1, "bytes of text", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->n; i++)
        c->ordered[i] = (utf8proc_int32_t)(c->points[i] & ((1u << CP_BITS) - 1));
    if (c->compose)
        n = utf8proc_normalize_utf32(c->ordered, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        bytes += utf8_encode(c->out + bytes, (uint32_t)c->ordered[i]);
    c->n = 0;
    return to->fn(to->arg, c->out, bytes, err);
}

/* ---- text ---- */

/* Where unchanged text (or text that is not UTF-8) that begins at i ends. If other text follows,
 * its last code point is left out, because that may combine. */
static size_t plain_end(const struct nfc *c, const char *text, size_t i, size_t n)
{
    unsigned char first = c->compose ? 0xCC : 0xC3; // first byte of text that may change
    size_t        end = i;

    while (end < n && (unsigned char)text[end] < first)
        end++;
    if (end == n)
        return n;
    return end > i ? end - utf8_last(text + i, end - i) : i;
}

/* Writes text that does not combine with text before or behind it. */
static int text_write(struct nfc *c, const char *text, size_t n, const struct text_to *to,
                      struct err *err)
{
    int rc = 0;

    assert(n < UINT32_MAX / 4);
    c->n = 0;
    for (size_t i = 0; i < n && !rc;) {
        size_t end = plain_end(c, text, i, n);

        if (end > i) {
            rc = points_write(c, to, err);
            rc = rc ? rc : to->fn(to->arg, text + i, end - i, err);
            i = end;
            continue;
        }
        uint32_t cp;
        int      len = utf8_at(text + i, n - i, &cp);
        size_t   bytes = len > 0 ? (size_t)len : 1;

        if (len > 0 && !(unicode_flags(cp) & UNICODE_NEWER)) {
            rc = point_add(c, cp, err);
        } else {
            rc = points_write(c, to, err);
            rc = rc ? rc : to->fn(to->arg, text + i, bytes, err);
        }
        i += bytes;
    }
    return rc ? rc : points_write(c, to, err);
}

/* How much of text[0..n) cannot be changed by what follows. */
static size_t settled(const char *text, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        uint32_t cp;

        if (utf8_at(text + i, n - i, &cp) > 0 && begins(cp))
            return i;
    }
    return 0;
}

struct feeding { struct nfc *c; const struct text_to *to; };

static int take(void *ctx, const char *text, size_t n, int final, size_t *used, struct err *err)
{
    const struct feeding *f = ctx;

    *used = final ? n : settled(text, n);
    return text_write(f->c, text, *used, f->to, err);
}

int nfc_feed(struct nfc *c, const char *text, size_t n, int last, const struct text_to *to,
             struct err *err)
{
    return held_feed(&c->held, text, n, last, take, &(struct feeding){ c, to }, err);
}

size_t nfc_unit(const struct nfc *c, const char *text, size_t n)
{
    size_t   end = plain_end(c, text, 0, n);
    uint32_t cp;

    for (size_t i = 0; end == 0 && i < n;) {
        int len = utf8_at(text + i, n - i, &cp);

        if (i && len > 0 && begins(cp))
            return i;
        i += len > 0 ? (size_t)len : 1;
    }
    return end ? end : n;
}
