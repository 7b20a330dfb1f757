/* table.h: finds a row of a table by the name that it begins with. */
#pragma once

#include <stddef.h>
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
