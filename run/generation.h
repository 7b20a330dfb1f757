/* generation.h: sampling defaults from a model's generation_config.json. */
#pragma once

#include "data/json/json.h"
#include "data/opt/opt.h"
#include "model/sampling.h"

enum { GENERATION_TAKEN = 256, GENERATION_OTHERS = 1024 };

/* Set the options of `line` that were not given from generation_config.json (`generation`, or
 * NULL). It reads temperature, top_k, top_p, min_p, repetition_penalty and do_sample. taken: the
 * options that were set, as " --NAME VALUE" each. A value that is not a number in range is
 * misuse. */
int generation_defaults(struct sampling *s, const struct opt_line *line, const json_t *generation,
                        char taken[GENERATION_TAKEN], struct err *err);

/* List the settings of `generation` that would change a text but are not implemented. others: their
 * names, as " NAME, NAME". samples: true if tokens are sampled, false if decoding is greedy. */
void generation_others(char others[GENERATION_OTHERS], const json_t *generation, int samples);
