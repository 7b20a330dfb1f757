/* posix.h: what the simulated files of posix.c say about themselves. */
#ifndef TESTS_CRASH_POSIX_H
#define TESTS_CRASH_POSIX_H

unsigned posix_open_files(void); // descriptors of simulated files that are open

#endif
