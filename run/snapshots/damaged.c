/* damaged.c: finds damage by reading all states, names the command that mends it, and mends the
 * files of a device that cannot be opened. */
#include "run/snapshots/damaged.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "offload/devices/devices.h"
#include "offload/upkeep/verify.h"
#include "run/snapshots/snapshots.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- what is damaged ---- */

static void say(void *session, int damage, const char *sentence)
{
    struct session *s = session;

    (void)damage;
    events_notice(s->events, "%s", sentence);
}

int damaged_count(struct session *s, uint64_t *n, uint64_t *wire, struct err *err)
{
    struct watch  w = work_begin(s->events, "reading the states of %s", s->dir);
    struct verify v = { .say = say, .ctx = s, .watch = &w };
    int           rc = verify_run(&v, &s->run, err);

    work_end(s->events);
    *n = 0;
    for (size_t k = 0; k < VERIFY_KINDS; k++)
        *n += v.count[k].damaged;
    *wire = v.count[VERIFY_WIRE].damaged;
    *n -= *wire;
    return rc;
}

int damaged_explain(struct session *s, int rc, struct err *err)
{
    struct snapshots       list;
    const struct snapshot *newest;
    struct err             unsaid;
    char                   word[SESSION_PATH];

    if ((rc != -EBADMSG && rc != -EIO) || strstr(err->text, "siTrain restore ") ||
        strstr(err->text, runlog_path(s->log)) || // restore writes states alone
        snapshots_list(&list, s, &unsaid))
        return rc;
    machine_word(word, sizeof word, s->dir);
    if ((newest = snapshots_newest(&list)))
        err_set(err, rc, "%s; siTrain restore %s goes back to a snapshot, the newest of which "
                "is after step %" PRIu64 ", and writes all states again", err->text, word,
                newest->step);
    else if (snapshots_any_by_parity(&list))
        err_set(err, rc, "%s; siTrain restore %s makes a snapshot whole by its parity, goes "
                "back to it, and writes all states again", err->text, word);
    snapshots_free(&list);
    return rc;
}

/* ---- one device ---- */

struct device_file {
    const struct run_config *cfg;
    size_t                   i;
    const char              *path;
    uint64_t                 bytes;
    int                      fd;
    int                      wrote; // something was mended
};

static int length_mend(struct device_file *d, struct err *err)
{
    struct stat st;

    if (fstat(d->fd, &st))
        return err_set(err, -errno, "stat %s: %s", d->path, strerror(errno));
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size >= d->bytes)
        return 0;
    d->wrote = 1;
    return file_set_length(d->fd, d->path, (uint64_t)st.st_size, d->bytes, err);
}

static int is_zero(const char *page)
{
    return !*page && !memcmp(page, page + 1, SUPERBLOCK_BYTES - 1);
}

/* A file is certainly this run's (lost.c has put all others aside). A drive may be anybody's. */
static int superblock_mend(struct device_file *d, struct err *err)
{
    char              is[SUPERBLOCK_BYTES], page[SUPERBLOCK_BYTES];
    struct superblock s = devices_super(d->cfg, d->bytes, d->i);
    int               rc = file_pread(d->fd, is, sizeof is, 0, d->path, err);

    if (rc && rc != -EIO) // a block that the drive cannot read is written again
        return rc;
    if (!rc && !(superblock_present(is) ? !superblock_whole(is)
                                        : is_zero(is) || !file_is_block(d->path)))
        return 0; // it is right, or devices_open says whose it is
    superblock_pack(page, &s);
    d->wrote = 1;
    rc = file_pwrite(d->fd, page, sizeof page, 0, d->path, err);
    return rc || !fsync(d->fd) ? rc
                               : err_set(err, -errno, "flush %s: %s", d->path, strerror(errno));
}

static int open_up(const struct run_config *cfg, const struct store *st, size_t i, int *wrote,
                   struct err *err)
{
    char              *path;
    int                rc = devices_path(&path, cfg, i, 0, err);
    struct device_file d = { cfg, i, path, st->device_bytes[i],
                             rc ? -1 : file_open_device(path, O_RDWR), 0 };

    rc = rc ? rc : devices_named_once(cfg, i, err);
    if (!rc && d.fd < 0)
        rc = file_open_fail(path, d.fd, err);
    rc = rc ? rc : length_mend(&d, err);
    rc = rc ? rc : superblock_mend(&d, err);
    *wrote |= d.wrote;
    file_close(d.fd);
    free(path);
    return rc;
}

int damaged_open_up(const struct session *s, int *wrote, struct err *err)
{
    struct store st;
    int          rc = s->run.mode == RUN_MEM ? 0 : store_init(&st, &s->run, err);

    *wrote = 0;
    if (rc || s->run.mode == RUN_MEM)
        return rc;
    for (size_t i = 0; i < s->run.n_devices && !rc; i++)
        rc = devices_gone(&s->run, i) ? 0 : open_up(&s->run, &st, i, wrote, err);
    store_release(&st);
    return rc;
}
