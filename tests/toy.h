/* toy.h: a model for tests of streams: its gradients are a function of its parameters and of the
 * step, so that whatever is lost or doubled on the way shows in every later bit. Its blocks are
 * those of the run's configuration, at most TOY_BLOCKS. */
#pragma once

#include "offload/run.h"

enum { TOY_BLOCKS = 16 };

extern const struct params_source toy_init; // the parameters that a run begins with

/* Weight decay (run_config's): every third run of 700 parameters decays. ctx: the run's
 * configuration, where it has a portion of each block (offload/layout/ranks.h), or NULL. */
float toy_decay(void *ctx, size_t block, size_t i, size_t n, size_t *count);

/* The order of its n blocks: layers between block 0, whose parameters are read once
 * more behind the last block, and that one. */
struct route toy_route(size_t n);

/* A run of the toy in `dir` as most tests want it: bf16, AdamW, one emulated device that is just
 * large enough to update 2,048 parameters. No log is open; what a test wants otherwise, it sets. */
struct run_config toy_config(const char *dir, enum run_mode mode, const size_t *sizes, size_t n);

/* The way forward: *loss is a sum over all wire parameters as seen. The head's blocks stay
 * acquired. */
int toy_forward(const struct run_config *cfg, struct stream *s, uint64_t step, const void **wire,
                double *loss, struct err *err);

/* A whole step; every third, step 1 first, is clipped. poison: a NaN in a gradient. quit: stop when
 * that block's gradient was sent; 0: go on. The first error of the stream. */
int toy_step(const struct run_config *cfg, struct stream *s, uint64_t step, int poison, size_t quit,
             double *loss, struct err *err);

/* A pass, and a whole step as toy_step's, of whatever order the run has: each block is used as that
 * says, and nothing stays acquired. poison: in the gradient that is sent first, which is asked for
 * once. */
int toy_pass(const struct run_config *cfg, struct stream *s, enum stream_pass pass, uint64_t step,
             int poison, double *loss, struct norm_sum *norm, struct err *err);
int toy_order_step(const struct run_config *cfg, struct stream *s, uint64_t step, int poison,
                   double *loss, struct err *err);

/* The pieces of activations that the toy pushes in a step, in that order: in each layer at most its
 * share of cfg->acts.n, of one byte to cfg->acts.bytes, in records of one to several. How many; at
 * most TOY_PIECES. */
enum { TOY_PIECES = 256 };
struct act_item;
size_t toy_pieces(const struct run_config *cfg, uint64_t step, struct act_item *piece);
/* As many a layer, through so many buffers. */
struct run_acts toy_acts(const struct run_config *cfg, size_t a_layer, size_t bytes,
                         size_t buffers);

/* If set, toy_step calls it when all gradients but the embeddings' were sent. */
extern void (*toy_before_norm)(struct stream *s, uint64_t step);

/* CRC32C over all masters of the run, block by block. */
int toy_params_sum(const struct run_config *cfg, uint32_t *sum, struct err *err);
