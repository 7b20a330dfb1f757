/* disk_file.c: opens, creates, sizes and locks a device's file. A new file is created completely,
 * with every block allocated, or not at all. */
#include "csd/disk/disk_file.h"

#include "csd/disk/disk_beneath.h"
#include "data/file/file.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_create(const struct disk_config *cfg, struct err *err)
{
    int fd = open(cfg->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, -errno, "create %s: %s", cfg->path, strerror(errno));
    file_give_owner(fd, cfg->path);
    int rc = file_set_length(fd, cfg->path, 0, cfg->bytes, err);
    close(fd);
    if (!rc)
        rc = file_sync_parent(cfg->path, err); // makes the name durable, too
    if (rc)
        unlink(cfg->path);
    return rc;
}

/* Behind cfg->keep, gives the file cfg->bytes without holes. Then checks that it is long enough. */
static int file_check(int fd, const struct disk_config *cfg, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st))
        return err_set(err, -errno, "stat %s: %s", cfg->path, strerror(errno));
    int rc = cfg->read_only ? 0 : file_refuse_links(cfg->path, &st, err);
    if (rc)
        return rc;
    uint64_t bytes = (uint64_t)st.st_size;
    if (S_ISREG(st.st_mode) && cfg->keep && bytes >= cfg->keep) {
        int own = file_open_device(cfg->path, O_RDWR); // O_DIRECT off, to allocate
        rc = own < 0 ? file_open_fail(cfg->path, own, err)
                     : file_set_length(own, cfg->path, cfg->keep, cfg->bytes, err);
        file_close(own);
        return rc;
    }
    if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &bytes))
        return err_set(err, -errno, "size of %s: %s", cfg->path, strerror(errno));
    return bytes >= cfg->bytes ? 0
           : err_set(err, -EINVAL, "%s is %" PRIu64 " bytes, this run needs %" PRIu64, cfg->path,
                     bytes, cfg->bytes);
}

int disk_file_open(const struct disk_config *cfg, int flags, struct err *err)
{
    int is_block = file_is_block(cfg->path);
    int made = cfg->create && !is_block, fd, rc = made ? file_create(cfg, err) : 0;

    if (rc)
        return rc;
    flags |= (cfg->read_only ? O_RDONLY : O_RDWR) | (is_block ? O_EXCL : 0);
    rc = fd = file_open_device(cfg->path, flags);
    if (fd == -ENODEV)
        rc = err_set(err, -EINVAL, "%s is neither a file nor a block device", cfg->path);
    else if (fd == -EINVAL && (flags & O_DIRECT))
        rc = err_set(err, -EOPNOTSUPP, "the file system of %s has no O_DIRECT (%s)", cfg->path,
                     strerror(-fd));
    else if (fd < 0)
        file_open_fail(cfg->path, rc, err);
    else if ((rc = file_lock(fd, cfg->read_only))) // two writers would destroy each other's states
        file_lock_fail(rc, cfg->path, ", which has the states there open: wait for it to end, or "
                       "stop it (it may be working on this run, or on a copy of it)", err);
    else
        rc = file_check(fd, cfg, err);
    if (!rc && is_block && !cfg->read_only)
        rc = disk_beneath_check(cfg->path, err);
    if (!rc)
        return fd;
    file_close(fd);
    if (made)
        unlink(cfg->path);
    return rc;
}

void disk_file_undo(const struct disk_config *cfg)
{
    if (cfg->create && !file_is_block(cfg->path))
        unlink(cfg->path);
}

/* ---- what a block device already has ---- */

int disk_check_signature(const char *path, struct err *err)
{
    blkid_probe pr = blkid_new_probe_from_filename(path);
    const char *type = "unknown";
    int         rc = -1;

    if (pr) {
        blkid_probe_enable_partitions(pr, 1);
        rc = blkid_do_safeprobe(pr); // 0 found, 1 nothing, -2 several, -1 failed
    }
    if (rc == 0 && blkid_probe_lookup_value(pr, "TYPE", &type, NULL))
        blkid_probe_lookup_value(pr, "PTTYPE", &type, NULL);
    if (rc == 0)
        rc = err_set(err, -EBUSY,
                     "%s holds data: its signature is %s; --force-device overwrites it", path,
                     type);
    else if (rc == -2)
        rc = err_set(err, -EBUSY,
                     "%s holds data of several signatures; --force-device overwrites it", path);
    else
        rc = rc < 0 ? err_set(err, -EIO, "%s cannot be probed for what it holds", path) : 0;
    blkid_free_probe(pr);
    return rc;
}

int disk_check_idle(const char *path, struct err *err)
{
    int fd = file_open_device(path, O_RDONLY | O_EXCL);
    if (fd == -EBUSY)
        return err_set(err, -EBUSY, "%s is mounted or in use", path);
    if (fd < 0)
        return err_set(err, fd, "open %s: %s", path, strerror(-fd));
    close(fd);
    return disk_beneath_check(path, err);
}
