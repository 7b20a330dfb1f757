/* updater.c: the arithmetic of one subgroup's update. */
#include "csd/updater.h"

#include "kernels/elementwise.h"

#include <assert.h>

size_t update_area_bytes(size_t n_pad, int moments, enum dtype wire_dt)
{
    return n_pad * (4 * (1 + (size_t)moments) + dtype_bytes(wire_dt) + 4);
}

void update_area_init(struct update_area *a, void *mem, size_t n_pad, int moments, enum dtype wire_dt)
{
    char *at = mem;

    *a = (struct update_area){.n_pad = n_pad,
                              .moments = moments,
                              .wire_dt = wire_dt,
                              .states_bytes = 4 * (1 + (size_t)moments) * n_pad,
                              .wire_bytes = dtype_bytes(wire_dt) * n_pad,
                              .grad_bytes = 4 * n_pad};
    a->states = (float *)(void *)at;
    a->wire = at + a->states_bytes;
    a->grad = (float *)(void *)(at + a->states_bytes + a->wire_bytes);
}

void update_area_compute(const struct update_area *a, const struct csd_update *u, size_t first, size_t n)
{
    float *w = a->states, *m = w + a->n_pad, *v = a->moments > 1 ? m + a->n_pad : NULL;
    size_t end = first + n;

    assert(end <= a->n_pad);
    for (size_t i = 0; i < u->n_segments; i++) {
        const struct csd_segment *s = &u->segments[i];
        size_t from = s->first > first ? s->first : first, to = s->first + s->n < end ? s->first + s->n : end;

        if (from < to)
            optim_update(w + from, m + from, v ? v + from : NULL, a->grad + from, to - from, s->weight_decay,
                         &u->step);
    }
    convert((char *)a->wire + first * dtype_bytes(a->wire_dt), a->wire_dt, w + first, DT_F32, n);
}
