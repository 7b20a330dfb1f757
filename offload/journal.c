/* journal.c: the journal's rows in run.db. The last number of each is a checksum of the others, key
 * included, in the order of the columns. */
#include "offload/journal.h"

#include "data/db/ledger.h"

#include <errno.h>
#include <stdlib.h>

/* The sum goes behind row's first n numbers. */
static int put(struct runlog *log, enum ledger_table t, uint64_t *row, size_t n, struct err *err)
{
    row[n] = ledger_sum(row, n);
    return ledger_put(log, t, row, err);
}

enum { STATE = 14, SUB = 5, GRAD = 3, RESIDUAL = 2 }; // columns but for the sum
_Static_assert(OPTIM_ADAMW == 0 && OPTIM_ADAM == 1 && OPTIM_SGD == 2 && OPTIM_ADAGRAD == 3,
               "as journal_state has them");

int journal_put_state(struct runlog *log, const struct journal_state *s, struct err *err)
{
    const struct optim_step *o = &s->optim;
    const float numbers[] = { o->lr, o->beta1, o->beta2, o->eps, o->one_minus_beta1,
                              o->one_minus_beta2, o->step_size, o->bias2_sqrt, o->grad_scale };
    uint64_t    row[STATE + 1] = { 1, s->next_step, s->applied, (uint64_t)o->kind };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        row[4 + i] = real_bits((double)numbers[i]);
    row[STATE - 1] = (uint64_t)o->first;
    return put(log, LEDGER_STATE, row, STATE, err);
}

int journal_put_grad(struct runlog *log, size_t sub, const struct journal_grad *g, struct err *err)
{
    return put(log, LEDGER_GRADS, (uint64_t[GRAD + 1]){ sub, g->crc, g->pairs }, GRAD, err);
}

int journal_put_sub(struct runlog *log, size_t sub, const struct journal_sub *s, struct err *err)
{
    uint64_t row[SUB + 1] = { sub, s->slot, s->version, s->states_crc, s->wire_crc };

    return put(log, LEDGER_SUBS, row, SUB, err);
}

int journal_put_residual(struct runlog *log, size_t sub, uint32_t crc, struct err *err)
{
    return put(log, LEDGER_RESIDUALS, (uint64_t[RESIDUAL + 1]){ sub, crc }, RESIDUAL, err);
}

/* The rows of all subgroups, with gradients that nothing is to be updated from. */
static int rows_put(struct runlog *log, const struct journal_rows *rows, struct err *err)
{
    struct journal_grad none = { 0 };
    int                 rc = 0;

    for (size_t i = 0; !rc && i < rows->n_subs; i++) {
        rc = journal_put_sub(log, i, &rows->subs[i], err);
        if (!rc)
            rc = journal_put_grad(log, i, &none, err);
        if (!rc && rows->residuals)
            rc = journal_put_residual(log, i, rows->residuals[i], err);
    }
    return rc;
}

int journal_format(struct runlog *log, const struct journal_rows *rows, struct err *err)
{
    struct journal_state state = { 0 };
    int                  rc = ledger_make(log, LEDGER_STATE, err);

    if (!rc)
        rc = ledger_make(log, LEDGER_SUBS, err);
    if (!rc)
        rc = ledger_make(log, LEDGER_GRADS, err);
    if (!rc && rows->residuals)
        rc = ledger_make(log, LEDGER_RESIDUALS, err);
    if (!rc)
        rc = journal_put_state(log, &state, err);
    return rc ? rc : rows_put(log, rows, err);
}

int journal_replace(struct runlog *log, const struct journal_rows *rows, struct err *err)
{
    int rc = ledger_clear(log, LEDGER_SUBS, err);

    if (!rc)
        rc = ledger_clear(log, LEDGER_GRADS, err);
    if (!rc && rows->residuals)
        rc = ledger_clear(log, LEDGER_RESIDUALS, err);
    return rc ? rc : rows_put(log, rows, err);
}

/* ---- reading */

/* A table as it is read: whose row is due, and where its numbers go. */
struct reading {
    const char     *path, *table;
    size_t          due, columns;
    struct journal *into;
};

/* Is this row the one that is due? Says which is missing or damaged otherwise. The sum is that of
 * the columns as they stand, not cut to what they are kept in. */
