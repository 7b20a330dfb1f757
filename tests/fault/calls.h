/* calls.h: calls of the operating system that go wrong as told: the n-th of a kind, counted over
 * all threads. Our objects' calls are taken by the linker (--wrap, see tests/tests.mk), SQLite's
 * through its VFS. One plan at a time. */
#pragma once

#include <stdint.h>

enum calls_kind {
    CALLS_FILES,  // open, pread, pwrite, fsync, fdatasync, ftruncate, posix_fallocate, mkdir,
                  // rename: ours
    CALLS_SQLITE, // open, pread, pwrite, ftruncate, sync: SQLite's
    CALLS_RING,   // what io_uring says of a transfer
    CALLS_MEMORY, // malloc and its kin, mmap, threads
};

enum { CALLS_SHORT = -1 }; // half of the bytes are moved; calls that move none fail with EIO

void     calls_register(void); // once, before SQLite is used
void     calls_arm(enum calls_kind kind, uint64_t nth, int how); // nth from 1; how: errno, or
                                                                 // CALLS_SHORT
uint64_t calls_disarm(void);   // calls of the kind seen since
int      calls_met(void);      // whether the n-th was among them
