/* job_run.h: coordination between the ranks of a run (offload/layout/ranks.h). Several processes
 * create and train the run together, each in its own folder. In a single process these functions
 * succeed without communication. */
#pragma once

#include "comm/comm.h"
#include "run/folder/session.h"

/* rank_dir_find for this process; comm NULL: for a single one. All ranks call it. Misuse if
 * another rank 0's folder is named here than on rank 0, where both run on one host. */
int  job_run_own_dir(char out[SESSION_PATH], const char *run, struct comm *comm, struct err *err);

/* Generate s->id, 32 hex digits, which never changes. All ranks' ids are equal except for digits 4
 * to 7, the rank. Files of different ranks in one folder therefore have different names. */
int  job_run_id(struct session *s, struct err *err);

/* True if a and b are ranks of one run. */
int  job_run_together(const struct session *a, const struct session *b);

/* Complete a run whose creation was interrupted by a kill (creation.h). All ranks call this before
 * they open the run, each with its own folder. If rank 0's folder is a run, the other ranks'
 * folders become runs, too. */
int  job_run_finish(const char *dir, struct comm *comm, struct err *err);

/* Open the other ranks' folders, so that one process can read the whole run. s is rank 0's session,
 * opened as `path`. If the run has one rank, this does nothing. session_close(s) closes the
 * others. */
int  job_run_see(struct session *s, const char *path, enum session_how how, struct err *err);

/* Always returns misuse. The sentence names the rank that s belongs to and what to open instead. s
 * is not rank 0's folder and was opened as `path`. */
int  job_run_part(const struct session *s, const char *path, struct err *err);
/* True if the folder's name is the one that rank_dir gives for its rank. */
int  job_run_is_placed(const struct session *s);

/* session_open of this rank's folder. Rank 0 takes its lock first: of two jobs that begin at once,
 * one gets the folders of all ranks. Misuse if the number of ranks differs from the number that
 * created the run, if the folder is another rank's, or if a link leads to a rank's folder that lies
 * next to another folder of rank 0. All ranks call this, unless they fail. comm NULL: a single
 * process. */
int  job_run_open(struct session *s, const char *dir, enum session_how how,
                  const struct events *events, struct comm *comm, struct err *err);
/* job_run_open between comm_first_begin and comm_first_end, which the caller calls. */
int  job_run_open_own(struct session *s, const char *dir, enum session_how how,
                      const struct events *events, struct comm *comm, struct err *err);

/* Attach the ranks that train the run. Misuse as of job_run_open, or if a rank's folder is of
 * another run than rank 0's, or if rank 0's folder is a copy and this rank would write to a folder
 * of the original. Otherwise this rank records rank 0's folder (RANK_OWNER_FIRST). All ranks call
 * this, unless they fail. comm NULL: a single process. */
int  job_run_join(struct session *s, struct comm *comm, struct err *err);

/* Returns misuse if --keep-best is set and the run has several ranks. */
int  job_run_keeps(const struct session *s, struct err *err);

/* Set s->o.groups to its default, the number of ranks, if it is 0. Returns misuse if groups or
 * micro-batches cannot be divided evenly, or if an option does not support several groups. */
int  job_run_groups(struct session *s, struct err *err);

/* Set s->run.frames to the minimum over all ranks. All ranks must keep the same blocks in memory,
 * because a rank does not send a block that it does not read again. */
int  job_run_frames(struct session *s, struct err *err);

/* Check that all ranks have the same options that affect results, the same model and, if s->log is
 * open, the same data. Otherwise misuse; the sentence names the first difference from rank 0. */
int  job_run_alike(struct session *s, struct err *err);

/* Each rank takes rank 0's values of those options of its run that a resume may change and all
 * ranks share, unless `given` has them. A process that was stopped as it stored changed options may
 * have stored them on some ranks only. first: this rank's folder has stored none yet, as an import
 * has none. All ranks call this, unless they fail. */
int  job_run_level(struct session *s, const struct opt_line *given, int first, struct err *err);
/* The same for ranks that are restored, which keep the options of their branch: all take those of
 * the first rank that is not on its way back, if there is one, and else rank 0's. */
int  job_run_level_branch(struct session *s, struct err *err);

/* rc: the result of a part of a run's making that a rank's time limit may end (err_time). Then it
 * ends so on all ranks. All ranks call this, unless they fail. */
int  job_run_in_time(struct comm *comm, int rc, struct err *err);

/* Check before the first step that all ranks are alike (job_run_alike) and continue at the same
 * step. *missing: in, bits for what this rank's last step lacks, such as its evaluation; out, what
 * any rank's lacks. Then all make up for it. */
int  job_run_begin(struct session *s, uint64_t next, int *missing, struct err *err);

/* Compare the BLAS engine and the number of threads of all ranks. If they differ, a notice says
 * that the last bits may depend on which rank computes what. */
int  job_run_engines(struct session *s, const char *engine, struct err *err);

/* Wait until all ranks have opened the run. --rank-timeout applies from here on. */
int  job_run_patience(struct session *s, struct err *err);

/* Why training ends between two steps. Reasons come first that count more. */
enum job_stop { JOB_GOES_ON, JOB_ASKED, JOB_EARLY, JOB_TIME };

/* The reason for which any rank ends, or -errno. own: this rank's, unless it was asked to stop. All
 * ranks call this between the same steps, and get the same answer. *readers, how many processes
 * wait for the model, becomes the sum over all ranks. */
int  job_run_stop(struct session *s, enum job_stop own, uint64_t *readers, struct err *err);
