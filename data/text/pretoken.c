/* pretoken.c: finds special tokens in a text, and passes the text between them to the normalizer
 * and the splitter.
 *
 * Text is divided from the outside in: special tokens of the first turn, those of the second,
 * pre-tokens. If more text is to follow, the text that may still become a special token waits,
 * together with white space before it if a token would take that along. A token waits, too, if the
 * text behind it matters (rstrip, single_word). */
#include "data/text/pretoken.h"

#include "data/base/grow.h"
#include "data/base/round.h"
#include "data/base/utf8.h"
#include "data/text/held.h"
#include "data/text/unicode.h"

#include <assert.h>

struct specials {
    struct pretoken_special *list; // no two with the same content; a copy borrows it
    size_t                   n, cap;
    unsigned char            begins[256]; // 1: a special token begins with this byte
    int                      one_begin;   // the byte, if all begin with the same, or -1
    int                      any_lstrip;
    int                      across; // one may lie across a place where a text is cut
    unsigned char            lstrips[256], rstrips[256]; // 1: one with lstrip begins with this
                                                         // byte, one with rstrip ends with it
    // if the text's beginning is cut already:
    size_t scan;    // text is searched up to here, counted from the cut
    int    in_word; // a letter, number or _ precedes
};

enum { TURNS = 2 };

struct pretoken {
    struct split      *split;
    int                is_inner; // the outer one owns `split`
    int                is_copy;  // the original owns the lists of `turns`
    struct specials    turns[TURNS];
    struct held        held; // for a text in pieces: uncut text
    struct normalizer *normalizer; // NULL: text is not normalized
    struct pretoken   *inner;      // otherwise: cuts normalized text
    struct origin     *origin;     // for a text that is traced, otherwise NULL
};

int pretoken_open(struct pretoken **out, const struct split_config *config, struct err *err)
{
    struct pretoken *p = *out = calloc(1, sizeof *p);

    if (!p)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    return split_open(&p->split, config, err);
}

void pretoken_close(struct pretoken *p)
{
    if (!p)
        return;
    for (struct specials *t = p->turns; t < p->turns + TURNS && !p->is_copy; t++) {
        for (size_t i = 0; i < t->n; i++)
            free((char *)(uintptr_t)t->list[i].content);
        free(t->list);
    }
    normalizer_close(p->normalizer);
    pretoken_close(p->inner);
    if (!p->is_inner)
        split_close(p->split);
    free(p->held.text);
    free(p);
}

/* Makes p->inner, which cuts text that is normalized already, by the same split. */
static int inner_open(struct pretoken *p, struct err *err)
{
    p->inner = calloc(1, sizeof *p->inner);
    if (!p->inner)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    p->inner->split = p->split;
    p->inner->is_inner = 1;
    return 0;
}

int pretoken_normalize(struct pretoken *p, const struct normalizer_step *steps, size_t n,
                       struct err *err)
{
    int rc = normalizer_open(&p->normalizer, steps, n, err);

    assert(!p->inner && p->turns[0].n == 0 && p->turns[1].n == 0);
    if (rc)
        return rc;
    return inner_open(p, err);
}

void pretoken_whole(struct pretoken *p) { split_whole(p->split); }

void pretoken_trace(struct pretoken *p, struct origin *o)
{
    p->origin = o;
    if (p->inner)
        p->inner->origin = o;
    if (o)
        o->mark = split_mark(p->split, &o->replaces);
}

/* ---- naming special tokens ---- */

/* The content of a token of the second turn, which is found in normalized text. */
struct naming { char *content; size_t n, cap; };

static int naming_add(void *arg, const char *text, size_t n, struct err *err)
{
    struct naming *a = arg;

    return grow_add(&a->content, &a->n, &a->cap, text, n, 1, "bytes of a token", err);
}

static int naming_make(struct pretoken *p, const char *text, size_t n, struct naming *a,
                       struct err *err)
{
    *a = (struct naming){ 0 };
    return normalizer_feed(p->normalizer, text, n, 1, &(struct text_to){ naming_add, a }, err);
}

int pretoken_normal(struct pretoken *p, const char *text, size_t n, char **out, uint32_t *n_out,
                    struct err *err)
{
    struct naming a = { 0 };
    int           rc = p->normalizer ? naming_make(p, text, n, &a, err) : 0;

    *out = NULL;
    *n_out = (uint32_t)a.n;
    if (!rc && p->normalizer && (a.n != n || memcmp(a.content, text, n))) {
        *out = a.n ? a.content : strdup(""); // nothing is left of it
        if (!*out)
            rc = err_set(err, -ENOMEM, "no memory for a special token");
    }
    if (*out != a.content)
        free(a.content);
    return rc;
}

