/* newrun_devices.h: checks the devices of a new run, before anything is made. */
#pragma once

#include "run/folder/train_opts.h"

/* Check the names of devices that would be created. A device in the run's own folder can only be
 * checked when the folder exists. */
int newrun_devices_names(const struct train_opts *o, struct err *err);

/* Check where the states of the run `dir` would be stored, if they are stored at all. In mode mem,
 * RUN's images may be in RAM, because the states are there anyway. */
int newrun_devices_check(const char *dir, const struct train_opts *o, struct err *err);
