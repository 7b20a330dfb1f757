/* unpack.c: unpacks gzip and zstd with zlib and libzstd behind a stream of stdio. Memory is a
 * buffer, and the format's window: 32 KiB for gzip, at most 128 MiB for zstd. A zstd file that
 * needs more is refused. */
#include "data/base/unpack.h"

#include "data/base/file.h"
#include "data/base/round.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { IN_BYTES = 1 << 17, OUT_BYTES = 1 << 17 };

struct unpack {
    int          fd, gzip;
    char        *path;
    uint64_t     size, off; // of the file, and how much has been read
    size_t       at, n;     // in[at..n) has not been unpacked yet
    uint64_t     made;      // number of unpacked bytes
    int          within;    // a member or frame has begun and not ended
    z_stream     z;
    ZSTD_DCtx   *zstd;
    int          rc; // of `why`
    struct err   why;
    unsigned char in[IN_BYTES];
};

static void unpack_free(struct unpack *u)
{
    if (!u)
        return;
    if (u->gzip)
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

static const char *format_name(const struct unpack *u) { return u->gzip ? "gzip" : "zstd"; }

static int corrupt(struct unpack *u, const char *why)
{
    return err_misuse(&u->why, "%s is a %s file that is corrupt: after %" PRIu64 " bytes of its "
                      "contents: %s", u->path, format_name(u), u->made, why);
}

/* Reads the file's next bytes into `in`, which is used up. */
static int in_fill(struct unpack *u)
{
    size_t n = size_min(u->size - u->off, IN_BYTES);
    int    rc = n ? file_pread(u->fd, u->in, n, u->off, u->path, &u->why) : 0;

    u->at = 0;
    u->n = rc ? 0 : n;
    u->off += u->n;
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
    if (ZSTD_isError(got))
        return corrupt(u, ZSTD_getErrorName(got));
    u->within = got != 0;
    return 0;
}

static ssize_t cookie_read(void *cookie, char *to, size_t most)
{
    struct unpack *u = cookie;
    size_t         n = 0;

    if (!most)
        return 0;
    while (!u->rc && !n) {
        if (u->at == u->n && u->off < u->size && (u->rc = in_fill(u)))
            break;
        int over = u->at == u->n; // the file has ended, but bytes may be held back
        if (over && !u->within)
            return 0;
        n = size_min(most, OUT_BYTES);
        u->rc = u->gzip ? gzip_some(u, to, &n) : zstd_some(u, to, &n);
        if (!u->rc && over && !n && u->within)
            u->rc = err_misuse(&u->why, "%s is a %s file that was cut off: after %" PRIu64
                               " bytes of its contents it ends in the middle", u->path,
                               format_name(u), u->made);
    }
    if (n)
        return (ssize_t)n; // the next call reports the failure
    errno = EIO;
    return -1;
}

static int cookie_seek(void *cookie, off64_t *to, int from)
{
    struct unpack *u = cookie;
    char           skipped[4096];
    uint64_t       want = from == SEEK_SET && *to >= 0 ? (uint64_t)*to : u->made;

    if ((from != SEEK_SET && from != SEEK_CUR) || (from == SEEK_CUR && *to != 0))
        return errno = EINVAL, -1;
    if (want < u->made) {
        u->off = u->made = 0;
        u->at = u->n = 0;
        u->within = u->rc = 0;
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
    unpack_free(cookie);
    return 0;
}

static int unpack_begin(struct unpack *u, struct err *err)
{
    if (u->gzip)
        return inflateInit2(&u->z, 15 + 16) == Z_OK
                   ? 0
                   : (u->gzip = 0, err_set(err, -ENOMEM, "no memory to unpack %s", u->path));
    u->zstd = ZSTD_createDCtx();
    return u->zstd ? 0 : err_set(err, -ENOMEM, "no memory to unpack %s", u->path);
}

/* Opens the stream of a packed file. Its descriptor belongs to u from now on. */
static int stream_open(FILE **out, struct unpack *u, struct err *err)
{
    static const cookie_io_functions_t calls = { cookie_read, NULL, cookie_seek, cookie_close };
    int                                rc = unpack_begin(u, err);

    if (!rc && !(*out = fopencookie(u, "rb", calls)))
        rc = err_set(err, -ENOMEM, "no memory to unpack %s", u->path);
    return rc;
}

int unpack_open(FILE **out, struct unpack **packed, const char *path, struct err *err)
{
    static const unsigned char gzip[] = { 0x1F, 0x8B, 8 }, zstd[] = { 0x28, 0xB5, 0x2F, 0xFD };
    unsigned char              head[4] = { 0 };
    uint64_t                   size;
    int                        fd, rc = file_open_read(path, &fd, &size, err);

    *out = NULL;
    *packed = NULL;
    if (rc)
        return rc;
    rc = file_pread(fd, head, size_min(size, sizeof head), 0, path, err);
    int is_gzip = !memcmp(head, gzip, sizeof gzip), is_zstd = !memcmp(head, zstd, sizeof zstd);
    if (!rc && !is_gzip && !is_zstd) {
        if ((*out = fdopen(fd, "rb")))
            return 0;
        rc = err_set(err, -errno, "open %s: %s", path, strerror(errno));
    }
    struct unpack *u = rc ? NULL : calloc(1, sizeof *u);
    char          *name = rc ? NULL : strdup(path);
    if (!rc && (!u || !name))
        rc = err_set(err, -ENOMEM, "no memory to unpack %s", path);
    if (rc) {
        free(u);
        free(name);
        close(fd);
        return rc;
    }
    u->fd = fd;
    u->gzip = is_gzip;
    u->path = name;
    u->size = size;
    rc = stream_open(out, u, err);
    if (rc)
        unpack_free(u);
    else
        *packed = u;
    return rc;
}
