/* scrub.c: reads an area at a rate, past the cache, and decides whether it is damaged. */
#include "offload/upkeep/scrub.h"

#include "data/base/clock.h"
#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "offload/devices/devices_place.h"
#include "offload/devices/image.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 1 << 20, TRIES = 16, LOOK_US = 20000 };

/* ---- the rate ---- */

void scrub_took(struct scrub *s, uint64_t bytes)
{
    uint64_t now = clock_ns();

    s->bytes += bytes;
    if (!s->bw)
        return;
    s->due_ns = (s->due_ns > now ? s->due_ns : now) +
                (uint64_t)((double)bytes * 1e9 / (double)s->bw);
}

int scrub_pause(struct scrub *s, struct err *err)
{
    uint64_t now;
    int      rc;

    while (!(rc = watch_look(s->watch, s->bytes, 0, err)) && (now = clock_ns()) < s->due_ns) {
        uint64_t us = (s->due_ns - now) / 1000 + 1;

        usleep((useconds_t)(us < LOOK_US ? us : LOOK_US));
    }
    return rc;
}

void scrub_yields(void)
{
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3, CLASS_SHIFT = 13, NICEST = 19 };

    // without these it reads all the same, and disturbs more
    syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE << CLASS_SHIFT);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICEST);
}

/* ---- files ---- */

int scrub_open(struct scrub *s, struct err *err)
{
    s->buffer = aligned_alloc(PAGE, PIECE);
    return s->buffer ? 0 : err_set(err, -ENOMEM, "out of memory for reading states");
}

void scrub_turn(struct scrub *s, const struct run_config *cfg, const struct scrub_source *from)
{
    for (size_t i = 0; i < s->n_files; i++) {
        file_close(s->files[i].fd);
        free(s->files[i].path);
    }
    free(s->files);
    s->files = NULL;
    s->n_files = 0;
    s->cfg = cfg;
    s->from = from;
}

void scrub_close(struct scrub *s)
{
    scrub_turn(s, NULL, NULL);
    free(s->buffer);
    s->buffer = NULL;
}

static int path_of(char **out, const struct run_config *cfg, size_t file, struct err *err)
{
    char path[PATH_MAX];

    if (cfg->mode != RUN_MEM)
        return devices_path(out, cfg, file, 0, err);
    image_path(cfg, (unsigned)file, path, sizeof path);
    *out = file_path(err, "%s", path);
    return *out ? 0 : -ENOMEM;
}

/* Opens a file for reading. No lock is taken: who trains the run has it. A file system without
 * O_DIRECT is read through the cache, from which the file's pages are dropped. */
static int open_file(struct scrub_file *f, struct err *err)
{
    f->fd = file_open_device(f->path, O_RDONLY | O_DIRECT);
    if (f->fd == -EINVAL && (f->fd = file_open_device(f->path, O_RDONLY)) >= 0)
        posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
    return f->fd < 0 ? err_set(err, f->fd, "open %s: %s", f->path, strerror(-f->fd)) : 0;
}

/* The open file, or NULL with its sentence. *rc: nothing is known of the file: there is no memory,
 * or this user may not read it. */
static struct scrub_file *file_of(struct scrub *s, size_t file, int *rc, struct err *err)
{
    struct scrub_file *grown;

    *rc = 0;
    if (file >= s->n_files) {
        if (!(grown = realloc(s->files, (file + 1) * sizeof *grown))) {
            *rc = err_set(err, -ENOMEM, "out of memory for reading states");
            return NULL;
        }
        s->files = grown;
        for (; s->n_files <= file; s->n_files++)
            grown[s->n_files] = (struct scrub_file){ .fd = -1 };
    }
    struct scrub_file *f = &s->files[file];
    if (!f->path && (*rc = path_of(&f->path, s->cfg, file, err)))
        return NULL;
    int opened = f->fd >= 0 ? 0 : open_file(f, err);
    *rc = file_is_unknown(opened) ? opened : 0;
    return opened ? NULL : f;
}

