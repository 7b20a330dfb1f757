/* cmd.h: the commands. To add one: a file cmd/NAME.c that defines `const struct opt_command
 * NAME_command` (export.c is a short one), and a row here. Exit codes: 0 done, 1 failed, 2 misuse,
 * 130 interrupted after a clean stop. */
#pragma once

#include "data/base/json.h"
#include "data/opt/opt.h"

// in the order of --help
#define COMMANDS(ROW)                                                                              \
    ROW(pretrain) ROW(finetune) ROW(eval) ROW(generate) ROW(prepare) ROW(import) ROW(export)       \
    ROW(plan) ROW(report) ROW(watch) ROW(check) ROW(reshard) ROW(devices) ROW(bench)

#define COMMAND_DECLARED(name) extern const struct opt_command name##_command;
COMMANDS(COMMAND_DECLARED)

extern const struct opt_alias run_glue_aliases[]; // run_glue.c: finetune takes them

/* report_config.c: print the options of the run in `dir`, whose database is open as `log`, as a
 * file that --config takes. -ENOENT, with a sentence, if the run does not keep what it was made
 * from; -EBADMSG for what no line of a file can hold. */
struct runlog;
int report_config_print(struct runlog *log, const char *dir, struct err *err);

/* plan_machine.c: how long a step takes on a machine in the session's mode, or in all that have
 * devices; and the same for people. */
struct session;
struct forecast_machine;
struct mem_choice;
int  plan_machine(json_t **out, const struct session *s, const struct forecast_machine *m,
                  int compare, struct err *err);
void plan_machine_print(const json_t *found);

/* plan_time.c: the step of the session, part by part, what sets its pace, what more memory, a drive
 * or a core would bring, what is the largest that fits (disk: bytes of all drives together that are
 * free; 0: not known), how long drives last, what it would be in mem, all into *found; and the same
 * for people. */
int  plan_time(json_t *found, const struct session *s, const struct forecast_machine *m,
               const struct mem_choice *mem, uint64_t disk, struct err *err);
void plan_time_print(const json_t *found);

/* plan_answer.c: the first lines: time (found; NULL: not known), memory, disk, what is written, and
 * whether mem fits. */
struct budget;
int plan_answer_print(const struct session *s, const struct budget *b, const struct mem_choice *mem,
                      const json_t *found, struct err *err);
