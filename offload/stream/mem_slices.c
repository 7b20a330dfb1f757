/* mem_slices.c: cuts the trained blocks of mode mem into slices of equal decay: where that changes,
 * and at multiples of SLICE_PARAMS. */
#include "offload/stream/mem_slices.h"

#include "data/base/round.h"

enum { SLICE_PARAMS = 16384 }; // 320 KB with Adam: master, moments, gradient and wire pass through
                               // L2 once

size_t mem_slices(const struct run_config *cfg, struct slice *slices)
{
    size_t made = 0;

    for (size_t b = 0; b < run_blocks(cfg); b++)
        for (size_t at = 0, end, same; run_trains(cfg, b) && at < cfg->block_params[b]; at = end) {
            float wd = cfg->decay(cfg->decay_ctx, b, at, cfg->block_params[b] - at, &same);

            end = at + same;
            if (!slices)
                made += (end - 1) / SLICE_PARAMS - at / SLICE_PARAMS + 1;
            for (size_t n; slices && at < end; at += n) {
                n = size_min(SLICE_PARAMS - at % SLICE_PARAMS, end - at);
                slices[made++] = (struct slice){ b, at, n, wd, BOUNDS_UNKNOWN, { 0 } };
            }
        }
    return made;
}
