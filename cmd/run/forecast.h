/* forecast.h: how long a step of a run takes on a machine (machine_file.h), whether that was
 * measured or described: one way from figures to seconds (docs/scaling-model.md). */
#pragma once

#include "cmd/run/machine_file.h"
#include "cmd/run/session.h"
#include "model/ways.h"

struct forecast {
    struct step_time       own;   // siTrain's step: what overlaps is in step_time.h
    struct step_time_serial turns; // the same as ZeRO-Infinity and Smart-Infinity have them
    double F, B;                  // computing forward; backward with the head and gradients
    double head, norm;            // of B: the head; norm, checksums and Top-K of gradients
    double update, gradient, wire; // what moves, each by itself: T_opt, T_grad, T_swap
    double network;               // of it between ranks: gathers and exchanges
    double host_update, image;    // mem: the update, and a step's part of the images
    enum forecast_by {            // what sets the pace, and in how much of the step
        FORECAST_COMPUTING, FORECAST_DRIVES, FORECAST_UP, FORECAST_DOWN,
        FORECAST_NETWORK, FORECAST_UPDATES
    } by;
    double by_seconds;
    size_t kept;                  // layers whose activations are kept
    struct acts_ways ways;        // of each part; what is neither kept nor offloaded is recomputed
    int    offloads;              // some may be offloaded
    int    whole;                 // MLPs then with all that backward needs
    uint64_t acts_written, acts_read; // bytes of those that are
    int    first;                 // forecast.c's own: of the ways that training begins with
};

/* The machine, how many of the devices share one of its drives, and the network between it and
 * others like it, one for each rank of the session: bytes a second (0: it takes no time), and
 * seconds. */
struct forecast_machine {
    const struct machine_file *m;
    size_t                     sharers;
    double                     network, latency;
};

/* s: a session that only exists in memory, as plan has it. mode, and compress with it (0: none),
 * instead of its own. misuse: the machine has no figures of this dtype, or no drive has a speed. */
int forecast_step(struct forecast *out, const struct session *s, int mode, double compress,
                  const struct forecast_machine *m, struct err *err);

/* Whether a session like this one fits: into the memory that it may have, and `disk` bytes of all
 * its drives together, where --spare-slots does not say otherwise with as few of those as do. */
int forecast_fits(const struct session *s, uint64_t disk);
