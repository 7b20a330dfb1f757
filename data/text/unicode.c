/* unicode.c: flags and lower case of code points, looked up in rows of neighbours. */
#include "data/text/unicode.h"

#include "data/base/utf8.h"
#include "data/text/unicode_tables.h"

#define ROWS(table) (sizeof(table) / sizeof *(table))

const uint32_t *unicode_row(const uint32_t *rows, size_t n, size_t width, uint32_t cp)
{
    size_t low = 0;

    while (n > 0) { // rows before `low` begin up to cp, those from low + n on behind it
        size_t half = n / 2;

        if (rows[(low + half) * width] <= cp) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low ? &rows[(low - 1) * width] : NULL;
}

unsigned unicode_flags(uint32_t cp)
{
    const uint32_t *r;

    if (cp < 0x80)
        return unicode_ascii[cp];
    r = unicode_row(unicode_ranges[0], ROWS(unicode_ranges), 3, cp);
    return r && cp <= r[1] ? r[2] : 0;
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
    r = unicode_row(unicode_cases[0], ROWS(unicode_cases), 4, cp);
    if (r && cp <= r[1] && (cp - r[0]) % r[2] == 0)
        to[0] = cp + r[3]; // modulo 2^32
    return 1;
}

size_t unicode_spaces(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        int len = utf8_length((const unsigned char *)text + i, n - i);

        if (len <= 0 || !(unicode_flags(utf8_decode((const unsigned char *)text + i, len)) &
                          UNICODE_SPACE))
            break;
        i += (size_t)len;
    }
    return i;
}

size_t unicode_spaces_behind(const char *text, size_t n)
{
    size_t end = n;

    for (;;) {
        int back = 1;

        while (back < 4 && (size_t)back < end && ((unsigned char)text[end - (size_t)back] & 0xC0) ==
                                                     0x80)
            back++;
        if ((size_t)back > end || unicode_spaces(text + end - back, (size_t)back) != (size_t)back)
            return n - end;
        end -= (size_t)back;
    }
}
