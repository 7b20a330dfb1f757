/* hf_tensors.h: which tensor of a folder's files is which of a model's parameters. */
#pragma once

#include "data/tensors/safetensors.h"
#include "model/arch.h"

struct hf_tensors {
    const struct model_config *config;
    struct safetensors        *st;
    const struct st_tensor   **slot; // [block * n_params + tensor]
    const char                *dir;  // for sentences
    const char *outer, *prefix;      // what stands before all names; the family's, or ""
};

/* Every slot gets its tensor, of the right shape and type. A tensor that is missing is refused, as
 * is one that belongs to no slot. */
int hf_tensors_find(struct hf_tensors *t, struct err *err);

/* A tensor that the files have once more under another name is the same there. */
int hf_tensors_same(struct hf_tensors *t, struct err *err);
