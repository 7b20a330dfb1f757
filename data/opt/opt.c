/* opt.c: parses a command line and a file of options into an options struct. First it scans: every
 * option becomes an item, its row with its value, and other programs' names (aliases) become the
 * rows that they stand for. Wrong names, and missing or extra values, are refused there, because
 * only there it is known what was typed and what would work. Then each item is read by its row.
 *
 * Invariant: strings in an options struct are always malloc'd, also defaults, so that opt_release
 * frees them all. */
#include "data/opt/opt.h"
#include "data/opt/opt_file.h"
#include "data/opt/opt_known.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

enum { NAME_BYTES = 64, NAMES_BYTES = 16384 }; // a typed name; all names together

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

const char *opt_given_of(const struct opt_line *line, const struct opt_row *rows)
{
    while (rows->name && !opt_given(line, rows->name))
        rows++;
    return rows->name;
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
    char                 *at, *one;

    opt_value_release(r, field);
    if (!*text && (r->type == OPT_STRING || r->type == OPT_PATH))
        return 0;
    if (!opt_row_is_many(r))
        return opt_value_parse(r, text, field, err);
    char *lines = at = strdup(text);
    while (*text && lines && !rc && (one = strsep(&at, "\n")))
        rc = opt_value_parse(r, one, field, err);
    free(lines);
    return lines ? rc : opt_no_memory(err);
}

/* ---- what was typed ---- */

/* An option or a positional argument. row -1: no row takes this argument; value NULL: a flag's. */
struct item { int row; char *value; };

struct scan {
    struct opt_line *line;
    int    file; // one line of a file: a flag may have the value 1 or 0, and --help is no option
    struct item *item; // (n) in the order in which they were typed
    size_t n;
    unsigned char given[OPT_MAX_ROWS];
    char   via[OPT_MAX_ROWS][NAME_BYTES]; // the alias that gave the row; "": none
};

/* One option as typed: a row or an alias. */
struct typed {
    char                    name[NAME_BYTES]; // as the row or the alias spells it
    int                     row;              // its number
    const struct opt_row   *r;                // NULL: an alias without a row
    const struct opt_alias *alias;            // NULL: the row's own name
    int                     is_flag;          // takes no value
    const char             *value;            // NULL: none was given
    int                     follows;          // the value was an argument of its own
    struct opt_taken        taken;            // passes through the alias
};

static int refuse_unknown(const struct opt_command *cmd, const char *typed, struct err *err)
{
    char                  all[NAMES_BYTES] = "", answer[256];
    const struct opt_row *r;
    size_t                n = 0;

    if (opt_known(cmd, typed, answer, sizeof answer))
        return err_misuse(err, "there is no option --%s: %s", typed, answer);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        n += opt_row_is_arg(r) ? 0 : (size_t)snprintf(all + n, sizeof all - n, "%s ", r->name);
    for (const struct opt_alias *a = cmd->aliases; a && a->names; a++) {
        n += (size_t)snprintf(all + n, sizeof all - n, "%s ", a->names);
        assert(n < sizeof all);
    }
    const char *near = opt_nearest(typed, all);
    if (near)
        return err_misuse(err, "there is no option --%s; did you mean --%s?", typed, near);
    return err_misuse(err, "there is no option --%s; siTrain %s --help all lists all "
                      "options", typed, cmd->name);
}

static int name_find(const struct opt_command *cmd, struct typed *t, const char *name, size_t n,
                     struct err *err)
{
    size_t length;

    snprintf(t->name, sizeof t->name, "%.*s", (int)n, name);
    t->row = opt_row_find(cmd, name, n);
    for (const struct opt_alias *a = cmd->aliases; t->row < 0 && !t->alias && a && a->names; a++)
        for (const char *at = a->names; !t->alias && (length = opt_alias_next(&at));)
            if (length == n && opt_name_is(at - n, name, n)) {
                snprintf(t->name, sizeof t->name, "%.*s", (int)n, at - n);
                t->alias = a;
                t->is_flag = *at == '?';
                t->row = a->row ? opt_row_find(cmd, a->row, strlen(a->row)) : -1;
                assert(!a->row || t->row >= 0);
            }
    if (t->row < 0)
        return t->alias ? 0 : refuse_unknown(cmd, t->name, err);
    t->r = opt_row_at(cmd, (size_t)t->row, NULL);
    t->is_flag |= !t->alias && t->r->type == OPT_FLAG;
    return 0;
}

