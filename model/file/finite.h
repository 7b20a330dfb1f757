/* finite.h: a params_source that refuses values that are not finite or are too large for bf16.
 * Values that it returns are therefore safe to compute with. */
#pragma once

#include "data/tensors/safetensors.h"
#include "model/arch/arch.h"
#include "offload/run.h"

struct finite {
    struct params_source     inner;
    const struct model_config *config;
    const char              *what; // name of the values' origin, for messages
};

/* A source that reads f->inner. The first tensor with such a value is the error -EDOM. Its
 * message names the tensor and counts its bad values. f must outlive the source. */
struct params_source finite_source(struct finite *f);

/* Reads all parameters once. watch: is told of the parameters read; may be NULL. */
int finite_check(struct finite *f, const struct watch *watch, struct err *err);
/* Reads all tensors of a file, whose parameters need no configuration, as of an adapter. what: name
 * of their origin. */
int finite_check_file(struct safetensors *st, const char *what, const struct watch *watch,
                      struct err *err);
