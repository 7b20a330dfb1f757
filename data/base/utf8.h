/* utf8.h: decodes, encodes and checks UTF-8. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the length (1..4) of the code point at text[0..n), n > 0. Returns 0 if the n bytes are
 * the beginning of a code point that is cut off. Returns -1 if no code point begins so; overlong
 * forms, surrogates and values beyond U+10FFFF are included. */
static inline int utf8_length(const void *text, size_t n)
{
    const unsigned char *p = text;
    unsigned char        low = 0x80, high = 0xBF; // bounds of the second byte
    int                  len;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return -1;
    len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] == 0xE0)
        low = 0xA0;
    else if (p[0] == 0xED)
        high = 0x9F;
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F;
    for (int i = 1; i < len; i++, low = 0x80, high = 0xBF) {
        if ((size_t)i == n)
            return 0;
        if (p[i] < low || p[i] > high)
            return -1;
    }
    return len;
}

/* Returns the code point at text, whose length `len` utf8_length has returned. */
static inline uint32_t utf8_decode(const void *text, int len)
{
    const unsigned char *p = text;
    uint32_t             cp = len == 1 ? p[0] : p[0] & (0xFFu >> (len + 1));

    for (int i = 1; i < len; i++)
        cp = cp << 6 | (p[i] & 0x3Fu);
    return cp;
}

/* Returns the result of utf8_length. If it is above 0, *cp gets the code point. */
static inline int utf8_at(const void *text, size_t n, uint32_t *cp)
{
    int len = utf8_length(text, n);

    if (len > 0)
        *cp = utf8_decode(text, len);
    return len;
}

/* Writes the UTF-8 of cp to `to`, which has room for four bytes. Returns the number of bytes. */
static inline size_t utf8_encode(char *to, uint32_t cp)
{
    size_t   len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    unsigned lead = len == 1 ? 0 : 0xF00u >> len & 0xFF;

    for (size_t i = len - 1; i > 0; i--, cp >>= 6)
        to[i] = (char)(0x80 | (cp & 0x3F));
    to[0] = (char)(lead | cp);
    return len;
}

/* Returns how many bytes at the end of text[0..n) are the beginning of a code point that is cut
 * off. */
static inline size_t utf8_unfinished(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++)
        if (utf8_length(text + n - back, back) == 0)
            return back;
    return 0;
}

/* Returns how many bytes the last code point of text[0..n), n > 0, has if the text is UTF-8, and
 * some number from 1 to 4 if it is not. */
static inline size_t utf8_last(const char *text, size_t n)
{
    size_t back = 1;

    while (back < 4 && back < n && ((unsigned char)text[n - back] & 0xC0) == 0x80)
        back++;
    return back;
}

/* Returns the bytes of the byte order mark at the beginning of text[0..n): 3, or 0 without one. */
static inline size_t utf8_mark(const char *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
}

/* Returns how many bytes at the beginning of text[0..n) are valid UTF-8. *why becomes the result
 * of utf8_length for the bytes behind them, or 1 if there are none. */
size_t utf8_valid(const char *text, size_t n, int *why);
