/* opt_alias.h: a command line in another program's words, rewritten into ours before it is read:
 * between opt.c and opt_alias.c only. */
#ifndef CMD_OPT_OPT_ALIAS_H
#define CMD_OPT_OPT_ALIAS_H

#include "cmd/opt/opt.h"

struct opt_rewrite {
    int    argc;
    char **argv;                                // (argc + 1): each string is ours
    const struct opt_alias *via[OPT_MAX_ROWS];  // which alias gave the row
    unsigned char           own[OPT_MAX_ROWS];  // the row was given by its own name
    char                   *notices;            // lines for stderr, once all is accepted
};

/* Rewrite argv up to "--" or --help; options that are no alias are copied. 0, or a misuse sentence:
 * an alias beside its row or a second time, a value that a translation refuses. To be released in
 * every case. */
int  opt_rewrite(struct opt_rewrite *w, const struct opt_command *cmd, int argc, char **argv,
                 struct err *err);
void opt_rewrite_release(struct opt_rewrite *w);

/* The notices of `from` behind those of `to`. */
int  opt_rewrite_join(struct opt_rewrite *to, const struct opt_rewrite *from, struct err *err);

/* A refusal that names a row says also by which name the row was given. */
void opt_rewrite_blame(const struct opt_rewrite *w, const struct opt_command *cmd, struct err *err);

#endif
