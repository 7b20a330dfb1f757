/* opt.c: a command line, and a file of options, into an options struct. argtable2 takes the command
 * line apart and nobody else includes it. Before it, opt_scan refuses what its own errors say too
 * little about, names and missing values, so that a sentence can say what was meant and what would
 * work, and it puts rows for another program's names; behind it, each value is read by its row.
 *
 * Invariant: strings in an options struct are always malloc'd, also defaults, so that opt_release
 * frees them all. */
#include "cmd/opt/opt.h"
#include "cmd/opt/opt_file.h"
#include "cmd/opt/opt_scan.h"

#include <argtable2.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Row i and its field in the options; NULL past the end. */
static const struct opt_row *row_of(const struct opt_line *l, size_t i, void **field)
{
    size_t                offset = 0;
    const struct opt_row *r = opt_row_at(l->cmd, i, &offset);

    *field = (char *)l->options + offset;
    return r;
}

static size_t row_number(const struct opt_line *l, const char *name)
{
    int i = opt_row_find(l->cmd, name, strlen(name));

    assert(i >= 0);
    return (size_t)i;
}

int opt_given(const struct opt_line *line, const char *name)
{
    return line->given[row_number(line, name)];
}

void opt_mark_given(struct opt_line *line, const char *name)
{
    line->given[row_number(line, name)] = 1;
}

int opt_each(const struct opt_line *line,
             int (*each)(void *ctx, const struct opt_row *row, int given, const char *text),
             void *ctx)
{
    const struct opt_row *r;
    void                 *field;
    int                   rc = 0;

    for (size_t i = 0; !rc && (r = row_of(line, i, &field)); i++) {
        char *text = opt_row_is_arg(r) ? NULL : opt_value_text(r, field);

        if (!opt_row_is_arg(r))
            rc = text ? each(ctx, r, line->given[i], text) : -ENOMEM;
        free(text);
    }
    return rc;
}

int opt_set(struct opt_line *line, const char *name, const char *text, struct err *err)
{
    void                 *field;
    const struct opt_row *r = row_of(line, row_number(line, name), &field);
    int                   rc = 0;
    char                 *lines, *at, *one;

    opt_value_release(r, field);
    if (!*text && (r->type == OPT_STRING || r->type == OPT_PATH))
        return 0;
    if (!opt_row_is_many(r))
        return opt_value_parse(r, text, field, err);
    lines = at = strdup(text);
    while (*text && lines && !rc && (one = strsep(&at, "\n")))
        rc = opt_value_parse(r, one, field, err);
    free(lines);
    return lines ? rc : opt_no_memory(err);
}

/* ---- through argtable2 ---- */

/* An entry for each row; ends with arg_end. */
static int table_make(const struct opt_command *cmd, int argc, void **table, size_t *n,
                      struct err *err)
{
    const struct opt_row *r;

    for (*n = 0; (r = opt_row_at(cmd, *n, NULL)); ++*n) {
        int is_arg = opt_row_is_arg(r);

        assert(*n < OPT_MAX_ROWS);
        table[*n] = r->type == OPT_FLAG
                        ? (void *)arg_lit0(NULL, r->name, NULL)
                        : arg_strn(NULL, is_arg ? NULL : r->name, NULL, is_arg,
                                   opt_row_is_many(r) ? argc + 1 : 1, NULL);
    }
    table[(*n)++] = arg_end(4);
    return arg_nullcheck(table) ? opt_no_memory(err) : 0;
}

/* What is left to go wrong after opt_scan: too many positional arguments, or too few. */
static int refuse_positional(const struct opt_command *cmd, void *const *table,
                             const struct arg_end *end, struct err *err)
{
    const struct opt_row *r;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (opt_row_is_arg(r) && !((const struct arg_str *)table[i])->count)
            return err_misuse(err, "%s is missing (%s); usage: siTrain %s %s", r->name, r->help,
                              cmd->name, cmd->usage);
    return err_misuse(err, "%s was not expected; usage: siTrain %s %s",
                      end->argval[0] ? end->argval[0] : "an argument", cmd->name, cmd->usage);
}

