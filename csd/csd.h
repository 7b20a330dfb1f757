/* csd.h: a computational storage device: an SSD with memory and an update engine behind a link of
 * its own. Kinds (csd/devices): emu (a worker thread with a disk, memory limited to csd-mem,
 * updates by the host's kernels), xrt (a worker with an FPGA), opencl (a worker with an OpenCL
 * device), null (answers at once); tests/csd_skeleton.c is a template for a new kind.
 *
 * The host sees jobs over byte ranges of one flat device address space, and alone decides the
 * layout (offload/layout/store.h). A device reads host state only through jobs.
 *
 * A job is the owner's; submitted, from csd_ops.submit on: only the device may touch the job and
 * the memory that it points to; complete: the device has rung the owner's bell; reaped: the owner's
 * again, with results. One thread owns a device: it alone calls submit, reap and close. A device
 * may have any number of threads of its own. */
#pragma once

#include "csd/disk/disk.h"
#include "csd/link.h"
#include "data/base/bell.h"
#include "data/base/dtype.h"
#include "data/base/err.h"
#include "kernels/update/bounds.h"
#include "kernels/update/optim.h"

/* Ranges of parameters on a device start and end at multiples of this: 4 KiB even in bf16. */
enum { CSD_ALIGN_PARAMS = 2048 };

/* The first three are disk_op's. CSD_AHEAD is never submitted: see csd_update.ahead. */
enum csd_kind { CSD_READ, CSD_WRITE, CSD_FLUSH, CSD_UPDATE, CSD_AHEAD };

enum csd_grad_form { CSD_GRAD_DENSE, CSD_GRAD_PAIRS };

/* Parameters [first, first + n) of a subgroup, which share a weight decay. */
struct csd_segment { size_t first, n; float weight_decay; };

/* An update reads slot src and a gradient, and writes slot dst. A slot is [master, moments..,
 * wire]: (1 + moments) * n_pad fp32, then n_pad wire elements. Values between n and n_pad are zero
 * and stay zero. Checksums are over the padded bytes: of states (master and moments together), of
 * wire, of the gradient.
 *
 * Parameters first (Smart-Infinity's optimized transfer handler, HPCA 2024): the wire, which the
 * next forward reads, and the master are written before the moments. An owner that does not want to
 * wait for the moments adds a job of kind CSD_AHEAD. That job is the device's while the update is.
 * It is complete as soon as dst's wire is written, and is reaped before the update. The update may
 * still fail afterwards; dst is then of no use. If the update fails earlier, CSD_AHEAD has the same
 * status and sentence. */
struct csd_update {
    uint64_t src_off, dst_off; // slots; never the same
    uint64_t grad_off;
    size_t   n, n_pad;         // parameters; n_pad: rounded up to CSD_ALIGN_PARAMS
    enum csd_grad_form grad_form;
    size_t   pairs;            // CSD_GRAD_PAIRS: their number, or 0 (grad_wire.h)
    // expected checksums; a difference fails the job with -EBADMSG, and nothing is written
    uint32_t src_crc, grad_crc;
    struct optim_step step;
    const struct csd_segment *segments; // (n_segments) they cover [0, n) in order
    size_t   n_segments;
    int      unchecked;        // bounds_advance said that no element can overflow: no check
    // results
    uint32_t dst_crc, wire_crc;
    struct overflow overflow;  // elements that would have overflowed; none with unchecked
    struct bounds bounds;      // of the new values; not set with unchecked
    struct csd_job *ahead;     // a CSD_AHEAD job, or NULL; NULL again once that is reaped. Its
                               // results: status, why, spans, dst_crc, wire_crc
};

enum csd_span { SPAN_JOB, SPAN_READ, SPAN_COMPUTE, SPAN_WRITE, CSD_SPANS };

struct csd_job {
    enum csd_kind   kind;
    enum link_class cls;     // READ, WRITE: class of the bytes, which cross the host link
    void    *buf;            // READ, WRITE: host memory, aligned to 4 KiB
    uint64_t off;            // on the device
    size_t   bytes, payload; // bytes: a multiple of 4 KiB; the rest beyond payload is padding
    struct csd_update update;
    // results, valid once reaped
    int      status;         // 0 or -errno
    char     why[512];       // if status is not 0: a sentence that names device and offset
    struct link_meter meter;
    // SPAN_JOB of every job; the others of updates (first start, last end); SPAN_WRITE of CSD_AHEAD
    uint64_t start_ns[CSD_SPANS], end_ns[CSD_SPANS];
    uint64_t busy_ns[CSD_SPANS]; // of updates: how long at least one transfer was under way, how
                                 // long the engine worked
    void    *user;           // the owner's, as tag is
    uint64_t tag;
    struct csd_job *next;    // the device's
};

