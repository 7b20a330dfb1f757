/* csd_skeleton.c: shows what a device needs; copy it to begin a new one. It works, slowly: each job
 * is done within submit, on a disk beneath, with one buffer as the device's memory. It passes the
 * tests of all devices (tests/test_csd.c, test_csd_ahead.c), but --csd does not offer it.
 *
 * To add a device: copy this file to csd/devices/ under its name, with its ops. Add those to csd.h,
 * the table of csd.c and EACH of tests/csd_rig.h, and say in `about` what the device is. Then
 * replace, in any order: the buffer by the device's memory, transfer() by what moves bytes there,
 * the pass in update() by what computes there, and submit by one that only begins a job.
 *
 * For all devices: only the owner's thread calls submit, reap and close. An error of a job is
 * reported in the job (csd_job_fail: a status, and a sentence with the device's number and path,
 * and what was done at which offset). An error of open is reported in err. What an update reads and
 * writes must be what csd.h says, to the bit: csd_update for the layout, kernels/update/optim.h for
 * the arithmetic, data/base/crc32c.h for the checksums. */
#include "csd/devices/csd_common.h"
#include "csd/engine/grad_wire.h"
#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/list.h"

#include <unistd.h>

extern const struct csd_ops csd_skeleton;

struct skeleton {
    struct csd         base; // Required: the first member
    struct csd_config  cfg;
    struct disk       *disk;
    struct arena       memory;
    struct update_area area;
    struct list        done; // jobs that are complete, for reap
    int                broken; // -errno of a disk that keeps a request, which points into memory
};

/* Required. The capabilities of its engine. */
static const struct csd_caps skeleton_caps = {.optims = ~0u, .pairs = 1, .segments = 0};

/* Required. How much of the device's memory cfg's updates need: all that is held at the same time,
 * for the largest update. This much is allocated. Plans and layouts ask before any device is
 * opened: it may use only update_params, moments, wire_dt and handler, and must not become less if
 * update_params grows. */
static size_t skeleton_memory(const struct csd_config *cfg)
{
    return update_area_bytes(cfg->update_params, cfg->moments, cfg->wire_dt);
}

/* ---- running a job ---- */

/* Runs one request of the disk, and waits for it. If it is not answered within timeout_ns, it is
 * given up: it still belongs to the disk, with the memory that it points into, and every later job
 * fails. */
static int request(struct skeleton *c, struct disk_req *req)
{
    int64_t          slice = c->cfg.timeout_ns ? (int64_t)c->cfg.timeout_ns : -1;
    struct disk_req *done;
    uint64_t         moved = disk_moved(c->disk);
    int              rc = disk_submit(c->disk, req);

    if (rc)
        return rc;
    while (!rc && !(rc = disk_reap(c->disk, &done, 1, slice))) {
        uint64_t before = moved;
        moved = disk_moved(c->disk);
        if (slice >= 0 && moved == before)
            rc = -ETIMEDOUT;
    }
    if (rc < 0)
        c->broken = rc;
    return rc < 0 ? rc : req->status;
}

/* Required, in some form: all transfers are metered: `payload` of the bytes, by class and
 * direction, on the internal link if an update moves them, otherwise on the host's. Not required:
 * to wait until modelled links would be done. A real device has real ones. */
static void transfer(struct skeleton *c, struct csd_job *job, enum link_class cls, size_t payload,
                     struct disk_req req)
{
    int            is_update = job->kind == CSD_UPDATE;
    enum link_kind kind = is_update ? c->cfg.update_link : LINK_HOST;
    enum csd_span  span = req.op == DISK_READ ? SPAN_READ : SPAN_WRITE;
    uint64_t       start = clock_ns();

