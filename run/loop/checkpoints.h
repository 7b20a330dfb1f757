/* checkpoints.h: --export-every. RUN/checkpoint-STEP is the model after STEP steps, a complete
 * Hugging Face folder; of a run with adapters, an adapter folder (peft.h). Nothing is resumed from
 * it: a run commits its own states. After a kill at any time it is either complete or absent, and
 * the next training writes a missing one if its step is still the last.
 *
 * run.db has a checksum of each folder (checkpoint.STEP). With --export-limit K, the oldest folder
 * is removed once a newer one is complete, so K + 1 exist for a moment. Only a folder with its
 * checksum is removed or replaced: one that somebody has changed stays, and does not count any
 * more. */
#pragma once

#include "offload/stream/stream.h"
#include "run/folder/session.h"

/* True if a folder is due after `done` steps: after every N, and after the last. */
int checkpoints_due(const struct session *s, uint64_t done);

/* Remove what killed processes left unfinished. Only rank 0 has such folders. */
void checkpoints_clean(const struct session *s);

/* Before training: refuse a folder that is not this run's and has the name of one to come, and
 * clean. */
int checkpoints_open(struct session *s, uint64_t next, struct err *err);

/* *missing: true if the folder of `done` steps is due but, because of a kill, not complete. */
int checkpoints_missing(struct session *s, uint64_t done, int *missing, struct err *err);

/* Write the folder of `done` steps, and remove the oldest beyond the limit. All ranks call it. If
 * it was asked to stop, the folder is missing: -EINTR after the last step; before that 0, because
 * the training ends before its next step. */
int checkpoints_export(struct session *s, struct stream *stream, uint64_t done, struct err *err);

/* The folders that run.db has, in order of their steps. The caller frees *out. */
int checkpoints_list(uint64_t **out, size_t *n, struct runlog *log, struct err *err);
/* *ours: RUN/checkpoint-STEP has the checksum of run.db. It is 0 if the folder is gone. `path` gets
 * its path. */
enum { CHECKPOINTS_PATH = SESSION_PATH + 48 };
int checkpoints_is_ours(int *ours, char path[CHECKPOINTS_PATH], const struct session *s,
                        uint64_t step, struct err *err);
