/* opt_known.h: answers to options that other trainers have and siTrain does not have. */
#pragma once

#include "data/opt/opt_row.h"

/* Writes into buf what this command offers in place of --typed. Returns NULL if the option is
 * not known. */
const char *opt_known(const struct opt_command *cmd, const char *typed, char *buf, size_t size);
