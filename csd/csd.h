/* csd.h: a computational storage device: an SSD with memory and an update engine behind its own
 * link. Backends: emu (an own worker thread, an own ring, memory limited to csd-mem, the update by
 * the same kernels), null (answers at once).
 * The host sees jobs over byte ranges of one flat device address space; it alone decides the layout
 * (offload/store.h). A device reads no host state but through a job.
 *
 * One thread owns a device (submit, reap, close). A device rings the owner's bell when a job
 * completes. */
#ifndef CSD_CSD_H
#define CSD_CSD_H

#include "csd/disk.h"
#include "csd/link.h"
#include "data/base/err.h"
#include "data/base/dtype.h"
#include "kernels/optim.h"
#include "kernels/reach.h"
#include "kernels/topk.h"

#include <pthread.h>

enum { CSD_ALIGN_PARAMS = 2048 }; // ranges of parameters on a device start and end at multiples of
                                  // this: 4 KiB even in bf16

/* Shared by all devices of an owner: a counter with a condition. */
struct csd_bell { pthread_mutex_t mutex; pthread_cond_t cond; uint64_t rings; };
void csd_bell_init(struct csd_bell *b);    // condition on CLOCK_MONOTONIC
void csd_bell_release(struct csd_bell *b);
void csd_bell_ring(struct csd_bell *b);
/* Wait until rings != seen or timeout_ns is over; returns the new count. */
uint64_t csd_bell_wait(struct csd_bell *b, uint64_t seen, uint64_t timeout_ns);

enum csd_kind { CSD_READ, CSD_WRITE, CSD_UPDATE, CSD_FLUSH };

enum csd_grad_form { CSD_GRAD_DENSE, CSD_GRAD_PAIRS };

/* Parameters [first, first + n) of a subgroup share a weight decay. */
struct csd_segment { size_t first, n; float weight_decay; };

/* A slot is [master, moments.., wire]: (1 + moments) * n_pad fp32, then n_pad wire elements. What
 * lies between n and n_pad is zero and stays zero. Checksums are over the padded bytes: states =
 * master and moments together; wire; gradient. */
struct csd_update {
    uint64_t src_off, dst_off; // slots; never the same
    uint64_t grad_off;
    size_t   n, n_pad;         // parameters; n_pad the next multiple of CSD_ALIGN_PARAMS
    enum csd_grad_form grad_form;
    size_t   pairs;            // CSD_GRAD_PAIRS: how many (see grad_wire.h); may be 0
    uint32_t src_crc, grad_crc; // expected; a difference fails the job with -EBADMSG and writes
                                // nothing
    struct optim_step step;
    const struct csd_segment *segments; // cover [0, n) in order
    size_t   n_segments;
    int      calm;              // reach_calm says that no value can go too far: it is not looked
    // results
    uint32_t dst_crc, wire_crc;
    struct reach_kept kept;     // elements that would have gone too far; with calm none
    struct reach reach;         // of the new values; without calm
};

enum csd_span { SPAN_JOB, SPAN_READ, SPAN_COMPUTE, SPAN_WRITE, CSD_SPANS };

struct csd_job {
    enum csd_kind   kind;
    enum link_class cls;     // READ, WRITE: what is metered (over the host link)
    void    *buf;            // READ, WRITE: host memory, aligned to 4 KiB
    uint64_t off;
    size_t bytes, payload; // bytes: multiple of 4 KiB; payload of them counts, the rest is padding
    struct csd_update update;
    // results, valid once reaped
    int      status;         // 0 or -errno
    char     why[512];       // one sentence, naming device and offset, where status is not 0
    struct link_meter meter;
    // SPAN_JOB always; the others for updates (first start, last end)
    uint64_t start_ns[CSD_SPANS], end_ns[CSD_SPANS];
    void    *user;           // the owner's, with tag
    uint64_t tag;
    struct csd_job *next;    // the device's
};

struct csd_config {
    int         id;            // its number in the run
    const char *path;          // file or block device (a directory was resolved by the caller)
    uint64_t    bytes;
    uint64_t    keep;          // disk_config's
    int         create, read_only;
    const char *disk;          // "uring", "sync", "null" (null: checksums are not compared, nothing
                               // being stored)
    const struct disk_ops *disk_ops; // if set, instead of disk: how tests put a faulty disk under a
                                     // device
    size_t      mem;           // memory limit; the arena must fit, else a sentence with what would
    size_t      update_params; // largest n_pad of any update
    int         moments;
    enum dtype  wire_dt;
    int         naive; // su: allocate, read, update, write back, free, one job after another
    int         update_on_host; // base: the same pipeline, but over the host link and from host
                                // memory (ZeRO-Infinity)
    struct link *host, *internal; // may be NULL: unlimited. internal is the SSD's own: all it reads
                                  // and writes crosses it
    const struct iovec *buffers; // host memory that jobs will point into
    unsigned    n_buffers;
    struct csd_bell *bell;
    uint64_t    timeout_ns;    // what is in flight when the disk has given no sign of life for so
                               // long is given up; 0: never
};

struct csd { const struct csd_ops *ops; }; // first member of every backend

enum { CSD_FAKE = 1 }; // flags: stores nothing

struct csd_ops {
    const char *name; // what --csd takes
    unsigned    flags;
    int  (*open)(struct csd **out, const struct csd_config *cfg, char *notice, size_t notice_size,
                 struct err *err);
    /* Jobs are started in order of submission but may complete in any order; reads and writes do
     * not wait behind updates. The owner orders what depends on each other by reaping. Never fails:
     * errors come with the job. */
    void (*submit)(struct csd *c, struct csd_job *job);
    int (*reap)(struct csd *c, struct csd_job **done, int max); // those complete by now; never
                                                                // waits
    size_t (*arena)(const struct csd *c); // bytes of accelerator memory really allocated (peak)
    /* Waits for jobs in flight; NULL is fine. 1 if requests were given up that may still be
     * answered: the memory that jobs pointed into must then stay for ever. */
    int (*close)(struct csd *c);
};

extern const struct csd_ops csd_emu, csd_null;
const struct csd_ops *csd_find(const char *name); // NULL if there is none

/* Memory that requests given up point into: it stays for ever, and here it is known. */
void csd_keep(void *memory);

/* Bytes of accelerator memory that updates of n_pad parameters need in each mode (naive one set,
 * else two). */
size_t csd_arena_bytes(size_t n_pad, int moments, enum dtype wire_dt, int naive);

#endif
