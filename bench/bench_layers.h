/* bench_layers.h: models of two layers at work, and attention by itself, for bench_save.c: how long
 * each pass of a call takes, the median of some turns. */
#pragma once

#include "bench/bench.h"
#include "model/layer/model.h"
#include "plan/machine_time.h"

enum { LAYERS = 2, HEAD_SIZE = 64, MOST_TURNS = 48 };

/* Seconds of each pass of one call, in each of n turns. */
struct pass_times { double seconds[MACHINE_PASSES][MOST_TURNS]; size_t n; };

double pass_median(struct pass_times *t, enum machine_pass pass);
/* Seconds since *start_ns, which becomes now. */
double pass_since(uint64_t *start_ns);
/* Takes turns, each of which sets seconds[..][t->n]. The first turns, which find sleeping threads
 * and cold caches, do not count. There are many short turns, so that they are not all taken while
 * some other program has the processor. */
void pass_measure(struct pass_times *t, void (*turn)(void *ctx, struct pass_times *t), void *ctx);

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
int layer_times(struct pass_times *t, const struct bench *b, const struct model_options *o,
                struct err *err);
int attention_times(struct pass_times *t, const struct model_options *o, struct err *err);
