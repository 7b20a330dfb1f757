/* utf8.c: finds how many bytes of a text are valid UTF-8, with one check for eight bytes of
 * ASCII. */
#include "data/base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t utf8_valid(const char *text, size_t n, int *why)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t               i = 0;

    for (*why = 1; i < n;) {
        uint64_t word;

        if (n - i >= sizeof word) {
            memcpy(&word, p + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        int len = utf8_length(p + i, n - i);
        if (len <= 0) {
            *why = len;
            break;
        }
        i += (size_t)len;
    }
    return i;
}
