/* rank_parts.c: finds the parts of snapshots, and which of them belong together. */
#include "run/ranks/rank_parts.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/hash.h"
#include "data/base/round.h"
#include "offload/upkeep/recovery.h"
#include "run/folder/settings.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"

struct session rank_parts_session(const struct session *s, size_t rank)
{
    struct session out = *s;

    if (rank == s->ranks.rank)
        return out;
    rank_id_of(out.id, s->id, rank);
    out.kept_by = 1 + s->ranks.rank;
    out.ranks.rank = rank;
    out.holds = 0;
    return out;
}

/* ---- which snapshot a part is of ---- */

static int add_row(void *ctx, int n, const char **values, const char **names)
{
    uint32_t *sum = ctx;

    (void)names;
    for (int i = 0; i < n; i++)
        *sum = crc32c(*sum, values[i] ? values[i] : "", values[i] ? strlen(values[i]) + 1 : 1);
    return 0;
}

/* Options that decide what is computed, and how long it is trained, which a run takes from the
 * snapshot to which it goes back. */
static int decides(const struct opt_row *row)
{
    return opt_row_decides(row) || !strcmp(row->name, "steps") ||
           !strcmp(row->name, "schedule-steps");
}

static uint64_t sum_of(const struct snapshot *at)
{
    enum { STEPS = 100 };
    struct runlog        *log = NULL;
    const struct opt_row *row;
    uint32_t              sum = 0;

    if (runlog_open_in(&log, at->path, 1, NULL))
        return 0;
    runlog_ask(log, add_row, &sum, NULL, "SELECT printf('%%d %%!.17g %%!.17g %%!.17g', step, loss,"
               " lr, grad_norm) FROM steps WHERE step < %" PRIu64 " ORDER BY step DESC LIMIT %d",
               at->step, STEPS);
    for (size_t i = 0; (row = train_opts_row(i)); i++) {
        char *text = decides(row) ? settings_get(log, "option.%s", row->name) : NULL;

        if (text)
            add_row(&sum, 2, (const char *[]){ row->name, text }, NULL);
        free(text);
    }
    char *branch = settings_get(log, RECOVERY_BRANCH);
    if (branch)
        add_row(&sum, 1, (const char *[]){ branch }, NULL);
    free(branch);
    runlog_close(log);
    return (uint64_t)1 << 32 | sum;
}

static uint64_t path_of(const struct snapshot *at)
{
    return hash_bytes(at->path, strlen(at->path));
}

/* Of a copy, run.db is another file and was written at another time. */
static uint64_t file_of(const struct snapshot *at)
{
    char        db[SESSION_PATH + 16];
    struct stat st;

    snprintf(db, sizeof db, "%s/run.db", at->path);
    if (stat(db, &st))
        return 0;
    uint64_t is[] = { (uint64_t)st.st_ino, file_ns(&st.st_mtim) };
    return hash_bytes(is, sizeof is);
}

int rank_parts_files(char **out, const char *path, struct err *err)
{
    char          *files = NULL;
    struct runlog *log = NULL;
    struct stat    st;
    int            rc = runlog_open_in(&log, path, 1, err);

    rc = rc ? rc : settings_find(&files, log, err, "snapshot.files");
    if (!rc && !files)
        rc = err_set(err, -EBADMSG, "%s has no list of its files", path);
    if (!rc && !(rc = file_stat(runlog_path(log), &st, err)))
        rc = err_set(err, -ENOENT, "%s is gone", runlog_path(log));
    rc = rc > 0 ? 0 : rc;
    runlog_close(log);
    *out = rc ? NULL : file_path(err, "%s\n%" PRIu64 " run.db", files, (uint64_t)st.st_size);
    free(files);
    return rc || *out ? rc : -ENOMEM;
}

/* ---- all parts ---- */

static int append(struct parts_seen *out, const struct part_seen *more, size_t n, struct err *err)
{
    struct part_seen *grown = n ? realloc(out->at, (out->n + n) * sizeof *grown) : out->at;

    if (n && !grown)
        return err_set(err, -ENOMEM, "out of memory for %zu snapshots", out->n + n);
    out->at = grown;
    if (n)
        memcpy(out->at + out->n, more, n * sizeof *more);
    out->n += n;
    return 0;
}

int rank_parts_add(struct parts_seen *out, const struct session *one, int by_parity,
                   struct err *err)
{
    int rc = 0;

    for (size_t rank = 0; rank < one->ranks.size && !rc; rank++) {
        struct session   its = rank_parts_session(one, rank);
        struct snapshots list;

        rc = snapshots_list(&list, &its, err);
        for (const struct snapshot *at = list.at; !rc && at < list.at + list.n; at++) {
            struct part_seen part = { .owner = rank, .holder = one->ranks.rank, .step = at->step,
                                      .path = path_of(at), .file = file_of(at), .n = at->n,
                                      .whole = (uint64_t)at->whole };

            if (!(at->whole || (by_parity && snapshot_by_parity(at))) || !(part.sum = sum_of(at)))
                continue;
            part.now = (uint64_t)snapshot_is_now(at, &its);
            rc = append(out, &part, 1, err);
        }
        if (!rc && list.unread)
            events_notice(one->events, "a snapshot is passed over, since it cannot be read: "
                          "%s", list.unread_why.text);
        snapshots_free(&list);
    }
    return rc;
}

