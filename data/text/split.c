/* split.c: the ways to cut a segment.
 *
 * By a regular expression of GPT-2 and its successors: no expression has look-behind, so cutting
 * can go on from any end of a pre-token. When more text is to follow, a pre-token is final if
 * looking for it never touched the end of what is there. It did not if at least two bytes follow
 * it: greedy runs and the lookahead of \s+(?!\S) stop at a code point that is there (a run of
 * spaces that reaches the end is taken whole, so nothing follows it), and a contraction ('re) that
 * lacks a byte leaves "'" with one byte behind it. Newer expressions take white space as far as its
 * last line ends (\s*[\r\n]+), so there all white space must have ended before the text does.
 *
 * Hugging Face's \s is White_Space, while PCRE2's also has U+180E; its letters and numbers are
 * those of Unicode 16, while Debian's PCRE2 knows 14. Both are written out below, so that the ids
 * do not depend on the library's version.
 *
 * BERT's words end at white space, and each punctuation mark is one. Marks of words
 * (SentencePiece's U+2581 for a space) are where a word begins. */
#include "data/text/split.h"

#include "data/base/grow.h"
#include "data/base/utf8.h"
#include "data/text/unicode.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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
static const struct split_pattern {
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

const struct split_pattern *split_pattern_find(const char *said)
{
    for (size_t i = 0; i < PATTERNS; i++)
        if (!strcmp(said, patterns[i].said))
            return &patterns[i];
    return NULL;
}

struct split {
    struct split_config config;
    char               *mark; // of config
    size_t              n_mark;
    pcre2_code         *code;
    pcre2_match_data   *match;
    int                 begun; // some of the segment was cut
    int                 first; // nothing of the text stands before the segment
    char               *joined, *marked; // a segment's beginning with its prefix; a word with marks
    size_t              joined_cap, marked_cap;
};

static int pattern_open(struct split *s, struct err *err)
{
    PCRE2_SIZE at;
    int        code;

    if (!s->config.pattern)
        s->config.pattern = &patterns[0];
    s->code = pcre2_compile((PCRE2_SPTR)s->config.pattern->pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!s->code)
        return err_set(err, -ENOSYS, "PCRE2 does not compile %s's expression (error %d at %zu)",
                       s->config.pattern->name, code, (size_t)at);
    s->match = pcre2_match_data_create(1, NULL);
    // where there is no just-in-time compiler, pcre2_match interprets
    pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
    return s->match ? 0 : err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
}

int split_open(struct split **out, const struct split_config *config, struct err *err)
{
    static const struct split_config gpt2 = { .kind = SPLIT_PATTERN };
    struct split                    *s = *out = calloc(1, sizeof *s);

    if (!s)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    s->config = config ? *config : gpt2;
    s->first = 1;
    s->mark = strdup(s->config.mark ? s->config.mark : " ");
    if (!s->mark)
        return err_set(err, -ENOMEM, "no memory for the pre-tokeniser");
    s->config.mark = s->mark;
    s->n_mark = strlen(s->mark);
    return s->config.kind == SPLIT_PATTERN ? pattern_open(s, err) : 0;
}

void split_close(struct split *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_code_free(s->code);
    free(s->mark);
    free(s->joined);
    free(s->marked);
    free(s);
}

void split_whole(struct split *s) { s->config.at = SPLIT_AT_NONE; }

void split_passed(struct split *s) { s->first = 0; }

void split_reset(struct split *s)
{
    s->begun = 0;
    s->first = 1;
}

/* ---- by an expression ---- */

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

/* Whether more text behind text[0..n) can change the pre-token text[i..i+len). */
static int is_open(const struct split *s, const char *text, size_t i, size_t len, size_t n)
{
    size_t white;

    if (i + len + 2 > n)
        return 1;
    white = s->config.pattern->lines ? unicode_spaces(text + i, n - i) : 0;
    return white > 0 && i + white + 2 > n;
}

/* Valid UTF-8. `open`: more may follow; then *used is short of n. */
static int run_cut(struct split *s, const char *text, size_t n, int open,
                   const struct pretoken_to *to, size_t *used, struct err *err)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    int               rc = 0;

    *used = 0;
    for (size_t i = 0, len; i < n && !rc; *used = i += len) {
        len = ascii_word(text, i, n);
        if (len == 0) {
            rc = pcre2_match(s->code, (PCRE2_SPTR)text, n, i, PCRE2_NO_UTF_CHECK, s->match, NULL);
            if (rc < 0)
                return err_set(err, -EIO, "PCRE2 error %d at byte %zu of a text of %zu", rc, i, n);
            assert(range[0] == i && range[1] > i);
            len = range[1] - i;
        }
        if (open && is_open(s, text, i, len, n))
            return 0;
        rc = to->fn(to->arg, text + i, len, -1, err);
    }
    return rc;
}

