/* tokens_writer.c: writes files of token ids, and goes on with those that a killed process left. */
#include "data/text/tokens_writer.h"

#include "data/base/crc32c.h"
#include "data/base/round.h"
#include "data/text/llmc_file.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_IDS = 4096 };

/* Takes the narrowest format for the vocabulary. */
static void writer_begin(struct tokens_writer *w, size_t vocab)
{
    size_t i = 0;

    assert(vocab <= INT32_MAX);
    while (vocab > (uint64_t)1 << 8 * llmc_formats[i].width)
        i++;
    *w = (struct tokens_writer){ .vocab = vocab, .format = &llmc_formats[i] };
}

int tokens_writer_open(struct tokens_writer *w, const char *path, size_t vocab, struct err *err)
{
    writer_begin(w, vocab);
    return append_open(&w->ids, path, LLMC_HEADER_BYTES, err);
}

int tokens_writer_add(struct tokens_writer *w, const int32_t *ids, size_t n, struct err *err)
{
    const char *path = w->ids.f.path;
    uint16_t    narrow[PIECE_IDS];
    int         rc = 0, wide = w->format->width == sizeof *ids;

    w->count += n;
    for (size_t part; n > 0 && !rc; ids += part, n -= part) {
        part = size_min(n, PIECE_IDS);
        for (size_t i = 0; i < part; i++) {
            if (ids[i] < 0 || (size_t)ids[i] >= w->vocab)
                return err_misuse(err, "%s: id %d is not below the tokenizer's %zu", path, ids[i],
                                  w->vocab);
            narrow[i] = (uint16_t)ids[i];
        }
        const void *stored = wide ? (const void *)ids : narrow;

        w->sum = crc32c(w->sum, stored, part * w->format->width);
        rc = append_add(&w->ids, stored, part * w->format->width, err);
    }
    return rc;
}

int tokens_writer_flush(struct tokens_writer *w, struct err *err)
{
    int rc = append_flush(&w->ids, err);

    return rc || !fdatasync(w->ids.f.fd)
               ? rc : err_set(err, -errno, "fsync %s: %s", w->ids.f.temp, strerror(errno));
}

/* The ids are durable before the header, so that a kill between costs nothing but the last save. */
int tokens_writer_commit(struct tokens_writer *w, struct err *err)
{
    int     fits = w->count <= INT32_MAX;
    int32_t header[LLMC_HEADER_BYTES / 4] = { w->format->magic, w->format->version,
                                              fits ? (int32_t)w->count : LLMC_COUNT_BEHIND };
    int     rc = tokens_writer_flush(w, err);

    memcpy((char *)header + sizeof(struct llmc_header), llmc_mark, sizeof llmc_mark);
    if (!fits)
        memcpy((char *)header + LLMC_COUNT_AT, &w->count, sizeof w->count);
    rc = rc ? rc : file_pwrite(w->ids.f.fd, header, sizeof header, 0, w->ids.f.path, err);
    return rc ? rc : file_new_finish(&w->ids.f, err);
}

/* ---- an unfinished file ---- */

/* States take turns in two places of the header, so that one is whole after a kill. The header has
 * no magic number until the file is complete. */
enum { SAVED_AT = 512 };
struct saved {
    uint64_t      number; // of the save, from 1
    unsigned char state[TOKENS_STATE];
    uint32_t      sum; // CRC32C of the above
};

static uint32_t saved_sum(const struct saved *s)
{
    return crc32c(0, s, offsetof(struct saved, sum));
}

int tokens_writer_save(struct tokens_writer *w, const void *state, struct err *err)
{
    const char  *path = w->ids.f.temp;
    struct saved s;
    int          rc = tokens_writer_flush(w, err);

    memset(&s, 0, sizeof s);
    s.number = w->saves + 1;
    memcpy(s.state, state, sizeof s.state);
    s.sum = saved_sum(&s);
    rc = rc ? rc : file_pwrite(w->ids.f.fd, &s, sizeof s, s.number % 2 * SAVED_AT, path, err);
    if (!rc && fdatasync(w->ids.f.fd))
        rc = err_set(err, -errno, "fsync %s: %s", path, strerror(errno));
    w->saves += !rc;
    return rc;
}

struct finding { struct saved last; int (*fits)(void *ctx, const void *state); void *ctx; };

/* Whether the file has a state, and that fits; or -errno (file_new_find calls this). */
static int find_fits(void *ctx, int fd)
{
    struct finding *f = ctx;

    f->last.number = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct saved s;
        ssize_t      n = pread(fd, &s, sizeof s, i * SAVED_AT);

        if (n < 0)
            return -errno;
        if (n == (ssize_t)sizeof s && s.number % 2 == i && s.number > f->last.number &&
            s.sum == saved_sum(&s))
            f->last = s;
    }
    return f->last.number && f->fits(f->ctx, f->last.state);
}

