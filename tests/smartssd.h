/* smartssd.h: the software SmartSSD (tests/smartssd) under devices of tests. */
#pragma once

#include "offload/layout/config.h"

/* Give cfg, which csd_xrt opens, a card that no device had before, and the kernels. Where there is
 * no software SmartSSD the test is skipped. */
void smartssd_card(struct csd_config *cfg);

/* The same for the devices of a run, at most 8. */
void smartssd_run(struct run_config *cfg);

/* Whether there is one. */
int smartssd_here(void);
