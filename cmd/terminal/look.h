/* look.h: what a person wants to know of a run at a glance, read from its database in one go. It
 * is opened for each look and closed again: a process that trains never waits for who looks on, and
 * its log does not grow by a reader that stays at an old commit. */
#pragma once

#include "data/base/err.h"

enum { LOOK_CURVE = 512, LOOK_DEVICES = 64, LOOK_EVALS = 4, LOOK_TEXT = 512,
       LOOK_SKIPPED = 100 };

enum look_state {
    LOOK_WAITING,  // there is no run, or not yet
    LOOK_AT_WORK,  // a process writes to it
    LOOK_FINISHED, // all its steps are done
    LOOK_EARLY,    // --early-stopping ended it
    LOOK_STOPPED,  // not all, and nobody is at it
    LOOK_KILLED,   // the same, and whoever was did not close it
};

struct look {
    enum look_state state;
    char     who[128];            // is at work: "process 17 on HOST"
    struct err why;               // waiting: what opening it said; misuse: that is no run at all
    char     mode[32], notice[LOOK_TEXT], notice_time[40]; // the last one; "": none
    uint64_t done, planned;       // steps
    int      early;               // training ended by --early-stopping
    uint64_t measured;            // grows as steps are measured: what is below is of then
    double   loss, lr, norm;      // of the last one; NaN: not known
    double   clipped;             // it was
    double   step_tokens;         // of those steady steps, on average, padding apart
    double   skipped;             // of the last LOOK_SKIPPED
    double   rss, host_mem;       // bytes; NaN, 0: not known, no bound
    double   arenas;              // of rss, those of emulated devices, which no bound counts
    double   median;              // seconds of the last steady steps; NaN: none yet
    double   seconds, part[4];    // of the last steps kept whole, on average: all, and as in parts
    double   whole;               // so many
    // of as many equal parts of the steps as there are points, the mean loss of the first 64; NaN:
    // there is none
    double   curve[LOOK_CURVE];
    size_t   points, asked;       // asked: so many were
    struct { char name[48]; double value; uint64_t step; } eval[LOOK_EVALS]; // the last one's
    size_t   evals;
    struct { double rate[2][2]; } device[LOOK_DEVICES]; // bytes/s: host, internal; read, write
    size_t   devices;             // at most so many are told
};

extern const char *const look_parts[4]; // forward, backward, ...

/* *f is the look before, or zeros: where no step was written since, what it says of steps stays.
 * points: of the curve, at most LOOK_CURVE. What keeps the run from being read is in f->why. */
void look_read(struct look *f, const char *run, size_t points);
