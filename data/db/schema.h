/* schema.h: the tables of a run's database and the versions of its format. A database may come
 * from a stranger, so its schema is not trusted. */
#pragma once

#include "data/db/db.h"
#include "data/db/format.h"

/* Makes the table of snapshots, which runs of older versions lack. */
#define SCHEMA_SNAPSHOTS                                                                           \
    "CREATE TABLE IF NOT EXISTS snapshots (n INTEGER PRIMARY KEY,"                                 \
    " step INTEGER /* how many steps were done */, path TEXT, bytes INTEGER,"                      \
    " shared_bytes INTEGER, seconds REAL, taken TEXT)"

/* Make the tables of scrubs (--scrub-bw, `siTrain check --scrub`), which other runs lack. */
#define SCHEMA_SCRUBS                                                                              \
    "CREATE TABLE IF NOT EXISTS scrubs (portion TEXT PRIMARY KEY,"                                 \
    " position INTEGER /* the area that is read next */,"                                          \
    " verified_ns INTEGER /* end of the last whole pass, UTC since 1970; 0: none */,"              \
    " passes INTEGER, bytes INTEGER);"                                                             \
    "CREATE TABLE IF NOT EXISTS damages (text TEXT PRIMARY KEY, portion TEXT, found TEXT)"

/* Creates the measuring tables in an empty file, and the header that identifies it. */
int schema_create(struct db *db, struct err *err);

/* Gives the file this format, unless it has a higher one. */
int schema_raise(struct db *db, enum run_format format, struct err *err);
/* Makes the table of a step's rewards, which only runs of pairs have. */
int schema_pairs(struct db *db, struct err *err);

/* Switches off, for this connection, everything that a stranger's tables could do other than
 * hold rows. */
void schema_guard(struct db *db);

/* Refuses a database that is not a run, or whose format another siTrain reads. */
int schema_check(struct db *db, struct err *err);

/* Creates siTrain's views for this connection alone, where it has none yet. The file's own views
 * may have been changed. Most connections need none: runlog_query calls this. */
int schema_views(struct db *db, struct err *err);
/* Restricts the views of whole steps to steps from `step` on. The connection must be read-only. */
int schema_views_since(struct db *db, uint64_t step, struct err *err);
