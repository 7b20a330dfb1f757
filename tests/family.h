/* family.h: a tiny model of a family as transformers has it (tests/fixtures/make_families.py, which
 * says what is in its file): its folder, its batches, and how far what was computed of it is from
 * what PyTorch did. What fails, fails the test. */
#pragma once

#include "model/step.h"
#include "tests/fixture.h"

enum { FAMILY_TENSORS = 64 };

struct family_tensor {
    char     name[96];
    float    base, scale;
    int      loose, n_dims;
    uint64_t dims[4];
    size_t   count;
};

struct family {
    const char          *name;
    struct fixture      *f;
    const char          *kind; // causal, last, masked, labels
    size_t               batch, seq, accum, steps, vocab;
    size_t               n;    // tensors
    struct family_tensor tensor[FAMILY_TENSORS];
    int32_t             *ids;  // causal: (steps, accum, batch, seq + 1)
};

void family_open(struct family *m, const char *name);
void family_close(struct family *m);
/* Replaces the tensors by those of another list in its file. */
void family_list(struct family *m, const char *what);
/* The values of a tensor, which are those of a stream of random numbers. */
void family_values(const struct family_tensor *t, size_t stream, float *out);
/* "llama" and so on: config.json's model_type. Malloced. */
char *family_type(const struct family *m);

/* Make a Hugging Face folder of it: config.json as transformers 4 or 5 writes it, and
 * model.safetensors. */
void family_folder(const struct family *m, int version, const char *dir);

/* What is read of such a folder, which is made in tempdir. params: malloced, block by block. */
struct family_model { struct model_config config; float *params; };
struct family_model family_read(const struct family *m, int version);

/* Values of all parameters, written as a model is: by the names and in the layout of Hugging Face.
 * The folder, `name` in tempdir. */
const char *family_written(const struct model_config *config, const float *values,
                           const char *name);

/* Batches of its steps: a language model's rows of tokens (causal, masked), or labelled rows (last,
 * labels). Micro 0 of step 0 is the one of which losses and gradients are known. For batch_source,
 * with the family as ctx; it has `accum` micro-batches a step. */
int family_batch(void *family, uint64_t step, size_t micro, struct batch *b, struct err *err);

/* Compares the logits of the last tokens in generation with those of its file. The rows are passed
 * at once, but for their last `single` tokens, which are passed one by one. */
void family_logits(const struct family *m, const struct model_config *config, const float *params,
                   size_t single);

/* The tensors of a folder that siTrain wrote against the sketches `what`; the worst distance:
 * between samples, over the tensor's largest magnitude, and between the tensors, over the norm, as
 * the sums with signs tell it. by_norm: that alone. One that is nearly zero beside the others is
 * compared with all of them. loose: those that no loss sees are compared, too. */
double family_compare(const struct family *m, const char *what, const char *dir, int by_norm,
                      int loose, double tolerance);
