/* threads.h: threads that run one at a time, in an order drawn from a seed: the same seed gives the
 * same run, to the last operation. The program is linked so that the calls of POSIX threads in our
 * own objects come here (--wrap of tests/tests.mk); time passes by a microsecond whenever somebody
 * looks at the clock, and jumps when everybody sleeps. If nobody can go on, and nobody sleeps, that
 * is a deadlock: it is said and stops the test. */
#pragma once

#include <stdint.h>

/* Begin anew with this seed; no thread but the caller's is there. */
void threads_seed(uint64_t seed);

/* A number of the seed's, for what else is to be drawn: [0, sides). */
uint64_t threads_roll(uint64_t sides);

/* On which machine this thread runs, and those that it starts: 0 where nobody says otherwise. */
enum { THREADS_HOSTS = 4 };
int  threads_host(void);
void threads_host_set(int host);

/* Perhaps let another thread go on first. */
void threads_yield(void);

/* Sleep until somebody wakes those who wait on `what`, or until the clock says `until_ns`
 * (UINT64_MAX: no end). Whether woken. */
int  threads_wait(const void *what, uint64_t until_ns);
void threads_wake(const void *what, int all);

uint64_t threads_now(void);
