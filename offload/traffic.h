/* traffic.h: what a step must move, computed (docs/design.md, run.db): bytes of payload per link,
 * class and direction. */
#ifndef OFFLOAD_TRAFFIC_H
#define OFFLOAD_TRAFFIC_H

#include "csd/link.h"
#include "offload/run.h"

struct traffic_config {
    int        on_host;       // base
    int        in_memory;     // mem: nothing moves
    size_t     n_blocks;      // embeddings, layers, final norm
    const size_t *block_params;
    size_t frames; // layer frames: the last `frames` layers of forward are still there in backward
    enum dtype wire_dt;
    int        moments;
    double     compress;      // 0 dense
    int        error_feedback, residual_in_ram;
    struct run_records records; // activations on the devices: the last `buffers` of them stay in
                                // memory
};

/* Of a run's configuration; what it points to is the run's. */
struct traffic_config traffic_of_run(const struct run_config *run);

/* One step's payload, all devices together. */
void traffic_computed(struct link_meter *out, const struct traffic_config *c);

#endif
