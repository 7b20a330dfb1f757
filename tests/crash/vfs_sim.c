/* vfs_sim.c: the VFS. It does what SQLite's own for unix does where that matters for a cut: xSync
 * is a flush of that file, the first of a new log syncs its folder too; deleting syncs the folder
 * only if asked to. Locks are granted: one process at a time, one connection each (run.lock sees to
 * that). Shared memory is memory: it goes with the process. */
#include "tests/crash/vfs_sim.h"

#include "kernels/rng.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"

#include <assert.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGIONS = 16, PATH_BYTES = 96 };

struct sim_file {
    sqlite3_file base; // first
    int          file, new_name;
    char         path[PATH_BYTES];
    void        *regions[REGIONS]; // of the shared memory
};

static uint64_t random_seed, randoms, times;

static struct sim_file *of(sqlite3_file *f)
{
    return (struct sim_file *)f;
}

static void folder_of(char out[PATH_BYTES], const char *path)
{
    snprintf(out, PATH_BYTES, "%.*s", (int)(strrchr(path, '/') - path), path);
}

/* ---- a file ---- */

static int sim_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

static int sim_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 off)
{
    size_t got;

    if (power_is_cut())
        return SQLITE_IOERR_READ;
    got = storage_read(of(f)->file, buf, (size_t)n, (uint64_t)off);
    memset((char *)buf + got, 0, (size_t)n - got);
    return got == (size_t)n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int sim_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 off)
{
    return storage_write(of(f)->file, buf, (size_t)n, (uint64_t)off) ? SQLITE_IOERR_WRITE
                                                                     : SQLITE_OK;
}

static int sim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return storage_resize(of(f)->file, (uint64_t)size) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int sim_sync(sqlite3_file *f, int flags)
{
    char folder[PATH_BYTES];

    (void)flags;
    if (storage_sync(of(f)->file))
        return SQLITE_IOERR_FSYNC;
    folder_of(folder, of(f)->path);
    if (of(f)->new_name && storage_sync_folder(folder))
        return SQLITE_IOERR_DIR_FSYNC;
    of(f)->new_name = 0;
    return SQLITE_OK;
}

static int sim_size(sqlite3_file *f, sqlite3_int64 *size)
{
    *size = (sqlite3_int64)storage_size(of(f)->file);
    return power_is_cut() ? SQLITE_IOERR_FSTAT : SQLITE_OK;
}

static int sim_lock(sqlite3_file *f, int level)
{
    (void)f, (void)level;
    return SQLITE_OK;
}

static int sim_reserved(sqlite3_file *f, int *held)
{
    (void)f;
    *held = 0;
    return SQLITE_OK;
}

