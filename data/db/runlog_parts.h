/* runlog_parts.h: declarations that the files of runlog share. It is private to data/db. Other
 * writers to a run's database use runlog.h and ledger.h, which write no row without its
 * checksum. */
#pragma once

#include "data/db/db.h"
#include "data/db/run_lock.h"
#include "data/db/runlog.h"

enum { RUNLOG_ENDS = 256 };

struct runlog {
    struct db       db;
    struct run_lock lock;
    int             counts;    // it counts commits in the lock; it is open for writing
    int             left;      // a log was there at opening; 0 after the first commit
    uint64_t        taken;     // commits that are durable in run.db without its log, at least
    enum runlog_sync sync;     // when commits are flushed
    int             log_pages; // pages of run.db-wal after the last commit
    int             ends[RUNLOG_ENDS]; // log_pages after each of the last commits, by commit number
    int             unread;    // a setting could not be read: -errno, with this sentence
    struct err      why;
};

/* Returns the checksum of a setting's row. */
uint32_t runlog_setting_sum(const char *key, const char *value);

/* Refuses a run.db into which another program has written since this process last did. */
int runlog_file_check(struct runlog *log, struct err *err);

/* Runs db_run in the open transaction, or in its own if none is open. */
int runlog_write(struct runlog *log, const char *text, const char *doing, struct err *err,
                 const char *types, ...);

/* ---- runlog_rows.c: the checksum of a row ---- */

/* Returns the checksum of a step's row. seconds and peak_rss are left out: they are known later,
 * and differ in each process. */
uint32_t runlog_step_sum(const struct runlog_step *s);
uint32_t runlog_rewards_sum(uint64_t step, const struct runlog_rewards *r);
uint32_t runlog_eval_sum(uint64_t step, const char *name, double value);
