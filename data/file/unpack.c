/* unpack.c: unpacks gzip and zstd with zlib and libzstd, piece by piece or behind a stream of
 * stdio. Memory is a buffer, and the format's window: 32 KiB for gzip, at most 128 MiB for zstd. A
 * zstd file that needs more is refused. */
#include "data/file/unpack.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/round.h"
#include "data/file/stdin_spool.h"

#include <strings.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { IN_BYTES = 1 << 17, OUT_BYTES = 1 << 17 };

struct unpack {
    enum { PLAIN, GZIP, ZSTD } kind;
    int          fd, pipe; // pipe: standard input, of which nothing can be read again
    char        *path;
    uint64_t     size, off; // of the file, and how much has been read; size 0: unknown
    int          ended;     // no more bytes follow `in`
    uint32_t     sum, sum_before; // CRC32C of the contents, and what it began with
    size_t       at, n;     // in[at..n) has not been unpacked yet
    uint64_t     made;      // number of unpacked bytes
    int          within;    // a member or frame has begun and not ended
    z_stream     z;
    ZSTD_DCtx   *zstd;
    int          rc; // of `why`
    struct err   why;
    unsigned char in[IN_BYTES];
};

void unpack_end(struct unpack *u)
{
    if (!u)
        return;
    if (u->kind == GZIP)
        inflateEnd(&u->z);
    ZSTD_freeDCtx(u->zstd);
    file_close(u->fd);
    free(u->path);
    free(u);
}

int unpack_failed(const struct unpack *u, struct err *err)
{
    if (!u || !u->rc)
        return 0;
    if (err)
        *err = u->why;
    return u->rc;
}

const char *unpack_format(const struct unpack *u)
{
    return u->kind == GZIP ? "gzip" : u->kind == ZSTD ? "zstd" : NULL;
}

void unpack_progress(const struct unpack *u, uint64_t *done, uint64_t *total)
{
    *done = u->off - (u->n - u->at);
    *total = u->size;
}

uint32_t unpack_sum(const struct unpack *u) { return u->sum; }

void unpack_sum_begin(struct unpack *u, uint32_t sum) { u->sum = u->sum_before = sum; }

static int corrupt(struct unpack *u, const char *why)
{
    return err_misuse(&u->why, "%s is a %s file that is corrupt: after %" PRIu64 " bytes of its "
                      "contents: %s", u->path, unpack_format(u), u->made, why);
}

static int in_fill(struct unpack *u)
{
    size_t  n = u->pipe ? IN_BYTES : size_min(u->size - u->off, IN_BYTES);
    ssize_t got;
    int     rc = 0;

    u->at = u->n = 0;
    if (!u->pipe) {
        rc = n ? file_pread(u->fd, u->in, n, u->off, u->path, &u->why) : 0;
        u->n = rc ? 0 : n;
    } else {
        do
            got = read(u->fd, u->in, n);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            rc = err_set(&u->why, -errno, "read %s: %s", u->path, strerror(errno));
        u->n = got > 0 ? (size_t)got : 0;
    }
    u->off += u->n;
    u->ended = !u->n;
    return rc;
}

/* Unpacks once from in[at..n) to `to`. *n: number of bytes. */
static int gzip_some(struct unpack *u, char *to, size_t *n)
{
    u->z.next_in = u->in + u->at;
    u->z.avail_in = (uInt)(u->n - u->at);
    u->z.next_out = (Bytef *)to;
    u->z.avail_out = (uInt)*n;
    if (!u->within && u->z.avail_in && inflateReset(&u->z) != Z_OK)
        return err_set(&u->why, -ENOMEM, "no memory to unpack %s", u->path);
    u->within |= u->z.avail_in != 0;
    int got = inflate(&u->z, Z_NO_FLUSH);

    u->at = u->n - u->z.avail_in;
    *n -= u->z.avail_out;
    u->made += *n;
    if (got == Z_STREAM_END)
        u->within = 0;
    if (got == Z_OK || got == Z_STREAM_END || got == Z_BUF_ERROR) // the last: needs more input
        return 0;
    if (got == Z_MEM_ERROR)
        return err_set(&u->why, -ENOMEM, "no memory to unpack %s", u->path);
    return corrupt(u, u->z.msg ? u->z.msg : "it needs a dictionary");
}

