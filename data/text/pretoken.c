/* pretoken.c: the regular expressions of GPT-2 and its successors, and where a text may be cut.
 *
 * Text is divided from the outside in: special tokens of the first turn, of the second, runs of
 * valid UTF-8 (other bytes stand alone), pre-tokens. No expression has look-behind, so cutting
 * can go on from any end of a pre-token. When more text is to follow, a pre-token is final if
 * looking for it never touched the end of what is there. It did not if at least two bytes follow
 * it: greedy runs and the lookahead of \s+(?!\S) stop at a code point that is there (a run of
 * spaces that reaches the end is taken whole, so nothing follows it), and a contraction ('re) that
 * lacks a byte leaves "'" with one byte behind it. Newer expressions take white space as far as its
 * last line ends (\s*[\r\n]+), so there all white space must have ended before the text does.
 *
 * Hugging Face's \s is White_Space, while PCRE2's also has U+180E; its letters and numbers are
 * those of Unicode 16, while Debian's PCRE2 knows 14. Both are written out below, so that the ids
 * do not depend on the library's version. */
#include "data/text/pretoken.h"

#include "data/base/grow.h"
#include "data/base/round.h"
#include "data/base/utf8.h"
#include "data/text/nfc.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define TRY_BYTES ((size_t)4096) // what gathers before the first try to cut

#define SPACES \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"
#define LETTERS \
    "\\p{L}\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}" \
    "\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}" \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}" \
    "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}" \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}" \
    "\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}" \
    "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}" \
    "\\x{31350}-\\x{323af}"
#define NUMBERS \
    "\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}" \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}" \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"

/* Letters, numbers and white space stand in a class each, of which these are the insides. Alike in
 * all: a space and ASCII letters behind it are one pre-token, which ascii_word uses. */
#define WORDS_END "|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"
#define TODAYS(numbers) \
    "'(?:[sS\\x{17f}tTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])" \
    "|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS "]+|[" NUMBERS "]" numbers \
    "| ?[^" SPACES LETTERS NUMBERS "]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+" WORDS_END
#define TODAYS_SAID(numbers) \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" numbers \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* A row is one expression: what Hugging Face's files say, and how PCRE2 is asked the same. */
static const struct pretoken_pattern {
    const char *name, *said, *pattern;
    int         lines; // what begins as white space depends on all white space that follows
} patterns[] = {
    { "GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "'s|'t|'re|'ve|'m|'ll|'d"
      "| ?[" LETTERS "]+| ?[" NUMBERS "]+| ?[^" SPACES LETTERS NUMBERS "]+" WORDS_END, 0 },
    { "Llama 3", TODAYS_SAID("{1,3}"), TODAYS("{1,3}"), 1 },
    { "Qwen2", TODAYS_SAID(""), TODAYS(""), 1 },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

const struct pretoken_pattern *pretoken_pattern_find(const char *said)
{
    for (size_t i = 0; i < PATTERNS; i++)
        if (!strcmp(said, patterns[i].said))
            return &patterns[i];
    return NULL;
}

struct special { char *content; size_t n; int32_t id; };

struct specials {
    struct special *list;
    size_t          n, cap;
    unsigned char   begins[256]; // 1: a special token begins with this byte
    int             one_begin;   // the byte, if all begin with the same; else -1
};

enum { TURNS = 2 };

struct pretoken {
    const struct pretoken_pattern *pattern;

    pcre2_code       *code;
    pcre2_match_data *match;
    struct specials   turns[TURNS];
    char             *held; // of a text in pieces: what is not cut yet
    size_t            n_held, cap, next_try;
    struct nfc       *nfc;   // NULL: text is taken as it is
    struct pretoken  *inner; // of a text in pieces: what cuts the normalized text
};

int pretoken_open(struct pretoken **out, const struct pretoken_pattern *pattern, struct err *err)
{
    struct pretoken *p = *out = calloc(1, sizeof *p);
    PCRE2_SIZE       at;
    int              code;

    if (!p)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    p->pattern = pattern ? pattern : &patterns[0];
    p->code = pcre2_compile((PCRE2_SPTR)p->pattern->pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!p->code)
        return err_set(err, -ENOSYS, "PCRE2 does not compile %s's expression (error %d at %zu)",
                       p->pattern->name, code, (size_t)at);
    p->match = pcre2_match_data_create(1, NULL);
    // where there is no just-in-time compiler, pcre2_match interprets
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return p->match ? 0 : err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
}

void pretoken_close(struct pretoken *p)
{
    if (!p)
        return;
    for (struct specials *t = p->turns; t < p->turns + TURNS; t++) {
        for (size_t i = 0; i < t->n; i++)
            free(t->list[i].content);
        free(t->list);
    }
    nfc_close(p->nfc);
    pretoken_close(p->inner);
    pcre2_match_data_free(p->match);
    pcre2_code_free(p->code);
    free(p->held);
    free(p);
}

int pretoken_normalize(struct pretoken *p, struct err *err)
{
    int rc = nfc_open(&p->nfc, err);

    assert(!p->inner && p->turns[0].n == 0 && p->turns[1].n == 0);
    return rc ? rc : pretoken_open(&p->inner, p->pattern, err);
}

/* A token of the second turn, to be found in normalized text. */
struct naming { char *content; size_t n, cap; };

static int naming_add(void *arg, const char *text, size_t n, struct err *err)
{
    struct naming *a = arg;
    int            rc = grow(&a->content, &a->cap, a->n + n, 1, "bytes of a token", err);

    if (rc)
        return rc;
    memcpy(a->content + a->n, text, n);
    a->n += n;
    return 0;
}

static int inner_special(struct pretoken *p, const char *content, size_t n, int32_t id,
                         struct err *err)
{
    struct naming a = { 0 };
    int           rc = nfc_feed(p->nfc, content, n, 1, &(struct nfc_to){ naming_add, &a }, err);

    rc = rc ? rc : pretoken_special(p->inner, a.content, a.n, id, 0, err);
    free(a.content);
    return rc;
}

int pretoken_special(struct pretoken *p, const char *content, size_t n, int32_t id, int second,
                     struct err *err)
{
    struct specials *t = &p->turns[second ? 1 : 0];
    unsigned char    first = (unsigned char)content[0];

    assert(n > 0 && id >= 0);
    if (second && p->inner)
        return inner_special(p, content, n, id, err);
    char *copy = malloc(n);
    if (!copy || grow(&t->list, &t->cap, t->n + 1, sizeof *t->list, "special tokens", err)) {
        free(copy);
        return err_set(err, -ENOMEM, "no memory for a special token");
    }
    t->list[t->n] = (struct special){ memcpy(copy, content, n), n, id };
    t->one_begin = t->n == 0 || t->one_begin == first ? first : -1;
    t->begins[first] = 1;
    t->n++;
    return 0;
}

/* The next place in text[from..n) where a special token stands (*s), or may stand once more follows
 * (*s NULL); n if none. */
static size_t special_find(const struct specials *p, const char *text, size_t from, size_t n,
                           int final, const struct special **s)
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
            const struct special *c = &p->list[k];
            size_t                m = size_min(c->n, n - i);

            if (memcmp(text + i, c->content, m))
                continue;
            if (m < c->n)
                partial = 1;
            else if (!*s || c->n > (*s)->n)
                *s = c;
        }
        if (partial && !final) { // a longer one may yet come
            *s = NULL;
            return i;
        }
        if (*s)
            return i;
    }
    return n;
}

