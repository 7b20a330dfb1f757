/* journal.c: writes and reads the journal's rows in run.db. The last number of each row is a
 * checksum of the others, including the key, in the order of the columns. */
#include "offload/devices/journal.h"

#include "data/db/ledger.h"

/* Writes a row with its checksum, which goes behind the first n numbers. */
static int put(struct runlog *log, enum ledger_table t, uint64_t *row, size_t n, struct err *err)
{
    row[n] = ledger_sum(row, n);
    return ledger_put(log, t, row, err);
}

enum { STATE = 14, SUB = 5, GRAD = 3, RESIDUAL = 2 }; // columns without the checksum
_Static_assert(OPTIM_ADAMW == 0 && OPTIM_ADAM == 1 && OPTIM_SGD == 2 && OPTIM_ADAGRAD == 3,
               "as journal_state has them");

/* The numbers of an optimizer's step, in the order of their columns. NUMBER is the first column. */
enum { NUMBER = 4 };
#define AT(name) offsetof(struct optim_step, name)
static const size_t numbers[] = { AT(lr), AT(beta1), AT(beta2), AT(eps), AT(one_minus_beta1),
                                  AT(one_minus_beta2), AT(step_size), AT(bias2_sqrt),
                                  AT(grad_scale) };
enum { NUMBERS = sizeof numbers / sizeof *numbers };

