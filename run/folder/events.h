/* events.h: callbacks that report what happens to a run to the program that uses it. The code in
 * run/ does not print, and does not look at terminals or signals; it calls these. Every member may
 * be NULL, and so may the struct. The thread that called into run/ calls them. Arguments are valid
 * only during the call. Steps count from 0. */
#pragma once

#include "data/base/watch.h"
#include "model/step.h"
#include "offload/estimate/budget.h"

struct train_opts;
struct mem_choice;

/* A source of a training's rows. */
struct training_source {
    char    *name;         // the file or folder that it comes from
    uint64_t tokens, rows; // rows of an epoch
    uint64_t taken;        // rows that were read so far
    uint64_t tokens_taken; // tokens of these; of rows that are padded or packed, by their mean
    double   share;        // its part of the training's rows
    int      weighted;     // its share is a weight
};

/* A training is open, and its first step begins. */
struct training_begins {
    const struct train_opts *o;    // training options
    const struct model_config *config;
    int                      varies; // rows are padded or packed, so a step may have fewer tokens
    const struct budget     *plan; // memory plan
    const char              *engine;
    int                      by_threads; // the last bits depend on the number of threads
    uint64_t                 first; // steps first .. o->steps - 1 are trained
    const struct mem_choice *mem;   // whether --mode mem would fit; only of a new run
    const struct training_source *sources; // (n_sources); 0: they are not known
    size_t                   n_sources;
    uint64_t                 step_rows; // rows of a step; of preferences, pairs
    int                      tunes;     // a fine-tuning, which counts in epochs
};

/* A step is complete. The devices may still be working on it. */
struct training_step {
    uint64_t                  step;
    const struct step_result *result;
    double                    hidden;   // share of the devices' busy time in which computing
                                        // did not wait, since the open; negative: none
    uint64_t                  rss_peak; // bytes
};

/* An evaluation after a step is complete and stored. */
enum { EVALUATION_VALUES = 8 };
struct training_evaluation {
    struct { char name[48]; double value; } value[EVALUATION_VALUES];
    size_t      n;
    uint64_t    step;
    uint64_t    count;  // number of tokens or rows
    const char *counts; // "tokens" or "rows"
    int         best;   // the best so far, and RUN/best is this model
};

/* Parameters that generation must read again for every token. */
struct streaming {
    size_t blocks, streamed;         // blocks of the model; blocks read for each token
    double token_bytes, byte_second; // bytes read for each token; measured bytes/s
};

struct events {
    void *ctx; // passed to all callbacks

    void (*notice)(void *ctx, const char *sentence); // for the user to read

    void (*training)(void *ctx, const struct training_begins *t);
    void (*step)(void *ctx, const struct training_step *s);
    void (*evaluation)(void *ctx, const struct training_evaluation *e);
    void (*streaming)(void *ctx, const struct streaming *s);

    /* Long work that is not a step, such as "reading FILE". There is one at a time. total 0:
     * unknown. */
    void (*work_begins)(void *ctx, const char *what);
    void (*work_goes_on)(void *ctx, uint64_t done, uint64_t total);
    void (*work_ends)(void *ctx);

    /* Returns true to request a stop. Called between steps, between the batches of an evaluation,
     * and between the pieces of long work. The code then ends without losing completed work. */
    int  (*asked_to_stop)(void *ctx);
    /* stop_waits: what a stop requested from now on waits for ("when step 3 is done"), and about
     * how long (0: unknown). kill_costs: what a kill from now on loses ("--resume ..."); NULL:
     * nothing of interest. */
    void (*stop_waits)(void *ctx, const char *until, double seconds);
    void (*kill_costs)(void *ctx, const char *what);
};

/* ---- for the code that reports ---- */

void events_notice(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int  events_asked_to_stop(const struct events *e);
/* Calls stop_waits with "when step STEP is UNTIL". */
void events_stop_waits(const struct events *e, double seconds, uint64_t step, const char *until);
void events_kill_costs(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Begin and end long work. Pass the result to the function that does the work. */
struct watch work_begin(const struct events *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void work_end(const struct events *e);
