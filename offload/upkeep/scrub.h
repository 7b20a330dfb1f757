/* scrub.h: reads areas of a run's states and compares them with the journal's checksums, while
 * another thread or process may train the run. A scrub takes no lock of the run and writes nothing
 * to it, so a training never waits for it.
 *
 * A source says where area i lies now. It is asked before the area is read, and again if the bytes
 * differ from the checksum or cannot be read. If the answer has changed, somebody has committed
 * meanwhile, and the area is read again at its new place. Only what differs twice, with the same
 * answer before and after, is damaged.
 *
 * Reads go past the page cache where the file system can do that. `bw` bounds them: an area that
 * training writes over is read at once, and the pause follows; all else pauses after each piece. */
#pragma once

#include "data/base/watch.h"
#include "offload/devices/areas.h"

struct scrub_source {
    size_t n; // number of areas
    int  (*look)(void *ctx, size_t i, struct area *out, struct err *err);
    void  *ctx;
    int    still; // true: nobody writes to its files
};

struct scrub_file { int fd; char *path; };

struct scrub {
    // set by the caller
    const struct run_config   *cfg;  // whose files are read
    const struct scrub_source *from;
    uint64_t                   bw;    // bytes per second; 0: as fast as the drive is
    const struct watch        *watch; // looked at between pieces and in pauses; or NULL
    // private
    struct scrub_file *files;
    size_t             n_files;
    char              *buffer;
    uint64_t           due_ns; // when the next read may begin
    // results
    struct verify_count count[VERIFY_KINDS];
    uint64_t            changed; // areas that changed each time while they were read
    uint64_t            bytes;   // read from drives
};

/* The caller sets the first members; close also after a failure. turn: from now on, areas of
 * another source are read, at the same rate. */
int  scrub_open(struct scrub *s, struct err *err);
void scrub_turn(struct scrub *s, const struct run_config *cfg, const struct scrub_source *from);
void scrub_close(struct scrub *s);

enum scrub_found { SCRUB_NOTHING, SCRUB_WHOLE, SCRUB_CHANGED, SCRUB_DAMAGED };
/* Read area i; *area says which it was. The result is one of scrub_found, with a sentence for
 * SCRUB_DAMAGED; or -errno if the source failed, if this user may not read the file
 * (file_is_unknown), or -EINTR if `watch` ends it. */
int scrub_read(struct scrub *s, size_t i, struct area *area, struct err *err);

/* Wait until the rate allows the next read. -EINTR: `watch` ends it. */
int scrub_pause(struct scrub *s, struct err *err);
/* Count bytes that the caller has read itself. */
void scrub_took(struct scrub *s, uint64_t bytes);

/* The source of a run's areas by its run.db, which cfg->log has open for reading: of a run that
 * another process may train (still 0), or of a snapshot (still 1). */
struct scrub_rows {
    struct scrub_source      source;
    const struct run_config *cfg;
    struct store             store; // not in mode mem
    size_t                   blocks;
};
int  scrub_rows_open(struct scrub_rows *r, const struct run_config *cfg, int still,
                     struct err *err);
void scrub_rows_close(struct scrub_rows *r); // also after a failure

/* Gives this thread the lowest priority of input, output and processor. */
void scrub_yields(void);