static int zstd_some(struct unpack *u, char *to, size_t *n)
{
    ZSTD_inBuffer  in = { u->in, u->n, u->at };
    ZSTD_outBuffer out = { to, *n, 0 };
    size_t         got = ZSTD_decompressStream(u->zstd, &out, &in);

    u->at = in.pos;
    *n = out.pos;
    u->made += *n;
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_frameParameter_windowTooLarge)
        return err_misuse(&u->why, "%s was packed with a window of more than 128 MiB (zstd "
                          "--long), which is the most that is unpacked here. First: zstd -d "
                          "--long=31 %s", u->path, u->path);
    if (ZSTD_isError(got))
        return corrupt(u, ZSTD_getErrorName(got));
    u->within = got != 0;
    return 0;
}

static int plain_some(struct unpack *u, char *to, size_t *n)
{
    *n = size_min(*n, u->n - u->at);
    memcpy(to, u->in + u->at, *n);
    u->at += *n;
    u->made += *n;
    return 0;
}

static ssize_t cookie_read(void *cookie, char *to, size_t most)
{
    struct unpack *u = cookie;
    size_t         n = 0;

    if (!most)
        return 0;
    while (!u->rc && !n) {
        if (u->at == u->n && !u->ended && (u->rc = in_fill(u)))
            break;
        int over = u->at == u->n; // the file has ended, but bytes may be held back
        if (over && !u->within)
            return 0;
        n = size_min(most, OUT_BYTES);
        u->rc = u->kind == GZIP   ? gzip_some(u, to, &n)
                : u->kind == ZSTD ? zstd_some(u, to, &n)
                                  : plain_some(u, to, &n);
        if (!u->rc && over && !n && u->within)
            u->rc = err_misuse(&u->why, "%s is a %s file that was cut off: after %" PRIu64
                               " bytes of its contents it ends in the middle", u->path,
                               unpack_format(u), u->made);
    }
    if (n) {
        u->sum = crc32c(u->sum, to, n);
        return (ssize_t)n; // the next call reports the failure
    }
    errno = EIO;
    return -1;
}

int unpack_read(struct unpack *u, char *to, size_t most, size_t *n, struct err *err)
{
    ssize_t got;

    for (*n = 0; *n < most; *n += (size_t)got)
        if ((got = cookie_read(u, to + *n, most - *n)) <= 0)
            return got < 0 ? unpack_failed(u, err) : 0;
    return 0;
}

static int cookie_seek(void *cookie, off64_t *to, int from)
{
    struct unpack *u = cookie;
    char           skipped[4096];
    uint64_t       want = from == SEEK_SET && *to >= 0 ? (uint64_t)*to : u->made;

    if (u->pipe && want != u->made)
        return errno = ESPIPE, -1;
    if ((from != SEEK_SET && from != SEEK_CUR) || (from == SEEK_CUR && *to != 0))
        return errno = EINVAL, -1;
    if (want < u->made) {
        u->off = u->made = 0;
        u->at = u->n = 0;
        u->within = u->rc = u->ended = 0;
        u->sum = u->sum_before;
        if (u->zstd)
            ZSTD_DCtx_reset(u->zstd, ZSTD_reset_session_only);
    }
    while (u->made < want)
        if (cookie_read(u, skipped, size_min(want - u->made, sizeof skipped)) <= 0)
            return errno = EIO, -1;
    *to = (off64_t)u->made;
    return 0;
}

static int cookie_close(void *cookie)
{
    unpack_end(cookie);
    return 0;
}

static int no_memory(const char *path, struct err *err)
{
    return err_set(err, -ENOMEM, "no memory to read %s", path);
}

