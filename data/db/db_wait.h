/* db_wait.h: the wait for another program that holds a database, such as someone's sqlite3 in a
 * transaction.
 *
 * After notice_ms, say() gets a sentence that names the database. From then on it gets NULL
 * about ten times a second. If it returns other than 0, the wait ends with -EINTR. After
 * limit_ms the wait ends with -EBUSY. Both errors have a sentence, and there is no second wait
 * for that database. If the file system has no locks (-ENOLCK), or the kernel has
 * no memory for one (-ENOMEM), there is no wait. say() is called on the thread that waits. */
#pragma once

#include "data/base/err.h"

struct db_wait_rule {
    uint64_t notice_ms, limit_ms;
    int (*say)(void *ctx, const char *sentence);
    void *ctx;
};
/* Sets the rule of the whole process, before any database is opened. The default is a notice
 * after 2 s, a limit of 10 minutes, and no say(). */
void db_wait_set(const struct db_wait_rule *rule);

/* The rest is for db.c. */
struct db_wait {
    const char *path;
    uint64_t    busy_ns;  // time at which the wait for another program began
    int         told;     // say() has had its sentence
    int         given_up; // -errno of a wait that ended: there is no second wait
};
int db_wait_busy(void *wait, int count); // SQLite's busy handler
/* Writes the sentence for a wait that ended without the lock. Returns its -errno. */
int db_wait_fail(const struct db_wait *w, const char *doing, struct err *err);