/* Takes a flag's value: an alias may have a truth value, a row in a file 1 or 0. */
static int flag_value(const struct scan *s, struct typed *t, struct err *err)
{
    const char *value = t->value;

    if (!value || (t->alias && (!strcasecmp(value, "true") || !strcasecmp(value, "false"))))
        return 0;
    if (t->follows) {
        t->value = NULL;
        t->follows = 0;
        return 0;
    }
    if (t->alias)
        return err_misuse(err, "--%s=%s: expected True or False, or no value", t->name, value);
    if (!s->file)
        return err_misuse(err, "--%s takes no value, but was given %s", t->name, value);
    return !strcmp(value, "1") || !strcmp(value, "0")
               ? 0
               : err_misuse(err, "--%s %s: expected 0 or 1", t->name, value);
}

/* The first sentence of the row's help, to be part of another sentence. */
static const char *help_within(const struct opt_row *r, char *buf, size_t size)
{
    char        full[OPT_HELP_BYTES];
    const char *help = opt_row_help(r, full, sizeof full);

    snprintf(buf, size, "%.*s", (int)opt_sentence(help), help);
    if (*buf && islower((unsigned char)buf[1]))
        buf[0] = (char)tolower((unsigned char)buf[0]);
    return buf;
}

static int refuse_missing(const struct typed *t, struct err *err)
{
    const struct opt_row *r = t->r;
    char                  words[512];
    const char           *what = r ? help_within(r, words, sizeof words) : "";

    if (r && r->type == OPT_WORD)
        what = opt_words_join(words, sizeof words, r->words, ", ", " or ");
    return err_misuse(err, "--%s needs a value%s%s%s%s", t->name,
                      t->value ? " but is followed by " : "", t->value ? t->value : "",
                      r ? "; it takes: " : "", what);
}

/* Takes the value of the option argv[0]: behind "=", or the next argument. */
static int value_take(const struct scan *s, struct typed *t, char **argv, struct err *err)
{
    const char *equals = strchr(argv[0], '=');

    t->value = equals ? equals + 1 : argv[1];
    t->follows = !equals && t->value;
    if (t->is_flag)
        return flag_value(s, t, err);
    if (!t->value || (t->follows && !strncmp(t->value, "--", 2)))
        return refuse_missing(t, err);
    if (!*t->value)
        return err_misuse(err, "--%s needs a value, but was given an empty one", t->name);
    return 0;
}

static int item_add(struct scan *s, int row, const char *value, struct err *err)
{
    char *copy = value ? strdup(value) : NULL;

    if (value && !copy)
        return opt_no_memory(err);
    s->item[s->n++] = (struct item){ row, copy };
    return 0;
}

/* Adds a notice: what the alias is taken as, if it has a row, and why. */
static int notice_add(struct opt_line *l, const struct typed *t, const char *value,
                      const char *why, struct err *err)
{
    int   row = t->r != NULL;
    char *lines = NULL;

    if (!why || !*why)
        return 0;
    if (asprintf(&lines, "%ssiTrain %s: --%s %s%s%s%s here: %s\n", l->notices ? l->notices : "",
                 l->cmd->name, t->name, row ? "is --" : "changes nothing", row ? t->alias->row : "",
                 row && value ? " " : "", row && value ? value : "", why) < 0)
        return opt_no_memory(err);
    free(l->notices);
    l->notices = lines;
    return 0;
}

/* Marks the row as given. It may be given only once, unless it is repeated. */
static int row_claim(struct scan *s, const struct typed *t, struct err *err)
{
    const char *name = t->alias ? t->name : "";
    char        before[NAME_BYTES];
    int         first = !s->given[t->row] || opt_row_is_many(t->r);

    memcpy(before, s->via[t->row], sizeof before);
    snprintf(s->via[t->row], sizeof before, "%s", name);
    s->given[t->row] = 1;
    if (first)
        return 0;
    if (!strcmp(before, name))
        return err_misuse(err, "--%s was given twice; expected it once", t->name);
    if (*before && *name)
        return err_misuse(err, "--%s and --%s both stand for --%s; give one of them", before,
                          t->name, t->r->name);
    return err_misuse(err, "--%s and --%s are the same option; give one of them",
                      *before ? before : t->name, t->r->name);
}

