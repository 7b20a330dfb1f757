/* bell.h: how one thread waits for events of other threads: a counter with a condition. All devices
 * of an owner ring one bell, so that the owner can wait for whichever is first. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct bell { pthread_mutex_t mutex; pthread_cond_t cond; uint64_t rings; };

void bell_init(struct bell *b);
void bell_release(struct bell *b);
void bell_ring(struct bell *b); // any thread
/* Waits until rings != seen or timeout_ns is over; returns the new count. */
uint64_t bell_wait(struct bell *b, uint64_t seen, uint64_t timeout_ns);

/* Waits for a condition, as pthread_cond_wait; ETIMEDOUT once clock_ns is end_ns. */
int bell_cond_wait(pthread_cond_t *c, pthread_mutex_t *mutex, uint64_t end_ns);

/* clock_ns + wait_ns, or UINT64_MAX if that overflows. */
uint64_t bell_end(uint64_t wait_ns);
