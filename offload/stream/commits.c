/* commits.c: makes one commit at a time, from the flushes of its devices to what it sets free. */
#include "offload/stream/commits.h"

#include "data/base/clock.h"
#include "data/base/machine.h"

/* ---- the committer: one transaction per job */

/* Writes all rows of a job, inside the transaction. */
static int rows_put(struct commits *c, struct commit_job *j, struct err *err)
{
    struct runlog *log = c->sched->cfg.log;
    int            rc = 0;

    const struct store_sub *of = c->subs->store->subs;

    for (size_t i = 0; !rc && i < j->n_sums; i++)
        rc = of[i].trains ? journal_put_grad(log, i, &j->j.grads[i], err) : 0;
    for (size_t i = 0; !rc && j->j.residuals && i < j->n_sums; i++)
        rc = of[i].trains ? journal_put_residual(log, i, j->j.residuals[i], err) : 0;
    for (size_t i = 0; !rc && i < j->n_rows; i++)
        rc = journal_put_sub(log, j->subs[i], &j->j.subs[i], err);
    if (!rc && j->a)
        rc = journal_put_state(log, &j->j.state, err);
    j->row.peak_rss = rss_peak(); // peak so far: a skipped step has no B, nor has a killed one
    if (!rc && j->a)
        rc = runlog_step(log, &j->row, err);
    if (!rc && j->a && j->choice.layers)
        rc = runlog_choice(log, &j->choice, err);
    if (!rc && !j->a && j->last && !j->redo)
        rc = runlog_step_done(log, j->row.step, j->row.seconds, j->row.peak_rss, err);
    if (!rc && j->last)
        rc = meter_flush(c->sched->meter, j->row.step, log, err);
    return rc;
}

static int transaction(struct commits *c, struct commit_job *j, struct err *err)
{
    struct runlog *log = c->sched->cfg.log;
    int            rc = devices_present(&c->sched->dev, "the run was writing to it; bring "
                                         "it back and go on with --resume", err);

    rc = rc ? rc : runlog_begin(log, err);
    rc = rc ? rc : rows_put(c, j, err);
    return runlog_end(log, rc, err);
}

static int committer_work(void *commits)
{
    struct commits *c = commits;

    if (c->whose != JOB_GIVEN)
        return 0;
    thread_unlock(&c->committer);
    c->job.rc = transaction(c, &c->job, &c->job.why);
    thread_lock(&c->committer);
    c->whose = JOB_OVER;
    bell_ring(&c->sched->dev.bell);
    return 1;
}

/* Takes the job back. 0: it is not over. */
static int job_take(struct commits *c)
{
    thread_lock(&c->committer);
    int over = c->whose == JOB_OVER;
    if (over)
        c->whose = JOB_IDLE;
    thread_unlock(&c->committer);
    return over;
}

/* ---- opening */

void commits_tables(struct commits *c, const struct store *st, struct arena *a)
{
    c->next_steps = arena_take(a, c->sched->cfg.ranks.size * sizeof *c->next_steps);
    c->next_steps_at = arena_take(a, (c->sched->cfg.ranks.size + 1) * sizeof *c->next_steps_at);
    c->flushes = arena_take(a, st->n_devices * sizeof *c->flushes);
    c->job.subs = arena_take(a, st->n_subs * sizeof *c->job.subs);
}

/* Allocates the job's arrays by reading the journal into them: a job can hold what the journal
 * has. */
int commits_open(struct commits *c, struct err *err)
{
    const struct store *st = &c->sched->dev.store;
    struct journal     *j = &c->job.j;
    int rc = journal_open(j, c->sched->cfg.log, st->n_subs, st->error_feedback, err);

    rc = rc ? rc : subs_open(c->subs, st, j, c->sched->cfg.dir, err);
    thread_init(&c->committer, committer_work, c);
    return rc ? rc : thread_start(&c->committer, "committer", err);
}

int commits_give_up(struct commits *c)
{
    return !c->awaits_ranks || comm_give_up(c->sched->cfg.ranks.comm, &c->telling);
}

void commits_close(struct commits *c)
{
    thread_release(&c->committer);
    journal_close(&c->job.j);
}

/* ---- what is due, and what follows from a commit */

/* Whether commit A is due. If speculation failed, its updates must have come back first: they read
 * gradients that the next step may overwrite. */
static int due_a(const struct commits *c)
{
    const struct updates *u = c->updates;

    return u->ask == ASK_WAITING && !c->awaits_ranks && u->to_commit == 0 &&
           c->subs->dropping == 0 && c->gradients->written == c->gradients->sent;
}

