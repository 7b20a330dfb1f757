/* back.c: agrees on the snapshot to which all ranks go. */
#include "run/ranks/back.h"

#include "run/snapshots/made_whole.h"
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

/* Where this rank is on its way to, as its run.db says. */
struct mark { uint64_t marked, step, sum; };

/* Of a rank that is half way. With a step, only the command that finishes is taken. */
static int mark_read(struct mark *own, const struct parts_seen *seen, const struct session *s,
                     size_t rank, const uint64_t *step, const char *to, struct err *err)
{
    const struct part_seen *at;
    char                    line[SESSION_LINE];
    uint64_t                n = 0;
    int                     read = sscanf(to, "%" SCNu64 " %" SCNu64, &own->step, &n) == 2;

    if (step && (!read || own->step != *step))
        return err_misuse(err, "%s is on its way back to the snapshot after step %" PRIu64 ", and "
                          "was stopped before it was there; go on with: %s", s->dir, own->step,
                          session_back_line(line, s, own->step));
    at = read ? mark_find(seen, rank, own->step, n) : NULL;
    if (step && !at)
        return err_set(err, -ENOENT, "%s is on its way back to the snapshot %s, which is not there,"
                       " or not whole: put it back, and type this command again, or go to the "
                       "newest whole one: %s", s->dir, strchr(to, '/') ? strchr(to, '/') : to,
                       session_ranks_line(line, s, "restore"));
    own->marked = 1;
    own->sum = at ? at->sum : 0; // 0 is no part's
    return 0;
}

/* Of the snapshots that ranks which are half way name: with a step, leave only their parts; without
 * one, they are chosen first. All of a rank's states may be written over again. */
static int prefer_marked(struct parts_seen *seen, int *half_way, const struct session *s,
                         struct comm *comm, const uint64_t *step, const char *to, struct err *err)
{
    struct mark  own = { 0 }, *all = calloc(comm->size, sizeof *all);
    int          rc = all ? 0 : err_set(err, -ENOMEM, "out of memory");

    rc = rc || !to ? rc : mark_read(&own, seen, s, comm->rank, step, to, err);
    rc = rc ? rc : comm_share(comm, &own, sizeof own, all, err);
    *half_way = 0;
    for (size_t p = 0; p < comm->size && !rc; p++) {
        size_t left = 0;

        *half_way |= (int)all[p].marked;
        for (size_t i = 0; i < seen->n && all[p].marked; i++) {
            struct part_seen at = seen->at[i];
            int              named = at.step == all[p].step && at.sum == all[p].sum;

            at.now = named ? 2 : at.now;
            if (named || !step)
                seen->at[left++] = at;
        }
        seen->n = all[p].marked ? left : seen->n;
    }
    free(all);
    return rc;
}

/* ---- the newest that is whole ---- */

enum { TEXT = sizeof ((struct err *)0)->text };

struct choice {
    struct session      *s;      // NULL: this rank has no folder yet
    struct comm         *comm;
    const struct events *events;
    const char          *dir;
    struct parts_seen   *seen;
    int                  states; // they are read; 0: run.db alone is
    struct snapshots    *own;    // its own parts; those that are read become `tried`; NULL: none
};

static void note_tried(const struct choice *c, const char *path)
{
    for (size_t i = 0; c->own && i < c->own->n; i++)
        c->own->at[i].tried |= !strcmp(c->own->at[i].path, path);
}

enum { DAMAGED = 1, DENIED };

/* Read the parts of the snapshot that this rank holds. out: a sentence, and behind its TEXT bytes
 * for each rank 0, or why its part is passed over. */
static int parts_read(const struct choice *c, const struct part_seen *of, char *out,
                      struct err *err)
{
    struct err why, said;
    uint64_t   mended = 0;

    for (size_t p = 0; p < c->comm->size; p++) {
        const struct part_seen *part = rank_parts_of(c->seen, of, p);
        struct snapshot         at = { 0 };

        if (part->holder != c->comm->rank)
            continue;
        int whole = rank_parts_find(&at, c->s, part, &why);
        if (!whole)
            note_tried(c, at.path);
        whole = whole == -ENOENT ? 0
                : whole          ? whole
                : c->states      ? made_whole(c->s, &at, &mended, &why)
                                 : snapshot_is_whole(at.path, snapshot_prove_rest, c->events, &why);
        if (whole < 0)
            return *err = why, whole;
        if (!whole && !*out) {
            err_set(&said, 0, "the part of rank %zu of the snapshot after step %" PRIu64
                    " is passed over: %s", p, of->step, why.text);
            snprintf(out, TEXT, "%s", said.text);
        }
        out[TEXT + p] = (char)(whole ? 0 : at.denied ? DENIED : DAMAGED);
    }
    return 0;
}

/* Leave this part out of the list, whoever sees it in this place. */
static void part_drop(struct parts_seen *seen, struct part_seen part)
{
    size_t left = 0;

    for (const struct part_seen *at = seen->at; at < seen->at + seen->n; at++) {
        int same = at->owner == part.owner && rank_parts_same(at, &part) &&
                   ((at->holder == part.holder && at->path == part.path) ||
                    (part.file && at->file == part.file));

        if (!same)
            seen->at[left++] = *at;
    }
    seen->n = left;
}

