/* machine_time.h: how long a machine (machine_file.h) computes on parts of a model: what was
 * measured at some sizes, made that of another. Pure arithmetic (docs/scaling-model.md, Computing).
 *
 * A layer takes a C^2 + b C seconds a token: products, and passes over rows. So seconds by FLOP are
 * a line in 1/C, on which widths between two that were measured lie; those beyond take the nearest
 * one's. Of a chunk's tokens N it takes c + d N, since parameters are read and gradients written
 * once: a line, too, which the last two measured lengths continue to a whole chunk. An attention's
 * row of T tokens takes a T^2 + b T: by FLOP a line in 1/T. */
#pragma once

#include "cmd/run/machine_file.h"

/* What is computed: of a micro-batch `tokens` in rows of `seq`; threads 0: as it was measured.
 * columns: of all heads; 0: width. dense: parameters of a layer's matrices over GPT-2's 12 C^2, of
 * which C^2 stands for here; 0: 1. */
struct machine_work {
    enum dtype dt;
    double     width, heads, words, seq, tokens, threads, columns, dense;
};

enum machine_pass { MACHINE_FORWARD, MACHINE_BACKWARD, MACHINE_AGAIN };

/* Seconds of one layer for one micro-batch, with its attention. AGAIN: what backward needs is
 * computed once more. */
double machine_layer(const struct machine_file *m, const struct machine_work *w,
                     enum machine_pass pass);
/* Of what AGAIN takes the MLP's part: attention's projection and the first product, 10 of its
 * 16 C^2 FLOP a token. */
double machine_again_mlp(const struct machine_file *m, const struct machine_work *w);
/* Of a tied head with its loss, forward and backward. */
double machine_head(const struct machine_file *m, const struct machine_work *w);
/* By which threads other than those that were measured change these: Amdahl's law. */
double machine_threads(const struct machine_file *m, double threads);
/* Whether the machine has figures of this dtype. */
int    machine_has(const struct machine_file *m, enum dtype dt);
