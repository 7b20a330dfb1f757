/* made_whole.c: has snapshots mended from their parity, and records in them where files are that
 * were made in another place. */
#include "run/snapshots/made_whole.h"

#include "csd/csd.h"
#include "data/file/file.h"
#include "run/folder/moved.h"
#include "run/folder/settings.h"
#include "run/snapshots/portions.h"
#include "run/snapshots/snapshot_log.h"

struct mending {
    struct session *s, snapshot;
    struct portions p;
    const struct snapshot *at;
    unsigned char   moved[2 * PARITY_DEVICES]; // is made in another place than its run.db says
    int             any_moved, recorded;
    int             any_gone;               // of a device, so its folder may be another one by now
};

/* ---- places ---- */

static char *path_in(const char *folder, const char *path, struct err *err)
{
    return file_path(err, "%s/%s", folder, strrchr(path, '/') + 1);
}

/* Whether a file of device i is not there. */
static int is_gone(const struct mending *m, size_t i)
{
    return !file_may_be(m->p.path[i]) || !file_may_be(m->p.path[m->p.n + i]);
}

/* Where device i's files are made: where they were, or in the folder of the device now. */
static int place(struct mending *m, size_t i, struct err *err)
{
    char *folder = portions_folder(m->s, i, err), *was = file_folder(m->p.path[i]);
    int   rc = folder && was ? 0 : -ENOMEM, lost = is_gone(m, i);

    m->any_gone |= lost;
    for (size_t k = i; lost && k < 2 * m->p.n && !rc && strcmp(folder, was); k += m->p.n) {
        if (file_may_be(m->p.path[k])) // it stays where it is
            continue;
        char *path = path_in(folder, m->p.path[k], err);
        rc = path ? 0 : -ENOMEM;
        free((char *)(uintptr_t)m->p.path[k]);
        m->p.path[k] = path;
        m->moved[k] = !path || !file_may_be(path); // or else somebody has put it there
        m->any_moved = 1;
    }
    rc = rc || !lost ? rc : file_have_folder(folder, m->s->dir, err);
    free(folder);
    free(was);
    return rc;
}

/* Has the snapshot's run.db say where its files are. */
static int record(struct mending *m, struct err *err)
{
    struct runlog *log = NULL;
    int            rc = runlog_open_in(&log, m->at->path, 0, err);

    if (!rc && !(rc = runlog_begin(log, err))) {
        rc = portions_store(&m->p, log, err);
        for (size_t i = 0; i < m->p.n && !rc; i++)
            rc = runlog_device(log, (int)i, m->p.path[i], csd_name(0), m->s->run.disk,
                               m->p.bytes[i], err);
        rc = runlog_end(log, rc, err);
        m->recorded = !rc;
    }
    return snapshot_log_close(&log, m->at->path, rc, err);
}

/* Removes what was made in another place, which no run.db names. */
static void remove_moved(const struct mending *m)
{
    for (size_t k = 0; k < 2 * m->p.n; k++)
        if (m->moved[k] && m->p.path[k])
            portions_remove_file(m->p.path[k]);
}

/* ---- one snapshot ---- */

/* Read a snapshot that is open, whose devices are at m->p, and mend it unless f->look. */
static int mend(struct mending *m, struct parity_files *f, const char *doing, struct err *err)
{
    struct run_config cfg = m->snapshot.run;
    struct watch      w = work_begin(m->snapshot.events, "%s %s by its parity", doing, m->at->path);

    cfg.device_paths = m->p.path;
    f->snapshot = &cfg;
    f->step = m->at->step;
    f->watch = &w;
    portions_parity(f, &m->p);
    int rc = parity_mend(f, err);
    work_end(m->snapshot.events);
    return rc;
}

static int begin(struct mending *m, const struct events *events, struct err *err)
{
    int rc = session_open(&m->snapshot, m->at->path, SESSION_READ, events, err);

    rc = rc ? rc : portions_load(&m->p, m->snapshot.log, err);
    if (!rc && m->p.n != m->snapshot.run.n_devices)
        rc = err_set(err, -EBADMSG, "%s: the settings of the snapshot's parity are damaged",
                     m->at->path);
    return rc;
}

/* Whether its run.db names files of this very RUN, or of one that lay at the same path before: a
 * backup or a rank's new folder has taken its place. The run.db of a copied snapshot names those of
 * the original, which nobody else writes to; after RUN was renamed, a backup of it and its drives
 * may have other such files at the old paths: then -EBADMSG, and the sentence says so. */
static int whose_files(const struct mending *m, struct err *err)
{
    char       *of = NULL;
    int         rc = settings_find(&of, m->snapshot.log, err, "snapshot.of");
    const char *was = of ? moved_path(of) : NULL;
    int         at_path = was && !strcmp(was, m->s->dir);

    if (!rc && !at_path && !(of && portions_certain(m->s, of)))
        rc = err_set(err, -EBADMSG, "the snapshot %s is damaged, and it is not mended, because its "
                     "files on the devices are those of the run %s, of which %s is a copy: %s",
                     m->at->path, was ? was : "elsewhere", m->s->dir,
                     !was || file_may_be(was) ? "restore that run first"
                                              : "that run is not there; if it was moved, move it "
                                                "back, and begin again");
    for (size_t k = 0; !rc && k < 2 * m->p.n; k++)
        if (!at_path && (!m->at->ours || !portions_is_own(&m->p, k, m->s, of)))
            rc = err_set(err, -EBADMSG, "the snapshot %s is damaged, and it is not mended, because "
                         "%s may be that of a backup: %s was renamed, and a folder there is "
                         "another one than that in which the snapshot was made", m->at->path,
                         m->p.path[k], m->s->dir);
    free(of);
    return rc;
}