    if (job->status)
        return;
    if (is_update && job->start_ns[span] == 0)
        job->start_ns[span] = start;
    int rc = c->broken ? c->broken : request(c, &req);
    if (rc)
        csd_req_fail(&c->cfg, job, &req, rc);
    if (rc || req.op == DISK_FLUSH)
        return;
    uint64_t end = csd_links_take(&c->cfg, kind, cls, &req, start);
    uint64_t now = clock_ns();
    if (end > now)
        usleep((useconds_t)((end - now) / 1000));
    link_meter_count(&job->meter, kind, cls, csd_req_dir(&req), payload, req.bytes);
    if (is_update) {
        job->end_ns[span] = clock_ns();
        job->busy_ns[span] += job->end_ns[span] - start;
    }
}

/* Loads the gradient of an update into memory. A dense one is copied. Pairs come in parts as large
 * as the area of the wire parameters. */
static void gradient_load(struct skeleton *c, struct csd_job *job, struct update_sums *sums)
{
    const struct csd_update  *u = &job->update;
    const struct update_area *a = &c->area;
    size_t                    total = grad_wire_bytes(u->pairs), left = 8 * u->pairs;
    struct grad_wire_reader   reader;
    struct err                why;

    if (u->grad_form == CSD_GRAD_DENSE) {
        transfer(c, job, CLASS_GRADIENT, 4 * u->n,
                 (struct disk_req){.op = DISK_READ, .buf = a->grad, .bytes = a->grad_bytes,
                                   .off = u->grad_off});
        return;
    }
    memset(a->grad, 0, a->grad_bytes);
    grad_wire_begin(&reader, u->n, u->pairs);
    for (size_t at = 0, bytes; at < total && !job->status; at += bytes) {
        size_t head = at == 0 ? GRAD_WIRE_HEADER : 0;

        bytes = total - at < a->wire_bytes ? total - at : a->wire_bytes;
        size_t pairs = left < bytes - head ? left : bytes - head;
        left -= pairs;
        transfer(c, job, CLASS_GRADIENT, pairs,
                 (struct disk_req){.op = DISK_READ, .buf = a->wire, .bytes = bytes,
                                   .off = u->grad_off + at});
        if (job->status)
            return;
        sums->grad = crc32c(sums->grad, a->wire, bytes);
        if (!csd_disk_is_fake(&c->cfg) && grad_wire_scatter(&reader, a->grad, a->wire, bytes, &why))
            csd_job_fail(&c->cfg, job, -EBADMSG, "gradient at offset %" PRIu64 ": %s", u->grad_off,
                         why.text);
    }
}

/* Stores a part of the slot that the update writes. Memory has the parts in the slot's order. */
static void store(struct skeleton *c, struct csd_job *job, enum link_class cls, void *from,
                  size_t bytes)
{
    const struct csd_update *u = &job->update;
    uint64_t                 at = (uint64_t)((char *)from - (char *)c->area.states);

    transfer(c, job, cls, bytes / u->n_pad * u->n,
             (struct disk_req){.op = DISK_WRITE, .buf = from, .bytes = bytes,
                               .off = u->dst_off + at});
}

/* Required: read, check, compute, write. If what was read does not match src_crc and grad_crc,
 * nothing may be written, not even a part. Nobody uses dst_off until the job is complete. Not
 * required, but useful: the job ahead is complete before the moments are written. */
static void update(struct skeleton *c, struct csd_job *job)
{
    struct csd_update  *u = &job->update;
    struct update_area *a = &c->area;
    struct update_sums  sums = {0};
    size_t              master = sizeof(float) * u->n_pad;

    update_area_init(a, c->memory.base, u->n_pad, c->cfg.moments, c->cfg.wire_dt);
    transfer(c, job, CLASS_STATES, a->states_bytes / u->n_pad * u->n,
             (struct disk_req){.op = DISK_READ, .buf = a->states, .bytes = a->states_bytes,
                               .off = u->src_off});
    gradient_load(c, job, &sums);
    if (job->status)
        return;
    job->start_ns[SPAN_COMPUTE] = clock_ns();
    update_area_pass(a, u, 0, u->n_pad, &sums);
    job->end_ns[SPAN_COMPUTE] = clock_ns();
    job->busy_ns[SPAN_COMPUTE] = job->end_ns[SPAN_COMPUTE] - job->start_ns[SPAN_COMPUTE];
    csd_sums_check(&c->cfg, job, a, &sums);
    store(c, job, CLASS_WIRE, a->wire, a->wire_bytes);
    csd_ahead_over(job, &c->done);
    store(c, job, CLASS_STATES, a->states, master);
    store(c, job, CLASS_STATES, a->states + u->n_pad, a->states_bytes - master);
}

