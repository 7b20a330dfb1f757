/* bell.h: how one thread waits for another: a counter with a condition. All devices of an owner
 * ring one bell, so that it can wait for whichever comes first. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct bell { pthread_mutex_t mutex; pthread_cond_t cond; uint64_t rings; };

void bell_init(struct bell *b);
void bell_release(struct bell *b);
void bell_ring(struct bell *b); // any thread
/* Wait until rings != seen or timeout_ns is over; returns the new count. */
uint64_t bell_wait(struct bell *b, uint64_t seen, uint64_t timeout_ns);

/* Wait for a condition: ETIMEDOUT once clock_ns is end_ns. */
int bell_cond_wait(pthread_cond_t *c, pthread_mutex_t *mutex, uint64_t end_ns);

/* now + wait_ns; UINT64_MAX where that is never. */
uint64_t bell_end(uint64_t wait_ns);
