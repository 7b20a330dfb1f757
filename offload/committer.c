/* committer.c: a job, a transaction. */
#include "offload/committer.h"

#include "data/base/machine.h"

#include <errno.h>
#include <string.h>

/* All its rows, inside the transaction. */
static int rows_put(struct committer *c, struct commit_job *j, struct err *err)
{
    struct runlog *log = c->dev->cfg.log;
    int            a = j->kind == COMMIT_A, rc = 0;

    for (size_t i = 0; !rc && i < j->n_sums; i++)
        rc = journal_put_grad(log, i, &j->grads[i], err);
    for (size_t i = 0; !rc && j->residuals && i < j->n_sums; i++)
        rc = journal_put_residual(log, i, j->residuals[i], err);
    for (size_t i = 0; !rc && i < j->n_rows; i++)
        rc = journal_put_sub(log, j->subs[i], &j->rows[i], err);
    if (!rc && a)
        rc = journal_put_state(log, &j->state, err);
    j->row.peak_rss = rss_peak(); // so far: a skipped step has no B, a killed one none of its own
    if (!rc && a)
        rc = runlog_step(log, &j->row, err);
    else if (!rc && j->last && !j->redo)
        rc = runlog_step_done(log, j->row.step, j->row.seconds, j->row.peak_rss, err);
    if (!rc && j->last)
        rc = meter_flush(c->meter, j->row.step, log, err);
    return rc;
}

static int transaction(struct committer *c, struct commit_job *j, struct err *err)
{
    struct runlog *log = c->dev->cfg.log;
    int            rc = devices_present(c->dev, err);

    if (!rc)
        rc = runlog_begin(log, err);
    if (!rc)
        rc = rows_put(c, j, err);
    return runlog_end(log, rc, err);
}

static void *committer_main(void *arg)
{
    struct committer *c = arg;

    pthread_mutex_lock(&c->mutex);
    while (c->state != COMMITTER_STOP) {
        if (c->state != COMMITTER_GIVEN) {
            pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        pthread_mutex_unlock(&c->mutex);
        c->job->rc = transaction(c, c->job, &c->job->why);
        pthread_mutex_lock(&c->mutex);
        c->state = COMMITTER_OVER;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->mutex);
        csd_bell_ring(&c->dev->bell);
        pthread_mutex_lock(&c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

int committer_open(struct committer *c, struct devices *dev, struct meter *meter, struct err *err)
{
    int rc;

    c->dev = dev;
    c->meter = meter;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    rc = -pthread_create(&c->thread, NULL, committer_main, c);
    if (rc)
        return err_set(err, rc, "start the committer's thread: %s", strerror(-rc));
    c->started = 1;
    pthread_setname_np(c->thread, "committer");
    return 0;
}

void committer_close(struct committer *c)
{
    if (c->started) {
        pthread_mutex_lock(&c->mutex);
        while (c->state == COMMITTER_GIVEN)
            pthread_cond_wait(&c->changed, &c->mutex);
        c->state = COMMITTER_STOP;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->mutex);
        pthread_join(c->thread, NULL);
    }
    if (c->dev) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->mutex);
    }
}

void committer_give(struct committer *c, struct commit_job *job)
{
    pthread_mutex_lock(&c->mutex);
    c->job = job;
    c->state = COMMITTER_GIVEN;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

int committer_take(struct committer *c)
{
    int over;

    pthread_mutex_lock(&c->mutex);
    over = c->state == COMMITTER_OVER;
    if (over)
        c->state = COMMITTER_IDLE;
    pthread_mutex_unlock(&c->mutex);
    return over;
}
