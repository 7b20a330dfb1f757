/* best.h: --keep-best: RUN/best is the model after the best evaluation so far, a complete Hugging
 * Face folder. It is whole or absent whatever is killed when: a new one is made under another name
 * (RUN/best.new-HEX) and takes its place in one step; only then is it named in run.db (best.step,
 * best.name, best.value), in the transaction of the evaluation's rows. A kill between leaves an
 * evaluation that is missing: the next resume makes it, and the folder, again, to the same bits. */
#pragma once

#include "model/hf.h"
#include "run/sources/feed.h"

struct best {
    int      any;
    uint64_t step;
    double   value, seconds[TASK_SPLITS];
    uint32_t sum; // of its files (safetensors.h); 0: of a run that was made before there was one
};

/* What run.db says; any 0 where no evaluation was kept. */
int best_load(struct best *out, struct session *s, struct err *err);
/* The same before a training: what a killed export left is removed, or gets its name back. Where
 * the run is to keep its best, a RUN/best that is somebody else's is refused. */
int best_open(struct best *out, struct session *s, struct err *err);

/* Is this evaluation better? One that is no number is not. */
int best_beats(const struct best *b, const struct feed_values *v);

/* Put the parameters of the drained stream into RUN/best. step: under which reads are metered. */
int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err);

/* Open RUN/best as *b, which is not empty, has it: whole, and the one that run.db names. What is
 * not so is said, and what to do. */
int best_folder(struct hf **out, const struct best *b, const struct session *s, struct err *err);

/* Name the one that is there, inside the caller's transaction. */
int best_store(struct best *b, struct session *s, const struct feed_values *v, struct err *err);
