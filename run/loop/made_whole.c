/* made_whole.c: has snapshots mended from their parity, and records in them where files are that
 * were made in another place. */
#include "run/loop/made_whole.h"

#include "csd/csd.h"
#include "data/file/file.h"
#include "run/folder/portions.h"
#include "run/folder/settings.h"

#include <unistd.h>

struct mending {
    struct session *s, snapshot;
    struct portions p;
    const struct snapshot *at;
    int             moved; // some files are in another place than its run.db says
};

/* ---- places ---- */

static char *path_in(const char *folder, const char *path, struct err *err)
{
    return file_path(err, "%s/%s", folder, strrchr(path, '/') + 1);
}

/* Where device i's files are made: where they were, or in the folder of the device now. */
static int place(struct mending *m, size_t i, struct err *err)
{
    char *folder = portions_folder(m->s, i, err), *was = file_folder(m->p.path[2 * i]);
    int   rc = folder && was ? 0 : -ENOMEM;
    int   lost = !file_may_be(m->p.path[2 * i]) || !file_may_be(m->p.path[2 * i + 1]);

    for (size_t k = 2 * i; lost && k < 2 * i + 2 && !rc && strcmp(folder, was); k++) {
        if (file_may_be(m->p.path[k])) // it stays where it is
            continue;
        char *path = path_in(folder, m->p.path[k], err);
        rc = path ? 0 : -ENOMEM;
        free(m->p.path[k]);
        m->p.path[k] = path;
        m->moved = 1;
    }
    if (lost && !rc && file_make_folder(folder) && errno != EEXIST)
        rc = err_set(err, -errno, "mkdir %s: %s", folder, strerror(errno));
    else if (lost && !rc)
        rc = file_sync_parent(folder, err);
    free(folder);
    free(was);
    return rc;
}

/* Has the snapshot's run.db say where its files are. */
static int record(const struct mending *m, struct err *err)
{
    char           db[SESSION_PATH + 16], lock[SESSION_PATH + 16];
    struct runlog *log = NULL;

    snprintf(db, sizeof db, "%s/run.db", m->at->path);
    snprintf(lock, sizeof lock, "%s/run.lock", m->at->path);
    int rc = runlog_open(&log, db, 0, 1, err);
    if (!rc && !(rc = runlog_begin(log, err))) {
        rc = portions_store(&m->p, log, err);
        for (size_t i = 0; i < m->p.n && !rc; i++)
            rc = runlog_device(log, (int)i, portions_device(&m->p, i), csd_name(0), m->s->run.disk,
                               m->p.bytes[2 * i], err);
        rc = runlog_end(log, rc, err);
    }
    rc = rc ? rc : runlog_whole(log, err);
    runlog_close(log);
    unlink(lock);
    return rc;
}

/* ---- one snapshot ---- */

/* Read and mend a snapshot that is open, whose devices are at m->p. */
static int mend(struct mending *m, struct parity_files *f, const char *doing, struct err *err)
{
    struct run_config cfg = m->snapshot.run;
    const char      **paths = calloc(m->p.n, sizeof *paths);

    if (!paths)
        return err_set(err, -ENOMEM, "out of memory for %zu devices", m->p.n);
    for (size_t i = 0; i < m->p.n; i++)
        paths[i] = portions_device(&m->p, i);
    cfg.device_paths = paths;
    struct watch w = work_begin(m->snapshot.events, "%s %s by its parity", doing, m->at->path);
    f->snapshot = &cfg;
    f->step = m->at->step;
    f->watch = &w;
    int rc = portions_work(f, &m->p, parity_mend, err);
    work_end(m->snapshot.events);
    free(paths);
    return rc;
}

static int open_snapshot(struct mending *m, const struct events *events, struct err *err)
{
    int rc = session_open(&m->snapshot, m->at->path, SESSION_READ, events, err);

    rc = rc ? rc : portions_load(&m->p, m->snapshot.log, err);
    if (!rc && m->p.n != m->snapshot.run.n_devices)
        rc = err_set(err, -EBADMSG, "%s: the settings of the snapshot's parity are damaged",
                     m->at->path);
    return rc;
}

/* Whose files its run.db names: *of, malloced, the folder of a run; *mends: that is this very RUN.
 * The run.db of a copied snapshot names the original's files, which nobody else writes to. */
static int whose_files(const struct mending *m, char **of, int *mends, struct err *err)
{
    char       *is = NULL;
    int         rc = settings_find(&is, m->snapshot.log, err, "snapshot.of");
    const char *born = is ? strchr(is, ' ') : NULL, *path = born ? strchr(born + 1, ' ') : NULL;

    *mends = is && portions_certain(m->s, is);
    *of = rc ? NULL : strdup(path ? path + 1 : "elsewhere");
    free(is);
    return rc || *of ? rc : err_set(err, -ENOMEM, "out of memory for a snapshot");
}

/* What came of it. */
static int say_mended(struct session *s, const struct snapshot *at, const struct parity_files *f,
                      int mends, const char *of, struct err *err)
{
    char text[2 * SESSION_PATH + 512];

    if (!mends && f->damaged)
        snprintf(text, sizeof text, "the snapshot %s is damaged, and it is not mended, because its "
                 "files on the devices are those of the run %s, of which %s is a copy: restore "
                 "that run first; %.300s", at->path, of, s->dir, f->first.text);
    else if (f->mended)
        snprintf(text, sizeof text, "the snapshot %s is whole again, by its parity (%" PRIu64
                 " parts)", at->path, f->mended);
    else
        return 0;
    return session_notice(s, text, err);
}

static int make_whole(struct session *s, const struct snapshot *at, struct err *err)
{
    struct mending      m = { .s = s, .at = at };
    struct parity_files f = { 0 };
    char               *of = NULL;
    int                 mends = 0, rc = open_snapshot(&m, s->events, err);

    rc = rc ? rc : whose_files(&m, &of, &mends, err);
    f.look = !mends;
    for (size_t i = 0; mends && !rc && at->lost <= at->parity && i < m.p.n && i < s->o.device.n;
         i++)
        rc = place(&m, i, err);
    rc = rc ? rc : mend(&m, &f, mends ? "restoring" : "checking", err);
    session_close(&m.snapshot);
    rc = rc || !m.moved ? rc : record(&m, err);
    portions_release(&m.p);
    rc = rc ? rc : say_mended(s, at, &f, mends, of, err);
    free(of);
    return rc;
}

int made_whole_can(const struct snapshot *at, const struct events *events, struct err *why,
                   struct err *err)
{
    struct mending      m = { .at = at };
    struct parity_files f = { .look = 1 };
    int                 rc = open_snapshot(&m, events, err);

    if (!rc && m.p.n)
        rc = mend(&m, &f, "checking", err);
    int can = !rc && m.p.n && f.damaged;
    *why = f.first;
    session_close(&m.snapshot);
    portions_release(&m.p);
    return rc == -EBADMSG ? 0 : rc ? rc : can;
}

/* ---- all ---- */

int made_whole(struct session *s, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, s, err);

    for (size_t i = list.n; i-- > 0 && !rc;) {
        const struct snapshot *at = &list.at[i];
        struct err             why;

        if (!at->files || !at->parity)
            continue;
        rc = make_whole(s, at, &why);
        if (rc == -EINTR || rc == -ENOMEM)
            *err = why;
        else if (rc) // another snapshot may do
            rc = session_notice(s, why.text, err);
    }
    snapshots_free(&list);
    return rc;
}
