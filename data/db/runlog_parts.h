/* runlog_parts.h: what the files of runlog share, and private to data/db: whoever else writes to a
 * run's database does it through runlog.h and ledger.h, where a row cannot be written without its
 * sum. */
#pragma once

#include "data/db/db.h"
#include "data/db/run_lock.h"
#include "data/db/runlog.h"

enum { RUNLOG_ENDS = 256 };

struct runlog {
    struct db       db;
    struct run_lock lock;
    int             counts;    // commits, into the lock; it is open for writing
    int             left;      // until its first commit: a log was there when it was opened
    int             log_pages; // of run.db-wal, after the last commit
    int             ends[RUNLOG_ENDS]; // the same after each of the last ones, by number
};

/* The checksum of a setting's row. */
uint32_t runlog_setting_sum(const char *key, const char *value);

/* db_run in the transaction that is under way, or else in one of its own. */
int runlog_write(struct runlog *log, const char *text, const char *doing, struct err *err,
                 const char *types, ...);

/* ---- runlog_rows.c: the checksum of a row ---- */

/* What a step computed; seconds and peak_rss, which are known later and differ each time, are left
 * out. */
uint32_t runlog_step_sum(const struct runlog_step *s);
uint32_t runlog_eval_sum(uint64_t step, const char *name, double value);
