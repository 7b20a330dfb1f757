/* trainer_parts.h: a trainer from inside, for the files of a step. */
#pragma once

#include "model/trainer.h"

/* What a step's sizes are, computed once from the options. Blocks are numbered from 0: the
 * embeddings' pieces, the layers, the final norm with a classifier's head, a head of its own. */
struct trainer_sizes {
    size_t layer, final; // the first layer's block, and the block behind the last layer's
    size_t head, blocks; // the first block of a language model's head; all
    size_t pieces;       // of the embeddings, and of a head of its own
    size_t group;        // micro-batches of a gradient group
    size_t each;         // losses, or a classifier's logits, of a micro-batch
    int    classifies;   // else it is a language model
    int    tied;         // the head's words are the embeddings
    int    cut;          // the head's words are in several pieces
    size_t lowest;       // layers have a backward down to this block; final: none has
};

struct trainer {
    struct trainer_options o;
    struct trainer_sizes   n;
    struct model   model;
    struct stream *stream;
    struct adapt adapt; // which activations are kept, recomputed, offloaded
    double *losses;     // (micros of all ranks) of a pass
    unsigned char *trains; // (blocks): whether anything of it does
};
