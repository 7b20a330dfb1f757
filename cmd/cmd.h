/* cmd.h: the commands. To add one: a file cmd/NAME.c with `const struct opt_command NAME_command`
 * and `cmd_NAME`, their two lines here, and a line in main.c's table. A command returns its exit
 * code: 0 done, 1 failed, 2 misuse, 130 interrupted after a clean stop. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "cmd/opt/opt.h"

extern const struct opt_command pretrain_command, finetune_command, eval_command, generate_command,
                                prepare_command, import_command, export_command, plan_command,
                                check_command, reshard_command, devices_command;

int cmd_pretrain(int argc, char **argv); // argv[0] is the command's name
int cmd_finetune(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_prepare(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_reshard(int argc, char **argv);
int cmd_devices(int argc, char **argv);

#endif