static int pattern_cut(struct split *s, const char *text, size_t n, int open,
                       const struct pretoken_to *to, size_t *used, struct err *err)
{
    *used = 0;
    while (*used < n) {
        int    why;
        size_t part = 0, valid = utf8_valid(text + *used, n - *used, &why);
        int    run_open = open && why >= 0;
        int    rc = run_cut(s, text + *used, valid, run_open, to, &part, err);
        *used += part;
        if (rc || run_open)
            return rc;
        if (why <= 0 && (rc = to->fn(to->arg, text + (*used)++, 1, -1, err)))
            return rc;
    }
    return 0;
}

/* Whether a number begins at p[0..n); *len: its bytes. -1: more text tells. */
static int number_at(const char *p, size_t n, int open, size_t *len)
{
    int k = utf8_length((const unsigned char *)p, n);

    *len = k > 0 ? (size_t)k : 1;
    if (k <= 0)
        return k == 0 && open ? -1 : 0;
    return (unicode_flags(utf8_decode((const unsigned char *)p, k)) & UNICODE_NUMBER) != 0;
}

/* Where the numbers end that text[0..n) begins with, or what is none of them; *closed: nothing that
 * follows can change that. */
static size_t numbers_end(const struct split *s, const char *text, size_t n, int open, int *closed)
{
    size_t len, i;
    int    first = number_at(text, n, open, &len);

    *closed = 1;
    if (first > 0 && s->config.digits == SPLIT_DIGITS_EACH)
        return len;
    for (i = 0; i < n; i += len) {
        int is = number_at(text + i, n - i, open, &len);

        if (is != first && is >= 0)
            return i;
    }
    *closed = !open;
    return n;
}

/* Each piece as if it stood alone. */
static int digits_cut(struct split *s, const char *text, size_t n, int open,
                      const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = 0, closed = 1;

    for (*used = 0; *used < n && !rc && closed;) {
        size_t part, end = numbers_end(s, text + *used, n - *used, open, &closed);

        rc = pattern_cut(s, text + *used, end, !closed, to, &part, err);
        *used += part;
    }
    return rc;
}

/* ---- BERT's words ---- */

static int word_out(const struct pretoken_to *to, const char *text, size_t from, size_t end,
                    struct err *err)
{
    return end > from ? to->fn(to->arg, text + from, end - from, -1, err) : 0;
}

static int bert_cut(const char *text, size_t n, int open, const struct pretoken_to *to,
                    size_t *used, struct err *err)
{
    size_t from = 0, len; // where the word begins
    int    rc = 0;

    for (size_t i = 0; i < n && !rc; i += len) {
        const unsigned char *p = (const unsigned char *)text + i;
        int                  k = utf8_length(p, n - i);

        if (k == 0 && open)
            break;
        len = k > 0 ? (size_t)k : 1;
        unsigned flags = k > 0 ? unicode_flags(utf8_decode(p, k)) : 0;
        if (!(flags & (UNICODE_SPACE | UNICODE_PUNCTUATION)))
            continue;
        rc = word_out(to, text, from, i, err);
        if (!rc && !(flags & UNICODE_SPACE))
            rc = word_out(to, text, i, i + len, err);
        from = i + len;
    }
    if (!rc && !open) {
        rc = word_out(to, text, from, n, err);
        from = n;
    }
    *used = from;
    return rc;
}

/* ---- marks ---- */

/* Length of the mark, or of the space that becomes one, at text[0..n); 0: there is none; -1: the
 * beginning of one. */
