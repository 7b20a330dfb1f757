/* rig.h: a model ready to train in a test: a stream_plain and a trainer over it; and how far what
 * it computed is from what PyTorch did. What fails, fails the test. */
#pragma once

#include "model/step.h"
#include "tests/fixture.h"
#include "tests/stream_plain.h"

struct rig { struct stream *stream; struct trainer *trainer; };

/* params as in stream_plain_options; decay_all: weight_decay is on every tensor. */
struct rig rig_open(const struct trainer_options *o, const float *params, float weight_decay,
                    int decay_all);
void       rig_close(struct rig *rig);

/* Trains steps [from, until) over an open stream, until their updates end. loss[step] is set. */
void rig_steps(struct stream *s, const struct trainer_options *o, const struct batch_source *data,
               uint64_t from, uint64_t until, double *loss);

/* The model of a fixture, and its batch. */
struct model_config rig_config(const struct fixture *f, size_t *batch, size_t *seq);

/* AdamW at a constant rate on two threads, all activations kept. */
struct trainer_options rig_options(struct model_config config, size_t batch, size_t seq,
                                   enum dtype dtype, enum matmul_engine engine);

/* The placement of its activations: the last n layers' are kept, n less than any of these; the
 * others' are computed again, or with RIG_OFFLOAD added offloaded, MLPs whole where n is odd.
 * RIG_MIXED + n: each part its own policy. RIG_AUTO + n: as n, and from the fifth step on as is
 * expected to be shortest. */
enum { RIG_OFFLOAD = 100, RIG_MIXED = 200, RIG_AUTO = 300 };
void rig_placement(struct trainer_options *o, size_t how);

/* Batches from an array of micro-batches. */
struct rig_rows { const int32_t *x, *y; size_t micro_tokens, accum; };
int rig_batch(void *rows, uint64_t step, size_t micro, struct batch *b, struct err *err);

/* Whether the engine has bf16 products here: oneDNN has, on CPUs with AVX-512. */
int rig_runs_bf16(enum matmul_engine engine);

/* The engines of products, by turns: OpenBLAS for an even i, oneDNN for an odd one where this build
 * has it. */
enum matmul_engine rig_engine(size_t i);

/* Over n elements, the third [skip, 2 skip) left out where skip is not 0; infinite where a is not
 * finite. */
typedef double distance_fn(const float *a, const float *b, size_t n, size_t skip);
distance_fn max_distance;  // the largest difference, over the largest of b
distance_fn norm_distance; // the norm of the difference, over that of b

/* All blocks' tensors a and b, every one on its own; the worst distance, which must be within the
 * tolerance. A key bias moves no output (softmax does not see it): its gradient is noise and left
 * out. */
double compare_tensors(const struct model_config *g, const float *a, const float *b,
                       distance_fn *distance, double tolerance);
