/* test_base_reader.c: blocks of a base in place (offload/devices/base_files.h), read by several
 * threads (base_reader.h) and by themselves, are what a naive conversion makes of the files' bytes.
 * Pieces have odd sizes and begin at odd bytes, in two files and all number formats; some are
 * larger than one read. A file that was cut short, or changed, is noticed. */
#include "tests/tempdir.h"

#include "data/base/f16.h"
#include "data/base/round.h"
#include "offload/stream/base_reader.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

/* The pieces of two blocks, in order: file, first byte, parameters, format. */
static const struct base_piece pieces[2][6] = {
    { { 0, 8, 1, DT_F32 }, { 1, 13, 7, DT_BF16 }, { 0, 4093, 700001, DT_F32 },
      { 1, 4096, 2048, DT_F16 }, { 1, 9001, 1234567, DT_BF16 }, { 0, 3, 1021, DT_F16 } },
    { { 1, 0, 4096, DT_F32 }, { 0, 12289, 900001, DT_F16 } },
};
enum { FILE_BYTES = 3 << 20 };

struct base {
    struct base_file  file[2];
    struct base_files files;
    char              path[2][256];
    unsigned char    *bytes[2];
};

static struct base_piece piece_of(void *ctx, size_t block, size_t first)
{
    const struct base_piece *p = pieces[block];

    (void)ctx;
    for (; first >= p->n; p++)
        first -= p->n;
    return (struct base_piece){ p->file, p->off + first * dtype_bytes(p->dt), p->n - first, p->dt };
}

static size_t size_of(size_t block)
{
    size_t n = 0;

    for (size_t i = 0; i < 6; i++)
        n += pieces[block][i].n;
    return n;
}

/* Random bytes, whose floats are finite in each format: no exponent has all bits set. */
static void base_make(struct base *b)
{
    uint32_t s = 12345;

    for (int i = 0; i < 2; i++) {
        snprintf(b->path[i], sizeof b->path[i], "%s", tempdir_at(i ? "file1" : "file0"));
        b->bytes[i] = malloc(FILE_BYTES);
        for (size_t k = 0; k < FILE_BYTES; k++) {
            s = s * 1103515245u + 12345u;
            b->bytes[i][k] = (unsigned char)(s >> 16) & 0x3f;
        }
        int fd = open(b->path[i], O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, b->bytes[i], FILE_BYTES), FILE_BYTES);
        b->file[i] = (struct base_file){ .path = b->path[i], .fd = fd };
        assert_int_equal(fstat(fd, &b->file[i].was), 0);
    }
    b->files = (struct base_files){ .file = b->file, .n = 2, .piece = piece_of };
}

static void base_free(struct base *b)
{
    for (int i = 0; i < 2; i++) {
        close(b->file[i].fd);
        free(b->bytes[i]);
    }
}

/* Parameter i of a block, by itself. */
static float naive(const struct base *b, size_t block, size_t i, enum dtype dt)
{
    struct base_piece    p = piece_of(NULL, block, i);
    const unsigned char *at = b->bytes[p.file] + p.off;
    uint16_t             half;
    float                f;

    memcpy(&half, at, 2);
    memcpy(&f, at, p.dt == DT_F32 ? 4 : 2);
    f = p.dt == DT_F32 ? f : p.dt == DT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    return dt == DT_BF16 ? bf16_to_f32(bf16_from_f32(f)) : f;
}

static void compare(const struct base *b, size_t block, size_t first, size_t n, enum dtype dt,
                    const void *got, const float *alone)
{
    for (size_t i = 0; i < n; i++) {
        float want = naive(b, block, first + i, dt);

        if (dtype_get(got, dt, i) != want || alone[i] != want)
            fail_msg("block %zu, parameter %zu: %g and %g, expected %g", block, first + i,
                     (double)dtype_get(got, dt, i), (double)alone[i], (double)want);
    }
}

static void wait_for(struct base_reader *r, struct bell *bell, size_t n)
{
    for (uint64_t seen = 0; n > 0;) {
        if (base_reader_take(r))
            n--;
        else
            seen = bell_wait(bell, seen, UINT64_MAX);
    }
}

