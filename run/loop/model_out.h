/* model_out.h: writes the model of a run in training as a Hugging Face folder: RUN/best, or the
 * model that another process asks for (live.h). Of a run with adapters, RUN/best is an adapter
 * folder, and the model is written next to its adapter, unmerged. */
#pragma once

#include "run/folder/session.h"

/* Write the parameters of `source` into the folder `dir`, which exists, as fp32 with config,
 * tokenizer and classes. doing: for the progress, such as "writing the best model". */
int model_out(struct session *s, const struct params_source *source, const char *dir,
              const char *doing, struct err *err);
/* The same for the adapter alone, of a run with adapters. */
int model_out_adapter(struct session *s, const struct params_source *source, const char *dir,
                      const char *doing, struct err *err);
