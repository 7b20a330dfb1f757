/* posix_dir.c: as posix.c, the calls that read folders and ask whose a file is; and getrandom,
 * whose numbers are the seed's. A file's time of birth is its number. */
#include "tests/crash/bytes.h"
#include "tests/crash/names.h"
#include "tests/crash/posix.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/crash/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 16 };

/* The folders that are being read; a DIR * of ours points to one of them. */
static struct folder {
    int           used, file;
    char        **names; // when it was opened, or rewound
    size_t        n, at;
    struct dirent entry;
} folders[FOLDERS];

DIR           *__real_opendir(const char *path);
struct dirent *__real_readdir(DIR *d);
void           __real_rewinddir(DIR *d);
int            __real_closedir(DIR *d);
int            __real_statx(int at, const char *path, int flags, unsigned mask, struct statx *x);
int            __real_remove(const char *path);
DIR           *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *d);
void           __wrap_rewinddir(DIR *d);
int            __wrap_closedir(DIR *d);
int            __wrap_statx(int at, const char *path, int flags, unsigned mask, struct statx *x);
int            __wrap_remove(const char *path);
ssize_t        __wrap_getrandom(void *out, size_t n, unsigned flags);

static struct folder *folder_of(DIR *d)
{
    for (size_t i = 0; i < FOLDERS; i++)
        if ((DIR *)&folders[i] == d)
            return &folders[i];
    return NULL;
}

static void folder_forget(struct folder *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->names[i]);
    free(f->names);
    f->names = NULL;
    f->n = f->at = 0;
}

static void folder_read(struct folder *f)
{
    char        dir[PATH_BYTES];
    const char *path;

    snprintf(dir, sizeof dir, "%s", storage_path(f->file));
    folder_forget(f);
    for (size_t at = 0; (path = storage_next(dir, &at));) {
        f->names = must_alloc(f->names, (f->n + 1) * sizeof *f->names);
        f->names[f->n++] = must_copy(strrchr(path, '/') + 1, strlen(strrchr(path, '/')));
    }
}

DIR *__wrap_opendir(const char *path)
{
    struct folder *f = folders;
    int            file;

    if (!simulated(path))
        return __real_opendir(path);
    threads_yield();
    file = storage_find(path);
    if (file < 0 || !storage_is_dir(file)) {
        give(file < 0 ? file : -ENOTDIR);
        return NULL;
    }
    while (f->used)
        if (++f == folders + FOLDERS)
            abort();
    *f = (struct folder){ .used = 1, .file = file };
    folder_read(f);
    return (DIR *)f;
}

struct dirent *__wrap_readdir(DIR *d)
{
    struct folder *f = folder_of(d);

    if (!f)
        return __real_readdir(d);
    if (power_is_cut())
        errno = EIO;
    if (power_is_cut() || f->at == f->n)
        return NULL;
    snprintf(f->entry.d_name, sizeof f->entry.d_name, "%s", f->names[f->at++]);
    return &f->entry;
}

void __wrap_rewinddir(DIR *d)
{
    struct folder *f = folder_of(d);

    if (f)
        folder_read(f);
    else
        __real_rewinddir(d);
}

int __wrap_closedir(DIR *d)
{
    struct folder *f = folder_of(d);

    if (!f)
        return __real_closedir(d);
    folder_forget(f);
    f->used = 0;
    return 0;
}

int __wrap_statx(int at, const char *path, int flags, unsigned mask, struct statx *x)
{
    struct stat st;

    if (!simulated(path))
        return __real_statx(at, path, flags, mask, x);
    if (lstat(path, &st))
        return -1;
    memset(x, 0, sizeof *x);
    x->stx_mask = STATX_BASIC_STATS | STATX_BTIME;
    x->stx_attributes_mask = STATX_ATTR_MOUNT_ROOT;
    x->stx_mode = (uint16_t)st.st_mode;
    x->stx_ino = st.st_ino;
    x->stx_btime.tv_sec = (int64_t)st.st_ino;
    return 0;
}

int __wrap_remove(const char *path)
{
    int file;

    if (!simulated(path))
        return __real_remove(path);
    file = storage_find(path);
    return give(file < 0                 ? file
                : storage_is_dir(file) ? storage_remove_folder(path)
                                       : storage_unlink(path));
}

ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)out)[i] = (unsigned char)threads_roll(256);
    return (ssize_t)n;
}
