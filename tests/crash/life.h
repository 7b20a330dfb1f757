/* life.h: the run whose power is cut: how it is made, what a process does with it from its start to
 * its end, and what it is then. The model is the toy (toy.h), on two devices with several subgroups
 * of each block, or in images. */
#pragma once

#include "offload/run.h"

enum { STEPS = 4, MAX_SUBS = 64, NEVER = -1 };

#define RUN_AT "/sim/run" // the folder is there before the run is; of ranks, that of the first

/* What is cut. */
struct plan {
    const char   *name;
    enum run_mode mode;
    double        compress;
    int feedback, in_ram; // what compression does not send is kept: on the devices, in RAM too
    int           speculate; // updates do not wait for the norm
    int           spares;    // enum run_spares
    int           sync; // csd/disk/disk_sync.c on simulated files, instead of a simulated disk
    int           cards;            // --csd xrt: on a simulated disk and a software SmartSSD
    int           pieces;           // that a step leaves on the devices
    int           words; // the embeddings are two blocks: 1: the head is tied to them, 2: two more
    int           frozen; // all but an adapter for each of two layers
    size_t        ranks;            // that train it, each on a machine of its own; 0: one
    int           rival; // another process removes the lock's file and resumes the run meanwhile
    int           makers; // two processes make it at once, as run/folder/creation.c does it
    int           named;  // each process names the run's devices first; a copy has others
    enum { IN_RUN, FOLDERS, FILES } outside; // its devices are where --device says
    int           create;           // begin with nothing: the making of the run is cut too
    int           reshard;          // halfway, move it from two devices to three
    uint64_t      commit_every;
    int checkpoint; // pages of run.db's log after which it is moved into run.db; 0: 1000
                    // 1000
    int skip;       // the step whose gradients are not finite; NEVER
    enum { HONEST, LYING, NO_FLUSHES } storage; // flushes that do nothing; --durability none
};

/* What a run is when it has ended. */
struct state {
    uint64_t next_step, applied;
    int      rows;        // of steps, each once and in order
    double   loss[STEPS]; // as the rows say
    uint64_t skipped;     // bits of steps
    size_t   n;
    struct {
        uint64_t version;
        uint32_t states, wire, grad, residual;
    } sub[MAX_SUBS]; // checksums of what is stored
};

/* What the one who trains has seen, over all the lives of a run. */
struct witness {
    double   loss[STEPS];
    unsigned seen;      // bits of steps
    uint64_t committed; // steps reported as committed
    uint64_t went_back; // lives that began before that
    int      differs;   // a loss was another one the second time
};

/* Where plans' devices are simulated disks; once, at the start. Cards are those of the software
 * SmartSSD in SITRAIN_SMARTSSD: whether what a plan needs is here. */
void life_init(void);
int  life_has(const struct plan *p);

/* How many ranks a plan has, and the folder of each. */
size_t      life_ranks(const struct plan *p);
const char *life_dir(size_t rank);

/* How the run of p is opened or made, but for what its run.db says. */
struct run_config life_config(const struct plan *p, struct runlog *log, size_t rank);

/* Make the run of p; the name of run.db comes last. */
int life_make(const struct plan *p, struct err *err);

/* A process: makes the run if the plan is to and it is not there, opens it, trains it to its end. 0
 * or -errno with a sentence. */
int life(const struct plan *p, struct witness *w, struct err *err);

/* Open a run that is there, and train it to its end. */
int life_train(const struct plan *p, struct witness *w, struct err *err);

/* What the run is. -EBADMSG with a sentence: something is damaged, and its next reader will say so.
 */
int life_state(const struct plan *p, struct state *out, struct err *err);

/* The first thing in which a run differs from what it has to be: a sentence and -1; or 0. */
int life_compare(const struct state *got, const struct state *want, struct err *err);
