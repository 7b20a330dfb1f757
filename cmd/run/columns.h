/* columns.h: which columns of one's own rows are read: the options of finetune, eval and plan, and
 * what a run on such rows keeps of them. */
#ifndef CMD_RUN_COLUMNS_H
#define CMD_RUN_COLUMNS_H

#include "cmd/run/session.h"
#include "data/task/task.h"

extern const struct opt_row column_rows[]; // of struct task_names

/* Do they go together? own: there are rows of one's own; without, none may be given. */
int columns_check(const struct task_names *n, int own, struct err *err);

int columns_store(struct session *s, const struct task_names *n, struct err *err);

/* What was stored; all NULL where nothing was. The caller's to task_names_free. */
void columns_load(struct task_names *out, const struct session *s);

#endif
