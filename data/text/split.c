/* split.c: cuts a segment into pre-tokens, in one of several ways.
 *
 * The first way is a regular expression of GPT-2 and its successors. No expression has look-behind,
 * so cutting can go on from any end of a pre-token. If more text is to follow, a pre-token is final
 * if the search for it did not touch the end of the text. It did not if at least two bytes follow:
 * greedy runs and the lookahead of \s+(?!\S) stop at a code point that is there (a run of spaces
 * that reaches the end is taken whole, so nothing follows it), and a contraction ('re) that lacks a
 * byte leaves "'" with one byte behind it. Newer expressions take white space up to its last line
 * end (\s*[\r\n]+), so there all white space must end before the text does.
 *
 * Tekken's expression cuts before a capital letter, but first tries a word that ends in small
 * letters. So the end of a run of letters and marks decides about all of it, and the run must have
 * ended.
 *
 * An expression may leave gaps, which are pre-tokens, too (DeepSeek-V3's does). A gap is final when
 * something behind it matches. Before an expression, runs of characters of a set may be taken out;
 * each is cut on its own.
 *
 * Hugging Face's \s is White_Space, while PCRE2's also has U+180E. Its letters, marks, numbers and
 * signs are those of Unicode 16, while Debian's PCRE2 knows 14. They are written out below, so that
 * the ids do not depend on the library's version.
 *
 * BERT's words end at white space, and each punctuation mark is one. In the third way, words begin
 * at marks (SentencePiece's U+2581 for a space). */
#include "data/text/split.h"

#include "data/base/grow.h"
#include "data/base/table.h"
#include "data/base/utf8.h"
#include "data/text/unicode.h"

#include <assert.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define SPACES \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"
#define CAPITALS "\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"
#define SMALL    "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"
#define UNCASED \
    "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4f}\\x{10d6f}\\x{10ec2}-\\x{10ec4}" \
    "\\x{1123f}-\\x{11240}" \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}" \
    "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}" \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}" \
    "\\x{18cff}\\x{1b132}\\x{1b155}\\x{1e030}-\\x{1e06d}" \
    "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}" \
    "\\x{31350}-\\x{323af}"
#define LETTERS "\\p{L}" CAPITALS SMALL UNCASED
#define MARKS \
    "\\p{M}\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}" \
    "\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}" \
    "\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}" \
    "\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}" \
    "\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}"
#define NUMBERS \
    "\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}" \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}" \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"
#define SIGNS \
    "\\p{P}\\p{S}\\x{1b4e}-\\x{1b4f}\\x{1b7f}\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}" \
    "\\x{31e4}-\\x{31e5}\\x{31ef}\\x{10d6e}\\x{10d8e}-\\x{10d8f}\\x{113d4}-\\x{113d5}" \
    "\\x{113d7}-\\x{113d8}\\x{11b00}-\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}" \
    "\\x{16d6d}-\\x{16d6f}\\x{1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1e5ff}\\x{1f6dc}" \
    "\\x{1f774}-\\x{1f776}\\x{1f77b}-\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}" \
    "\\x{1f8c0}-\\x{1f8c1}\\x{1fa75}-\\x{1fa77}\\x{1fa87}-\\x{1fa89}\\x{1fa8f}" \
    "\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}\\x{1face}-\\x{1facf}" \
    "\\x{1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}-\\x{1fae9}\\x{1faf7}-\\x{1faf8}" \
    "\\x{1fbcb}-\\x{1fbef}"

/* The insides of character classes. In all expressions, ASCII letters with a space before them are
 * one pre-token. With CASED it ends at a capital letter behind a small one. ascii_word uses
 * this. */
#define WORDS_END "|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"
#define TODAYS(numbers) \
    "'(?:[sS\\x{17f}tTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])" \
    "|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS "]+|[" NUMBERS "]" numbers \
    "| ?[^" SPACES LETTERS NUMBERS "]+[\\r\\n]*|[" SPACES "]*[\\r\\n]+" WORDS_END
#define TODAYS_SAID(numbers) \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" numbers \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}" CAPITALS UNCASED MARKS "]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}" SMALL UNCASED MARKS "]"
#define UPPER_SAID "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_SAID "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define ASCII_SIGN "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"

enum traits {
    LINES = 1, // a pre-token of white space depends on all white space that follows
    CASED = 2, // a word depends on all letters and marks that follow
    GAPS = 4,  // there may be text that it does not match
};

