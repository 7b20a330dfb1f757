/* csd.h: a computational storage device: an SSD with memory and an update engine behind its own
 * link. Backends: emu (a worker thread and a disk of its own, memory limited to csd-mem, the
 * update by the same kernels), xrt (the same beside an FPGA), opencl (beside what OpenCL sees),
 * null (answers at once), and csd_skeleton.c to begin another one from.
 *
 * The host sees jobs over byte ranges of one flat device address space; it alone decides the layout
 * (offload/layout/store.h). A device reads no host state but through a job.
 *
 * States of a job: the owner's; submitted, from csd_ops.submit on, when the device alone may touch
 * it and what it points into; complete, when the device rings the owner's bell; and with reap the
 * owner's again, with its results. One thread owns a device: it alone calls submit, reap and close.
 * How many threads a device has of its own is its business. */
#pragma once

#include "csd/disk/disk.h"
#include "csd/link.h"
#include "data/base/bell.h"
#include "data/base/dtype.h"
#include "data/base/err.h"
#include "kernels/optim.h"
#include "kernels/bounds.h"
#include "kernels/topk.h"

/* Ranges of parameters on a device start and end at multiples of this: 4 KiB even in bf16. */
enum { CSD_ALIGN_PARAMS = 2048 };

/* The first three are disk_op's. CSD_AHEAD is never submitted: see csd_update.ahead. */
enum csd_kind { CSD_READ, CSD_WRITE, CSD_FLUSH, CSD_UPDATE, CSD_AHEAD };

enum csd_grad_form { CSD_GRAD_DENSE, CSD_GRAD_PAIRS };

/* Parameters [first, first + n) of a subgroup share a weight decay. */
struct csd_segment { size_t first, n; float weight_decay; };

/* A slot is [master, moments.., wire]: (1 + moments) * n_pad fp32, then n_pad wire elements. What
 * lies between n and n_pad is zero and stays zero. Checksums are over the padded bytes: states =
 * master and moments together; wire; gradient.
 *
 * Parameters first (Smart-Infinity's optimized transfer handler, HPCA 2024): the wire, which the
 * next forward reads, and the master are written before the moments. Who does not want to wait for
 * the moments gives a job of kind CSD_AHEAD along. It is the device's as the update is, and
 * complete as soon as dst's wire is written, at the latest with the update, before which it is
 * reaped. The update may fail after it, and dst is of no use then. Of an update that fails before,
 * it has the status and the sentence. */
struct csd_update {
    uint64_t src_off, dst_off; // slots; never the same
    uint64_t grad_off;
    size_t   n, n_pad;         // parameters; n_pad the next multiple of CSD_ALIGN_PARAMS
    enum csd_grad_form grad_form;
    size_t   pairs;            // CSD_GRAD_PAIRS: how many (see grad_wire.h); may be 0
    // expected; a difference fails the job with -EBADMSG and writes nothing
    uint32_t src_crc, grad_crc;
    struct optim_step step;
    const struct csd_segment *segments; // cover [0, n) in order
    size_t   n_segments;
    int      unchecked;             // bounds_advance says that no value can go too far: it is not
                                    // looked
    // results
    uint32_t dst_crc, wire_crc;
    struct overflow overflow;    // elements that would have gone too far; with unchecked none
    struct bounds bounds;        // of the new values; without unchecked
    struct csd_job *ahead;     // or NULL, as it is again once this is reaped; its results: status,
                               // why, spans, and dst_crc and wire_crc
};

enum csd_span { SPAN_JOB, SPAN_READ, SPAN_COMPUTE, SPAN_WRITE, CSD_SPANS };

struct csd_job {
    enum csd_kind   kind;
    enum link_class cls;     // READ, WRITE: what is metered (over the host link)
    void    *buf;            // READ, WRITE: host memory, aligned to 4 KiB
    uint64_t off;
    size_t   bytes, payload; // bytes: multiple of 4 KiB; what is not payload is padding
    struct csd_update update;
    // results, valid once reaped
    int      status;         // 0 or -errno
    char     why[512];       // one sentence, naming device and offset, where status is not 0
    struct link_meter meter;
    // SPAN_JOB always; the others for updates (first start, last end); SPAN_WRITE for CSD_AHEAD
    uint64_t start_ns[CSD_SPANS], end_ns[CSD_SPANS];
    uint64_t busy_ns[CSD_SPANS]; // an update's parts: how long at least one transfer was under way,
                                 // how long the engine was at work
    void    *user;           // the owner's, with tag
    uint64_t tag;
    struct csd_job *next;    // the device's
};

