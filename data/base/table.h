/* table.h: finds and sorts the rows of a table by the names that they begin with, and finds a word
 * by its number. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Returns the first of n rows of `size` bytes whose first member, a text, is `name`, or NULL. */
static inline const void *table_find(const void *rows, size_t n, size_t size, const char *name)
{
    const char *row = rows, *has;

    for (; n--; row += size) {
        memcpy(&has, row, sizeof has);
        if (!strcmp(has, name))
            return row;
    }
    return NULL;
}
#define TABLE_FIND(table, name)                                                                    \
    table_find(table, sizeof(table) / sizeof *(table), sizeof *(table), name)

/* Compares two such rows by name, for qsort. For bsearch the key is the address of a name. */
static inline int table_by_name(const void *a, const void *b)
{
    const char *x, *y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

/* Sorts such rows by name. Returns a name that two of them have, or NULL. */
static inline const char *table_sort(void *rows, size_t n, size_t size)
{
    const char *row = rows, *name = NULL;

    if (n)
        qsort(rows, n, size, table_by_name);
    for (size_t i = 1; i < n && !name; i++, row += size)
        if (!table_by_name(row, row + size))
            memcpy(&name, row, sizeof name);
    return name;
}

/* TABLE_WORDS(name, [ENUM] = "word", ...) defines a function that returns the i-th word, or NULL
 * past the last. */
#define TABLE_WORDS(name, ...)                                                                     \
    const char *name(size_t i)                                                                     \
    {                                                                                              \
        static const char *const words[] = { __VA_ARGS__ };                                        \
                                                                                                   \
        return i < sizeof words / sizeof *words ? words[i] : NULL;                                 \
    }
