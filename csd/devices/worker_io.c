/* worker_io.c: starts the worker's transfers and ends each when the disk is done with it and the
 * modelled link would be. Silence means that the disk does nothing, not that a link delays. At most
 * one slice of time is counted at once, so a process that was stopped, or a clock that jumped,
 * breaks nothing. */
#include "csd/devices/worker.h"

#include "data/base/clock.h"

#include <assert.h>
#include <unistd.h>

enum { REAP = 32, SILENCE_SLICES = 8 };

static enum link_kind io_link(const struct worker *w, const struct worker_io *io)
{
    return io->set ? w->cfg.update_link : LINK_HOST;
}

void worker_io_start(struct worker *w, struct worker_io *io)
{
    int rc = w->broken;

    io->req.user = io;
    io->over_ns = 0;
    if (rc == 0)
        rc = disk_submit(w->disk, &io->req);
    assert(rc != -EAGAIN); // -EAGAIN means "reap first"; worker.c's DEPTH rules it out
    if (rc) {
        io->req.status = rc;
        list_push(&w->delayed, io);
        return;
    }
    io->at_disk = 1;
    w->n_at_disk++;
    if (io->req.op != DISK_FLUSH)
        io->over_ns = csd_links_take(&w->cfg, io_link(w, io), io->cls, &io->req,
                                     clock_ns());
}

struct worker_io *worker_io_over(struct worker *w)
{
    uint64_t now = w->delayed.first ? clock_ns() : 0;

    for (struct worker_io *io = w->delayed.first; io; io = io->next)
        if (io->over_ns <= now) {
            list_remove(&w->delayed, io);
            return io;
        }
    return NULL;
}

int64_t worker_io_wait(const struct worker *w)
{
    uint64_t now = clock_ns(), next = UINT64_MAX;

    for (const struct worker_io *io = w->delayed.first; io; io = io->next)
        next = io->over_ns < next ? io->over_ns : next;
    return next == UINT64_MAX ? -1 : next > now ? (int64_t)(next - now) : 0;
}

void worker_io_account(const struct worker *w, struct worker_io *io)
{
    const struct disk_req *r = &io->req;
    char                   text[CSD_REQ_TEXT];

    if (r->status == 0 && r->op != DISK_FLUSH)
        link_meter_count(&io->job->meter, io_link(w, io), io->cls, csd_req_dir(r), io->payload,
                         r->bytes);
    if (r->status && io->at_disk && w->broken == -ETIMEDOUT)
        csd_job_fail(&w->cfg, io->job, -ETIMEDOUT,
                     "%s has had no answer for %.3g s, nor has any of the %u requests in flight "
                     "(--io-timeout): they are given up",
                     csd_req_text(r, text), (double)w->cfg.timeout_ns * 1e-9, w->n_at_disk);
    else if (r->status)
        csd_req_fail(&w->cfg, io->job, r, r->status);
}

void worker_job_broken(const struct worker *w, struct csd_job *job)
{
    int rc = w->broken ? w->broken : w->engine->broken;

    csd_job_fail(&w->cfg, job, rc, "%s cannot be used any more: %s",
                 w->broken ? "the disk" : "its engine", strerror(-rc));
}

/* Nothing was reaped: checks whether the last sign of life is too long ago. */
static int is_silent(struct worker *w, uint64_t slice)
{
    uint64_t now = clock_ns(), moved = disk_moved(w->disk), passed = now - w->listened_ns;

    if (w->n_at_disk == 0 || moved != w->moved)
        w->silent_ns = 0;
    else
        w->silent_ns += passed < slice ? passed : slice;
    w->moved = moved;
    w->listened_ns = now;
    return w->cfg.timeout_ns > 0 && w->silent_ns >= w->cfg.timeout_ns;
}

void worker_io_serve(struct worker *w, int64_t wait_ns)
{
    struct disk_req *done[REAP];
    uint64_t         slice = w->cfg.timeout_ns / SILENCE_SLICES + 1;

    if (w->broken) {
        usleep(1000);
        return;
    }
    if (w->cfg.timeout_ns > 0 && w->n_at_disk > 0 && (uint64_t)wait_ns > slice) // -1 is more, too
        wait_ns = (int64_t)slice;
    int n = disk_reap(w->disk, done, REAP, wait_ns);
    for (int i = 0; i < n; i++) {
        struct worker_io *io = done[i]->user;

        io->at_disk = 0;
        w->n_at_disk--;
        list_push(&w->delayed, io);
    }
    if (n > 0) {
        w->silent_ns = 0;
        w->listened_ns = clock_ns();
    } else {
        w->broken = n < 0 ? n : is_silent(w, slice) ? -ETIMEDOUT : 0;
    }
}
