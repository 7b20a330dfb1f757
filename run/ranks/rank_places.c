/* rank_places.c: compares the places of all ranks' devices before anything is made there. */
#include "run/ranks/rank_places.h"

#include "data/base/hash.h"
#include "data/base/round.h"
#include "data/file/file.h"
#include "offload/devices/devices_place.h"

#include <errno.h>
#include <sys/stat.h>

/* Finds the folder in which a file of this name would be made. */
static int folder_of(struct stat *st, const char *path)
{
    char *folder = NULL;
    int   found = !devices_folder(&folder, path, NULL) && folder && !stat(folder, st);

    free(folder);
    return found;
}

/* The place of one device: a file, the name of a new file in its folder, or a drive. 0: a folder,
 * which holds any number, or nobody could look. Places on two hosts are not compared. */
static uint64_t place_of(const char *path, size_t host)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat st;
    uint64_t    at[5] = { 0 };

    if (!stat(path, &st))
        name = "";
    else if (!file_is_absent(errno) || !folder_of(&st, path))
        return 0;
    if (S_ISDIR(st.st_mode) && !*name)
        return 0;
    if (S_ISBLK(st.st_mode)) { // which may have several names
        at[0] = 1;
        at[1] = (uint64_t)st.st_rdev;
    } else {
        at[1] = (uint64_t)st.st_dev;
        at[2] = (uint64_t)st.st_ino;
    }
    at[3] = hash_bytes(name, strlen(name));
    at[4] = host;
    return hash_bytes(at, sizeof at);
}

/* Sets *most to the largest n of any rank. */
static int most_of(size_t *most, struct comm *comm, size_t n, struct err *err)
{
    int     rc;
    size_t *all = comm_collect(comm, &n, sizeof n, &rc, err);

    *most = 0;
    for (size_t p = 0; all && p < comm->size; p++)
        *most = size_max(*most, all[p]);
    free(all);
    return rc;
}

/* The first place in all, (n), that an earlier one is, too; n: there is none. *of: the earlier. */
static size_t twice(const uint64_t *all, size_t n, size_t *of)
{
    for (size_t i = 0; i < n; i++)
        for (*of = 0; *of < i; ++*of)
            if (all[i] && all[i] == all[*of])
                return i;
    return n;
}

/* All ranks refuse the path of rank p's device i, which is rank q's, too. */
static int refuse(struct comm *comm, const char *const *paths, size_t p, size_t i, size_t q,
                  struct err *err)
{
    enum { CUT = 512 };
    char path[CUT] = "";
    int  rc;

    if (comm->rank == p)
        snprintf(path, CUT, "%s", paths[i]);
    char (*all)[CUT] = comm_collect(comm, path, CUT, &rc, err);
    if (all)
        rc = err_misuse(err, "--device: %s would be a device of rank %zu and of rank %zu, and a "
                        "file or a drive holds one device: name a folder, or give each rank its "
                        "own place (mpirun -n 1 siTrain ... : -n 1 siTrain ...)", all[p], q, p);
    free(all);
    return rc;
}

int rank_places_check(struct comm *comm, const char *const *paths, size_t n, struct err *err)
{
    size_t    most, of;
    uint64_t *own, *all = NULL;
    int       rc = comm ? most_of(&most, comm, n, err) : 0;

    if (rc || !comm || !most)
        return rc;
    if (!(own = calloc(most, sizeof *own)))
        return err_set(err, -ENOMEM, "out of memory for %zu places", most);
    for (size_t i = 0; i < n; i++)
        own[i] = place_of(paths[i], comm_host(comm, comm->rank));
    all = comm_collect(comm, own, most * sizeof *own, &rc, err);
    if (all) {
        size_t at = twice(all, comm->size * most, &of);

        rc = at < comm->size * most
                 ? refuse(comm, paths, at / most, at % most, of / most, err)
                 : 0;
    }
    free(own);
    free(all);
    return rc;
}
