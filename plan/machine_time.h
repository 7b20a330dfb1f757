/* machine_time.h: how long a machine (machine_file.h) computes on parts of a model. Measurements
 * at some sizes are interpolated to another size. Pure arithmetic (docs/lab/scaling-model.md,
 * Computing).
 *
 * Width C: a layer takes a C^2 + b C seconds a token, for products and for passes over rows. So
 * seconds per FLOP are a line in 1/C. A width between two measured ones lies on that line; a
 * width beyond them takes the nearest one's value. Tokens N of a chunk: a layer takes c + d N
 * seconds, since parameters are read and gradients are written once. The last two measured
 * lengths continue that line to a whole chunk. Row length T: attention takes a T^2 + b T seconds
 * a row, so per FLOP it is a line in 1/T. All of this holds within one kind of layers; C^2
 * stands for the parameters of its matrices. */
#pragma once

#include "model/arch/arch.h"
#include "plan/machine_file.h"

/* The work: a micro-batch of `tokens` in rows of `seq`. threads 0: as many as were measured. */
struct machine_work {
    enum dtype        dt;
    enum machine_kind kind;
    double width, words, seq, tokens, threads;
    double head, columns, seen; // attention: columns of a head, columns of all heads, and the
                                // mean number of keys that a token sees
    double matrices;            // parameters of a layer's matrices
    double trained;             // those that have a gradient: all, or none with adapters
    double adapters;            // parameters of a layer's adapters
    double adapters_in, adapters_out; // columns of their inputs, and of their outputs
    double head_products;       // of the head: 3, or 2 if its words have no gradient
    double attn_again;          // those multiplied again when attention is recomputed
    double mlp_again;           // those multiplied again when the MLP is recomputed
};

/* The work of a layer in rows of seq tokens. The caller sets words, tokens and threads. */
struct machine_work machine_work_of(const struct model_config *g, enum dtype dt, size_t seq);
enum machine_kind   machine_kind_of(const struct arch *arch);

/* FLOP of a layer's matrix products, and of its attention. AGAIN counts as FORWARD. */
double machine_dense_flop(const struct machine_work *w, enum machine_pass pass);
double machine_attention_flop(const struct machine_work *w, enum machine_pass pass);

/* Seconds of a layer's micro-batch, with attention. AGAIN: recomputing all that backward needs. */
double machine_layer(const struct machine_file *m, const struct machine_work *w,
                     enum machine_pass pass);
/* The MLP's part of AGAIN, in seconds: attention's projection and the MLP's products, except the
 * last one (an encoder's last product is included). GPT-2: 10 of 16 C^2 FLOP a token. */
double machine_again_mlp(const struct machine_file *m, const struct machine_work *w);
/* Seconds of a tied head with its loss, forward and backward. */
double machine_head(const struct machine_file *m, const struct machine_work *w);
/* Factor on all of these for another number of threads than was measured: Amdahl's law. */
double machine_threads(const struct machine_file *m, double threads);
/* Whether the machine has figures for this dtype, and for layers of this kind in it. */
int    machine_has(const struct machine_file *m, enum dtype dt);
int    machine_has_kind(const struct machine_file *m, enum dtype dt, enum machine_kind kind);
