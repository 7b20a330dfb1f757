/* recipe.c: of the options that say what a run was made from, those that were given are kept. */
#include "cmd/run/recipe.h"

#include "cmd/run/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct keeping { struct session *s; struct err *err; };

static int keep(struct session *s, const char *name, const char *text, int path, struct err *err)
{
    char *full = path ? realpath(text, NULL) : NULL;
    int   rc = settings_set(s->log, err, "given.%s=%s", name, full ? full : text);

    free(full);
    return rc;
}

static int keep_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct keeping *k = ctx;

    return row->kept == OPT_SOURCE && given
               ? keep(k->s, row->name, text, row->type == OPT_PATH, k->err)
               : 0;
}

int recipe_store(struct session *s, const struct recipe *r, struct err *err)
{
    struct keeping k = { s, err };
    int            rc = r->line ? opt_each(r->line, keep_option, &k) : 0;

    return rc || !r->init ? rc : keep(s, "init", r->init, 1, err);
}
