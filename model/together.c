/* together.c: counts, and rows of results. */
#include "model/together.h"

#include "data/base/round.h"

#include <math.h>

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

int together_gather(struct comm *comm, void *values, size_t n, size_t row_bytes, size_t rows,
                    struct err *err)
{
    struct comm_request r = { 0 };

    if (!comm)
        return 0;
    size_t *at = calloc(comm->size + 1, sizeof *at);
    if (!at)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t p = 0; p <= comm->size; p++)
        at[p] = size_min(p * n, rows) * row_bytes;
    int rc = comm_gather(comm, COMM_SHARES, values, at, &r, err);
    rc = rc ? rc : comm_wait(comm, &r, INFINITY, err);
    if (rc)
        comm_give_up(comm, &r);
    free(at);
    return rc;
}
