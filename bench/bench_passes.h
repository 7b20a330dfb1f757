/* bench_passes.h: which kernels a step of mode mem has beside its products, by family. Private to
 * bench_parts.c. */
#pragma once

#include "model/arch.h"

/* What counts a pass: chunks of tokens of every layer, and of chunks again outside of the layers;
 * layers that see all, or have a window, of each micro-batch; micro-batches; chunks of the head's
 * tokens, once for each of its pieces; all parameters. */
enum pass_unit { PASS_CHUNK, PASS_LAYER, PASS_WINDOW, PASS_BATCH, PASS_LOGITS, PASS_PARAMS };

struct pass {
    const char    *kernel; // its row in bench_kernels.c
    enum pass_unit unit;
    int            each, behind; // times in a layer, and PASS_CHUNK: outside of all layers
    int          (*when)(const struct model_config *g, enum dtype dt); // NULL: always
};

/* The i-th pass of a step of this model; kernel NULL: there are no more. Those that it does not
 * have are left out. */
struct pass passes_at(const struct model_config *g, enum dtype dt, size_t i);
