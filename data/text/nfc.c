/* nfc.c: normalization forms C and D of a text in pieces.
 *
 * Below U+0300 (in form D, below U+00C0) nothing changes and nothing combines with what stands
 * before it, so such text is passed on as it is. Else the text is cut before a code point that
 * nothing before it can reach (a starter that is no pair's second), and what is before the cut is
 * decomposed, ordered and, in form C, composed as a whole. */
#include "data/text/nfc.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"
#include "data/text/nfc_tables.h"
#include "data/text/unicode.h"

#include <assert.h>

#define SLOTS     4096u // of the pairs, a power of two
#define TRY_BYTES ((size_t)4096)

/* Hangul: syllables are computed (section 3.12 of the Unicode Standard). */
enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7 };
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT };

#define ROWS(table) (sizeof(table) / sizeof *(table))

struct point { uint32_t cp, class, at; }; // at: its place before the marks are put in order

struct nfc {
    int           compose;
    uint16_t      slots[SLOTS]; // row + 1 of nfc_pairs, by its two; 0: free
    char         *held;         // what may yet combine
    size_t        n_held, held_cap, next_try;
    struct point *points; // of what is being normalized
    size_t        n, cap;
    char         *out;
    size_t        out_cap;
};

static size_t pair_slot(uint32_t a, uint32_t b)
{
    return (size_t)(((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u >> 40) & (SLOTS - 1);
}

int nfc_open(struct nfc **out, int compose, struct err *err)
{
    struct nfc *c = *out = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for a normalizer");
    c->compose = compose;
    for (size_t r = 0; r < ROWS(nfc_pairs); r++) {
        size_t i = pair_slot(nfc_pairs[r][1], nfc_pairs[r][2]);

        while (c->slots[i])
            i = (i + 1) & (SLOTS - 1);
        c->slots[i] = (uint16_t)(r + 1);
    }
    return 0;
}

void nfc_close(struct nfc *c)
{
    if (!c)
        return;
    free(c->held);
    free(c->points);
    free(c->out);
    free(c);
}

void nfc_reset(struct nfc *c) { c->n_held = c->next_try = 0; }

/* ---- one code point ---- */

static uint32_t class_of(uint32_t cp)
{
    const uint32_t *r = unicode_row(nfc_classes[0], ROWS(nfc_classes), 3, cp);

    return r && cp <= r[1] ? r[2] : 0;
}

/* What cp decomposes into in one step: 2, 1 or 0 code points. */
static int decompose(uint32_t cp, uint32_t to[2])
{
    if (cp - S_BASE < S_COUNT) {
        uint32_t s = cp - S_BASE, t = s % T_COUNT;

        to[0] = t ? cp - t : L_BASE + s / (V_COUNT * T_COUNT);
        to[1] = t ? T_BASE + t : V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
        return 2;
    }
    const uint32_t *two = unicode_row(nfc_pairs[0], ROWS(nfc_pairs), 3, cp);

    if (!two || *two != cp)
        two = unicode_row(nfc_excluded[0], ROWS(nfc_excluded), 3, cp);
    if (two && *two == cp) {
        to[0] = two[1];
        to[1] = two[2];
        return 2;
    }
    const uint32_t *one = unicode_row(nfc_singles[0], ROWS(nfc_singles), 2, cp);

    if (!one || *one != cp)
        return 0;
    to[0] = one[1];
    return 1;
}

/* What a and b compose to; 0: nothing. */
static uint32_t compose(const struct nfc *c, uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    for (size_t i = pair_slot(a, b); c->slots[i]; i = (i + 1) & (SLOTS - 1)) {
        const uint32_t *r = nfc_pairs[c->slots[i] - 1];

        if (r[1] == a && r[2] == b)
            return r[0];
    }
    return 0;
}

/* Whether nothing that stands before cp can combine with it. */
static int begins(uint32_t cp)
{
    uint32_t to[2];

    if (cp < 0x300)
        return 1;
    while (decompose(cp, to))
        cp = to[0];
    if (class_of(cp) || cp - V_BASE < V_COUNT || (cp > T_BASE && cp < T_BASE + T_COUNT))
        return 0;
    for (size_t r = 0; r < ROWS(nfc_pairs); r++)
        if (nfc_pairs[r][2] == cp)
            return 0;
    return 1;
}

/* ---- a run of code points ---- */

static int point_add(struct nfc *c, uint32_t cp, struct err *err)
{
    uint32_t to[2];
    int      n = decompose(cp, to);
    int      rc = n ? point_add(c, to[0], err) : 0; // at most three deep

    if (n)
        return rc || n == 1 ? rc : point_add(c, to[1], err);
    rc = grow(&c->points, &c->cap, c->n + 1, sizeof *c->points, "code points", err);
    if (!rc) {
        c->points[c->n] = (struct point){ cp, class_of(cp), (uint32_t)c->n };
        c->n++;
    }
    return rc;
}

static int by_class(const void *a, const void *b)
{
    const struct point *x = a, *y = b;

    return x->class != y->class ? (x->class > y->class) - (x->class < y->class)
                                : (x->at > y->at) - (x->at < y->at);
}

static void points_order(struct nfc *c)
{
    for (size_t i = 0, end; i < c->n; i = end) {
        for (end = i; end < c->n && c->points[end].class;)
            end++;
        if (end - i > 1)
            qsort(&c->points[i], end - i, sizeof *c->points, by_class);
        end += end == i;
    }
}

/* Each starter with what follows it and is not blocked (UAX 15, D115 to D117 of the Standard). */
static void points_compose(struct nfc *c)
{
    size_t   n = 0, starter = SIZE_MAX;
    uint32_t last = 0; // class of the one before that stayed behind the starter

    for (size_t i = 0; i < c->n; i++) {
        struct point p = c->points[i];
        int          next = starter + 1 == n; // directly behind the starter
        uint32_t     whole = starter != SIZE_MAX && (next || last < p.class)
                                 ? compose(c, c->points[starter].cp, p.cp)
                                 : 0;

        if (whole) {
            c->points[starter].cp = whole;
            continue;
        }
        if (p.class == 0)
            starter = n;
        last = p.class;
        c->points[n++] = p;
    }
    c->n = n;
}

static int points_write(struct nfc *c, const struct text_to *to, struct err *err)
{
    size_t n = 0;

    if (c->n == 0)
        return 0;
    points_order(c);
    if (c->compose)
        points_compose(c);
    int rc = grow(&c->out, &c->out_cap, 4 * c->n, 1, "bytes of text", err);

    for (size_t i = 0; !rc && i < c->n; i++)
        n += utf8_encode(c->out + n, c->points[i].cp);
    c->n = 0;
    return rc ? rc : to->fn(to->arg, c->out, n, err);
}

/* ---- text ---- */

/* Where text that does not change (or that is no UTF-8) ends which begins at i; short of its last
 * code point where more follows, which that may combine with. */
static size_t plain_end(const struct nfc *c, const char *text, size_t i, size_t n)
{
    unsigned char first = c->compose ? 0xCC : 0xC3; // lead byte of what may change
    size_t        end = i;

    while (end < n && (unsigned char)text[end] < first)
        end++;
    if (end == n)
        return n;
    while (end > i && ((unsigned char)text[end - 1] & 0xC0) == 0x80)
        end--;
    return end > i ? end - 1 : i;
}

/* Text that nothing before or behind it combines with. */
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
        int len = utf8_length((const unsigned char *)text + i, n - i);
        if (len > 0) {
            rc = point_add(c, utf8_decode((const unsigned char *)text + i, len), err);
            i += (size_t)len;
            continue;
        }
        rc = points_write(c, to, err);
        rc = rc ? rc : to->fn(to->arg, text + i++, 1, err);
    }
    return rc ? rc : points_write(c, to, err);
}

