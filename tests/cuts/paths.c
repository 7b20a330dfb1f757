/* paths.c: see paths.h. A word is random if it has 8 hexadecimal digits or more; so are steps.
 * Which of its two images a snapshot of mode `mem` has is not told apart either: they are written
 * by turns, one a commit, and a run that was cut and goes back commits more often. */
#include "tests/cuts/paths.h"

#include "tests/crash/bytes.h"
#include "tests/crash/names.h"
#include "tests/crash/storage.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 8 };

static void add(struct paths *p, const char *path)
{
    char   plain[PATH_BYTES];
    size_t n = 0;

    while (*path) {
        size_t hex = strspn(path, "0123456789abcdef");
        size_t take = hex >= WORD ? 1 : hex ? hex : 1;

        memcpy(plain + n, hex >= WORD ? "#" : path, take);
        n += take;
        path += hex ? hex : 1;
    }
    plain[n] = '\0';
    if (strstr(plain, "/snapshots/") && !strcmp(strrchr(plain, '/'), "/image1"))
        plain[n - 1] = '0';
    n++;
    p->at = must_alloc(p->at, (p->n + 1) * sizeof *p->at);
    p->at[p->n++] = must_copy(plain, n);
}

static int is_kept_apart(const char *path)
{
    static const char *const ends[] = { "-wal", "-shm", "/run.lock" };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(path), end = strlen(ends[i]);

        if (n > end && !strcmp(path + n - end, ends[i]))
            return 1;
    }
    return 0;
}

void paths_list(struct paths *p, const char *folder)
{
    char        path[PATH_BYTES];
    const char *next;

    for (size_t at = 0; (next = storage_next(folder, &at));) {
        memcpy(path, next, strlen(next) + 1);
        if (!is_kept_apart(path))
            add(p, path);
        if (storage_is_dir(storage_find(path)))
            paths_list(p, path);
    }
}

size_t paths_count(const struct paths *p, const char *path)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        n += !strcmp(p->at[i], path);
    return n;
}

void paths_free(struct paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->at[i]);
    free(p->at);
    *p = (struct paths){ 0 };
}
