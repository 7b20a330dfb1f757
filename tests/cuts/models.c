/* models.c: see models.h. */
#include "tests/cuts/models.h"

#include "data/tensors/safetensors.h"
#include "tests/crash/names.h"
#include "tests/crash/storage.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int add(struct models *out, uint64_t step, const char *folder, struct err *err)
{
    struct safetensors *st = NULL;
    struct model        m = { .step = step };
    int                 rc = safetensors_open(&st, folder, err);

    rc = rc ? rc : safetensors_verify(st, NULL, err);
    m.sum = rc ? 0 : st->sum;
    if (!rc && !st->summed)
        rc = err_set(err, -1, "%s has no checksums", folder);
    safetensors_close(st);
    if (rc || models_has(out, &m))
        return rc;
    assert(out->n < MODELS);
    out->at[out->n++] = m;
    return 0;
}

int models_take(struct models *out, const char *run, struct err *err)
{
    char        path[PATH_BYTES];
    const char *next;
    size_t      n = strlen(run) + 1;
    int         rc = 0;

    for (size_t at = 0; !rc && (next = storage_next(run, &at));) {
        unsigned long long step = 0;
        int                end = 0;

        snprintf(path, sizeof path, "%s", next);
        sscanf(path + n, "checkpoint-%llu%n", &step, &end);
        if (!strcmp(path + n, "best") || (end && !path[n + (size_t)end]))
            rc = add(out, step, path, err);
    }
    return rc;
}

int models_has(const struct models *all, const struct model *m)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].step == m->step && all->at[i].sum == m->sum)
            return 1;
    return 0;
}

int models_same(const struct models *a, const struct models *b)
{
    size_t i = 0;

    while (i < a->n && models_has(b, &a->at[i]))
        i++;
    return i == a->n && a->n == b->n;
}

size_t models_count(const struct models *all, int best)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++)
        n += best == !all->at[i].step;
    return n;
}