/* How much of what is held nothing that follows can change. */
static size_t held_end(const struct nfc *c)
{
    for (size_t i = c->n_held; i-- > 0;) {
        const unsigned char *p = (const unsigned char *)c->held + i;
        int                  len = utf8_length(p, c->n_held - i);

        if (len > 0 && begins(utf8_decode(p, len)))
            return i;
    }
    return 0;
}

static int held_write(struct nfc *c, size_t n, const struct text_to *to, struct err *err)
{
    int rc = text_write(c, c->held, n, to, err);

    c->n_held -= n;
    if (c->n_held)
        memmove(c->held, c->held + n, c->n_held);
    c->next_try = 2 * c->n_held; // so that a long run of marks in small pieces takes linear time
    return rc;
}

int nfc_feed(struct nfc *c, const char *text, size_t n, int last, const struct text_to *to,
             struct err *err)
{
    int rc = 0;

    for (size_t part; n > 0 && !rc; text += part, n -= part) {
        part = n < 16 * TRY_BYTES ? n : 16 * TRY_BYTES;
        rc = grow(&c->held, &c->held_cap, c->n_held + part, 1, "bytes of text", err);
        if (rc)
            break;
        memcpy(c->held + c->n_held, text, part);
        c->n_held += part;
        if (c->n_held >= TRY_BYTES && c->n_held >= c->next_try)
            rc = held_write(c, held_end(c), to, err);
    }
    rc = rc || !last ? rc : held_write(c, c->n_held, to, err);
    if (rc || last)
        nfc_reset(c);
    return rc;
}
