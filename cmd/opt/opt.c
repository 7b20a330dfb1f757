/* opt.c: option rows, and the command line by them. A first pass (opt_scan) finds what is wrong
 * with its options, so that the sentence can name the option and what would work; argtable2 then
 * takes it apart, and each value is read by its row (opt_value.c).
 *
 * Invariant: strings in an options struct are always malloc'd, also defaults, so that opt_release
 * frees them all. */
#include "cmd/opt/opt_alias.h"
#include "cmd/opt/opt_file.h"
#include "cmd/opt/opt_value.h"

#include <argtable2.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

const struct opt_row *opt_row_at(const struct opt_command *cmd, size_t i, size_t *offset)
{
    for (const struct opt_part *p = cmd->parts; p && p->rows; p++)
        for (const struct opt_row *r = p->rows; r->type; r++)
            if (i-- == 0) {
                if (offset)
                    *offset = p->offset + r->offset;
                return r;
            }
    return NULL;
}

static int row_is_string(const struct opt_row *r)
{
    return r->type == OPT_STRING || r->type == OPT_CONFIG;
}

static int row_is_arg(const struct opt_row *r)
{
    return r->type == OPT_ARG || r->type == OPT_ARGS;
}

int opt_row_find(const struct opt_command *cmd, const char *name, size_t n)
{
    const struct opt_row *r;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!row_is_arg(r) && strlen(r->name) == n && !memcmp(r->name, name, n))
            return (int)i;
    return -1;
}

const char *opt_row_default(const struct opt_command *cmd, const struct opt_row *r)
{
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        if (!strcmp(d->row, r->name))
            return d->text;
    return r->def;
}

int opt_was_given(const struct opt_command *cmd, const struct opt_given *given, const char *name)
{
    int i = opt_row_find(cmd, name, strlen(name));

    assert(i >= 0);
    return given->row[i];
}

void opt_mark_given(const struct opt_command *cmd, struct opt_given *given, const char *name)
{
    int i = opt_row_find(cmd, name, strlen(name));

    assert(i >= 0);
    given->row[i] = 1;
}

/* ---- rows to text and back ---- */

static int strings_each(const struct opt_row *r, const struct opt_strings *s,
                        int (*each)(void *, const char *, const char *), void *ctx)
{
    size_t len = 1;
    char  *text, *at;
    int    rc;

    for (size_t i = 0; i < s->n; i++)
        len += strlen(s->item[i]) + 1;
    text = at = malloc(len);
    if (!text)
        return -ENOMEM;
    *at = '\0';
    for (size_t i = 0; i < s->n; i++)
        at += sprintf(at, "%s%s", i ? "\n" : "", s->item[i]);
    rc = each(ctx, r->name, text);
    free(text);
    return rc;
}

int opt_each(const struct opt_command *cmd, const void *options,
             int (*each)(void *ctx, const char *name, const char *text), void *ctx)
{
    const struct opt_row *r;
    size_t                offset;
    char                  buf[256];
    int                   rc = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, &offset)) && !rc; i++) {
        const void *field = (const char *)options + offset;

        if (row_is_arg(r) || r->type == OPT_LATER)
            continue;
        opt_value_text(r, field, buf, sizeof buf);
        if (r->type == OPT_STRINGS)
            rc = strings_each(r, field, each, ctx);
        else if (row_is_string(r))
            rc = each(ctx, r->name, *(const char *const *)field ? *(const char *const *)field : "");
        else
            rc = each(ctx, r->name, buf);
    }
    return rc;
}

int opt_set(const struct opt_command *cmd, void *options, const char *name, const char *text,
            struct err *err)
{
    int                   i = opt_row_find(cmd, name, strlen(name)), rc = 0;
    size_t                offset;
    const struct opt_row *r;
    char                 *field;

    if (i < 0)
        return err_misuse(err, "there is no option --%s", name);
    r = opt_row_at(cmd, (size_t)i, &offset);
    field = (char *)options + offset;
    if (row_is_string(r) && !*text) {
        free(*(char **)(void *)field);
        *(const char **)(void *)field = NULL;
        return 0;
    }
    if (r->type != OPT_STRINGS)
        return opt_value_parse(r, text, field, err);
    opt_strings_release((struct opt_strings *)(void *)field);
    while (*text && !rc) {
        size_t len = strcspn(text, "\n");

        rc = opt_strings_add((struct opt_strings *)(void *)field, text, len, err);
        text += len + (text[len] == '\n');
    }
    return rc;
}

