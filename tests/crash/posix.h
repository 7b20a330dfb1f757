/* posix.h: what the simulated files of posix.c say about themselves. */
#pragma once

unsigned posix_open_files(void); // descriptors of simulated files that are open
