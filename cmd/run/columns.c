/* columns.c: three names: asked for, stored, and asked for again by eval. */
#include "cmd/run/columns.h"

#include "cmd/run/settings.h"

#include <stdio.h>
#include <string.h>

const struct opt_row column_rows[] = {
    { "text-column", OPT_STRING, offsetof(struct task_names, text), .arg = "NAME",
      .help = "the column (of an object: the name) of the text; if not given sentence1 and "
              "sentence2, sentence, text, or the first two that are neither label nor id; of a "
              "run: as it was trained", .kept = OPT_SOURCE },
    { "pair-column", OPT_STRING, offsetof(struct task_names, pair), .arg = "NAME",
      .help = "of the second text, where rows are pairs", .kept = OPT_SOURCE },
    { "label-column", OPT_STRING, offsetof(struct task_names, label), .arg = "NAME",
      .help = "of the label, if it is not called label", .kept = OPT_SOURCE },
    { 0 }
};

static int same(const char *a, const char *b)
{
    return a && b && !strcmp(a, b);
}

int columns_check(const struct task_names *n, int own, struct err *err)
{
    const char *label = n->label ? n->label : "label";

    if (!own && (n->text || n->pair || n->label))
        return err_misuse(err,
                          "--%s-column is for rows of one's own: leave it out, or name their file",
                          n->text   ? "text"
                          : n->pair ? "pair"
                                    : "label");
    if (n->pair && !n->text)
        return err_misuse(err,
                          "--pair-column %s is the second text of a pair: --text-column NAME, "
                          "which says what the first is, is missing",
                          n->pair);
    if (same(n->text, n->pair) || same(n->text, label) || same(n->pair, label))
        return err_misuse(err,
                          "the column %s is asked for twice: the text, the second text and the "
                          "label (label, if --label-column names no other) are columns of their "
                          "own",
                          same(n->text, n->pair) ? n->text : label);
    return 0;
}

int columns_store(struct session *s, const struct task_names *n, struct err *err)
{
    int rc = n->text ? settings_set(s->log, err, "column.text=%s", n->text) : 0;

    if (!rc && n->pair)
        rc = settings_set(s->log, err, "column.pair=%s", n->pair);
    return rc || !n->label ? rc : settings_set(s->log, err, "column.label=%s", n->label);
}

void columns_load(struct task_names *out, const struct session *s)
{
    *out = (struct task_names){ .text = settings_get(s->log, "column.text"),
                                .pair = settings_get(s->log, "column.pair"),
                                .label = settings_get(s->log, "column.label") };
}
