/* step_work.h: what a step of a run asks of drives and links: the moves of step_time.h from the
 * bytes that it moves (traffic.h), where they lie (store.h) and the modelled bandwidths
 * (csd/topology.h). */
#pragma once

#include "offload/estimate/step_time.h"
#include "offload/layout/config.h"

/* Bytes a second of a drive as it was measured: reading, writing, and of an update's mix, which is
 * 16 bytes read for 14 written. 0: it takes no time. */
struct step_drive { double read, write, mixed; };

/* Seconds in which it reads and writes so many bytes. What it does both ways at once takes the
 * longer of the two alone and a part of the shorter: none of it where it does both at the same
 * time, all where it does one thing at a time, more where they are in each other's way. Which part
 * follows from the mix. */
double step_drive_seconds(const struct step_drive *d, double read, double write);

/* Parameters a second. engine: one device's updates (su, su+o); host: the host's (base). 0: their
 * arithmetic takes no time. cores: devices are emulated on as many of the host's, each of which
 * updates `engine` (base too); 0: they are not. beside: how many emulated devices update in a
 * second that they take from computing; 0: as many as all cores do. drive: (n_devices) what was
 * measured under each device, beside what links model; NULL: nothing was. network: bytes a second
 * to each rank, and as many away from it; 0: it takes no time. latency: seconds until what a rank
 * sends begins to arrive. */
struct step_rates {
    double engine, host, beside, cores, network, latency;
    const struct step_drive *drive;
};

/* The moves of *out, for cfg->n_devices devices; its computing stays as it is. t: NULL: nothing
 * takes time. */
int step_work_moves(struct step_work *out, const struct run_config *cfg, const struct topology *t,
                    const struct step_rates *rates, struct err *err);
/* What moves in each half of a step (updates and forward; backward and gradients), activations left
 * out, on cfg->n_devices devices; what a byte of activations takes, written and read; and seconds
 * until forward may begin, which is block 0's update. */
struct step_halves { struct step_move forward, backward, write, read; double before; };
int step_work_halves(struct step_halves *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err);
/* As step_work_moves for phases in turn, with the traffic of Smart-Infinity's Table I: gradients in
 * fp32 (or compressed), states in fp32, and on devices the new parameters sent up in fp32. */
int step_work_serial(struct step_serial *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err);
/* What the busiest device has of all parameters, by how blocks are cut. */
int step_work_share(struct step_share *out, const struct run_config *cfg, struct err *err);