/* Translates t->value to what the alias's row takes. 1: the option changes nothing, which a notice
 * said. */
static int alias_value(struct scan *s, struct typed *t, struct err *err)
{
    const struct opt_alias *a = t->alias;
    const char             *why = a->help;
    int                     rc = !a->row;

    if (t->is_flag && t->value && !strcasecmp(t->value, "false"))
        return 1; // as if it were not given
    if (t->is_flag)
        t->value = a->value;
    if (a->translate) {
        t->taken = (struct opt_taken){ t->name, t->value, a->words, a->help, "" };
        rc = a->translate(&t->taken, err);
        why = t->value = t->taken.out;
    }
    if (rc <= 0)
        return rc;
    t->r = NULL;
    rc = notice_add(s->line, t, NULL, why, err);
    return rc ? rc : 1;
}

/* Scans the option argv[0]. The next argument may be its value. */
static int option_scan(struct scan *s, struct typed *t, char **argv, struct err *err)
{
    int rc = name_find(s->line->cmd, t, argv[0] + 2, strcspn(argv[0] + 2, "="), err);

    rc = rc ? rc : value_take(s, t, argv, err);
    if (!rc && t->alias)
        rc = alias_value(s, t, err);
    if (rc)
        return rc < 0 ? rc : 0;
    rc = row_claim(s, t, err);
    if (!rc && t->alias)
        rc = notice_add(s->line, t, t->value, t->alias->help, err);
    if (!rc && t->is_flag && !t->alias) {
        if (t->value && !strcmp(t->value, "0"))
            return 0;
        t->value = NULL;
    }
    return rc ? rc : item_add(s, t->row, t->value, err);
}

/* Adds a positional argument. The first row that can have one more takes it. */
static int arg_add(struct scan *s, const char *value, struct err *err)
{
    const struct opt_row *r;
    size_t                i = 0;

    while ((r = opt_row_at(s->line->cmd, i, NULL)) &&
           (!opt_row_is_arg(r) || (s->given[i] && !opt_row_is_many(r))))
        i++;
    if (r)
        s->given[i] = 1;
    return item_add(s, r ? (int)i : -1, value, err);
}

static void scan_release(struct scan *s)
{
    for (size_t k = 0; k < s->n; k++)
        free(s->item[k].value);
    free(s->item);
    s->item = NULL;
    s->n = 0;
}

/* Scans all arguments except argv[0]. Called again (a file has many lines), it makes other items,
 * and given rows stay given. 0; 1 if --help is asked for; or a refusal. The caller always releases
 * it. */
static int scan(struct scan *s, int argc, char **argv, struct err *err)
{
    int i = 1, rc;

    scan_release(s);
    s->item = calloc((size_t)argc + 1, sizeof *s->item);
    for (rc = s->item ? 0 : opt_no_memory(err); !rc && i < argc && strcmp(argv[i], "--"); i++) {
        struct typed t = { .follows = 0 };

        if (!s->file && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            s->line->help_all = i + 1 < argc && !strcmp(argv[i + 1], "all");
            return 1;
        }
        if (argv[i][0] != '-' || !argv[i][1])
            rc = arg_add(s, argv[i], err);
        else if (argv[i][1] != '-')
            rc = err_misuse(err, "there is no option %s; options are written --name, and siTrain "
                            "%s --help all lists them", argv[i], s->line->cmd->name);
        else
            rc = option_scan(s, &t, argv + i, err);
        i += t.follows;
    }
    for (i++; i < argc && !rc; i++) // behind "--"
        rc = arg_add(s, argv[i], err);
    return rc;
}

/* ---- what was scanned ---- */

static const struct opt_row *option_of(const struct scan *s, size_t k)
{
    int                   row = s->item[k].row;
    const struct opt_row *r = row < 0 ? NULL : opt_row_at(s->line->cmd, (size_t)row, NULL);

    return r && !opt_row_is_arg(r) ? r : NULL;
}

