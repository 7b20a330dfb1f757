/* unicode.c: looks up flags and lower case of code points.
 *
 * utf8proc's category decides, except for code points in unicode_tables.h. These are all whose
 * category depends on utf8proc's version (15.0 of Unicode or newer). */
#include "data/text/unicode.h"

#include "data/base/utf8.h"
#include "data/text/unicode_tables.h"

#include <utf8proc.h>

_Static_assert(UTF8PROC_VERSION_MAJOR > 2 || UTF8PROC_VERSION_MINOR >= 8,
               "the exceptions are for utf8proc of Unicode 15.0 or newer");

#define ROWS(table) (sizeof(table) / sizeof *(table))

static const uint8_t of_category[] = {
    [UTF8PROC_CATEGORY_LU] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_LL] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_LT] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_LM] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_LO] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_MN] = UNICODE_WORD | UNICODE_MARK,
    [UTF8PROC_CATEGORY_MC] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_ME] = UNICODE_WORD,
    [UTF8PROC_CATEGORY_ND] = UNICODE_WORD | UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_NL] = UNICODE_WORD | UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_NO] = UNICODE_NUMBER,
    [UTF8PROC_CATEGORY_PC] = UNICODE_WORD | UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PD] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PS] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PE] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PI] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PF] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_PO] = UNICODE_PUNCTUATION,
    [UTF8PROC_CATEGORY_ZS] = UNICODE_SPACE,
    [UTF8PROC_CATEGORY_ZL] = UNICODE_SPACE,
    [UTF8PROC_CATEGORY_ZP] = UNICODE_SPACE,
    [UTF8PROC_CATEGORY_CC] = UNICODE_OTHER,
    [UTF8PROC_CATEGORY_CF] = UNICODE_OTHER,
    [UTF8PROC_CATEGORY_CO] = UNICODE_OTHER,
};

/* Finds, among n rows of `width` numbers in the order of their first two (first and last code
 * point), the one that has cp, or NULL. */
static const uint32_t *row_of(const uint32_t *rows, size_t n, size_t width, uint32_t cp)
{
    size_t low = 0;

    while (n > 0) { // rows before `low` begin at or before cp, rows from low + n on after it
        size_t half = n / 2;

        if (rows[(low + half) * width] <= cp) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low && cp <= rows[(low - 1) * width + 1] ? &rows[(low - 1) * width] : NULL;
}

unsigned unicode_flags(uint32_t cp)
{
    const uint32_t *r = NULL;

    if (cp < ROWS(latin))
        return latin[cp];
    if (cp >= exceptions[0][0])
        r = row_of(exceptions[0], ROWS(exceptions), 3, cp);
    return r ? r[2] : of_category[utf8proc_category((utf8proc_int32_t)cp)];
}

int unicode_lower(uint32_t cp, uint32_t to[2])
{
    const uint32_t *r;

    to[0] = cp;
    if (cp < 0x80) {
        to[0] |= cp - 'A' < 26 ? 0x20 : 0;
        return 1;
    }
    if (cp == 0x130) { // the only one that becomes two: i and a dot above
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    r = row_of(cases[0], ROWS(cases), 4, cp);
    if (r && (cp - r[0]) % r[2] == 0)
        to[0] = cp + r[3]; // modulo 2^32
    else if (unicode_flags(cp) & UNICODE_WORD)
        to[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

size_t unicode_spaces(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint32_t cp;
        int      len = utf8_at(text + i, n - i, &cp);

        if (len <= 0 || !(unicode_flags(cp) & UNICODE_SPACE))
            break;
        i += (size_t)len;
    }
    return i;
}

size_t unicode_spaces_behind(const char *text, size_t n)
{
    size_t end = n;

    while (end > 0) {
        size_t back = utf8_last(text, end);

        if (unicode_spaces(text + end - back, back) != back)
            break;
        end -= back;
    }
    return n - end;
}