int tokens_writer_find(struct tokens_writer *w, const char *path, size_t vocab,
                       int (*fits)(void *ctx, const void *state), void *ctx, struct err *err)
{
    struct finding  f = { .fits = fits, .ctx = ctx };
    struct file_new left;

    writer_begin(w, vocab);
    int rc = file_new_find(&left, path, find_fits, &f, err);

    if (rc <= 0)
        return rc;
    w->saves = f.last.number;
    rc = append_go(&w->ids, &left, LLMC_HEADER_BYTES, err);
    if (rc)
        tokens_writer_keep(w);
    return rc ? rc : 1;
}

int tokens_ids_are(int fd, uint64_t bytes, uint32_t sum)
{
    enum { AT_ONCE = 1 << 20 };
    unsigned char *buf = malloc(AT_ONCE);
    uint32_t       is = 0;
    uint64_t       at = 0;
    ssize_t        n = buf ? 1 : -1;

    for (; n > 0 && at < bytes; at += (uint64_t)n) {
        n = pread(fd, buf, size_min(bytes - at, AT_ONCE), (off_t)(LLMC_HEADER_BYTES + at));
        is = n > 0 ? crc32c(is, buf, (size_t)n) : is;
        n = n < 0 ? -errno : n;
    }
    free(buf);
    return n < 0 ? (buf ? (int)n : -ENOMEM) : at == bytes && is == sum;
}

static int is_complete(void *ctx, int fd)
{
    const struct tokens_writer *w = ctx;
    uint64_t                    bytes = w->count * w->format->width;
    struct stat                 st;

    if (fstat(fd, &st))
        return -errno;
    return (uint64_t)st.st_size == LLMC_HEADER_BYTES + bytes ? tokens_ids_are(fd, bytes, w->sum)
                                                             : 0;
}

int tokens_writer_finish(const char *path, size_t vocab, uint64_t count, uint32_t sum,
                         struct err *err)
{
    struct tokens_writer w;
    struct file_new      left;

    writer_begin(&w, vocab);
    w.count = count;
    w.sum = sum;
    int rc = file_new_find(&left, path, is_complete, &w, err);

    if (rc <= 0)
        return rc;
    rc = append_go(&w.ids, &left, (uint64_t)LLMC_HEADER_BYTES + count * w.format->width, err);
    rc = rc ? rc : tokens_writer_commit(&w, err);
    tokens_writer_keep(&w);
    return rc ? rc : 1;
}

static int copy_ids(struct tokens_writer *w, int fd, uint64_t bytes, const char *path,
                    struct err *err)
{
    char buf[PIECE_IDS];
    int  rc = 0;

    for (uint64_t at = 0, n; at < bytes && !rc; at += n) {
        n = size_min(bytes - at, sizeof buf);
        rc = file_pread(fd, buf, n, LLMC_HEADER_BYTES + at, path, err);
        rc = rc ? rc : append_add(&w->ids, buf, n, err);
    }
    return rc ? rc : append_flush(&w->ids, err);
}

int tokens_writer_again(struct tokens_writer *w, const char *path, size_t vocab, uint64_t count,
                        uint32_t sum, struct err *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int rc = fd >= 0 ? 1 : file_is_absent(errno) ? 0 : -errno;

    writer_begin(w, vocab);
    w->count = count;
    w->sum = sum;
    rc = rc > 0 ? is_complete(w, fd) : rc;
    if (rc < 0)
        err_set(err, rc, "read %s: %s", path, strerror(-rc));
    if (rc > 0) {
        rc = append_open(&w->ids, path, LLMC_HEADER_BYTES, err);
        rc = rc ? rc : copy_ids(w, fd, count * w->format->width, path, err);
        rc = rc ? rc : 1;
    }
    file_close(fd);
    return rc;
}

int tokens_writer_cut(struct tokens_writer *w, uint64_t count, uint32_t sum, struct err *err)
{
    struct stat st;
    uint64_t    size = LLMC_HEADER_BYTES + count * w->format->width;

    w->ids.used = 0;
    w->ids.off = size;
    w->count = count;
    w->sum = sum;
    if (fstat(w->ids.f.fd, &st))
        return err_set(err, -errno, "stat %s: %s", w->ids.f.temp, strerror(errno));
    if (count && (uint64_t)st.st_size < size)
        return -EBADMSG;
    int are = tokens_ids_are(w->ids.f.fd, size - LLMC_HEADER_BYTES, sum);

    if (are < 0)
        return err_set(err, are, "read %s: %s; try again, or remove it to begin anew",
                       w->ids.f.temp, strerror(-are));
    if (!are)
        return -EBADMSG;
    return ftruncate(w->ids.f.fd, (off_t)size)
               ? err_set(err, -errno, "truncate %s: %s", w->ids.f.temp, strerror(errno)) : 0;
}

void tokens_writer_keep(struct tokens_writer *w)
{
    file_new_keep(&w->ids.f);
    append_close(&w->ids);
}
