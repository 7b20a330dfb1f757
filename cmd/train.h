/* train.h: how pretrain and finetune begin, alone or as a rank of a job, with a new run or with one
 * that goes on; and how they end. */
#pragma once

#include "data/opt/opt.h"
#include "run/folder/session.h"

/* The rows of options that say which run is trained. */
#define TRAIN_RUN_ROWS(run, resume, from)                                                          \
    { "run", OPT_STRING, run, .arg = "RUN", .help = "Folder of the new run" },                     \
    { "resume", OPT_STRING, resume, .arg = "RUN",                                                  \
      .help = "Run to continue from its last commit" },                                            \
    { "from", OPT_UINT, from, .arg = "STEP",                                                       \
      .help = "With --resume: the snapshot to go back to, by the number of steps that were done. " \
              "Options such as --lr, --batch and --seed may change then. What was done beyond it " \
              "stays as a branch in reports, and a snapshot of the present state is kept." }

/* Opens the job (*comm NULL: this process is alone), and gives this rank's folder of the new run
 * or of the one to resume; of the two, one must be given. Other ranks than the first are quiet. */
int train_begin(char dir[SESSION_PATH], struct comm **comm, const char *run, const char *resume,
                struct train_opts *o, struct err *err);

/* Refuses --from without --resume, or with --device, or another one than rank 0's. All ranks call
 * this. */
int train_check_from(const struct opt_line *line, const char *resume, uint64_t from,
                     struct comm *comm, struct err *err);

/* Opens the run in this rank's folder for training. resumes: it may be left from a kill. */
int train_open(struct session *s, const char *dir, int resumes, const struct opt_line *line,
               struct comm *comm, struct err *err);

/* With --from on the line: takes the open run back to its snapshot of that step, and opens it
 * again. check refuses what the resume would refuse, before anything changes (going_back.h). */
int train_go_back(struct session *s, const char *dir, uint64_t from, struct opt_line *line,
                  int (*check)(struct session *s, struct opt_line *line, struct err *err),
                  struct comm *comm, struct err *err);

/* Leaves out the head of a classifier, whose body is trained as a language model; a notice says
 * so. init: where the model comes from. */
int train_without_head(struct model_config *g, const char *init, const struct events *events,
                       struct err *err);

/* Trains, and says how it ended. -errno with a sentence, or the command's exit code: 0, or 130 if
 * it was asked to stop. *finished: the run has nothing left to train. */
int train_to_end(struct session *s, int *finished, struct err *err);
