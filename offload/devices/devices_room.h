/* devices_room.h: whether new devices fit on their file systems. */
#pragma once

#include "offload/layout/config.h"

/* Refuse places in which new devices do not fit next to what is there: of device i, bytes[i] are
 * new, 0 if it is not made. A drive must be as large as that. 0 or -errno with a sentence. */
int devices_room_check(const struct run_config *cfg, const uint64_t *bytes, struct err *err);