/* Length of a pre-token of ASCII letters at text[i..n), with the space before it; 0 where the
 * expression must be asked. Most of English is such words, and the expression takes several times
 * as long to find them. */
static size_t ascii_word(const char *text, size_t i, size_t n)
{
    size_t first = i + (text[i] == ' '), end = first;

    while (end < n && (unsigned char)((text[end] | 0x20) - 'a') < 26)
        end++;
    return end > first && end < n && (unsigned char)text[end] < 0x80 ? end - i : 0;
}

/* Length of the white space (the code points of SPACES) at the beginning of text[0..n), which is
 * valid UTF-8. */
static size_t spaces(const char *text, size_t n)
{
    size_t i = 0, len;

    for (; i < n; i += len) {
        const unsigned char *c = (const unsigned char *)text + i;

        if (*c < 0x80 ? !(*c == ' ' || (*c >= '\t' && *c <= '\r')) : *c < 0xC2 || *c > 0xE3)
            break;
        len = *c < 0x80 ? 1 : *c < 0xE0 ? 2 : 3;
        uint32_t cp = utf8_decode(c, (int)len);
        if (len > 1 && cp != 0x85 && cp != 0xA0 && cp != 0x1680 &&
            (cp < 0x2000 || cp > 0x200A) && cp != 0x2028 && cp != 0x2029 && cp != 0x202F &&
            cp != 0x205F && cp != 0x3000)
            break;
    }
    return i;
}

/* Whether more text behind text[0..n) can change the pre-token text[i..i+len). */
static int is_open(const struct pretoken *p, const char *text, size_t i, size_t len, size_t n)
{
    size_t white;

    if (i + len + 2 > n)
        return 1;
    white = p->pattern->lines ? spaces(text + i, n - i) : 0;
    return white > 0 && i + white + 2 > n;
}