/* Read it, and mend it if its files are those of this run. */
static int read_all(struct mending *m, struct parity_files *f, struct err *err)
{
    const struct session *s = m->s;
    struct err            not_ours;
    size_t                gone = 0;
    int                   ours = whose_files(m, &not_ours), rc = 0;

    if (ours && ours != -EBADMSG)
        return *err = not_ours, ours;
    f->look = ours != 0;
    for (size_t i = 0; i < m->p.n; i++)
        gone += (size_t)is_gone(m, i);
    for (size_t i = 0; !ours && gone <= m->p.parity && i < m->p.n && i < s->o.device.n && !rc; i++)
        rc = place(m, i, err);
    rc = rc ? rc : mend(m, f, ours ? "checking" : "restoring", err);
    return rc || !ours || !f->damaged ? rc
                                      : err_set(err, -EBADMSG, "%s; %s", f->first.text,
                                                not_ours.text);
}

/* whole 0: other parts are damaged still, and why says which. */
static int say_mended(const struct mending *m, uint64_t mended, int whole, struct err *err)
{
    return session_notice(m->s, err, "the snapshot %s is %s (parts that were made again: %" PRIu64
                          ")", m->at->path, whole ? "whole again, by its parity" : "not whole, but "
                          "its parity has mended some of it", mended);
}

/* One with parity. */
static int mend_one(struct session *s, const struct snapshot *at, uint64_t *mended, struct err *why)
{
    struct mending      m = { .s = s, .at = at };
    struct parity_files f = { 0 };
    struct err          unsaid;
    int                 rc = begin(&m, s->events, why);

    rc = rc ? rc : read_all(&m, &f, why);
    int rest = rc ? rc : snapshot_prove_rest(&m.snapshot, why);
    session_close(&m.snapshot);
    if (!rc && m.any_moved)
        rc = record(&m, rest ? &unsaid : why);
    else if (!rc && m.any_gone)
        record(&m, &unsaid);
    if (rc && m.any_moved && !m.recorded)
        remove_moved(&m);
    rc = rc ? rc : rest;
    if (f.mended && !rc)
        rc = say_mended(&m, f.mended, 1, why);
    else if (f.mended && rc == -EBADMSG && (!m.any_moved || m.recorded))
        say_mended(&m, f.mended, 0, &unsaid);
    *mended += f.mended;
    portions_release(&m.p);
    return rc;
}

/* 1, 0 or -errno, as made_whole.h has it, of what came of reading. */
static int verdict(struct snapshot *at, int rc)
{
    at->denied = file_is_unknown(rc) || rc == -EROFS; // or this user may only read it
    return !rc ? 1 : rc == -EINTR || rc == -ENOMEM ? rc : 0;
}

int made_whole(struct session *s, struct snapshot *at, uint64_t *mended, struct err *why)
{
    return verdict(at, at->parity ? mend_one(s, at, mended, why)
                                  : snapshot_read(at->path, snapshot_verify, s->events, why));
}

static int make_one(struct session *s, struct snapshot *at, struct made_whole_sum *sum,
                    struct err *err)
{
    struct err why;
    int        whole = 0;

    if (at->files)
        whole = made_whole(s, at, &sum->mended, &why);
    else
        err_set(&why, 0, "the snapshot %s lacks files of its folder, which no parity has",
                at->path);
    if (whole < 0)
        return *err = why, whole;
    if (!whole)
        ++*(at->denied ? &sum->unknown : &sum->left);
    return whole ? 0 : session_notice(s, err, "%s", why.text); // another one may be mended
}

int made_whole_all(struct session *s, struct snapshots *list, struct made_whole_sum *sum,
                   struct err *err)
{
    int rc = 0;

    for (size_t i = list->n; i-- > 0 && !rc;)
        if (!list->at[i].tried && (!list->at[i].files || list->at[i].parity))
            rc = make_one(s, &list->at[i], sum, err);
    return rc;
}

/* Whether its parity would make it whole: 1 or 0, or -errno. */
static int can(const struct snapshot *at, const struct events *events, struct err *err)
{
    struct mending      m = { .at = at };
    struct parity_files f = { .look = 1 };
    int                 rc = begin(&m, events, err);

    rc = rc ? rc : mend(&m, &f, "checking", err);
    session_close(&m.snapshot);
    portions_release(&m.p);
    return rc == -EBADMSG ? 0 : rc ? rc : f.damaged > 0;
}

int made_whole_check(struct snapshot *at, const struct events *events, struct err *why)
{
    struct err unsaid;
    int        rc = snapshot_read(at->path, snapshot_check, events, why), whole = verdict(at, rc);

    if (whole)
        return whole;
    if (!strstr(why->text, at->path)) {
        struct err was = *why;
        err_set(why, rc, "%s: %s", at->path, was.text);
    }
    at->whole = 0;
    rc = at->parity && at->files ? can(at, events, &unsaid) : 0;
    at->denied |= file_is_unknown(rc);
    at->parity = rc > 0 ? at->parity : 0;
    at->lost = at->lost > at->parity ? 0 : at->lost; // what remains is damaged, not lost
    if (rc != -EINTR && rc != -ENOMEM)
        return 0;
    *why = unsaid;
    return rc;
}