static int mark_at(const struct split *s, const char *text, size_t n)
{
    size_t most = n < s->n_mark ? n : s->n_mark;

    if (s->config.replace && *text == ' ')
        return 1;
    if (memcmp(text, s->mark, most))
        return 0;
    return most < s->n_mark ? -1 : (int)s->n_mark;
}

/* Where the word ends that begins at `from`; SIZE_MAX: more text tells. */
static size_t word_end(const struct split *s, const char *text, size_t from, size_t n, int open)
{
    int other = 0; // something that is no mark was there

    if (open && s->config.at == SPLIT_AT_NONE)
        return SIZE_MAX;
    for (size_t i = from; i < n;) {
        int m = mark_at(s, text + i, n - i);

        if (m < 0 && open)
            return SIZE_MAX;
        if (m > 0 && i > from &&
            (s->config.at == SPLIT_AT_EACH || (s->config.at == SPLIT_AT_RUNS && other)))
            return i;
        other |= m <= 0;
        i += m > 0 ? (size_t)m : 1;
    }
    return open ? SIZE_MAX : n;
}

/* A word, with marks for spaces. */
static int marked_out(struct split *s, const char *text, size_t n, const struct pretoken_to *to,
                      struct err *err)
{
    size_t k = 0;

    if (!s->config.replace || !memchr(text, ' ', n))
        return to->fn(to->arg, text, n, -1, err);
    int rc = grow(&s->marked, &s->marked_cap, n * s->n_mark, 1, "bytes of a word", err);

    for (size_t i = 0; i < n && !rc; i++) {
        if (text[i] == ' ') {
            memcpy(s->marked + k, s->mark, s->n_mark);
            k += s->n_mark;
        } else {
            s->marked[k++] = text[i];
        }
    }
    return rc ? rc : to->fn(to->arg, s->marked, k, -1, err);
}

static int marks_cut(struct split *s, const char *text, size_t n, int open,
                     const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = 0;

    for (*used = 0; *used < n && !rc;) {
        size_t end = word_end(s, text, *used, n, open);

        if (end == SIZE_MAX)
            break;
        rc = marked_out(s, text + *used, end - *used, to, err);
        *used = end;
    }
    return rc;
}

/* ---- a segment ---- */

static int any_cut(struct split *s, const char *text, size_t n, int open,
                   const struct pretoken_to *to, size_t *used, struct err *err)
{
    if (s->config.kind == SPLIT_BERT)
        return bert_cut(text, n, open, to, used, err);
    if (s->config.kind == SPLIT_MARKS)
        return marks_cut(s, text, n, open, to, used, err);
    if (s->config.digits != SPLIT_DIGITS_ANYHOW)
        return digits_cut(s, text, n, open, to, used, err);
    return pattern_cut(s, text, n, open, to, used, err);
}

/* The beginning of a segment, with the mark before it. */
static int prefixed_cut(struct split *s, const char *text, size_t n, int open,
                        const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = grow(&s->joined, &s->joined_cap, s->n_mark + n, 1, "bytes of text", err);

    if (rc)
        return rc;
    memcpy(s->joined, s->mark, s->n_mark);
    memcpy(s->joined + s->n_mark, text, n);
    rc = any_cut(s, s->joined, s->n_mark + n, open, to, used, err);
    s->begun = *used > 0;
    *used -= *used > s->n_mark ? s->n_mark : *used; // no way cuts a mark in two
    return rc;
}

int split_cut(struct split *s, const char *text, size_t n, int open, const struct pretoken_to *to,
              size_t *used, struct err *err)
{
    enum split_prefix prefix = s->config.prefix;
    int               wanted = !s->begun && n > 0 &&
                 (prefix == SPLIT_PREFIX_ALWAYS || (prefix == SPLIT_PREFIX_FIRST && s->first));
    int               rc = 0, mark = wanted ? mark_at(s, text, n) : 0;

    *used = 0;
    if (mark < 0 && open) // it may begin with a mark
        return 0;
    if (wanted && mark <= 0) {
        rc = prefixed_cut(s, text, n, open, to, used, err);
    } else if (n) {
        rc = any_cut(s, text, n, open, to, used, err);
        s->begun |= *used > 0;
    }
    if (!open) {
        s->first &= n == 0 && !s->begun;
        s->begun = 0;
    }
    return rc;
}
