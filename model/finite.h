/* finite.h: a params_source that refuses values which are not finite, or too large for bf16: what
 * is read from it can be computed with. */
#pragma once

#include "model/arch.h"
#include "offload/run.h"

struct finite {
    struct params_source     inner;
    const struct model_config *config;
    const char              *what; // whose values they are, for the sentence
};

/* Reads f->inner; the first tensor with such a value is an error, -EDOM, that names it and counts
 * them in it. Lives as long as f. */
struct params_source finite_source(struct finite *f);

/* Read all of it once; watch: of parameters read, or NULL. */
int finite_check(struct finite *f, const struct watch *watch, struct err *err);
