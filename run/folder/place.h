/* place.h: the folder of a run while it is made.
 *
 * RUN is a folder that was not there, or an empty one. Its maker holds RUN/run.lock and fills a
 * folder of its own in it, RUN/run.new-HEX (struct file_new). When all is complete each thing
 * moves to its place, run.db last: from then on RUN is a run. What a killed maker left is known
 * by that folder's name, by the lock that nobody holds, and by the place that run.db.new in it
 * names; it is removed by the next maker of RUN. A folder that holds anything else is refused
 * (docs/internals/files.md).
 *
 * Of several ranks' folders that of rank 0 becomes a run first, when all are complete: from then
 * on it is one run, and what a kill leaves of the others is finished when the run is opened. */
#pragma once

#include "data/base/file.h"
#include "data/db/run_lock.h"
#include "run/folder/session.h"

/* Begins as PLACE_NONE. */
struct place {
    char            dir[SESSION_PATH]; // RUN, without links
    int             made;              // RUN was not there
    struct run_lock lock;              // RUN/run.lock
    struct file_new part;              // RUN/run.new-HEX, which is filled
    int             kept;              // nothing of it is removed any more, whatever happens
};

#define PLACE_NONE { .lock = { .fd = -1 }, .part = { .fd = -1 } }

/* May dir be made, or used? Nothing is changed. 0 also where a killed maker left something that
 * place_claim removes. */
int  place_check(const char *dir, struct err *err);

/* Make the folder, take its lock, remove what a killed maker left, and create run.db.new in the
 * folder that is filled: s->dir, s->log. After a failure, too, place_give_up: what was made is
 * removed, RUN's lock is let go. */
int  place_claim(struct place *p, struct session *s, const char *dir, struct err *err);
void place_give_up(struct place *p, struct session *s);

/* All is there: s->log is closed, so that one file, run.db, holds all of it, and a power cut does
 * not take it back. */
int  place_close(struct place *p, struct session *s, struct err *err);
/* What was closed becomes a run. After a failure it is none. */
int  place_name(struct place *p, struct err *err);
/* place_name after a kill, of what was closed with this id. 0 also where there is nothing. */
int  place_finish(const char *dir, const char *id, struct err *err);
