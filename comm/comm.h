/* comm.h: the ranks of a job: processes, on one host or several, that work on one model together.
 * Only rank 0 prints.
 *
 * On each channel all ranks make the same calls in the same order, and a receiver expects exactly
 * the bytes that are sent. Channels are independent: several threads may call, each on channels of
 * its own. Small data are shared, which waits. Large data are exchanged: the caller begins an
 * exchange, does other things, and tests now and then. Bytes go directly from the rank that has
 * them to the rank that wants them, so traffic follows from the calls alone. A rank uses what it
 * gets in the order of ranks, so no result depends on which rank was first.
 *
 * One process alone is a job of one rank ("self"), which initialises nothing. mpirun or srun start
 * jobs of several ranks, which use MPI ("mpi"). Only comm_mpi.c knows MPI.
 *
 * Calls return 0 or -errno with a sentence, unless they say otherwise. */
#pragma once

#include "data/base/err.h"

struct comm_ops;
struct comm { // first member of every kind
    const struct comm_ops *ops; // NULL: alone, with nobody to exchange with
    size_t rank, size;
    double patience; // seconds to wait for another rank's answer (comm_test); 0: for ever
};

/* An exchange with one other rank. A pointer may be NULL if its bytes are 0. The caller does not
 * touch the memory until the exchange is done. */
struct comm_peer {
    const void *send;
    size_t      send_bytes;
    void       *recv;
    size_t      recv_bytes;
};

/* A request is { 0 } before it begins and after it is done. Time in which this process did not run
 * (it was stopped, the machine slept) does not count as waited. */
struct comm_request { void *own; uint64_t looked_ns, waited_ns; };

/* comm_share uses the first channel. */
enum comm_channel { COMM_SHARES, COMM_PARAMS, COMM_GRADIENTS, COMM_COMMITS, COMM_FILES,
                    COMM_CHANNELS };

struct comm_ops {
    int  (*exchange)(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                     struct comm_request *r, struct err *err);
    int  (*test)(struct comm *c, struct comm_request *r, size_t *waits_for, struct err *err);
    int  (*give_up)(struct comm *c, struct comm_request *r);
    void (*who)(const struct comm *c, size_t rank, char *out, size_t n);
    int  (*near)(const struct comm *c, size_t a, size_t b); // on one host; NULL: all are
    void (*abort)(struct comm *c, int code);
    void (*close)(struct comm *c);
};

/* The number of ranks that mpirun or srun has started, as it says; 1 if neither says so. */
size_t comm_started(void);

/* True if one of them started this process, even as the only one. */
int comm_by_starter(void);

/* Join the job. Waits until all ranks have called it. Several ranks in a program without MPI are
 * misuse. */
int comm_open(struct comm **out, struct err *err);

/* For comm_open alone, once in a process. Weak: NULL if siTrain is built without MPI. */
int comm_mpi_open(struct comm **out, struct err *err) __attribute__((weak));

/* All ranks call it, and it waits for all. NULL is fine. */
void comm_close(struct comm *c);

/* The first rank on the host of `rank`. Hosts of one name are told apart. */
size_t comm_host(const struct comm *c, size_t rank);

/* This rank cannot go on: end all ranks with this exit code. Returns only in a job of one rank. */
void comm_abort(struct comm *c, int code);

/* all: (size, bytes) gets what each rank gave, in the order of ranks; `mine` may lie in it. With
 * bytes 0 it only waits for all ranks. Waits as patiently as comm_test. */
int comm_share(struct comm *c, const void *mine, size_t bytes, void *all, struct err *err);
/* Around work that rank 0 does before the others: comm_first_begin waits, in the others, until rank
 * 0 has called comm_first_end. All ranks call both, unless they fail. NULL is fine. */
int comm_first_begin(struct comm *c, struct err *err);
int comm_first_end(struct comm *c, struct err *err);
/* comm_share with new memory for `all`. It is returned, and the caller frees it. NULL: *rc is an
 * error. */
void *comm_collect(struct comm *c, const void *mine, size_t bytes, int *rc, struct err *err);

/* Begin an exchange. peers: (size); what this rank sends itself is copied at once. peers is not
 * used after the call. */
int comm_exchange(struct comm *c, enum comm_channel channel, const struct comm_peer *peers,
                  struct comm_request *r, struct err *err);

/* Begin to gather. buf has a part for each rank; rank p's is bytes [at[p], at[p + 1]), at: (size +
 * 1). This rank's part is in its place; the others' parts come into theirs. */
int comm_gather(struct comm *c, enum comm_channel channel, void *buf, const size_t *at,
                struct comm_request *r, struct err *err);

/* Never waits. 1: done; 0: not yet; or -errno. -ETIMEDOUT: the sentence names the rank that has not
 * answered for c->patience. */
int comm_test(struct comm *c, struct comm_request *r, struct err *err);

/* Waits until it is done, or for `seconds`, then -ETIMEDOUT. INFINITY: as patiently as comm_test.
 * The thread sleeps between looks, because cores are for computing. */
int comm_wait(struct comm *c, struct comm_request *r, double seconds, struct err *err);

/* This rank fails with a request under way. 1: the request's memory is not used any more; 0: it may
 * be used until the process ends, and must stay. { 0 } is fine. */
int comm_give_up(struct comm *c, struct comm_request *r);
