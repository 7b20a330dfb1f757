/* row_list.c: makes a list of paths from names that may be folders. */
#include "run/sources/row_list.h"

#include <stdio.h>
#include <stdlib.h>

int row_list_open(struct row_list *l, const struct opt_strings *names, struct err *err)
{
    static const char *const none[TEXT_WRITTEN];

    *l = (struct row_list){ .names = *names };
    int rc = text_list_make(&l->list, (const char *const *)names->item, names->n, none, err);

    if (!rc && !(l->item = calloc(l->list.n + 1, sizeof *l->item)))
        rc = err_set(err, -ENOMEM, "out of memory for the names of files");
    for (size_t i = 0; i < l->list.n && !rc; i++)
        l->item[l->n++] = l->list.file[i].path;
    return rc;
}

void row_list_close(struct row_list *l)
{
    text_list_free(&l->list);
    free(l->item);
    *l = (struct row_list){ 0 };
}

size_t row_list_source(const struct row_list *l, size_t file) { return l->list.file[file].of; }

const char *row_list_title(char *out, size_t size, const struct row_list *l)
{
    const char *first = l->n ? text_list_shown(*l->item) : "";

    if (l->n < 2)
        snprintf(out, size, "%s", first);
    else
        snprintf(out, size, "%s and %zu other file%s", first, l->n - 1, l->n == 2 ? "" : "s");
    return out;
}

char *row_list_text(const struct row_list *l)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    for (size_t i = 0; i < l->n && f; i++)
        fprintf(f, "%s%s", i ? "\n" : "", l->item[i]);
    if (!f || !fclose(f))
        return text;
    free(text);
    return NULL;
}
