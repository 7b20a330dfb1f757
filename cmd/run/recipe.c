/* recipe.c: of the options that say what a run was made from, those that were given are kept. */
#include "cmd/run/recipe.h"

#include "cmd/run/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct keeping { struct session *s; const struct recipe *r; struct err *err; };

static int in_rows(const struct opt_row *rows, const char *name)
{
    for (; rows->name; rows++)
        if (!strcmp(rows->name, name))
            return 1;
    return 0;
}

/* What says where the run is, or how to read the options, is not what it is made from. */
int recipe_keeps(const char *name)
{
    static const char *const others[] = { "config", "run", "resume", "epochs", "max-seq" };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i], name))
            return 0;
    return !in_rows(train_rows, name);
}

static int keep(struct session *s, const char *name, const char *text, int path, struct err *err)
{
    char *full = path ? realpath(text, NULL) : NULL;
    int   rc = settings_set(s->log, err, "given.%s=%s", name, full ? full : text);

    free(full);
    return rc;
}

static int keep_option(void *ctx, const char *name, const char *text)
{
    struct keeping       *k = ctx;
    const struct opt_row *row;
    int                   path;

    if (!recipe_keeps(name) || !opt_was_given(k->r->cmd, k->r->given, name))
        return 0;
    row = opt_row_at(k->r->cmd, (size_t)opt_row_find(k->r->cmd, name, strlen(name)), NULL);
    path = row->arg && (strstr(row->arg, "FILE") || strstr(row->arg, "DIR"));
    return keep(k->s, name, text, path, k->err);
}

int recipe_store(struct session *s, const struct recipe *r, struct err *err)
{
    struct keeping k = { s, r, err };
    int            rc = r->cmd ? opt_each(r->cmd, r->opts, keep_option, &k) : 0;

    return rc || !r->init ? rc : keep(s, "init", r->init, 1, err);
}
