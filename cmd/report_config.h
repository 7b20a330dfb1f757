/* report_config.h: what makes a run again: its options, as a file that --config takes. */
#pragma once

#include "data/db/runlog.h"

/* Print the file for the run in `dir`, whose database is open as `log`. -ENOENT, with a sentence,
 * if the run does not keep what it was made from; -EBADMSG for what no line of a file can hold. */
int report_config_print(FILE *out, struct runlog *log, const char *dir, struct err *err);