/* ---- the calls ---- */

/* Required. May return at once or take long; cannot fail. The job and the memory that it points to
 * are the device's from here until reap. Reads and writes must not wait behind updates (here they
 * do, which is correct but slow). A flush covers what was reaped before the flush was submitted.
 * When a job is complete, the bell is rung, from any thread; from then on, reap must find the
 * job. */
static void skeleton_submit(struct csd *base, struct csd_job *job)
{
    struct skeleton *c = (struct skeleton *)base;

    csd_job_begin(job);
    job->start_ns[SPAN_JOB] = clock_ns();
    csd_job_check(&c->cfg, &skeleton_caps, job);
    if (job->kind == CSD_UPDATE && !job->status)
        update(c, job);
    else
        transfer(c, job, job->cls, job->payload,
                 (struct disk_req){.op = (enum disk_op)job->kind, .buf = job->buf,
                                   .bytes = job->bytes, .off = job->off});
    job->end_ns[SPAN_JOB] = clock_ns();
    csd_ahead_over(job, &c->done); // if it has failed before
    list_push(&c->done, job);
    bell_ring(c->cfg.bell);
}

/* Required. Hands over complete jobs, at most max; never waits. */
static int skeleton_reap(struct csd *base, struct csd_job **done, int max)
{
    return list_take(&((struct skeleton *)base)->done, done, max);
}

/* Required. Waits for the jobs in flight, which need not be reaped any more. It must not wait for
 * requests that were given up and may still be answered. In that case it keeps the memory that
 * these point into (csd_keep) and returns 1, so that the owner keeps its buffers. */
static int skeleton_close(struct csd *base)
{
    struct skeleton *c = (struct skeleton *)base;

    if (c && c->broken) {
        disk_abandon(c->disk);
        csd_keep(c);
        return 1;
    }
    if (c) {
        disk_close(c->disk);
        arena_free(&c->memory);
    }
    free(c);
    return 0;
}

/* Required. Refuses what the device cannot do (csd_memory_check for its memory), before anything is
 * made. After a failure nothing is open, and nothing that it created is left. cfg and all that it
 * points to are the caller's, except for path, bell and links, which outlive the device: copy what
 * is needed later. buffers may be registered with the driver; jobs use no other memory for long
 * transfers. notice: for a sentence if something works differently than asked for; it may have no
 * bytes. */
static int skeleton_open(struct csd **out, const struct csd_config *cfg, char *notice,
                         size_t notice_size, struct err *err)
{
    struct skeleton *c = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    *c = (struct skeleton){.base = {&csd_skeleton}, .cfg = *cfg, .memory.align = ARENA_IO};
    c->cfg.buffers = NULL;
    list_init(&c->done, offsetof(struct csd_job, next));
    arena_take(&c->memory, skeleton_memory(cfg));
    int rc = csd_memory_check(cfg, skeleton_memory(cfg), err);
    rc = rc ? rc : arena_map(&c->memory, "updates of a device", err);
    if (!rc) {
        struct iovec own = {c->memory.base, c->memory.bytes};

        rc = csd_disk_open(&c->disk, cfg, &own, own.iov_base != NULL, 1, notice, notice_size, err);
    }
    if (rc)
        skeleton_close(&c->base);
    else
        *out = &c->base;
    return rc;
}

const struct csd_ops csd_skeleton = {
    .name = "skeleton",
    .about = "what `siTrain devices` says of it",
    .flags = 0, // CSD_FAKE if nothing is stored
    .caps = &skeleton_caps,
    .memory = skeleton_memory,
    .open = skeleton_open,
    .submit = skeleton_submit,
    .reap = skeleton_reap,
    .close = skeleton_close,
};
