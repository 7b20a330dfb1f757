/* creation.h: the folder of a run during its creation.
 *
 * RUN must be absent or empty. Its maker locks RUN/run.lock and fills a folder of its own,
 * RUN/run.new-HEX (struct file_new). When all is complete, each thing moves into RUN, run.db last.
 * RUN is a run from then on.
 *
 * The next maker of RUN removes the leftovers of a killed maker. It recognises them by that
 * folder's name, by the lock that nobody holds, and by the place that run.db.new in it names. A
 * folder that holds anything else is refused (docs/internals/files.md). A maker that tokenises
 * texts takes over the tokens that were made: it goes on in the same folder, of which it removes
 * the rest.
 *
 * With several ranks, all folders are completed first. Then rank 0's becomes a run, and from then
 * on there is one run. If a kill leaves another rank's folder without run.db, opening the run
 * completes it. */
#pragma once

#include "data/file/file.h"
#include "data/db/run_lock.h"
#include "run/folder/session.h"

/* Removing what was made opens folders, also in a process that may open no more files by then. */
enum { CREATION_SPARES = 2 };

/* Initialise it with CREATION_NONE. */
struct creation {
    char            dir[SESSION_PATH]; // RUN, without links
    int             made;              // this maker created RUN
    int             takes;             // it takes over tokens that a dead maker left
    struct run_lock lock;              // RUN/run.lock
    struct file_new part;              // RUN/run.new-HEX, the folder being filled
    int             devices;           // set by the caller: run_format has made all devices
    int             kept;              // creation_give_up removes nothing any more
    int             spare[CREATION_SPARES], n_spare; // open files that creation_give_up closes
};

#define CREATION_NONE { .lock = { .fd = -1 }, .part = { .fd = -1 } }

/* Check whether dir can become a run. Nothing is changed. 0 also if it holds leftovers of a killed
 * maker, which creation_claim removes. */
int  creation_check(const char *dir, struct err *err);

/* Create and lock the folder, remove the leftovers of a killed maker, and create run.db.new in
 * the folder to be filled. takes: tokens that it left stay in that folder; whoever tokenises knows
 * whether they are of the same texts (tokenise.h). Sets s->dir and s->log. After an error, call
 * creation_give_up: it removes what was created and releases the lock. */
int  creation_claim(struct creation *p, struct session *s, const char *dir, int takes,
                    struct err *err);
void creation_give_up(struct creation *p, struct session *s);
/* creation_give_up after a stop or a call that failed: tokens stay for the next maker that takes
 * them. Returns whether there are any. */
int  creation_leave(struct creation *p, struct session *s);

/* s->log is the database at the path `copy` in the folder that is filled. If rc is 0, it takes the
 * place of run.db.new. Returns rc, or -errno; s->log is open, or NULL. */
int  creation_take_log(struct session *s, const char *copy, int rc, struct err *err);

/* Close s->log when everything is written. run.db is then one file with all data, and survives a
 * power cut. */
int  creation_close(struct creation *p, struct session *s, struct err *err);
/* Make the closed folder a run. After an error it is not a run. */
int  creation_name(struct creation *p, struct err *err);
/* Repeat creation_name after a kill, if dir has a closed folder with this id. Otherwise 0. */
int  creation_finish(const char *dir, const char *id, struct err *err);