/* Has all ranks read a snapshot, and leave damaged parts of it out of the list. *denied: one of
 * them could not be read. */
static int parts_pass_over(const struct choice *c, struct part_seen of, int *damaged, int *denied,
                           struct err *err)
{
    size_t n = c->comm->size, bytes = TEXT + n;
    char  *own = calloc(1, bytes), *all = calloc(n, bytes);
    int    rc = own && all ? 0 : err_set(err, -ENOMEM, "out of memory for the parts of a snapshot");

    *damaged = 0;
    rc = rc ? rc : parts_read(c, &of, own, err);
    rc = rc ? rc : comm_share(c->comm, own, bytes, all, err);
    for (size_t holder = 0; holder < n && !rc; holder++) {
        const char *says = all + holder * bytes;

        for (size_t p = 0; p < n; p++)
            if (says[TEXT + p]) {
                *denied |= says[TEXT + p] == DENIED;
                part_drop(c->seen, *rank_parts_of(c->seen, &of, p));
            }
        *damaged |= *says != 0;
        if (*says && c->s)
            rc = session_notice(c->s, err, "%s", says);
        else if (*says)
            events_notice(c->events, "%s", says);
    }
    free(own);
    free(all);
    return rc;
}

static int choose_whole(struct part_seen *out, const struct choice *c, struct err *err)
{
    int damaged = 1, denied = 0, passed = 0, rc = 0;

    while (!rc && damaged) {
        rc = rank_parts_choose(out, c->seen, c->comm->size, NULL, c->dir, err);
        if (rc && passed)
            return err_set(err, -ENOENT, "%s has no other snapshot that is %swhole on all ranks%s",
                           c->dir, denied ? "known to be " : "", denied ? ": let this user read "
                           "and write those that are named above"
                           : ", and what was lost is nowhere else");
        rc = rc ? rc : parts_pass_over(c, *out, &damaged, &denied, err);
        passed = 1;
    }
    return rc;
}

/* ---- the calls ---- */

static int marks(struct parts_seen *seen, int *half_way, const struct session *s,
                 struct comm *comm, const uint64_t *step, struct err *err)
{
    char *to = NULL;
    int   rc = s ? settings_find(&to, s->log, err, "going_back") : 0;

    rc = rc ? rc : prefer_marked(seen, half_way, s, comm, step, to, err);
    free(to);
    return rc;
}

int back_choose(struct part_seen *out, struct parts_seen *seen, struct session *s,
                struct comm *comm, const struct events *events, const char *dir, struct err *err)
{
    struct choice c = { .s = s, .comm = comm, .events = events, .dir = dir, .seen = seen };
    int           half_way, rc = marks(seen, &half_way, s, comm, NULL, err);

    return rc ? rc : choose_whole(out, &c, err);
}

/* The snapshot after *step steps of which all ranks have a part that is whole without its parity.
 * Other parts are left out of the list. */
static int choose_step(struct part_seen *out, const struct choice *c, const uint64_t *step,
                       struct err *err)
{
    struct parts_seen *seen = c->seen;
    struct err         unsaid;
    char               line[SESSION_LINE];
    size_t             n = c->comm->size, left = 0;
    int by_parity = !rank_parts_choose(out, seen, n, step, c->dir, &unsaid);

    for (size_t i = 0; i < seen->n; i++)
        if (seen->at[i].whole)
            seen->at[left++] = seen->at[i];
    seen->n = left;
    int rc = rank_parts_choose(out, seen, n, step, c->dir, err);
    if (rc && by_parity)
        err_misuse(err, "the snapshot after step %" PRIu64 " lacks files on devices, which its "
                   "parity has: first %s", *step, session_ranks_line(line, c->s, "restore"));
    return rc;
}

int back_find(struct snapshot *out, int *half_way, struct session *s, const uint64_t *step,
              struct snapshots *own, struct err *err)
{
    struct comm      *comm = s->ranks.comm;
    struct parts_seen seen;
    struct part_seen  at;
    struct choice     c = { s, comm, s->events, s->dir, &seen, 1, own };
    int               rc = rank_parts_look(&seen, s, comm, 1, err);

    rc = rc ? rc : marks(&seen, half_way, s, comm, step, err);
    if (!rc)
        rc = step ? choose_step(&at, &c, step, err) : choose_whole(&at, &c, err);
    rc = rc ? rc : keeping_fetch(out, s, &seen, &at, err);
    if (!rc && s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS)
        rc = keeping_send_again(s, out, &seen, &at, err);
    if (!rc) // it may have got files that it lacked
        note_tried(&c, out->path);
    rank_parts_free(&seen);
    return rc;
}

int back_wait(const struct session *s, struct err *err)
{
    return s->ranks.comm ? comm_share(s->ranks.comm, NULL, 0, NULL, err) : 0;
}
