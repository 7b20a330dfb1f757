/* parts_view.c: collects the parts of snapshots, and reads each once. */
#include "run/ranks/parts_view.h"

#include "model/together.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"
#include "run/snapshots/made_whole.h"

/* What reading has shown of all parts of a snapshot: how many are damaged, how many of these their
 * parity would not make whole, and how many this user may not read. */
struct parts_found { uint64_t damaged, lost, denied; };

/* Add the runs of the other ranks that lie next to rank 0's. One that is in use elsewhere, or that
 * this process may not read, is not a missing one. */
static int add_others(struct parts_view *v, const struct session *s, struct err *err)
{
    int rc = 0;

    for (size_t rank = 1; rank < v->ranks && !rc; rank++) {
        struct session *one = &v->of[v->n];
        char            dir[SESSION_PATH];

        rank_dir(dir, s->dir, rank);
        rc = session_open(one, dir, SESSION_LOOK, s->events, err);
        if (rc || !job_run_together(s, one) || one->ranks.rank != rank) {
            session_close(one);
            rc = rc == -EBUSY || file_is_unread(rc) ? rc : 0;
            continue;
        }
        v->n++;
        rc = rank_parts_add(&v->seen, one, 1, err);
    }
    return rc;
}

static int add_all(struct parts_view *v, const struct session *s, struct err *err)
{
    if (v->comm)
        return rank_parts_look(&v->seen, s, v->comm, 1, err);
    int rc = rank_parts_add(&v->seen, s, 1, err);

    return rc || s->ranks.rank ? rc : add_others(v, s, err);
}

int parts_view_open(struct parts_view *v, const struct session *s, struct comm *comm,
                    struct err *err)
{
    *v = (struct parts_view){ .comm = comm, .ranks = s->ranks.size };
    if (!(v->of = calloc(s->ranks.size, sizeof *v->of)))
        return err_set(err, -ENOMEM, "out of memory");
    v->of[v->n++] = *s;
    int rc = add_all(v, s, err);
    if (!rc && !(v->found = calloc(v->seen.n + 1, sizeof *v->found)))
        rc = err_set(err, -ENOMEM, "out of memory");
    return rc;
}

void parts_view_close(struct parts_view *v)
{
    for (size_t i = 1; i < v->n; i++)
        session_close(&v->of[i]);
    free(v->of);
    free(v->found);
    rank_parts_free(&v->seen);
}

/* The first part of the same snapshot. */
static size_t first_of(const struct parts_view *v, const struct part_seen *part)
{
    size_t i = 0;

    while (!rank_parts_same(&v->seen.at[i], part))
        i++;
    return i;
}

struct parts_lack parts_view_add(const struct parts_view *v, struct snapshot *at)
{
    struct parts_lack       lack = { SIZE_MAX, SIZE_MAX };
    const struct part_seen *own = NULL;

    for (const struct part_seen *p = v->seen.at; p < v->seen.at + v->seen.n && !own; p++)
        if (p->owner == v->of[0].ranks.rank && p->step == at->step && p->n == at->n)
            own = p;
    for (size_t rank = v->ranks; own && rank-- > 0;) {
        const struct part_seen *part = rank_parts_of(&v->seen, own, rank);

        lack.rank = part ? lack.rank : rank;
        lack.by_parity = part && !part->whole ? rank : lack.by_parity;
    }
    struct parts_found found = own ? v->found[first_of(v, own)] : (struct parts_found){ 0 };

    at->whole &= lack.rank == SIZE_MAX && lack.by_parity == SIZE_MAX && !found.damaged &&
                 !found.denied;
    at->denied |= found.denied && !found.damaged;
    at->parity = found.lost ? 0 : at->parity;
    return lack;
}

const struct part_seen *parts_view_other(const struct parts_view *v, size_t i)
{
    for (size_t k = 0; k < v->seen.n; k++) {
        const struct part_seen *at = &v->seen.at[k];

        if (first_of(v, at) == k && !rank_parts_of(&v->seen, at, v->of[0].ranks.rank) && i-- == 0)
            return at;
    }
    return NULL;
}

/* ---- reading ---- */

/* Whose folder this process reads the part in; NULL: another process reads it, or it is read where
 * another rank sees it, too. */
static const struct session *reader_of(const struct parts_view *v, const struct part_seen *part)
{
    for (const struct part_seen *at = v->seen.at; at < v->seen.at + v->seen.n; at++)
        if (part->file && at->file == part->file && at->owner == part->owner &&
            part->holder != part->owner && (at->holder == at->owner || at->holder < part->holder))
            return NULL;
    for (size_t k = 0; k < v->n; k++)
        if (v->of[k].ranks.rank == part->holder)
            return &v->of[k];
    return NULL;
}

static int check_part(struct parts_found *found, const struct session *by,
                      const struct part_seen *part, void (*say)(const char *sentence),
                      struct err *err)
{
    struct snapshot at;
    struct err      why;
    int             rc = rank_parts_find(&at, by, part, &why);

    if (rc == -ENOENT) // it was removed meanwhile, as training does
        return 0;
    rc = rc ? rc : made_whole_check(&at, by->events, &why);
    if (rc < 0)
        return *err = why, rc;
    if (rc)
        return 0;
    say(why.text);
    found->denied += (uint64_t)at.denied;
    found->damaged += !at.denied;
    found->lost += !at.denied && !snapshot_by_parity(&at);
    return 0;
}

int parts_view_check(struct parts_view *v, void (*say)(const char *sentence), struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < v->seen.n && !rc; i++) {
        const struct part_seen *part = &v->seen.at[i];
        const struct session   *by = reader_of(v, part);

        rc = by ? check_part(&v->found[first_of(v, part)], by, part, say, err) : 0;
    }
    for (size_t i = 0; i < v->seen.n && !rc; i++) {
        struct parts_found *f = &v->found[i];

        rc = together_add(v->comm, &f->damaged, &f->lost, err);
        rc = rc ? rc : together_add(v->comm, &f->denied, NULL, err);
    }
    return rc;
}
