/* stream_read.h: the stream for evaluation and generation: a thread that reads ahead converts
 * masters of any source. */
#ifndef OFFLOAD_STREAM_READ_H
#define OFFLOAD_STREAM_READ_H

#include "offload/config.h"

/* Over any source (a Hugging Face folder, a run): blocks are read and converted to dt as they are
 * needed; with frames == n_blocks - 2 everything stays in memory after the first pass. */
int stream_read_open(struct stream **out, const struct params_source *source, size_t n_blocks,
                     const size_t *block_params, enum dtype dt, size_t frames, struct err *err);

#endif