static int due_b(const struct commits *c)
{
    size_t uncommitted = 0;

    if (c->updates->ask != ASK_RUNNING || c->awaits_ranks)
        return 0; // not before every rank's A
    for (size_t k = 0; k < c->subs->store->n_classes; k++) {
        const struct store_class *of = &c->subs->store->classes[k];

        uncommitted += c->subs->free[k].uncommitted;
        if (of->trains && c->subs->free[k].uncommitted * 2 >= of->slots - of->subs)
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
    c->job.a = a;
    c->covered = a && c->sched->cfg.ranks.size > 1 ? 0 : subs_cover(c->subs);
    for (size_t d = 0; c->sched->cfg.durable && d < c->sched->dev.n; d++) {
        c->flushes[d] = (struct task){ .kind = &kind, .part = c, .job = { .kind = CSD_FLUSH } };
        c->unflushed++;
        scheduler_submit(c->sched, d, &c->flushes[d]);
    }
}

/* Fills the job with what the transaction writes. Only this thread changes these values. */
static void job_fill(struct commits *c)
{
    const struct stream_step *asked = &c->updates->asked;
    struct commit_job        *j = &c->job;
    size_t                    n = c->subs->store->n_subs;

    j->row = asked->row;
    j->choice = asked->choice;
    j->redo = c->updates->redo;
    j->j.state = c->subs->state;
    j->n_rows = j->n_sums = 0;
    if (j->a) {
        j->last = asked->skip || c->covered == c->subs->store->n_trained;
        j->j.state.next_step = asked->row.step + 1;
    } else {
        j->last = c->covered == c->updates->to_commit;
        j->row.step = j->j.state.next_step - 1;
    }
    if (j->a && !asked->skip) {
        j->j.state.applied++;
        j->j.state.optim = asked->optim;
        j->n_sums = n;
    }
    for (size_t i = 0; i < n; i++) {
        const struct sub *u = &c->subs->sub[i];

        if (i < j->n_sums)
            j->j.grads[i] = u->grad;
        if (i < j->n_sums && j->j.residuals)
            j->j.residuals[i] = u->residual_next;
        if (u->state != SUB_COVERED)
            continue;
        j->subs[j->n_rows] = i;
        j->j.subs[j->n_rows++] = u->newest;
    }
}

static void span(struct commits *c)
{
    meter_span(c->sched->meter, c->job.row.step, PHASE_COMMIT, -1, -1, c->since, clock_ns(), 0);
}

/* Tells the other ranks that this rank's A is durable. */
static int ranks_tell(struct commits *c, struct err *err)
{
    const struct run_ranks *r = &c->sched->cfg.ranks;

    if (r->size < 2)
        return 0;
    for (size_t p = 0; p <= r->size; p++)
        c->next_steps_at[p] = p * sizeof *c->next_steps;
    c->next_steps[r->rank] = c->job.j.state.next_step;
    c->awaits_ranks = 1;
    return comm_gather(r->comm, COMM_COMMITS, c->next_steps, c->next_steps_at, &c->telling, err);
}

static int ranks_told(struct commits *c, struct err *err)
{
    const struct run_ranks *r = &c->sched->cfg.ranks;
    int                     rc = c->awaits_ranks ? comm_test(r->comm, &c->telling, err) : 0;

    for (size_t p = 0; p < r->size && rc > 0; p++)
        if (c->next_steps[p] != c->next_steps[r->rank])
            rc = err_set(err, -EPROTO, "rank %zu has committed step %llu, this one step %llu", p,
                         (unsigned long long)c->next_steps[p],
                         (unsigned long long)c->next_steps[r->rank]);
    c->awaits_ranks = rc > 0 ? 0 : c->awaits_ranks;
    return rc;
}

static void settle(struct commits *c)
{
    if (!c->job.last)
        span(c);
    c->subs->state = c->job.j.state;
    subs_commit(c->subs);
    if (c->job.a)
        gradients_begin(c->gradients, c->updates->asked.skip);
    updates_committed(c->updates, c->job.a);
}

int commits_advance(struct commits *c, struct err *err)
{
    int a, told = ranks_told(c, err);

    if (told)
        return told;
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
        if (c->job.last) // spans are in this transaction, so they can contain only the flush
            span(c);
        c->state = COMMIT_WRITING;
        thread_lock(&c->committer);
        c->whose = JOB_GIVEN;
        thread_changed(&c->committer);
        thread_unlock(&c->committer);
        return 1;
    default:
        if (!job_take(c))
            return 0;
        if (c->job.rc) {
            *err = c->job.why;
            return c->job.rc;
        }
        c->state = COMMIT_NONE;
        settle(c);
        a = c->job.a ? ranks_tell(c, err) : 0;
        return a ? a : 1;
    }
}
