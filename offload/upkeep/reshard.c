/* reshard.c: moves a run's states to other devices. The file is in the order of events: what is
 * listed for removal, the checks before anything is made, the copy, the switch.
 *
 * Old and new subgroups are in the same order of blocks and parameters. So each old one is read
 * once, whole (its checksum covers all of it), and held until the last new one that needs a part of
 * it. A new one is written while the next is put together. This takes two buffers for new ones and
 * one for old, whatever the size of the run. */
#include "offload/upkeep/reshard.h"

#include "data/file/file.h"
#include "offload/devices/devices_room.h"
#include "offload/devices/slots.h"

#include <assert.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

// the first line is the layout's name; each further line is a path, relative to RUN if it is in it
#define REMOVE_KEY "reshard.remove"
// the file_identity of each file in it that was there when it was listed, a line each; else empty
#define FILES_KEY "reshard.files"

/* ---- what is listed for removal */

static void put_identity(FILE *f, const char *path)
{
    char *real = file_real(path), identity[FILE_IDENTITY] = "";

    if (real && !file_is_block(real))
        file_identity(real, identity);
    fprintf(f, "%s\n", identity);
    free(real);
}

/* Lists cfg's device files. A path with a line break is refused, because it would be read as
 * two. */
static int list_put(const struct run_config *cfg, int create, struct err *err)
{
    size_t own = strlen(cfg->dir), size;
    char  *text = NULL, *files = NULL, *path;
    FILE  *f = open_memstream(&text, &size), *are = open_memstream(&files, &size);
    int    rc = 0;

    if (f)
        fprintf(f, "%s\n", devices_layout(cfg));
    for (size_t i = 0; f && are && i < cfg->n_devices && !rc; i++) {
        rc = devices_path(&path, cfg, i, create, err);
        if (!rc) {
            int in_run = !strncmp(path, cfg->dir, own) && path[own] == '/';

            if (strchr(path + (in_run ? own : 0), '\n'))
                rc = err_misuse(err, "--device %s: a path with a line break cannot be a device's",
                                path);
            fprintf(f, "%s\n", in_run ? path + own + 1 : path);
            put_identity(are, path);
        }
        free(path);
    }
    int failed = !f || fclose(f);
    if (!are || fclose(are) || failed)
        rc = err_set(err, -ENOMEM, "out of memory for the paths of %zu devices", cfg->n_devices);
    rc = rc ? rc : runlog_set(cfg->log, REMOVE_KEY, text, err);
    rc = rc ? rc : runlog_set(cfg->log, FILES_KEY, files, err);
    for (size_t i = 0; rc && create && i < cfg->n_devices; i++)
        devices_folder_remove(cfg, i);
    free(text);
    free(files);
    return rc;
}

/* Whether we named device i's file of that layout, not somebody's --device. Older versions' names
 * of 8 digits without a layout may belong to another run. */
static int name_is(const char *listed, const struct run_config *cfg, const char *layout, size_t i)
{
    const char *slash = strrchr(listed, '/');
    const char *name = slash ? slash + 1 : listed;
    char        in_run[DEVICES_NAME], in_given[DEVICES_NAME], older[DEVICES_NAME];

    devices_name_in_run(in_run, layout, i);
    devices_name(in_given, cfg->id, layout, i, 0);
    devices_name(older, cfg->id, layout, i, 1);
    return !strchr(layout, '/') && (!strcmp(listed, in_run) || !strcmp(name, in_given) ||
                                    (*layout && !strcmp(name, older)));
}

/* Checks that a file belongs to that layout of this run. A file that we named may have no
 * superblock yet. Returns NULL, or a reason why not. */
static const char *page_is_not(int fd, const struct run_config *cfg, const char *layout, int named)
{
    static const char  zeros[SUPERBLOCK_BYTES];
    char               page[SUPERBLOCK_BYTES] = { 0 };
    struct superblock s;

    if (pread(fd, page, sizeof page, 0) < 0)
        return "it cannot be read";
    if (!memcmp(page, zeros, SUPERBLOCK_BYTES))
        return named ? NULL : "nothing in it says whose it is";
    if (superblock_read(page, &s) || strcmp(s.id, cfg->id) || strcmp(s.layout, layout))
        return "what it holds is something else";
    return strcmp(s.owner, cfg->owner ? cfg->owner : "") ? "a copy of the run has taken it" : NULL;
}

