/* csd_common.c: begins, checks and fails jobs for all kinds of device, and opens the disk beneath
 * them. */
#include "csd/devices/csd_common.h"

#include "csd/disk/disk_file.h"
#include "csd/engine/grad_wire.h"
#include "data/base/clock.h"

#include <assert.h>
#include <stdarg.h>

static_assert((int)CSD_READ == (int)DISK_READ && (int)CSD_WRITE == (int)DISK_WRITE &&
              (int)CSD_FLUSH == (int)DISK_FLUSH, "a job's kind is its request's");

void csd_job_begin(struct csd_job *job)
{
    if (job->kind == CSD_UPDATE && job->update.ahead)
        csd_job_begin(job->update.ahead);
    job->status = job->why[0] = 0;
    job->meter = (struct link_meter){0};
    memset(job->start_ns, 0, sizeof job->start_ns);
    memset(job->end_ns, 0, sizeof job->end_ns);
    memset(job->busy_ns, 0, sizeof job->busy_ns);
}

void csd_ahead_over(struct csd_job *job, struct list *done)
{
    struct csd_job *ahead = job->kind == CSD_UPDATE ? job->update.ahead : NULL;

    if (!ahead)
        return;
    job->update.ahead = NULL;
    ahead->status = job->status;
    memcpy(ahead->why, job->why, sizeof ahead->why);
    ahead->update.dst_crc = job->update.dst_crc;
    ahead->update.wire_crc = job->update.wire_crc;
    ahead->start_ns[SPAN_JOB] = job->start_ns[SPAN_JOB];
    ahead->start_ns[SPAN_WRITE] = job->start_ns[SPAN_WRITE];
    ahead->end_ns[SPAN_WRITE] = job->end_ns[SPAN_WRITE];
    ahead->end_ns[SPAN_JOB] = clock_ns();
    list_push(done, ahead);
}

void csd_job_fail(const struct csd_config *cfg, struct csd_job *job, int rc, const char *fmt, ...)
{
    char    text[256];
    size_t  length = strlen(cfg->path), most = sizeof job->why - sizeof text - 40;
    int     is_long = length > most; // a long path is cut, except for its end
    va_list ap;

    if (job->status)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    job->status = rc;
    snprintf(job->why, sizeof job->why, "device %d (%s%s): %s", cfg->id, is_long ? "..." : "",
             cfg->path + (is_long ? length - most : 0), text);
}

static void range_check(const struct csd_config *cfg, struct csd_job *job, uint64_t off,
                        uint64_t bytes)
{
    if (off > cfg->bytes || bytes > cfg->bytes - off)
        csd_job_fail(cfg, job, -EINVAL,
                     "%" PRIu64 " bytes at offset %" PRIu64 " are outside its %" PRIu64 " bytes",
                     bytes, off, cfg->bytes);
}

void csd_job_check(const struct csd_config *cfg, const struct csd_caps *caps, struct csd_job *job)
{
    const struct csd_update *u = &job->update;
    size_t slot = (4 * (1 + (size_t)cfg->moments) + dtype_bytes(cfg->wire_dt)) * u->n_pad;

    if (cfg->read_only && (job->kind == CSD_WRITE || job->kind == CSD_UPDATE))
        csd_job_fail(cfg, job, -EROFS, "is open for reading only");
    if (job->kind == CSD_READ || job->kind == CSD_WRITE)
        range_check(cfg, job, job->off, job->bytes);
    if (job->kind != CSD_UPDATE)
        return;
    assert(u->src_off != u->dst_off && u->n > 0 && u->n <= u->n_pad);
    assert(u->n_pad <= cfg->update_params && u->n_pad % CSD_ALIGN_PARAMS == 0);
    if (caps->segments && u->n_segments > caps->segments && cfg->update_link == LINK_INTERNAL)
        csd_job_fail(cfg, job, -EINVAL, "weight decay changes %zu times in an update of %zu "
                     "parameters, its engine takes %zu", u->n_segments, u->n, caps->segments);
    range_check(cfg, job, u->src_off, slot);
    range_check(cfg, job, u->dst_off, slot);
    range_check(cfg, job, u->grad_off,
                u->grad_form == CSD_GRAD_DENSE ? 4 * u->n_pad : grad_wire_bytes(u->pairs));
}

