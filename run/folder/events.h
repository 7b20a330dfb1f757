/* events.h: what happens in the life of a run, told to whoever makes, trains or reads it. Nothing
 * in this room prints, looks at a terminal or at a signal: it calls these. Every member may be
 * NULL, and so may the struct: then nobody hears it. They are called by the thread that called into
 * this room; what they are handed is theirs until they return. Steps are counted from 0. */
#pragma once

#include "data/base/watch.h"
#include "model/step.h"
#include "offload/estimate/budget.h"

struct train_opts;
struct mem_choice;

/* A training is open and its first step begins. */
struct training_begins {
    const struct train_opts *o;    // what the run is trained with
    const struct model_config *config;
    const struct budget     *plan; // of the memory
    const char              *engine;
    uint64_t                 first; // steps first .. o->steps - 1 are trained
    const struct mem_choice *mem;   // whether --mode mem would do; of a run that begins
};

/* A step is over; a later one may be at work on the devices still. */
struct training_step {
    uint64_t                  step;
    const struct step_result *result;
    double                    hidden;   // share of the devices' time in which computing did not
                                        // wait, since the training was opened; negative: none
    uint64_t                  rss_peak; // bytes
};

/* An evaluation after a step is over and stored. */
enum { EVALUATION_VALUES = 8 };
struct training_evaluation {
    struct { char name[48]; double value; } value[EVALUATION_VALUES];
    size_t      n;
    uint64_t    step;
    uint64_t    count;  // what was evaluated,
    const char *counts; // "tokens" or "rows"
    int         best;   // the best so far: RUN/best is this model
};

/* Parameters that generating has to read again for every token. */
struct streaming {
    size_t blocks, streamed;         // of the model; read for each token, since not all stay
    double token_bytes, byte_second; // read for each token; the rate that was measured
};

struct events {
    void *ctx; // handed to all

    void (*notice)(void *ctx, const char *sentence); // something that a person should know

    void (*training)(void *ctx, const struct training_begins *t);
    void (*step)(void *ctx, const struct training_step *s);
    void (*evaluation)(void *ctx, const struct training_evaluation *e);
    void (*streaming)(void *ctx, const struct streaming *s);

    /* Work that lasts and is no step, such as "reading FILE". One at a time; total 0: not known. */
    void (*work_begins)(void *ctx, const char *what);
    void (*work_goes_on)(void *ctx, uint64_t done, uint64_t total);
    void (*work_ends)(void *ctx);

    /* Is the end wanted? Asked between steps, between the batches of an evaluation, and between the
     * pieces of work. What was asked to end does, without losing anything that was done. */
    int  (*asked_to_stop)(void *ctx);
    /* What an end that is asked for from here on waits for ("when step 3 is done"), in about so
     * many seconds (0: not known); and what a kill from here on costs ("--resume ..."). NULL:
     * nothing that is worth a word. */
    void (*stop_waits)(void *ctx, const char *until, double seconds);
    void (*kill_costs)(void *ctx, const char *what);
};

/* ---- for who tells ---- */

void events_notice(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int  events_asked_to_stop(const struct events *e);
/* "when step STEP is UNTIL" */
void events_stop_waits(const struct events *e, double seconds, uint64_t step, const char *until);
void events_kill_costs(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Work that lasts: what is returned is handed to who does it. */
struct watch work_begin(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void work_end(const struct events *e);
