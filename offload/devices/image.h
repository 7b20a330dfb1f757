/* image.h: the commits of mode mem. RUN/image0 and RUN/image1, called areas, each hold the masters
 * and moments of all trained blocks, and with error feedback the residuals. If blocks are frozen,
 * RUN/frozen holds their wire parameters, and is written once. Images are written alternately;
 * the journal's rows say which step each holds. The newest area with rows is the run's state. The
 * other area is overwritten next, so a crash during a write loses nothing. Calls return 0 or
 * -errno. */
#pragma once

#include "offload/devices/areas.h"

#include <limits.h>

enum { IMAGE_AREAS = 2 };

struct image_state {
    unsigned area;
    uint64_t step;    // the step that comes next
    uint64_t applied; // number of updates in it
};

/* Floats of a block in an image: the master, then each moment, then the residual. A frozen block
 * has none. */
size_t   image_block_floats(const struct run_config *cfg, size_t block);
uint64_t image_block_offset(const struct run_config *cfg, size_t block); // bytes
uint64_t image_bytes(const struct run_config *cfg);
uint64_t image_frozen_bytes(const struct run_config *cfg); // of RUN/frozen
void     image_path(const struct run_config *cfg, unsigned area, char *path, size_t size);

/* Make area 0, with masters from `init` and moments zero, and RUN/frozen; their rows in a
 * transaction. */
int image_format(const struct run_config *cfg, const struct params_source *init, struct err *err);

/* The committed state, from the journal alone; no image is opened. */
int image_latest(const struct run_config *cfg, struct image_state *out, struct err *err);

/* The checksums of an area's blocks, as image_commit takes them: malloced, the caller's. */
int image_sums(const struct run_config *cfg, unsigned area, uint32_t **out, struct err *err);

/* Where a block lies in an area, without its checksum and version. 0: the area does not have it. */
int image_area(const struct run_config *cfg, unsigned area, size_t block, struct area *out);

/* Read the committed image into stored[block] (image_block_floats each; of a frozen block its wire
 * parameters), and check every block. stored NULL: only check. A damaged block is an error that
 * names file, block, offset and the last whole state. */
int image_load(const struct run_config *cfg, struct image_state *out, void *const *stored,
               struct err *err);

/* Open an area's file for writing, made if it does not exist, and lock it until *fd is closed.
 * -EBUSY: another process has it. */
int image_open(const struct run_config *cfg, unsigned area, int *fd, struct err *err);

/* -ENODEV: an area's name does not lead to the open file any more, so that what is written there
 * would be lost when the process ends. */
int image_present(const struct run_config *cfg, unsigned area, int fd, struct err *err);

/* image_write writes an area's file, and makes it durable if the run is; crc: (n blocks) gets the
 * checksums of trained ones. image_commit puts the rows into the caller's transaction. */
int image_write(const struct run_config *cfg, unsigned area, int fd, void *const *stored,
                uint32_t *crc, struct err *err);
int image_commit(const struct run_config *cfg, const struct image_state *state, const uint32_t *crc,
                 struct err *err);

/* An area's file, locked against writers. In image.c it also stands for a file that is written. */
struct image_file {
    const struct run_config *cfg;
    unsigned                 area;
    int                      fd;
    char                     path[PATH_MAX];
    void                    *buffer; // values on their way, if the caller does not want them
};
struct image_reader { struct image_file newest, frozen; };

/* Open the masters of the committed image. The whole image is verified here, once. *source is valid
 * until the close, and cfg must live as long. */
int  image_reader_open(struct image_reader *r, struct params_source *source,
                       const struct run_config *cfg, struct err *err);
void image_reader_close(struct image_reader *r); // also after a failure; accepts the zero state

/* An area as `siTrain check` sees it: whether the journal names it; its damaged blocks, with a
 * sentence about the first; values that are not finite. -errno if the journal itself is damaged. */
struct image_check {
    int              named;
    uint64_t         step, n, bytes, damaged; // n: blocks in the area
    struct err       why;
    struct param_set beyond;
};
enum { IMAGE_FROZEN = IMAGE_AREAS }; // as an area: RUN/frozen
int image_check(const struct run_config *cfg, unsigned area, struct image_check *out,
                struct err *err);

/* Delete an area's rows from the journal, in a transaction of its own. The run is then at the other
 * area's state. */
int image_forget(const struct run_config *cfg, unsigned area, struct err *err);
