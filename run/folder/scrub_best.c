/* scrub_best.c: verifies the best model at the pace of a scrub. */
#include "run/folder/scrub_best.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"

#include <fcntl.h>
#include <unistd.h>

struct pacing { struct scrub *s; uint64_t seen; int stopped; };

static void goes_on(void *ctx, uint64_t done, uint64_t total)
{
    struct pacing *p = ctx;

    (void)total;
    if (done > p->seen)
        scrub_took(p->s, done - p->seen);
    p->seen = done;
    p->stopped |= scrub_pause(p->s, NULL) != 0;
}

static int is_stopped(void *ctx) { return ((struct pacing *)ctx)->stopped; }

/* Drops the pages of a folder's files, so that they are read from the drive. */
static void forget(const char *dir)
{
    struct file_walk w;
    uint64_t         size;
    int              fd, rc = file_walk_begin(&w, dir, NULL);

    while (!rc && file_walk_next(&w)) {
        if (file_open_read(w.path, &fd, &size, NULL))
            continue;
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    file_walk_end(&w, rc, NULL);
}

int scrub_best(struct exported *out, struct scrub *s, struct runlog *log, const char *dir,
               struct err *err)
{
    enum { TRIES = 4 };
    struct pacing p = { .s = s };
    struct events e = { .ctx = &p, .work_goes_on = goes_on, .asked_to_stop = is_stopped };
    char          best[SESSION_PATH + 16];
    int           any = 1;

    snprintf(best, sizeof best, "%s/best", dir);
    for (int i = 0; i < TRIES && any; i++) {
        p.seen = 0;
        forget(best);
        any = exports_look(out, log, dir, EXPORTS_BEST, &e);
        if (p.stopped)
            return err_stopped(err, "stopped");
        if (out->state == EXPORTS_INTACT || out->state == EXPORTS_DENIED)
            break;
    }
    return any;
}
