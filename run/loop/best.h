/* best.h: --keep-best. RUN/best is the model of the best evaluation so far, a complete Hugging Face
 * folder; of a run with adapters, an adapter folder (peft.h), because its base does not change.
 * After a kill at any time it is either complete or absent.
 *
 * A new folder is written as RUN/best.new-HEX and replaces RUN/best in one step. Then run.db
 * records it (best.step, best.name, best.value), in the transaction that stores the evaluation. If
 * a kill comes between the two, the evaluation is missing. The next resume repeats the evaluation
 * and the export, with identical bits. */
#pragma once

#include "model/file/hf.h"
#include "run/sources/source.h"

struct best {
    int      any;
    uint64_t step;
    double   value, seconds[TASK_SPLITS];
    uint32_t sum; // checksum of its files (safetensors.h); 0: an older version made the run
};

/* Load the record of the best model from run.db. out->any is 0 if there is none. */
int best_load(struct best *out, struct session *s, struct err *err);
/* Load the record before training. If the run keeps its best model and RUN/best belongs to somebody
 * else, it is refused. */
int best_open(struct best *out, struct session *s, struct err *err);
/* Remove the leftovers of a killed export, or give them their name back. Only for a process that
 * has the devices: if run.lock was removed, another one may still be at work on these folders. */
int best_clean(const struct session *s, struct err *err);

/* True if a process was killed as it made a model with this checksum RUN/best. */
int best_is_next(struct session *s, uint32_t sum);

/* True if this evaluation is better than b. A value that is not a number is never better. */
int best_beats(const struct best *b, const struct source_values *v);

/* Export the parameters of the drained stream to RUN/best. `step` labels the metered reads. */
int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err);

/* Open RUN/best and check that it is complete and that it is the folder that run.db records. A run
 * with adapters gives *adapter, on the parameters `base` by the run's blocks; any other *out.
 * Requires b->any. If a check fails, the sentence says what to do. verified: the caller has already
 * compared the bytes of a whole model with their checksums, so they are not read again. */
struct peft;
int best_folder(struct hf **out, struct peft **adapter, const struct params_source *base,
                const struct best *b, const struct session *s, int verified, struct err *err);

/* Make the best model of a snapshot RUN/best again, if the run has another one. run.db then knows
 * it as the one that is about to be the best; best_take_record, in the caller's transaction,
 * records it. If the snapshot has none, the run has none, and its next one replaces RUN/best, which
 * run.db still knows. */
int best_take(struct session *s, struct session *snapshot, struct err *err);
/* Refuse what best_take would refuse. It changes nothing. */
int best_take_check(struct session *s, struct session *snapshot, struct err *err);
int best_take_record(struct session *s, struct session *snapshot, struct err *err);

/* Record RUN/best in run.db, in the caller's transaction. */
int best_store(struct best *b, struct session *s, const struct source_values *v, struct err *err);