/* Whether another file has come to the path since it was listed, as that of a copy whose drive was
 * mounted there. */
static int is_other(const char *path, const char *identity)
{
    char *real = identity && *identity ? file_real(path) : NULL;
    int   other = real && !file_is(real, identity);

    free(real);
    return other;
}

/* Removes one listed file. identity: its own; NULL or "": not known. -EBUSY if another process
 * uses it: a killed one may not have ended yet. */
static int remove_one(const struct run_config *cfg, int outside, const char *layout,
                      const char *listed, const char *identity, size_t i, char *notice,
                      size_t size)
{
    int         in_run = *listed != '/';
    char       *path = file_path(NULL, "%s%s%s", in_run ? cfg->dir : "", in_run ? "/" : "", listed);
    int         drive = path && file_is_block(path); // its locks hold on this host only
    int         fd = path ? file_open_device(path, O_RDWR | (drive ? O_EXCL : 0)) : -ENOMEM;
    const char *not = NULL; // NULL: it was removed
    struct err  why = { 0 };

    if (path && !drive && name_is(listed, cfg, layout, i)) { // no other run makes this name
        file_new_clear_left(path, 0);
        file_sync_parent(path, NULL);
    }
    if (fd == -ENOENT && in_run)
        rmdir(dirname(path)); // dirname cuts path, which is not used below
    else if (fd < 0 && fd != -ENOENT && path)
        not = fd == -ENODEV ? "it is neither a file nor a drive" : strerror(-fd);
    else if (fd >= 0 && !outside && !devices_inside(cfg, path))
        not = "the run was copied or moved, and it may be the other run's";
    else if (fd >= 0 && is_other(path, identity))
        not = "it is another file than the run had there";
    else if (fd >= 0)
        not = page_is_not(fd, cfg, layout, name_is(listed, cfg, layout, i));
    int busy = fd >= 0 && !not ? file_lock(fd, 0) : drive && fd == -EBUSY ? fd : 0;

    if (busy == -EBUSY)
        not = "another process uses it";
    else if (busy)
        not = "it cannot be locked";
    else if (fd >= 0 && !not) // once more: a copy may have taken it before it was locked
        not = page_is_not(fd, cfg, layout, name_is(listed, cfg, layout, i));
    if (fd >= 0 && !not && devices_erase(fd, path, &why))
        not = why.text;
    if (not && size && !*notice)
        snprintf(notice, size, "%s is not of this run any more and was left where it is: %s", path,
                 not);
    if (fd >= 0 && !not && in_run)
        rmdir(dirname(path)); // fails unless it is empty; path is not used any more
    file_close(fd);
    free(path);
    return busy == -EBUSY;
}

/* Whether all devices that the run is on are there. If not, nothing is removed. */
static int are_there(const struct run_config *cfg)
{
    int there = 1;

    for (size_t i = 0; i < cfg->n_devices && there; i++) {
        char *path = NULL;
        int   fd = devices_path(&path, cfg, i, 0, NULL) ? -1 : file_open_device(path, O_RDONLY);

        there = fd >= 0 && !page_is_not(fd, cfg, devices_layout(cfg), 0);
        file_close(fd);
        free(path);
    }
    return there;
}

/* Removes what is listed for another layout than the run's. Returns 1 at the first that another
 * process uses: its other ones would be waited for, too. */
static int remove_listed(const struct run_config *cfg, int outside, char *list, char *files,
                         char *notice, size_t size)
{
    char  *rest = list, *layout = strsep(&rest, "\n"), *path;
    size_t i = 0;

    while (strcmp(layout, devices_layout(cfg)) && (path = strsep(&rest, "\n"))) {
        const char *identity = strsep(&files, "\n");

        if (*path && remove_one(cfg, outside, layout, path, identity, i++, notice, size))
            return 1;
    }
    return 0;
}

