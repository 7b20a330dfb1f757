/* run.h: a run's parameters and states where they live: on devices (base, su, su+o) or in images
 * (mem). Made once (run_format), then opened for training (run_train: recovers what a crash left,
 * gives the stream) or for reading (run_reader). */
#pragma once

#include "offload/layout/config.h"
#include "offload/stream/stream.h"

/* Make devices or images and the journal's rows (inside a transaction of its own), with masters
 * from `init`, moments zero. On failure nothing that was made is left, and nothing that was there
 * before is touched. */
int run_format(const struct run_config *cfg, const struct params_source *init, struct err *err);

/* The last committed state: the step that comes next and how many updates were applied. */
int run_position(const struct run_config *cfg, uint64_t *next_step, uint64_t *applied,
                 struct err *err);

/* Open for training. Finishes the step of the last commit A first. `notice` gets a sentence if a
 * fall-back was taken. */
int run_train(struct stream **out, const struct run_config *cfg, char *notice, size_t notice_size,
              struct err *err);

/* What run_train will allocate for cfg. */
int run_memory(const struct run_config *cfg, struct run_memory *out, struct err *err);

/* Open for reading masters, of all ranks where there are several (ranks.parts); the caller has made
 * sure that no step is half done (run_train, stream_drain, stream_close). fp32 masters through
 * *source; run_reader_close when done. */
struct run_reader;
int  run_reader(struct run_reader **out, struct params_source *source, const struct run_config *cfg,
                struct err *err);
/* Who reads rounds to dt: where that is what the wire
 * has, the wire is read in place of the states. The same bits, from a sixth of the bytes. */
void run_reader_rounded(struct run_reader *r, enum dtype dt);
void run_reader_close(struct run_reader *r);
/* Bytes of memory that a reader takes. */
int  run_reader_memory(const struct run_config *cfg, uint64_t *bytes, struct err *err);
