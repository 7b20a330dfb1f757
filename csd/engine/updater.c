/* updater.c: computes one subgroup's update in one pass over its memory. It works in slices that
 * stay in the second-level cache while they are summed, updated, converted and summed again. */
#include "csd/engine/updater.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "kernels/elementwise.h"

#include <assert.h>

enum { SLICE = 4096 }; // parameters: 64 KiB of states and gradient

size_t update_area_bytes(size_t n_pad, int moments, enum dtype wire_dt)
{
    return n_pad * (4 * (1 + (size_t)moments) + dtype_bytes(wire_dt) + 4);
}

void update_area_init(struct update_area *a, void *mem, size_t n_pad, int moments,
                      enum dtype wire_dt)
{
    *a = (struct update_area){.n_pad = n_pad, .moments = moments, .wire_dt = wire_dt,
                              .states_bytes = 4 * (1 + (size_t)moments) * n_pad, .states = mem,
                              .wire_bytes = dtype_bytes(wire_dt) * n_pad, .grad_bytes = 4 * n_pad};
    a->wire = (char *)mem + a->states_bytes;
    a->grad = (float *)(void *)((char *)a->wire + a->wire_bytes);
}

static void slice_update(const struct update_area *a, struct csd_update *u, size_t first, size_t n)
{
    float *w = a->states, *m = w + a->n_pad, *v = a->moments > 1 ? m + a->n_pad : NULL;
    size_t end = first + n;

    for (size_t i = 0; i < u->n_segments; i++) {
        const struct csd_segment *s = &u->segments[i];
        size_t from = size_max(s->first, first), to = size_min(s->first + s->n, end);

        if (from < to)
            overflow_add(&u->overflow,
                         bounds_update(w + from, m + from, v ? v + from : NULL, a->grad + from,
                                       to - from, s->weight_decay, &u->step,
                                       u->unchecked ? NULL : &u->bounds),
                         from);
    }
    convert((char *)a->wire + first * dtype_bytes(a->wire_dt), a->wire_dt, w + first, DT_F32, n);
}

static void slice_sum(const struct update_area *a, size_t first, size_t n,
                      uint32_t part[UPDATE_PARTS])
{
    for (int i = 0; i <= a->moments; i++)
        part[i] = crc32c(part[i], a->states + (size_t)i * a->n_pad + first, sizeof(float) * n);
}

void update_area_pass(const struct update_area *a, struct csd_update *u, size_t first, size_t n,
                      struct update_sums *s)
{
    size_t end = first + n, element = dtype_bytes(a->wire_dt);

    assert(end <= a->n_pad);
    if (first == 0) {
        u->overflow = (struct overflow){0};
        u->bounds = (struct bounds){0};
    }
    for (size_t at = first; at < end; at += SLICE) {
        size_t k = size_min(end - at, SLICE);

        slice_sum(a, at, k, s->read);
        if (u->grad_form == CSD_GRAD_DENSE) // a compressed one is summed when it arrives
            s->grad = crc32c(s->grad, a->grad + at, sizeof(float) * k);
        slice_update(a, u, at, k);
        slice_sum(a, at, k, s->written);
        s->wire = crc32c(s->wire, (char *)a->wire + at * element, k * element);
    }
}

uint32_t update_sums_states(const struct update_area *a, const uint32_t part[UPDATE_PARTS])
{
    uint32_t sum = part[0];

    for (int i = 1; i <= a->moments; i++)
        sum = crc32c_join(sum, part[i], sizeof(float) * a->n_pad);
    return sum;
}
