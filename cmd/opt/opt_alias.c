/* opt_alias.c: another program's option names. Each is replaced by the row that it stands for, as
 * one argument --row=VALUE, so that all that follows (scan, refusals, values, what was given) knows
 * rows only. What an alias changes nothing by, or changes in another way than there, is gathered as
 * notices: lines that are printed once the whole command line is accepted. */
#include "cmd/opt/opt_alias.h"
#include "cmd/opt/opt_value.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { VALUE_MAX = 256 }; // of a translation

/* One option as typed. */
struct typed {
    const struct opt_alias *alias;
    const char             *value;   // NULL: none was given
    int                     follows; // the value was an argument of its own
};

/* A hyphen may stand for an underscore. */
static int name_is(const char *name, const char *typed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != typed[i] && !(name[i] == '_' && typed[i] == '-'))
            return 0; // also at the end of name, which no typed[i] equals
    return !name[n];
}

static const struct opt_alias *alias_find(const struct opt_command *cmd, const char *typed,
                                          size_t n)
{
    for (const struct opt_alias *a = cmd->aliases; a && a->name; a++)
        if (name_is(a->name, typed, n))
            return a;
    return NULL;
}

static int is_bool(const char *text)
{
    return !strcasecmp(text, "true") || !strcasecmp(text, "false");
}

/* The value of an alias at argv[i]: behind "=", or the next argument; for a flag only if that is a
 * truth value. */
static int value_take(struct typed *t, int argc, char **argv, int i, struct err *err)
{
    const char *equals = strchr(argv[i], '='), *next = i + 1 < argc ? argv[i + 1] : NULL;

    t->value = equals ? equals + 1 : next;
    t->follows = !equals && next;
    if (t->alias->flag) {
        if (equals && !is_bool(t->value))
            return err_misuse(err, "--%s=%s: expected True or False, or no value", t->alias->name,
                              t->value);
        if (t->value && !is_bool(t->value)) {
            t->value = NULL;
            t->follows = 0;
        }
        return 0;
    }
    if (!t->value)
        return err_misuse(err, "--%s needs a value", t->alias->name);
    if (t->follows && !strncmp(next, "--", 2))
        return err_misuse(err, "--%s needs a value but is followed by %s", t->alias->name, next);
    return *t->value
               ? 0
               : err_misuse(err, "--%s needs a value, but was given an empty one", t->alias->name);
}

/* ---- what is written ---- */

static int argv_add(struct opt_rewrite *w, const char *prefix, const char *name, const char *value,
                    struct err *err)
{
    char *copy = NULL;

    if (asprintf(&copy, "%s%s%s%s", prefix, name, value ? "=" : "", value ? value : "") < 0)
        return opt_no_memory(err);
    w->argv[w->argc++] = copy;
    return 0;
}

/* One line more: as what the alias is taken, if it gives a row; and why. */
static int notice_add(struct opt_rewrite *w, const struct opt_command *cmd,
                      const struct opt_alias *a, const char *row, const char *value,
                      const char *why, struct err *err)
{
    const char *before = w->notices ? w->notices : "";
    char       *lines = NULL;
    int         n;

    if (row)
        n = asprintf(&lines, "%ssiTrain %s: --%s is --%s%s%s here: %s\n", before, cmd->name,
                     a->name, row, value ? " " : "", value ? value : "", why);
    else
        n = asprintf(&lines, "%ssiTrain %s: --%s changes nothing here: %s\n", before, cmd->name,
                     a->name, why);
    if (n < 0)
        return opt_no_memory(err);
    free(w->notices);
    w->notices = lines;
    return 0;
}

/* An alias gives row number `row`: nothing else may. */
static int row_claim(struct opt_rewrite *w, const struct opt_alias *a, int row, struct err *err)
{
    const struct opt_alias *before = w->via[row];

    if (before == a)
        return err_misuse(err, "--%s was given twice; expected it once", a->name);
    if (before)
        return err_misuse(err, "--%s and --%s both stand for --%s; give one of them", before->name,
                          a->name, a->row);
    w->via[row] = a;
    return 0;
}

/* The alias changes nothing: said, where there is something to say. */
static int alias_drop(struct opt_rewrite *w, const struct opt_command *cmd,
                      const struct opt_alias *a, const char *why, struct err *err)
{
    return why && *why ? notice_add(w, cmd, a, NULL, NULL, why, err) : 0;
}