static int inner_special(struct pretoken *p, const struct pretoken_special *s, struct err *err)
{
    struct naming           a;
    struct pretoken_special named = *s;
    int                     rc = naming_make(p, s->content, s->n, &a, err);

    named.content = a.content;
    named.n = a.n;
    named.second = 0;
    if (!rc && a.n) // a token of which nothing is left is never found
        rc = pretoken_special(p->inner, &named, err);
    free(a.content);
    return rc;
}

/* Whether a token may lie on both sides of a place between white space and other characters. */
static int lies_across(const struct pretoken_special *s)
{
    size_t white = 0;

    for (size_t i = 0; i < s->n; i++) {
        size_t n = unicode_spaces(s->content + i, s->n - i);

        white += n;
        i += n ? n - 1 : 0;
    }
    return white && (white < s->n || s->single_word);
}

static int special_append(struct specials *t, const struct pretoken_special *s, struct err *err)
{
    char *content = malloc(s->n);

    if (!content || grow(&t->list, &t->cap, t->n + 1, sizeof *t->list, "special tokens", err)) {
        free(content);
        return err_set(err, -ENOMEM, "no memory for a special token");
    }
    t->list[t->n] = *s;
    t->list[t->n++].content = memcpy(content, s->content, s->n);
    return 0;
}

int pretoken_special(struct pretoken *p, const struct pretoken_special *s, struct err *err)
{
    struct specials *t = &p->turns[s->second ? 1 : 0];
    unsigned char    first = (unsigned char)s->content[0];

    assert(s->n > 0 && s->id >= 0 && !p->is_copy);
    if (s->second && p->inner)
        return inner_special(p, s, err);
    int rc = special_append(t, s, err);
    if (rc)
        return rc;
    t->one_begin = t->n == 1 || t->one_begin == first ? first : -1;
    t->begins[first] = 1;
    t->any_lstrip |= s->lstrip;
    t->across |= lies_across(s);
    t->lstrips[first] |= s->lstrip != 0;
    t->rstrips[(unsigned char)s->content[s->n - 1]] |= s->rstrip != 0;
    return 0;
}

/* ---- another one of the same kind ---- */

static void specials_share(struct pretoken *to, const struct pretoken *p)
{
    to->is_copy = 1;
    memcpy(to->turns, p->turns, sizeof to->turns);
    for (struct specials *t = to->turns; t < to->turns + TURNS; t++)
        t->scan = 0, t->in_word = 0; // of the text under way
}

int pretoken_copy(struct pretoken **out, const struct pretoken *p, struct err *err)
{
    struct pretoken *c = *out = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    specials_share(c, p);
    int rc = split_copy(&c->split, p->split, err);
    if (!rc && p->inner) {
        rc = normalizer_copy(&c->normalizer, p->normalizer, err);
        rc = rc ? rc : inner_open(c, err);
        if (!rc)
            specials_share(c->inner, p->inner);
    }
    return rc;
}

/* ---- finding special tokens ---- */

/* Whether a token at `text` must not be found because plain bytes are there. */
static int is_barred(struct origin *o, const struct pretoken_special *s, const char *text)
{
    size_t at = o ? (size_t)(text - o->text) : 0;

    if (!o || !s->control || !origin_plain(o, at, at + s->n))
        return 0;
    o->spelled++;
    o->spelled_id = s->id;
    return 1;
}

/* Finds the next place in text[from..n) with a special token (*s), or with one that more text may
 * complete (*s NULL); n if there is none. */
static size_t special_find(const struct specials *p, struct origin *o, const char *text,
                           size_t from, size_t n, int final, const struct pretoken_special **s)
{
    *s = NULL;
    for (size_t i = from; p->n && i < n; i++) {
        int partial = 0;

        if (p->one_begin >= 0) {
            const char *c = memchr(text + i, p->one_begin, n - i);

            if (!c)
                break;
            i = (size_t)(c - text);
        } else if (!p->begins[(unsigned char)text[i]]) {
            continue;
        }
        for (size_t k = 0; k < p->n; k++) {
            const struct pretoken_special *c = &p->list[k];
            size_t                         m = size_min(c->n, n - i);

            if (memcmp(text + i, c->content, m))
                continue;
            if (m < c->n)
                partial = 1;
            else if ((!*s || c->n > (*s)->n) && !is_barred(o, c, text + i))
                *s = c;
        }
        if (partial && !final) { // a longer one may still come
            *s = NULL;
            return i;
        }
        if (*s)
            return i;
    }
    return n;
}

/* Whether p, with n bytes, begins with a letter, number or _. */
static int is_word(const char *p, size_t n)
{
    uint32_t cp;

    return n && utf8_at(p, n, &cp) > 0 && unicode_flags(cp) & UNICODE_WORD;
}

