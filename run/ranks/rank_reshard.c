/* rank_reshard.c: fills one folder after the other. Then all become a run (creation.h), rank 0's
 * folder first. */
#include "run/ranks/rank_reshard.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "model/file/hf.h"
#include "offload/devices/devices.h"
#include "offload/upkeep/rerank.h"
#include "run/folder/creation.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/folder/tensorboard.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"
#include "run/ranks/rank_owner.h"
#include "run/texts/tokenise.h"

#include <sys/stat.h>
#include <unistd.h>

enum { NEW_PATH = SESSION_PATH + 32 };

struct making {
    struct session        *from;
    const struct rank_reshard *n;
    struct parts           parts; // of the old run
    char                   id[33];
    struct creation          *places; // (n->ranks)
};

static int check(const struct session *from, const struct rank_reshard *n, struct err *err)
{
    struct session to = *from; // a copy: job_run_groups may set its options
    size_t         ranks = size_max(from->ranks.size, 1);
    char           dir[SESSION_PATH];
    int            rc = 0;

    if (n->ranks == ranks)
        return err_misuse(err, "%s is of %zu rank%s already", from->dir, ranks,
                          ranks > 1 ? "s" : "");
    if (from->run.mode == RUN_MEM || devices_fake(&from->run))
        return err_misuse(err, "%s has no devices that store states, so there is nothing for ranks "
                          "to share", from->dir);
    if (from->run.error_feedback)
        return err_misuse(err, "%s trains with --error-feedback, which works with one group only, "
                          "and so with one rank only", from->dir);
    to.o.groups = to.o.groups ? to.o.groups : ranks;
    if (to.o.groups % n->ranks) // a run keeps its groups
        return err_misuse(err, "--groups %" PRIu64 " of %s cannot be divided over %zu ranks: "
                          "expected a divisor of %" PRIu64, to.o.groups, from->dir, n->ranks,
                          to.o.groups);
    to.ranks.size = n->ranks;
    to.o.keep_best = 0; // leave_best
    rc = job_run_groups(&to, err);
    for (size_t i = 0; i < n->ranks && !rc; i++) {
        rank_dir(dir, n->dir, i);
        rc = creation_check(dir, err);
    }
    return rc;
}

static int copy_file(const char *old, const char *new, int folder, struct err *err)
{
    int copied, rc;

    if (folder ? !tokenizer_is_there(old) : !file_may_be(old))
        return 0;
    if (folder)
        return file_make_folder(new) ? err_set(err, -errno, "mkdir %s: %s", new, strerror(errno))
                                : hf_copy_tokenizer(old, new, &copied, err);
    rc = file_check_own(old, 0, err); // a link's target is not the run's: never copied
    return rc ? rc : file_copy(old, new, UINT64_MAX, err);
}

/* Copy the tokenizer, and the tokens and rows that are in the run's folder. */
static int copy_files(const struct session *from, const char *dir, struct err *err)
{
    struct file_walk w;
    char             new[NEW_PATH + 256];
    int              rc = file_walk_begin(&w, from->dir, err);

    while (!rc && file_walk_next(&w)) {
        const struct run_file *f = run_file_find(w.name);

        if (!f || !(f->flags & RUN_FILE_COPIED))
            continue;
        snprintf(new, sizeof new, "%s/%s", dir, w.name);
        rc = copy_file(w.path, new, f->flags & RUN_FILE_FOLDER, err);
    }
    return file_walk_end(&w, rc, err);
}

/* The best model stays with the old run. Several ranks keep none. */
static int leave_best(struct session *to, const struct session *from, const struct rank_reshard *n,
                      size_t rank, struct err *err)
{
    static const char *const keys[] = { "best.step", "best.folder", "best.next", "best.sum" };
    int                      rc = runlog_set(to->log, "option.keep-best", "", err);

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
        rc = runlog_unset(to->log, keys[i], err);
    if (!rc && !rank)
        events_notice(from->events, "several ranks keep no best model: %s has no --keep-best, and "
                      "%s/best stays where it is", n->dir, from->dir);
    return rc;
}

/* Change the settings that differ in the copy. */
static int settle(struct session *to, const struct session *from, const struct rank_reshard *n,
                  size_t rank, struct err *err)
{
    int rc = settings_set(to->log, err, "id=%s\noption.devices=%zu\noption.groups=%zu", to->id,
                          n->devices ? n->devices : from->run.n_devices,
                          size_max(from->o.groups ? from->o.groups : from->ranks.size, 1));

    rc = rc ? rc : runlog_set(to->log, "option.device", "", err);
    rc = rc ? rc : runlog_set(to->log, "option.fpga", "", err);
    if (!rc && from->o.tensorboard && *from->o.tensorboard == '/') {
        rc = runlog_set(to->log, "option.tensorboard", TENSORBOARD_NONE, err);
        if (!rank)
            events_notice(from->events, "TensorBoard files in %s are those of %s: %s writes none "
                          "until --resume names a folder with --tensorboard DIR",
                          from->o.tensorboard, from->dir, n->dir);
    }
    if (!rc && n->ranks == 1 && from->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS) {
        rc = runlog_set(to->log, "option.snapshot-on", "dir", err);
        events_notice(from->events, "--snapshot-on hosts is for several ranks: snapshots of %s are "
                      "taken as by --snapshot-on dir", n->dir);
    }
    if (!rc && from->o.keep_best)
        rc = leave_best(to, from, n, rank, err);
    rc = rc ? rc : runlog_unset(to->log, "layout", err);
    rc = rc ? rc : runlog_unset(to->log, "owner", err);
    rc = rc ? rc : runlog_unset(to->log, "owner.next", err);
    rc = rc ? rc : runlog_unset(to->log, "reshard.remove", err);
    if (!rc && n->ranks > 1)
        return settings_set(to->log, err, "ranks=%zu\nrank=%zu", n->ranks, rank);
    rc = rc ? rc : runlog_unset(to->log, "ranks", err);
    return rc ? rc : runlog_unset(to->log, "rank", err);
}

