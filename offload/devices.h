/* devices.h: the opened devices of a run: their files found and checked, their links modelled, one
 * bell for all. */
#ifndef OFFLOAD_DEVICES_H
#define OFFLOAD_DEVICES_H

#include "offload/run.h"
#include "offload/store.h"

struct devices {
    struct store     store;
    struct csd_bell  bell;
    struct link     *host_link;
    struct link    **internal; // (n)
    struct csd     **csd;      // (n)
    char           **paths;    // (n) of files or block devices
    struct devices_file {
        uint64_t dev, ino;
    } * files; // (n) what the paths named when they were opened
    size_t           n;
    void            *page;     // 4 KiB for superblocks
    int              silent; // a device gave requests up: what jobs pointed into must not be freed
};

enum devices_how { DEVICES_CREATE, DEVICES_TRAIN, DEVICES_READ };

/* Of the records (run.h): a buffer that one passes through, and what all take behind each device's
 * states, in bytes (records.c). */
size_t   records_buffer(const struct run_config *cfg);
uint64_t records_device(const struct run_config *cfg);
size_t   records_tables(const struct run_config *cfg); // in memory

/* Lay out, open, and (unless creating) check the superblocks. buffers: host memory that jobs will
 * point into. After a failure nothing is open, and what DEVICES_CREATE made is removed. */
int  devices_open(struct devices *d, const struct run_config *cfg, enum devices_how how,
                  const struct iovec *buffers, unsigned n_buffers, char *notice, size_t notice_size,
                  struct err *err);
/* Accepts the zero state. 1 if requests were given up that may still be answered: memory that jobs
 * pointed into must stay for ever. */
int  devices_close(struct devices *d);

/* As devices_open with DEVICES_READ (or DEVICES_TRAIN, to mend), for `siTrain check`: a device that
 * cannot be opened, or is not this run's, stays closed (csd[i] NULL), and one whose superblock is
 * damaged stays open; each[i] (n_devices) gets the sentence, or none. One that is in use ends it:
 * -EBUSY. */
int  devices_open_each(struct devices *d, const struct run_config *cfg, enum devices_how how,
                       struct err *each, struct err *err);

/* The file or block device behind device i, malloced: a folder that was given has a file named
 * after the run. create: it need not be there, and its folder in RUN is made. */
int  devices_path(char **out, const struct run_config *cfg, size_t i, int create, struct err *err);

/* Refuse a place for states that would be in RAM, which is beside all promises about memory, and
 * gone with the power: a folder or new file on a tmpfs, unless in_ram allows it, or in /dev, where
 * it is a drive that is not there. place: what --device says, or RUN, which need not be there yet.
 */
int devices_place_check(const char *place, int is_device, int in_ram, struct err *err);

/* Whether every path still names what was opened, as large as it must be: what is written to a file
 * that was removed is lost when the process ends, and nothing else would tell. */
int devices_present(const struct devices *d, const struct run_config *cfg, struct err *err);

/* Write device i's superblock anew. */
int devices_super_write(struct devices *d, const struct run_config *cfg, size_t i, struct err *err);

/* Whether nothing is stored behind cfg (the null CSD or the null disk): what is read back means
 * nothing and is not compared. */
int devices_fake(const struct run_config *cfg);

/* Run one job on device i to its end; for a range of a block, whose number a failure's sentence
 * then has. */
int devices_run(struct devices *d, size_t i, struct csd_job *job, struct err *err);
int devices_run_block(struct devices *d, size_t i, size_t block, struct csd_job *job,
                      struct err *err);

/* Remove the files that DEVICES_CREATE made (after devices_close of a failed creation: paths must
 * be kept by the caller). */
void devices_remove(const struct run_config *cfg);

/* The layout alone, without opening anything. */
int devices_layout(struct store *s, const struct run_config *cfg, struct err *err);

#endif
