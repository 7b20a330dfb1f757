/* engine.h: what computes beside a drive, and its memory. A worker (worker.h) moves an update's
 * bytes into a buffer set of the engine's memory, lets the engine work on them, and moves them out.
 *
 *     a set      is
 *     idle       the worker's: transfers may go to and from its memory
 *     at work    from start on the engine's alone, until poll gives it back; one at a time
 *
 * All calls come from one thread. An engine that works elsewhere (on a card, in a thread of its
 * own) calls wake when poll has something to give back, and not any more once it gave that back. */
#pragma once

#include "csd/engine/grad_wire.h"
#include "csd/engine/updater.h"

/* SCATTER: `n` bytes of a compressed gradient, those from byte `at` of it on, lie in area.wire; its
 * pairs go into area.grad, whose other elements become zero. They come in order, without gaps, in
 * multiples of GRAD_WIRE_ALIGN.
 * PASS: parameters [at, at + n) of the area, in order and without gaps, as update_area_pass. */
enum engine_what { ENGINE_SCATTER, ENGINE_PASS };

struct engine_set {
    void                   *base; // where transfers find its memory, aligned to 4 KiB
    size_t                  bytes;
    void                   *own;  // the engine's
    // the update under way
    struct update_area      area; // at base
    struct csd_update      *u;
    struct update_sums      sums;   // of what has been worked on so far; sums.grad of both kinds
    struct grad_wire_reader reader; // of the pairs that were scattered so far
    // the work
    enum engine_what        what;
    size_t                  at, n;
    int                     status; // of it: 0, or -errno and why: -EBADMSG: what it found is wrong
    struct err              why;
};

struct engine {
    const struct engine_ops *ops; // first member of every engine
    int                      broken; // -errno once it cannot be used any more: poll sets it
};

struct engine_ops {
    int  in_slices; // a PASS may begin while later parameters are still on their way
    /* Its memory is a card's: io_uring may not register it, and only O_DIRECT moves bytes between
     * it and the drive without the host's memory. */
    int  on_card;
    int (*usable)(struct err *err); // csd_ops's
    /* wake: from any thread, with ctx, once poll has something; NULL is never called. */
    int  (*open)(struct engine **out, const struct csd_config *cfg, void (*wake)(void *ctx),
                 void *ctx, struct err *err);
    /* Memory for one update: base and own of *s. release accepts the zero state. */
    int  (*alloc)(struct engine *e, struct engine_set *s, size_t bytes, struct err *err);
    void (*release)(struct engine *e, struct engine_set *s);
    void (*start)(struct engine *e, struct engine_set *s);
    struct engine_set *(*poll)(struct engine *e); // one whose work is over, or NULL; never waits
    /* Nothing is at work, or the engine is broken: then it may keep for ever what a hung piece of
     * hardware may still write to. */
    void (*close)(struct engine *e);
};

extern const struct engine_ops engine_cpu;
extern const struct csd_caps   engine_cpu_caps;
// NULL in a build without libxrt, without OpenCL
extern const struct engine_ops engine_xrt __attribute__((weak));
extern const struct engine_ops engine_opencl __attribute__((weak));
