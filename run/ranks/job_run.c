/* job_run.c: makes the ranks of a run agree before and between steps. */
#include "run/ranks/job_run.h"

#include "data/base/machine.h"
#include "data/base/round.h"
#include "model/together.h"
#include "offload/upkeep/recovery.h"
#include "run/folder/creation.h"
#include "run/folder/moved.h"
#include "run/folder/settings.h"
#include "run/ranks/rank_dir.h"
#include "run/ranks/rank_owner.h"

#include <sys/stat.h>

/* Sets out[0..size) to what rank 0 gave as `own`. All ranks call it. */
static int first_has(void *out, const void *own, size_t size, struct comm *comm, struct err *err)
{
    int   rc;
    char *all = comm_collect(comm, own, size, &rc, err);

    if (all)
        memcpy(out, all, size);
    free(all);
    return rc;
}

int job_run_own_dir(char out[SESSION_PATH], const char *run, struct comm *comm, struct err *err)
{
    char own[SESSION_PATH] = "", first[SESSION_PATH] = "";
    int  rc = rank_dir_find(out, run, comm ? comm->rank : 0, err);

    if (rc || !comm)
        return rc;
    if (!rank_dir_real(own, run))
        *own = '\0'; // another check says that it is not there
    rc = first_has(first, own, sizeof own, comm, err);
    if (!rc && *own && *first && strcmp(own, first) &&
        !comm_host(comm, comm->rank))
        rc = err_misuse(err, "%s is the run here and %s on rank 0: give all ranks the same run",
                        own, first);
    return rc;
}

enum { ID_BYTES = sizeof ((struct session *)0)->id };

int job_run_id(struct session *s, struct err *err)
{
    struct comm *comm = s->ranks.comm;
    char         id[ID_BYTES];
    int          rc = machine_hex(s->id, sizeof s->id - 1, err);

    if (rc || !comm)
        return rc;
    rc = first_has(id, s->id, ID_BYTES, comm, err);
    if (!rc)
        rank_id_of(s->id, id, comm->rank);
    return rc;
}

int job_run_finish(const char *dir, struct comm *comm, struct err *err)
{
    char id[33] = "";
    int  rc;

    if (!comm)
        return 0;
    if (comm->rank == 0)
        rank_id_read(id, dir);
    char (*all)[sizeof id] = comm_collect(comm, id, sizeof id, &rc, err);
    if (all && comm->rank > 0 && *all[0]) {
        rank_id_of(id, all[0], comm->rank);
        rc = creation_finish(dir, id, err);
    }
    free(all);
    return rc;
}

static int job_fits(const struct session *s, const struct comm *comm, struct err *err)
{
    size_t ranks = size_max(s->ranks.size, 1), here = comm ? comm->size : 1;

    if (ranks != here)
        return err_misuse(err, "%s has %zu rank%s, but this job has %zu: start it with "
                          "mpirun -n %zu", s->dir, ranks, ranks > 1 ? "s" : "", here, ranks);
    if (!comm)
        return 0;
    if (s->ranks.rank != comm->rank && comm->rank == 0)
        return job_run_part(s, s->dir, err);
    if (s->ranks.rank != comm->rank)
        return err_misuse(err, "%s is the part of rank %zu, not of rank %zu", s->dir,
                          s->ranks.rank, comm->rank);
    return 0;
}

int job_run_open_own(struct session *s, const char *dir, enum session_how how,
                     const struct events *events, struct comm *comm, struct err *err)
{
    struct run_ranks r;
    char             line[RANKS_COMMAND];
    int              rc = session_open(s, dir, how, events, err);

    if (rc == -EBADMSG && !s->log && comm) { // its run.db is lost, and other ranks have theirs
        r = (struct run_ranks){ .rank = comm->rank, .size = comm->size };
        err_set(err, rc, "%s; if the run has a snapshot, move %s aside, and %s makes it again",
                err->text, dir, ranks_command(line, dir, &r, "restore"));
    }
    rc = rc ? rc : rank_owner_neighbour(dir, s->ranks.rank, s->id, err);
    s->linked = rank_owner_is_link(dir);
    return rc ? rc : job_fits(s, comm, err); // said before anybody waits for one that failed
}

int job_run_open(struct session *s, const char *dir, enum session_how how,
                 const struct events *events, struct comm *comm, struct err *err)
{
    int rc = comm_first_begin(comm, err);

    rc = rc ? rc : job_run_open_own(s, dir, how, events, comm, err);
    return rc ? rc : comm_first_end(comm, err);
}

