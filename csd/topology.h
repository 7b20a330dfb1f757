/* topology.h: the modelled links of a run as a tree, from options, or from a file that a person
 * wrote (docs/internals/topology.md). */
#pragma once

#include "csd/link.h"
#include "data/base/err.h"

/* One value for all devices (n 1), or one for each; n 0: unlimited. */
struct topology_values { const uint64_t *value; size_t n; };

/* file: NULL or "": all drives hang at one link to the host. 0 means unlimited. The zero state
 * models nothing. */
struct topology_config {
    const char            *file;
    uint64_t               host_bw;          // bytes/s, each way
    struct topology_values read_bw, write_bw; // bytes/s of a drive that only reads, or only writes
    double                 latency_us;       // of each request to a drive
    size_t                 others;           // drives without a device (for activations alone),
                                             // numbered from n_devices on
};

struct topology;

/* Build the tree for devices 0 to n_devices - 1, and the other drives. Without a file, other drives
 * hang at the host's link, with the options' values if these have one for all. With a file, a drive
 * that has no line hangs at the host, as fast as the hardware. *out is NULL if nothing is modelled.
 * 0 or -errno; misuse names file and line. */
int  topology_open(struct topology **out, const struct topology_config *cfg, size_t n_devices,
                   struct err *err);
void topology_close(struct topology *t); // NULL is fine

/* Device i's place in the tree, valid until topology_close; NULL if t is. */
const struct link_ends *topology_ends(const struct topology *t, size_t i);

/* A load: bytes up to the host and down from it, the same for each device, beginning with device
 * `first`. computed: forward reads or backward makes them, so they also cross the links of every
 * accelerator. The drives themselves are left out. */
struct topology_load { double up, down; int computed; size_t first; };

/* The number of links (0 if t is NULL). topology_load adds the seconds that a load on n devices
 * takes of each link to busy: (topology_links, LINK_DIRS). An unlimited link takes none. */
size_t topology_links(const struct topology *t);
void   topology_load(double (*busy)[LINK_DIRS], const struct topology *t, size_t n,
                     const struct topology_load *load);
