/* newplace.h: where a new run is put: its folder, its devices. Nothing there has its final name,
 * run.db, until everything is complete: a kill leaves a folder that the next run of the same name
 * clears. */
#pragma once

#include "cmd/run/session.h"

struct newplace { int made, claimed; }; // the folder was not there; its lock is ours

/* May they be made, or used? Nothing on disk is changed. */
int newplace_check(const char *dir, const struct train_opts *o, struct err *err);

/* Make the folder, or take over what a killed creation left in it, and create run.db.new with its
 * lock: s->dir, s->log. After a failure, too, newplace_give_up. */
int newplace_claim(struct newplace *p, struct session *s, const char *dir, struct err *err);

/* All of it is complete: run.db.new, closed, becomes run.db. */
int newplace_keep(struct session *s, struct err *err);

/* It comes to nothing: remove what was made. Accepts the zero state. */
void newplace_give_up(const struct newplace *p, struct session *s, const char *dir);
