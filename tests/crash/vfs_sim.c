/* vfs_sim.c: the VFS. It does what SQLite's own for unix does where that matters for a cut: xSync
 * is a flush of that file, the first of a new log syncs its folder too; deleting syncs the folder
 * only if asked to. Two processes may have one database open: its locks are SQLite's own, and so is
 * the memory that they share, which goes with the last of them. */
#include "tests/crash/vfs_sim.h"

#include "kernels/rng.h"
#include "tests/crash/names.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"

#include <assert.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGIONS = 16, DATABASES = 16 };

/* What those who have a database open share: by the file, not by its name. */
struct shared {
    int         file, users, mapped, readers;
    const void *reserved, *pending, *exclusive;  // who has it
    void       *regions[REGIONS];                // of the memory
    int         shm_readers[SQLITE_SHM_NLOCK];
    const void *shm_writer[SQLITE_SHM_NLOCK];
};

static struct shared databases[DATABASES];

struct sim_file {
    sqlite3_file   base; // first
    int            file, new_name, level, mapped;
    char           path[PATH_BYTES];
    struct shared *shared; // NULL: no database, or one that is opened by one process alone
    unsigned       shm_reads;
};

static uint64_t random_seed, randoms, times;

static struct sim_file *of(sqlite3_file *f)
{
    return (struct sim_file *)f;
}

/* ---- a file ---- */

/* The one of this file; the first who opens it finds nothing in it. */
static struct shared *shared_open(int file)
{
    struct shared *free_one = NULL;

    for (int i = 0; i < DATABASES; i++) {
        if (databases[i].users && databases[i].file == file) {
            databases[i].users++;
            return &databases[i];
        }
        if (!databases[i].users)
            free_one = &databases[i];
    }
    assert(free_one);
    *free_one = (struct shared){ .file = file, .users = 1 };
    return free_one;
}

static int sim_unlock(sqlite3_file *f, int level);
static int sim_shm_unmap(sqlite3_file *f, int delete);

static int sim_close(sqlite3_file *f)
{
    if (of(f)->shared) {
        sim_unlock(f, SQLITE_LOCK_NONE);
        sim_shm_unmap(f, 0);
        of(f)->shared->users--;
    }
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
    names_parent(folder, of(f)->path);
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

/* Has somebody else what `who` says? */
static int others(const void *who, const sqlite3_file *f) { return who && who != f; }

static int sim_lock(sqlite3_file *f, int level)
{
    struct sim_file *s = of(f);
    struct shared   *d = s->shared;

    if (!d || level <= s->level)
        return SQLITE_OK;
    if (level == SQLITE_LOCK_SHARED) {
        if (others(d->pending, f) || others(d->exclusive, f))
            return SQLITE_BUSY;
        d->readers++;
    } else if (level == SQLITE_LOCK_RESERVED) {
        if (others(d->reserved, f))
            return SQLITE_BUSY;
        d->reserved = f;
    } else {
        if (others(d->reserved, f) || others(d->pending, f))
            return SQLITE_BUSY;
        d->pending = f;
        if (d->readers > 1)
            return SQLITE_BUSY;
        d->exclusive = f;
    }
    s->level = level;
    return SQLITE_OK;
}

static int sim_unlock(sqlite3_file *f, int level)
{
    struct sim_file *s = of(f);
    struct shared   *d = s->shared;

    if (!d)
        return SQLITE_OK;
    const void **held[] = { &d->reserved, &d->pending, &d->exclusive };
    for (int i = 0; i < 3; i++)
        if (*held[i] == f)
            *held[i] = NULL;
    if (level == SQLITE_LOCK_NONE && s->level >= SQLITE_LOCK_SHARED)
        d->readers--;
    s->level = s->level < level ? s->level : level;
    return SQLITE_OK;
}

static int sim_reserved(sqlite3_file *f, int *held)
{
    *held = of(f)->shared && of(f)->shared->reserved;
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
    struct shared *d = of(f)->shared;
    void         **at = d ? &d->regions[region] : NULL;

    assert(at && region < REGIONS);
    d->mapped += !of(f)->mapped;
    of(f)->mapped = 1;
    if (!*at && extend)
        *at = calloc(1, (size_t)bytes);
    *out = *at;
    return extend && !*at ? SQLITE_NOMEM : SQLITE_OK;
}

/* One of them. Of those that are shared the bits say which are this one's. */
static int shm_lock_one(sqlite3_file *f, int i, int flags)
{
    struct shared *d = of(f)->shared;
    unsigned       bit = 1u << i;
    int            mine = (of(f)->shm_reads & bit) != 0;

    if (flags & SQLITE_SHM_UNLOCK) {
        if (d->shm_writer[i] == f)
            d->shm_writer[i] = NULL;
        d->shm_readers[i] -= mine && (flags & SQLITE_SHM_SHARED);
        of(f)->shm_reads &= flags & SQLITE_SHM_SHARED ? ~bit : UINT32_MAX;
        return SQLITE_OK;
    }
    if (others(d->shm_writer[i], f) ||
        ((flags & SQLITE_SHM_EXCLUSIVE) && d->shm_readers[i] > mine))
        return SQLITE_BUSY;
    if (flags & SQLITE_SHM_EXCLUSIVE)
        d->shm_writer[i] = f;
    else if (!mine) {
        d->shm_readers[i]++;
        of(f)->shm_reads |= bit;
    }
    return SQLITE_OK;
}

static int sim_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    int rc = SQLITE_OK, i = offset;

    for (; i < offset + n && rc == SQLITE_OK; i++)
        rc = shm_lock_one(f, i, flags);
    if (rc) // all of them or none
        for (i -= 2; i >= offset; i--)
            shm_lock_one(f, i, (flags & ~SQLITE_SHM_LOCK) | SQLITE_SHM_UNLOCK);
    return rc;
}

static void sim_shm_barrier(sqlite3_file *f)
{
    (void)f;
}

static int sim_shm_unmap(sqlite3_file *f, int delete)
{
    struct shared *d = of(f)->shared;

    (void)delete;
    for (int i = 0; d && i < SQLITE_SHM_NLOCK; i++) {
        shm_lock_one(f, i, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
        shm_lock_one(f, i, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    }
    if (!d || !of(f)->mapped)
        return SQLITE_OK;
    of(f)->mapped = 0;
    d->mapped--;
    for (int i = 0; !d->mapped && i < REGIONS; i++) {
        free(d->regions[i]);
        d->regions[i] = NULL;
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
    .xUnlock = sim_unlock,
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
    if ((flags & SQLITE_OPEN_MAIN_DB) && !strcmp(vfs->zName, "sim"))
        s->shared = shared_open(s->file);
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
    names_parent(folder, path);
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
