/* together.c: exchanges counts and rows of results among ranks. */
#include "model/together.h"

int together_add(struct comm *comm, uint64_t *a, uint64_t *b, struct err *err)
{
    struct { uint64_t a, b; } own = { *a, b ? *b : 0 }, *all, sum = { 0 };
    int rc;

    if (!comm)
        return 0;
    if (!(all = comm_collect(comm, &own, sizeof own, &rc, err)))
        return rc;
    for (size_t p = 0; p < comm->size; p++) {
        sum.a += all[p].a;
        sum.b += all[p].b;
    }
    free(all);
    *a = sum.a;
    if (b)
        *b = sum.b;
    return 0;
}

int together_gather(struct comm *comm, void *values, size_t bytes, struct err *err)
{
    return comm ? comm_share(comm, (char *)values + comm->rank * bytes, bytes, values, err) : 0;
}