int job_run_join(struct session *s, struct comm *comm, struct err *err)
{
    char id[ID_BYTES], own[SESSION_PATH] = "", original[SESSION_PATH];
    int  rc = job_fits(s, comm, err);

    if (rc || !comm)
        return rc;
    rc = first_has(id, s->id, ID_BYTES, comm, err);
    if (!rc && !rank_id_same(id, s->id))
        rc = err_misuse(err, "%s is part of another run than rank 0's", s->dir);
    rc = rc ? rc : moved_original(own, s->log, s->dir, err);
    rc = rc ? rc : first_has(original, own, SESSION_PATH, comm, err);
    if (!rc && !s->read_only)
        rc = rank_owner_original(s->dir, s->ranks.rank, original, err);
    if (!rc && !s->read_only)
        rc = rank_owner_join(s, comm, err);
    s->ranks.comm = comm;
    return rc ? rc : session_config(s, err);
}

int job_run_together(const struct session *a, const struct session *b)
{
    return rank_id_same(a->id, b->id) && a->ranks.size == b->ranks.size;
}

static int see_one(struct session *s, const struct session *first, const char *path, size_t rank,
                   enum session_how how, struct err *err)
{
    char dir[SESSION_PATH], id[33];
    int  rc = rank_dir_find(dir, path, rank, err);

    if (!rc && how != SESSION_READ) {
        int theirs = rank_owner_check(first, dir, rank, err);

        how = theirs && how == SESSION_EITHER ? SESSION_READ : how; // then it is only read
        rc = how == SESSION_READ ? 0 : theirs;
    }
    rank_id_of(id, first->id, rank);
    if (!rc && how != SESSION_READ)
        rc = creation_finish(dir, id, err);
    if (rc)
        return rc;
    if (!session_may_be_run(dir))
        return err_misuse(err, "%s has %zu ranks, but %s is missing: to read this run, put the "
                          "folders of all ranks into one directory", path, first->ranks.size, dir);
    rc = session_open(s, dir, how, first->events, err);
    if (!rc && (!job_run_together(first, s) || s->ranks.rank != rank))
        rc = err_misuse(err, "%s is not the part of rank %zu of the run %s", dir, rank, path);
    return rc;
}

int job_run_is_placed(const struct session *s)
{
    return !s->ranks.rank || s->dir[ranks_first_length(s->dir, s->ranks.rank)];
}

int job_run_part(const struct session *s, const char *path, struct err *err)
{
    if (job_run_is_placed(s))
        return err_misuse(err, "%s is the part of rank %zu of a run of %zu ranks: give the folder "
                          "of rank 0, which stands next to it: %.*s", path, s->ranks.rank,
                          s->ranks.size, (int)ranks_first_length(s->dir, s->ranks.rank), s->dir);
    return err_misuse(err, "%s is the part of rank %zu of a run of %zu ranks, but has the name of "
                      "rank 0's folder, which is missing: rename it to %s.rank%zu, and put the "
                      "folder of rank 0 in its place", path, s->ranks.rank, s->ranks.size, s->dir,
                      s->ranks.rank);
}

/* Check that all folders are at the same time of one training. A folder with a damaged journal
 * reports that when it is read. */
static int see_times(struct session *s, const char *path, struct err *err)
{
    size_t              n = s->ranks.size;
    struct recovery_position *all = calloc(n, sizeof *all);
    int                 rc = all ? 0 : err_set(err, -ENOMEM, "out of memory for %zu ranks", n);
    struct err          why;

    for (size_t i = 0; i < n && !rc; i++)
        if (recovery_read(&all[i], i ? &s->others[i - 1].run : &s->run, &why)) {
            free(all);
            return 0;
        }
    for (size_t i = 0; i < n && rc >= 0; i++) {
        char dir[SESSION_PATH];

        rank_dir(dir, path, i);
        rc = recovery_check(all, n, i, dir, err);
    }
    free(all);
    return rc < 0 ? rc : 0;
}

int job_run_see(struct session *s, const char *path, enum session_how how, struct err *err)
{
    size_t n = s->ranks.size;

    if (n < 2)
        return 0;
    if (s->ranks.rank)
        return job_run_part(s, path, err);
    const struct run_config **parts = calloc(n, sizeof *parts);
    int                       rc = 0;

    s->others = calloc(n - 1, sizeof *s->others);
    s->ranks.parts = parts;
    if (!parts || !s->others)
        return err_set(err, -ENOMEM, "out of memory");
    parts[0] = &s->run;
    for (size_t i = 1; i < n && !rc; i++) {
        rc = see_one(&s->others[i - 1], s, path, i, how, err);
        parts[i] = &s->others[i - 1].run;
    }
    rc = rc ? rc : see_times(s, path, err);
    return rc ? rc : session_config(s, err);
}

int job_run_keeps(const struct session *s, struct err *err)
{
    return s->o.keep_best && s->ranks.size > 1
               ? err_misuse(err, "--keep-best does not work with several ranks, since no rank "
                                 "holds the whole model: leave it out; siTrain export %s writes "
                                 "the last parameters", s->dir)
               : 0;
}

