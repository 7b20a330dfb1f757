/* csd_skeleton.c: a device to begin a new one from. It works, slowly: each job is done within
 * submit, on a disk beneath, with one buffer as the device's memory. It goes through the tests
 * of all devices (tests/test_csd.c, test_csd_ahead.c), but --csd does not offer it.
 *
 * To add a device: copy this file under a name of its own, with its ops; put those into csd.h,
 * into the table of csd.c and into EACH of tests/csd_rig.h, and say in `about` what it is. Then
 * replace, in any order: the buffer by the memory of the device, transfer() by what moves bytes
 * there, the pass in update() by what computes there, and submit by one that only begins a job.
 *
 * What is the same for all devices: the owner's thread alone calls submit, reap and close. Whatever
 * goes wrong with a job is said in it (csd_job_fail: a status, and a sentence with the device's
 * number and path, and what was done at which offset); what goes wrong at open is said in err. What
 * an update reads and writes must be what csd.h says, to the bit: csd_update for the layout,
 * kernels/optim.h for the arithmetic, data/base/crc32c.h for the sums. */
#include "csd/devices/csd_common.h"
#include "csd/engine/grad_wire.h"
#include "data/base/arena.h"
#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/base/list.h"

#include <unistd.h>

struct skeleton {
    struct csd         base; // Required: the first member
    struct csd_config  cfg;
    struct disk       *disk;
    struct arena       memory;
    struct update_area area;
    struct list        done; // jobs that are complete, for reap
    int                broken; // -errno of a disk that keeps a request, which points into memory
};

/* Required. What its engine can do. */
static const struct csd_caps skeleton_caps = {.optims = ~0u, .pairs = 1, .segments = 0};

/* Required. How much of the device's memory cfg's updates need: whatever is held at once, for the
 * largest of them; as much is allocated. It is asked before any device is opened, for plans and
 * layouts: it may look at update_params, moments, wire_dt and handler alone, and must not become
 * less where update_params grows. */
static size_t skeleton_memory(const struct csd_config *cfg)
{
    return update_area_bytes(cfg->update_params, cfg->moments, cfg->wire_dt);
}

/* ---- what a job does ---- */

/* One request of the disk, waited for. Where it has not answered for timeout_ns it is given up: it
 * stays the disk's, with the memory that it points into, and every job after it fails. */
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

/* Required, in some form: all that moves is metered: `payload` of the bytes, by its class and
 * direction, on the internal link where an update moves it and on the host's otherwise. Not
 * required: to wait until modelled links would be done, too; a real device has real ones. */
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

/* The gradient of an update into memory: dense as it is; or pairs, of which as many bytes come at a
 * time as the place of the wire parameters holds. */
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

/* A part of the slot that the update writes; memory has them in the slot's order. */
static void store(struct skeleton *c, struct csd_job *job, enum link_class cls, void *from,
                  size_t bytes)
{
    const struct csd_update *u = &job->update;
    uint64_t                 at = (uint64_t)((char *)from - (char *)c->area.states);

    transfer(c, job, cls, bytes / u->n_pad * u->n,
             (struct disk_req){.op = DISK_WRITE, .buf = from, .bytes = bytes,
                               .off = u->dst_off + at});
}

/* Required: read, check, compute, write. Nothing may be written, not even a part, where what was
 * read is not what src_crc and grad_crc say. dst_off is nobody's until the job is complete. Not
 * required, but worth it: that the job ahead is complete before the moments are written. */
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

/* Required. It returns at once or takes long, as it likes; it does not fail. The job and what it
 * points into are the device's from here until reap. Reads and writes must not wait behind updates
 * (here they do, which is correct but slow). A flush covers what was reaped before it was
 * submitted. When a job is complete the bell is rung, from whatever thread: after that, reap must
 * find it. */
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
    csd_ahead_over(job, &c->done); // where it failed before
    list_push(&c->done, job);
    bell_ring(c->cfg.bell);
}

/* Required. Hands over complete jobs, at most max; never waits. */
static int skeleton_reap(struct csd *base, struct csd_job **done, int max)
{
    return list_take(&((struct skeleton *)base)->done, done, max);
}

/* Required. Waits for the jobs in flight, which need not be reaped any more. Where requests were
 * given up that may still be answered it must not wait for them: then it keeps what they point
 * into (csd_keep) and returns 1, so that the owner keeps its buffers. */
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
 * made; after a failure nothing is open and nothing that it created is left. cfg and all that it
 * points to are the caller's but for path, bell and links, which outlive the device: what
 * is needed later is copied. buffers may be registered with the driver; jobs will use no other
 * memory for long transfers. notice: for a sentence about what works in another way than asked for;
 * it may have no bytes. */
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
    .flags = 0, // CSD_FAKE where nothing is stored
    .caps = &skeleton_caps,
    .memory = skeleton_memory,
    .open = skeleton_open,
    .submit = skeleton_submit,
    .reap = skeleton_reap,
    .close = skeleton_close,
};