static int alias_write(struct opt_rewrite *w, const struct opt_command *cmd, const struct typed *t,
                       struct err *err)
{
    const struct opt_alias *a = t->alias;
    const char             *value = a->flag ? a->value : t->value;
    char                    ours[VALUE_MAX] = "";
    int                     rc = 0, row;

    if (a->flag && t->value && !strcasecmp(t->value, "false"))
        return 0; // as if it were not there
    if (a->translate) {
        rc = a->translate(a->name, t->value, ours, sizeof ours, err);
        value = ours;
    }
    if (rc)
        return rc < 0 ? rc : alias_drop(w, cmd, a, ours, err);
    if (!a->row)
        return alias_drop(w, cmd, a, a->help, err);
    row = opt_row_find(cmd, a->row, strlen(a->row));
    assert(row >= 0);
    rc = row_claim(w, a, row, err);
    if (!rc)
        rc = argv_add(w, "--", a->row, value, err);
    return rc || !a->help ? rc : notice_add(w, cmd, a, a->row, value, a->help, err);
}

/* ---- the pass ---- */

/* One argument: how many it was (1 or 2), or the refusal. */
static int rewrite_one(struct opt_rewrite *w, const struct opt_command *cmd, int argc, char **argv,
                       int i, struct err *err)
{
    const char  *name = argv[i] + 2;
    size_t       len = strncmp(argv[i], "--", 2) ? 0 : strcspn(name, "=");
    int          row = len ? opt_row_find(cmd, name, len) : -1, rc;
    struct typed t = { .alias = len && row < 0 ? alias_find(cmd, name, len) : NULL };

    if (row >= 0)
        w->own[row] = 1;
    if (!t.alias) {
        rc = argv_add(w, argv[i], "", NULL, err);
        return rc ? rc : 1;
    }
    rc = value_take(&t, argc, argv, i, err);
    if (!rc)
        rc = alias_write(w, cmd, &t, err);
    return rc ? rc : 1 + t.follows;
}

static int refuse_both(const struct opt_rewrite *w, struct err *err)
{
    for (size_t row = 0; row < OPT_MAX_ROWS; row++)
        if (w->via[row] && w->own[row])
            return err_misuse(err, "--%s and --%s are the same option; give one of them",
                              w->via[row]->name, w->via[row]->row);
    return 0;
}

int opt_rewrite(struct opt_rewrite *w, const struct opt_command *cmd, int argc, char **argv,
                struct err *err)
{
    int i = 0, rc = 0;

    *w = (struct opt_rewrite){ .argv = calloc((size_t)argc + 1, sizeof *w->argv) };
    if (!w->argv)
        return opt_no_memory(err);
    while (i < argc && rc >= 0 && strcmp(argv[i], "--") && strcmp(argv[i], "--help") &&
           strcmp(argv[i], "-h")) {
        rc = rewrite_one(w, cmd, argc, argv, i, err);
        i += rc;
    }
    for (; i < argc && rc >= 0; i++)
        rc = argv_add(w, argv[i], "", NULL, err);
    return rc < 0 ? rc : refuse_both(w, err);
}

int opt_rewrite_join(struct opt_rewrite *to, const struct opt_rewrite *from, struct err *err)
{
    char *lines = NULL;

    if (!from->notices)
        return 0;
    if (asprintf(&lines, "%s%s", to->notices ? to->notices : "", from->notices) < 0)
        return opt_no_memory(err);
    free(to->notices);
    to->notices = lines;
    return 0;
}

void opt_rewrite_release(struct opt_rewrite *w)
{
    for (int i = 0; i < w->argc; i++)
        free(w->argv[i]);
    free(w->argv);
    free(w->notices);
    *w = (struct opt_rewrite){ 0 };
}

void opt_rewrite_blame(const struct opt_rewrite *w, const struct opt_command *cmd, struct err *err)
{
    const struct opt_alias *a;

    for (size_t i = 0; opt_row_at(cmd, i, NULL); i++) {
        size_t n = w->via[i] ? strlen(w->via[i]->row) : 0;

        a = w->via[i];
        if (!a || strncmp(err->text, "--", 2) || strncmp(err->text + 2, a->row, n) ||
            !strchr(" :", err->text[2 + n]))
            continue;
        err_misuse(err, "%s (--%s is --%s here)", err->text, a->name, a->row);
        return;
    }
}
