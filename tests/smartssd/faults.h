/* faults.h: what is to go wrong in a software SmartSSD, as SMARTSSD_FAULT says it (hal.c). */
#pragma once

enum fault {
    FAULT_OPEN, FAULT_LOAD, FAULT_ALLOC, FAULT_MAP, FAULT_SYNC, FAULT_CONTEXT, FAULT_EXEC,
    FAULT_HANG, FAULT_ERROR, FAULT_VANISH, FAULTS
};

enum { FAULT_ROWS = 16 };

/* Of one device, from its opening on. Whoever counts holds the device's lock. */
struct faults {
    struct { enum fault what; unsigned long nth; int value; } row[FAULT_ROWS]; // nth: 0: always
    int           n;
    unsigned long count[FAULTS];
};

/* From the environment; a row that cannot be read ends the process: a test would be of something
 * else. */
void faults_read(struct faults *f, unsigned device);

/* Counts a call: 0, or the value (`usual` where none was given) if this one is to fail. */
int faults_hit(struct faults *f, enum fault what, int usual);