/* ---- the command line ---- */

static int refuse_unknown(const struct opt_command *cmd, const char *arg, size_t name_len,
                          struct err *err)
{
    const char           *names[OPT_MAX_ROWS + OPT_MAX_ALIASES], *near;
    char                  typed[64];
    const struct opt_row *r;
    size_t                n = 0;

    snprintf(typed, sizeof typed, "%.*s", (int)name_len, arg);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!row_is_arg(r))
            names[n++] = r->name;
    for (const struct opt_alias *a = cmd->aliases; a && a->name; a++) {
        assert(n < OPT_MAX_ROWS + OPT_MAX_ALIASES);
        names[n++] = a->name;
    }
    near = opt_nearest(typed, names, n);
    if (near)
        return err_misuse(err, "there is no option --%s; did you mean --%s?", typed, near);
    return err_misuse(err, "there is no option --%s; siTrain %s --help lists them", typed,
                      cmd->name);
}

static int refuse_missing(const struct opt_row *r, const char *next, struct err *err)
{
    char        words[256];
    const char *what =
        r->type == OPT_WORD ? opt_words_text(words, sizeof words, r->words) : r->help;

    if (next)
        return err_misuse(err, "--%s needs a value but is followed by %s; it takes: %s", r->name,
                          next, what);
    return err_misuse(err, "--%s needs a value; it takes: %s", r->name, what);
}

/* One option at argv[i]: 0 or how many further arguments it takes (1), or the refusal. */
static int scan_option(const struct opt_command *cmd, int argc, char **argv, int i,
                       struct opt_given *given, struct err *err)
{
    const char           *name = argv[i] + 2, *value = strchr(name, '=');
    size_t                len = value ? (size_t)(value - name) : strlen(name);
    int                   found = opt_row_find(cmd, name, len);
    const struct opt_row *r;

    if (found < 0)
        return refuse_unknown(cmd, name, len, err);
    r = opt_row_at(cmd, (size_t)found, NULL);
    if (r->type == OPT_LATER)
        return err_misuse(err, "--%s is not in this version: %s", r->name, r->help);
    if (given->row[found] && r->type != OPT_STRINGS)
        return err_misuse(err, "--%s was given twice; expected it once", r->name);
    given->row[found] = 1;
    if (r->type == OPT_FLAG)
        return value ? err_misuse(err, "--%s takes no value, but was given %s", r->name, value + 1)
                     : 0;
    if (value && value[1])
        return 0;
    if (value || (i + 1 < argc && !*argv[i + 1]))
        return err_misuse(err, "--%s needs a value, but was given an empty one", r->name);
    if (i + 1 >= argc)
        return refuse_missing(r, NULL, err);
    if (!strncmp(argv[i + 1], "--", 2))
        return refuse_missing(r, argv[i + 1], err);
    return 1;
}

/* The options of the command line: 0, 1 if help is asked for, or the refusal. */
static int opt_scan(const struct opt_command *cmd, int argc, char **argv, struct opt_given *given,
                    struct err *err)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        int rc;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
        if (argv[i][0] != '-' || !argv[i][1])
            continue;
        if (argv[i][1] != '-')
            return err_misuse(err, "there is no option %s; options are written --name, and siTrain "
                              "%s --help lists them", argv[i], cmd->name);
        rc = scan_option(cmd, argc, argv, i, given, err);
        if (rc < 0)
            return rc;
        i += rc;
    }
    return 0;
}

/* argtable2's table for the rows; ends with arg_end. NULL entries for later options are not
 * there: they were refused. */
static int table_make(const struct opt_command *cmd, int argc, void **table, size_t *n,
                      struct err *err)
{
    const struct opt_row *r;
    size_t                at = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++) {
        int many = r->type == OPT_STRINGS || r->type == OPT_ARGS;

        assert(i < OPT_MAX_ROWS);
        if (r->type == OPT_FLAG || r->type == OPT_LATER)
            table[at++] = arg_lit0(NULL, r->name, NULL);
        else
            table[at++] = arg_strn(NULL, row_is_arg(r) ? NULL : r->name, NULL, row_is_arg(r),
                                   many ? argc + 1 : 1, NULL);
    }
    table[at++] = arg_end(4);
    *n = at;
    return arg_nullcheck(table) ? opt_no_memory(err) : 0;
}

