/* agree.c: journals of several ranks brought to the same step. */
#include "offload/agree.h"

#include "comm/comm.h"
#include "offload/journal.h"
#include "offload/store.h"

struct position { uint64_t next_step, applied; };

/* Back to what the others have. The step's update has begun nowhere: every subgroup is at the
 * version before. The step's row is replaced when it is made again. */
static int go_back(const struct run_config *cfg, struct journal *j, size_t n_subs,
                   const struct position *to, struct err *err)
{
    for (size_t i = 0; i < n_subs; i++)
        if (j->subs[i].version != to->applied)
            return err_set(err, -EBADMSG, "%s: subgroup %zu is at version %llu, but another rank's "
                           "last commit at %llu: they are not of one time", cfg->dir, i,
                           (unsigned long long)j->subs[i].version, (unsigned long long)to->applied);
    j->state.next_step = to->next_step;
    j->state.applied = to->applied;
    int rc = runlog_begin(cfg->log, err);
    rc = rc ? rc : journal_put_state(cfg->log, &j->state, err);
    return runlog_end(cfg->log, rc, err);
}

int run_agree(const struct run_config *cfg, struct err *err)
{
    const struct run_ranks *r = &cfg->ranks;
    struct store            st;
    struct journal          j = { 0 };
    size_t                  least = 0;

    if (r->size < 2)
        return 0;
    struct position *all = calloc(r->size, sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory");
    int rc = store_init(&st, cfg, err);
    if (rc)
        goto out;
    rc = journal_open(&j, cfg->log, st.n_subs, st.error_feedback, err);
    struct position own = { j.state.next_step, j.state.applied };
    rc = rc ? rc : comm_share(r->comm, &own, sizeof own, all, err);
    for (size_t p = 1; p < r->size && !rc; p++)
        if (all[p].next_step < all[least].next_step)
            least = p;
    if (!rc && own.next_step > all[least].next_step + 1)
        rc = err_set(err, -EBADMSG, "%s is at step %llu, but rank %zu at %llu: its folder is of "
                     "another time", cfg->dir, (unsigned long long)own.next_step, least,
                     (unsigned long long)all[least].next_step);
    if (!rc && own.next_step > all[least].next_step)
        rc = go_back(cfg, &j, st.n_subs, &all[least], err);
    journal_close(&j);
    store_release(&st);
out:
    free(all);
    return rc;
}
