/* image.h: what the mem mode commits: RUN/image0 and RUN/image1, each the masters and moments (with
 * error feedback the residuals, too) of all blocks, written in turn, and the journal's rows that
 * say which step each holds. The newest area with rows is the run's state; the other one is what is
 * overwritten next, so a crash while writing loses nothing. */
#pragma once

#include "offload/layout/config.h"

#include <limits.h>

enum { IMAGE_AREAS = 2 };

struct image_state {
    unsigned area;
    uint64_t step;    // the one that comes next
    uint64_t applied; // updates that are in it
};

/* Floats of a block in an image: masters, then each moment, then the residual. */
size_t   image_block_floats(const struct run_config *cfg, size_t block);
uint64_t image_block_offset(const struct run_config *cfg, size_t block); // in the file, in bytes
uint64_t image_bytes(const struct run_config *cfg);
void     image_path(const struct run_config *cfg, unsigned area, char *path, size_t size);

/* Make area 0 from `init` with moments zero, and its rows, in a transaction of its own. */
int image_format(const struct run_config *cfg, const struct params_source *init, struct err *err);

/* The committed state, by the journal alone. */
int image_latest(const struct run_config *cfg, struct image_state *out, struct err *err);

/* Read the committed image into states[block] (image_block_floats each; states NULL: only verify)
 * and check every block. A damaged one is an error that names file, block, offset and the last
 * whole state there is. */
int image_load(const struct run_config *cfg, struct image_state *out, float *const *states,
               struct err *err);

/* Open an area's file to write it, made if it is not there, and keep every other process from it
 * until *fd is closed: -EBUSY if one is there. */
int image_open(const struct run_config *cfg, unsigned area, int *fd, struct err *err);

/* Write an area's file, durable if the run is; crc[block] gets the checksums for image_commit,
 * which puts the rows into the caller's transaction. */
int image_write(const struct run_config *cfg, unsigned area, int fd, float *const *states,
                uint32_t *crc, struct err *err);
int image_commit(const struct run_config *cfg, const struct image_state *state, const uint32_t *crc,
                 struct err *err);

/* An area's file, locked against who would write it; or, in image.c, written by somebody's fd. */
struct image_reader {
    const struct run_config *cfg;
    int                      fd;
    char                     path[PATH_MAX];
    float                   *buffer; // between file and checksum, where the values are not kept
};

/* Masters of the committed image, which is verified as a whole, once, here. *source is valid until
 * the close, and as long as cfg is there. */
int  image_reader_open(struct image_reader *r, struct params_source *source,
                       const struct run_config *cfg, struct err *err);
void image_reader_close(struct image_reader *r); // also after a failure, and of the zero state

/* An area as `siTrain check` sees it: whether the journal names it, how many of its blocks are
 * damaged, a sentence about the first, values that are not finite. -errno where the journal itself
 * is damaged. */
struct image_check {
    int              named;
    uint64_t         step, bytes, damaged;
    struct err       why;
    struct param_set beyond;
};
int image_check(const struct run_config *cfg, unsigned area, struct image_check *out,
                struct err *err);

/* Take an area's rows out of the journal, in a transaction of its own: the run is at the other
 * one's state then. */
int image_forget(const struct run_config *cfg, unsigned area, struct err *err);
