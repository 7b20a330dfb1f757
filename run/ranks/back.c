/* back.c: agrees on the snapshot to which all ranks go. */
#include "run/ranks/back.h"

#include "model/together.h"
#include "run/folder/settings.h"
#include "run/ranks/keeping.h"

/* The parts of the snapshot to which this rank was on its way, which is the one of that number. */
static const struct part_seen *mark_find(const struct parts_seen *seen, size_t rank, uint64_t step,
                                         uint64_t n)
{
    for (const struct part_seen *at = seen->at; at < seen->at + seen->n; at++)
        if (at->owner == rank && at->step == step && at->n == n)
            return at;
    return NULL;
}

/* Leave only the parts of the snapshots that ranks which are half way name. */
static int keep_marked(struct parts_seen *seen, int *half_way, const struct session *s,
                       struct comm *comm, const uint64_t *step, const char *to, struct err *err)
{
    struct { uint64_t marked, step, sum; } own = { 0 }, *all;
    const struct part_seen *at;
    char                    line[SESSION_LINE];
    uint64_t                n = 0;
    size_t                  left = 0;

    if (to && (sscanf(to, "%" SCNu64 " %" SCNu64, &own.step, &n) != 2 ||
               (step && own.step != *step)))
        return err_misuse(err, "%s is on its way back to the snapshot after step %" PRIu64 ", and "
                          "was stopped before it was there; go on with: %s --from %" PRIu64,
                          s->dir, own.step, session_resume_line(line, s), own.step);
    if (to && !(at = mark_find(seen, comm->rank, own.step, n)))
        return err_set(err, -ENOENT, "%s is on its way back to the snapshot %s, which is not there,"
                       " or not whole: put it back, and type this command again", s->dir,
                       strchr(to, '/') ? strchr(to, '/') : to);
    own.marked = to != NULL;
    own.sum = to ? at->sum : 0;
    if (!(all = calloc(comm->size, sizeof *all)))
        return err_set(err, -ENOMEM, "out of memory");
    int rc = comm_share(comm, &own, sizeof own, all, err);
    *half_way = 0;
    for (size_t p = 0; p < comm->size && !rc; p++) {
        *half_way |= (int)all[p].marked;
        left = all[p].marked ? 0 : left;
        for (size_t i = 0; i < seen->n && all[p].marked; i++)
            if (seen->at[i].step == all[p].step && seen->at[i].sum == all[p].sum)
                seen->at[left++] = seen->at[i];
        seen->n = all[p].marked ? left : seen->n;
    }
    free(all);
    return rc;
}

int back_choose(struct part_seen *out, int *half_way, struct parts_seen *seen,
                const struct session *s, struct comm *comm, const uint64_t *step, const char *dir,
                struct err *err)
{
    char *to = NULL;
    int   rc = s ? settings_find(&to, s->log, err, "going_back") : 0;

    rc = rc ? rc : keep_marked(seen, half_way, s, comm, step, to, err);
    free(to);
    return rc ? rc : kept_choose(out, seen, comm->size, step, dir, err);
}

int back_find(struct snapshot *out, int *half_way, struct session *s, const uint64_t *step,
              struct err *err)
{
    struct parts_seen seen;
    struct part_seen  at;
    int               rc = kept_look(&seen, s, s->ranks.comm, err);

    rc = rc ? rc : back_choose(&at, half_way, &seen, s, s->ranks.comm, step, s->dir, err);
    rc = rc ? rc : keeping_fetch(out, s, &seen, &at, err);
    kept_free(&seen);
    return rc;
}

int back_wait(const struct session *s, struct err *err)
{
    return s->ranks.comm ? comm_share(s->ranks.comm, NULL, 0, NULL, err) : 0;
}

int back_add(const struct session *s, uint64_t *n, struct err *err)
{
    uint64_t none = 0;

    return together_add(s->ranks.comm, n, &none, err);
}
