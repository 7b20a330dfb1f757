/* opt_scan.c: from what was typed to rows. Another program's names (aliases) become the rows that
 * they stand for. What an alias changes nothing by, or changes in another way than there, is added
 * to the notices. */
#include "cmd/opt/opt_scan.h"
#include "cmd/opt/opt_value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VALUE_MAX = 256 }; // of a translation

/* One option as typed: a row or an alias. */
struct typed {
    const char             *name;    // as the row or the alias has it
    int                     row;     // -1: an alias that stands for none
    const struct opt_alias *alias;   // NULL: the row's own name
    int                     is_flag; // takes no value
    const char             *value;   // NULL: none was given
    int                     follows; // the value was an argument of its own
};

/* ---- names ---- */

/* A hyphen may stand for an underscore. */
static int name_is(const char *name, const char *typed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != typed[i] && !(name[i] == '_' && typed[i] == '-'))
            return 0; // also at the end of name, which no typed[i] equals
    return !name[n];
}

static int refuse_unknown(const struct opt_command *cmd, const char *name, size_t n,
                          struct err *err)
{
    const char           *names[OPT_MAX_ROWS + OPT_MAX_ALIASES], *near;
    char                  typed[64];
    const struct opt_row *r;
    size_t                count = 0;

    snprintf(typed, sizeof typed, "%.*s", (int)n, name);
    for (size_t i = 0; (r = opt_row_at(cmd, i, NULL)); i++)
        if (!opt_row_is_arg(r))
            names[count++] = r->name;
    for (const struct opt_alias *a = cmd->aliases; a && a->name; a++) {
        assert(count < OPT_MAX_ROWS + OPT_MAX_ALIASES);
        names[count++] = a->name;
    }
    near = opt_nearest(typed, names, count);
    if (near)
        return err_misuse(err, "there is no option --%s; did you mean --%s?", typed, near);
    return err_misuse(err, "--%s is not in this version: there is no option --%s; siTrain %s "
                      "--help lists them", typed, typed, cmd->name);
}

/* The row or the alias that name[0..n) is. */
static int name_find(const struct opt_command *cmd, struct typed *t, const char *name, size_t n,
                     struct err *err)
{
    t->row = opt_row_find(cmd, name, n);
    if (t->row >= 0) {
        const struct opt_row *r = opt_row_at(cmd, (size_t)t->row, NULL);

        t->name = r->name;
        t->is_flag = r->type == OPT_FLAG;
        return 0;
    }
    for (const struct opt_alias *a = cmd->aliases; a && a->name; a++)
        if (name_is(a->name, name, n)) {
            t->alias = a;
            t->name = a->name;
            t->is_flag = a->flag;
            t->row = a->row ? opt_row_find(cmd, a->row, strlen(a->row)) : -1;
            assert(!a->row || t->row >= 0);
            return 0;
        }
    return refuse_unknown(cmd, name, n, err);
}

/* ---- values ---- */

static int is_bool(const char *text)
{
    return !strcasecmp(text, "true") || !strcasecmp(text, "false");
}

