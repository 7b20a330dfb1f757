/* machine_time.h: how long a machine (machine_file.h) computes on parts of a model: what was
 * measured at some sizes, made that of another. Pure arithmetic (docs/scaling-model.md, Computing).
 *
 * A layer takes a C^2 + b C seconds a token: products, and passes over rows. So seconds by FLOP are
 * a line in 1/C, on which widths between two that were measured lie; those beyond take the nearest
 * one's. Of a chunk's tokens N it takes c + d N, since parameters are read and gradients written
 * once: a line, too, which the last two measured lengths continue to a whole chunk. An attention's
 * row of T tokens takes a T^2 + b T: by FLOP a line in 1/T. All of that is of one kind of layers:
 * what C^2 stands for is the parameters of its matrices. */
#pragma once

#include "model/arch.h"
#include "plan/machine_file.h"

/* What is computed: of a micro-batch `tokens` in rows of `seq`; threads 0: as it was measured. */
struct machine_work {
    enum dtype        dt;
    enum machine_kind kind;
    double width, words, seq, tokens, threads;
    double head, columns, seen; // of attention: columns of a head, of all, and the keys that a
                                // token sees, the mean of a row
    double matrices;            // parameters of a layer's,
    double attn_again;          // of those whose products are computed again with an attention,
    double mlp_again;           // and with an MLP
};

/* A layer of this model in these rows; words, tokens and threads are the caller's. */
struct machine_work machine_work_of(const struct model_config *g, enum dtype dt, size_t seq);
enum machine_kind   machine_kind_of(const struct arch *arch);

enum machine_pass { MACHINE_FORWARD, MACHINE_BACKWARD, MACHINE_AGAIN };

/* FLOP of the matrices' products, and of attention; AGAIN: forward's. */
double machine_dense_flop(const struct machine_work *w, enum machine_pass pass);
double machine_attention_flop(const struct machine_work *w, enum machine_pass pass);

/* Seconds of one layer for one micro-batch, with its attention. AGAIN: what backward needs is
 * computed once more. */
double machine_layer(const struct machine_file *m, const struct machine_work *w,
                     enum machine_pass pass);
/* Of what AGAIN takes the MLP's part: attention's projection and the products up to the one that
 * leads back (an encoder's: that one, too), of GPT-2 10 of 16 C^2 FLOP a token. */
double machine_again_mlp(const struct machine_file *m, const struct machine_work *w);
/* Of a tied head with its loss, forward and backward. */
double machine_head(const struct machine_file *m, const struct machine_work *w);
/* By which threads other than those that were measured change these: Amdahl's law. */
double machine_threads(const struct machine_file *m, double threads);
/* Whether the machine has figures of this dtype, and of layers of this kind in it. */
int    machine_has(const struct machine_file *m, enum dtype dt);
int    machine_has_kind(const struct machine_file *m, enum dtype dt, enum machine_kind kind);
