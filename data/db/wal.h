/* wal.h: a look at SQLite's write-ahead log before SQLite opens it. What a killed process left of
 * run.db is run.db and run.db-wal; SQLite takes the log up to the first frame whose checksum
 * differs, and throws the rest away: right for a frame that a power cut tore, but a byte that
 * turned in the middle would take every later commit with it, without a word. The index beside the
 * log (run.db-shm), which the killed process shared with nobody but the page cache, says how many
 * frames were committed. */
#ifndef DATA_DB_WAL_H
#define DATA_DB_WAL_H

#include "data/base/err.h"

#include <stdint.h>

/* What of a log can be relied on: a state of the database as some commit left it. */
enum wal_use {
    WAL_ALL,     // nothing is damaged, as far as is known
    WAL_UP_TO,   // the log up to its first damage, as SQLite takes it
    WAL_WITHOUT, // run.db alone: it has all of the log, or nothing of it, and of that nothing is
                 // whole
    WAL_NOTHING, // a part of the log went into run.db: neither is whole
};
struct wal_part {
    enum wal_use use;
    uint32_t     whole; // frames
    uint64_t     bytes; // of the log up to there
};

/* Which start of the machine this is, as the kernel calls it; "" if it does not say. */
enum { WAL_BOOT = 37 };
void wal_boot(char id[WAL_BOOT]);

/* -EBADMSG and a sentence if frames that were committed are damaged or missing; 0 also where there
 * is no log, or where its index is not known to be as new as it: boot, the start of the machine
 * under which who wrote last opened the database, is another one or unknown (""). part, unless
 * NULL, says what is left. Call it while nobody writes. */
int wal_check(const char *db_path, const char *boot, struct wal_part *part, struct err *err);

/* Cut a damaged log to its part (WAL_UP_TO, WAL_WITHOUT), for good; all that it was is kept in
 * run.db-wal.damaged. A kill leaves it damaged or cut. */
int wal_cut(const char *db_path, const struct wal_part *part, struct err *err);

#endif
