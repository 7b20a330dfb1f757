/* posix.h: what simulated files (posix.c) are for those who test with them. */
#pragma once

#include <errno.h>
#include <string.h>

/* Whether a name is one of simulated storage. */
static inline int simulated(const char *path)
{
    return !strncmp(path, "/sim/", 5) || !strcmp(path, "/sim");
}

/* A result as POSIX gives it. */
static inline int give(int rc)
{
    if (rc >= 0)
        return rc;
    errno = -rc;
    return -1;
}

/* Descriptors of simulated files that are open. */
unsigned posix_open_files(void);

/* From here on the file system shares blocks between files (FICLONE, FICLONERANGE), or does not. */
void posix_share(int shares);

/* The simulated file behind a descriptor, or -1. */
int posix_file(int fd);
