/* opt_row.c: rows by number and name, and the words that they take. */
#include "cmd/opt/opt_row.h"

#include <stdio.h>
#include <string.h>

/* ---- rows ---- */

const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset)
{
    for (const struct opt_part *p = cmd->parts; p->rows; p++)
        for (const struct opt_row *r = p->rows; r->type; r++)
            if (i-- == 0) {
                if (offset)
                    *offset = p->offset + r->offset;
                return r;
            }
    return NULL;
}

int opt_row_is_arg(const struct opt_row *r)
{
    return r->type == OPT_ARG || r->type == OPT_ARGS;
}

int opt_row_is_many(const struct opt_row *r)
{
    return r->type == OPT_STRINGS || r->type == OPT_PATHS || r->type == OPT_ARGS;
}

int opt_row_find(const struct opt_command *cmd, const char *name, size_t n)
{
    const struct opt_row *r;

    for (int i = 0; (r = opt_row_at(cmd, (size_t)i, NULL)); i++)
        if (!opt_row_is_arg(r) && strlen(r->name) == n && !memcmp(r->name, name, n))
            return i;
    return -1;
}

const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r)
{
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        if (!strcmp(d->row, r->name))
            return d->text;
    return r->def;
}

size_t opt_alias_next(const char **names)
{
    size_t n;

    *names += strspn(*names, " ?");
    n = strcspn(*names, " ?");
    *names += n;
    return n;
}

/* ---- words ---- */

char *opt_words_join(char *buf, size_t size, opt_words *words, const char *between,
                     const char *last)
{
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; words(i) && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s",
                              !i ? "" : words(i + 1) ? between : last, words(i));
    return buf;
}

int opt_words_find(opt_words *words, const char *text, size_t n)
{
    for (int i = 0; words((size_t)i); i++)
        if (strlen(words((size_t)i)) == n && !memcmp(words((size_t)i), text, n))
            return i;
    return -1;
}

int opt_words_refuse(const char *name, const char *text, opt_words *words, struct err *err)
{
    char        all[512], known[512];
    const char *near = opt_nearest(text, opt_words_join(all, sizeof all, words, " ", " "));

    opt_words_join(known, sizeof known, words, ", ", " or ");
    if (near)
        return err_misuse(err, "--%s %s: expected %s (did you mean %s?)", name, text, known, near);
    return err_misuse(err, "--%s %s is not in this version; use %s", name, text, known);
}

/* Edit distance; words are short. */
static size_t word_distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);

    if (n >= 64)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[n];
}

const char *opt_nearest(const char *typed, char *words)
{
    const char *best = NULL, *longer = NULL;
    size_t      length = strlen(typed), best_distance = length / 3 + 2; // further is another word

    for (char *rest = words, *word; (word = strsep(&rest, " ?"));) {
        size_t d = word_distance(typed, word);

        if (*word && d < best_distance) {
            best_distance = d;
            best = word;
        }
        if (!longer && length >= 3 && !strncmp(word, typed, length))
            longer = word;
    }
    return best ? best : longer;
}
