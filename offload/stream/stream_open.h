/* stream_open.h: how each kind of stream (stream.h) is opened, and the memory that it will
 * allocate. Each kind is the file of its name. stream_close frees a stream. Calls return 0 or
 * -errno. */
#pragma once

#include "offload/layout/config.h"
#include "offload/stream/stream.h"

/* Training over devices (base, su, su+o). The step of the last commit A is finished first, if a
 * crash left it half done. notice: gets a sentence if a fall-back was taken. */
int stream_csd_open(struct stream **out, const struct run_config *cfg, char *notice,
                    size_t notice_size, struct err *err);
int stream_csd_memory(const struct run_config *cfg, struct run_memory *out, struct err *err);

/* Training in mode mem: parameters, states and gradients are in RAM; images in RUN (image.h) make
 * them durable. In *out, frames are the layers' wire copies, device_bytes both images, and states
 * include everything of embeddings and final norm. */
int  stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err);
void stream_mem_memory(const struct run_config *cfg, struct run_memory *out);

/* Evaluation and generation from any source (a Hugging Face folder, a run). A thread reads blocks
 * ahead and converts them to dt. frames: of each lane that leaves the number open (route.h). With a
 * frame for every block everything stays in memory after the first pass. source's ctx must outlive
 * the stream. */
int stream_read_open(struct stream **out, const struct params_source *source,
                     const struct route *route, const size_t *block_params, enum dtype dt,
                     size_t frames, struct err *err);
/* *out: layer_frame is one frame of a layer; frames are all frames of other lanes together. */
void stream_read_memory(struct run_memory *out, const struct route *route,
                        const size_t *block_params, enum dtype dt);
