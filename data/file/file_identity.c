/* file_identity.c: notes which file is at a path, by its inode and its time of birth, and tells
 * whether it is still that one. A new file under an old name is another one. */
#include "data/file/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define UNNUMBERED UINT64_MAX // the inode of a file whose file system numbers it anew

/* vfat and exFAT have no inodes: Linux numbers a file when it is looked up, and forgets the number
 * with its cache. In exFAT a folder also gets another time of birth if a file in it is renamed. */
static void forget_numbers(const char *path, struct statx *x)
{
    struct statfs fs;

    if (statfs(path, &fs) || (fs.f_type != MSDOS_SUPER_MAGIC && fs.f_type != EXFAT_SUPER_MAGIC))
        return;
    x->stx_ino = UNNUMBERED;
    if (fs.f_type == EXFAT_SUPER_MAGIC && S_ISDIR(x->stx_mode))
        x->stx_mask &= ~(unsigned)STATX_BTIME;
}

void file_identity(const char *path, char out[FILE_IDENTITY])
{
    struct statx x;

    *out = '\0';
    if (file_statx(&x, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME))
        return;
    forget_numbers(path, &x);
    if (!(x.stx_mask & STATX_BTIME))
        x.stx_btime.tv_sec = x.stx_btime.tv_nsec = 0;
    snprintf(out, FILE_IDENTITY, "%" PRIu64 " %" PRId64 ".%09u", (uint64_t)x.stx_ino,
             (int64_t)x.stx_btime.tv_sec, x.stx_btime.tv_nsec);
}

void file_folder_identity(const char *dir, char out[FILE_IDENTITY])
{
    char *at = file_real(dir);

    file_identity(at ? at : dir, out);
    free(at);
}

int file_names(const char *path, int fd)
{
    struct stat named, open;

    if (stat(path, &named) || fstat(fd, &open))
        return file_is_absent(errno) ? 0 : -errno;
    return file_same(&named, &open);
}

int file_unseen(const char *path, int rc, struct err *err)
{
    return err_set(err, rc, "%s cannot be read any more: %s; go on with --resume when its drive is "
                   "back", path, strerror(-rc));
}

/* The numbers in a text of file_identity. inode 0: it has none. */
struct known { uint64_t inode; int64_t born; unsigned ns; };

static struct known known_of(const char *identity)
{
    struct known k = { 0 };

    if (sscanf(identity, "%" SCNu64 " %" SCNd64 ".%u", &k.inode, &k.born, &k.ns) != 3)
        return (struct known){ 0 };
    return k;
}

int file_has_births(const char *path, const char *identity)
{
    char text[FILE_IDENTITY];

    file_identity(path, text);
    struct known here = known_of(text), said = known_of(identity);
    return (here.born || here.ns) && (said.born || said.ns);
}

int file_is(const char *path, const char *identity)
{
    char text[FILE_IDENTITY];

    file_identity(path, text);
    struct known here = known_of(text), said = known_of(identity);
    // an older siTrain stored the number
    return here.inode && (here.inode == UNNUMBERED ? said.inode != 0 : here.inode == said.inode) &&
           ((here.born == said.born && here.ns == said.ns) || !file_has_births(path, identity));
}
