/* recovery.c: brings the journals of several ranks to the same step. */
#include "offload/upkeep/recovery.h"

#include "comm/comm.h"
#include "data/base/crc32c.h"
#include "offload/devices/journal.h"
#include "offload/layout/store.h"

/* Opens the journal of this run, and computes its layout. The caller closes and releases them, also
 * after a failure. */
static int journal_of(struct journal *j, struct store *st, const struct run_config *cfg,
                      struct err *err)
{
    int rc = store_init(st, cfg, err);

    *j = (struct journal){ 0 };
    return rc ? rc : journal_open(j, cfg->log, st->n_subs, st->error_feedback, err);
}

static int take_sum(void *ctx, int n, const char **values, const char **names)
{
    uint32_t sum = 0;

    (void)names;
    for (int i = 0; i < n; i++)
        sum = crc32c(sum, values[i] ? values[i] : "", values[i] ? strlen(values[i]) + 1 : 0);
    *(uint64_t *)ctx = (uint64_t)1 << 32 | sum;
    return 0;
}

/* Reads loss, rate and norm of the last steps, to the last bit. */
static int gave_read(struct recovery_position *out, struct runlog *log, struct err *err)
{
    char sql[160];
    int  rc = 0;

    for (uint64_t i = 0; i < 2 && !rc && out->next_step > i; i++) {
        snprintf(sql, sizeof sql, "SELECT printf('%%!.17g %%!.17g %%!.17g', loss, lr, grad_norm)"
                 " FROM steps WHERE step = %" PRIu64, out->next_step - 1 - i);
        rc = runlog_query(log, sql, take_sum, &out->gave[i], err);
    }
    return rc;
}

static int branch_read(struct recovery_position *out, struct runlog *log, struct err *err)
{
    char text[24];
    int  rc = runlog_get(log, RECOVERY_BRANCH, text, sizeof text, err);

    if (rc)
        return rc == -ENOENT ? 0 : rc;
    return take_sum(&out->branch, 1, (const char *[]){ text }, NULL);
}

int recovery_read(struct recovery_position *out, const struct run_config *cfg, struct err *err)
{
    struct journal j;
    struct store   st;
    int            rc = journal_of(&j, &st, cfg, err);

    *out = (struct recovery_position){ .next_step = j.state.next_step, .applied = j.state.applied,
                                       .oldest = UINT64_MAX };
    for (size_t i = 0; i < st.n_subs && !rc; i++) {
        if (!st.subs[i].trains)
            continue;
        out->oldest = j.subs[i].version < out->oldest ? j.subs[i].version : out->oldest;
        out->newest = j.subs[i].version > out->newest ? j.subs[i].version : out->newest;
    }
    journal_close(&j);
    store_release(&st);
    rc = rc ? rc : branch_read(out, cfg->log, err);
    return rc ? rc : gave_read(out, cfg->log, err);
}

size_t recovery_target(const struct recovery_position *all, size_t n)
{
    size_t first = 0;

    for (size_t p = 1; p < n; p++)
        if (all[p].next_step < all[first].next_step)
            first = p;
    return first;
}

/* Checks that this rank can go back. A step that other ranks do not have has not happened: no
 * update of it has begun, and every subgroup is at the version before. A rank whose portions are
 * all frozen updates nothing, and can always go back. */
int recovery_check(const struct recovery_position *all, size_t n, size_t rank, const char *dir,
                   struct err *err)
{
    size_t                    first = recovery_target(all, n);
    const struct recovery_position *own = &all[rank], *to = &all[first];
    uint64_t                  gave = own->next_step - to->next_step < 2
                                         ? own->gave[own->next_step - to->next_step] : 0;

    if (own->branch != to->branch)
        return err_set(err, -EBADMSG, "%s and the folder of rank %zu are of two branches (--from): "
                       "put folders of one time into their places, or, if a --from was killed, "
                       "type it again", dir, first);
    if (gave && to->gave[0] && gave != to->gave[0])
        return err_set(err, -EBADMSG, "%s recorded step %" PRIu64 " with another loss, learning "
                       "rate or norm than rank %zu: the two are not of one training", dir,
                       to->next_step, first);
    if (own->next_step == to->next_step)
        return own->applied == to->applied
                   ? 0
                   : err_set(err, -EBADMSG, "%s has made %" PRIu64 " updates after step %" PRIu64
                             ", but rank %zu has made %" PRIu64 ": their folders are not of one "
                             "time", dir, own->applied, own->next_step, first, to->applied);
    if (own->next_step > to->next_step + 1)
        return err_set(err, -EBADMSG, "%s is at step %" PRIu64 ", but rank %zu at %" PRIu64
                       ": its folder is of another time", dir, own->next_step, first,
                       to->next_step);
    if (own->oldest <= own->newest &&
        (own->oldest != to->applied || own->newest != to->applied))
        return err_set(err, -EBADMSG, "%s is at step %" PRIu64 ", whose update has begun, but rank "
                       "%zu at %" PRIu64 ": its folder is of another time", dir, own->next_step,
                       first, to->next_step);
    return 1;
}

/* Goes back to the others' step. The step's row is replaced when the step is made again. */
static int go_back(const struct run_config *cfg, const struct recovery_position *to,
                   struct err *err)
{
    struct journal j;
    struct store   st;
    int            rc = journal_of(&j, &st, cfg, err);

    j.state.next_step = to->next_step;
    j.state.applied = to->applied;
    rc = rc ? rc : runlog_begin(cfg->log, err);
    if (!rc)
        rc = runlog_end(cfg->log, journal_put_state(cfg->log, &j.state, err), err);
    journal_close(&j);
    store_release(&st);
    return rc;
}

int recovery_run(const struct run_config *cfg, struct err *err)
{
    const struct run_ranks *r = &cfg->ranks;
    struct recovery_position own;

    if (r->size < 2)
        return 0;
    struct recovery_position *all = calloc(r->size, sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory");
    int rc = recovery_read(&own, cfg, err);
    rc = rc ? rc : comm_share(r->comm, &own, sizeof own, all, err);
    rc = rc ? rc : recovery_check(all, r->size, r->rank, cfg->dir, err);
    if (rc > 0)
        rc = go_back(cfg, &all[recovery_target(all, r->size)], err);
    free(all);
    return rc;
}
