/* records.h: offloads a layer's activations in items on the stream's stack
 * (offload/stream/stream.h). Forward pushes items when they are computed, and backward pops
 * them when it needs them. The drives therefore work all the time. acts.h defines the items and
 * records. Items are copied, except the largest one, the input of the MLP's activation
 * function. That item is lent: products write and read it in place.
 *
 * A push or pop may wait for a device. Waiting is not computing, so the open span ends before a
 * wait, and a new span begins after it. */
#pragma once

#include "model/layer/acts.h"
#include "offload/stream/stream.h"

struct records {
    struct stream    *stream; // NULL: the pass offloads nothing
    size_t            left;   // items that the pass still pushes
    int               first;  // true if the next push begins a record
    struct open_span *span;   // of the pass
};

/* records_push lends the memory of the next item, for the model to fill. records_push_done says
 * that it has `bytes` bytes. records_pop lends the next item with its contents, until
 * records_pop_done. */
int  records_push(struct records *r, void **place, struct err *err);
void records_push_done(struct records *r, size_t bytes);
int  records_pop(struct records *r, void **place, struct err *err);
void records_pop_done(struct records *r);

/* Copies the rows of n tokens into a pushed item, or out of a popped one. */
int records_push_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                      struct err *err);
int records_pop_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                     struct err *err);
