/* db_wait.h: how long another program that holds a database (someone's sqlite3 in a transaction) is
 * waited for: after notice_ms, say() gets a sentence that names what is waited for, and from then
 * on NULL about ten times a second; where it returns other than 0, the wait ends. After limit_ms it
 * ends anyway. Either is an error with a sentence (-EINTR, -EBUSY), and that database is not waited
 * for again. say() is called on the thread that waits. */
#pragma once

#include "data/base/err.h"

struct db_wait_rule {
    uint64_t notice_ms, limit_ms;
    int (*say)(void *ctx, const char *sentence);
    void *ctx;
};
/* Of the whole process: set it before a database is opened. Until then: 2 s, 10 minutes, nobody is
 * told. */
void db_wait_set(const struct db_wait_rule *rule);

/* The rest is for db.c. */
struct db_wait {
    const char *path;
    uint64_t    busy_ns;  // since when another program is waited for
    int         told;     // that was said
    int         given_up; // -errno: it is not waited for any more
    int         opening;  // a file system that has no locks is not waited for
};
/* Before a database is opened: from then on what SQLite is told of locks is known here. */
void db_wait_listen(void);
int db_wait_busy(void *wait, int count); // SQLite's busy handler
/* The sentence of a wait that ended without the lock; returns its -errno. */
int db_wait_fail(const struct db_wait *w, const char *doing, struct err *err);
