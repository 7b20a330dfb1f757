/* mix_weights.h: the weights of --mix. They become parts of a block of rows (data/text/mixture.h),
 * and a run stores these parts. */
#pragma once

#include "data/base/err.h"
#include "data/text/mixture.h"

enum { MIX_MOST = 1024 }; // sources

/* parts[0..n): rows of each of n sources in a block, by the weights in `text`. option: the name of
 * the option that names the sources, for sentences. Misuse: a weight that is not above 0, another
 * number of weights, one that is too small for a row.
 * mix_weights_text: the parts as they are stored, malloced. As weights they give these again. */
int mix_weights_read(uint64_t *parts, const char *text, size_t n, const char *option,
                     struct err *err);
int mix_weights_text(char **out, const char *mix, size_t n, const char *option, struct err *err);

/* Give the sources of *out their parts by the stored ones. where: of the setting, for sentences.
 * NULL parts: there are no weights. -EBADMSG: they are damaged. */
int mix_weights_apply(struct mixture *out, const char *parts, const char *where, struct err *err);
