/* odd_text.c: see odd_text.h. */
#include "tests/odd_text.h"

#include <stdio.h>
#include <string.h>

static uint64_t state = 1;

void odd_seed(uint64_t seed)
{
    state = seed;
}

uint32_t odd_number(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

size_t odd_text(char *out, size_t n)
{
    static const char *const parts[] = {
        " ", "  ", "\n", "\t", "\r\n", "'", "'s", "'re", "'r", "'v", "'ll", "'l", "the", " a",
        "Hello", "1", " 23", "!", " ?!", "<|", "<|endoftext|>", "<|endof", "\xc2\xa0",
        "\xe3\x80\x80", "\xe1\xa0\x8e", "\xc3\xa9", "\xe6\x9d\xb1", "\xf0\x9f\x99\x82", "\xff",
        "\xe2\x82", "\xc3", "\xf0\x9f", "\x80", "\xed\xa0\x80", "\xc2\xbd",
    };
    size_t k = 0;

    for (;;) {
        const char *part = parts[odd_number(sizeof parts / sizeof *parts)];

        if (k + strlen(part) > n)
            return k;
        memcpy(out + k, part, strlen(part));
        k += strlen(part);
    }
}

size_t word_text(char *out, size_t words)
{
    static const char *const all[] = { "river", "stone", "the", "of", "sea", "night", "under" };
    uint32_t r = 1;
    size_t   n = 0;

    for (size_t i = 0; i < words; i++) {
        r = r * 1664525 + 1013904223;
        n += (size_t)sprintf(out + n, "%s%c", all[(r >> 16) % 7], i % 12 == 11 ? '\n' : ' ');
    }
    return n;
}
