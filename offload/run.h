/* run.h: a run's parameters and states where they live: on devices (base, su, su+o) or in images
 * (mem). They are made once (run_format), then opened for training (run_train gives a stream) or
 * for reading (run_reader). Calls return 0 or -errno with a sentence. */
#pragma once

#include "offload/layout/config.h"
#include "offload/stream/stream.h"

/* Make devices or images, and the journal's rows in a transaction. Masters come from `init`,
 * moments are zero. After a failure nothing new is left, and nothing that existed before was
 * touched. */
int run_format(const struct run_config *cfg, const struct params_source *init, struct err *err);

/* The last committed state: the step that comes next, and how many updates were applied. */
int run_position(const struct run_config *cfg, uint64_t *next_step, uint64_t *applied,
                 struct err *err);

/* Open for training; the caller calls stream_close. A step that a crash left half done is finished
 * first. `notice` gets a sentence if a fall-back was taken. */
int run_train(struct stream **out, const struct run_config *cfg, char *notice, size_t notice_size,
              struct err *err);

/* The memory that run_train will allocate. */
int run_memory(const struct run_config *cfg, struct run_memory *out, struct err *err);

/* Open for reading, of all ranks if there are several (ranks.parts). *source gives fp32 masters
 * until run_reader_close. No step may be half done (run_train and stream_drain finish one). */
struct run_reader;
int  run_reader(struct run_reader **out, struct params_source *source, const struct run_config *cfg,
                struct err *err);
/* The caller rounds what it reads to dt. If wire parameters have that type, they are read instead
 * of states: the same bits after rounding, from a sixth of the bytes. */
void run_reader_rounded(struct run_reader *r, enum dtype dt);
void run_reader_close(struct run_reader *r);
/* Bytes of memory that a reader allocates. */
int  run_reader_memory(const struct run_config *cfg, uint64_t *bytes, struct err *err);
