/* err.h: error reporting. A function that can fail returns 0 or -errno. It writes one sentence
 * into the caller's struct err where the failure happened, and callers pass both up unchanged.
 * Only cmd/ prints the sentence and exits. The exit code is 2 if `misuse` is set: the command
 * line or the contents of an input file were wrong. It is 130 if `stopped` is set: a person
 * asked for the end. It is 0 if `in_time` is set: the process ended before its time limit, and
 * another one goes on. Otherwise it is 1.
 *
 * This header also includes the C library headers that nearly every function that can fail
 * needs: errno, strerror, inttypes, snprintf, malloc. */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct err {
    int  misuse, stopped, in_time;
    char text[1280]; // one sentence: what was found, what was expected, what would work
};

/* Writes the sentence of an end of this kind and returns `rc` (negative), so that a caller can
 * write `return err_set(...)`. `err` may be NULL. */
enum err_kind { ERR_FAILED, ERR_MISUSED, ERR_STOPPED, ERR_IN_TIME };
int err_say(struct err *err, enum err_kind kind, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define err_set(err, rc, ...) err_say(err, ERR_FAILED, rc, __VA_ARGS__)
#define err_misuse(err, ...)  err_say(err, ERR_MISUSED, -EINVAL, __VA_ARGS__)
/* The work was asked to end. An err_set that goes on from this sentence leaves it a stop. */
#define err_stopped(err, ...) err_say(err, ERR_STOPPED, -EINTR, __VA_ARGS__)
/* The time limit of the process is over, and another process goes on with the work. A drive may
 * return -ETIME, too: `in_time` tells. */
#define err_time(err, ...)    err_say(err, ERR_IN_TIME, -ETIME, __VA_ARGS__)

/* Reports that a lookup by name failed with errno `why`. If the name is wrong, it is misuse and
 * returns -EINVAL. If the name may be right (EIO, ENOMEM, EACCES and others), it is an error and
 * returns -why. */
int err_name(struct err *err, int why, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* True if work ended because it was asked to, or in time. What was done of it is kept. */
static inline int err_goes_on(int rc, const struct err *err)
{
    return rc && (err->stopped || err->in_time);
}
