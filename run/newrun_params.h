/* newrun_params.h: the parameters that a run begins with: those of a model, with new values for a
 * head or adapters that it does not have; or, without a model, all new values. */
#pragma once

#include "run/recipe.h"

/* Makes the run's devices, or its image, with the initial parameters. */
int newrun_params(struct session *s, const struct newrun *n, struct err *err);
