/* rank_dir.c: finds the folders of a run's ranks, and whether two are of one run. */
#include "run/ranks/rank_dir.h"

#include "data/file/file.h"

#include <sys/stat.h>

/* The length of `run` without trailing slashes and "/.". */
static size_t plain_length(const char *run)
{
    size_t n = strlen(run);

    while (n > 1 && (run[n - 1] == '/' || (run[n - 1] == '.' && run[n - 2] == '/')))
        n--;
    return n;
}

int rank_dir_real(char out[SESSION_PATH], const char *run)
{
    char   around[SESSION_PATH];
    size_t n = plain_length(run), name = n;

    if (realpath(run, out))
        return 1;
    while (name > 0 && run[name - 1] != '/')
        name--;
    snprintf(around, sizeof around, "%.*s", name ? (int)name : 1, name ? run : ".");
    if (!realpath(around, out))
        return 0;
    size_t len = strlen(out);
    return snprintf(out + len, SESSION_PATH - len, "%s%.*s", len > 1 ? "/" : "", (int)(n - name),
                    run + name) < (int)(SESSION_PATH - len);
}

void rank_dir(char out[SESSION_PATH], const char *run, size_t rank)
{
    int  n = (int)plain_length(run);
    char real[SESSION_PATH], beside[SESSION_PATH];

    snprintf(out, SESSION_PATH, rank ? "%.*s.rank%zu" : "%.*s", n, run, rank);
    if (!rank || !rank_dir_real(real, run))
        return;
    // an older version put the folder next to a link
    if (snprintf(beside, sizeof beside, "%s.rank%zu", real, rank) < (int)sizeof beside &&
        (file_may_be(beside) || !file_may_be(out)))
        memcpy(out, beside, sizeof beside);
}

int rank_dir_find(char out[SESSION_PATH], const char *run, size_t rank, struct err *err)
{
    char        other[SESSION_PATH];
    struct stat own, st;

    rank_dir(out, run, rank);
    for (size_t i = 0; i < rank && !stat(out, &own); i++) {
        rank_dir(other, run, i);
        if (!stat(other, &st) && file_same(&own, &st))
            return err_misuse(err, "%s leads to %s, the folder of rank %zu: put the folder of rank "
                              "%zu in its place", out, other, i, rank);
    }
    return 0;
}

void rank_id_of(char id[33], const char *job, size_t rank)
{
    char text[33];

    snprintf(text, sizeof text, "%.4s%04zx%s", job, rank & 0xffff, job + 8);
    memcpy(id, text, sizeof text);
}

int rank_id_same(const char *a, const char *b)
{
    return !memcmp(a, b, 4) && !strcmp(a + 8, b + 8);
}

void rank_id_read(char id[33], const char *dir)
{
    struct runlog *log = NULL;
    struct err     why;

    if (runlog_open_in(&log, dir, 1, &why) || runlog_get(log, "id", id, 33, &why))
        *id = '\0';
    runlog_close(log);
}