static int ends_word(const struct specials *t, const char *text, size_t at)
{
    size_t back = at ? utf8_last(text, at) : 0;

    return at ? is_word(text + at - back, back) : t->in_word;
}

/* A special token in a text: its place, with the white space that it takes along. */
struct found {
    const struct pretoken_special *s; // NULL: there is none before `from`, where to wait
    size_t                         from, to;
};

/* Where the white space at the end of text[0..n), or what may become such, begins. */
static size_t white_from(const char *text, size_t n)
{
    size_t whole = n - utf8_unfinished(text, n);

    return whole - unicode_spaces_behind(text, whole);
}

/* Finds the next special token in text[used..n), from t->scan on, which is at least `used`. */
static struct found found_next(struct specials *t, struct origin *o, const char *text,
                               size_t used, size_t n, int final)
{
    for (;;) {
        struct found f;
        size_t       at = f.from = special_find(t, o, text, t->scan, n, final, &f.s);

        f.to = at + (f.s ? f.s->n : 0);
        if (!f.s) {
            if (t->any_lstrip && !final)
                f.from = used + white_from(text + used, at - used);
            return f;
        }
        if (f.s->text) {
            t->scan = f.to;
            continue;
        }
        size_t next = f.to + (f.s->rstrip ? unicode_spaces(text + f.to, n - f.to) : 0);
        int    cut = !final && (f.s->rstrip || f.s->single_word) &&
                  (next == n || utf8_length(text + next, n - next) == 0);
        if (cut)
            f.s = NULL; // the text behind it matters
        if (f.s && f.s->single_word &&
            (ends_word(t, text, at) || is_word(text + f.to, n - f.to))) {
            t->scan = f.to;
            continue;
        }
        if (!f.s ? t->any_lstrip : f.s->lstrip)
            f.from = used + white_from(text + used, at - used);
        f.to = next;
        return f;
    }
}

/* ---- cutting ---- */

/* Normalizes text as far as possible and passes it in. Text that must wait is held. */
struct inward { struct pretoken *inner; const struct pretoken_to *to; };

static int inner_feed(void *arg, const char *text, size_t n, struct err *err)
{
    struct inward *i = arg;

    return pretoken_feed(i->inner, text, n, 0, i->to, err);
}

/* The same for a text that is traced. */
static int inner_trace(struct pretoken *p, const char *text, size_t n,
                       const struct pretoken_to *to, struct err *err)
{
    struct origin outer = *p->origin;
    struct traced given = { 0 }, x = { 0 };
    size_t        used, at = n ? (size_t)(text - outer.text) : 0;
    int           rc = grow(&given.span, &given.span_cap, n, sizeof *given.span, "bytes of text",
                            err);

    for (size_t i = 0; i < n && !rc; i++)
        given.span[i] = (struct token_span){ at + i, at + i + 1 };
    given.text = (char *)(uintptr_t)text;
    rc = rc ? rc : traced_add(&x, &given, 0, n, text, n, err);
    rc = rc ? rc : normalizer_trace(p->normalizer, &x, err);
    p->origin->text = x.text;
    p->origin->span = x.span;
    p->origin->n = x.n;
    p->origin->at = 0;
    rc = rc ? rc : pretoken_cut(p->inner, x.text, x.n, 1, to, &used, err);
    *p->origin = outer;
    free(given.span);
    traced_free(&x);
    return rc;
}

static int inner_cut(struct pretoken *p, const char *text, size_t n, int final,
                     const struct pretoken_to *to, struct err *err)
{
    struct inward i = { p->inner, to };

    if (p->origin)
        return inner_trace(p, text, n, to, err);
    int rc = normalizer_feed(p->normalizer, text, n, final, &(struct text_to){ inner_feed, &i },
                             err);

    return rc || !final ? rc : pretoken_feed(p->inner, NULL, 0, 1, to, err);
}

static int turn_cut(struct pretoken *p, int turn, const char *text, size_t n, int final,
                    const struct pretoken_to *to, size_t *used, struct err *err);

static int specials_cut(struct pretoken *p, int turn, const char *text, size_t n, int final,
                        const struct pretoken_to *to, size_t *used, struct err *err)
{
    while (*used < n) {
        struct found f = found_next(&p->turns[turn], p->origin, text, *used, n, final);
        size_t       part;
        int          open = !final && !f.s;
        int rc = turn_cut(p, turn + 1, text + *used, f.from - *used, !open, to, &part, err);

        *used += part;
        if (rc || open)
            return rc;
        if (f.s) {
            split_passed(p->split);
            if ((rc = to->fn(to->arg, text + f.from, f.to - f.from, f.s->id, err)))
                return rc;
            *used = p->turns[turn].scan = f.to;
        }
    }
    // also if all text was cut before its end was known
    return final ? turn_cut(p, turn + 1, NULL, 0, 1, to, &(size_t){ 0 }, err) : 0;
}

