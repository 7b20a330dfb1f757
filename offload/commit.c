/* commit.c: when a commit is due, and what it writes (docs/design.md, Storage and commits).
 *
 * One commit is on its way at a time. It begins with a flush of every device, submitted after the
 * writes it covers were reaped; when all flushes are back it is one transaction in run.db. Without
 * durability the flushes are left out. */
#include "offload/scheduler.h"

#include "data/base/clock.h"
#include "data/base/rss.h"

/* A: all gradients of the step are on the devices (or it is skipped), and the step before is
 * committed. Of what was speculated on in vain nothing is out any more: it reads gradients that the
 * step after may write. */
static int due_a(const struct scheduler *s)
{
    if (s->ask != ASK_WAITING || s->to_commit > 0 || s->dropping > 0)
        return 0;
    return s->grads_written == s->grads_sent;
}

/* B: the update is complete, or some class has used half of its spares. */
int commit_due_b(const struct scheduler *s)
{
    size_t uncommitted = 0;

    if (s->ask != ASK_RUNNING)
        return 0; // not before A
    for (size_t c = 0; c < s->dev.store.n_classes; c++) {
        const struct store_class *k = &s->dev.store.classes[c];

        uncommitted += s->free[c].uncommitted;
        if (s->free[c].uncommitted * 2 >= k->slots - k->subs)
            return 1;
    }
    return uncommitted > 0 && s->to_update == 0;
}

static void flush_submit(struct scheduler *s)
{
    s->unflushed = 0;
    for (size_t d = 0; s->cfg.durable && d < s->dev.n; d++) {
        s->flushes[d] = (struct task){ .kind = TASK_FLUSH, .sub = d, .job = { .kind = CSD_FLUSH } };
        s->unflushed++;
        s->dev.csd[d]->ops->submit(s->dev.csd[d], &s->flushes[d].job);
    }
}

/* Mark what this commit covers: an update that ends after the flush was submitted is left to the
 * next. */
static void cover(struct scheduler *s)
{
    for (size_t i = 0; i < s->dev.store.n_subs; i++)
        if (s->subs[i].state == SUB_UPDATED)
            s->subs[i].state = SUB_COVERED;
}

static int put_covered(struct scheduler *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < s->dev.store.n_subs; i++)
        if (s->subs[i].state == SUB_COVERED)
            rc = journal_put_sub(s->journal, i, &s->subs[i].newest, err);
    return rc;
}

/* With what was updated before: none of it is committed yet, all that is covered is now. last:
 * there will be no B. */
static int write_a(struct scheduler *s, int last, struct err *err)
{
    struct runlog *log = s->cfg.log;
    struct journal_state next = s->state;
    struct runlog_step row = s->asked.row;
    int rc;

    row.peak_rss = rss_peak(); // so far: a skipped step has no B, a killed one none of its own
    next.next_step = s->asked.row.step + 1;
    if (!s->asked.skip) {
        next.applied++;
        next.optim = s->asked.optim;
    }
    rc = devices_present(&s->dev, err);
    if (!rc)
        rc = runlog_begin(log, err);
    for (size_t i = 0; !rc && !s->asked.skip && i < s->dev.store.n_subs; i++)
        rc = journal_put_grad(s->journal, i, &s->subs[i].grad, err);
    for (size_t i = 0; !rc && !s->asked.skip && s->cfg.error_feedback && i < s->dev.store.n_subs;
         i++)
        rc = journal_put_residual(s->journal, i, s->subs[i].residual_next, err);
    if (!rc)
        rc = put_covered(s, err);
    if (!rc)
        rc = journal_put_state(s->journal, &next, err);
    if (!rc)
        rc = runlog_step(log, &row, err);
    if (!rc && last)
        rc = meter_flush(s->meter, s->asked.row.step, log, err);
    if (!rc)
        rc = runlog_commit(log, err);
    if (rc) {
        runlog_rollback(log);
        return rc;
    }
    s->state = next;
    return 0;
}

