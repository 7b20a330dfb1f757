/* gguf_config.h: a model's sizes as the keys of a GGUF file. */
#pragma once

#include "data/json/json.h"
#include "model/file/gguf_names.h"

/* Refuses a model that llama.cpp has no family for, or would compute differently. */
int gguf_config_check(const struct model_config *g, struct err *err);
/* Writes general.* and the architecture's keys. */
void gguf_config_put(struct gguf_writer *w, const struct model_config *g, enum gguf_type type);
/* The factor of RoPE's pair j in the tensor rope_freqs. */
float gguf_rope_factor(const struct rope *r, size_t j);
/* A sentence on what llama.cpp computes differently, or "". */
enum { GGUF_NOTICE = 256 };
void gguf_config_notice(char out[GGUF_NOTICE], const struct model_config *g);

/* Makes the config.json that transformers would have for the file, without checking the sizes: its
 * reader does. Caller decrefs *out. */
int gguf_config_json(json_t **out, struct gguf *file, struct err *err);
