/* stream_mem.h: the mem mode: parameters, states and gradients in RAM, and the images in RUN
 * (image.h) that make them durable. */
#ifndef OFFLOAD_STREAM_MEM_H
#define OFFLOAD_STREAM_MEM_H

#include "offload/config.h"

int stream_mem_open(struct stream **out, const struct run_config *cfg, struct err *err);

/* Bytes that stream_mem_open will allocate: frames (wire copies of layers), grads, states,
 * compress, spans, layer_frame, layer_grad; device_bytes: both images. Those of the embeddings and
 * of the final norm are in states. */
void stream_mem_memory(const struct run_config *cfg, struct run_memory *out);

#endif