/* All of it is one transaction: it begins only if nobody has written since the run was opened, and
 * until its end nobody can switch the run to the devices that are listed. */
int reshard_clean(const struct run_config *cfg, int outside, char *notice, size_t notice_size,
                  struct err *err)
{
    char *list, *files = NULL;
    int   rc = runlog_text(cfg->log, REMOVE_KEY, &list, err);

    if (rc)
        return rc == -ENOENT ? 0 : rc;
    rc = runlog_text(cfg->log, FILES_KEY, &files, err); // an older version stored none
    if ((rc = rc == -ENOENT ? 0 : rc) || (rc = runlog_begin(cfg->log, err)))
        goto out;
    if (!are_there(cfg) || remove_listed(cfg, outside, list, files, notice, notice_size)) {
        runlog_rollback(cfg->log); // the next opening tries again
        goto out;
    }
    rc = runlog_unset(cfg->log, REMOVE_KEY, err);
    rc = runlog_end(cfg->log, rc ? rc : runlog_unset(cfg->log, FILES_KEY, err), err);
out:
    free(list);
    free(files);
    return rc;
}

/* ---- before anything is made */

/* Refuses if the list names another layout's files: the list has room for one, and they would be
 * forgotten. */
static int list_check(const struct run_config *from, struct err *err)
{
    char *text;
    int   rc = runlog_text(from->log, REMOVE_KEY, &text, err);

    if (rc)
        return rc == -ENOENT ? 0 : rc;
    free(text);
    return err_set(err, -EAGAIN, "another process still uses device files that %s had before: "
                   "try again when it has ended", from->dir);
}

static int room_check(const struct run_config *to, struct err *err)
{
    struct store st;
    int          rc = store_init(&st, to, err);

    rc = rc ? rc : devices_room_check(to, st.device_bytes, err);
    store_release(&st);
    return rc;
}

/* Refuses to move a drive onto itself. */
static int others_check(const struct run_config *from, const struct run_config *to, struct err *err)
{
    for (size_t i = 0; to->device_paths && i < to->n_devices; i++)
        for (size_t j = 0; from->device_paths && j < from->n_devices; j++) {
            struct stat a, b;

            if (stat(to->device_paths[i], &a) == 0 && stat(from->device_paths[j], &b) == 0 &&
                S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode) && a.st_rdev == b.st_rdev)
                return err_misuse(err, "--device %s holds the run now; its states cannot be moved "
                                  "onto the same drive", to->device_paths[i]);
        }
    return 0;
}

/* ---- the copy */

struct move {
    struct reshard     *r;
    struct devices      old, new_;
    struct journal      journal; // of the old ones
    struct journal      made;    // of the new ones
    struct slots_reader reader;  // of the old ones
};

static int old_map(struct move *m, struct err *err)
{
    const struct run_config *from = &m->r->from;
    int rc = journal_open(&m->journal, from->log, m->old.store.n_subs, from->error_feedback, err);

    return rc ? rc : slots_half_done(from, &m->old.store, &m->journal, err);
}

/* Fills the states and the residual of a new subgroup from the old ones that hold its
 * parameters. */
static int gather(void *ctx, const struct store_sub *u, float *states, float *residual,
                  struct err *err)
{
    struct move *m = ctx;
    int          rc = slots_reader_copy(&m->reader, u->block, u->first, u->n,
                                        &(struct slots_copy){ states, residual, u->n_pad, 0 }, err);

    return rc == -EBADMSG ? err_set(err, rc, "%s; nothing was moved", err->text) : rc;
}

/* ---- the switch */

/* Begins the one transaction that switches. Before it, the run is on the old devices and the new
 * ones are listed for removal; after it, the other way round. */