/* How a device goes from one update to the next (Smart-Infinity, HPCA 2024, section IV):
 * HANDED_OVER keeps its buffers and loads one update while the one before is stored (--mode su+o);
 * NAIVE allocates, reads, computes, writes back and frees, one after another (--mode su). */
enum csd_handler { CSD_HANDED_OVER, CSD_NAIVE };

/* update_link: what an update's transfers cross: LINK_INTERNAL, for the engine is beside the drive;
 * LINK_HOST: the engine is on the host's side and is the host's processor (--mode base). */
struct csd_config {
    int         id;            // its number in the run
    const char *path; // file or block device; it outlives the device, as bell and links do
    uint64_t    bytes;
    uint64_t    keep;          // disk_config's
    int         create, read_only;
    const struct disk_ops *disk; // beneath it; where it stores nothing no checksums are compared
    size_t      mem;           // of the device, in bytes: less than csd_ops.memory is misuse
    // the updates that will come: the largest n_pad (0: none will), and what they are of
    size_t      update_params;
    int         moments;
    enum dtype  wire_dt;
    enum csd_handler handler;
    enum link_kind   update_link;
    const struct iovec *buffers; // host memory that jobs will point into
    unsigned    n_buffers;
    struct bell *bell;
    /* Of a device with an accelerator card: the card's PCI address ("0000:31:00.1"), or NULL for
     * the one beside the drive; the file that its logic is loaded from. Needed by open alone. */
    const char *fpga, *xclbin;
    // what is in flight when the disk has given no sign of life for so long is given up; 0: never
    uint64_t    timeout_ns;
    /* Where it stands among modelled links (topology.h); NULL: none are. A transfer is over when
     * they are done with it, too, whatever is beneath. */
    const struct link_ends *links;
};

struct csd { const struct csd_ops *ops; }; // first member of every backend

enum { CSD_FAKE = 1 }; // flags: stores nothing

/* What a device's own engine can do; what it cannot is not asked of it (csd_caps_check), or fails
 * the job (segments). Checksums all must make. */
struct csd_caps {
    unsigned optims;   // bits 1 << enum optim_kind
    int      pairs;    // takes compressed gradients
    size_t   segments; // of an update, at most; 0: any number
    int      on_card;  // what csd_ops.memory says is not memory of the host
};

/* What each call must do, and what a new device can leave out, is said in csd_skeleton.c. */
struct csd_ops {
    const char *name;  // what --csd takes
    const char *about; // what it is, in some words
    unsigned    flags;
    const struct csd_caps *caps; // of its engine
    /* Whether this build and machine have what all such devices need: 0, or -errno and a sentence;
     * NULL: they need nothing. */
    int (*usable)(struct err *err);
    /* Bytes of device memory that cfg's updates (update_params, moments, wire_dt, handler) will
     * allocate; they grow with update_params. The one place where they are computed. */
    size_t (*memory)(const struct csd_config *cfg);
    int  (*open)(struct csd **out, const struct csd_config *cfg, char *notice, size_t notice_size,
                 struct err *err);
    /* Jobs are started in order of submission but may complete in any order; reads and writes do
     * not wait behind updates. The owner orders what depends on each other by reaping. Never fails:
     * errors come with the job. */
    void (*submit)(struct csd *c, struct csd_job *job);
    // those complete by now, at most max; never waits
    int  (*reap)(struct csd *c, struct csd_job **done, int max);
    /* Waits for jobs in flight; NULL is fine. 1 if requests were given up that may still be
     * answered: the memory that jobs pointed into must then stay for ever (csd_keep). */
    int  (*close)(struct csd *c);
};

extern const struct csd_ops csd_emu, csd_null, csd_xrt, csd_opencl;
extern const struct csd_ops csd_skeleton; // not found by name
const struct csd_ops *csd_at(size_t i); // the i-th kind; NULL past the last
const char           *csd_name(size_t i);

/* Refuse what its engine cannot do: updates by this optimizer, of compressed gradients. With
 * LINK_HOST it is not asked. */
int csd_caps_check(const struct csd_ops *ops, const struct csd_config *cfg, enum optim_kind optim,
                   int pairs, struct err *err);

/* The most parameters of one update, a multiple of CSD_ALIGN_PARAMS and at most `most`, that fit
 * into cfg->mem (cfg: moments, wire_dt, handler); 0 where not even CSD_ALIGN_PARAMS do. */
size_t csd_params_max(const struct csd_ops *ops, const struct csd_config *cfg, size_t most);

/* Memory that requests given up point into: it stays for ever, and here it is known. */
void csd_keep(void *memory);
