/* portions.c: names the files of a snapshot on the devices' drives, has their parity made, and
 * removes those that are certainly the run's own. */
#include "run/snapshots/portions.h"

#include "data/base/text_made.h"
#include "data/file/file.h"
#include "run/folder/settings.h"
#include "run/snapshots/snapshot_files.h"
#include "run/snapshots/snapshot_places.h"

#include <fnmatch.h>
#include <unistd.h>

/* ---- the drives ---- */

/* The folder of a device that is given as a folder or as a file; malloced. */
static char *folder_of(const char *given, struct err *err)
{
    struct stat st;

    return !stat(given, &st) && S_ISDIR(st.st_mode) ? file_path(err, "%s", given)
                                                    : file_beside(given, ".", err);
}

static int drive_of(const struct session *s, size_t i, dev_t *drive, struct err *err)
{
    char *folder = folder_of(s->o.device.item[i], err);
    int   there = folder && !file_drive(folder, drive);

    free(folder);
    return there;
}

int portions_notice(struct session *s, struct err *err)
{
    dev_t  run = 0, at, other;
    size_t n = s->o.device.n;
    int    rc = 0, known = !file_drive(s->dir, &run);

    for (size_t i = 0; i < n && !rc; i++) {
        if (!drive_of(s, i, &at, err))
            continue;
        if (known && at == run) {
            rc = session_notice(s, err, "device %zu and %s lie on one file system: if its drive is "
                                "lost, run.db is lost too, and with it the run and its snapshots",
                                i, s->dir);
            known = 0;
        }
        for (size_t k = i + 1; k < n && !rc; k++)
            if (drive_of(s, k, &other, err) && other == at)
                return session_notice(s, err, "devices %zu and %zu lie on one file system: if its "
                                      "drive is lost, both are, and parity bears the loss of %"
                                      PRIu64 " (--parity)", i, k, s->o.parity);
    }
    return rc;
}

/* ---- a new snapshot ---- */

static int room(struct portions *p, size_t n, struct err *err)
{
    *p = (struct portions){ .n = n, .path = calloc(2 * n, sizeof *p->path),
                            .bytes = calloc(2 * n, sizeof *p->bytes),
                            .folder = calloc(2 * n, sizeof *p->folder) };
    return p->path && p->bytes && p->folder
               ? 0 : err_set(err, -ENOMEM, "out of memory for %zu devices", n);
}

void portions_release(struct portions *p)
{
    for (size_t i = 0; p->path && i < 2 * p->n; i++)
        free((char *)(uintptr_t)p->path[i]);
    free(p->path);
    free(p->bytes);
    free(p->folder);
    *p = (struct portions){ 0 };
}

char *portions_folder(const struct session *s, size_t i, struct err *err)
{
    char  name[SESSION_PATH], step[64];
    char *at = folder_of(s->o.device.item[i], err), *out;

    snapshot_places_names(name, step, s, 0);
    out = at ? file_path(err, "%s/%s", at, name) : NULL;
    free(at);
    return out;
}

int portions_can(const char *run, struct err *err)
{
    const char *slash = strrchr(run, '/');

    return strchr(slash ? slash : run, '\n')
               ? err_misuse(err, "%s has a line break in its name, and --snapshot-on devices gives "
                            "that name to folders which run.db lists by lines: rename the folder, "
                            "or leave --snapshot-on out", run) : 0;
}

/* Makes the folder of device i's files, for good, and names them. */
static int name_files(struct portions *p, const struct session *s, size_t i, uint64_t step,
                      const char *word, struct err *err)
{
    char  run[SESSION_PATH], name[64];
    char *folder = portions_folder(s, i, err);
    int   rc = folder ? file_have_folder(folder, s->dir, err) : -ENOMEM;

    snapshot_places_names(run, name, s, step);
    if (!rc) {
        p->path[i] = file_path(err, "%s/%s.%s.dev%zu", folder, name, word, i);
        p->path[p->n + i] = file_path(err, "%s/%s.%s.parity%zu", folder, name, word, i);
        rc = p->path[i] && p->path[p->n + i] ? 0 : -ENOMEM;
    }
    free(folder);
    return rc;
}

/* A path as one line: a line break in it becomes "\n", and a backslash two. */
static void put_line(FILE *f, const char *path)
{
    for (; *path; path++)
        if (*path == '\n')
            fputs("\\n", f);
        else
            fprintf(f, *path == '\\' ? "\\\\" : "%c", *path);
}

void portions_line_path(char *line)
{
    char *to = line;

    for (; *line; line++) {
        int escaped = *line == '\\' && line[1];

        line += escaped;
        *to++ = escaped && *line == 'n' ? '\n' : *line;
    }
    *to = '\0';
}