/* What is left to go wrong after opt_scan: too many positional arguments, or too few. */
static int refuse_positional(const struct opt_command *cmd, void *const *table,
                             const struct arg_end *end, struct err *err)
{
    const struct opt_row *r;

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (row_is_arg(r) && !((const struct arg_str *)table[i])->count)
            return err_misuse(err, "%s is missing (%s); usage: siTrain %s %s", r->name, r->help,
                              cmd->name, cmd->usage);
    return err_misuse(err, "%s was not expected; usage: siTrain %s %s",
                      end->argval[0] ? end->argval[0] : "an argument", cmd->name, cmd->usage);
}

static int row_fill(const struct opt_row *r, const char *def, const void *entry, void *field,
                    struct err *err)
{
    const struct arg_str *s = entry;
    int                   rc = 0;

    if (r->type == OPT_LATER)
        return 0;
    if (r->type == OPT_FLAG) {
        *(int *)field = ((const struct arg_lit *)entry)->count > 0;
        return 0;
    }
    if (!s->count)
        return def ? opt_value_parse(r, def, field, err) : 0;
    for (int i = 0; i < s->count && !rc; i++)
        rc = opt_value_parse(r, s->sval[i], field, err);
    return rc;
}

static int opt_fill(const struct opt_command *cmd, int argc, char **argv, char *options,
                    struct err *err)
{
    void                 *table[OPT_MAX_ROWS + 1] = { 0 };
    const struct opt_row *r;
    size_t                n = 0, offset;
    int                   rc = table_make(cmd, argc, table, &n, err);

    if (!rc && arg_parse(argc, argv, table))
        rc = refuse_positional(cmd, table, table[n - 1], err);
    for (size_t i = 0; !rc && (r = opt_row_at(cmd, i, &offset)); i++)
        rc = row_fill(r, opt_row_default(cmd, r), table[i], options + offset, err);
    arg_freetable(table, n);
    return rc;
}

/* The command line in the names of rows. */
static int parse_rows(const struct opt_command *cmd, int argc, char **argv, void *options,
                      struct opt_given *given, struct err *err)
{
    int rc = opt_scan(cmd, argc, argv, given, err);

    if (rc)
        return rc;
    rc = opt_fill(cmd, argc, argv, options, err);
    if (rc)
        opt_release(cmd, options);
    return rc;
}

/* ---- options in a file ---- */

struct config {
    const struct opt_command *cmd;
    char                     *options;
    const struct opt_given   *typed; // rows that the command line gave: it has the last word
    struct opt_given          given; // rows that the file gave
    struct opt_rewrite       *said;  // gathers the notices
};

static void field_release(const struct opt_row *r, void *field)
{
    if (row_is_string(r) || r->type == OPT_ARG) {
        free(*(char **)field);
        *(char **)field = NULL;
    } else if (r->type == OPT_STRINGS || r->type == OPT_ARGS) {
        opt_strings_release(field);
    }
}

/* Whether the command line has said what this row of the file says. */
static int config_is_typed(const struct config *c, size_t row)
{
    const struct opt_row *r = opt_row_at(c->cmd, row, NULL);
    int                   twin = r->twin ? opt_row_find(c->cmd, r->twin, strlen(r->twin)) : -1;

    return c->typed->row[row] || (twin >= 0 && c->typed->row[twin]);
}

/* The value of a row; where the command line has said it, too, it must still be one. */
static int config_value(const struct config *c, size_t row, const char *text, struct err *err)
{
    union {
        uint64_t           n;
        double             x;
        int                word;
        struct opt_strings s;
        struct opt_warmup  w;
    } unused = { 0 };
    size_t                offset = 0;
    const struct opt_row *r = opt_row_at(c->cmd, row, &offset);
    int                   rc;

    if (!config_is_typed(c, row))
        return opt_value_parse(r, text, c->options + offset, err);
    rc = opt_value_parse(r, text, &unused, err);
    field_release(r, &unused);
    return rc;
}

/* One option as the command line would have it, in the names of rows: --name, or --name=VALUE. */
static int config_argument(struct config *c, char *argument, int on, struct err *err)
{
    char       *argv[] = { (char *)(uintptr_t)c->cmd->name, argument, NULL };
    const char *name = argument + 2, *value = strchr(name, '=');
    size_t      len = value ? (size_t)(value - name) : strlen(name);
    int         rc = scan_option(c->cmd, 2, argv, 1, &c->given, err), row;

    if (rc)
        return rc;
    row = opt_row_find(c->cmd, name, len);
    if (opt_row_at(c->cmd, (size_t)row, NULL)->type == OPT_CONFIG)
        return err_misuse(err, "--config is for the command line: a file of options names no "
                               "other");
    return config_value(c, (size_t)row, value ? value + 1 : on ? "1" : "0", err);
}

