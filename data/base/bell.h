/* bell.h: a counter with a condition variable, on which one thread waits for events of other
 * threads. All devices of an owner ring one bell, so the owner can wait for the first of them. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct bell { pthread_mutex_t mutex; pthread_cond_t cond; uint64_t rings; };

void bell_init(struct bell *b);
void bell_release(struct bell *b);
void bell_ring(struct bell *b); // any thread
/* Waits until rings != seen or timeout_ns has passed. Returns the current count. */
uint64_t bell_wait(struct bell *b, uint64_t seen, uint64_t timeout_ns);

/* Waits as pthread_cond_wait does. Returns ETIMEDOUT once clock_ns reaches end_ns. */
int bell_cond_wait(pthread_cond_t *c, pthread_mutex_t *mutex, uint64_t end_ns);

/* Returns clock_ns() + wait_ns, or UINT64_MAX if that overflows. */
uint64_t bell_end(uint64_t wait_ns);
