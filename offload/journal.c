/* journal.c: the journal's rows in run.db. */
#include "offload/journal.h"

#include "data/base/crc32c.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { PUT_STATE, PUT_GRAD, PUT_SUB, PUT_RESIDUAL, STATEMENTS };

struct journal {
    struct runlog *log;
    sqlite3_stmt  *put[STATEMENTS];
};

static const char schema[] =
    "CREATE TABLE journal_state(id INTEGER PRIMARY KEY CHECK(id = 1), next_step INTEGER, "
    "applied INTEGER, optim BLOB, sum INTEGER);"
    "CREATE TABLE journal_subs(sub INTEGER PRIMARY KEY, slot INTEGER, version INTEGER, "
    "states_crc INTEGER, wire_crc INTEGER, sum INTEGER);"
    "CREATE TABLE journal_grads(sub INTEGER PRIMARY KEY, crc INTEGER, pairs INTEGER, sum INTEGER);";

static const char residual_schema[] =
    "CREATE TABLE journal_residuals(sub INTEGER PRIMARY KEY, crc INTEGER, sum INTEGER);";

static const char *const put_sql[STATEMENTS] = {
    [PUT_STATE] = "INSERT OR REPLACE INTO journal_state VALUES(1, ?, ?, ?, ?)",
    [PUT_GRAD] = "INSERT OR REPLACE INTO journal_grads VALUES(?, ?, ?, ?)",
    [PUT_SUB] = "INSERT OR REPLACE INTO journal_subs VALUES(?, ?, ?, ?, ?, ?)",
    [PUT_RESIDUAL] = "INSERT OR REPLACE INTO journal_residuals VALUES(?, ?, ?)",
};

/* The checksum of a row: its numbers, key included, in the order of its columns. */
static uint32_t row_sum(const uint64_t *values, size_t n)
{
    return crc32c(0, values, n * sizeof *values);
}

static uint32_t state_sum(const struct journal_state *s)
{
    uint64_t head[2] = { s->next_step, s->applied };

    return crc32c(row_sum(head, 2), &s->optim, sizeof s->optim);
}

static uint32_t sub_sum(size_t sub, const struct journal_sub *s)
{
    return row_sum((uint64_t[]){ sub, s->slot, s->version, s->states_crc, s->wire_crc }, 5);
}

static uint32_t grad_sum(size_t sub, const struct journal_grad *g)
{
    return row_sum((uint64_t[]){ sub, g->crc, g->pairs }, 3);
}

static uint32_t residual_sum(size_t sub, uint32_t crc)
{
    return row_sum((uint64_t[]){ sub, crc }, 2);
}

/* Bind integers and step a writing statement. */
static int put(struct journal *j, int which, const uint64_t *values, int n, struct err *err)
{
    sqlite3_stmt *st = j->put[which];
    int           rc;

    for (int i = 0; i < n; i++)
        sqlite3_bind_int64(st, i + 1, (sqlite3_int64)values[i]);
    rc = sqlite3_step(st);
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? 0 : runlog_fail(j->log, "writing the journal", err);
}

int journal_put_state(struct journal *j, const struct journal_state *s, struct err *err)
{
    sqlite3_stmt *st = j->put[PUT_STATE];
    int           rc;

    sqlite3_bind_int64(st, 1, (sqlite3_int64)s->next_step);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)s->applied);
    sqlite3_bind_blob(st, 3, &s->optim, sizeof s->optim, SQLITE_TRANSIENT);
    sqlite3_bind_int64(st, 4, state_sum(s));
    rc = sqlite3_step(st);
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? 0 : runlog_fail(j->log, "writing the journal", err);
}

int journal_put_grad(struct journal *j, size_t sub, const struct journal_grad *g, struct err *err)
{
    return put(j, PUT_GRAD, (uint64_t[]){ sub, g->crc, g->pairs, grad_sum(sub, g) }, 4, err);
}

int journal_put_sub(struct journal *j, size_t sub, const struct journal_sub *s, struct err *err)
{
    uint64_t row[] = { sub, s->slot, s->version, s->states_crc, s->wire_crc, sub_sum(sub, s) };

    return put(j, PUT_SUB, row, 6, err);
}

int journal_put_residual(struct journal *j, size_t sub, uint32_t crc, struct err *err)
{
    return put(j, PUT_RESIDUAL, (uint64_t[]){ sub, crc, residual_sum(sub, crc) }, 3, err);
}

