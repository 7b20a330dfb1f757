/* own_kind.c: looks at the names and the first lines of files. */
#include "data/task/own_kind.h"

/* ---- the kind ---- */

int own_kind_named(const char *path)
{
    static const struct { const char *end; enum row_kind kind; } ends[] = {
        { ".csv", ROWS_CSV },
        { ".tsv", ROWS_TSV },
        { ".json", ROWS_JSON },
        { ".jsonl", ROWS_JSON },
    };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (unpack_named(path, ends[i].end))
            return (int)ends[i].kind;
    return -1;
}

/* The kind of standard input, which has no name, by its beginning: a tab in the first line of a
 * table says .tsv. */
static int begun_kind(int *kind, const char *path, struct err *err)
{
    struct unpack  *packed = NULL;
    FILE           *f = NULL;
    struct row_head head;
    int             rc = unpack_open(&f, &packed, path, err);

    rc = rc ? rc : row_file_head(&head, f, packed, unpack_shown(path), FILE_FOR_ROWS, err);
    if (f)
        fclose(f);
    if (rc)
        return rc;
    const char *first = head.text + head.at;
    *kind = *first == '{' || *first == '['                 ? ROWS_JSON
            : memchr(first, '\t', strcspn(first, "\r\n")) ? ROWS_TSV
                                                           : ROWS_CSV;
    return 0;
}

int own_kind(int *kind, const char *path, struct err *err)
{
    *kind = own_kind_named(path);
    return strcmp(path, "-") ? 0 : begun_kind(kind, path, err);
}

/* ---- the delimiter ---- */

static const struct delimiter { char c; const char *many, *works; } delimiters[] = {
    { ',', "commas", "name it .csv" },
    { '\t', "tabs", "name it .tsv" },
    { ';', "semicolons", NULL },
    { '|', "vertical bars", NULL },
};

/* Counts the columns of a line with this delimiter outside of double quotes (which are characters
 * in a .tsv). *found: one column is called `name`. */
static size_t delimiter_columns(const struct delimiter *d, const char *line, const char *name,
                                int *found)
{
    const char *from = line;
    size_t      n = 1;
    int         quoted = 0;

    *found = 0;
    for (const char *p = line;; p++) {
        quoted ^= *p == '"' && d->c != '\t';
        if (*p && (*p != d->c || quoted))
            continue;
        size_t quotes = p - from >= 2 && *from == '"' && p[-1] == '"';
        size_t len = (size_t)(p - from) - 2 * quotes;

        *found |= name && strlen(name) == len && !memcmp(from + quotes, name, len);
        if (!*p)
            return n;
        n++;
        from = p + 1;
    }
}

int own_kind_delimiter(const char *path, enum row_kind kind, const char *name, struct err *err)
{
    const struct delimiter *used = &delimiters[kind == ROWS_CSV ? 0 : 1], *other = NULL;
    struct row_file         r;
    size_t                  most = 1;
    int found, read = !row_file_open(&r, path, ROWS_LINES, NULL) && row_file_next(&r, NULL) == 1;
    const char *line = read ? row_file_field(&r, 0) : "";

    if (delimiter_columns(used, line, name, &found) == 1 || (name && !found))
        for (size_t i = 0; i < sizeof delimiters / sizeof *delimiters; i++) {
            size_t n = delimiter_columns(&delimiters[i], line, name, &found);

            if (n > most && &delimiters[i] != used && (!name || found)) {
                other = &delimiters[i];
                most = n;
            }
        }
    row_file_close(&r);
    if (!other)
        return 0;
    return err_misuse(err, "%s has %s between its columns, where .%s has %s: %s%swrite it with %s",
                      unpack_shown(path), other->many, kind == ROWS_CSV ? "csv" : "tsv", used->many,
                      other->works ? other->works : "", other->works ? ", or " : "", used->many);
}
