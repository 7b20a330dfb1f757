/* visible.c: makes text visible, one character after the other. */
#include "data/base/visible.h"

#include "data/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 16, LEAST = 20 }; // the escape of four bytes; columns of a line of words

/* Characters that nobody sees, and those that change the order of what stands around them: two
 * texts would look alike, or one like another. Joiners (U+200C, U+200D) stay: words and emoji of
 * many languages have them. */
static int is_unseen(uint32_t cp)
{
    static const struct { uint32_t first, last; } unseen[] = {
        { 0x80, 0x9F },     { 0xAD, 0xAD },     { 0x61C, 0x61C },   { 0x180E, 0x180E },
        { 0x200B, 0x200B }, { 0x200E, 0x200F }, { 0x2028, 0x202E }, { 0x2060, 0x206F },
        { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB }, { 0xE0000, 0xE007F },
    };
    size_t i = 0;

    while (i < sizeof unseen / sizeof *unseen && (cp < unseen[i].first || cp > unseen[i].last))
        i++;
    return i < sizeof unseen / sizeof *unseen;
}

/* Writes the first character of text[0..n), n > 0, to `to`. *used: its bytes. */
static size_t visible_one(char to[LONGEST + 1], const char *text, size_t n, const char *keep,
                          size_t *used)
{
    static const char letters[] = "\n\r\t", names[] = "nrt";
    const unsigned char *p = (const unsigned char *)text;
    uint32_t             cp = 0;
    int                  len = utf8_at(p, n, &cp);
    size_t               at = 0;
    const char          *letter = *p ? strchr(letters, *p) : NULL;

    *used = len > 0 ? (size_t)len : 1;
    if ((len > 1 && !is_unseen(cp)) || (len == 1 && *p >= ' ' && *p != 0x7F) ||
        (len == 1 && *p && strchr(keep, *p))) {
        memcpy(to, text, *used);
        return *used;
    }
    if (letter) {
        to[0] = '\\';
        to[1] = names[letter - letters];
        return 2;
    }
    for (size_t i = 0; i < *used; i++)
        at += (size_t)snprintf(to + at, LONGEST + 1 - at, "\\x%02x", p[i]);
    return at;
}

size_t visible_text(char *to, size_t size, const char *text, size_t n)
{
    char   one[LONGEST + 1];
    size_t at = 0, used;

    for (; n; text += used, n -= used) {
        size_t bytes = visible_one(one, text, n, "", &used);

        if (at + bytes + 1 > size)
            break;
        memcpy(to + at, one, bytes);
        at += bytes;
    }
    if (size)
        to[at] = '\0';
    return at;
}

void visible_write(FILE *out, const char *text, size_t n, const char *keep)
{
    char   block[4096];
    size_t at = 0, used;

    for (; n; text += used, n -= used) {
        if (at + LONGEST + 1 > sizeof block) {
            fwrite(block, 1, at, out);
            at = 0;
        }
        at += visible_one(block + at, text, n, keep, &used);
    }
    fwrite(block, 1, at, out);
}

void visible_words(FILE *out, const char *text, int at, int from, int width)
{
    int first = 1, room = width - from > LEAST ? width - from : LEAST;

    while (*text) {
        int         n = (int)strcspn(text, " \n");
        const char *word = text, *more = n > room ? "..." : "";

        for (text += n; *more && (text - word > room - 3 || (*word & 0xC0) == 0x80); word++)
            ; // not within a character
        int len = (int)(text - word + (ptrdiff_t)strlen(more));
        if (at < from)
            at += fprintf(out, "%*s", from - at, "");
        else if (!first && at + 1 + len > width)
            at = fprintf(out, "\n%*s", from, "") - 1;
        else if (!first)
            at += fprintf(out, " ");
        at += fprintf(out, "%s%.*s", more, (int)(text - word), word);
        first = *text == '\n';
        if (first)
            at = fprintf(out, "\n") - 1;
        text += strspn(text, " \n");
    }
}

int visible_formula(const char *text)
{
    char *end;

    if (!*text || !strchr("=+-@", *text))
        return 0;
    strtod(text, &end);
    return end == text || *end;
}
