/* ledger.c: makes the journal's tables, and writes and reads their rows. */
#include "data/db/ledger.h"

#include "data/base/crc32c.h"
#include "data/db/runlog_parts.h"

static const char writing[] = "writing the journal", reading[] = "reading the journal";

#define TEXTS(name) .get = "SELECT * FROM " name " ORDER BY 1, 2", .clear = "DELETE FROM " name
static const struct {
    const char *name, *columns; // behind CREATE TABLE
    const char *types;          // of the columns
    const char *put, *get, *clear;
} ledgers[LEDGERS] = {
    [LEDGER_STATE] = {
        "journal_state", "journal_state (id INTEGER PRIMARY KEY CHECK (id = 1), next_step INTEGER,"
        " applied INTEGER, optimizer INTEGER /* 0 adamw, 1 adam, 2 sgd, 3 adagrad */, lr REAL,"
        " beta1 REAL, beta2 REAL, eps REAL, one_minus_beta1 REAL, one_minus_beta2 REAL,"
        " step_size REAL, bias2_sqrt REAL, grad_scale REAL, first INTEGER, sum INTEGER)",
        "uuuuddddddddduu",
        "INSERT OR REPLACE INTO journal_state VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        TEXTS("journal_state") },
    [LEDGER_SUBS] = {
        "journal_subs", "journal_subs(sub INTEGER PRIMARY KEY, slot INTEGER, version INTEGER,"
        " states_crc INTEGER, wire_crc INTEGER, sum INTEGER)", "uuuuuu",
        "INSERT OR REPLACE INTO journal_subs VALUES (?,?,?,?,?,?)", TEXTS("journal_subs") },
    [LEDGER_GRADS] = {
        "journal_grads", "journal_grads(sub INTEGER PRIMARY KEY, crc INTEGER, pairs INTEGER,"
        " sum INTEGER)", "uuuu",
        "INSERT OR REPLACE INTO journal_grads VALUES (?,?,?,?)", TEXTS("journal_grads") },
    [LEDGER_RESIDUALS] = {
        "journal_residuals", "journal_residuals(sub INTEGER PRIMARY KEY, crc INTEGER, sum INTEGER)",
        "uuu", "INSERT OR REPLACE INTO journal_residuals VALUES (?,?,?)",
        TEXTS("journal_residuals") },
    [LEDGER_IMAGES] = {
        "journal_image", "journal_image(area INTEGER, block INTEGER, step INTEGER, applied INTEGER,"
        " crc INTEGER, row_crc INTEGER, PRIMARY KEY(area, block)) WITHOUT ROWID", "uuuuuu",
        "INSERT OR REPLACE INTO journal_image VALUES (?,?,?,?,?,?)", TEXTS("journal_image") },
};

uint32_t ledger_sum(const uint64_t *numbers, size_t n)
{
    return crc32c(0, numbers, n * sizeof *numbers);
}

int ledger_make(struct runlog *log, enum ledger_table t, struct err *err)
{
    return db_exec(&log->db, "making the journal", err, "CREATE TABLE %s",
                   ledgers[t].columns);
}

int ledger_put(struct runlog *log, enum ledger_table t, const uint64_t *row, struct err *err)
{
    return db_put(&log->db, ledgers[t].put, writing, err, ledgers[t].types, row);
}

int ledger_clear(struct runlog *log, enum ledger_table t, struct err *err)
{
    return db_run(&log->db, ledgers[t].clear, writing, err, "");
}

int ledger_clear_image(struct runlog *log, uint64_t area, struct err *err)
{
    return db_run(&log->db, "DELETE FROM journal_image WHERE area = ?", writing, err, "u", area);
}

int64_t ledger_read(struct runlog *log, enum ledger_table t, size_t most,
                    int (*row)(void *ctx, const uint64_t *row, struct err *err), void *ctx,
                    struct err *err)
{
    const char   *types = ledgers[t].types;
    sqlite3_stmt *st;
    uint64_t      values[LEDGER_COLUMNS];
    int64_t       n = 0;
    int           rc = 0, got = 0;

    if (most)
        got = db_row(&log->db, &st, ledgers[t].get, reading, err, "");
    for (; !rc && got > 0 && (uint64_t)n < most; n++) {
        for (int i = 0; types[i]; i++)
            values[i] = types[i] == 'u' ? (uint64_t)sqlite3_column_int64(st, i)
                        : sqlite3_column_type(st, i) == SQLITE_NULL
                            ? UINT64_MAX : real_bits(sqlite3_column_double(st, i));
        rc = row(ctx, values, err);
        if (!rc)
            got = db_next(&log->db, st, reading, err);
    }
    if (most)
        sqlite3_reset(st);
    return rc ? rc : got < 0 ? got : n;
}

int ledger_check(struct runlog *log, enum ledger_table t, struct err *err)
{
    return db_check_table(&log->db, ledgers[t].name, err);
}