int journal_put_state(struct runlog *log, const struct journal_state *s, struct err *err)
{
    const char *o = (const char *)&s->optim;
    uint64_t    row[STATE + 1] = { 1, s->next_step, s->applied, (uint64_t)s->optim.kind };

    for (size_t i = 0; i < NUMBERS; i++)
        row[NUMBER + i] = real_bits((double)*(const float *)(const void *)(o + numbers[i]));
    row[STATE - 1] = (uint64_t)s->optim.first;
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

/* The last table that has a row per subgroup. The first is LEDGER_SUBS. */
static enum ledger_table last_table(const uint32_t *residuals)
{
    return residuals ? LEDGER_RESIDUALS : LEDGER_GRADS;
}

int journal_format(struct runlog *log, const struct journal *j, size_t n_subs, int again,
                   struct err *err)
{
    struct journal_grad none = { 0 };
    int                 rc = again ? 0 : ledger_make(log, LEDGER_STATE, err);

    if (!rc && !again)
        rc = journal_put_state(log, &(struct journal_state){ 0 }, err);
    for (enum ledger_table t = LEDGER_SUBS; !rc && t <= last_table(j->residuals); t++)
        rc = again ? ledger_clear(log, t, err) : ledger_make(log, t, err);
    for (size_t i = 0; !rc && i < n_subs; i++) {
        rc = journal_put_sub(log, i, &j->subs[i], err);
        rc = rc ? rc : journal_put_grad(log, i, &none, err);
        if (!rc && j->residuals)
            rc = journal_put_residual(log, i, j->residuals[i], err);
    }
    return rc;
}

/* ---- reading */

/* A table while it is read: the row that comes next, and where its numbers go. */
struct reading {
    enum ledger_table t;
    const char       *path, *table;
    size_t            due;
    struct journal   *into;
};

static int missing(const struct reading *r, struct err *err)
{
    return err_set(err, -EBADMSG, "%s: table %s: row %zu is missing", r->path, r->table, r->due);
}

/* Checks and stores the next row. The checksum covers the columns as stored, before they are cut to
 * their types. */
static int row_take(void *ctx, const uint64_t *row, struct err *err)
{
    static const size_t   columns[] = { STATE, SUB, GRAD, RESIDUAL };
    struct reading       *r = ctx;
    size_t                i = r->due;
    struct journal       *j = r->into;
    struct journal_state *s = &j->state;

    if (row[0] != i)
        return missing(r, err);
    if (row[columns[r->t]] != ledger_sum(row, columns[r->t]))
        return err_set(err, -EBADMSG, "%s: table %s: row %zu is damaged (checksum differs)",
                       r->path, r->table, i);
    r->due++;
    if (r->t == LEDGER_SUBS) {
        j->subs[i] = (struct journal_sub){ .slot = (uint32_t)row[1], .version = row[2],
                                           .states_crc = (uint32_t)row[3],
                                           .wire_crc = (uint32_t)row[4] };
    } else if (r->t == LEDGER_GRADS) {
        j->grads[i] = (struct journal_grad){ .crc = (uint32_t)row[1], .pairs = row[2] };
    } else if (r->t == LEDGER_RESIDUALS) {
        j->residuals[i] = (uint32_t)row[1];
    } else {
        *s = (struct journal_state){ .next_step = row[1], .applied = row[2],
                                     .optim.kind = (enum optim_kind)row[3],
                                     .optim.first = (int)row[STATE - 1] };
        for (size_t k = 0; k < NUMBERS; k++)
            *(float *)(void *)((char *)&s->optim + numbers[k]) = (float)bits_real(row[NUMBER + k]);
    }
    return 0;
}

/* Reads n rows of a table. The state's table has one row of id 1, or none. */
static int table_read(struct runlog *log, enum ledger_table t, size_t n, struct journal *into,
                      struct err *err)
{
    static const char *const names[] = { "journal_state", "journal_subs", "journal_grads",
                                         "journal_residuals" };
    struct reading r = { .t = t, .path = runlog_path(log), .table = names[t],
                         .due = t == LEDGER_STATE, .into = into };
    int64_t        got = ledger_read(log, t, n, row_take, &r, err);

    return got < 0 ? (int)got : (size_t)got < n ? missing(&r, err) : 0;
}

int journal_open(struct journal *j, struct runlog *log, size_t n_subs, int residuals,
                 struct err *err)
{
    *j = (struct journal){ .subs = calloc(n_subs + 1, sizeof *j->subs),
                           .grads = calloc(n_subs + 1, sizeof *j->grads) };
    if (residuals)
        j->residuals = calloc(n_subs + 1, sizeof *j->residuals);
    if (!j->subs || !j->grads || (residuals && !j->residuals))
        return err_set(err, -ENOMEM, "out of memory for the journal of %zu subgroups", n_subs);
    int rc = table_read(log, LEDGER_STATE, 1, j, err);
    for (enum ledger_table t = LEDGER_SUBS; !rc && t <= last_table(j->residuals); t++)
        rc = table_read(log, t, n_subs, j, err);
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

/* ---- one subgroup ---- */

enum { LOOK = SUB + 3 }; // a subgroup's row with its checksum, applied, the residual's checksum

static int look_row(void *ctx, int n, const char **values, const char **names)
{
    uint64_t *row = ctx;

    (void)names;
    for (int i = 0; i < n && i < LOOK; i++)
        row[i] = runlog_count(values[i]);
    row[LOOK] = 1;
    return 0;
}

int journal_look(struct journal_look *out, struct runlog *log, size_t sub, int residuals,
                 struct err *err)
{
    uint64_t row[LOOK + 1] = { 0 };
    int      rc = runlog_ask(log, look_row, row, err,
                             "SELECT sub, slot, version, states_crc, wire_crc, sum, (SELECT"
                             " applied FROM journal_state), %s FROM journal_subs WHERE sub = %zu",
                             residuals ? "(SELECT r.crc FROM journal_residuals r WHERE r.sub ="
                                         " journal_subs.sub)" : "0", sub);

    if (!rc && (!row[LOOK] || row[SUB] != ledger_sum(row, SUB)))
        rc = err_set(err, -EBADMSG, "%s: table journal_subs: row %zu is %s", runlog_path(log), sub,
                     row[LOOK] ? "damaged (checksum differs)" : "missing");
    *out = (struct journal_look){ { (uint32_t)row[1], (uint32_t)row[3], (uint32_t)row[4], row[2] },
                                  row[SUB + 1], (uint32_t)row[SUB + 2] };
    return rc;
}
