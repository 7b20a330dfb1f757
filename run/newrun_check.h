/* newrun_check.h: whether a new run may be made: its devices, tokenizer, data and evaluations.
 * Nothing on disk changes. */
#pragma once

#include "run/recipe.h"

/* The checks that need no folder. */
int newrun_check(const struct newrun *n, struct err *err);
/* Check the names of devices and of TensorBoard's folder, which would be created. One in the run's
 * own folder can only be checked when that folder exists. */
int newrun_names(const struct train_opts *o, struct err *err);

/* True if the run has tokens to train on. */
int newrun_has_data(const struct newrun *n);
/* Rows of the larger development set; 0 if there is none. */
uint64_t newrun_dev_rows(const struct newrun *n);
