/* records.h: what a training pass offloads of a layer's activations, in pieces on the stream's
 * stack (offload/stream/stream.h). Pieces leave as they are made, and come back where backward
 * needs them, so that drives have their work all along: acts.h says which there are, and which are
 * a record. All are copied but what the MLP's activation takes, the largest, which is lent:
 * products write and read it in place.
 *
 * A push or pop may wait for a device. What waits is not computing: the span under way ends before
 * it, and another begins after. */
#pragma once

#include "model/acts.h"
#include "offload/stream/stream.h"

struct records {
    struct stream *stream; // NULL: this pass offloads nothing
    size_t         left;   // pieces that it still pushes
    int            first;  // the next push begins a record
    /* The span that is under way. */
    uint64_t          step;
    enum runlog_phase phase;
    int               block;
    uint64_t         *start_ns;
};

/* The next piece, for the model to fill with `bytes`, or as it was filled; until *_done. */
int  records_push(struct records *r, void **place, struct err *err);
void records_push_done(struct records *r, size_t bytes);
int  records_pop(struct records *r, void **place, struct err *err);
void records_pop_done(struct records *r);

/* A piece of n tokens' rows, copied. */
int records_push_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                      struct err *err);
int records_pop_rows(struct records *r, const struct acts_rows *rows, size_t arrays, size_t n,
                     struct err *err);
