/* generation.h: how tokens are chosen where no option says it. */
#pragma once

#include "data/base/json.h"
#include "data/opt/opt.h"
#include "model/sampling.h"

enum { GENERATION_TAKEN = 256 };

/* What generation_config.json (`generation`, or NULL) says of temperature, top_k, top_p,
 * repetition_penalty and do_sample, for the options of `line` that were not given. taken: which
 * these are, as options, each with a space before it. A value that is none is refused. */
int generation_defaults(struct sampling *s, const struct opt_line *line, const json_t *generation,
                        char taken[GENERATION_TAKEN], struct err *err);