static int sim_control(sqlite3_file *f, int op, void *arg)
{
    (void)f, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int sim_sector(sqlite3_file *f)
{
    (void)f;
    return 4096;
}

static int sim_characteristics(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int sim_shm_map(sqlite3_file *f, int region, int bytes, int extend, void volatile **out)
{
    void **at = &of(f)->regions[region];

    assert(region < REGIONS);
    if (!*at && extend)
        *at = calloc(1, (size_t)bytes);
    *out = *at;
    return extend && !*at ? SQLITE_NOMEM : SQLITE_OK;
}

static int sim_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    (void)f, (void)offset, (void)n, (void)flags;
    return SQLITE_OK;
}

static void sim_shm_barrier(sqlite3_file *f)
{
    (void)f;
}

static int sim_shm_unmap(sqlite3_file *f, int delete)
{
    (void)delete;
    for (int i = 0; i < REGIONS; i++) {
        free(of(f)->regions[i]);
        of(f)->regions[i] = NULL;
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = sim_close,
    .xRead = sim_read,
    .xWrite = sim_write,
    .xTruncate = sim_truncate,
    .xSync = sim_sync,
    .xFileSize = sim_size,
    .xLock = sim_lock,
    .xUnlock = sim_lock,
    .xCheckReservedLock = sim_reserved,
    .xFileControl = sim_control,
    .xSectorSize = sim_sector,
    .xDeviceCharacteristics = sim_characteristics,
    .xShmMap = sim_shm_map,
    .xShmLock = sim_shm_lock,
    .xShmBarrier = sim_shm_barrier,
    .xShmUnmap = sim_shm_unmap,
};

/* ---- the file system ---- */

static int sim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    struct sim_file *s = of(f);
    int              logs = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;

    (void)vfs;
    memset(s, 0, sizeof *s);
    assert(path && strncmp(path, "/sim/", 5) == 0 && strlen(path) < sizeof s->path); // no temporary
                                                                                     // files
    s->file = storage_find(path);
    if (s->file == -ENOENT && (flags & SQLITE_OPEN_CREATE)) {
        s->file = storage_create(path, 0);
        s->new_name = (flags & logs) != 0;
    }
    if (s->file < 0)
        return s->file == -ENOENT ? SQLITE_CANTOPEN : SQLITE_IOERR;
    strcpy(s->path, path);
    s->base.pMethods = &methods;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int sim_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    char folder[PATH_BYTES];
    int  rc = storage_unlink(path);

    (void)vfs;
    if (rc)
        return rc == -ENOENT ? SQLITE_IOERR_DELETE_NOENT : SQLITE_IOERR_DELETE;
    folder_of(folder, path);
    return sync && storage_sync_folder(folder) ? SQLITE_IOERR_DIR_FSYNC : SQLITE_OK;
}

static int sim_access(sqlite3_vfs *vfs, const char *path, int flags, int *there)
{
    int file = storage_find(path);

    (void)vfs;
    *there = file >= 0 && (flags != SQLITE_ACCESS_EXISTS || storage_size(file) > 0);
    return file == -EIO ? SQLITE_IOERR_ACCESS : SQLITE_OK;
}

static int sim_full_path(sqlite3_vfs *vfs, const char *path, int n, char *out)
{
    (void)vfs;
    snprintf(out, (size_t)n, "%s", path);
    return SQLITE_OK;
}

static int sim_randomness(sqlite3_vfs *vfs, int n, char *out)
{
    (void)vfs;
    for (int i = 0; i < n; i++)
        out[i] = (char)rng_bits(random_seed, 79, randoms++);
    return n;
}

static int sim_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int sim_time(sqlite3_vfs *vfs, sqlite3_int64 *ms)
{
    (void)vfs;
    *ms = 212000000000000 + (sqlite3_int64)++times;
    return SQLITE_OK;
}

static int sim_time_double(sqlite3_vfs *vfs, double *days)
{
    (void)vfs;
    *days = 2453736.5;
    return SQLITE_OK;
}

static int sim_last_error(sqlite3_vfs *vfs, int n, char *text)
{
    (void)vfs, (void)n, (void)text;
    return 0;
}

void vfs_sim_register(void)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .szOsFile = sizeof(struct sim_file),
        .mxPathname = PATH_BYTES,
        .zName = "sim",
        .xOpen = sim_open,
        .xDelete = sim_delete,
        .xAccess = sim_access,
        .xFullPathname = sim_full_path,
        .xRandomness = sim_randomness,
        .xSleep = sim_sleep,
        .xCurrentTime = sim_time_double,
        .xGetLastError = sim_last_error,
        .xCurrentTimeInt64 = sim_time,
    };
    static sqlite3_vfs alone; // asked for by who has the database to himself
    int                rc;

    alone = vfs;
    alone.zName = "unix-none";
    rc = sqlite3_vfs_register(&vfs, 1);
    assert(rc == SQLITE_OK);
    rc = sqlite3_vfs_register(&alone, 0);
    assert(rc == SQLITE_OK);
}

void vfs_sim_restart(uint64_t seed)
{
    random_seed = seed;
    randoms = times = 0;
    sqlite3_randomness(0, NULL);
}
