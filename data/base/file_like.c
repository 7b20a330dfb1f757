/* file_like.c: gives a new file or folder what the old one allowed: its mode, its owner, its access
 * control lists. Whoever could not look into the old one cannot look into the new one. */
#include "data/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { ACL_BYTES = 4096 }; // 511 entries

static const char *const lists[] = { "system.posix_acl_access", "system.posix_acl_default" };

/* Gives a folder or file the same access control list. A list that it got only from the folder
 * around it is removed. 1: both have the same. */
static int like_list(int fd, const char *old, const char *list)
{
    char    text[ACL_BYTES];
    ssize_t n = lgetxattr(old, list, text, sizeof text);

    if (n > 0)
        return !fsetxattr(fd, list, text, (size_t)n, 0);
    return (n == 0 || errno == ENODATA || errno == EOPNOTSUPP) &&
           (!fremovexattr(fd, list) || errno == ENODATA || errno == EOPNOTSUPP);
}

void file_like_at(const char *path, const char *old)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    file_like(fd, old);
    close(fd);
}

/* If the group or the lists cannot be kept, the new one gets no more rights than everybody has.
 * (With a list, the mode's rights of the group are the list's mask.) */
void file_like(int fd, const char *old)
{
    struct stat was, st;

    if (lstat(old, &was))
        return;
    int    folder = S_ISDIR(was.st_mode) != 0;
    mode_t mode = was.st_mode & (folder ? 03777 : 0777);
    int    stays = !fchown(fd, was.st_uid, was.st_gid) || !fchown(fd, -1u, was.st_gid);

    stays |= !fstat(fd, &st) && st.st_gid == was.st_gid;
    for (int i = 0; i <= folder; i++)
        stays &= like_list(fd, old, lists[i]);
    if (!stays)
        mode = (mode & 01707) | (mode & 07) << 3;
    if (fchmod(fd, mode)) // on a file system without modes
        return;
}
