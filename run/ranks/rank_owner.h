/* rank_owner.h: which folder of rank 0 the folder of a rank belongs to. If several copies of rank
 * 0's folder reach one rank's folder by links, it belongs to the one with which it was last opened
 * for writing. All functions return 0, misuse whose sentence names the owner, or -errno: nobody
 * could look. */
#pragma once

#include "comm/comm.h"
#include "run/folder/session.h"

/* A setting of all ranks but rank 0: rank 0's folder with which this one was last opened for
 * writing, in the form of `place` (moved.h). */
#define RANK_OWNER_FIRST "place.first"

/* Refuses a rank's folder that belongs to `original`, the folder of which rank 0's is a copy
 * (moved_original). original "": rank 0's is no copy, or its original is gone. */
int rank_owner_original(const char *dir, size_t rank, const char *original, struct err *err);

/* Refuses a rank's folder to which the link `dir` leads, if another folder of rank 0 of the same
 * run lies next to it: the rank's folder belongs to that one. id: the run's, as any rank has it. */
int rank_owner_neighbour(const char *dir, size_t rank, const char *id, struct err *err);

/* Both, and refuses a folder whose RANK_OWNER_FIRST is another than rank 0's folder `first`. Call
 * it before a single process opens a rank's folder for writing. */
int rank_owner_check(const struct session *first, const char *dir, size_t rank, struct err *err);

/* Refuses the rank's folder s if the folder of its RANK_OWNER_FIRST is still a run, unless s is a
 * copy to which no link leads. Call it before rank 0's folder, which is lost, is made again. */
int rank_owner_gone(const struct session *s, struct err *err);

/* True if the name `dir` of a rank's folder is a link, or nobody could look. */
int rank_owner_is_link(const char *dir);

/* Rank 0 looks whether the other ranks' folders belong to its own, which they then record. All
 * ranks call this, unless they fail. */
int rank_owner_join(struct session *s, struct comm *comm, struct err *err);
