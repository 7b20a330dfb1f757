/* snapshot_files.c: notes the names of a snapshot's files, and copies whole files into it. */
#include "run/snapshots/snapshot_files.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_PATH = 4096 + 128 };

int snapshot_files_is_plain(const char *name)
{
    const char *slash = strchr(name, '/');

    return *name && *name != '/' && !strstr(name, "..") && (!slash || !strchr(slash + 1, '/'));
}

int snapshot_files_each(const char *dir, const char *files,
                        int (*each)(void *ctx, const char *path, uint64_t bytes), void *ctx)
{
    char *copy = strdup(files), *rest = copy, *line;
    int   rc = copy ? 0 : -ENOMEM;

    while (!rc && (line = strsep(&rest, "\n"))) {
        char    *name, *path = NULL;
        uint64_t bytes = strtoull(line, &name, 10);

        if (!*line) // the list may be empty, or end with a line's end
            continue;
        if (*name++ != ' ' || !snapshot_files_is_plain(name))
            rc = -EBADMSG;
        else if (!(path = file_path(NULL, "%s/%s", dir, name)))
            rc = -ENOMEM;
        rc = rc ? rc : each(ctx, path, bytes);
        free(path);
    }
    free(copy);
    return rc;
}

int snapshot_files_is_there(const char *path, uint64_t bytes, uint64_t *held)
{
    struct stat st;
    int         is = !lstat(path, &st);

    if (!is)
        return !file_is_absent(errno);
    is = S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
    if (is)
        *held += (uint64_t)st.st_blocks * 512;
    return is;
}

int snapshot_files_begin(struct snapshot_files *f, const char *dir, struct err *err)
{
    *f = (struct snapshot_files){ .dir = dir };
    f->list = open_memstream(&f->names, &f->size);
    return f->list ? 0 : err_set(err, -ENOMEM,
                                 "out of memory for the names of a snapshot's files");
}

void snapshot_files_end(struct snapshot_files *f)
{
    if (f->list)
        fclose(f->list);
    free(f->names);
    *f = (struct snapshot_files){ 0 };
}

int snapshot_files_note(void *files, const char *name, struct err *err)
{
    struct snapshot_files *f = files;

    return fprintf(f->list, "%s\n", name) < 0
               ? err_set(err, -ENOMEM, "out of memory for the names of a snapshot's files") : 0;
}

int snapshot_files_copy(struct snapshot_files *f, const char *folder, const char *sub,
                        int (*takes)(const char *name), struct err *err)
{
    struct file_walk w;
    struct stat      st;
    char             from[FILES_PATH], to[FILES_PATH], name[2 * NAME_MAX + 2];
    int              fd;

    snprintf(from, sizeof from, "%s/%s", folder, sub);
    snprintf(to, sizeof to, "%s/%s", f->dir, sub);
    int rc = file_stat(from, &st, err);
    if (rc <= 0 || !S_ISDIR(st.st_mode))
        return rc < 0 ? rc : 0;
    if (file_make_folder(to))
        return err_set(err, -errno, "mkdir %s: %s", to, strerror(errno));
    if ((fd = open(to, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0)
        file_like_writable(fd, from);
    file_close(fd);
    rc = file_walk_begin(&w, from, err);
    while (rc >= 0 && file_walk_next(&w)) {
        if (!takes(w.name) || (rc = file_stat(w.path, &st, err)) <= 0 || !S_ISREG(st.st_mode))
            continue;
        snprintf(name, sizeof name, "%s/%s", sub, w.name);
        rc = snapshot_files_note(f, name, err);
        char *path = rc ? NULL : file_path(err, "%s/%s", f->dir, name);
        rc = path ? file_copy_like(w.path, path, err) : -ENOMEM;
        if (!rc)
            file_forget(path);
        free(path);
    }
    rc = file_walk_end(&w, rc < 0 ? rc : 0, err);
    return rc ? rc : file_sync_dir(to, err);
}

char *snapshot_files_text(struct snapshot_files *f, int times, struct err *err)
{
    char       *out = NULL, *names, *rest, *name;
    size_t      size;
    FILE       *to;
    struct stat st;
    int         bad = fflush(f->list);

    names = rest = bad ? NULL : strdup(f->names);
    if (!names || !(to = open_memstream(&out, &size))) {
        err_set(err, -ENOMEM, "out of memory for the names of a snapshot's files");
        free(names);
        return NULL;
    }
    while ((name = strsep(&rest, "\n")) && *name) {
        char *path = file_path(NULL, "%s/%s", f->dir, name);

        bad |= !path || lstat(path, &st);
        fprintf(to, "%s%" PRIu64 " %s", ftell(to) ? "\n" : "",
                bad     ? 0
                : times ? file_ns(&st.st_mtim)
                        : (uint64_t)st.st_size, name);
        free(path);
    }
    bad |= fclose(to) != 0;
    free(names);
    if (!bad)
        return out;
    free(out);
    err_set(err, -EIO, "%s: the files of the snapshot cannot be listed", f->dir);
    return NULL;
}