/* A row that was given another program's way is refused under both names. */
static int row_fill(const struct opt_row *r, const struct opt_alias *via, const void *entry,
                    void *field, struct err *err)
{
    const struct arg_str *s = entry;
    int                   rc = 0;

    if (r->type == OPT_FLAG)
        *(int *)field |= ((const struct arg_lit *)entry)->count > 0;
    for (int i = 0; r->type != OPT_FLAG && i < s->count && !rc; i++)
        rc = opt_value_parse(r, s->sval[i], field, err);
    return rc && via ? err_misuse(err, "%s (--%s is --%s here)", err->text, via->name, r->name)
                     : rc;
}

/* What was scanned into the options. */
static int fill(struct opt_line *l, const struct opt_scan *s, struct err *err)
{
    void                 *table[OPT_MAX_ROWS + 1] = { 0 }, *field;
    const struct opt_row *r;
    size_t                n = 0;
    int                   rc = table_make(l->cmd, s->argc, table, &n, err);

    if (!rc && arg_parse(s->argc, s->argv, table) && !s->file)
        rc = refuse_positional(l->cmd, table, table[n - 1], err);
    for (size_t i = 0; !rc && (r = row_of(l, i, &field)); i++)
        rc = row_fill(r, s->via[i], table[i], field, err);
    arg_freetable(table, n);
    return rc;
}

/* ---- options in a file ---- */

struct config { struct opt_line *line; struct opt_scan scan; };

static int config_option(void *ctx, const char *name, const char *value, struct err *err)
{
    struct config *c = ctx;
    char          *argv[] = { NULL, NULL, NULL };
    int            rc;

    if (asprintf(&argv[1], "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
        return opt_no_memory(err);
    rc = opt_scan(&c->scan, 2, argv, err);
    if (!rc && !strcmp(name, "config"))
        rc = err_misuse(err, "--config is for the command line: a file of options names no other");
    if (!rc)
        rc = fill(c->line, &c->scan, err);
    free(argv[1]);
    return rc;
}

/* The file that --config names, into the options. What the command line says, too, is read all the
 * same, so that a file is right or wrong by itself, and then forgotten. */
static int config_read(struct opt_line *l, const struct opt_scan *typed, struct err *err)
{
    struct config c = { l, { .cmd = l->cmd, .file = 1, .notices = &l->notices } };
    const struct opt_row *r;
    void                 *field;
    int                   rc = 0;

    for (int i = 1; i < typed->argc && strcmp(typed->argv[i], "--") && !rc; i++)
        if (!strncmp(typed->argv[i], "--config=", 9))
            rc = opt_file_each(typed->argv[i] + 9, config_option, &c, err);
    opt_scan_release(&c.scan);
    for (size_t i = 0; !rc && (r = row_of(l, i, &field)); i++) {
        l->given[i] = typed->given[i];
        if (typed->given[i] || (r->twin && typed->given[row_number(l, r->twin)]))
            opt_value_release(r, field);
        else
            l->given[i] = c.scan.given[i];
    }
    return rc;
}

int opt_parse(struct opt_line *l, struct err *err)
{
    struct opt_scan       typed = { .cmd = l->cmd, .notices = &l->notices };
    const struct opt_row *r;
    const char           *def;
    void                 *field;
    int                   rc;

    memset(l->options, 0, l->cmd->size);
    l->notices = NULL;
    rc = opt_scan(&typed, l->argc, l->argv, err);
    if (!rc)
        rc = config_read(l, &typed, err);
    if (!rc)
        rc = fill(l, &typed, err);
    for (size_t i = 0; !rc && (r = row_of(l, i, &field)); i++)
        if (!l->given[i] && (def = opt_row_default(l->cmd, r)))
            rc = opt_value_parse(r, def, field, err);
    opt_scan_release(&typed);
    if (rc)
        opt_release(l);
    return rc;
}

void opt_release(struct opt_line *l)
{
    const struct opt_row *r;
    void                 *field;

    for (size_t i = 0; (r = row_of(l, i, &field)); i++)
        opt_value_release(r, field);
    free(l->notices);
    l->notices = NULL;
}
