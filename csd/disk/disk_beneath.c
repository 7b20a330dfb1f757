/* disk_beneath.c: walks from a block device down to the file or drive that has its bytes. Two
 * devices share bytes if their ranges at the bottom overlap. A device that the device mapper or md
 * makes is a bottom: the kernel keeps the drives beneath it for it alone. */
#include "csd/disk/disk_beneath.h"

#include "data/file/file.h"

#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { SECTOR = 512 }; // of the numbers in /sys, whatever the drive's is

/* Reads the file `name` of block device `dev` in /sys, without its newline. */
static int sys_read(dev_t dev, const char *name, char *out, size_t size)
{
    char  path[128];
    FILE *f = NULL;
    int   there = 0;

    if (snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s", major(dev), minor(dev), name) <
        (int)sizeof path)
        f = fopen(path, "re");
    if (f) {
        there = fgets(out, (int)size, f) != NULL;
        fclose(f);
    }
    if (there)
        out[strcspn(out, "\n")] = '\0';
    return there;
}

static uint64_t sys_number(dev_t dev, const char *name)
{
    char text[32];

    return sys_read(dev, name, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

void disk_node(char *out, size_t size, const char *sys)
{
    const char *slash = strrchr(sys, '/');

    snprintf(out, size, "/dev/%s", slash ? slash + 1 : sys);
    for (char *c = out; (c = strchr(c, '!'));)
        *c = '/';
}

/* Makes *b a device, and finds its node. */
static void at_device(struct disk_bytes *b, dev_t dev)
{
    char        name[64], *at;
    struct stat st;

    b->dev = dev;
    b->inode = 0;
    snprintf(name, sizeof name, "/sys/dev/block/%u:%u", major(dev), minor(dev));
    at = realpath(name, NULL);
    disk_node(b->path, sizeof b->path, at ? at : "");
    free(at);
    if (stat(b->path, &st) || !S_ISBLK(st.st_mode) || st.st_rdev != dev)
        b->path[0] = '\0';
}

/* The same bytes, as part of that which shows `bytes` of it (0: all) from `offset` on. */
static void cut(struct disk_bytes *b, uint64_t offset, uint64_t bytes)
{
    if (bytes && b->end > bytes)
        b->end = bytes;
    b->begin += offset;
    if (b->end != UINT64_MAX)
        b->end += offset;
}

/* From a partition to its drive. */
static int partition_down(struct disk_bytes *b)
{
    char         text[32];
    unsigned int major_of, minor_of;

    if (b->inode || !sys_read(b->dev, "partition", text, sizeof text) ||
        !sys_read(b->dev, "../dev", text, sizeof text) ||
        sscanf(text, "%u:%u", &major_of, &minor_of) != 2)
        return 0;
    cut(b, SECTOR * sys_number(b->dev, "start"), SECTOR * sys_number(b->dev, "size"));
    at_device(b, makedev(major_of, minor_of));
    return 1;
}

/* From a loop device to its file or drive. */
static int loop_down(struct disk_bytes *b)
{
    struct loop_info64 of;
    struct stat        st;
    dev_t              loop = b->dev;
    int fd = *b->path && !b->inode ? file_open_device(b->path, O_RDONLY) : -ENOENT;
    int is = fd >= 0 && !ioctl(fd, LOOP_GET_STATUS64, &of);

    file_close(fd);
    if (!is)
        return 0;
    cut(b, of.lo_offset, of.lo_sizelimit);
    if (of.lo_rdevice && of.lo_rdevice != of.lo_device) { // of a file 0, or lo_device again
        at_device(b, of.lo_rdevice);
        return 1;
    }
    b->dev = of.lo_device;
    b->inode = of.lo_inode;
    if (!sys_read(loop, "loop/backing_file", b->path, sizeof b->path) || stat(b->path, &st) ||
        st.st_dev != b->dev || st.st_ino != b->inode)
        b->path[0] = '\0'; // it was removed, or another process sees it elsewhere
    return 1;
}

int disk_bytes_of(struct disk_bytes *out, const char *path, struct err *err)
{
    struct stat st;

    if (stat(path, &st))
        return err_set(err, -errno, "stat %s: %s", path, strerror(errno));
    *out = (struct disk_bytes){ .end = UINT64_MAX };
    at_device(out, st.st_rdev);
    if (!*out->path)
        snprintf(out->path, sizeof out->path, "%s", path);
    return 0;
}

int disk_bytes_down(struct disk_bytes *b) { return partition_down(b) || loop_down(b); }

/* Refuses what another process has locked, or has open alone. */
static int idle_check(const struct disk_bytes *b, const char *path, struct err *err)
{
    int fd = *b->path ? file_open_device(b->path, O_RDONLY | (b->inode ? 0 : O_EXCL)) : -ENOENT;
    int busy = fd == -EBUSY || (fd >= 0 && file_lock(fd, 1) == -EBUSY);

    file_close(fd);
    return !busy ? 0 : err_set(err, -EBUSY, "%s shows bytes of %s, which is mounted or in use",
                               path, b->path);
}

static int share(const struct disk_bytes *a, const struct disk_bytes *b)
{
    return a->dev == b->dev && a->inode == b->inode && a->begin < b->end && b->begin < a->end;
}

/* Refuses the bytes `here`, which the device `own` or a partition of it shows, if another loop
 * device shows some of them. */
static int loops_check(const struct disk_bytes *here, dev_t own, const char *path, struct err *err)
{
    struct disk_bytes there;
    glob_t            all = { 0 };
    char              at[PATH_MAX];
    int               rc = 0;

    if (glob("/sys/block/loop*/loop", 0, NULL, &all)) // of those that are attached
        return 0;
    for (size_t i = 0; i < all.gl_pathc && !rc; i++) {
        snprintf(at, sizeof at, "/dev/%s", basename(dirname(all.gl_pathv[i])));
        if (disk_bytes_of(&there, at, NULL) || there.dev == own)
            continue;
        while (disk_bytes_down(&there))
            continue;
        if (share(here, &there))
            rc = err_misuse(err, "%s and the loop device %s show the same bytes: detach a loop "
                            "device (losetup -d), or name another device", path, at);
    }
    globfree(&all);
    return rc;
}

int disk_beneath_check(const char *path, struct err *err)
{
    struct disk_bytes here;
    int               rc = disk_bytes_of(&here, path, err);

    if (rc)
        return rc;
    partition_down(&here); // the kernel keeps a drive and its partitions from each other
    dev_t own = here.dev;
    while (!rc && loop_down(&here)) {
        rc = idle_check(&here, path, err);
        partition_down(&here);
    }
    return rc ? rc : loops_check(&here, own, path, err);
}
