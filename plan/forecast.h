/* forecast.h: how long a step of a run takes on a machine (machine_file.h). Figures that were
 * measured and figures that a person wrote take the same way to seconds
 * (docs/lab/scaling-model.md). */
#pragma once

#include "model/arch/placement.h"
#include "plan/machine_file.h"
#include "run/folder/session.h"

struct forecast {
    struct step_time       own;   // siTrain's step; step_time.h says which phases overlap
    struct step_time_serial serial; // the step of ZeRO-Infinity and Smart-Infinity: phases in turn
    double F, B;                  // computing: forward; backward with the head and gradients
    double head, norm;            // parts of B: the head; norm, checksums, Top-K of gradients
    double update, gradient, wire; // transfers, each alone: T_opt, T_grad, T_swap of the paper
    double network;               // transfers between ranks: gathers and exchanges
    double host_update, image;    // mode mem: the update, and a step's part of the images
    double beside;                // the mean step with --snapshot-every; 0: without
    enum forecast_by {            // what sets the pace; by_seconds: in how much of the step
        FORECAST_COMPUTING, FORECAST_DRIVES, FORECAST_UP, FORECAST_DOWN,
        FORECAST_NETWORK, FORECAST_FILES, FORECAST_UPDATES
    } by;
    double by_seconds;
    size_t kept;                  // layers whose activations are kept
    struct placement placement;   // layers kept and offloaded, by part; the rest is recomputed
    int    offloads;              // activations may be offloaded
    int    whole;                 // offloaded MLPs are written with all that backward needs
    uint64_t acts_written, acts_read; // bytes of offloaded activations
    int    first;                 // forecast.c's own: forecast for the placement at its begin
};

/* The machine; how many devices share one of its drives; whether one of these holds the base that
 * is read in place; the network between it and machines like
 * it, one for each rank of the session: bytes a second (0: transfers take no time), and seconds of
 * latency. */
struct forecast_machine {
    const struct machine_file *m;
    size_t                     sharers;
    int                        base_beside;
    double                     network, latency;
};

/* Sets *out to what decides a run's plan: a session that exists only in memory, and that
 * session_config plans anew. session_close ends it. */
void forecast_session(struct session *out, const struct session *from);

/* Forecasts a step of s, a session that exists only in memory. mode and compress (0: none) are
 * taken in place of the session's. Misuse: the machine has no figures for this dtype, or no
 * drive has a speed. */
int forecast_step(struct forecast *out, const struct session *s, int mode, double compress,
                  const struct forecast_machine *m, struct err *err);

/* Whether a session fits into the memory that it may have, and onto drives with `disk` free bytes
 * together. It has the fewest spare slots that it can have, unless --spare-slots says otherwise. */
int forecast_fits(const struct session *s, uint64_t disk);
