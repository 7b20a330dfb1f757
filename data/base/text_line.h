/* text_line.h: goes over the lines of a text, which end with \n or \r\n, and over its blanks. */
#pragma once

#include <string.h>

/* Returns the line that begins at *at, of n bytes, and moves *at behind it; NULL behind the last.
 * The last line may lack its end. A text that ends with a line's end has no line behind that. */
static inline const char *text_line(const char **at, const char *end, size_t *n)
{
    const char *line = *at, *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;

    if (line == end)
        return NULL;
    *at = stop ? stop + 1 : end;
    stop = stop ? stop : end;
    *n = (size_t)(stop - line) - (stop > line && stop[-1] == '\r');
    return line;
}

/* Returns where the blanks and line ends at p, before end, end. */
static inline const char *text_past_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}
