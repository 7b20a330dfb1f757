/* schema.h: the tables of a run's database and the format's versions. A database may be a
 * stranger's: nothing of its schema is trusted. */
#pragma once

#include "data/db/db.h"

/* The journal's table of one row, behind CREATE TABLE; the others are ledger.c's alone. */
extern const char schema_journal_state[];

/* The measuring tables, of an empty file, with the head that says what it is. */
int schema_create(struct db *db, struct err *err);

/* What a stranger's tables could do beside holding rows is switched off for this connection. */
void schema_guard(struct db *db);

/* Refuse what no run looks like, and what a newer program wrote. */
int schema_check(struct db *db, int *version, struct err *err);

/* Bring an older database to this version: in the file, in one transaction; or, where it is only
 * read, for this connection alone. */
int schema_upgrade(struct db *db, int version, int read_only, struct err *err);

/* Our views for this connection alone, once its tables are of this version: those of the file may
 * have become others. */
int schema_views(struct db *db, struct err *err);
/* Of them, those of whole steps are of the steps from `step` on alone. Of a connection that only
 * reads. */
int schema_views_since(struct db *db, uint64_t step, struct err *err);
