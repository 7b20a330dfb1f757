/* disk_fault.h: a disk around another one that goes wrong as told, by seed or at one request: for
 * tests. One plan at a time. */
#pragma once

#include "csd/csd.h"
#include "csd/disk/disk.h"

/* Each request of `ops` (bits 1 << enum disk_op) inside [from, to) meets one of these with the
 * given probability, 0 to 1. */
struct disk_fault_plan {
    const struct disk_ops *inner;
    uint64_t               seed;
    unsigned               ops;
    uint64_t               from, to; // offsets; to 0: everywhere
    double                 eio;      // fails with -EIO, nothing moved
    double                 torn; // write: only the first half arrives, and it says it was written
    double                 dropped;  // write: nothing arrives, and it says it was written
    double                 short_io; // moved in two requests, cut at a multiple of 4 KiB
    uint64_t               delay_ns; // every request takes at least so long
    uint64_t               nth;      // the request of this number, from 1, over all disks ..
    int                    nth_status; // .. ends with it, nothing moved; or, if it is 0, never ends
    /* If set: what is to become of a request, asked where it comes and again while it is kept: 0:
     * it goes on; 1: it is kept for now; -errno: it ends with that, nothing moved. By the thread
     * that owns the disk. */
    int                  (*hold)(const struct disk_req *r);
};

void     disk_fault_set(const struct disk_fault_plan *plan); // copied; before the disk is opened
unsigned disk_fault_count(void);                             // faults met since (not delays)
uint64_t disk_fault_requests(void);                          // requests seen since

extern const struct disk_ops disk_fault;

/* Devices of a kind on such disks. */
const struct csd_ops *disk_fault_csd(const struct csd_ops *kind);
