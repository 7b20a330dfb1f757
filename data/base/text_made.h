/* text_made.h: ends a text that is printed into memory. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Closes f, a stream of open_memstream on *text, or NULL if there was no memory for it. Returns the
 * text. If it is not whole, or if `failed`, frees it, sets *text to NULL and returns NULL. */
static inline char *text_made(FILE *f, char **text, int failed)
{
    if (f && !fclose(f) && !failed)
        return *text;
    free(*text);
    return *text = NULL;
}
