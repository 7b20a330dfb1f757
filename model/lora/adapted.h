/* adapted.h: the way from a base to a model with adapters (lora.h), and back: sources that add new
 * adapters to the parameters of a base, leave them out, or merge them into it. */
#pragma once

#include "model/lora/lora.h"
#include "offload/run.h"

/* The parameters of a base, with adapters that have their initial values by the seed. */
struct adapted {
    const struct model_config *config; // the model with adapters
    struct params_source       base;   // by the blocks of the model without them
    uint64_t                   seed;
};
/* A source by the blocks of a->config. a must outlive it. */
struct params_source adapted_source(struct adapted *a);

/* A source by the blocks of lora_base(g): what `inner` has by those of g, without adapters. */
struct unadapted { const struct model_config *config; struct params_source inner; };
struct params_source unadapted_source(struct unadapted *u); // u must outlive it

/* Writes a checksum of some values of each tensor in the layers of a base, by which an adapter's
 * folder knows the base that it was trained on. The values are rounded to bf16, so a model has the
 * same checksum in fp32 and in bf16. g and source: of the base, or of the model with adapters. */
enum { BASE_SUM = 9 }; // 8 hex digits
int base_sum(char out[BASE_SUM], const struct model_config *g, const struct params_source *source,
             struct err *err);

/* The parameters of a model with adapters, merged into those of its base. */
struct merged;
/* g and inner: the model with adapters, copied. Caller closes *out. */
int  merged_open(struct merged **out, const struct model_config *g,
                 const struct params_source *inner, struct err *err);
void merged_close(struct merged *m); // NULL is allowed
/* A source by the blocks of lora_base(g). m and what `inner` reads must outlive it. */
struct params_source merged_source(struct merged *m);
