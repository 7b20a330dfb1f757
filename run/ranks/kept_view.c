/* kept_view.c: opens the ranks' runs that are seen, and looks at their parts. */
#include "run/ranks/kept_view.h"

#include "model/together.h"
#include "run/ranks/job_run.h"

/* Add the runs of the other ranks that lie next to rank 0's. */
static int add_others(struct kept_view *v, const struct session *s, struct err *err)
{
    struct err unsaid;
    int        rc = 0;

    for (size_t rank = 1; rank < v->ranks && !rc; rank++) {
        struct session *one = &v->of[v->n];
        char            dir[SESSION_PATH];

        job_run_dir(dir, s->dir, rank);
        if (session_open(one, dir, SESSION_LOOK, s->events, &unsaid) ||
            !job_run_together(s, one) || one->ranks.rank != rank) {
            session_close(one);
            continue;
        }
        v->n++;
        rc = kept_add(&v->seen, one, v->ranks, 0, err);
    }
    return rc;
}

int kept_view_open(struct kept_view *v, const struct session *s, struct comm *comm,
                   struct err *err)
{
    *v = (struct kept_view){ .comm = comm, .ranks = s->ranks.size };
    if (!(v->of = calloc(s->ranks.size, sizeof *v->of)))
        return err_set(err, -ENOMEM, "out of memory");
    v->of[v->n++] = *s;
    if (comm)
        return kept_look(&v->seen, s, comm, 0, err);
    int rc = kept_add(&v->seen, s, v->ranks, 0, err);
    return rc || s->ranks.rank ? rc : add_others(v, s, err);
}

void kept_view_close(struct kept_view *v)
{
    for (size_t i = 1; i < v->n; i++)
        session_close(&v->of[i]);
    free(v->of);
    kept_free(&v->seen);
}

/* A part of rank `owner` with this number; NULL: there is none. */
static const struct part_seen *part_of(const struct kept_view *v, size_t owner, uint64_t step,
                                       uint64_t n)
{
    for (size_t i = 0; i < v->seen.n; i++)
        if (v->seen.at[i].owner == owner && v->seen.at[i].step == step && v->seen.at[i].n == n)
            return &v->seen.at[i];
    return NULL;
}

size_t kept_view_lacks(const struct kept_view *v, const struct snapshot *at)
{
    const struct part_seen *own = part_of(v, v->of[0].ranks.rank, at->step, at->n);

    for (size_t rank = 0; own && rank < v->ranks; rank++)
        if (kept_lacks(&v->seen, own->step, own->sum, rank))
            return rank;
    return SIZE_MAX;
}

const struct part_seen *kept_view_other(const struct kept_view *v, size_t i)
{
    for (size_t k = 0; k < v->seen.n; k++) {
        const struct part_seen *at = &v->seen.at[k];
        int known = !kept_lacks(&v->seen, at->step, at->sum, v->of[0].ranks.rank);

        for (size_t j = 0; j < k && !known; j++)
            known = v->seen.at[j].step == at->step && v->seen.at[j].sum == at->sum;
        if (!known && i-- == 0)
            return at;
    }
    return NULL;
}

/* Read the part of `owner` that one of the runs sees. A path that was read is not read again. */
static int check_part(const struct session *by, const struct part_seen *part,
                      char (*read)[SESSION_PATH], size_t *n, struct err *err)
{
    struct session  s;
    struct snapshot at;
    int             rc = kept_find(&at, by, part, part->owner, err);

    for (size_t i = 0; i < *n && !rc; i++)
        if (!strcmp(read[i], at.path))
            return 0;
    if (rc)
        return rc;
    memcpy(read[(*n)++], at.path, SESSION_PATH);
    rc = session_open(&s, at.path, SESSION_READ, by->events, err);
    rc = rc ? rc : snapshot_verify(&s, err);
    session_close(&s);
    return rc;
}

int kept_view_check(const struct kept_view *v, const struct snapshot *at, uint64_t *damaged,
                    void (*say)(const char *sentence), struct err *err)
{
    const struct part_seen *own = part_of(v, v->of[0].ranks.rank, at->step, at->n);
    char (*read)[SESSION_PATH] = calloc(v->seen.n + 1, sizeof *read);
    size_t   n = 0;
    uint64_t none = 0;
    int      rc = read ? 0 : err_set(err, -ENOMEM, "out of memory");

    *damaged = 0;
    for (size_t i = 0; own && i < v->seen.n && !rc; i++) {
        const struct part_seen *part = &v->seen.at[i];

        for (size_t k = 0; k < v->n && !rc; k++)
            if (part->holder == v->of[k].ranks.rank && part->step == own->step &&
                part->sum == own->sum &&
                (rc = check_part(&v->of[k], part, read, &n, err)) && !err->stopped &&
                rc != -ENOMEM) {
                say(err->text);
                ++*damaged;
                rc = 0;
            }
    }
    free(read);
    return rc ? rc : together_add(v->comm, damaged, &none, err);
}
