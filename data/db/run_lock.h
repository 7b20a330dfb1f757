/* run_lock.h: the file run.lock next to a run's database. It says who writes to the run and what
 * the last writer knew of it.
 *
 * The lock is flock on a separate file. SQLite locks run.db with fcntl, and closing a second
 * descriptor on run.db would drop SQLite's locks. flock ends with the process, so a killed run
 * leaves nothing to clean up. siTrain does not remove a run's lock file: two processes could
 * then hold two files of that name. If somebody else removes it, run_lock_still notices. */
#pragma once

#include "data/file/file.h"

enum { RUN_LOCK_BOOT = 37, RUN_LOCK_WORD = 17 };

/* Which paths to the file show a lock on it: all; all but those by an overlay or its layers; or, by
 * FUSE, perhaps only this one. */
enum lock_sight { LOCK_SHARED, LOCK_LAYER, LOCK_APART };

/* `commits` is the number of commits of run.db, `flushed` of those that are on its drive, or that
 * siTrain never flushes. The file has only `flushed`, since a drive that drops out and comes back
 * while the machine runs has lost the others. `begun` is the number of commits when the last
 * checkpoint began, `taken` when the last one was complete.
 *
 * The file is not flushed. Its numbers are believed only until the machine restarts, because
 * until then the kernel returns what was written. A file's time cannot show this, because clocks
 * are set. */
struct run_lock {
    char    *path, *db_path; // owned
    int      fd;     // -1 if not open
    int      writes; // held exclusively
    enum lock_sight sight;
    char     word[RUN_LOCK_WORD]; // of a writer: random hex digits, new each time it takes the lock
    uint64_t start;  // of this process, in ticks since the machine's
    char     file[FILE_IDENTITY]; // which file is locked
    char     boot[RUN_LOCK_BOOT]; // id of the machine's current boot; "" if unknown
    int      known;  // the numbers are from this boot
    uint64_t commits, flushed, begun, taken;
};

/* Take the lock. run_lock_take is for a writer and excludes all other processes. run_lock_read
 * is for a reader and excludes writers, if the file exists and can be read. If another process
 * is at work, both return -EBUSY with its pid and host. run_lock_take makes no file for a user who
 * may not write the run's database: it returns -EACCES, or -EROFS. */
int run_lock_take(struct run_lock *l, struct err *err);
int run_lock_read(struct run_lock *l, struct err *err);
/* Checks the lock of a process that took it. *fd is -1 if the name still leads to the locked file.
 * If that file was removed or replaced, the function locks the file of that name instead, writes
 * nothing to it, and *fd is that file. It first waits for a process that opened this file but
 * cannot go on because the devices are locked. If that process keeps the lock, returns -EBUSY. */
int run_lock_still(const struct run_lock *l, int *fd, struct err *err);
/* From now on the lock is `fd`, which run_lock_still locked: stores the numbers in it. */
int run_lock_renew(struct run_lock *l, int fd, struct err *err);
/* Returns whether a process writes: 1 or 0. If none does, *l gets the numbers of the last writer.
 * -EBUSY: one does, but its lock is not seen by this path, or it is on another machine; reading
 * would disturb it. */
int run_lock_is_taken(struct run_lock *l, struct err *err);

/* Whether a process writes, and whether that process stands still (Ctrl-Z, SIGSTOP) as far as this
 * machine shows it. `who` gets the name that the last writer stored. It is "" if there was none, or
 * if that writer removed its name. */
enum run_lock_holder { HOLDER_NONE, HOLDER_WRITES, HOLDER_STOPPED };
enum run_lock_holder run_lock_holder(const struct run_lock *l, char *who, size_t size);

/* True if the file at `path` has numbers of commits. Only a run with a database writes them. */
int run_lock_has_numbers(const char *path);

/* Stores the numbers in the file. The caller holds the lock as a writer. The numbers are known
 * from now on. Returns 0, or -errno without a sentence. */
int  run_lock_note(struct run_lock *l);
void run_lock_release(struct run_lock *l); // closes it; accepts a lock that is not held