/* How a device passes from one update to the next (Smart-Infinity, HPCA 2024, section IV).
 *     HANDED_OVER  keeps its buffers, and loads one update while another is stored (--mode su+o)
 *     NAIVE        allocates, reads, computes, writes and frees, one update after another (--mode
 *                  su) */
enum csd_handler { CSD_HANDED_OVER, CSD_NAIVE };

/* update_link: the link that an update's transfers cross. LINK_INTERNAL: the engine stands beside
 * the drive. LINK_HOST: the engine is the host's processor (--mode base). */
struct csd_config {
    int         id;            // its number in the run
    const char *path;          // file or block device; outlives the device, as bell and links do
    uint64_t    bytes;
    uint64_t    keep;          // as disk_config.keep
    int         create, read_only;
    const struct disk_ops *disk; // beneath it. If it stores nothing, no checksums are compared
    size_t      mem;           // bytes of device memory; less than csd_ops.memory is misuse
    // future updates: the largest n_pad (0: there are none), moments, the wire's type
    size_t      update_params;
    int         moments;
    enum dtype  wire_dt;
    enum csd_handler handler;
    enum link_kind   update_link;
    const struct iovec *buffers; // (n_buffers) host memory that jobs will point into
    unsigned    n_buffers;
    struct bell *bell;
    /* For a device with an accelerator card: the card's PCI address ("0000:31:00.1"), or NULL for
     * the card beside the drive; and the file with its logic. Only open reads them. */
    const char *fpga, *xclbin;
    // without a sign of life from the disk for so long, all in flight fails; 0: never
    uint64_t    timeout_ns;
    /* The device's place among modelled links (topology.h), or NULL. A transfer ends when the disk
     * and the links are done with it. */
    const struct link_ends *links;
};

struct csd { const struct csd_ops *ops; }; // first member of every backend

enum { CSD_FAKE = 1 }; // csd_ops.flags: stores nothing

/* What a device's engine can do. csd_caps_check refuses a run that needs more; too many segments
 * fail their job. Every engine makes checksums. */
struct csd_caps {
    unsigned optims;   // bits 1 << enum optim_kind
    int      pairs;    // true: takes compressed gradients
    size_t   segments; // the most in an update; 0: any number
    int      on_card;  // true: csd_ops.memory is not memory of the host
};

/* tests/csd_skeleton.c says what each call must do, and what a new kind can leave out. */
struct csd_ops {
    const char *name;  // what --csd takes
    const char *about; // a short description
    unsigned    flags;
    const struct csd_caps *caps; // of its engine
    /* 0 if this build and machine have what such devices need, or -errno and a sentence; NULL: they
     * need nothing. */
    int (*usable)(struct err *err);
    /* Bytes of device memory that cfg's updates (update_params, moments, wire_dt, handler) will
     * allocate. They grow with update_params. */
    size_t (*memory)(const struct csd_config *cfg);
    int  (*open)(struct csd **out, const struct csd_config *cfg, char *notice, size_t notice_size,
                 struct err *err);
    /* Jobs begin in the order of submission and may complete in any order. Reads and writes do not
     * wait behind updates. If one job depends on another, the owner reaps that one first. Never
     * fails: errors come with the job. */
    void (*submit)(struct csd *c, struct csd_job *job);
    /* The jobs that are complete by now, at most max, and their number. Never waits. */
    int  (*reap)(struct csd *c, struct csd_job **done, int max);
    /* Waits for jobs in flight; NULL is fine. 1 if requests were given up that may still be
     * answered: the memory that jobs pointed to must then stay for ever (csd_keep). */
    int  (*close)(struct csd *c);
};

extern const struct csd_ops csd_emu, csd_null, csd_xrt, csd_opencl;
const struct csd_ops *csd_at(size_t i); // the i-th kind; NULL past the last
const char           *csd_name(size_t i);

/* Refuse an optimizer, or compressed gradients, that the engine cannot do. With LINK_HOST the
 * engine is not used, and all is allowed. */
int csd_caps_check(const struct csd_ops *ops, const struct csd_config *cfg, enum optim_kind optim,
                   int pairs, struct err *err);

/* The most parameters of one update that fit into cfg->mem: a multiple of CSD_ALIGN_PARAMS, at most
 * `most`; 0 if not even CSD_ALIGN_PARAMS fit. Of cfg: mem, moments, wire_dt, handler. */
size_t csd_params_max(const struct csd_ops *ops, const struct csd_config *cfg, size_t most);

/* Keep memory for ever that requests that were given up may still write to. Any thread. */
void csd_keep(void *memory);