static int switch_begin(struct move *m, struct err *err)
{
    const struct run_config *to = &m->r->to;
    int                      rc = runlog_begin(to->log, err);

    rc = rc ? rc : slots_record(&m->new_, &m->made, to->log, err);
    rc = rc ? rc : list_put(&m->r->from, 0, err);
    rc = rc ? rc : m->r->settings(m->r->ctx, err);
    if (!rc) // the old devices are removed next
        rc = devices_present(&m->new_, "the run was about to move to it; the run is where it was",
                             err);
    return rc;
}

/* The new files are as open to others as the old ones: a run may be several users'. */
static void look_like_old(const struct move *m)
{
    for (size_t i = 0; i < m->new_.n; i++) {
        const char *old = m->old.device[i < m->old.n ? i : m->old.n - 1].path;
        const char *path = m->new_.device[i].path;

        if (file_is_block(path) || file_is_block(old))
            continue;
        file_like_at(path, old);
        char *folder = file_beside(path, ".", NULL), *was = file_beside(old, ".", NULL);
        if (folder && was && !m->r->to.device_paths && !m->r->from.device_paths)
            file_like_at(folder, was); // RUN/devN
        free(folder);
        free(was);
    }
}

static int move_run(struct move *m, struct err *err)
{
    struct run_config   to = m->r->to;
    const struct store *st = &m->new_.store;

    to.links = (struct topology_config){ 0 }; // at the drives' full speed
    int rc = old_map(m, err);
    rc = rc ? rc : devices_open(&m->new_, &to, DEVICES_CREATE, NULL, err);
    if (!rc)
        look_like_old(m);
    rc = rc ? rc : slots_reader_open(&m->reader, &m->old, &m->journal, err);
    if (!rc)
        rc = slots_make(&m->new_,
                        &(struct slots_source){ .fill = gather, .ctx = m,
                                                .bytes = 2 * store_sub_bytes(st, st->max_pad),
                                                .version = m->journal.state.applied,
                                                .watch = m->r->watch }, &m->made, err);
    if (rc == -EINTR)
        err_stopped(err, "stopped; %s is where it was", m->r->from.dir);
    for (size_t i = 0; i < m->new_.store.n_subs && !rc; i++)
        m->r->bytes += store_sub_held(&m->new_.store, &m->new_.store.subs[i]);
    if (!rc && !to.device_paths)
        rc = file_sync_dir(to.dir, err); // makes the names of new folders durable
    rc = rc ? rc : switch_begin(m, err);
    if (rc) // another process may have taken them off the list before they were made
        devices_discard(&m->new_);
    return runlog_end(to.log, rc, err);
}

int reshard_run(struct reshard *r, struct err *err)
{
    struct move       m = { .r = r };
    struct run_config from = r->from;
    struct err        ignored;

    if (r->from.mode == RUN_MEM)
        return err_misuse(err, "%s is in mode mem: its images are in the run's folder, "
                          "which can be moved as it is", r->from.dir);
    if (devices_fake(&r->from))
        return err_misuse(err, "%s: nothing is stored behind --csd null or --disk null, "
                          "so there is nothing to move", r->from.dir);
    assert(strcmp(devices_layout(&r->from), devices_layout(&r->to)));
    r->bytes = 0;
    int rc = list_check(&r->from, err);
    rc = rc ? rc : room_check(&r->to, err);
    rc = rc ? rc : others_check(&r->from, &r->to, err);
    if (rc)
        return rc;
    // The old devices are locked before the first commit: a process that trains on them would see a
    // second writer, and end.
    from.links = (struct topology_config){ 0 };
    rc = devices_open(&m.old, &from, DEVICES_READ, NULL, err);
    if (!rc) // always, because the old devices are removed after this
        rc = runlog_sync(r->to.log, RUNLOG_SYNC_ALL, err);
    rc = rc || !r->settle ? rc : r->settle(r->ctx, err);
    rc = rc ? rc : list_put(&r->to, 1, err);
    int listed = !rc;
    rc = rc ? rc : move_run(&m, err);
    devices_close(&m.new_);
    devices_close(&m.old);
    journal_close(&m.journal);
    journal_close(&m.made);
    if (rc && listed)
        reshard_clean(&r->from, 1, NULL, 0, &ignored);
    return rc;
}
