/* vfs_sim.h: SQLite's files on simulated storage (storage.h): a VFS that becomes SQLite's default,
 * so that run.db, its log and its shared memory are part of the machine whose power is cut. */
#pragma once

#include <stdint.h>

void vfs_sim_register(void);
/* A new process: SQLite's random numbers begin anew. */
void vfs_sim_restart(uint64_t seed);
