/* device.h: one software SmartSSD, from xclOpen to xclClose. */
#pragma once

#include "tests/smartssd/faults.h"
#include "tests/smartssd/image.h"
#include "tests/smartssd/memory.h"

#include <pthread.h>
#include <xrt.h>

struct run;

/* Once opened it stays allocated: libxrt frees buffers of a device that it has closed, too. */
struct device {
    struct device  *next;
    unsigned        index;
    int             open, loaded;
    int             gone;    // it has vanished: no call but those that give back succeeds
    void           *core;    // libxrt's half
    pthread_mutex_t lock;    // over all that follows
    struct faults   faults;
    struct image    image;
    struct memory   memory;
    // runs.c
    pthread_cond_t  work, ended;
    pthread_t       worker;
    int             stop;
    struct run     *first, **last; // that have not begun
    unsigned        n_ended;       // and xclExecWait has not said so yet
};

#ifdef __cplusplus
extern "C" {
#endif

/* What a client does wrong, on stderr; tests look for it. */
__attribute__((format(printf, 2, 3)))
void device_complain(const struct device *d, const char *format, ...);

/* Where a device is on the bus: domain << 16 | bus << 8 | device << 3 | function. */
unsigned device_slot(unsigned index);

/* runs.c: the worker, which runs what is submitted in order. All but runs_close with the lock. */
int  runs_open(struct device *d);  // 0 or -errno
void runs_close(struct device *d); // without: after the run that is under way
int  runs_submit(struct device *d, unsigned buffer); // a start packet is in it; 0 or -errno
int  runs_wait(struct device *d, int ms); // 1: one has ended since the last time; 0: none did

/* glue.cpp: libxrt's half. */
void *glue_open(void *device, unsigned index); // NULL: libxrt would not have it
void  glue_close(void *core);
int   glue_load(void *device, const struct axlf *image); // 0 or -errno

#ifdef __cplusplus
}
#endif
