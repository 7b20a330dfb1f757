/* text_made.h: ends a text that is printed into memory. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Closes f, a stream of open_memstream on *text, or NULL if there was no memory for it. Returns the
 * text; or NULL, and frees it, if it is not whole, or if `failed`. */
static inline char *text_made(FILE *f, char **text, int failed)
{
    if (f && !fclose(f) && !failed)
        return *text;
    free(*text);
    return NULL;
}
