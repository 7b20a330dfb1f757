/* wal.c: the log's frames against their checksums, as far as its index counts them. Both formats
 * are SQLite's own, documented at https://sqlite.org/walformat.html and unchanged since 2010: the
 * log has a header of 32 bytes, then frames of a header of 24 bytes and a page; numbers are
 * big-endian; each frame's checksum goes on from the one before. */
#include "data/db/wal.h"

#include "data/base/file.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOG_HEADER = 32, FRAME_HEADER = 24, MAX_PAGE = 65536 };
enum { INDEX_VERSION = 3007000 };
static const uint32_t LOG_MAGIC = 0x377f0682; // its last bit: checksums are of big-endian words

/* The head of the index, in the machine's own order; there are two copies. Behind them: how many of
 * the frames are in the database, too, and how many began to go there. */
struct wal_index {
    uint32_t      version, unused, change;
    unsigned char ready, big_endian;
    uint16_t      page;
    uint32_t      frames, pages, frame_sum[2];
    unsigned char salt[8];
    uint32_t      sum[2];
};
struct wal_taken { uint32_t done, marks[5]; unsigned char locks[8]; uint32_t begun, unused; };
struct wal_head { struct wal_index both[2]; struct wal_taken taken; };
_Static_assert(sizeof(struct wal_head) == 136, "as SQLite has it");

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void sum_on(uint32_t sum[2], const unsigned char *p, size_t n, int big_endian)
{
    for (size_t i = 0; i < n; i += 8) {
        uint32_t a = get32(p + i), b = get32(p + i + 4);

        sum[0] += (big_endian ? a : __builtin_bswap32(a)) + sum[1];
        sum[1] += (big_endian ? b : __builtin_bswap32(b)) + sum[0];
    }
}

void wal_boot(char id[WAL_BOOT])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (!f || fscanf(f, "%36[0-9a-f-]", id) != 1)
        *id = '\0';
    if (f)
        fclose(f);
}

/* The index, if it is one that can be relied on: written since the machine was started, so that
 * what the kernel gives is what was written. No file's time tells that: clocks are set. */
static int index_read(const char *path, const char *boot, struct wal_head *out)
{
    const struct wal_index *first = &out->both[0];
    char                    now[WAL_BOOT];
    uint64_t                size;
    int                     fd, good;

    wal_boot(now);
    if (!*boot || strcmp(boot, now) || file_open_read(path, &fd, &size, NULL))
        return 0;
    good = file_pread(fd, out, sizeof *out, 0, path, NULL) == 0 &&
           memcmp(first, &out->both[1], sizeof *first) == 0 && first->version == INDEX_VERSION &&
           first->ready;
    close(fd);
    return good;
}

/* The log's head: its page size into *page, its checksum into sum. */
static int head_check(const unsigned char *head, const struct wal_index *index, uint32_t sum[2],
                      size_t *page)
{
    *page = get32(head + 8);
    sum[0] = sum[1] = 0;
    sum_on(sum, head, 24, head[3] & 1);
    return (get32(head) | 1) == (LOG_MAGIC | 1) && *page >= 512 && *page <= MAX_PAGE &&
           memcmp(head + 16, index->salt, 8) == 0 && sum[0] == get32(head + 24) &&
           sum[1] == get32(head + 28);
}

static int frame_check(const unsigned char *frame, size_t page, const unsigned char *head,
                       uint32_t sum[2])
{
    sum_on(sum, frame, 8, head[3] & 1);
    sum_on(sum, frame + FRAME_HEADER, page, head[3] & 1);
    return memcmp(frame + 8, head + 16, 8) == 0 && sum[0] == get32(frame + 16) &&
           sum[1] == get32(frame + 20);
}

/* Read the frames that were committed; whole: those up to the last commit before the first that is
 * damaged. */
static int frames_check(int fd, const char *path, const struct wal_index *index,
                        struct wal_part *part, unsigned char *buf, struct err *err)
{
    unsigned char head[LOG_HEADER];
    uint32_t      sum[2];
    size_t        page = 0;
    uint64_t      off = LOG_HEADER;

