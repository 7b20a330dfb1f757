/* files.c: see files.h. */
#include "tests/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

char *files_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes;

    if (!f)
        fail_msg("cannot read %s", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    bytes = calloc(*n + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

void files_write(const char *path, const void *bytes, size_t n)
{
    FILE *f;

    unlink(path); // a file that is written over may be flushed at once, which is slow
    f = fopen(path, "wb");
    if (!f)
        fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void files_copy(const char *from, const char *to)
{
    size_t n;
    char  *bytes = files_read(from, &n);

    files_write(to, bytes, n);
    free(bytes);
}

void files_turn(const char *path, uint64_t off, unsigned char mask)
{
    unsigned char c;
    int           fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, (off_t)off), 1);
    c ^= mask;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)off), 1);
    close(fd);
}

size_t files_count(const char *dir)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    size_t         n = 0;

    while (d && (e = readdir(d)))
        n += *e->d_name != '.';
    if (d)
        closedir(d);
    return n;
}