/* Valid UTF-8. `open`: more may follow; then *used is short of n. */
static int run_cut(struct pretoken *p, const char *text, size_t n, int open,
                   const struct pretoken_to *to, size_t *used, struct err *err)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(p->match);
    int               rc = 0;

    *used = 0;
    for (size_t i = 0, len; i < n && !rc; *used = i += len) {
        len = ascii_word(text, i, n);
        if (len == 0) {
            rc = pcre2_match(p->code, (PCRE2_SPTR)text, n, i, PCRE2_NO_UTF_CHECK, p->match, NULL);
            if (rc < 0)
                return err_set(err, -EIO, "PCRE2 error %d at byte %zu of a text of %zu", rc, i, n);
            assert(range[0] == i && range[1] > i);
            len = range[1] - i;
        }
        if (open && is_open(p, text, i, len, n))
            return 0;
        rc = to->fn(to->arg, text + i, len, -1, err);
    }
    return rc;
}

/* Text without special tokens. */
static int segment_cut(struct pretoken *p, const char *text, size_t n, int open,
                       const struct pretoken_to *to, size_t *used, struct err *err)
{
    *used = 0;
    while (*used < n) {
        int    why;
        size_t part = 0, valid = utf8_valid(text + *used, n - *used, &why);
        int    run_open = open && why >= 0;
        int    rc = run_cut(p, text + *used, valid, run_open, to, &part, err);
        *used += part;
        if (rc || run_open)
            return rc;
        if (why <= 0 && (rc = to->fn(to->arg, text + (*used)++, 1, -1, err)))
            return rc;
    }
    return 0;
}

/* Text that is normalized, as far as it can be; what must wait is held. */
struct inward { struct pretoken *inner; const struct pretoken_to *to; };

static int inner_feed(void *arg, const char *text, size_t n, struct err *err)
{
    struct inward *i = arg;

    return pretoken_feed(i->inner, text, n, 0, i->to, err);
}

static int inner_cut(struct pretoken *p, const char *text, size_t n, int final,
                     const struct pretoken_to *to, struct err *err)
{
    struct inward i = { p->inner, to };
    int rc = nfc_feed(p->nfc, text, n, final, &(struct nfc_to){ inner_feed, &i }, err);

    return rc || !final ? rc : pretoken_feed(p->inner, NULL, 0, 1, to, err);
}

/* Text around the special tokens of turn `turn` and later ones. */
static int turn_cut(struct pretoken *p, int turn, const char *text, size_t n, int final,
                    const struct pretoken_to *to, size_t *used, struct err *err)
{
    if (turn == 1 && p->inner) {
        *used = n;
        return inner_cut(p, text, n, final, to, err);
    }
    if (turn == TURNS)
        return segment_cut(p, text, n, !final, to, used, err);
    *used = 0;
    while (*used < n) {
        const struct special *s;
        size_t                at = special_find(&p->turns[turn], text, *used, n, final, &s), part;
        int                   open = !final && !s;
        int rc = turn_cut(p, turn + 1, text + *used, at - *used, !open, to, &part, err);

        *used += part;
        if (rc || open)
            return rc;
        if (s && (rc = to->fn(to->arg, text + at, s->n, s->id, err)))
            return rc;
        *used += s ? s->n : 0;
    }
    return 0;
}

int pretoken_cut(struct pretoken *p, const char *text, size_t n, int final,
                 const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = turn_cut(p, 0, text, n, final, to, used, err);

    if (!rc && final && p->inner) // what is held of earlier pieces, where nothing followed
        rc = inner_cut(p, NULL, 0, 1, to, err);
    if (rc && p->inner) {
        nfc_reset(p->nfc);
        p->inner->n_held = p->inner->next_try = 0;
    }
    return rc;
}

/* ---- a text in pieces ---- */

static int held_cut(struct pretoken *p, int final, const struct pretoken_to *to, struct err *err)
{
    size_t used;
    int    rc = pretoken_cut(p, p->held, p->n_held, final, to, &used, err);

    if (rc)
        return rc;
    p->n_held -= used;
    if (p->n_held)
        memmove(p->held, p->held + used, p->n_held);
    p->next_try = 2 * p->n_held; // so that a long pre-token in small pieces takes linear time
    return 0;
}

int pretoken_feed(struct pretoken *p, const char *text, size_t n, int last,
                  const struct pretoken_to *to, struct err *err)
{
    int rc = 0;

    for (size_t part; n > 0 && !rc; text += part, n -= part) {
        part = size_min(n, 16 * TRY_BYTES);
        rc = grow(&p->held, &p->cap, p->n_held + part, 1, "bytes of text", err);
        if (rc)
            break;
        memcpy(p->held + p->n_held, text, part);
        p->n_held += part;
        if (p->n_held >= TRY_BYTES && p->n_held >= p->next_try)
            rc = held_cut(p, 0, to, err);
    }
    rc = rc || !last ? rc : held_cut(p, 1, to, err);
    if (rc || last)
        p->n_held = p->next_try = 0;
    return rc;
}
