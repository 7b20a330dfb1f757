/* report.h: the command `siTrain report`. */
#ifndef CMD_REPORT_REPORT_H
#define CMD_REPORT_REPORT_H

#include "cmd/opt/opt.h"

extern const struct opt_command report_command;

int cmd_report(int argc, char **argv);

#endif