/* The statements [first, end). */
static int prepare(struct journal *j, int first, int end, struct err *err)
{
    for (int i = first; i < end; i++)
        if (sqlite3_prepare_v3(runlog_db(j->log), put_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &j->put[i], NULL) != SQLITE_OK)
            return runlog_fail(j->log, "preparing the journal", err);
    return 0;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(j->put[i]);
    free(j);
}

/* The rows of all subgroups, with gradients that nothing is to be updated from. */
static int subs_put(struct journal *j, size_t n_subs, const struct journal_sub *subs,
                    struct err *err)
{
    struct journal_grad none = { 0 };
    int                 rc = 0;

    for (size_t i = 0; !rc && i < n_subs; i++) {
        rc = journal_put_sub(j, i, &subs[i], err);
        if (!rc)
            rc = journal_put_grad(j, i, &none, err);
    }
    return rc;
}

int journal_format(struct runlog *log, size_t n_subs, const struct journal_sub *subs,
                   struct err *err)
{
    struct journal       j = { .log = log };
    struct journal_state state;
    int                  rc = 0;

    memset(&state, 0, sizeof state); // the padding too: it is summed
    if (sqlite3_exec(runlog_db(log), schema, NULL, NULL, NULL) != SQLITE_OK)
        return runlog_fail(log, "creating the journal", err);
    rc = prepare(&j, 0, PUT_RESIDUAL, err);
    if (!rc)
        rc = journal_put_state(&j, &state, err);
    if (!rc)
        rc = subs_put(&j, n_subs, subs, err);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(j.put[i]);
    return rc;
}

static uint64_t column(sqlite3_stmt *st, int i)
{
    return (uint64_t)sqlite3_column_int64(st, i);
}

/* The sum of a row's first n columns as they stand, not cut to what they are kept in. */
static uint32_t columns_sum(sqlite3_stmt *st, int n)
{
    uint64_t values[8];

    for (int i = 0; i < n; i++)
        values[i] = column(st, i);
    return row_sum(values, (size_t)n);
}

/* Is the row under st the one that is due? Says which is missing or damaged otherwise. */
static int row_check(struct runlog *log, const char *table, size_t due, uint64_t found,
                     int sum_holds, struct err *err)
{
    const char *path = sqlite3_db_filename(runlog_db(log), "main");

    if (found != due)
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is missing", path, table, due);
    if (!sum_holds)
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is damaged (checksum differs)", path,
                       table, due);
    return 0;
}

/* There was no row where `due` should be: it is missing, or it could not be read. */
static int row_absent(struct runlog *log, const char *table, int got, size_t due, size_t n,
                      struct err *err)
{
    return got == SQLITE_DONE ? row_check(log, table, due, n, 0, err)
                              : runlog_fail(log, "reading the journal", err);
}

static int read_subs(struct runlog *log, size_t n, struct journal_sub *subs, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int           rc = 0, got = SQLITE_ROW;
    size_t        i = 0;

    if (sqlite3_prepare_v2(runlog_db(log), "SELECT * FROM journal_subs ORDER BY sub",
                           -1, &st, NULL) != SQLITE_OK)
        return runlog_fail(log, "reading the journal", err);
    for (; !rc && i < n && (got = sqlite3_step(st)) == SQLITE_ROW; i++) {
        subs[i] = (struct journal_sub){ .slot = (uint32_t)column(st, 1), .version = column(st, 2),
                                        .states_crc = (uint32_t)column(st, 3),
                                        .wire_crc = (uint32_t)column(st, 4) };
        rc = row_check(log, "journal_subs", i, column(st, 0), columns_sum(st, 5) == column(st, 5),
                       err);
    }
    if (!rc && i < n)
        rc = row_absent(log, "journal_subs", got, i, n, err);
    sqlite3_finalize(st);
    return rc;
}

static int read_grads(struct runlog *log, size_t n, struct journal_grad *grads, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int           rc = 0, got = SQLITE_ROW;
    size_t        i = 0;

    if (sqlite3_prepare_v2(runlog_db(log), "SELECT * FROM journal_grads ORDER BY sub",
                           -1, &st, NULL) != SQLITE_OK)
        return runlog_fail(log, "reading the journal", err);
    for (; !rc && i < n && (got = sqlite3_step(st)) == SQLITE_ROW; i++) {
        grads[i] = (struct journal_grad){ .crc = (uint32_t)column(st, 1), .pairs = column(st, 2) };
        rc = row_check(log, "journal_grads", i, column(st, 0), columns_sum(st, 3) == column(st, 3),
                       err);
    }
    if (!rc && i < n)
        rc = row_absent(log, "journal_grads", got, i, n, err);
    sqlite3_finalize(st);
    return rc;
}