int job_run_groups(struct session *s, struct err *err)
{
    struct train_opts *o = &s->o;
    size_t             ranks = size_max(s->ranks.size, 1);
    int                rc = job_run_keeps(s, err);

    if (rc)
        return rc;
    o->groups = o->groups ? o->groups : ranks;
    if (o->groups % ranks)
        return err_misuse(err, "--groups %" PRIu64 " cannot be divided over %zu ranks: expected a "
                          "multiple of %zu, such as %zu", o->groups, ranks, ranks,
                          round_up(o->groups, ranks));
    if (o->grad_accum % o->groups)
        return err_misuse(err, "--grad-accum %" PRIu64 ": a step's micro-batches, of all ranks "
                          "together, cannot be divided into %" PRIu64 " groups: expected a multiple"
                          " of %" PRIu64 ", such as %zu", o->grad_accum, o->groups, o->groups,
                          round_up(o->grad_accum, o->groups));
    if (o->groups == 1)
        return 0;
    if (o->mode == RUN_MEM && ranks > 1)
        return err_misuse(err, "--mode mem keeps all parameters in the memory of one process: with "
                          "several ranks choose base, su or su+o");
    if (o->error_feedback)
        return err_misuse(err, "--error-feedback does not work with several groups (--groups, or "
                          "ranks) in this version, since each group would need residuals of its "
                          "own: leave it out");
    return 0;
}

int job_run_frames(struct session *s, struct err *err)
{
    struct comm *comm = s->ranks.comm;
    int          rc;

    if (!comm)
        return 0;
    size_t *all = comm_collect(comm, &s->run.frames, sizeof *all, &rc, err);
    for (size_t p = 0; all && p < comm->size; p++)
        s->run.frames = size_min(s->run.frames, all[p]);
    free(all);
    return rc;
}

int job_run_begin(struct session *s, uint64_t next, int *missing, struct err *err)
{
    struct comm *comm = s->ranks.comm;
    struct { uint64_t next, missing; } *all, own = { next, (uint64_t)*missing };
    int rc = job_run_alike(s, err);

    if (rc || !comm || !(all = comm_collect(comm, &own, sizeof own, &rc, err)))
        return rc;
    for (size_t p = 0; p < comm->size; p++)
        *missing |= (int)all[p].missing;
    if (next != all[0].next)
        rc = err_misuse(err, "%s would go on with step %" PRIu64 ", but rank 0's folder with "
                        "step %" PRIu64 ": put folders of one time into their places", s->dir,
                        next + 1, all[0].next + 1);
    free(all);
    return rc;
}

int job_run_engines(struct session *s, const char *engine, struct err *err)
{
    enum { CUT = 192 };
    struct comm *comm = s->ranks.comm;
    char         own[CUT] = "";
    size_t       p = 1;
    int          rc;

    if (!comm)
        return 0;
    snprintf(own, sizeof own, "%.160s, %" PRIu64 " threads", engine, s->o.threads);
    char (*all)[CUT] = comm_collect(comm, own, sizeof own, &rc, err);
    while (all && p < comm->size && !strcmp(all[p], all[0]))
        p++;
    if (all && p < comm->size)
        rc = session_notice(s, err, "matrix products run on %s on rank 0, on %s on rank %zu: the "
                            "last bits of results may depend on the rank", all[0], all[p], p);
    free(all);
    return rc;
}

int job_run_patience(struct session *s, struct err *err)
{
    struct comm *comm = s->ranks.comm;
    int          rc = comm ? comm_share(comm, NULL, 0, NULL, err) : 0;

    if (!rc && comm)
        comm->patience = s->o.rank_timeout;
    return rc;
}

int job_run_stop(struct session *s, enum job_stop own, uint64_t *readers, struct err *err)
{
    enum { EARLY = 20, LATE = 40, COUNT = (1 << 20) - 1 }; // three counts of ranks in one number
    uint64_t stops = (uint64_t)(events_asked_to_stop(s->events) != 0) |
                     (uint64_t)(own == JOB_EARLY) << EARLY | (uint64_t)(own == JOB_TIME) << LATE;
    int      rc = together_add(s->ranks.comm, &stops, readers, err);

    return rc                        ? rc
           : stops & COUNT           ? JOB_ASKED
           : stops >> EARLY & COUNT  ? JOB_EARLY
           : stops >> LATE           ? JOB_TIME
                                     : JOB_GOES_ON;
}

int job_run_in_time(struct comm *comm, int rc, struct err *err)
{
    uint64_t own = rc && err->in_time, any = own;

    if (!comm || (rc && !own))
        return rc;
    int failed = together_add(comm, &any, NULL, err);
    if (failed || own || !any)
        return failed ? failed : rc;
    return err_time(err, "stopped, since the time limit of another rank is over; the same command "
                    "goes on");
}
