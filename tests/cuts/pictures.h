/* pictures.h: what a run or a snapshot is, read and checked to the last byte: its steps, losses and
 * the checksums of its states. Two that have the same picture have the same bits. */
#pragma once

#include "data/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PICTURE_STEPS = 24, PICTURES = 64 };

struct picture {
    uint64_t steps; // done
    double   loss[PICTURE_STEPS];
    uint32_t states;
};

/* The snapshots of a run. lacking: those that are not whole; of these, by_parity would be. */
struct album {
    struct picture at[PICTURES];
    size_t         n, lacking, by_parity;
};

/* Read all of the run or snapshot at `path`. -errno with a sentence: it cannot be read, or is
 * damaged. */
int picture_take(struct picture *out, const char *path, struct err *err);
int picture_same(const struct picture *a, const struct picture *b);

/* The same of all whole snapshots of the run. A snapshot that is listed as whole must be. */
int album_take(struct album *out, const char *run, struct err *err);
/* True if the picture is one of the album's. */
int album_has(const struct album *a, const struct picture *p);