void csd_sums_check(const struct csd_config *cfg, struct csd_job *job,
                    const struct update_area *area, const struct update_sums *sums)
{
    struct csd_update *u = &job->update;
    uint32_t           states = update_sums_states(area, sums->read);
    int                fake = csd_disk_is_fake(cfg);

    if (!fake && states != u->src_crc)
        csd_job_fail(cfg, job, -EBADMSG, "states of %zu bytes at offset %" PRIu64
                     " have checksum %08x, expected %08x",
                     area->states_bytes, u->src_off, states, u->src_crc);
    if (!fake && sums->grad != u->grad_crc)
        csd_job_fail(cfg, job, -EBADMSG,
                     "gradient at offset %" PRIu64 " has checksum %08x, expected %08x",
                     u->grad_off, sums->grad, u->grad_crc);
    u->dst_crc = update_sums_states(area, sums->written);
    u->wire_crc = sums->wire;
}

enum link_dir csd_req_dir(const struct disk_req *req)
{
    return req->op == DISK_READ ? LINK_READ : LINK_WRITE;
}

const char *csd_req_text(const struct disk_req *req, char text[CSD_REQ_TEXT])
{
    static const char *const verb[] = {"read", "write", "flush"};

    snprintf(text, CSD_REQ_TEXT,
             req->op == DISK_FLUSH ? "%s" : "%s of %zu bytes at offset %" PRIu64, verb[req->op],
             req->bytes, req->off);
    return text;
}

void csd_req_fail(const struct csd_config *cfg, struct csd_job *job, const struct disk_req *req,
                  int rc)
{
    char text[CSD_REQ_TEXT];

    csd_job_fail(cfg, job, rc, "%s: %s", csd_req_text(req, text), strerror(-rc));
}

/* Whether forward and backward read or compute these bytes: all but the host's own updates. */
static int is_computed_with(enum link_class cls, enum link_dir dir)
{
    return cls == CLASS_ACTIVATION || (cls == CLASS_WIRE && dir == LINK_READ) ||
           (cls == CLASS_GRADIENT && dir == LINK_WRITE);
}

uint64_t csd_links_take(const struct csd_config *cfg, enum link_kind kind, enum link_class cls,
                        const struct disk_req *req, uint64_t now_ns)
{
    const struct link_ends *e = cfg->links;
    enum link_dir           dir = csd_req_dir(req);
    int                     is_read = dir == LINK_READ;

    if (!e)
        return now_ns;
    struct link *memory = kind == LINK_HOST ? NULL : e->engine;
    uint64_t over = link_take(is_read ? e->drive : memory, is_read ? memory : e->drive, req->bytes,
                              now_ns);
    for (size_t i = 0; kind == LINK_HOST && is_computed_with(cls, dir) && i < e->n_accelerators;
         i++) {
        struct link *a = e->accelerator[i];
        uint64_t     there = link_take(is_read ? NULL : a, is_read ? a : NULL, req->bytes, now_ns);

        over = there > over ? there : over;
    }
    return over;
}

int csd_memory_check(const struct csd_config *cfg, size_t memory, struct err *err)
{
    return memory <= cfg->mem ? 0
           : err_misuse(err, "device %d: updates of %zu parameters need %zu bytes of its memory, "
                        "--csd-mem is %zu", cfg->id, cfg->update_params, memory, cfg->mem);
}

int csd_disk_open(struct disk **out, const struct csd_config *cfg, const struct iovec *own,
                  unsigned n_own, unsigned depth, char *notice, size_t notice_size,
                  struct err *err)
{
    struct iovec      *buffers = calloc(cfg->n_buffers + n_own + 1, sizeof *buffers);
    struct disk_config d = {
        .path = cfg->path, .bytes = cfg->bytes, .create = cfg->create, .read_only = cfg->read_only,
        .keep = cfg->keep, .depth = depth, .buffers = buffers, .n_buffers = cfg->n_buffers + n_own,
    };

    if (!buffers)
        return err_set(err, -ENOMEM, "device %d: out of memory", cfg->id);
    for (unsigned i = 0; i < d.n_buffers; i++)
        buffers[i] = i < cfg->n_buffers ? cfg->buffers[i] : own[i - cfg->n_buffers];
    int rc = disk_open(out, cfg->disk, &d, notice, notice_size, err);
    if (rc == 0 && (*out)->align > CSD_ALIGN) {
        rc = err_set(err, -EINVAL, "%s wants transfers aligned to %zu bytes, %d are given",
                     cfg->path, (*out)->align, CSD_ALIGN);
        disk_close(*out);
        *out = NULL;
        disk_file_undo(&d);
    }
    free(buffers);
    return rc;
}

int csd_disk_is_fake(const struct csd_config *cfg)
{
    return cfg->disk->flags & DISK_FAKE;
}
