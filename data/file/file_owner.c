/* file_owner.c: gives the files and folders that root makes to their user. Makes folders. */
#include "data/file/file.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

void file_give_owner_of(int fd, const char *of)
{
    struct stat to;

    if (!geteuid() && !stat(of, &to) && to.st_uid && fchown(fd, to.st_uid, to.st_gid))
        errno = 0; // it stays root's
}

void file_give_owner(int fd, const char *path)
{
    struct stat st;
    char       *copy = geteuid() ? NULL : strdup(path);

    if (copy && !fstat(fd, &st) && !st.st_uid)
        file_give_owner_of(fd, dirname(copy));
    free(copy);
}

int file_make_folder(const char *path)
{
    int rc = mkdir(path, 0777), fd = -1;

    if (!rc && !geteuid() && (fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) >= 0) {
        file_give_owner(fd, path);
        close(fd);
    }
    return rc;
}
