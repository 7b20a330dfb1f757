/* engine.h: an engine computes updates beside a drive, in its own memory. A worker (worker.h) moves
 * an update's bytes into a buffer set of that memory, lets the engine work on them, and moves them
 * out.
 *
 *     a set is
 *     idle       the worker's: transfers may go to and from its memory
 *     at work    the engine's alone, from start until poll returns it; one set at a time
 *
 * All calls come from one thread. An engine that works elsewhere (on a card, in a thread of its
 * own) calls wake when poll has a set to return, and never after poll has returned it. */
#pragma once

#include "csd/engine/grad_wire.h"
#include "csd/engine/updater.h"

/* The kinds of work. Each comes in order, without gaps.
 *     SCATTER  bytes [at, at + n) of a compressed gradient, which lie in area.wire, in multiples of
 *              GRAD_WIRE_ALIGN. Pairs go into area.grad; its other elements become zero.
 *     PASS     parameters [at, at + n) of the area, as update_area_pass */
enum engine_what { ENGINE_SCATTER, ENGINE_PASS };

struct engine_set {
    void                   *base; // its memory, as transfers use it, aligned to 4 KiB
    size_t                  bytes;
    void                   *own;  // the engine's
    // the update under way
    struct update_area      area; // at base
    struct csd_update      *u;
    struct update_sums      sums;   // of the work so far; sums.grad of both kinds
    struct grad_wire_reader reader; // of the pairs scattered so far
    // the work
    enum engine_what        what;
    size_t                  at, n;
    int                     status; // result: 0, or -errno and why; -EBADMSG: wrong input
    struct err              why;
};

struct engine {
    const struct engine_ops *ops; // first member of every engine
    int                      broken; // 0, or -errno once it is unusable; poll sets it
};

struct engine_ops {
    int  in_slices; // true: a PASS may begin while later parameters are still on their way
    /* True: its memory is a card's. io_uring may not register it, and only O_DIRECT moves bytes
     * between it and the drive without the host's memory. */
    int  on_card;
    int (*usable)(struct err *err); // csd_ops.usable
    /* wake: called with ctx, from any thread, when poll has a set to return. 0 or -errno. */
    int  (*open)(struct engine **out, const struct csd_config *cfg, void (*wake)(void *ctx),
                 void *ctx, struct err *err);
    /* Memory for one update: sets base, bytes and own of *s. release accepts the zero state. */
    int  (*alloc)(struct engine *e, struct engine_set *s, size_t bytes, struct err *err);
    void (*release)(struct engine *e, struct engine_set *s);
    void (*start)(struct engine *e, struct engine_set *s);
    struct engine_set *(*poll)(struct engine *e); // a set whose work is over, or NULL; never waits
    /* No set is at work, or the engine is broken. A broken engine keeps for ever the memory that
     * hung hardware may still write to. */
    void (*close)(struct engine *e);
};

extern const struct engine_ops engine_cpu;
extern const struct csd_caps   engine_cpu_caps;
// weak: NULL in a build without libxrt, or without OpenCL
extern const struct engine_ops engine_xrt __attribute__((weak));
extern const struct engine_ops engine_opencl __attribute__((weak));
