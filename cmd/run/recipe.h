/* recipe.h: what makes a run again: the options that it was made with, as a file that --config
 * takes. Those of training are kept as option.NAME and as they are now (session.h); of the others,
 * which say what the run was made from, those that were given are kept as given.NAME, paths in
 * full. */
#ifndef CMD_RUN_RECIPE_H
#define CMD_RUN_RECIPE_H

#include "cmd/run/session.h"

/* A command line, or what stands for one. The zero state: a run that nobody asks for again. */
struct recipe {
    const struct opt_line *line;
    const char            *init; // a folder to begin with that is no option of the line's, or NULL
};

/* Keep the options of a run that is being made. */
int recipe_store(struct session *s, const struct recipe *r, struct err *err);

#endif
