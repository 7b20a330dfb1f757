/* stream_mem.h: the mem mode: parameters, states and gradients in RAM, and the images in RUN that
 * make them durable. run.c hands the mem part of run.h's functions to these. */
#ifndef OFFLOAD_STREAM_MEM_H
#define OFFLOAD_STREAM_MEM_H

#include "offload/config.h"

/* Write RUN/image0 (masters from `init`, moments zero) and the journal's rows, in a transaction of
 * its own. On failure the image is removed. */
int stream_mem_format(const struct run_config *cfg, const struct params_source *init,
                      struct err *err);

int stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err);

/* The last committed state. */
int stream_mem_position(const struct run_config *cfg, uint64_t *next_step, uint64_t *applied,
                        struct err *err);

/* Bytes that stream_mem_open will allocate: frames (wire copies of layers), grads, states,
 * compress, spans, layer_frame, layer_grad; device_bytes: both images. Those of the embeddings and
 * of the final norm are in states. */
void stream_mem_memory(const struct run_config *cfg, struct run_memory *out);

/* Masters of the committed image. It is verified as a whole, once, here. *source is valid until the
 * close. */
struct mem_reader;
int  stream_mem_reader(struct mem_reader **out, struct params_source *source,
                       const struct run_config *cfg, struct err *err);
void stream_mem_reader_close(struct mem_reader *r); // NULL is fine

#endif
