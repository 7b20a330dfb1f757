/* rank_again.h: makes the folder of a rank again that is lost, as with its host. run.db and the
 * tokenizer come from its part of a snapshot, which has the form of a run; the tokens and rows that
 * lie in a run's folder from another rank, since all ranks have the same. The folder that is made
 * says in its run.db that it is on its way back to that snapshot (back.h). Its devices are missing
 * still: they are made as any that is lost (run/snapshots/lost.h). */
#pragma once

#include "run/folder/session.h"

/* Open this rank's folder of a run that is restored (SESSION_RESTORE), and make it before if it is
 * no run; then it must be absent or empty, as that of a new run. All ranks call it. *made: how
 * many folders were made. named: as of lost_apart_check. After a kill the same goes on. The caller
 * closes s, also after a failure. */
int rank_again_open(struct session *s, const char *dir, const struct opt_strings *named,
                    struct comm *comm, const struct events *events, size_t *made,
                    struct err *err);
