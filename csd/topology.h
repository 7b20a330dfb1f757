/* topology.h: the modelled links of a run as a tree: from the options, or from a file that a person
 * wrote (docs/topology.md says how). */
#pragma once

#include "csd/link.h"
#include "data/base/err.h"

/* One value for all devices, or one for each; none: unlimited. */
struct topology_values { const uint64_t *value; size_t n; };

/* file: NULL or "", then the drives hang at one link to the host. What is 0 is unlimited; the zero
 * state models nothing. */
struct topology_config {
    const char            *file;
    uint64_t               host_bw;          // bytes/s, each way
    struct topology_values read_bw, write_bw; // bytes/s of the drives, if each did nothing else
    double                 latency_us;       // of a request to a drive
    size_t                 others; // drives that are no device's, numbered on from n_devices
};

struct topology;

/* For devices 0 to n_devices - 1 and the others behind them: these have the options' values where
 * there is one for all, and hang at the host's link; with a file, where it has a line for their
 * number, else at the host, as fast as what is beneath. *out is NULL where nothing is modelled.
 * -EINVAL with a sentence of misuse that names file and line. */
int  topology_open(struct topology **out, const struct topology_config *cfg, size_t n_devices,
                   struct err *err);
void topology_close(struct topology *t); // NULL is fine

/* Where device i stands, until topology_close; NULL of NULL. */
const struct link_ends *topology_ends(const struct topology *t, size_t i);

/* Bytes that cross the host's links, drives left out: up to the host and down from it, as much from
 * each device; computed: what forward reads and backward makes, which goes on to every accelerator
 * (or comes from each); first: of the devices. */
struct topology_load { double up, down; int computed; size_t first; };

/* Add to busy[dir] of the links [0, topology_links) the seconds that a load on n devices from
 * load->first on takes of each. Links without a limit are busy for none. */
size_t topology_links(const struct topology *t); // 0 of NULL
void   topology_load(double (*busy)[LINK_DIRS], const struct topology *t, size_t n,
                     const struct topology_load *load);
