/* unicode.c: looks up flags and lower case of code points.
 *
 * utf8proc's category decides, except for code points in unicode_tables.h. These are all whose
 * category depends on utf8proc's version (15.0 of Unicode or newer). */
#include "data/text/unicode.h"

#include "data/base/utf8.h"
#include "data/text/unicode_tables.h"

#include <stdlib.h>
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

/* Whether a row, which begins with its first and last code point, has cp, for bsearch. */
static int by_range(const void *cp, const void *row)
{
    uint32_t        is = *(const uint32_t *)cp;
    const uint32_t *of = row;

    return is < of[0] ? -1 : is > of[1];
}
#define ROW_OF(table, cp) bsearch(&(cp), table, ROWS(table), sizeof *(table), by_range)

unsigned unicode_flags(uint32_t cp)
{
    if (cp < ROWS(latin))
        return latin[cp];
    const uint32_t *r = cp < exceptions[0][0] ? NULL : ROW_OF(exceptions, cp);

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
    r = ROW_OF(cases, cp);
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