static int row_check(const struct reading *r, const uint64_t *row, struct err *err)
{
    if (row[0] != r->due)
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is missing", r->path, r->table,
                       r->due);
    if (row[r->columns] != ledger_sum(row, r->columns))
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is damaged (checksum differs)",
                       r->path, r->table, r->due);
    return 0;
}

static int state_row(void *ctx, const uint64_t *row, struct err *err)
{
    struct reading       *r = ctx;
    struct journal_state *s = &r->into->state;
    float                *numbers[] = { &s->optim.lr, &s->optim.beta1, &s->optim.beta2,
                                        &s->optim.eps, &s->optim.one_minus_beta1,
                                        &s->optim.one_minus_beta2, &s->optim.step_size,
                                        &s->optim.bias2_sqrt, &s->optim.grad_scale };

    s->next_step = row[1];
    s->applied = row[2];
    s->optim.kind = (enum optim_kind)row[3];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = (float)bits_real(row[4 + i]);
    s->optim.first = (int)row[STATE - 1];
    return row_check(r, row, err);
}

static int sub_row(void *ctx, const uint64_t *row, struct err *err)
{
    struct reading *r = ctx;
    int             rc = row_check(r, row, err);

    r->into->subs[r->due++] = (struct journal_sub){ .slot = (uint32_t)row[1], .version = row[2],
                                                   .states_crc = (uint32_t)row[3],
                                                   .wire_crc = (uint32_t)row[4] };
    return rc;
}

static int grad_row(void *ctx, const uint64_t *row, struct err *err)
{
    struct reading *r = ctx;
    int             rc = row_check(r, row, err);

    r->into->grads[r->due++] = (struct journal_grad){ .crc = (uint32_t)row[1], .pairs = row[2] };
    return rc;
}

static int residual_row(void *ctx, const uint64_t *row, struct err *err)
{
    struct reading *r = ctx;
    int             rc = row_check(r, row, err);

    r->into->residuals[r->due++] = (uint32_t)row[1];
    return rc;
}

/* n rows of a table, each where `row` puts it. */
static int table_read(struct runlog *log, enum ledger_table t, size_t n, struct journal *into,
                      struct err *err)
{
    static const struct {
        const char *name;
        size_t      columns, first;
        int       (*row)(void *ctx, const uint64_t *row, struct err *err);
    } tables[] = {
        [LEDGER_STATE] = { "journal_state", STATE, 1, state_row },
        [LEDGER_SUBS] = { "journal_subs", SUB, 0, sub_row },
        [LEDGER_GRADS] = { "journal_grads", GRAD, 0, grad_row },
        [LEDGER_RESIDUALS] = { "journal_residuals", RESIDUAL, 0, residual_row },
    };
    struct reading r = { .path = runlog_path(log), .table = tables[t].name,
                         .due = tables[t].first, .columns = tables[t].columns, .into = into };
    int64_t        got = ledger_read(log, t, n, tables[t].row, &r, err);

    if (got >= 0 && (size_t)got < n) // of the state there is one, or none
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is missing", r.path, r.table, r.due);
    return got < 0 ? (int)got : 0;
}

int journal_open(struct journal *j, struct runlog *log, size_t n_subs, int residuals,
                 struct err *err)
{
    int rc;

    *j = (struct journal){ .subs = calloc(n_subs, sizeof *j->subs),
                           .grads = calloc(n_subs, sizeof *j->grads),
                           .residuals = residuals ? calloc(n_subs, sizeof *j->residuals) : NULL };
    if (!j->subs || !j->grads || (residuals && !j->residuals))
        return err_set(err, -ENOMEM, "out of memory for the journal of %zu subgroups", n_subs);
    rc = table_read(log, LEDGER_STATE, 1, j, err);
    if (!rc)
        rc = table_read(log, LEDGER_SUBS, n_subs, j, err);
    if (!rc)
        rc = table_read(log, LEDGER_GRADS, n_subs, j, err);
    if (!rc && residuals)
        rc = table_read(log, LEDGER_RESIDUALS, n_subs, j, err);
    return rc;
}

void journal_close(struct journal *j)
{
    free(j->subs);
    free(j->grads);
    free(j->residuals);
    *j = (struct journal){ 0 };
}

int journal_position(struct runlog *log, uint64_t *next_step, uint64_t *applied, struct err *err)
{
    struct journal j = { 0 };
    int            rc = table_read(log, LEDGER_STATE, 1, &j, err);

    if (!rc) {
        *next_step = j.state.next_step;
        *applied = j.state.applied;
    }
    return rc;
}
