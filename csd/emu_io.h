/* emu_io.h: the transfers of an emulated device, between its disk and the host's memory or its own:
 * metered, delayed by the modelled links, and given up where the disk falls silent.
 *
 * States of a transfer: free (no job); at the disk; delayed, once the disk is done with it or has
 * refused it, until the modelled links would be; over, when emu_io_over hands it back to whoever
 * started it. All of it is the worker's thread alone. */
#ifndef CSD_EMU_IO_H
#define CSD_EMU_IO_H

#include "csd/csd.h"
#include "data/base/list.h"

struct emu_io {
    struct disk_req req;     // op, buf, bytes and off are the starter's
    struct csd_job *job;     // NULL: free
    void           *set;     // the update's (emu_update.h); NULL: a host job's
    enum link_class cls;
    size_t          payload;
    int             at_disk;
    uint64_t        over_ns; // not before
    struct emu_io  *next;
};

struct emu_port {
    const struct csd_config *cfg;
    struct disk             *disk;
    struct list              delayed;
    unsigned                 n_at_disk;
    int                      broken; // -errno of a disk that can no longer be used
    // signs of life: the last count; when it was taken; none for so long
    uint64_t                 moved, listened_ns, silent_ns;
};

void emu_port_init(struct emu_port *p, const struct csd_config *cfg); // the disk is opened later

/* Start io, all but at_disk and over_ns of which is set. A disk that refuses it is a transfer that
 * failed. */
void emu_io_start(struct emu_port *p, struct emu_io *io);

/* Wait up to wait_ns (-1: for ever) for the disk, or until disk_wake. 0, or -errno where it broke
 * now: whoever started transfers fails them all. -ETIMEDOUT: it was silent for cfg->timeout_ns. */
int emu_io_serve(struct emu_port *p, int64_t wait_ns);

/* The next transfer that is over by now, or NULL. Its starter calls emu_io_account. */
struct emu_io *emu_io_over(struct emu_port *p);
/* Nanoseconds until there is one; -1 if none is delayed. */
int64_t emu_io_wait(const struct emu_port *p);
/* Enter one that is over, or whose disk broke, into its job's accounts. */
void emu_io_account(const struct emu_port *p, struct emu_io *io);

#endif
