/* step_work.h: the work that a step of a run gives to drives and links: the moves of step_time.h,
 * computed from the bytes that the step moves (traffic.h), their places (store.h) and the modelled
 * bandwidths (csd/topology.h). No call opens a device. */
#pragma once

#include "offload/estimate/step_time.h"
#include "offload/layout/config.h"

/* Measured speed of a drive in bytes/s: reading, writing, and in the mix of an update, which is 16
 * bytes read for 14 written. 0: transfers take no time. */
struct step_drive { double read, write, mixed; };

/* Seconds in which a drive reads and writes so many bytes at once: those of the longer transfer
 * alone, and a part of the shorter one. The part is none for a drive that does both at the same
 * time, all for one that does one thing at a time, and more if reads and writes obstruct each
 * other. It follows from `mixed`. */
double step_drive_seconds(const struct step_drive *d, double read, double write);

/* Speeds. 0: it takes no time, unless another meaning is given.
 *     engine   parameters/s that one device updates (su, su+o)
 *     host     parameters/s that the host updates (base)
 *     cores    of the host that emulate devices; each updates `engine`, also in base; 0: devices
 *              are not emulated
 *     beside   parameters that emulated devices update in each second taken from computing; 0: as
 *              many as all cores do
 *     drive    (n_devices) the measured drive beneath each device, in addition to modelled links;
 *              NULL: not measured
 *     network  bytes/s to each rank, and as many away from it
 *     latency  seconds until what a rank sends begins to arrive
 *     files    bytes/s at which a base in place is read; files_beside: from the drive of a device,
 *              which does nothing else meanwhile */
struct step_rates {
    double engine, host, beside, cores, network, latency, files;
    int    files_beside;
    const struct step_drive *drive;
};

/* Fills in the moves of *out for cfg->n_devices devices; its computing times stay. t NULL: modelled
 * links take no time. 0 or -errno, as all of these. */
int step_work_moves(struct step_work *out, const struct run_config *cfg, const struct topology *t,
                    const struct step_rates *rates, struct err *err);
/* The moves in each half of a step (updates and forward; backward and gradients) on cfg->n_devices
 * devices, without activations; the move of one byte of activations, written and read; `before`:
 * the seconds until forward may begin, which are block 0's update. */
struct step_halves { struct step_move forward, backward, write, read; double before; };
int step_work_halves(struct step_halves *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err);
/* The work of a step whose phases follow one another (step_time_serial), with the traffic of
 * Smart-Infinity's Table I: gradients in fp32 or compressed, states in fp32, and on devices the new
 * parameters sent up in fp32. */
int step_work_serial(struct step_serial *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err);
/* The move of other bytes between the host and the drives of all devices, and between the host and
 * the measured drives beneath them alone. */
struct step_bytes { double read, write, read_beneath, write_beneath; };
int step_work_other(struct step_move *out, const struct run_config *cfg, const struct topology *t,
                    const struct step_rates *rates, const struct step_bytes *bytes,
                    struct err *err);
/* The share of the busiest device, by the way blocks are cut. */
int step_work_share(struct step_share *out, const struct run_config *cfg, struct err *err);
