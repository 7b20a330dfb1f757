/* streams.h: how the streams there are (stream.h) are opened, each in a file of its name. */
#pragma once

#include "offload/layout/config.h"
#include "offload/stream/stream.h"

/* For training over devices (base, su, su+o). Finishes the step of the last commit A first. notice:
 * a sentence where a fall-back was taken. And what it will allocate. */
int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err);
int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err);

/* For training in mode mem: parameters, states and gradients in RAM, and the images in RUN
 * (image.h) that make them durable. Of what it will allocate frames are the wire copies of layers,
 * device_bytes both images; all of the embeddings and of the final norm is in states. */
int  stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err);
void stream_mem_memory(const struct run_config *cfg, struct run_memory *out);

/* For evaluation and generation, over any source (a Hugging Face folder, a run): blocks are read
 * ahead and converted to dt by a thread; with a frame for every layer everything stays in memory
 * after the first pass. */
int stream_read_open(struct stream **out, const struct params_source *source,
                     const struct route *route, const size_t *block_params, enum dtype dt,
                     size_t frames, struct err *err);
/* What it will allocate: layer_frame, and as frames all others together. */
void stream_read_memory(struct run_memory *out, const struct route *route,
                        const size_t *block_params, enum dtype dt);
