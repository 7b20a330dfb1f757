/* gguf_export.h: writes a model as a GGUF file, which llama.cpp and Ollama run. */
#pragma once

#include "data/tensors/gguf.h"
#include "model/file/hf.h"

struct gguf_export {
    const struct hf_export *model;    // the same source as a folder's: config, source, tokenizer,
                                      // generation, watch and notice count
    enum gguf_type          type;     // of matrices
    const char             *template; // the chat template, or NULL
};

/* The word of a type for --gguf-type: f32, f16, bf16, q8_0; NULL past the last. */
const char    *gguf_type_word(size_t i);
enum gguf_type gguf_type_at(size_t i);

/* Writes the whole file under a temporary name next to `path`, and leaves it open in *w: the
 * caller commits it. The same model and tokenizer always give the same bytes. Memory holds the
 * header and a part of one tensor. */
int gguf_export(struct gguf_writer *w, const char *path, const struct gguf_export *x,
                struct err *err);
