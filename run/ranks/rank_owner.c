/* rank_owner.c: decides which folder of rank 0 the folder of a rank belongs to. Copies of rank 0's
 * folder may reach one folder of a rank by links, and only one of them may write to it. */
#include "run/ranks/rank_owner.h"

#include "data/file/file.h"
#include "offload/layout/ranks.h"
#include "run/folder/moved.h"
#include "run/folder/settings.h"
#include "run/ranks/rank_dir.h"

#include <sys/stat.h>

/* After a call on `path` failed: 0 if nothing is there; else -errno, because nobody could look. */
static int unseen(const char *path, struct err *err)
{
    return file_is_absent(errno) ? 0 : err_set(err, -errno, "%s cannot be looked at: %s", path,
                                               strerror(errno));
}

/* Returns 1 if both paths lead to one folder, 0 if not, or if one of them leads nowhere; -errno if
 * nobody could look. */
static int is_one(const char *a, const char *b, struct err *err)
{
    struct stat st, other;

    if (stat(a, &st))
        return unseen(a, err);
    return stat(b, &other) ? unseen(b, err) : file_same(&st, &other);
}

static int refuse_theirs(const char *dir, const char *theirs, struct err *err)
{
    return err_misuse(err, "%s belongs to %s, and the folder of rank 0 that was given is another "
                      "one: copy the folders of all ranks", dir, theirs);
}

int rank_owner_original(const char *dir, size_t rank, const char *original, struct err *err)
{
    char theirs[SESSION_PATH];

    if (!*original || !rank)
        return 0;
    rank_dir(theirs, original, rank);
    int rc = is_one(theirs, dir, err);
    return rc > 0 ? refuse_theirs(dir, original, err) : rc;
}

int rank_owner_neighbour(const char *dir, size_t rank, const char *id, struct err *err)
{
    char real[SESSION_PATH], given[SESSION_PATH], theirs[SESSION_PATH], other[33];

    if (!rank)
        return 0;
    if (!realpath(dir, real))
        return unseen(dir, err);
    if (!real[ranks_first_length(real, rank)])
        return 0;
    snprintf(given, sizeof given, "%.*s", (int)ranks_first_length(dir, rank), dir);
    snprintf(theirs, sizeof theirs, "%.*s", (int)ranks_first_length(real, rank), real);
    int rc = is_one(theirs, given, err);
    if (rc || !session_may_be_run(theirs))
        return rc < 0 ? rc : 0;
    rank_id_read(other, theirs);
    if (!*other)
        return err_misuse(err, "%s leads to %s, next to which %s is a run that cannot be read, and "
                          "may belong to it: make %s readable, or copy the folders of all ranks",
                          dir, real, theirs, theirs);
    return rank_id_same(other, id) ? refuse_theirs(real, theirs, err) : 0;
}

/* What a rank's folder says of itself, all paths without links. */
struct told {
    char dir[SESSION_PATH];
    char first[MOVED_PLACE]; // rank 0's folder with which it was last opened; "": not known
    int  apart;              // it is a copy, or was moved to another drive
    int  linked;             // a link leads to it
};

int rank_owner_is_link(const char *dir)
{
    struct stat st;

    return lstat(dir, &st) || S_ISLNK(st.st_mode);
}

/* Reads what the folder says, whose path without links is `dir`. */
static int tell(struct told *t, struct runlog *log, const char *dir, int linked, struct err *err)
{
    char *place, *first = NULL;
    int   rc = settings_find(&place, log, err, "place");

    rc = rc ? rc : settings_find(&first, log, err, RANK_OWNER_FIRST);
    snprintf(t->dir, sizeof t->dir, "%s", dir);
    snprintf(t->first, sizeof t->first, "%s", first ? first : "");
    t->apart = !rc && !(place && file_is(dir, place));
    t->linked = linked;
    free(place);
    free(first);
    return rc;
}

/* Refuses a rank's folder that was last opened with another folder of rank 0 than `first`. Nobody
 * else uses a copy that lies there; but one to which a link leads may have been moved only. */
static int first_check(const struct told *t, const char *first, size_t rank, struct err *err)
{
    const char *dir = t->dir, *theirs = moved_path(t->first);
    char        beside[SESSION_PATH];

    if ((t->apart && !t->linked) || !moved_is_other(first, t->first))
        return 0;
    rank_dir(beside, first, rank);
    if (file_is(theirs, t->first))
        return refuse_theirs(dir, theirs, err);
    return err_misuse(err, "%s belongs to another folder of rank 0, which was %s and is not there "
                      "any more; if that folder was renamed, %s is a copy of it, and needs a copy "
                      "of %s at %s (cp -a) that is no link; if it is lost, move %s to %s, and the "
                      "other ranks' folders with it", dir, theirs, first, dir, beside, first,
                      theirs);
}

int rank_owner_check(const struct session *first, const char *dir, size_t rank, struct err *err)
{
    char           original[SESSION_PATH], *real = realpath(dir, NULL);
    struct told    told = { .first = "" };
    struct runlog *log = NULL;
    struct err     why;
    int            rc = real ? 0 : unseen(dir, err);

    rc = rc ? rc : rank_owner_neighbour(dir, rank, first->id, err);
    rc = rc ? rc : moved_original(original, first->log, first->dir, err);
    rc = rc ? rc : rank_owner_original(dir, rank, original, err);
    int shut = rc || !real ? -ENOENT : runlog_open_in(&log, real, 1, &why);

    if (!shut)
        rc = tell(&told, log, real, rank_owner_is_link(dir), err);
    else if (!rc && file_is_unread(shut)) { // otherwise opening the run says why
        *err = why;
        rc = shut;
    }
    rc = rc ? rc : first_check(&told, first->dir, rank, err);
    runlog_close(log);
    free(real);
    return rc;
}

int rank_owner_gone(const struct session *s, struct err *err)
{
    struct told told;
    int         rc = tell(&told, s->log, s->dir, s->linked, err);

    const char *first = moved_path(told.first);
    if (!rc && first && file_is(first, told.first) && session_may_be_run(first) &&
        (!told.apart || told.linked))
        rc = refuse_theirs(told.dir, first, err);
    return rc;
}

int rank_owner_join(struct session *s, struct comm *comm, struct err *err)
{
    struct told own, *all;
    char        here[MOVED_PLACE];
    int         rc = tell(&own, s->log, s->dir, s->linked, err);

    if (rc)
        return rc;
    if (!comm->rank)
        moved_place(own.first, s->dir);
    if (!(all = comm_collect(comm, &own, sizeof own, &rc, err)))
        return rc;
    for (size_t p = 1; p < comm->size && !comm->rank && !rc; p++)
        rc = first_check(&all[p], s->dir, p, err);
    snprintf(here, sizeof here, "%s", all[0].first);
    free(all);
    rc = rc ? rc : comm_share(comm, NULL, 0, NULL, err); // rank 0 has seen all
    return rc || !comm->rank || !strcmp(here, own.first)
               ? rc
               : runlog_set(s->log, RANK_OWNER_FIRST, here, err);
}