static int read_state(struct runlog *log, struct journal_state *s, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int           rc = 0, got;

    memset(s, 0, sizeof *s);
    if (sqlite3_prepare_v2(runlog_db(log),
                           "SELECT next_step, applied, optim, sum FROM journal_state", -1, &st,
                           NULL) != SQLITE_OK)
        return runlog_fail(log, "reading the journal", err);
    got = sqlite3_step(st);
    if (got == SQLITE_ROW && sqlite3_column_bytes(st, 2) == (int)sizeof s->optim) {
        s->next_step = column(st, 0);
        s->applied = column(st, 1);
        memcpy(&s->optim, sqlite3_column_blob(st, 2), sizeof s->optim);
        rc = row_check(log, "journal_state", 1, 1, column(st, 3) == state_sum(s), err);
    } else {
        rc = row_absent(log, "journal_state", got == SQLITE_ROW ? SQLITE_DONE : got, 1, 0, err);
    }
    sqlite3_finalize(st);
    return rc;
}

int journal_open(struct journal **out, struct runlog *log, size_t n_subs,
                 struct journal_state *state, struct journal_sub *subs, struct journal_grad *grads,
                 struct err *err)
{
    struct journal *j = calloc(1, sizeof *j);
    int             rc;

    if (!j)
        return err_set(err, -ENOMEM, "out of memory for the journal");
    j->log = log;
    rc = read_state(log, state, err);
    if (!rc)
        rc = read_subs(log, n_subs, subs, err);
    if (!rc)
        rc = read_grads(log, n_subs, grads, err);
    if (!rc)
        rc = prepare(j, 0, PUT_RESIDUAL, err);
    if (rc) {
        journal_close(j);
        return rc;
    }
    *out = j;
    return 0;
}

int journal_format_residuals(struct runlog *log, size_t n_subs, const uint32_t *crc,
                             struct err *err)
{
    struct journal j = { .log = log };
    int            rc;

    if (sqlite3_exec(runlog_db(log), residual_schema, NULL, NULL, NULL) != SQLITE_OK)
        return runlog_fail(log, "creating the journal", err);
    rc = prepare(&j, PUT_RESIDUAL, STATEMENTS, err);
    for (size_t i = 0; !rc && i < n_subs; i++)
        rc = journal_put_residual(&j, i, crc[i], err);
    sqlite3_finalize(j.put[PUT_RESIDUAL]);
    return rc;
}

int journal_open_residuals(struct journal *j, size_t n_subs, uint32_t *crc, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int           rc = 0, got = SQLITE_ROW;
    size_t        i = 0;

    if (sqlite3_prepare_v2(runlog_db(j->log), "SELECT * FROM journal_residuals ORDER BY sub",
                           -1, &st, NULL) != SQLITE_OK)
        return runlog_fail(j->log, "reading the journal", err);
    for (; !rc && i < n_subs && (got = sqlite3_step(st)) == SQLITE_ROW; i++) {
        crc[i] = (uint32_t)column(st, 1);
        rc = row_check(j->log, "journal_residuals", i, column(st, 0),
                       columns_sum(st, 2) == column(st, 2), err);
    }
    if (!rc && i < n_subs)
        rc = row_absent(j->log, "journal_residuals", got, i, n_subs, err);
    sqlite3_finalize(st);
    return rc ? rc : prepare(j, PUT_RESIDUAL, STATEMENTS, err);
}

int journal_replace(struct runlog *log, size_t n_subs, const struct journal_sub *subs,
                    const uint32_t *residuals, struct err *err)
{
    struct journal j = { .log = log };
    const char    *drop = residuals ? "DELETE FROM journal_subs; DELETE FROM journal_grads; "
                                      "DELETE FROM journal_residuals"
                                    : "DELETE FROM journal_subs; DELETE FROM journal_grads";
    int            rc;

    if (sqlite3_exec(runlog_db(log), drop, NULL, NULL, NULL) != SQLITE_OK)
        return runlog_fail(log, "emptying the journal", err);
    rc = prepare(&j, 0, residuals ? STATEMENTS : PUT_RESIDUAL, err);
    if (!rc)
        rc = subs_put(&j, n_subs, subs, err);
    for (size_t i = 0; !rc && residuals && i < n_subs; i++)
        rc = journal_put_residual(&j, i, residuals[i], err);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(j.put[i]);
    return rc;
}

int journal_position(struct runlog *log, uint64_t *next_step, uint64_t *applied, struct err *err)
{
    struct journal_state s;
    int                  rc = read_state(log, &s, err);

    if (!rc) {
        *next_step = s.next_step;
        *applied = s.applied;
    }
    return rc;
}
