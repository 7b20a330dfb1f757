/* ledger.h: the journal's tables: rows of numbers of which the first says whose row it is and the
 * last is a checksum of the others, which the caller makes and compares. What the rows mean is
 * offload/devices/journal.h's and image.h's. */
#pragma once

#include "data/base/err.h"
#include "data/db/real_bits.h"

struct runlog;

enum ledger_table {
    LEDGER_STATE,     // id (1), next_step, applied, the optimizer and its numbers, sum
    LEDGER_SUBS,      // sub, slot, version, states_crc, wire_crc, sum
    LEDGER_GRADS,     // sub, crc, pairs, sum
    LEDGER_RESIDUALS, // sub, crc, sum
    LEDGER_IMAGES,    // area, block, step, applied, crc, sum
    LEDGERS
};
enum { LEDGER_COLUMNS = 15 }; // at most

/* Inside the caller's transaction, but for what reads. A column that is REAL (the optimizer's) is
 * given and got as real_bits. */
int ledger_make(struct runlog *log, enum ledger_table t, struct err *err);
int ledger_put(struct runlog *log, enum ledger_table t, const uint64_t *row, struct err *err);
int ledger_clear(struct runlog *log, enum ledger_table t, struct err *err);
int ledger_clear_image(struct runlog *log, uint64_t area, struct err *err); // its rows alone

/* The checksum of n numbers. */
uint32_t ledger_sum(const uint64_t *numbers, size_t n);

/* Rows in the order of their keys, `most` of them; what row() returns other than 0 ends it and is
 * passed on. The number of rows, or -errno. */
int64_t ledger_read(struct runlog *log, enum ledger_table t, size_t most,
                    int (*row)(void *ctx, const uint64_t *row, struct err *err), void *ctx,
                    struct err *err);
/* Whether SQLite sees no damage in the table: rows that a damaged page hides are not missed. */
int ledger_check(struct runlog *log, enum ledger_table t, struct err *err);
