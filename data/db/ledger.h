/* ledger.h: the journal's tables. A row is a list of numbers. The first number is the row's key,
 * and the last is a checksum of the others. The caller computes and compares the checksum.
 * offload/devices/journal.h and image.h define what the rows mean. */
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
enum { LEDGER_COLUMNS = 15 }; // largest number of columns of a table

/* Functions that write are called inside the caller's transaction. A REAL column (the
 * optimizer's numbers) is passed and returned as real_bits. */
int ledger_make(struct runlog *log, enum ledger_table t, struct err *err);
int ledger_put(struct runlog *log, enum ledger_table t, const uint64_t *row, struct err *err);
int ledger_clear(struct runlog *log, enum ledger_table t, struct err *err);
int ledger_clear_image(struct runlog *log, uint64_t area, struct err *err); // of one area

/* Returns the checksum of n numbers. */
uint32_t ledger_sum(const uint64_t *numbers, size_t n);

/* Calls row() for at most `most` rows, in the order of their keys. If row() returns other than
 * 0, reading stops and returns that. Otherwise returns the number of rows, or -errno. */
int64_t ledger_read(struct runlog *log, enum ledger_table t, size_t most,
                    int (*row)(void *ctx, const uint64_t *row, struct err *err), void *ctx,
                    struct err *err);
/* Returns 0 if SQLite finds no damage in the table. Without this check, rows on a damaged page
 * would not be missed. */
int ledger_check(struct runlog *log, enum ledger_table t, struct err *err);
