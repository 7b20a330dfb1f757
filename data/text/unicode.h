/* unicode.h: properties of code points for normalizers and pre-tokenizers. The answers are those
 * of Hugging Face's tokenizers, whatever the version of utf8proc. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum unicode_flag {
    UNICODE_SPACE = 1,       // White_Space
    UNICODE_WORD = 2,        // \w of a regular expression
    UNICODE_MARK = 4,        // a mark that takes no space (Mn)
    UNICODE_PUNCTUATION = 8, // BERT's definition: ASCII's symbols, too
    UNICODE_OTHER = 16,      // removed by BERT's cleaning: control, format, private, U+FFFD
    UNICODE_NUMBER = 32,     // a number of any kind (N)
    UNICODE_NEWER = 64,      // not in Unicode 9, whose normalization forms are used
};

/* Returns the flags of a code point. */
unsigned unicode_flags(uint32_t cp);

/* Writes the lower case of cp, regardless of its context, into to[] and returns its length: 1 or
 * 2 code points. */
int unicode_lower(uint32_t cp, uint32_t to[2]);

/* Return the length in bytes of the white space at the beginning of text[0..n), and at its end.
 * Bytes that are not UTF-8 are not white space. */
size_t unicode_spaces(const char *text, size_t n);
size_t unicode_spaces_behind(const char *text, size_t n);
