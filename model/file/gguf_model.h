/* gguf_model.h: a GGUF file as a source of parameters. For hf.c alone, which opens models. */
#pragma once

#include "data/json/json.h"
#include "model/arch/arch.h"

struct gguf_model; // an open file

/* Reads the file's sizes as a config.json (gguf_config_json). Caller decrefs *out. */
int gguf_model_config(json_t **out, const char *path, struct err *err);
/* Opens a file, and checks that it has every tensor of the model, in the right shape and in a type
 * that is read, and no others. */
int  gguf_model_open(struct gguf_model **out, const char *path, const struct model_config *g,
                     struct err *err);
void gguf_model_close(struct gguf_model *m); // NULL is allowed
uint32_t gguf_model_sum(const struct gguf_model *m); // checksum of the header
/* The number of its tensors, and the file's bytes. */
size_t gguf_model_tensors(const struct gguf_model *m, uint64_t *bytes);
/* Reads n elements of tensor t of a block from `in` on, as Hugging Face stores them. */
int gguf_model_read(struct gguf_model *m, size_t block, size_t t, size_t in, size_t n, float *out,
                    struct err *err);
