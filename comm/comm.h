/* comm.h: the ranks of a job: processes, on one host or on several, that work on one model
 * together. Rank 0 is the one that speaks.
 *
 * On each channel all ranks make the same calls in the same order; what one sends the others
 * expect, to the byte. Two channels know nothing of each other: several threads may call, each on
 * channels of its own. Small things are shared, which waits; large ones are exchanged: begun, and
 * asked for now and then, while the caller does other things. Bytes go straight from the rank that
 * has them to the one that wants them, so that traffic follows from the calls alone. What a rank
 * does with what it gets it does in the order of ranks: no result depends on who was first.
 *
 * One process alone is a job of one rank ("self"), for which nothing is initialised. More are
 * started by mpirun or srun, and are MPI's ("mpi", comm_mpi.c): nothing else knows MPI. */
#pragma once

#include "data/base/err.h"

#include <stdint.h>

struct comm_ops;
struct comm { // first member of every kind
    const struct comm_ops *ops;
    size_t rank, size;
    double patience; // seconds that another rank may take to answer (comm_test); 0: for ever
};

/* What is under way between this rank and one other: both pointers may be NULL where no bytes go.
 * The memory is not touched until it is done. */
struct comm_peer {
    const void *send;
    size_t      send_bytes;
    void       *recv;
    size_t      recv_bytes;
};

/* Begins as { 0 }; is so again when it is done. Time between looks that is not like the caller's (a
 * process that was stopped, a machine that slept) is not waited. */
struct comm_request { void *own; uint64_t looked_ns, waited_ns; };

/* What a message is about; comm_share has the first one. */
enum comm_channel { COMM_SHARES, COMM_PARAMS, COMM_GRADIENTS, COMM_COMMITS, COMM_CHANNELS };

struct comm_ops {
    const char *name;
    int  (*exchange)(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                     struct comm_request *r, struct err *err);
    int  (*test)(struct comm *c, struct comm_request *r, size_t *waits_for, struct err *err);
    int  (*give_up)(struct comm *c, struct comm_request *r);
    void (*who)(const struct comm *c, size_t rank, char *out, size_t n);
    void (*abort)(struct comm *c, int code);
    void (*close)(struct comm *c);
};

/* How many ranks mpirun or srun says it has started; 1 where neither did, or where it does not
 * say. */
size_t comm_started(void);

/* Did one of them start this process, be it as the only one? */
int comm_by_starter(void);

/* All ranks of the job: returns when all of them have called it. Where several were started and
 * this program was built without MPI: misuse. */
int comm_open(struct comm **out, struct err *err);

/* MPI's (comm_mpi.c), for comm_open alone; once in a process. NULL where siTrain is built without
 * MPI. */
int comm_mpi_open(struct comm **out, struct err *err) __attribute__((weak));

/* Waits for all ranks, which all call it; NULL is fine. */
void comm_close(struct comm *c);

/* This rank cannot go on: all of them end, with this exit code. It returns for a job of one. */
void comm_abort(struct comm *c, int code);

/* all: (size, bytes), what each rank gave, in their order; mine may stand in it. bytes may be 0:
 * then all have come here. Waits, as long as it takes. */
int comm_share(struct comm *c, const void *mine, size_t bytes, void *all, struct err *err);

/* peers: (size); what stands under this rank is copied at once. */
int comm_exchange(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                  struct comm_request *r, struct err *err);

/* buf: all have the same, in parts: at: (size + 1) says where each rank's begins and ends. This
 * rank's is in its place, the others come into theirs. */
int comm_gather(struct comm *c, enum comm_channel channel, void *buf, const size_t *at,
                struct comm_request *r, struct err *err);

/* 1: it is done; 0: not yet; or a failure: -ETIMEDOUT and a sentence that names who has not
 * answered for so long as the job is patient. */
int comm_test(struct comm *c, struct comm_request *r, struct err *err);

/* Until it is done, or -ETIMEDOUT after `seconds`; INFINITY: as patient as comm_test. It sleeps
 * between looks: cores are for computing. */
int comm_wait(struct comm *c, struct comm_request *r, double seconds, struct err *err);

/* This rank ends in a failure with it under way. 1: its memory is not touched any more; 0: it may
 * be until the process has ended, and is to stay. Zero requests are fine. */
int comm_give_up(struct comm *c, struct comm_request *r);