/* Finds out how the file is packed, from its first bytes, and makes what unpacks it. */
static int kind_begin(struct unpack *u, struct err *err)
{
    static const unsigned char gzip[] = { 0x1F, 0x8B, 8 }, zstd[] = { 0x28, 0xB5, 0x2F, 0xFD },
                               pzstd[sizeof zstd] = { 0x50, 0x2A, 0x4D, 0x18 }; // a frame to skip

    if ((u->rc = in_fill(u)))
        return unpack_failed(u, err);
    while (u->pipe && u->n < sizeof zstd && !u->ended) { // a pipe may give a byte at a time
        ssize_t got = read(u->fd, u->in + u->n, sizeof zstd - u->n);

        if (got < 0 && errno != EINTR)
            return err_set(err, -errno, "read %s: %s", u->path, strerror(errno));
        u->n += got > 0 ? (size_t)got : 0;
        u->off += got > 0 ? (size_t)got : 0;
        u->ended = got == 0;
    }
    if (u->n >= sizeof gzip && !memcmp(u->in, gzip, sizeof gzip)) {
        if (inflateInit2(&u->z, 15 + 16) != Z_OK)
            return no_memory(u->path, err);
        u->kind = GZIP;
    } else if (u->n >= sizeof zstd && (!memcmp(u->in, zstd, sizeof zstd) ||
                                       !memcmp(u->in, pzstd, sizeof zstd))) {
        u->zstd = ZSTD_createDCtx();
        u->kind = ZSTD;
        return u->zstd ? 0 : no_memory(u->path, err);
    }
    return 0;
}

int unpack_named(const char *path, const char *end)
{
    static const char *const packed[] = { "", ".gz", ".zst" };

    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        size_t n = strlen(path), m = strlen(end), k = strlen(packed[i]);

        if (n >= m + k && !strcasecmp(path + n - k, packed[i]) &&
            !strncasecmp(path + n - k - m, end, m))
            return 1;
    }
    return 0;
}

const char *unpack_shown(const char *path) { return strcmp(path, "-") ? path : "standard input"; }

int unpack_begin(struct unpack **out, const char *path, struct err *err)
{
    struct unpack *u = *out = calloc(1, sizeof *u);
    int            rc = 0;

    if (!u)
        return no_memory(path, err);
    u->fd = -1;
    u->pipe = !strcmp(path, "-") && !stdin_spool_is();
    u->path = strdup(unpack_shown(path));
    if (!strcmp(path, "-") && !u->pipe)
        path = "/proc/self/fd/0"; // opened anew: with a place of its own
    if (!u->path)
        rc = no_memory(path, err);
    else if (!u->pipe)
        rc = file_open_read(path, &u->fd, &u->size, err);
    else if ((u->fd = dup(STDIN_FILENO)) < 0)
        rc = err_set(err, -errno, "read %s: %s", u->path, strerror(errno));
    rc = rc ? rc : kind_begin(u, err);
    if (rc) {
        unpack_end(u);
        *out = NULL;
    }
    return rc;
}

int unpack_stream(FILE **out, struct unpack *u, struct err *err)
{
    static const cookie_io_functions_t calls = { cookie_read, NULL, cookie_seek, cookie_close };

    *out = fopencookie(u, "rb", calls);
    return *out ? 0 : no_memory(u->path, err);
}

int unpack_open(FILE **out, struct unpack **packed, const char *path, struct err *err)
{
    *out = NULL;
    *packed = NULL;
    if (!strcmp(path, "-") && !stdin_spool_is())
        return err_misuse(err, "- (standard input) can be read only once, and rows are read twice: "
                          "give a file");
    int rc = unpack_begin(packed, path, err);

    if (!rc && (*packed)->kind != PLAIN) {
        rc = unpack_stream(out, *packed, err);
    } else if (!rc) {
        if (!(*out = fdopen((*packed)->fd, "rb")))
            rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));
        else
            (*packed)->fd = -1;
    }
    if (rc || !unpack_format(*packed)) {
        unpack_end(*packed);
        *packed = NULL;
    }
    return rc;
}
