/* err.h: how a failure travels. A function that can fail returns 0 or -errno and writes one
 * sentence into the caller's struct err where it happened; callers pass both up unchanged. Only
 * cmd/ prints it and exits: 2 where `misuse` is set (the command line or an input file's contents
 * were wrong), 130 where `stopped` is (a person asked for the end), else 1.
 *
 * With it come the headers of the C library that nearly whoever can fail uses: errno's numbers,
 * strerror, printf's formats of sized integers, snprintf, malloc. */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct err {
    int  misuse, stopped;
    char text[1024]; // one sentence: what was found, what was expected, what would work
};

/* Write the sentence and return `rc` (negative), so that `return err_set(...)` reads well.
 * `err` may be NULL. */
int err_set(struct err *err, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for misuse (exit 2); returns -EINVAL. */
int err_misuse(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for what was looked for by a name, of which errno said `why`: misuse (-EINVAL) where the
 * name is wrong; else an error (-why), since the name may be right: EIO, ENOMEM, EACCES. */
int err_name(struct err *err, int why, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for work that was asked to end and did (exit 130); returns -EINTR. */
int err_stopped(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