/* The lines of portions.begun; malloced. */
static char *begun_text(const struct portions *p, const struct session *s, const char *folder,
                        struct err *err)
{
    char   is[FILE_IDENTITY], *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    file_folder_identity(s->dir, is);
    if (f) {
        fprintf(f, "%s ", is);
        put_line(f, s->dir);
        fputc('\n', f);
        put_line(f, folder);
    }
    for (size_t i = 0; f && i < p->n; i++)
        fprintf(f, "\n%s\n%s", p->path[i], p->path[p->n + i]);
    if (!text_made(f, &text, 0))
        err_set(err, -ENOMEM, "out of memory for the paths of a snapshot's files");
    return text;
}

int portions_begin(struct portions *p, struct session *s, uint64_t step, const char *word,
                   const char *folder, struct err *err)
{
    if (settings_has(s->log, "portions.begun")) // snapshots_clean could not end it
        return err_set(err, -EBUSY, "%s: files of a snapshot that was not finished are still on "
                       "the devices, and the --snapshot-dir in which it was begun is not there: "
                       "mount it", s->dir);
    int rc = room(p, s->o.device.n, err);

    p->parity = (size_t)s->o.parity;
    for (size_t i = 0; i < p->n && !rc; i++)
        rc = name_files(p, s, i, step, word, err);
    char *text = rc ? NULL : begun_text(p, s, folder, err);
    rc = rc ? rc : text ? runlog_set(s->log, "portions.begun", text, err) : -ENOMEM;
    free(text);
    return rc;
}

int portions_end(struct session *s, struct err *err)
{
    return settings_has(s->log, "portions.begun") ? runlog_unset(s->log, "portions.begun", err) : 0;
}

void portions_parity(struct parity_files *f, const struct portions *p)
{
    f->paths = p->path + p->n;
    f->parity = p->parity;
    f->sums_crc = p->sums_crc;
}

int portions_encode(struct portions *p, const struct run_config *to, uint64_t step,
                    const struct watch *watch, struct beside *beside, struct err *err)
{
    struct parity_files f = { .snapshot = to, .step = step, .watch = watch,
                              .beside = beside };
    struct stat         st;

    portions_parity(&f, p);
    int rc = parity_make(&f, err);
    p->sums_crc = f.sums_crc;
    for (size_t i = 0; i < 2 * p->n && !rc; i++) {
        if (lstat(p->path[i], &st))
            rc = err_set(err, -errno, "%s: %s", p->path[i], strerror(errno));
        p->bytes[i] = rc ? 0 : (uint64_t)st.st_size;
    }
    return rc;
}

/* ---- whose they are ---- */

int portions_named(const char *path, size_t k, const char *id)
{
    const char *slash = strrchr(path, '/');
    char        pattern[128];

    snprintf(pattern, sizeof pattern, "step-+([0-9])?(.rank+([0-9])).+([0-9a-f]).%s%zu",
             k % 2 ? "parity" : "dev", k / 2);
    return *path == '/' && slash && snapshot_places_is_folder(path, (size_t)(slash - path), id) &&
           !fnmatch(pattern, slash + 1, FNM_EXTMATCH);
}

/* ---- in a snapshot's run.db ---- */

/* The file_identity of the folder around a file. */
static void folder_is(char is[FILE_IDENTITY], const char *path)
{
    char *folder = file_folder(path);

    *is = '\0';
    if (folder)
        file_identity(folder, is);
    free(folder);
}

int portions_store(const struct portions *p, struct runlog *log, struct err *err)
{
    char  *text = NULL, *devices = NULL, *folders = NULL, is[FILE_IDENTITY];
    size_t size;
    FILE  *f = open_memstream(&text, &size), *d = open_memstream(&devices, &size),
          *o = open_memstream(&folders, &size);

    for (size_t i = 0; f && d && o && i < p->n; i++) {
        const char *end = i + 1 < p->n ? "\n" : "";

        fprintf(f, "%" PRIu64 " %s\n%" PRIu64 " %s%s", p->bytes[i], p->path[i],
                p->bytes[p->n + i], p->path[p->n + i], end);
        fprintf(d, "%s%s", p->path[i], end);
        folder_is(is, p->path[i]);
        fprintf(o, "%s\n", is);
        folder_is(is, p->path[p->n + i]);
        fprintf(o, "%s%s", is, end);
    }
    int bad = !f || fclose(f);
    bad |= !d || fclose(d);
    bad |= !o || fclose(o);
    int rc = bad ? err_set(err, -ENOMEM, "out of memory for the paths of a snapshot's files")
                 : settings_set(log, err, "snapshot.parity=%zu %08" PRIx32, p->parity,
                                p->sums_crc);
    rc = rc ? rc : runlog_set(log, "snapshot.portions", text, err);
    rc = rc ? rc : runlog_set(log, "snapshot.folders", folders, err);
    rc = rc ? rc : runlog_set(log, "option.device", devices, err);
    free(text);
    free(devices);
    free(folders);
    return rc;
}