/* Cuts the text around the special tokens of turn `turn` and later turns. */
static int turn_cut(struct pretoken *p, int turn, const char *text, size_t n, int final,
                    const struct pretoken_to *to, size_t *used, struct err *err)
{
    if (turn == 1 && p->inner) {
        *used = n;
        return inner_cut(p, text, n, final, to, err);
    }
    if (turn == TURNS)
        return split_cut(p->split, text, n, !final, to, used, err);
    struct specials *t = &p->turns[turn];

    *used = 0;
    int rc = specials_cut(p, turn, text, n, final, to, used, err);
    if (*used)
        t->in_word = ends_word(t, text, *used);
    t->scan = t->scan > *used ? t->scan - *used : 0;
    if (rc || final)
        t->scan = 0, t->in_word = 0; // of the text under way
    return rc;
}

int pretoken_cut(struct pretoken *p, const char *text, size_t n, int final,
                 const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = turn_cut(p, 0, text, n, final, to, used, err);

    if (rc && p->inner) {
        normalizer_reset(p->normalizer);
        held_reset(&p->inner->held);
    }
    if ((rc || final) && !p->is_inner)
        split_reset(p->split);
    return rc;
}

/* ---- where a text may be cut ---- */

/* Which cuts the kinds of splitter and normalizer allow: split_cuts. */
static unsigned kind_cuts(const struct pretoken *p)
{
    unsigned             cuts = split_cuts(p->split);
    enum normalizer_cuts normal = p->normalizer ? normalizer_cuts(p->normalizer)
                                                : NORMALIZER_CUTS_ANY;

    if (normal == NORMALIZER_CUTS_NONE ||
        (normal == NORMALIZER_CUTS_WORDS && !(cuts & SPLIT_CUTS_WORDS)))
        return 0;
    for (const struct pretoken *in = p; in; in = in->inner)
        for (int turn = 0; turn < TURNS; turn++)
            cuts = in->turns[turn].across ? 0 : cuts;
    return cuts;
}

static int strips(const struct specials *t)
{
    return memchr(t->lstrips, 1, sizeof t->lstrips) || memchr(t->rstrips, 1, sizeof t->rstrips);
}

/* Whether NFC and NFD leave text[i], i + 1 < n, as it is: ASCII without a mark behind it. */
static int stays(const char *text, size_t i)
{
    return !((text[i] | text[i + 1]) & 0x80);
}

static unsigned char lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

/* Whether no special token takes the white space text[i] at a cut along: one that begins with the
 * byte behind it, or ends with the byte before it. A token that is found in normalized text may be
 * written otherwise in this one. */
static int is_left_alone(const struct pretoken *p, const char *text, size_t n, size_t i)
{
    unsigned char before = (unsigned char)text[i - 1], behind = (unsigned char)text[i + 1];
    int           plain = i + 2 < n && stays(text, i - 1) && stays(text, i + 1);

    for (const struct pretoken *in = p; in; in = in->inner)
        for (int turn = 0; turn < TURNS; turn++) {
            const struct specials *t = &in->turns[turn];

            if (t->rstrips[before] || t->lstrips[behind])
                return 0;
            if (in != p && strips(t) &&
                (!plain || t->rstrips[lower(before)] || t->lstrips[lower(behind)]))
                return 0;
        }
    return 1;
}

size_t pretoken_place(const struct pretoken *p, const char *text, size_t n, size_t from)
{
    unsigned cuts = kind_cuts(p);
    uint32_t cp;

    assert(from > 0);
    for (size_t i = from; cuts && i + 1 < n; i++) {
        int line = text[i] == '\n';

        if ((text[i] != ' ' && !line) || !(cuts & (line ? SPLIT_CUTS_LINE : SPLIT_CUTS_SPACE)))
            continue;
        if (utf8_at(text + i + 1, n - i - 1, &cp) <= 0 || unicode_flags(cp) & UNICODE_SPACE ||
            (line && cp == '/') || unicode_spaces_behind(text, i) ||
            !is_left_alone(p, text, n, i))
            continue;
        return i + (size_t)line;
    }
    return 0;
}

/* ---- a text in pieces ---- */

struct feeding { struct pretoken *p; const struct pretoken_to *to; };

static int take(void *ctx, const char *text, size_t n, int final, size_t *used, struct err *err)
{
    const struct feeding *f = ctx;

    return pretoken_cut(f->p, text, n, final, f->to, used, err);
}

int pretoken_feed(struct pretoken *p, const char *text, size_t n, int last,
                  const struct pretoken_to *to, struct err *err)
{
    return held_feed(&p->held, text, n, last, take, &(struct feeding){ p, to }, err);
}
