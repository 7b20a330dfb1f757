/* opt_known.h: what to say to an option that other trainers have and siTrain has not. */
#pragma once

#include "data/opt/opt_row.h"

/* What this command has in place of --typed, in buf; NULL: nothing is known of it. */
const char *opt_known(const struct opt_command *cmd, const char *typed, char *buf, size_t size);
