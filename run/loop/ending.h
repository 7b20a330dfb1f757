/* ending.h: when a training ends before its last step: because evaluations have become no better
 * (--early-stopping), or because the time of the process is up (--time-limit). Neither changes what
 * is computed. */
#pragma once

#include "run/folder/session.h"

struct ending {
    /* Early stopping. What is compared is what --keep-best compares. All of it is counted from the
     * evaluations in run.db, so that a kill or a resume changes nothing. */
    char     name[48];    // of the compared value; "": there is no early stopping
    int      larger;      // a larger value is better
    int      over;        // there were as many evaluations without a better value
    int      any;         // one was a number; of the best one:
    uint64_t best_step;   // from 0
    double   best;
    uint64_t since;       // evaluations after it
    /* The time limit, in seconds. */
    double   limit;       // 0: none
    double   step;        // of the slowest recent step; 0: none yet
    double   commit;      // of a commit at the end
    double   evaluation;  // of the last evaluation; 0: unknown
    double   export;      // of the last model that --export-every wrote; 0: unknown
    double   passes;      // of an evaluation: steps that read as many rows
};

/* Read the state of a run that goes on with step `next`. */
int  ending_open(struct ending *e, struct session *s, uint64_t next, struct err *err);

/* Call after an evaluation is stored. It took so many seconds. */
int  ending_evaluated(struct ending *e, struct session *s, uint64_t next, double seconds,
                      struct err *err);
/* Call after a step. commits: it wrote an image (mode mem). */
void ending_step(struct ending *e, const struct session *s, double seconds, int commits);

/* Call after a model was written (--export-every). */
void ending_exported(struct ending *e, double seconds);

/* The seconds that the next step will take, with the commit behind it and, if they are due, its
 * evaluation and its export: as long as the last ones. The first evaluation counts as steps that
 * read as many rows; the first export, as nothing. 0: no step was measured yet. */
double ending_needs(const struct ending *e, int evaluates, int exports);
/* True if the next step would not end within the time limit. The first one of a process always
 * begins, so that each process gets further. */
int    ending_is_time(const struct ending *e, int evaluates, int exports);

/* Record in run.db whether the run is finished (setting "finished"): all its steps are done, or it
 * was stopped early. Of a fine-tuning, rank 0 records it behind the results. */
enum ending_how { ENDING_OPEN, ENDING_STEPS, ENDING_EARLY };
int  ending_record(struct runlog *log, enum ending_how how, struct err *err);
