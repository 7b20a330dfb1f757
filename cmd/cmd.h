/* cmd.h: the commands. To add one: a file cmd/NAME.c that defines `const struct opt_command
 * NAME_command` (export.c is a short one), and a row here. Exit codes: 0 done, 1 failed, 2 misuse,
 * 130 interrupted after a clean stop. */
#pragma once

#include "chat/rows.h"
#include "data/json/json.h"
#include "data/opt/opt.h"

// in the order of --help
#define COMMANDS(ROW)                                                                              \
    ROW(pretrain) ROW(finetune) ROW(eval) ROW(generate) ROW(prepare) ROW(import) ROW(export)       \
    ROW(plan) ROW(report) ROW(watch) ROW(check) ROW(reshard) ROW(snapshots) ROW(restore)    \
    ROW(devices) ROW(bench)

#define COMMAND_DECLARED(name) extern const struct opt_command name##_command;
COMMANDS(COMMAND_DECLARED)

extern const struct opt_alias run_glue_aliases[]; // run_glue.c: finetune takes them

/* report_config.c: print the options of the run in `dir`, whose database is open as `log`, as a
 * file that --config takes. -ENOENT, with a sentence, if the run does not keep what it was made
 * from; -EBADMSG for what no line of a file can hold. */
struct runlog;
int report_config_print(struct runlog *log, const char *dir, struct err *err);

/* plan_print.c: what `siTrain plan` says. The first lines (found; NULL: times are not known); a
 * step, part by part; a step in each mode. */
struct session;
struct mem_choice;
struct budget;
int  plan_answer_print(const struct session *s, const struct budget *b,
                       const struct mem_choice *mem, const json_t *found, struct err *err);
void plan_step_print(const json_t *found);
void plan_modes_print(const json_t *found);

/* prepare_render.c: siTrain prepare --render. */
struct render_opts {
    const struct opt_strings *files;
    const char               *init, *chat_template, *bos, *eos, *date, *out;
    int                       generation_prompt, rows; // rows: enum chat_form
    struct chat_names         names;
};
int prepare_render(const struct render_opts *o, struct err *err);

/* prepare_show.c: siTrain prepare --show: the first `rows` of each file as tokens. */
struct show_opts {
    const struct render_opts *chat; // files, init, chat_template, date, rows, names
    uint64_t                  rows;
    int                       loss_on, special_in_text; // loss_on: enum chat_loss
};
int prepare_show(const struct show_opts *o, struct err *err);
