/* keeping.c: moves the parts of a snapshot between ranks. */
#include "run/ranks/keeping.h"

#include "data/file/file.h"
#include "run/ranks/carry.h"
#include "run/snapshots/snapshot_make.h"
#include "run/snapshots/snapshot_removal.h"

/* ---- who keeps whose ---- */

/* How many ranks below `end` are on the host whose first rank is `first` (comm_host). */
static size_t ranks_below(const struct comm *c, size_t first, size_t end)
{
    size_t n = 0;

    for (size_t p = first; p < end; p++)
        n += comm_host(c, p) == first;
    return n;
}

/* The first rank of the host that follows the one whose first rank is `first`. */
static size_t next_host(const struct comm *c, size_t first)
{
    size_t p = (first + 1) % c->size;

    while (comm_host(c, p) != p)
        p = (p + 1) % c->size;
    return p;
}

static size_t keeper_of(const struct comm *c, size_t rank)
{
    size_t first = comm_host(c, rank), next = next_host(c, first), p = next;

    if (next == first) // one host
        return (rank + 1) % c->size;
    size_t below = ranks_below(c, first, rank) % ranks_below(c, next, c->size);

    while (comm_host(c, p) != next || ranks_below(c, next, p) != below)
        p++;
    return p;
}

/* ---- moving parts ---- */

struct moving {
    size_t          owner;
    uint64_t        step, n;
    char            path[SESSION_PATH]; // where it is, on the rank that sends it
    struct session  its;                // the owner's, on the rank that gets it
    struct snapshot_making *making;
    struct snapshot got;
    char           *files;
};

static int end_begin(struct moving *m, struct carried *c, struct session *s, struct err *err)
{
    int rc = 0;

    if (c->from == s->ranks.comm->rank) {
        c->folder = m->path;
        rc = rank_parts_files(&m->files, m->path, err);
        c->files = m->files;
    }
    if (!rc && c->to == s->ranks.comm->rank) {
        m->its = rank_parts_session(s, m->owner);
        rc = snapshot_adopt_begin(&m->making, &c->folder, &m->its, m->step, m->n, err);
    }
    return rc;
}

/* What was sent is read from files, what came is written to files. */
static void count(struct link_meter *m, const struct carry_moved *moved)
{
    m->bytes[LINK_FILES][CLASS_SNAPSHOT][LINK_READ] += moved->sent;
    m->bytes[LINK_NETWORK][CLASS_SNAPSHOT][LINK_WRITE] += moved->sent;
    m->bytes[LINK_NETWORK][CLASS_SNAPSHOT][LINK_READ] += moved->came;
    m->bytes[LINK_FILES][CLASS_SNAPSHOT][LINK_WRITE] += moved->came;
}

/* All ranks do this with the same list. Either all parts arrive, or none stays where it came. */
static int move_all(struct session *s, struct moving *m, struct carried *c, size_t n,
                    struct link_meter *meter, int *failed, struct err *why, struct err *err)
{
    struct watch       w = work_begin(s->events, "sending parts of a snapshot between ranks");
    struct carry_moved moved = { 0 };
    struct err         unsaid;
    int                own = 0, rc;

    for (size_t i = 0; i < n && !own; i++)
        own = end_begin(&m[i], &c[i], s, why);
    rc = carry_agree(s->ranks.comm, own, failed, why, err);
    if (!rc && !*failed)
        rc = carry(s->ranks.comm, c, n, &w, &moved, failed, why, err);
    count(meter, &moved);
    own = rc ? rc : *failed;
    for (size_t i = 0; i < n; i++)
        if (m[i].making) {
            int end = snapshot_adopt_end(m[i].making, own, &m[i].got, meter, own ? &unsaid : why);

            own = own ? own : end;
        }
    rc = rc ? rc : carry_agree(s->ranks.comm, own, failed, why, err);
    for (size_t i = 0; i < n; i++) {
        if ((rc || *failed) && *m[i].got.path)
            snapshot_remove(&m[i].its, m[i].got.path, &unsaid);
        free(m[i].files);
    }
    work_end(s->events);
    return rc;
}

/* Whether the part of `owner` is seen with its keeper. */
static int is_with_keeper(const struct comm *c, const struct parts_seen *seen,
                          const struct part_seen *of, size_t owner)
{
    size_t i = 0, keeper = keeper_of(c, owner);

    while (i < seen->n && (seen->at[i].owner != owner || seen->at[i].holder != keeper ||
                           !rank_parts_same(&seen->at[i], of)))
        i++;
    return i < seen->n;
}

/* seen NULL: send all parts; otherwise those of `of` that are not with their keepers. */
static int send_some(struct session *s, const struct snapshot *made, const struct parts_seen *seen,
                     const struct part_seen *of, struct link_meter *meter, int *failed,
                     struct err *why, struct err *err)
{
    struct comm    *comm = s->ranks.comm;
    struct moving  *m = calloc(comm->size, sizeof *m);
    struct carried *c = calloc(comm->size, sizeof *c);
    uint64_t       *number = calloc(comm->size, sizeof *number);
    size_t          n = 0;
    int             rc = m && c && number ? 0 : err_set(err, -ENOMEM, "out of memory");

