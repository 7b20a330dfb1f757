/* snapshot_places.c: names the folders of a run's snapshots, and goes over those that there are. */
#include "run/snapshots/snapshot_places.h"

#include "data/base/round.h"
#include "data/base/utf8.h"
#include "data/db/db.h"
#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "run/folder/run_files.h"

#include <fnmatch.h>

enum { NAME_BYTES = 64 };

static const char own_folder[] = "snapshots";

/* The length of RUN's path: without the end of a rank's. */
static size_t run_length(const struct session *s)
{
    return ranks_first_length(s->dir, s->kept_by ? s->kept_by - 1 : s->ranks.rank);
}

void snapshot_places_ranks(char out[SESSION_PATH], const struct session *s)
{
    snprintf(out, SESSION_PATH, "%.4000s/%s", s->dir, own_folder);
}

void snapshot_places_rank(char out[SESSION_PATH], const struct session *s)
{
    if (!s->kept_by)
        snprintf(out, SESSION_PATH, "%s", s->dir);
    else if (s->ranks.rank)
        snprintf(out, SESSION_PATH, "%.*s.rank%zu", (int)run_length(s), s->dir, s->ranks.rank);
    else
        snprintf(out, SESSION_PATH, "%.*s", (int)run_length(s), s->dir);
}

void snapshot_places_own(char out[SESSION_PATH], const struct session *s)
{
    char run[SESSION_PATH];
    int  apart = s->kept_by || s->o.snapshot_on == TRAIN_SNAPSHOTS_HOSTS;

    snprintf(run, sizeof run, "%.*s", (int)run_length(s), s->dir);
    snprintf(out, SESSION_PATH, "%.4000s/%s", !apart && session_is_run(run) ? run : s->dir,
             own_folder);
}

/* The id of rank 0. */
static void id_of(char id[33], const struct session *s)
{
    memcpy(id, s->id, 33);
    if (s->ranks.size > 1)
        memcpy(id + 4, "0000", 4);
}

void snapshot_places_names(char folder[SESSION_PATH], char name[64], const struct session *s,
                           uint64_t step)
{
    char   id[33];
    size_t n = run_length(s), at = n;

    id_of(id, s);
    while (at > 0 && s->dir[at - 1] != '/')
        at--;
    n = size_min(n - at, NAME_BYTES);
    n -= utf8_unfinished(s->dir + at, n);
    snprintf(folder, SESSION_PATH, "%.*s-%s", (int)n, s->dir + at, id);
    at = (size_t)snprintf(name, 64, "step-%08" PRIu64, step);
    if (s->ranks.rank)
        snprintf(name + at, 64 - at, ".rank%zu", s->ranks.rank);
}

int snapshot_places_fits(const struct session *s, const char *dir, struct err *err)
{
    char folder[SESSION_PATH], name[64];

    snapshot_places_names(folder, name, s, s->o.steps);
    // DIR/NAME-ID/step-N.new-HEX/run.db
    size_t n = strlen(dir) + 1 + strlen(folder) + 1 + strlen(name) + FILE_NEW_TAIL +
               strlen("/" RUN_DB);
    return n <= DB_PATH ? 0 : err_misuse(err, "%s: a snapshot there would have a path of %zu "
                                         "bytes, %d are the most: name a --snapshot-dir with a "
                                         "shorter path", dir, n, DB_PATH);
}

int snapshot_places_check(const struct session *s, struct err *err)
{
    const struct opt_strings *dirs = &s->o.snapshot_dir;
    char                      own[SESSION_PATH];
    int                       rc = 1;

    snapshot_places_own(own, s);
    for (size_t i = 0; i < (dirs->n ? dirs->n : 1) && rc; i++)
        rc = snapshot_places_fits(s, dirs->n ? dirs->item[i] : own, err);
    return rc;
}

int snapshot_places_is_step(const struct session *s, const char *name)
{
    char pattern[64] = "step-+([0-9])"; // of fnmatch, in glibc's notation

    if (s->ranks.rank)
        snprintf(pattern, sizeof pattern, "step-+([0-9]).rank%zu", s->ranks.rank);
    return !fnmatch(pattern, name, FNM_EXTMATCH);
}

int snapshot_places_is_folder(const char *path, size_t n, const char *id)
{
    enum { ID = 32, RANK = 4, RANK_DIGITS = 4 };

    if (n <= ID + 1)
        return 0;
    const char *at = path + n - ID;

    return at[-1] == '-' && strlen(id) == ID && !memcmp(at, id, RANK) &&
           (!memcmp(at + RANK, id + RANK, RANK_DIGITS) ||
            !memcmp(at + RANK, "0000", RANK_DIGITS)) &&
           !memcmp(at + RANK + RANK_DIGITS, id + RANK + RANK_DIGITS, ID - RANK - RANK_DIGITS);
}

/* Calls each(ctx, DIR/NAME-ID) for each of the run's folders in this snapshot directory. */
static int each_folder(const struct session *s, const char *dir, snapshot_places_fn *each,
                       void *ctx)
{
    struct err       why;
    struct file_walk w;
    int              unread = file_walk_begin(&w, dir, &why), rc = 0;

    while (!rc && file_walk_next(&w))
        rc = snapshot_places_is_folder(w.name, strlen(w.name), s->id) ? each(ctx, w.path, 0, NULL)
                                                                      : 0;
    unread = file_walk_end(&w, unread ? unread : rc, &why);
    return rc ? rc : file_is_unread(unread) ? each(ctx, dir, unread, &why) : 0;
}

int snapshot_places_each(const struct session *s, snapshot_places_fn *each, void *ctx)
{
    char own[SESSION_PATH], ranks[SESSION_PATH];

    snapshot_places_own(own, s);
    snapshot_places_ranks(ranks, s);
    int rc = each_folder(s, own, each, ctx);
    if (!rc && strcmp(own, ranks))
        rc = each_folder(s, ranks, each, ctx);
    for (size_t i = 0; i < s->o.snapshot_dir.n && !rc; i++)
        rc = each_folder(s, s->o.snapshot_dir.item[i], each, ctx);
    return rc;
}
