/* commits.c: one commit at a time, from its flushes to what it sets free. */
#include "offload/commits.h"

#include "data/base/clock.h"

#include <errno.h>
#include <stdlib.h>

size_t commits_tables(const struct store *st)
{
    size_t each = sizeof(size_t) + sizeof(struct journal_sub) + sizeof(struct journal_grad) +
                  (st->error_feedback ? sizeof(uint32_t) : 0);

    return st->n_subs * each;
}

/* What a job can hold is what the journal has: its arrays are what it is read into. */
int commits_open(struct commits *c, struct hub *h, struct subs *subs, struct err *err)
{
    const struct store *st = &h->dev.store;
    struct commit_job  *j = &c->job;
    struct journal      journal;
    size_t              n = st->n_subs;
    int                 rc;

    c->hub = h;
    c->subs = subs;
    c->flushes = calloc(st->n_devices, sizeof *c->flushes);
    j->subs = calloc(n, sizeof *j->subs);
    if (!c->flushes || !j->subs)
        return err_set(err, -ENOMEM, "out of memory for the journal");
    rc = journal_open(&journal, h->cfg.log, n, st->error_feedback, err);
    j->rows = journal.subs;
    j->grads = journal.grads;
    j->residuals = journal.residuals;
    subs->state = journal.state;
    if (!rc)
        rc = subs_open(subs, st, j->rows, j->grads, j->residuals, h->cfg.dir, err);
    return rc ? rc : committer_open(&c->committer, &h->dev, h->meter, err);
}

void commits_stop(struct commits *c)
{
    committer_close(&c->committer);
}

void commits_close(struct commits *c)
{
    free(c->flushes);
    free(c->job.subs);
    free(c->job.rows);
    free(c->job.grads);
    free(c->job.residuals);
}

/* Of what was speculated on in vain nothing is out any more: it reads gradients that the step after
 * may write. */
static int due_a(const struct commits *c)
{
    const struct updates *u = c->updates;

    return u->ask == ASK_WAITING && u->to_commit == 0 && c->subs->dropping == 0 &&
           gradients_written(c->gradients);
}

static int due_b(const struct commits *c)
{
    size_t uncommitted = 0;

    if (c->updates->ask != ASK_RUNNING)
        return 0; // not before A
    for (size_t k = 0; k < c->subs->store->n_classes; k++) {
        const struct store_class *of = &c->subs->store->classes[k];

        uncommitted += c->subs->free[k].uncommitted;
        if (c->subs->free[k].uncommitted * 2 >= of->slots - of->subs)
            return 1;
    }
    return uncommitted > 0 && c->updates->to_update == 0;
}

static void flushed(void *part, struct task *t)
{
    (void)t;
    ((struct commits *)part)->unflushed--;
}

static void begin(struct commits *c, int a)
{
    static const struct task_kind kind = { TASK_OF_DEVICE, flushed, NULL, NULL };

    c->since = clock_ns();
    c->state = COMMIT_FLUSHING;
    c->job.kind = a ? COMMIT_A : COMMIT_B;
    c->covered = subs_cover(c->subs);
    for (size_t d = 0; c->hub->cfg.durable && d < c->hub->dev.n; d++) {
        c->flushes[d] = (struct task){ .kind = &kind, .part = c, .job = { .kind = CSD_FLUSH } };
        c->unflushed++;
        hub_submit(c->hub, d, &c->flushes[d]);
    }
}

/* What the transaction says, as it is now: it is this thread that changes it. */
static void job_fill(struct commits *c)
{
    const struct stream_step *asked = &c->updates->asked;
    struct commit_job        *j = &c->job;
    size_t                    n = c->subs->store->n_subs;
    int                       a = j->kind == COMMIT_A;

    j->row = asked->row;
    j->redo = c->updates->redo;
    j->state = c->subs->state;
    j->n_rows = j->n_sums = 0;
    if (a) {
        j->last = asked->skip || c->covered == n;
        j->state.next_step = asked->row.step + 1;
    } else {
        j->last = c->covered == c->updates->to_commit;
        j->row.step = j->state.next_step - 1;
    }
    if (a && !asked->skip) {
        j->state.applied++;
        j->state.optim = asked->optim;
        j->n_sums = n;
    }
    for (size_t i = 0; i < n; i++) {
        const struct sub *u = &c->subs->sub[i];

        if (i < j->n_sums)
            j->grads[i] = u->grad;
        if (i < j->n_sums && j->residuals)
            j->residuals[i] = u->residual_next;
        if (u->state != SUB_COVERED)
            continue;
        j->subs[j->n_rows] = i;
        j->rows[j->n_rows++] = u->newest;
    }
}

static void span(struct commits *c)
{
    meter_span(c->hub->meter, c->job.row.step, PHASE_COMMIT, -1, -1, c->since, clock_ns(), 0);
}

static void settle(struct commits *c)
{
    int a = c->job.kind == COMMIT_A;

    if (!c->job.last)
        span(c);
    c->subs->state = c->job.state;
    subs_commit(c->subs);
    if (a)
        gradients_begin(c->gradients, c->updates->asked.skip);
    (a ? updates_committed_a : updates_committed_b)(c->updates);
}

int commits_advance(struct commits *c, struct err *err)
{
    int a;

    switch (c->state) {
    case COMMIT_NONE:
        a = due_a(c);
        if (!a && !due_b(c))
            return 0;
        begin(c, a);
        return 1;
    case COMMIT_FLUSHING:
        if (c->unflushed > 0)
            return 0;
        job_fill(c);
        if (c->job.last) // the transaction carries the step's spans: only the flush can be in them
            span(c);
        c->state = COMMIT_WRITING;
        committer_give(&c->committer, &c->job);
        return 1;
    default:
        if (!committer_take(&c->committer))
            return 0;
        if (c->job.rc) {
            *err = c->job.why;
            return c->job.rc;
        }
        c->state = COMMIT_NONE;
        settle(c);
        return 1;
    }
}
