/* tempdir.c: folders for tests. */
#include "tests/tempdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tempdir_new(void)
{
    char *path = strdup("/tmp/sitrain-test-XXXXXX");

    if (!path || !mkdtemp(path)) {
        perror("mkdtemp");
        abort();
    }
    return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st, (void)kind, (void)walk;
    return remove(path);
}

void tempdir_remove(char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}