/* Item k was not expected. A shell writes --data *.txt as --data a.txt b.txt. */
static int refuse_extra(const struct scan *s, size_t k, struct err *err)
{
    const struct opt_command *cmd = s->line->cmd;
    const char               *extra = s->item[k].value;
    size_t                    at = k;

    while (at > 0 && !option_of(s, at - 1))
        at--;
    const struct opt_row *r = at ? option_of(s, at - 1) : NULL;
    if (r && opt_row_is_many(r))
        return err_misuse(err, "%s was not expected: --%s takes one value, and is repeated for "
                          "another one: --%s %s", extra, r->name, r->name, extra);
    if (r && at == k && !s->item[k - 1].value)
        return err_misuse(err, "--%s takes no value: %s was not expected; usage: siTrain %s %s",
                          r->name, extra, cmd->name, cmd->usage);
    return err_misuse(err, "%s was not expected; usage: siTrain %s %s", extra, cmd->name,
                      cmd->usage);
}

static int args_check(const struct scan *s, struct err *err)
{
    const struct opt_command *cmd = s->line->cmd;
    const struct opt_row     *r;
    char                      what[512];

    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (opt_row_is_arg(r) && !r->def && !s->given[i])
            return err_misuse(err, "%s is missing (%s); usage: siTrain %s %s", r->name,
                              help_within(r, what, sizeof what), cmd->name, cmd->usage);
    for (size_t k = 0; k < s->n; k++)
        if (s->item[k].row < 0)
            return refuse_extra(s, k, err);
    return 0;
}

/* Fills the options with what was scanned. A row given through an alias is refused under both
 * names. */
static int fill(const struct scan *s, struct err *err)
{
    const struct opt_row *r;
    void                 *field;
    int                   rc = s->file ? 0 : args_check(s, err);

    for (size_t i = 0; !rc && (r = row_of(s->line, i, &field)); i++) {
        assert(i < OPT_MAX_ROWS);
        for (size_t k = 0; k < s->n && !rc; k++) {
            const char *value = r->type == OPT_FLAG ? "1" : s->item[k].value;

            if (s->item[k].row != (int)i)
                continue;
            rc = opt_value_parse(r, value, field, err);
            if (!rc && r->type == OPT_PATHS)
                rc = opt_place_typed(r->name, value, err);
        }
        if (rc && *s->via[i])
            err_misuse(err, "%s (--%s is --%s here)", err->text, s->via[i], r->name);
    }
    return rc;
}

/* ---- options in a file ---- */

static int config_option(void *ctx, const char *name, const char *value, struct err *err)
{
    char *argv[] = { NULL, NULL, NULL };

    if (asprintf(&argv[1], "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
        return opt_no_memory(err);
    int rc = scan(ctx, 2, argv, err);
    if (!rc && !strcmp(name, "config"))
        rc = err_misuse(err, "--config is for the command line: a file of options names no other");
    rc = rc ? rc : fill(ctx, err);
    free(argv[1]);
    return rc;
}

/* Reads the file of --config into the options. Options that the command line has, too, are read all
 * the same, so that a file is right or wrong by itself, and are then dropped. */
static int config_read(const struct scan *typed, struct err *err)
{
    struct opt_line      *l = typed->line;
    struct scan           file = { .line = l, .file = 1 };
    const struct opt_row *r;
    void                 *field;
    int                   rc = 0;

    for (size_t k = 0; k < typed->n && !rc; k++)
        if ((r = option_of(typed, k)) && !strcmp(r->name, "config") && r->type == OPT_PATH)
            rc = opt_file_each(typed->item[k].value, config_option, &file, err);
    scan_release(&file);
    for (size_t i = 0; !rc && (r = row_of(l, i, &field)); i++) {
        l->given[i] = typed->given[i] || file.given[i];
        if (typed->given[i] || (r->twin && typed->given[row_number(l, r->twin)])) {
            l->given[i] = typed->given[i];
            opt_value_release(r, field);
        }
    }
    return rc;
}

int opt_parse(struct opt_line *l, struct err *err)
{
    struct scan           typed = { .line = l };
    const struct opt_row *r;
    const char           *def;
    void                 *field;

    memset(l->options, 0, l->cmd->size);
    l->notices = NULL;
    int rc = scan(&typed, l->argc, l->argv, err);
    rc = rc ? rc : config_read(&typed, err);
    rc = rc ? rc : fill(&typed, err);
    for (size_t i = 0; !rc && (r = row_of(l, i, &field)); i++)
        if (!l->given[i] && (def = opt_row_default(l->cmd, r)))
            rc = opt_value_parse(r, def, field, err);
    scan_release(&typed);
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
