/* trainer_parts.h: the members of a trainer, for the files that implement a step. */
#pragma once

#include "model/trainer.h"

/* Sizes of a step, computed once from the options. Blocks are numbered from 0: the embeddings'
 * pieces, the layers, their adapters, the final norm with a classifier's head, an untied head. */
struct trainer_sizes {
    size_t layer, behind; // the first layer's block; the block behind the last layer
    size_t adapter;      // the first layer's adapter; 0: there are none
    size_t final;        // the final norm's block
    size_t head, blocks; // the first block of a language model's head; the number of blocks
    size_t pieces;       // of the embeddings, and of an untied head
    size_t group;        // micro-batches in a gradient group
    size_t each;         // losses, or a classifier's logits, per micro-batch
    int    classifies;   // 0: a language model
    int    tied;         // the head's words are the embeddings
    int    cut;          // the head's words are in several pieces
    size_t lowest;       // lowest block of a layer with a backward; behind: none has
};

struct trainer {
    struct trainer_options o;
    struct trainer_sizes   n;
    struct model   model;
    struct stream *stream;
    struct adapt adapt; // chooses which activations are kept, recomputed, offloaded
    double *losses;     // (micros of all ranks): losses of a pass
    struct pairs_sums *pairs; // (the same), with model.paired
    unsigned char *trains; // (blocks): true if the block has trained parameters
};