/* Replace the empty run.db.new by a copy of the old run's database. It gets that name only after
 * its id and place are set. Before, a cleanup after a kill would take the old run's devices for
 * this maker's. */
static int copy_log(const struct making *m, struct session *to, size_t rank, struct err *err)
{
    char copy[NEW_PATH], first[MOVED_PLACE];

    snprintf(copy, sizeof copy, "%s/" RUN_DB_NEW ".copy", to->dir);
    moved_place(first, m->places[0].dir);
    int rc = runlog_copy(m->from->log, copy, err);
    runlog_close(to->log);
    to->log = NULL;
    rc = rc ? rc : runlog_open(&to->log, copy, 0, 1, err);
    rc = rc ? rc : moved_store(to->log, m->places[rank].dir, err);
    rc = rc || !rank ? rc : runlog_set(to->log, RANK_OWNER_FIRST, first, err);
    rc = rc ? rc : settle(to, m->from, m->n, rank, err);
    return creation_take_log(to, copy, rc, err);
}

/* Fill the folder of one rank. The caller closes `to`, also after a failure. */
static int fill(struct making *m, struct session *to, size_t rank, struct err *err)
{
    char         dir[SESSION_PATH];
    struct watch w;

    *to = (struct session){ .events = m->from->events, .spares = m->from->spares };
    rank_id_of(to->id, m->id, rank);
    rank_dir(dir, m->n->dir, rank);
    int rc = creation_claim(&m->places[rank], to, dir, 0, err);
    rc = rc ? rc : copy_log(m, to, rank, err);
    rc = rc ? rc : copy_files(m->from, to->dir, err);
    rc = rc ? rc : session_load(to, err);
    to->run.home = m->places[rank].dir;
    if (!rc) {
        w = work_begin(m->from->events, "making the states of %s", dir);
        rc = rerank_states(&m->parts, &to->run, &w, err);
        rc = rc ? rc : moved_note(&to->run, err);
        work_end(m->from->events);
    }
    return rc;
}

/* Fill all folders. Rank 0's stays locked meanwhile, so that nobody else can claim it. */
static int fill_all(struct making *m, struct err *err)
{
    struct session first;
    int            rc = fill(m, &first, 0, err);

    for (size_t i = 1; i < m->n->ranks && !rc; i++) {
        struct session other;

        rc = fill(m, &other, i, err);
        rc = rc ? rc : creation_close(&m->places[i], &other, err);
        session_close(&other);
    }
    rc = rc ? rc : creation_close(&m->places[0], &first, err);
    session_close(&first);
    return rc;
}

/* Give all folders their run.db. Once rank 0's has it, the run exists, and no folder is removed any
 * more. */
static int name_all(struct making *m, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < m->n->ranks && !rc; i++) {
        rc = creation_name(&m->places[i], err);
        for (size_t k = 0; k < m->n->ranks && !rc; k++)
            m->places[k].kept = 1;
    }
    return rc;
}

static int parts_of(struct parts *parts, struct session *from, struct err *err)
{
    int rc = parts_open(parts, &from->run, err);

    if (rc == -EBUSY && !(rc = session_recover(from, err))) { // complete an interrupted step
        parts_close(parts);
        rc = parts_open(parts, &from->run, err);
    }
    return rc;
}

int rank_reshard_create(struct session *from, const struct rank_reshard *n, struct err *err)
{
    struct making m = { .from = from, .n = n, .places = calloc(n->ranks, sizeof *m.places) };
    int           rc = m.places ? check(from, n, err) : err_set(err, -ENOMEM, "out of memory");

    for (size_t i = 0; i < n->ranks && m.places; i++)
        m.places[i] = (struct creation)CREATION_NONE;
    rc = rc ? rc : parts_of(&m.parts, from, err);
    rc = rc ? rc : machine_hex(m.id, sizeof m.id - 1, err);
    rc = rc ? rc : fill_all(&m, err);
    rc = rc ? rc : name_all(&m, err);
    parts_close(&m.parts);
    for (size_t i = 0; i < n->ranks && m.places && rc; i++) {
        struct session none = { 0 };

        creation_give_up(&m.places[i], &none);
    }
    free(m.places);
    return rc;
}