    if (file_pread(fd, head, sizeof head, 0, path, NULL) || !head_check(head, index, sum, &page))
        return err_set(err, -EBADMSG,
                       "%s: the head of the database's log is damaged, and with it the last %u "
                       "pages that were committed",
                       path, index->frames);
    for (uint32_t i = 0; i < index->frames; i++, off += FRAME_HEADER + page) {
        if (file_pread(fd, buf, FRAME_HEADER + page, off, path, NULL) ||
            !frame_check(buf, page, head, sum))
            return err_set(err, -EBADMSG,
                           "%s: the database's log is damaged at offset %llu: %u of the last %u "
                           "pages that were committed are from there on; nothing was changed",
                           path, (unsigned long long)off, index->frames - i, index->frames);
        if (get32(buf + 4)) { // the last of a transaction
            part->whole = i + 1;
            part->bytes = off + FRAME_HEADER + page;
        }
    }
    return 0;
}

/* What a damaged log leaves. Pages of its first frames may be in run.db already. Where that is no
 * more than what is whole, the log goes on from there; where it is all, the log has nothing that
 * run.db has not. Between, some pages are newer than the log's whole part, and those that have a
 * later frame are not in run.db. */
static void part_decide(struct wal_part *part, uint32_t frames, const struct wal_taken *taken)
{
    if (taken->begun <= part->whole)
        part->use = part->whole ? WAL_UP_TO : WAL_WITHOUT;
    else
        part->use = taken->done == frames ? WAL_WITHOUT : WAL_NOTHING;
}

int wal_check(const char *db_path, const char *boot, struct wal_part *part, struct err *err)
{
    struct wal_head  head;
    struct wal_part  own;
    struct err       why;
    char            *log = NULL, *shm = NULL;
    unsigned char   *buf = malloc(FRAME_HEADER + MAX_PAGE);
    const uint32_t  *frames = &head.both[0].frames;
    uint64_t         size;
    int              fd = -1, rc = 0;

    if (!part)
        part = &own;
    *part = (struct wal_part){ .use = WAL_ALL };
    if (!buf || asprintf(&log, "%s-wal", db_path) < 0 || asprintf(&shm, "%s-shm", db_path) < 0) {
        rc = err_set(err, -ENOMEM, "%s: out of memory", db_path);
    } else if (index_read(shm, boot, &head) && *frames) {
        rc = file_open_read(log, &fd, &size, &why)
                 ? err_set(err, -EBADMSG,
                           "%s, but its index %s has %u pages that were committed to it", why.text,
                           shm, *frames)
                 : frames_check(fd, log, &head.both[0], part, buf, err);
        if (rc)
            part_decide(part, *frames, &head.taken);
    }
    if (fd >= 0)
        close(fd);
    free(buf);
    free(log);
    free(shm);
    return rc;
}

/* ---- cutting it ---- */

int wal_cut(const char *db_path, const struct wal_part *part, struct err *err)
{
    off_t       bytes = part->use == WAL_UP_TO ? (off_t)part->bytes : 0;
    char       *log = NULL, *shm = NULL, *kept = NULL;
    struct stat st = { 0 };
    int         fd = -1, rc = 0;

    assert(part->use == WAL_UP_TO || part->use == WAL_WITHOUT);
    if (asprintf(&log, "%s-wal", db_path) < 0 || asprintf(&shm, "%s-shm", db_path) < 0 ||
        asprintf(&kept, "%s-wal.damaged", db_path) < 0)
        rc = err_set(err, -ENOMEM, "%s: out of memory", db_path);
    if (!rc && (!lstat(log, &st) || errno != ENOENT))
        rc = file_open_own(log, 0, &fd, err);
    if (!rc && st.st_size > bytes) // else a kill came after it was cut: what it was is kept already
        rc = file_copy(log, kept, UINT64_MAX, err);
    if (!rc && st.st_size > bytes && (ftruncate(fd, bytes) || fsync(fd)))
        rc = err_set(err, -errno, "cut %s to %lld bytes: %s", log, (long long)bytes,
                     strerror(errno));
    if (!rc && unlink(shm) && errno != ENOENT) // only now: until here it says that the log is
                                               // damaged
        rc = err_set(err, -errno, "remove %s: %s", shm, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(log);
    free(shm);
    free(kept);
    return rc;
}
