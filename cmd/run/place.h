/* place.h: the folder of a run while it is made. It is a run from the moment on in which run.db.new
 * gets the name run.db; what a kill leaves before that is cleared by who takes the place again.
 *
 * Of several ranks' folders that of rank 0 gets the name first, when all are closed: from then on
 * it is one run, and those that a kill has left without the name are finished when it is opened. */
#pragma once

#include "cmd/run/session.h"

/* made: the folder was not there; claimed: its lock was taken. Begins as { 0 }. */
struct place { int made, claimed; };

/* May dir be made, or used? 0 also for one that a killed creation left. */
int  place_check(const char *dir, struct err *err);

/* Make the folder, or take over what a killed creation left in it, and create run.db.new with its
 * lock: s->dir, s->log. After a failure, too, place_give_up: what was made is removed. */
int  place_claim(struct place *p, struct session *s, const char *dir, struct err *err);
void place_give_up(const struct place *p, struct session *s, const char *dir);

/* All is in the folder: s->log is closed, so that one file holds all of it, and a power cut does
 * not take it back. */
int  place_close(struct session *s, struct err *err);
/* A folder that was closed becomes a run. */
int  place_name(const char *dir, struct err *err);
/* The same after a kill, where it is no run and has the id of this one. 0 also where it has not. */
int  place_finish(const char *dir, const char *id, struct err *err);
