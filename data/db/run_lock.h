/* run_lock.h: run.lock beside a run's database: who writes to the run, and what he knew of it last.
 *
 * The lock is flock on a file of its own: SQLite locks run.db itself with fcntl, and a second
 * descriptor on run.db closed by us would drop those. flock goes with the process, so a killed run
 * leaves nothing to clean up. siTrain does not remove the file of a run: two processes would hold
 * two different files of that name. Where somebody else does, run_lock_still sees it. */
#pragma once

#include "data/base/err.h"

enum { RUN_LOCK_BOOT = 37 };

/* commits: how many run.db had; begun, taken: a checkpoint began when there were so many, and one
 * was complete. The file is not flushed: it is believed under the same start of the machine
 * alone, when what the kernel gives is what was written. No file's time tells that: clocks are
 * set. */
struct run_lock {
    char    *path, *db_path; // its own
    int      fd;     // -1: not open
    int      writes; // it is held against everybody
    char     boot[RUN_LOCK_BOOT]; // this start of the machine; "": the kernel does not say
    int      known;  // the numbers were written under this start of the machine
    uint64_t commits, begun, taken;
};

/* For who writes, against everybody; for who reads, against those as far as the file is there and
 * can be read. -EBUSY with the holder's pid and host where another process is at work. */
int run_lock_take(struct run_lock *l, struct err *err);
int run_lock_read(struct run_lock *l, struct err *err);
/* Of who has taken it: 0 if the name still leads to the file that is locked. If the file was
 * removed or replaced, the one that is there now is taken instead, after a wait for a process that
 * opened it and cannot go on because the devices are locked. -EBUSY where that one keeps it. */
int run_lock_still(struct run_lock *l, struct err *err);
/* Whether somebody writes; else what he last knew is in *l. */
int run_lock_is_taken(struct run_lock *l);

/* Whether somebody writes, and in `who` the process that wrote last that it does ("": none, or it
 * took that back). */
int run_lock_holder(const struct run_lock *l, char *who, size_t size);

/* Who holds it stores the numbers, which are known from now on. -errno without a sentence. */
int  run_lock_note(struct run_lock *l);
void run_lock_release(struct run_lock *l); // closes it; accepts one that is not held