/* Reads parts of both blocks at once, in one number format, with and without the page cache. */
static void read_all(const struct base *b, enum dtype dt, const char *disk)
{
    static const struct { size_t block, first, cut; } parts[] = {
        { 0, 0, 0 }, { 1, 0, 0 }, { 0, 1, 3 }, { 0, 700008, 12 }, { 1, 4095, 899999 },
        { 0, 2, 1937000 },
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    struct run_config    cfg = { .base = &b->files, .wire_dt = dt, .disk = disk };
    struct base_request  q[PARTS];
    struct base_reader  *r;
    struct bell          bell;
    struct err           err = { 0 };

    bell_init(&bell);
    assert_int_equal(base_reader_open(&r, &cfg, &bell, &err), 0);
    for (size_t i = 0; i < PARTS; i++) {
        q[i] = (struct base_request){ .block = parts[i].block, .first = parts[i].first };
        q[i].n = size_of(q[i].block) - q[i].first - parts[i].cut;
        q[i].to = malloc(q[i].n * dtype_bytes(dt));
        base_reader_ask(r, &q[i]);
    }
    wait_for(r, &bell, PARTS);
    for (size_t i = 0; i < PARTS; i++) {
        float *alone = malloc(q[i].n * sizeof *alone);

        assert_int_equal(q[i].status, 0);
        int rc = base_files_read(&b->files, dt, q[i].block, q[i].first, q[i].n, alone, &err);
        assert_int_equal(rc, 0);
        compare(b, q[i].block, q[i].first, q[i].n, dt, q[i].to, alone);
        assert_int_equal(q[i].meter.bytes[LINK_FILES][CLASS_BASE][LINK_READ],
                         base_files_bytes(&b->files, q[i].block, q[i].first, q[i].n));
        free(alone);
        free(q[i].to);
    }
    base_reader_close(r);
    bell_release(&bell);
}

static void parts_are_read(void **state)
{
    struct base b;

    (void)state;
    base_make(&b);
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        read_all(&b, (enum dtype)dt, "uring");
        read_all(&b, (enum dtype)dt, "sync");
    }
    base_free(&b);
}

/* The hook of files whose inode alone has changed: says what ctx points to. */
static int contents_said(void *ctx, size_t file, const struct stat *now, struct err *err)
{
    (void)now;
    (void)err;
    assert_int_equal(file, 1);
    return *(int *)ctx;
}

/* What is read of a file that was written to is not used. A file whose time was set back has other
 * contents, unless the hook says that they are the same. */
static void no_read_of_a_changed_file(void **state)
{
    struct base b;
    struct err  err = { 0 };
    float       out[7];
    int         said = 1;

    (void)state;
    base_make(&b);
    assert_int_equal(base_files_read(&b.files, DT_BF16, 0, 1, 7, out, &err), 0);
    struct timespec was[2] = { b.file[1].was.st_atim, b.file[1].was.st_mtim },
                    later[2] = { was[0], { .tv_sec = was[1].tv_sec + 2 } };
    assert_int_equal(futimens(b.file[1].fd, later), 0);
    assert_int_equal(base_files_read(&b.files, DT_BF16, 0, 1, 7, out, &err), -ESTALE);
    assert_non_null(strstr(err.text, b.path[1]));
    assert_int_equal(base_files_read(&b.files, DT_BF16, 0, 0, 1, out, &err), 0);
    assert_int_equal(futimens(b.file[1].fd, was), 0);
    b.file[1].was.st_ctim.tv_sec--; // a time of the inode is as coarse as the kernel's clock
    assert_int_equal(base_files_read(&b.files, DT_BF16, 0, 1, 7, out, &err), 0);
    assert_int_equal(base_files_unchanged(&b.files, &err), -ESTALE);
    b.files.contents = contents_said;
    b.files.ctx = &said;
    assert_int_equal(base_files_unchanged(&b.files, &err), 0);
    said = 0;
    assert_int_equal(base_files_unchanged(&b.files, &err), -ESTALE);
    assert_non_null(strstr(err.text, b.path[1]));
    said = -EIO;
    assert_int_equal(base_files_unchanged(&b.files, &err), -EIO);
    base_free(&b);
}

/* A file that ends too early fails the request that needs it, and others are read. */
static void changes_are_noticed(void **state)
{
    struct run_config   cfg = { .wire_dt = DT_BF16, .disk = "uring" };
    struct base         b;
    struct base_reader *r;
    struct bell         bell;
    struct err          err = { 0 };

    (void)state;
    base_make(&b);
    cfg.base = &b.files;
    bell_init(&bell);
    assert_int_equal(base_reader_open(&r, &cfg, &bell, &err), 0);
    assert_int_equal(base_files_unchanged(&b.files, &err), 0);
    assert_int_equal(base_files_unchanged(NULL, &err), 0);
    assert_int_equal(ftruncate(b.file[0].fd, 1 << 20), 0);
    assert_int_equal(base_files_unchanged(&b.files, &err), -ESTALE);
    assert_non_null(strstr(err.text, b.path[0]));
    struct base_request q[2] = { { .block = 0, .n = size_of(0), .to = malloc(2 * size_of(0)) },
                                 { .block = 1, .n = 4096, .to = malloc(2 * 4096) } };
    base_reader_ask(r, &q[0]);
    base_reader_ask(r, &q[1]);
    wait_for(r, &bell, 2);
    assert_int_equal(q[0].status, -ESTALE);
    assert_non_null(strstr(q[0].why.text, b.path[0]));
    assert_int_equal(q[1].status, 0);
    base_reader_close(r);
    bell_release(&bell);
    free(q[0].to);
    free(q[1].to);
    base_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(parts_are_read),
        IN_TEMPDIR(changes_are_noticed),
        IN_TEMPDIR(no_read_of_a_changed_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
