/* wal.h: a look at SQLite's write-ahead log before SQLite opens it. What a killed process left of run.db is
 * run.db and run.db-wal; SQLite takes the log up to the first frame whose checksum differs, and throws the
 * rest away: right for a frame that a power cut tore, but a byte that turned in the middle would take every
 * later commit with it, without a word. The index beside the log (run.db-shm), which the killed process
 * shared with nobody but the page cache, says how many frames were committed. */
#ifndef DATA_WAL_H
#define DATA_WAL_H

#include "data/err.h"

/* -EBADMSG and a sentence if frames that were committed are damaged or missing; 0 also where there is no log,
 * or where its index is not known to be as new as it (the machine was started since, or somebody has the
 * database open). Call it while nobody writes. */
int wal_check(const char *db_path, struct err *err);

#endif
