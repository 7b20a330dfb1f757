/* generation.h: how tokens are chosen where no option says it. */
#pragma once

#include "data/base/json.h"
#include "data/opt/opt.h"
#include "model/sampling.h"

enum { GENERATION_TAKEN = 256, GENERATION_OTHERS = 1024 };

/* What generation_config.json (`generation`, or NULL) says of temperature, top_k, top_p, min_p,
 * repetition_penalty and do_sample, for the options of `line` that were not given. taken: which
 * these are, as options, each with a space before it. A value that is none is refused. */
int generation_defaults(struct sampling *s, const struct opt_line *line, const json_t *generation,
                        char taken[GENERATION_TAKEN], struct err *err);

/* What it sets besides that would change a text and is not computed: names, each with a space
 * before it, and commas between. samples: tokens are drawn, not the likeliest taken. */
void generation_others(char others[GENERATION_OTHERS], const json_t *generation, int samples);
