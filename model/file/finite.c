/* finite.c: checks parameters as they are read, so that the check needs no extra reading. */
#include "model/file/finite.h"

#include "data/base/round.h"

enum { BUFFER = 1 << 14 };

static int refuse_tensor(const char *what, const char *name, size_t n, size_t size, size_t first,
                         struct err *err)
{
    return err_set(err, -EDOM, "%s: tensor %s: %zu of its %zu values are infinite or not a number, "
                   "the first of them at index %zu: nothing can be computed from it", what, name, n,
                   size, first);
}

/* Reads the whole tensor of value i again, counts its bad values, and reports tensor and count. */
static int refuse(const struct finite *f, size_t block, size_t i, struct err *err)
{
    struct arch_place place = arch_place(f->config, block, i);
    size_t           size = arch_size(f->config, place.t), n = 0;
    char             name[RUN_NAME];
    float           *buffer = malloc(BUFFER * sizeof *buffer);
    int              rc = buffer ? 0 : err_set(err, -ENOMEM, "%s: out of memory", f->what);

    for (size_t at = 0, k; at < size && !rc; at += k) {
        struct arch_spot spot = arch_spot(f->config, block, place.t, at);

        k = size_min(spot.left, BUFFER);
        rc = f->inner.read(f->inner.ctx, spot.block, spot.i, k, buffer, err);
        if (!rc)
            n += overflow_find(buffer, k).n;
    }
    free(buffer);
    arch_tensor_name(f->config, name, sizeof name, "", block, place.t);
    return rc ? rc : refuse_tensor(f->what, name, n, size, place.in, err);
}

static int read_finite(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct finite *f = ctx;
    int                  rc = f->inner.read(f->inner.ctx, block, first, n, out, err);
    struct overflow    beyond = rc ? (struct overflow){ 0 } : overflow_find(out, n);

    return beyond.n ? refuse(f, block, first + beyond.first, err) : rc;
}

struct params_source finite_source(struct finite *f)
{
    return (struct params_source){ read_finite, f };
}

int finite_check(struct finite *f, const struct watch *watch, struct err *err)
{
    float   *buffer = malloc(BUFFER * sizeof *buffer);
    uint64_t done = 0;
    int      rc = buffer ? 0 : err_set(err, -ENOMEM, "%s: out of memory", f->what);

    for (size_t b = 0; b < arch_blocks(f->config) && !rc; b++) {
        size_t size = arch_block_size(f->config, b);

        for (size_t at = 0, k; at < size && !rc; at += k) {
            k = size_min(size - at, BUFFER);
            rc = read_finite(f, b, at, k, buffer, err);
            rc = rc ? rc : watch_look(watch, done += k, arch_total(f->config), err);
        }
    }
    free(buffer);
    return rc;
}

static int check_tensor(struct safetensors *st, const struct st_tensor *t, const char *what,
                        float *buffer, struct err *err)
{
    size_t size = (size_t)t->count, first = size, n = 0;
    int    rc = 0;

    for (size_t at = 0, k; at < size && !rc; at += k) {
        k = size_min(size - at, BUFFER);
        rc = safetensors_read(st, t, at, k, buffer, err);
        struct overflow found = rc ? (struct overflow){ 0 } : overflow_find(buffer, k);

        first = found.n && first == size ? at + found.first : first;
        n += found.n;
    }
    return rc || !n ? rc : refuse_tensor(what, t->name, n, size, first, err);
}

int finite_check_file(struct safetensors *st, const char *what, const struct watch *watch,
                      struct err *err)
{
    float   *buffer = malloc(BUFFER * sizeof *buffer);
    uint64_t done = 0;
    int      rc = buffer ? 0 : err_set(err, -ENOMEM, "%s: out of memory", what);

    for (size_t i = 0; i < st->n && !rc; i++) {
        const struct st_tensor *t = &st->tensors[i];

        rc = t->dtype == ST_OTHER ? 0 : check_tensor(st, t, what, buffer, err);
        rc = rc ? rc : watch_look(watch, done += t->count, 0, err);
    }
    free(buffer);
    return rc;
}
