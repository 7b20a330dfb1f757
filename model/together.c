/* together.c: exchanges counts and rows of results among ranks. */
#include "model/together.h"

int together_add(struct comm *comm, uint64_t *a, uint64_t *b, struct err *err)
{
    struct { uint64_t a, b; } own = { *a, *b }, *all;

    if (!comm)
        return 0;
    all = calloc(comm->size, sizeof *all);
    if (!all)
        return err_set(err, -ENOMEM, "out of memory");
    int rc = comm_share(comm, &own, sizeof own, all, err);
    *a = *b = 0;
    for (size_t p = 0; p < comm->size && !rc; p++) {
        *a += all[p].a;
        *b += all[p].b;
    }
    free(all);
    return rc;
}

int together_gather(struct comm *comm, void *values, size_t bytes, struct err *err)
{
    return comm ? comm_share(comm, (char *)values + comm->rank * bytes, bytes, values, err) : 0;
}