/* Of an alias a truth value may follow a flag; of a row in a file, 1 or 0. */
static int flag_value(const struct opt_scan *s, struct typed *t, struct err *err)
{
    const char *value = t->value;

    if (!value || (t->alias && is_bool(value)))
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

static int refuse_missing(const struct opt_scan *s, const struct typed *t, struct err *err)
{
    const struct opt_row *r = t->row < 0 ? NULL : opt_row_at(s->cmd, (size_t)t->row, NULL);
    char                  words[256], what[512] = "", next[256] = "";

    if (t->value)
        snprintf(next, sizeof next, " but is followed by %s", t->value);
    if (r)
        snprintf(what, sizeof what, "; it takes: %s",
                 r->type == OPT_WORD ? opt_words_join(words, sizeof words, r->words, ", ", " or ")
                                     : r->help);
    return err_misuse(err, "--%s needs a value%s%s", t->name, next, what);
}

/* The value of the option at argv[i]: behind "=", or the next argument. */
static int value_take(const struct opt_scan *s, struct typed *t, int argc, char **argv, int i,
                      struct err *err)
{
    const char *equals = strchr(argv[i], '=');

    t->value = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
    t->follows = !equals && t->value;
    if (t->is_flag)
        return flag_value(s, t, err);
    if (!t->value || (t->follows && !strncmp(t->value, "--", 2)))
        return refuse_missing(s, t, err);
    if (!*t->value)
        return err_misuse(err, "--%s needs a value, but was given an empty one", t->name);
    return 0;
}

/* ---- what comes of it ---- */

static int argv_add(struct opt_scan *s, const char *before, const char *name, const char *value,
                    struct err *err)
{
    char *copy = NULL;

    if (asprintf(&copy, "%s%s%s%s", before, name, value ? "=" : "", value ? value : "") < 0)
        return opt_no_memory(err);
    s->argv[s->argc++] = copy;
    return 0;
}

/* One line more: as what the alias is taken, if it gives a row; and why. */
static int notice_add(struct opt_scan *s, const struct typed *t, const char *value, const char *why,
                      struct err *err)
{
    char *lines = NULL, *before = *s->notices ? *s->notices : (char *)(uintptr_t)"";
    int   n;

    if (!why || !*why)
        return 0;
    if (t->row >= 0)
        n = asprintf(&lines, "%ssiTrain %s: --%s is --%s%s%s here: %s\n", before, s->cmd->name,
                     t->name, t->alias->row, value ? " " : "", value ? value : "", why);
    else
        n = asprintf(&lines, "%ssiTrain %s: --%s changes nothing here: %s\n", before, s->cmd->name,
                     t->name, why);
    if (n < 0)
        return opt_no_memory(err);
    free(*s->notices);
    *s->notices = lines;
    return 0;
}

/* Nothing else may give the row, unless it is repeated. */
static int row_claim(struct opt_scan *s, const struct typed *t, struct err *err)
{
    const struct opt_alias *a = s->via[t->row];
    const struct opt_row   *r = opt_row_at(s->cmd, (size_t)t->row, NULL);
    int                     before = s->given[t->row] && !opt_row_is_many(r);

    s->given[t->row] = 1;
    s->via[t->row] = t->alias;
    if (!before)
        return 0;
    if (a == t->alias)
        return err_misuse(err, "--%s was given twice; expected it once", t->name);
    if (a && t->alias)
        return err_misuse(err, "--%s and --%s both stand for --%s; give one of them", a->name,
                          t->name, r->name);
    return err_misuse(err, "--%s and --%s are the same option; give one of them",
                      a ? a->name : t->name, r->name);
}

/* An alias's value as its row takes it, in *value. 1: it changes nothing, which was said. */
static int alias_value(struct opt_scan *s, struct typed *t, char *buf, const char **value,
                       struct err *err)
{
    const struct opt_alias *a = t->alias;
    const char             *why = a->row ? NULL : a->help;
    int                     rc = !a->row;

    if (a->flag && t->value && !strcasecmp(t->value, "false"))
        return 1; // as if it were not there
    *value = a->flag ? a->value : t->value;
    if (a->translate) {
        rc = a->translate(a->name, t->value, buf, VALUE_MAX, err);
        why = *value = buf;
    }
    if (rc <= 0)
        return rc;
    t->row = -1;
    rc = notice_add(s, t, NULL, why, err);
    return rc ? rc : 1;
}

static int option_take(struct opt_scan *s, struct typed *t, struct err *err)
{
    char        buf[VALUE_MAX] = "";
    const char *value = t->value;
    int         rc = t->alias ? alias_value(s, t, buf, &value, err) : 0;

    if (rc)
        return rc < 0 ? rc : 0;
    rc = row_claim(s, t, err);
    if (!rc && t->alias)
        rc = notice_add(s, t, value, t->alias->help, err);
    if (rc || (t->is_flag && !t->alias && value && !strcmp(value, "0")))
        return rc;
    return argv_add(s, "--", opt_row_at(s->cmd, (size_t)t->row, NULL)->name,
                    t->is_flag && !t->alias ? NULL : value, err);
}

/* The option at argv[i]: how many arguments it is (1 or 2), or the refusal. */
static int scan_option(struct opt_scan *s, int argc, char **argv, int i, struct err *err)
{
    struct typed t = { 0 };
    int          rc = name_find(s->cmd, &t, argv[i] + 2, strcspn(argv[i] + 2, "="), err);

    if (!rc)
        rc = value_take(s, &t, argc, argv, i, err);
    if (!rc)
        rc = option_take(s, &t, err);
    return rc ? rc : 1 + t.follows;
}

void opt_scan_release(struct opt_scan *s)
{
    for (int i = 0; i < s->argc; i++)
        free(s->argv[i]);
    free(s->argv);
    s->argv = NULL;
    s->argc = 0;
}

int opt_scan(struct opt_scan *s, int argc, char **argv, struct err *err)
{
    int i = 1, rc;

    opt_scan_release(s);
    s->argv = calloc((size_t)argc + 1, sizeof *s->argv);
    rc = s->argv ? argv_add(s, s->cmd->name, "", NULL, err) : opt_no_memory(err);
    while (!rc && i < argc && strcmp(argv[i], "--")) {
        if (!s->file && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")))
            return 1;
        if (argv[i][0] != '-' || !argv[i][1]) {
            rc = argv_add(s, argv[i++], "", NULL, err);
            continue;
        }
        if (argv[i][1] != '-')
            return err_misuse(err, "there is no option %s; options are written --name, and siTrain "
                              "%s --help lists them", argv[i], s->cmd->name);
        rc = scan_option(s, argc, argv, i, err);
        i += rc > 0 ? rc : 0;
        rc = rc < 0 ? rc : 0;
    }
    for (; i < argc && !rc; i++)
        rc = argv_add(s, argv[i], "", NULL, err);
    return rc;
}