/* A row is one expression: its text in Hugging Face's files, and the same for PCRE2. */
static const struct split_pattern {
    const char *name, *said, *pattern;
    unsigned    traits;
} patterns[] = {
    { "GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "'s|'t|'re|'ve|'m|'ll|'d"
      "| ?[" LETTERS "]+| ?[" NUMBERS "]+| ?[^" SPACES LETTERS NUMBERS "]+" WORDS_END, 0 },
    { "Llama 3", TODAYS_SAID("{1,3}"), TODAYS("{1,3}"), LINES },
    { "Qwen2", TODAYS_SAID(""), TODAYS(""), LINES },
    { "Tekken",
      "[^\\r\\n\\p{L}\\p{N}]?" UPPER_SAID "*" LOWER_SAID "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER_SAID
      "+" LOWER_SAID "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "[^\\r\\n" LETTERS NUMBERS "]?" UPPER "*" LOWER "+|[^\\r\\n" LETTERS NUMBERS "]?" UPPER "+"
      LOWER "*|[" NUMBERS "]| ?[^" SPACES LETTERS NUMBERS "]+[\\r\\n/]*|[" SPACES "]*[\\r\\n]+"
      WORDS_END, LINES | CASED },
    { "DeepSeek-V3",
      ASCII_SIGN "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      ASCII_SIGN "[A-Za-z]+|[^\\r\\n" LETTERS SIGNS "]?[" LETTERS MARKS "]+| ?[" SIGNS "]+[\\r\\n]*"
      "|[" SPACES "]*[\\r\\n]+" WORDS_END, LINES | GAPS },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

/* Sets whose runs are taken out, and their text in Hugging Face's files. */
static const struct run_said { const char *said; struct split_run run; } runs[] = {
    { "\\p{N}", { SPLIT_NUMBERS, 1 } },
    { "\\p{N}{1,3}", { SPLIT_NUMBERS, 3 } },
    { "\\p{N}+", { SPLIT_NUMBERS, 0 } },
    { SPLIT_SAID_CHINESE_JAPANESE, { SPLIT_CHINESE_JAPANESE, 0 } },
};

const struct split_pattern *split_pattern_find(const char *said)
{
    for (size_t i = 0; i < PATTERNS; i++)
        if (!strcmp(said, patterns[i].said))
            return &patterns[i];
    return NULL;
}

const struct split_run *split_run_find(const char *said)
{
    const struct run_said *found = TABLE_FIND(runs, said);

    return found ? &found->run : NULL;
}

const struct split_pattern *split_pattern_named(const char *name)
{
    return TABLE_FIND(patterns, name);
}

const char *split_pattern_said(const char *name) { return split_pattern_named(name)->said; }

const char *split_pattern_names(void)
{
    static const char names[] = "GPT-2, Llama 3, Qwen2, Tekken (Mistral) and DeepSeek-V3";

    return names;
}

struct split {
    struct split_config config;
    char               *mark; // config.mark is this
    size_t              n_mark;
    pcre2_code         *code;
    pcre2_match_data   *match;
    int                 begun; // some of the segment has been cut
    int                 first; // the segment begins the text
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
    // without a just-in-time compiler, pcre2_match interprets
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

int split_copy(struct split **out, const struct split *s, struct err *err)
{
    return split_open(out, &s->config, err);
}

/* No expression takes a single space, or a newline, into a pre-token that began before it and goes
 * on behind it. A mark is put before a part that begins with a space in no case. */
unsigned split_cuts(const struct split *s)
{
    const struct split_config *c = &s->config;

    if (c->kind == SPLIT_MARKS)
        return c->at != SPLIT_AT_NONE && c->replace ? SPLIT_CUTS_SPACE : 0;
    if (c->prefix != SPLIT_PREFIX_NEVER)
        return strcmp(s->mark, " ") ? 0 : SPLIT_CUTS_SPACE;
    return SPLIT_CUTS_SPACE | SPLIT_CUTS_LINE | (c->kind == SPLIT_BERT ? SPLIT_CUTS_WORDS : 0);
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

const char *split_mark(const struct split *s, int *replaces)
{
    *replaces = s->config.replace;
    return s->mark;
}

void split_reset(struct split *s)
{
    s->begun = 0;
    s->first = 1;
}

/* ---- expressions ---- */

/* The end of a run of ASCII letters. `a` is the alphabet's first. */
static size_t letters_end(const char *text, size_t i, size_t n, char a, char fold)
{
    while (i < n && (unsigned char)((text[i] | fold) - a) < 26)
        i++;
    return i;
}

/* Length of a pre-token of ASCII letters at text[i..n), with the space before it, or 0 if the
 * expression must be asked. Most English words are found here, and the expression takes several
 * times as long. */
static size_t ascii_word(const struct split *s, const char *text, size_t i, size_t n)
{
    size_t first = i + (text[i] == ' '), end = first;

    if (s->config.pattern->traits & CASED)
        end = letters_end(text, letters_end(text, first, n, 'A', 0), n, 'a', 0);
    else
        end = letters_end(text, first, n, 'a', 0x20);
    return end > first && end < n && (unsigned char)text[end] < 0x80 ? end - i : 0;
}

/* Where the letters and marks at the beginning of text[i..n), valid UTF-8, end. */
static size_t run_of_letters(const char *text, size_t i, size_t n)
{
    while (i < n) {
        uint32_t cp = 0;
        int      len = utf8_at(text + i, n - i, &cp);
        unsigned flags = unicode_flags(cp);

        if (!(flags & (UNICODE_WORD | UNICODE_MARK)) || flags & UNICODE_NUMBER)
            break;
        i += (size_t)len;
    }
    return i;
}

/* Whether more text behind text[0..n) can change the pre-token text[i..i+len). */
static int is_open(const struct split *s, const char *text, size_t i, size_t len, size_t n)
{
    size_t   white;
    unsigned traits = s->config.pattern->traits;

    if (i + len + 2 > n || (traits & CASED && run_of_letters(text, i + len, n) + 2 > n))
        return 1;
    white = traits & LINES ? unicode_spaces(text + i, n - i) : 0;
    return white > 0 && i + white + 2 > n;
}

/* Finds the length of the pre-token at text[i..n) with the expression, or of the gap before its
 * next match. 0: more text is needed. */
static int next_length(struct split *s, const char *text, size_t i, size_t n, int open, size_t *len,
                       struct err *err)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    int gaps = (s->config.pattern->traits & GAPS) != 0;
    int rc = pcre2_match(s->code, (PCRE2_SPTR)text, n, i, PCRE2_NO_UTF_CHECK, s->match, NULL);

    *len = 0;
    if (rc == PCRE2_ERROR_NOMATCH && gaps) {
        *len = open ? 0 : n - i;
        return 0;
    }
    if (rc < 0)
        return err_set(err, -EIO, "PCRE2 error %d at byte %zu of a text of %zu", rc, i, n);
    assert((gaps || range[0] == i) && range[1] > range[0]);
    *len = (range[0] > i ? range[0] : range[1]) - i;
    if (range[0] == i && open && is_open(s, text, i, *len, n))
        *len = 0;
    return 0;
}

/* Cuts valid UTF-8. `open`: more may follow; then *used is less than n. */
static int run_cut(struct split *s, const char *text, size_t n, int open,
                   const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = 0;

    *used = 0;
    for (size_t i = 0, len; i < n && !rc; *used = i += len) {
        len = ascii_word(s, text, i, n);
        if (len && open && is_open(s, text, i, len, n))
            return 0;
        if (len == 0 && ((rc = next_length(s, text, i, n, open, &len, err)) || len == 0))
            return rc;
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

/* ---- runs that are taken out ---- */

/* Whether a character of the set begins at p[0..n). *len: its bytes. -1: more text is needed. */
static int set_at(enum split_set set, const char *p, size_t n, int open, size_t *len)
{
    uint32_t cp;
    int      k = utf8_at(p, n, &cp);

    *len = k > 0 ? (size_t)k : 1;
    if (k <= 0)
        return k == 0 && open ? -1 : 0;
    if (set == SPLIT_NUMBERS)
        return (unicode_flags(cp) & UNICODE_NUMBER) != 0;
    return (cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF);
}

/* Where the run, or the text outside of runs, at the beginning of text[0..n) ends. *closed: no
 * further text can change that. */
static size_t run_end(const struct split_run *run, const char *text, size_t n, int open,
                      int *closed)
{
    size_t len, i, count = 0;
    int    first = set_at(run->set, text, n, open, &len);

    *closed = 1;
    for (i = 0; i < n; i += len, count++) {
        int is = set_at(run->set, text + i, n - i, open, &len);

        if ((is != first && is >= 0) || (first > 0 && run->most && count == run->most))
            return i;
    }
    *closed = !open || (first > 0 && run->most && count == run->most);
    return n;
}

/* Cuts each piece on its own. */
static int runs_cut(struct split *s, size_t k, const char *text, size_t n, int open,
                    const struct pretoken_to *to, size_t *used, struct err *err)
{
    int rc = 0, closed = 1;

    if (k == s->config.n_runs)
        return pattern_cut(s, text, n, open, to, used, err);
    for (*used = 0; *used < n && !rc && closed;) {
        size_t part, end = run_end(&s->config.runs[k], text + *used, n - *used, open, &closed);

        rc = runs_cut(s, k + 1, text + *used, end, !closed, to, &part, err);
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
        uint32_t cp;
        int      k = utf8_at(text + i, n - i, &cp);

        if (k == 0 && open)
            break;
        len = k > 0 ? (size_t)k : 1;
        unsigned flags = k > 0 ? unicode_flags(cp) : 0;
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

/* Length of the mark at text[0..n), or of the space that becomes one; 0: there is none; -1: only
 * its beginning is there. */
static int mark_at(const struct split *s, const char *text, size_t n)
{
    size_t most = n < s->n_mark ? n : s->n_mark;

    if (s->config.replace && *text == ' ')
        return 1;
    if (memcmp(text, s->mark, most))
        return 0;
    return most < s->n_mark ? -1 : (int)s->n_mark;
}

/* Where the word that begins at `from` ends. SIZE_MAX: more text is needed. */
static size_t word_end(const struct split *s, const char *text, size_t from, size_t n, int open)
{
    int other = 0; // something other than marks has come

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

/* Passes on a word, with marks for spaces. */
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
    return runs_cut(s, 0, text, n, open, to, used, err);
}

/* Cuts the beginning of a segment, with the mark before it. */
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
    *used -= *used > s->n_mark ? s->n_mark : *used; // no way cuts inside a mark
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