    *failed = 0;
    rc = rc ? rc : comm_share(comm, &made->n, sizeof *number, number, err);
    for (size_t p = 0; p < comm->size && !rc; p++) {
        if (seen && is_with_keeper(comm, seen, of, p))
            continue;
        m[n].owner = p;
        m[n].step = made->step;
        m[n].n = number[p];
        snprintf(m[n].path, sizeof m[n].path, "%s", made->path);
        c[n++] = (struct carried){ .from = p, .to = keeper_of(comm, p) };
    }
    if (!rc && n)
        rc = move_all(s, m, c, n, meter, failed, why, err);
    free(m);
    free(c);
    free(number);
    return rc;
}

int keeping_send(struct session *s, const struct snapshot *made, struct link_meter *meter,
                 int *failed, struct err *why, struct err *err)
{
    return send_some(s, made, NULL, NULL, meter, failed, why, err);
}

int keeping_send_again(struct session *s, const struct snapshot *has,
                       const struct parts_seen *seen, const struct part_seen *of, struct err *err)
{
    struct err why = { 0 };
    int        failed;
    struct link_meter uncounted = { 0 };
    int rc = send_some(s, has, seen, of, &uncounted, &failed, &why, err);

    if (rc || !failed)
        return rc;
    return session_notice(s, err, "of the snapshot after step %" PRIu64 ", not all parts are on "
                          "the next hosts: %s", has->step, why.text);
}

int keeping_is_there(int *any, const struct session *s, uint64_t step, struct err *err)
{
    struct parts_seen seen;
    int               rc = rank_parts_look(&seen, s, s->ranks.comm, 0, err), own = 0, kept = 0;

    *any = 0;
    for (size_t i = 0; i < seen.n && !rc; i++) {
        const struct part_seen *at = &seen.at[i];

        if (at->owner != s->ranks.rank)
            continue;
        *any |= at->holder != at->owner;
        own |= at->holder == at->owner && at->step == step && at->now;
        kept |= at->holder != at->owner && at->step == step && at->now;
    }
    rank_parts_free(&seen);
    return rc ? rc : own && kept;
}

int keeping_rotate(struct session *s, struct err *err)
{
    int rc = 0;

    for (size_t rank = 0; rank < s->ranks.size && !rc; rank++) {
        struct session its = rank_parts_session(s, rank);

        rc = snapshots_rotate(&its, err);
    }
    return rc;
}

int keeping_fetch(struct snapshot *out, struct session *s, const struct parts_seen *seen,
                  const struct part_seen *of, struct err *err)
{
    struct comm    *comm = s->ranks.comm;
    struct moving  *m = calloc(comm->size, sizeof *m);
    struct carried *c = calloc(comm->size, sizeof *c);
    struct snapshot has;
    const struct snapshot *got = NULL; // this rank's part, if another one held it
    size_t          n = 0;
    int             rc = m && c ? 0 : err_set(err, -ENOMEM, "out of memory"), failed = 0;

    for (size_t p = 0; p < comm->size && !rc; p++) {
        const struct part_seen *part = rank_parts_of(seen, of, p);

        if (part->holder == p)
            continue;
        m[n] = (struct moving){ .owner = p, .step = part->step, .n = part->n };
        c[n] = (struct carried){ .from = part->holder, .to = p };
        if (part->holder == comm->rank && !failed)
            failed = rank_parts_find(&has, s, part, err);
        if (part->holder == comm->rank && !failed)
            snprintf(m[n].path, sizeof m[n].path, "%s", has.path);
        got = p == comm->rank ? &m[n].got : got;
        n++;
    }
    rc = rc ? rc : failed;
    if (!rc && n)
        rc = move_all(s, m, c, n, &(struct link_meter){ 0 }, &failed, err, err);
    rc = rc ? rc : failed;
    if (!rc && got)
        *out = *got;
    rc = rc || got ? rc : rank_parts_find(out, s, rank_parts_of(seen, of, comm->rank), err);
    free(m);
    free(c);
    return rc;
}

int keeping_make(struct session *s, uint64_t step, int *failed, struct err *why, struct err *err)
{
    struct snapshot made = { 0 };
    struct err      unsaid;
    int             own = snapshot_make(&made, s, step, why);
    int             rc = carry_agree(s->ranks.comm, own, failed, why, err);

    if (!rc && !*failed && s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS)
        rc = keeping_send(s, &made, &(struct link_meter){ 0 }, failed, why, err);
    if ((rc || *failed) && !own && *made.path)
        snapshot_remove(s, made.path, &unsaid);
    return rc;
}