int rank_parts_look(struct parts_seen *out, const struct session *s, struct comm *comm,
                    int by_parity, struct err *err)
{
    struct parts_seen own = { 0 };
    uint64_t         *count = calloc(comm->size, sizeof *count), most = 0;
    struct part_seen *all = NULL, *mine = NULL;
    int rc = count ? 0 : err_set(err, -ENOMEM, "out of memory");

    *out = (struct parts_seen){ 0 };
    rc = rc || !s ? rc : rank_parts_add(&own, s, by_parity, err);
    rc = rc ? rc : comm_share(comm, &(uint64_t){ own.n }, sizeof *count, count, err);
    for (size_t p = 0; p < comm->size && !rc; p++)
        most = count[p] > most ? count[p] : most;
    if (!rc && most) {
        all = calloc(comm->size * most, sizeof *all);
        mine = calloc(most, sizeof *mine);
        if (all && mine && own.n)
            memcpy(mine, own.at, own.n * sizeof *mine);
        rc = all && mine ? comm_share(comm, mine, most * sizeof *mine, all, err)
                         : err_set(err, -ENOMEM, "out of memory");
    }
    for (size_t p = 0; p < comm->size && !rc && most; p++)
        rc = append(out, all + p * most, count[p], err);
    free(all);
    free(mine);
    free(count);
    rank_parts_free(&own);
    return rc;
}

void rank_parts_free(struct parts_seen *seen)
{
    free(seen->at);
    *seen = (struct parts_seen){ 0 };
}

/* ---- which is chosen ---- */

int rank_parts_same(const struct part_seen *a, const struct part_seen *b)
{
    return a->step == b->step && a->sum == b->sum;
}

/* Whether `a` is rather taken than `b`, of the parts of one rank. */
static int rather(const struct part_seen *a, const struct part_seen *b)
{
    if (a->holder != b->holder)
        return a->holder == a->owner || (b->holder != b->owner && a->holder < b->holder);
    return a->whole != b->whole ? a->whole > b->whole : a->n > b->n;
}

const struct part_seen *rank_parts_of(const struct parts_seen *seen, const struct part_seen *of,
                                      size_t owner)
{
    const struct part_seen *best = NULL;

    for (const struct part_seen *at = seen->at; at < seen->at + seen->n; at++)
        if (at->owner == owner && rank_parts_same(at, of) && (!best || rather(at, best)))
            best = at;
    return best;
}

/* The first rank without a part; `ranks` if all have one. */
static size_t lacking(const struct parts_seen *seen, const struct part_seen *of, size_t ranks)
{
    size_t rank = 0;

    while (rank < ranks && rank_parts_of(seen, of, rank))
        rank++;
    return rank;
}

static int better(const struct part_seen *a, const struct part_seen *b)
{
    if (a->now != b->now)
        return a->now > b->now;
    return a->now && a->step != b->step ? a->step > b->step : a->n > b->n;
}

int rank_parts_choose(struct part_seen *out, const struct parts_seen *seen, size_t ranks,
                      const uint64_t *step, const char *dir, struct err *err)
{
    const struct part_seen *best = NULL, *partly = NULL;

    for (const struct part_seen *at = seen->at; at < seen->at + seen->n; at++) {
        if (step && at->step != *step)
            continue;
        const struct part_seen **which = lacking(seen, at, ranks) == ranks ? &best : &partly;

        if (!*which || better(at, *which))
            *which = at;
    }
    if (best)
        return *out = *best, 0;
    if (partly)
        return err_misuse(err, "%s: the snapshot after step %" PRIu64 " lacks the part of rank "
                          "%zu, which no rank of this job has", dir, partly->step,
                          lacking(seen, partly, ranks));
    return step ? err_misuse(err, "%s has no snapshot after step %" PRIu64 " (siTrain snapshots "
                             "%s lists them)", dir, *step, dir)
                : err_set(err, -ENOENT, "%s has no complete snapshot (--snapshot-every takes "
                          "them), and what was lost is nowhere else", dir);
}

int rank_parts_find(struct snapshot *out, const struct session *s, const struct part_seen *part,
                    struct err *err)
{
    struct session   its = rank_parts_session(s, part->owner);
    struct snapshots list;
    int              rc = snapshots_list(&list, &its, err), found = 0;

    for (const struct snapshot *at = list.at; at < list.at + list.n && !rc && !found; at++) {
        found = path_of(at) == part->path && at->step == part->step && sum_of(at) == part->sum;
        if (found)
            *out = *at;
    }
    snapshots_free(&list);
    return rc || found ? rc : err_set(err, -ENOENT, "the part of rank %" PRIu64 " of the snapshot "
                                      "after step %" PRIu64 " is gone", part->owner, part->step);
}