static size_t lines_of(const char *text)
{
    size_t n = 1;

    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

/* folders: the setting snapshot.folders, or NULL. */
static int load_lines(struct portions *p, const char *id, char *text, char *folders,
                      struct err *err)
{
    char *rest = text, *line, *path, *is = "";
    int   rc = 0, known = folders != NULL;

    for (size_t k = 0; (line = strsep(&rest, "\n")) && !rc; k++) {
        size_t i = k % 2 * p->n + k / 2; // the lines of a device stand together

        p->bytes[i] = strtoull(line, &path, 10);
        if (path == line || *path++ != ' ' || !portions_named(path, k, id))
            rc = err_set(err, -EBADMSG, "the setting snapshot.portions is damaged");
        else if (known && !(is = strsep(&folders, "\n")))
            rc = err_set(err, -EBADMSG, "the setting snapshot.folders is damaged");
        else if (!(p->path[i] = file_path(err, "%s", path)))
            rc = -ENOMEM;
        if (!rc)
            snprintf(p->folder[i], FILE_IDENTITY, "%s", is);
    }
    return rc;
}

int portions_load(struct portions *p, struct runlog *log, struct err *err)
{
    char    *text, *parity = NULL, *folders = NULL, id[sizeof ((struct session *)0)->id] = "";
    uint32_t crc;
    size_t   bears;

    *p = (struct portions){ 0 };
    int rc = settings_find(&text, log, err, "snapshot.portions");
    if (rc || !text)
        return rc;
    size_t n = lines_of(text);
    rc = settings_find(&parity, log, err, "snapshot.parity");
    if (!rc && (n % 2 || !parity || sscanf(parity, "%zu %" SCNx32, &bears, &crc) != 2 ||
                !bears || bears > PARITY_MOST || parity_can(n / 2, bears, NULL)))
        rc = err_set(err, -EBADMSG, "the settings of the snapshot's parity are damaged");
    rc = rc ? rc : room(p, n / 2, err);
    rc = rc ? rc : runlog_get(log, "id", id, sizeof id, err);
    rc = rc ? rc : settings_find(&folders, log, err, "snapshot.folders");
    rc = rc ? rc : load_lines(p, id, text, folders, err);
    free(text);
    free(parity);
    free(folders);
    if (rc) {
        portions_release(p);
        return rc;
    }
    p->parity = bears;
    p->sums_crc = crc;
    return 0;
}

size_t portions_lost(const struct portions *p, size_t *first)
{
    uint64_t held = 0;
    size_t   n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (!snapshot_files_is_there(p->path[i], p->bytes[i], &held) ||
            !snapshot_files_is_there(p->path[p->n + i], p->bytes[p->n + i], &held))
            if (!n++)
                *first = i;
    return n;
}

uint64_t portions_held(const struct portions *p)
{
    uint64_t held = 0;

    for (size_t i = 0; i < 2 * p->n; i++)
        snapshot_files_is_there(p->path[i], p->bytes[i], &held);
    return held;
}

/* ---- removing ---- */

int portions_certain(const struct session *s, const char *of)
{
    return moved_folder(s->dir, of) != MOVED_WHOLE || moved_is_heir(s->log, s->dir, of);
}

int portions_is_own(const struct portions *p, size_t k, const struct session *s, const char *of)
{
    if (!*p->folder[k] || moved_folder(s->dir, of) != MOVED_RENAMED || !file_may_be(p->path[k]))
        return 1;
    char *folder = file_folder(p->path[k]);
    int   is = folder && file_is(folder, p->folder[k]);

    free(folder);
    return is;
}

size_t portions_forget_others(struct portions *p, char first[SESSION_PATH], const struct session *s,
                              const char *of)
{
    size_t n = 0;

    for (size_t k = 0; k < 2 * p->n; k++) {
        if (portions_is_own(p, k, s, of))
            continue;
        if (!n++)
            snprintf(first, SESSION_PATH, "%s", p->path[k]);
        free((char *)(uintptr_t)p->path[k]);
        p->path[k] = NULL;
    }
    return n;
}

int portions_remove_file(const char *path)
{
    struct stat st;
    char       *folder = file_folder(path);
    int         rc = 0;

    if (lstat(path, &st))
        rc = file_is_absent(errno) ? 0 : -errno;
    else if (S_ISREG(st.st_mode))
        rc = unlink(path) ? -errno : file_sync_parent(path, NULL);
    if (folder)
        rmdir(folder); // if it was the last file in it
    free(folder);
    return rc;
}

int portions_remove(const struct portions *p)
{
    int rc = 0;

    for (size_t i = 0; p->path && i < 2 * p->n; i++) {
        if (!p->path[i]) // none was named yet
            continue;
        int gone = portions_remove_file(p->path[i]);
        rc = rc ? rc : gone;
    }
    return rc;
}