static int write_b(struct scheduler *s, int last, struct err *err)
{
    struct runlog *log = s->cfg.log;
    uint64_t step = s->state.next_step - 1;
    int rc = devices_present(&s->dev, err);

    if (!rc)
        rc = runlog_begin(log, err);
    if (!rc)
        rc = put_covered(s, err);
    if (!rc && last && !s->redo)
        rc = runlog_step_done(log, step, s->asked.row.seconds, rss_peak(), err);
    if (!rc && last)
        rc = meter_flush(s->meter, step, log, err);
    if (!rc)
        rc = runlog_commit(log, err);
    if (rc)
        runlog_rollback(log);
    return rc;
}

/* The transaction is through: the slots of the versions before are free. */
static void covered_settle(struct scheduler *s)
{
    for (size_t i = 0; i < s->dev.store.n_subs; i++) {
        struct sub *u = &s->subs[i];

        if (u->state != SUB_COVERED)
            continue;
        scheduler_slot_free(s, i, u->committed.slot);
        s->free[s->dev.store.subs[i].class_].uncommitted--;
        u->committed = u->newest;
        param_set_add(&s->kept, s->dev.store.subs[i].block, s->dev.store.subs[i].first, u->kept);
        u->state = SUB_CLEAN;
    }
}

static void after_a(struct scheduler *s)
{
    s->grads_sent = s->grads_written = 0;
    for (size_t i = 0; i < s->dev.store.n_subs; i++)
        s->subs[i].written = 0;
    if (s->asked.skip) {
        s->ask = ASK_NONE;
        return;
    }
    for (size_t i = 0; i < s->dev.store.n_subs; i++)
        s->subs[i].residual_crc = s->subs[i].residual_next;
    covered_settle(s);
    scheduler_count(s);
    scheduler_queue(s);
    s->ask = s->to_commit > 0 ? ASK_RUNNING : ASK_NONE;
}

static void after_b(struct scheduler *s)
{
    covered_settle(s);
    scheduler_count(s);
    if (s->to_commit == 0) {
        s->ask = ASK_NONE;
        s->redo = 0;
    }
}

static size_t covered(const struct scheduler *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->dev.store.n_subs; i++)
        n += s->subs[i].state == SUB_COVERED;
    return n;
}

int commit_advance(struct scheduler *s, int *progress, struct err *err)
{
    enum commit_kind kind = s->commit;
    uint64_t step;
    int rc, last;

    if (kind == COMMIT_NONE) {
        s->commit = due_a(s) ? COMMIT_A : commit_due_b(s) ? COMMIT_B : COMMIT_NONE;
        if (s->commit == COMMIT_NONE)
            return 0;
        *progress = 1;
        s->commit_ns = clock_ns();
        cover(s);
        flush_submit(s);
        return 0;
    }
    if (s->unflushed > 0)
        return 0;
    last = kind == COMMIT_A ? s->asked.skip || covered(s) == s->dev.store.n_subs
                            : covered(s) == s->to_commit;
    step = kind == COMMIT_A ? s->asked.row.step : s->state.next_step - 1;
    if (last) // its transaction carries the step's spans: only the flush can be among them
        meter_span(s->meter, step, PHASE_COMMIT, -1, -1, s->commit_ns, clock_ns(), 0);
    pthread_mutex_unlock(&s->mutex); // what the transaction reads is changed by this thread alone
    rc = kind == COMMIT_A ? write_a(s, last, err) : write_b(s, last, err);
    pthread_mutex_lock(&s->mutex);
    if (rc)
        return rc;
    if (!last)
        meter_span(s->meter, step, PHASE_COMMIT, -1, -1, s->commit_ns, clock_ns(), 0);
    *progress = 1;
    s->commit = COMMIT_NONE;
    if (kind == COMMIT_A)
        after_a(s);
    else
        after_b(s);
    pthread_cond_broadcast(&s->changed);
    return 0;
}
