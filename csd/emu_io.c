/* emu_io.c: a transfer is over when the disk is done with it and the modelled link would be. Only
 * what the disk does counts as silence, not what a link delays; and not more than a slice of it at
 * a time, so that a process that was stopped, or a clock that jumped, breaks nothing. */
#include "csd/emu.h"

#include "data/base/clock.h"

#include <assert.h>
#include <unistd.h>

enum { REAP = 32, SILENCE_SLICES = 8 };

static enum link_kind io_link(const struct emu *e, const struct emu_io *io)
{
    return io->set && !e->cfg.update_on_host ? LINK_INTERNAL : LINK_HOST;
}

void emu_io_start(struct emu *e, struct emu_io *io)
{
    int rc = e->broken;

    assert(!io->at_disk);
    io->req.user = io;
    io->over_ns = 0;
    if (rc == 0)
        rc = disk_submit(e->disk, &io->req);
    if (rc) {
        io->req.status = rc;
        list_push(&e->delayed, io);
        return;
    }
    io->at_disk = 1;
    e->n_at_disk++;
    if (io->req.op != DISK_FLUSH)
        io->over_ns = csd_links_take(&e->cfg, io_link(e, io), &io->req, clock_ns());
}

struct emu_io *emu_io_over(struct emu *e)
{
    uint64_t now = e->delayed.first ? clock_ns() : 0;

    for (struct emu_io *io = e->delayed.first; io; io = io->next)
        if (io->over_ns <= now) {
            list_remove(&e->delayed, io);
            return io;
        }
    return NULL;
}

int64_t emu_io_wait(const struct emu *e)
{
    uint64_t now = clock_ns(), next = UINT64_MAX;

    for (const struct emu_io *io = e->delayed.first; io; io = io->next)
        next = io->over_ns < next ? io->over_ns : next;
    return next == UINT64_MAX ? -1 : next > now ? (int64_t)(next - now) : 0;
}

void emu_io_account(const struct emu *e, struct emu_io *io)
{
    const struct disk_req *r = &io->req;
    char                   text[CSD_REQ_TEXT];

    if (r->status == 0 && r->op != DISK_FLUSH)
        link_meter_count(&io->job->meter, io_link(e, io), io->cls, csd_req_dir(r), io->payload,
                         r->bytes);
    if (r->status && io->at_disk && e->broken == -ETIMEDOUT)
        csd_job_fail(&e->cfg, io->job, -ETIMEDOUT,
                     "%s has had no answer for %.3g s, nor has any of the %u requests in flight "
                     "(--io-timeout): they are given up",
                     csd_req_text(r, text), (double)e->cfg.timeout_ns * 1e-9, e->n_at_disk);
    else if (r->status)
        csd_req_fail(&e->cfg, io->job, r, r->status);
}

/* Nothing was reaped just now: is it long since there was a sign of life? */
static int is_silent(struct emu *e, uint64_t slice)
{
    uint64_t now = clock_ns(), moved = disk_moved(e->disk), passed = now - e->listened_ns;

    if (e->n_at_disk == 0 || moved != e->moved)
        e->silent_ns = 0;
    else
        e->silent_ns += passed < slice ? passed : slice;
    e->moved = moved;
    e->listened_ns = now;
    return e->cfg.timeout_ns > 0 && e->silent_ns >= e->cfg.timeout_ns;
}

int emu_io_serve(struct emu *e, int64_t wait_ns)
{
    struct disk_req *done[REAP];
    uint64_t         slice = e->cfg.timeout_ns / SILENCE_SLICES + 1;

    if (e->broken) {
        usleep(1000);
        return 0;
    }
    if (e->cfg.timeout_ns > 0 && e->n_at_disk > 0 && (uint64_t)wait_ns > slice) // -1 is more, too
        wait_ns = (int64_t)slice;
    int n = disk_reap(e->disk, done, REAP, wait_ns);
    for (int i = 0; i < n; i++) {
        struct emu_io *io = done[i]->user;

        io->at_disk = 0;
        e->n_at_disk--;
        list_push(&e->delayed, io);
    }
    if (n > 0) {
        e->silent_ns = 0;
        e->listened_ns = clock_ns();
    } else {
        e->broken = n < 0 ? n : is_silent(e, slice) ? -ETIMEDOUT : 0;
    }
    return e->broken;
}