/* ---- an area ---- */

/* Reads whole pages into the buffer. Returns how many bytes came, which are fewer only at the end
 * of the file, or -errno. */
static ssize_t pages_read(const struct scrub *s, int fd, uint64_t off, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t part = pread(fd, s->buffer + got, n - got, (off_t)(off + got));

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        got += (size_t)part;
        if (part == 0 || part % PAGE)
            break;
    }
    return (ssize_t)got;
}

/* Reads and sums the area. 0, or 1 with the reason in `why`: it cannot be read. */
static int sum(struct scrub *s, const struct area *a, const struct scrub_file *f, uint32_t *crc,
               char *why, size_t size, struct err *err)
{
    int paced = s->from->still || a->kind == VERIFY_FROZEN || a->kind == VERIFY_IMAGE;

    *crc = 0;
    for (uint64_t at = a->off, end = a->off + a->bytes; at < end;) {
        uint64_t from = at / PAGE * PAGE;
        size_t   want = size_min(PIECE, round_up((size_t)(end - from), PAGE));
        ssize_t  got = pages_read(s, f->fd, from, want);
        size_t   skip = (size_t)(at - from);
        int      rc = 0;

        if (got < 0 || (size_t)got < size_min(want, (size_t)(end - from))) {
            snprintf(why, size, "bytes from %" PRIu64 " on cannot be read: %s", from,
                     got < 0 ? strerror((int)-got) : "the file ends there");
            return 1;
        }
        size_t n = size_min((size_t)got - skip, (size_t)(end - at));
        *crc = crc32c(*crc, s->buffer + skip, n);
        at += n;
        scrub_took(s, (uint64_t)got);
        if (paced && at < end && (rc = scrub_pause(s, err)))
            return rc;
    }
    return 0;
}

/* Reads the area once. 0: whole; 1: it differs, or cannot be read. */
static int try_area(struct scrub *s, const struct area *a, char *why, size_t size, char **path,
                    struct err *err)
{
    struct err         text;
    uint32_t           crc = 0;
    int                rc;
    struct scrub_file *f = file_of(s, a->file, &rc, &text);

    *path = s->n_files > a->file ? s->files[a->file].path : NULL;
    if (rc)
        return err_set(err, rc, "%s", text.text);
    if (!f) {
        snprintf(why, size, "it cannot be read: %.200s", text.text);
        return 1;
    }
    if ((rc = sum(s, a, f, &crc, why, size, err)) || crc == a->crc)
        return rc;
    snprintf(why, size, "damaged (its checksum is %08x, the journal has %08x)", crc, a->crc);
    return 1;
}

static void count(struct scrub *s, const struct area *a, int damaged)
{
    struct verify_count *c = &s->count[a->kind];

    c->n++;
    c->bytes += a->bytes;
    c->damaged += (uint64_t)damaged;
}

int scrub_read(struct scrub *s, size_t i, struct area *area, struct err *err)
{
    const struct scrub_source *from = s->from;
    struct area                before = { 0 };
    char                       why[320] = "", *path = NULL;
    int                        rc = from->look(from->ctx, i, &before, err), same = 0;

    for (int k = 0; !rc && before.bytes && k < TRIES; k++) {
        rc = scrub_pause(s, err);
        rc = rc ? rc : from->look(from->ctx, i, area, err);
        rc = rc ? rc : try_area(s, area, why, sizeof why, &path, err);
        if (rc < 0 || !rc) {
            if (!rc)
                count(s, area, 0);
            return rc < 0 ? rc : SCRUB_WHOLE;
        }
        rc = from->look(from->ctx, i, &before, err);
        same = area_same(area, &before) ? same + 1 : 0;
        if (!rc && same > 1) {
            count(s, area, 1);
            area_says(err, s->cfg, area, path ? path : "", why);
            return SCRUB_DAMAGED;
        }
    }
    s->changed += !rc && before.bytes;
    *area = before;
    return rc ? rc : before.bytes ? SCRUB_CHANGED : SCRUB_NOTHING;
}
