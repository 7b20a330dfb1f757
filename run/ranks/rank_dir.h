/* rank_dir.h: the folders of a run's ranks, and their ids. */
#pragma once

#include "run/folder/session.h"

/* The folder of a rank of RUN: RUN itself is rank 0's folder, RUN.rank1 is rank 1's. Symbolic links
 * in RUN are resolved first. Exception: an older version put the folders next to the link; if one
 * exists there, and none next to the real folder, it is used. */
void rank_dir(char out[SESSION_PATH], const char *run, size_t rank);
/* rank_dir of a folder that is to be opened. Misuse if a link makes it the folder of a lower
 * rank. */
int  rank_dir_find(char out[SESSION_PATH], const char *run, size_t rank, struct err *err);
/* Resolves links in `run`. If it does not exist yet, only its parent is resolved. 0 if there is no
 * parent either. */
int  rank_dir_real(char out[SESSION_PATH], const char *run);

/* Derive a rank's id from `job`, the id of any rank; its digits 4 to 7 are replaced. */
void rank_id_of(char id[33], const char *job, size_t rank);

/* Reads the id of the run in the folder dir; "" if it cannot be read: opening the run says why. */
void rank_id_read(char id[33], const char *dir);

/* True if a and b are ids of ranks of one run. */
int  rank_id_same(const char *a, const char *b);
