/* posix.h: what simulated files (posix.c) are for those who test with them. */
#pragma once

/* Descriptors of simulated files that are open. */
unsigned posix_open_files(void);

/* From here on the file system shares blocks between files (FICLONE, FICLONERANGE), or does not. */
void posix_share(int shares);

/* The simulated file behind a descriptor, or -1. */
int posix_file(int fd);