/* A flag is written as its name alone, or with 1 or 0: *on, and no value. */
static int config_flag(const struct config *c, const char *name, const char **value, int *on,
                       struct err *err)
{
    int                   row = opt_row_find(c->cmd, name, strlen(name)), rc;
    const struct opt_row *r = row < 0 ? NULL : opt_row_at(c->cmd, (size_t)row, NULL);

    *on = 1;
    if (!r || r->type != OPT_FLAG || !*value)
        return 0;
    rc = opt_value_parse(r, *value, on, err);
    *value = NULL;
    return rc;
}

static int config_option(void *ctx, const char *name, const char *value, struct err *err)
{
    struct config     *c = ctx;
    struct opt_rewrite w = { 0 };
    char              *argv[] = { (char *)(uintptr_t)c->cmd->name, NULL, NULL };
    int                on, rc = config_flag(c, name, &value, &on, err);

    if (rc)
        return rc;
    if (asprintf(&argv[1], "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
        return opt_no_memory(err);
    rc = opt_rewrite(&w, c->cmd, 2, argv, err);
    if (!rc && w.argc == 2 && (rc = config_argument(c, w.argv[1], on, err)) < 0)
        opt_rewrite_blame(&w, c->cmd, err);
    if (!rc)
        rc = opt_rewrite_join(c->said, &w, err);
    opt_rewrite_release(&w);
    free(argv[1]);
    return rc;
}

/* The file that --config names, under what the command line said. */
static int config_apply(const struct opt_command *cmd, void *options, struct opt_given *given,
                        struct opt_rewrite *said, struct err *err)
{
    struct config         c = { .cmd = cmd, .options = options, .typed = given, .said = said };
    const struct opt_row *r;
    size_t                offset;
    int                   rc = 0;

    for (size_t i = 0; (r = opt_row_at(cmd, i, &offset)) && !rc; i++)
        if (r->type == OPT_CONFIG && given->row[i])
            rc =
                opt_file_each(*(const char **)(void *)(c.options + offset), config_option, &c, err);
    for (size_t i = 0; opt_row_at(cmd, i, NULL); i++)
        c.given.row[i] &= !config_is_typed(&c, i);
    for (size_t i = 0; opt_row_at(cmd, i, NULL); i++)
        given->row[i] |= c.given.row[i];
    return rc;
}

int opt_parse(const struct opt_command *cmd, int argc, char **argv, void *options,
              struct opt_given *given, struct err *err)
{
    struct opt_given   unused, *g = given ? given : &unused;
    struct opt_rewrite w;
    int                rc;

    memset(options, 0, cmd->size);
    memset(g, 0, sizeof *g);
    for (const struct opt_default *d = cmd->defaults; d && d->row; d++)
        assert(opt_row_find(cmd, d->row, strlen(d->row)) >= 0);
    rc = opt_rewrite(&w, cmd, argc, argv, err);
    if (!rc && (rc = parse_rows(cmd, w.argc, w.argv, options, g, err)) < 0)
        opt_rewrite_blame(&w, cmd, err);
    if (!rc && (rc = config_apply(cmd, options, g, &w, err)))
        opt_release(cmd, options);
    if (!rc && w.notices)
        fputs(w.notices, stderr);
    opt_rewrite_release(&w);
    return rc;
}

void opt_release(const struct opt_command *cmd, void *options)
{
    const struct opt_row *r;
    size_t                offset;

    for (size_t i = 0; (r = opt_row_at(cmd, i, &offset)); i++)
        field_release(r, (char *)options + offset);
}

int opt_fail(const char *name, const struct err *err)
{
    fprintf(stderr, "siTrain %s: %s\n", name, err->text);
    return err->stopped ? 130 : err->misuse ? 2 : 1;
}

int opt_start(const struct opt_command *cmd, int argc, char **argv, void *options,
              struct opt_given *given)
{
    struct err err = { 0 };
    int        rc = opt_parse(cmd, argc, argv, options, given, &err);

    if (rc < 0)
        return opt_fail(cmd->name, &err);
    if (rc)
        opt_help(cmd, stdout);
    return rc ? 0 : -1;
}
