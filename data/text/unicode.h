/* unicode.h: what normalizers and pre-tokenizers ask of a code point, answered as Hugging Face's
 * tokenizers answer it, whatever the version of utf8proc. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum unicode_flag {
    UNICODE_SPACE = 1,       // White_Space
    UNICODE_WORD = 2,        // \w of a regular expression
    UNICODE_MARK = 4,        // a mark that takes no space (Mn)
    UNICODE_PUNCTUATION = 8, // as BERT has it: ASCII's symbols too
    UNICODE_OTHER = 16,      // what BERT's cleaning removes: control, format, private, U+FFFD
    UNICODE_NUMBER = 32,     // a number of any kind (N)
    UNICODE_NEWER = 64,      // unknown to the normalization forms, which are those of Unicode 9
};

/* The flags that hold of a code point. */
unsigned unicode_flags(uint32_t cp);

/* The code points that cp has in lower case, whatever stands around it, into to[]: 1 or 2. */
int unicode_lower(uint32_t cp, uint32_t to[2]);

/* Length of the white space at the beginning of text[0..n), and at its end. What is no UTF-8 is no
 * white space. */
size_t unicode_spaces(const char *text, size_t n);
size_t unicode_spaces_behind(const char *text, size_t n);
