/* tempdir.c: folders for tests. */
#include "tests/tempdir.h"

#include "data/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tempdir;

static void give_up(const char *doing)
{
    perror(doing);
    abort();
}

char *tempdir_new(void)
{
    char *path = strdup("/var/tmp/sitrain-test-XXXXXX");

    if (!path || !mkdtemp(path))
        give_up("mkdtemp");
    return path;
}

void tempdir_remove(char *path)
{
    file_remove_tree(path);
    free(path);
}

int tempdir_set_up(void **state)
{
    (void)state;
    tempdir = tempdir_new();
    return 0;
}

int tempdir_tear_down(void **state)
{
    (void)state;
    tempdir_remove(tempdir);
    return 0;
}

const char *tempdir_at(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", tempdir, name);
    return path;
}

void tempdir_put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(tempdir_at(name), "wb");

    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
        give_up(name);
}
