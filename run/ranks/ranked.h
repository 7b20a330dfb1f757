/* ranked.h: a run that several processes make and train together (offload/layout/ranks.h), each in
 * a folder of its own: what they settle with each other. One process alone is at one with itself.
 */
#pragma once

#include "comm/comm.h"
#include "run/folder/session.h"

/* The folder of a rank of the run RUN: RUN itself is rank 0's, RUN.rank1 that of the next. It
 * stands next to the folder that RUN is, whatever names or links it was given by; or next to the
 * name, where one is there that an older version made. */
void ranked_dir(char out[SESSION_PATH], const char *run, size_t rank);

/* s->id, a name for ever: 32 hex digits. Ranks have the same but for the digits 4 to 7, their
 * number: so what they make at the same place has different names. */
int  ranked_id(struct session *s, struct err *err);

/* The same from what a job has in common: digits 4 to 7 of `job` do not count. */
void ranked_id_of(char id[33], const char *job, size_t rank);

/* Are they parts of one run? */
int  ranked_together(const struct session *a, const struct session *b);

/* All ranks, before they open a run that is there, each its own folder of it: those that a kill
 * left without the name run.db when rank 0's had got it (place.h) get it. */
int  ranked_finish(const char *dir, struct comm *comm, struct err *err);

/* One process alone is to read all of it: open the other ranks' folders beside s, which is rank 0's
 * and was opened as `path`. Nothing is done for a run of one rank. They are closed with s. */
int  ranked_see(struct session *s, const char *path, enum session_how how, struct err *err);

/* Misuse: whose part it is, of a run of several ranks of which it is not rank 0's, and what is
 * missing. It was opened as `path`. */
int  ranked_part(const struct session *s, const char *path, struct err *err);
/* Whether it stands where its rank's part is looked for. */
int  ranked_is_placed(const struct session *s);

/* The ranks that train it: as many as it was made by, each with its own part of one run. NULL:
 * alone. */
int  ranked_join(struct session *s, struct comm *comm, struct err *err);

/* --keep-best of several ranks is not known: misuse. */
int  ranked_keeps(const struct session *s, struct err *err);

/* --groups, settled, and whether a step's micro-batches can be divided so: misuse. */
int  ranked_groups(struct session *s, struct err *err);

/* Which blocks stay in their frames must be the same everywhere: what one rank does not read again
 * it does not send. s->run.frames: the fewest that one of them has room for. */
int  ranked_frames(struct session *s, struct err *err);

/* What decides what is computed is the same on all ranks: options, the model and, where s->log is
 * open, the data. Else misuse, which names what differs from rank 0's. */
int  ranked_alike(struct session *s, struct err *err);

/* Before the first step, which is the same everywhere, as all that ranked_alike looks at. *missing:
 * an evaluation is, in any rank's folder: then all evaluate. */
int  ranked_begin(struct session *s, uint64_t next, int *missing, struct err *err);

/* Is it the same engine everywhere, with as many threads? Else a notice: the last bits may depend
 * on which rank computes what. */
int  ranked_engines(struct session *s, const char *engine, struct err *err);

/* All have opened what they train, however long that took; from here on --rank-timeout counts. */
int  ranked_patience(struct session *s, struct err *err);

/* Is the end asked for, of any rank? 1; 0; or a failure. All ask between the same steps. */
int  ranked_stop(struct session *s, struct err *err);
