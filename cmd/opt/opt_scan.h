/* opt_scan.h: options as they were typed, or stand in a file, rewritten as a parser takes them:
 * every one as --row=VALUE or, of a flag, --row. What is wrong with a name, or with whether there
 * is a value, is refused here, because only here it is known what was typed and what would work. */
#ifndef CMD_OPT_OPT_SCAN_H
#define CMD_OPT_OPT_SCAN_H

#include "cmd/opt/opt_row.h"

struct opt_scan {
    const struct opt_command *cmd;
    int    file; // one line of a file: a flag may have the value 1 or 0, and --help is no option
    char **notices; // lines about aliases are added to this; malloced
    // what came of it
    int    argc;
    char **argv;                               // (argc + 1): each string is ours
    unsigned char given[OPT_MAX_ROWS];
    const struct opt_alias *via[OPT_MAX_ROWS]; // which alias gave the row
};

/* argv[0] is left out of account. Called again (a file has many lines) it makes another argv, and
 * rows stay given. 0; 1 if --help is asked for; or the refusal. To be released in every case. */
int  opt_scan(struct opt_scan *s, int argc, char **argv, struct err *err);
void opt_scan_release(struct opt_scan *s);

#endif
