/* hf_tensors.h: finds the tensors of a folder's files that belong to a model's parameters. */
#pragma once

#include "data/tensors/safetensors.h"
#include "model/arch/arch.h"

struct hf_tensors {
    const struct model_config *config;
    struct safetensors        *st;
    const struct st_tensor   **slot; // [block * n_params + tensor]
    const char                *dir;  // for messages
    const char *outer, *prefix;      // prefix of all names in the files; the family's prefix, or ""
};

/* Refuses a tensor of a folder that has not the type or shape of tensor t. asks: who wants that
 * shape, "config.json asks". */
int hf_tensor_check(const struct model_config *g, size_t t, const struct st_tensor *st,
                    const char *dir, const char *asks, struct err *err);

/* Finds a tensor of the right shape and type for every slot. A missing tensor is refused, and so
 * is a tensor that belongs to no slot. */
int hf_tensors_find(struct hf_tensors *t, struct err *err);

/* Checks that a tensor that the files hold under two names has equal values under both. */
int hf_tensors_same(struct hf_tensors *t, struct err *err);
