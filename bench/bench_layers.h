/* bench_layers.h: models of two layers at work, and attention by itself, for bench_save.c: how long
 * a call of each part takes, the median of some. */
#pragma once

#include "bench/bench.h"
#include "model/layer/model.h"
#include "plan/machine_time.h"

enum { LAYERS = 2, HEAD_SIZE = 64, MOST_TURNS = 48 };

/* What takes turns: seconds of each pass of one call. */
struct part_times { double seconds[MACHINE_PASSES][MOST_TURNS]; size_t n; };

double part_median(struct part_times *t, enum machine_pass pass);
/* Seconds since then, which becomes now. */
double part_since(uint64_t *start_ns);
/* Takes turns, each of which sets seconds[..][t->n]. The first ones, which find sleeping threads
 * and cold caches, do not count. Of short ones there are many, so that they are not all taken while
 * some other program had the processor. */
void parts_measure(struct part_times *t, void (*turn)(void *ctx, struct part_times *t), void *ctx);

/* Two layers of this kind: the model's own if it is of this kind and width; otherwise, layers as
 * such families have them. rows_set says the rows. layers_adapt: with the model's adapters. */
struct model_options layers_options(const struct bench *b, enum dtype dt, enum machine_kind kind,
                                    size_t width, size_t heads);
void                 layers_adapt(struct model_options *o, const struct bench *b);
void                 rows_set(struct model_options *o, size_t tokens, size_t row);

/* With parameters and gradients as a stream lends them. To be closed also after a failure. */
struct layers {
    struct model m;
    struct arena memory;
    void        *wire, *embed_wire, *final_wire, *adapter_wire;
    float       *grad, *embed_grad, *final_grad, *adapter_grad; // adapter: NULL: there is none
};
int  layers_open(struct layers *l, const struct bench *b, const struct model_options *o,
                 struct err *err);
void layers_close(struct layers *l);
/* Forward of both, `calls` times: seconds. */
double layers_forward(struct layers *l, size_t calls);

/* Of a layer, and of attention alone, for a micro-batch like this one. */
int layer_times(struct part_times *t, const struct bench *b, const struct model_options *o,
                struct err *err);
int attention_times(struct part_times *t, const struct model_options *o, struct err *err);
