/* gguf_names.h: what llama.cpp calls the families and their tensors, and how its files store them
 * differently from Hugging Face's. */
#pragma once

#include "data/tensors/gguf.h"
#include "model/arch/arch.h"

/* How the rows of a tensor in a GGUF file follow from ours. */
enum gguf_rows {
    GGUF_ROWS_PLAIN,       // they are the same
    GGUF_ROWS_INTERLEAVED, // RoPE's pairs (j, j + D/2) of a head become neighbours
    GGUF_ROWS_TRANSPOSED,  // our columns: our matrices are (in, out), GGUF's are (out, in)
};

struct gguf_family {
    const struct arch *arch;
    const char        *name;    // general.architecture
    const char *const *tensors; // names by row of the family's table; NULL: no such tensor
    int                interleaves; // queries and keys are GGUF_ROWS_INTERLEAVED
};

/* The row of a family, or NULL: llama.cpp's files of it are not written here. */
const struct gguf_family *gguf_family_of(const struct arch *arch);
/* The first family with this general.architecture (n bytes), or NULL. */
const struct gguf_family *gguf_family_named(const char *name, size_t n);
const struct gguf_family *gguf_family_at(size_t i); // NULL past the last

enum { GGUF_NAME = 64 };
/* Writes the name of a tensor in a block. */
void gguf_name(char out[GGUF_NAME], const struct model_config *g, size_t block, size_t t);
enum gguf_rows gguf_rows(const struct model_config *g, size_t t);
/* Our row of GGUF's row r of an interleaved tensor, and GGUF's row of our row r. */
size_t gguf_row_ours(const struct model_config *g, size_t r);
size_t gguf_row_theirs(const struct model_config *g, size_t r);
/* The number that a GGUF file adds to each value: Gemma's norms are stored as 1 + weight. */
float gguf_plus(const struct model_config *g, size_t t);
/* The type of a tensor, if `wanted` is asked for. Vectors and position tables stay fp32. */
enum gguf_type gguf_type_of(const struct model_config *g, size_t t, enum gguf_type wanted);
/* dims as in the file: the fastest first. Returns their number. */
int gguf_dims(uint64_t dims[2], const struct model_config *g, size_t t);

/* The tensor with the factors by which Llama 3.1's RoPE divides each frequency: D/2 elements. */
#define GGUF_ROPE_FREQS "rope_freqs.weight"
