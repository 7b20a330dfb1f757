/* scheduler.h: a training stream over devices, whole: its parts, and the one thread that submits
 * and reaps. Division of labour: the model's thread asks (stream_csd.c) and waits in hub.h; the
 * scheduler's moves blocks between devices and buffers; the committer's writes run.db. */
#ifndef OFFLOAD_SCHEDULER_H
#define OFFLOAD_SCHEDULER_H

#include "offload/act_stack.h"
#include "offload/commits.h"
#include "offload/frames.h"
#include "offload/gradients.h"
#include "offload/hub.h"
#include "offload/subs.h"
#include "offload/updates.h"

struct scheduler {
    struct hub       hub;
    struct subs      subs;
    struct frames    frames;
    struct gradients gradients;
    struct updates   updates;
    struct act_stack acts;
    struct commits   commits;
    pthread_t        thread;
    int              started, stop;
};

/* Open all parts, not yet the thread; after a failure scheduler_close is to be called all the same.
 * The zero state before. */
int  scheduler_open(struct scheduler *s, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err);
void scheduler_close(struct scheduler *s); // waits for what is out

/* While the thread is not there, the devices are its owner's. */
int  scheduler_start(struct scheduler *s, struct err *err);
void scheduler_stop(struct scheduler *s);

/* The bytes of each part, by its plan (run_memory). */
void scheduler_memory(const struct run_config *cfg, const struct store *st, struct run_memory *out);

#endif
