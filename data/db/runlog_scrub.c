/* runlog_scrub.c: records how far scrubbing has come, and what it has found damaged. */
#include "data/db/runlog_parts.h"

#include "data/db/schema.h"

static const char writing[] = "writing a scrub";

static int make(struct runlog *log, struct err *err)
{
    return db_exec(&log->db, "making a table", err, "%s", SCHEMA_SCRUBS);
}

int runlog_scrub(struct runlog *log, const struct runlog_scrub *s, struct err *err)
{
    int rc = make(log, err);

    return rc ? rc : runlog_write(log, "INSERT OR REPLACE INTO scrubs VALUES (?, ?, ?, ?, ?)",
                                  writing, err, "tuuuu", s->portion, s->position, s->verified_ns,
                                  s->passes, s->bytes);
}

int runlog_damage(struct runlog *log, const char *portion, const char *text, struct err *err)
{
    int rc = make(log, err);

    return rc ? rc : runlog_write(log, "INSERT OR IGNORE INTO damages VALUES (?, ?,"
                                  " strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))", writing, err, "tt",
                                  text, portion);
}

int runlog_scrub_over(struct runlog *log, const char *portion, int gone, struct err *err)
{
    int rc = make(log, err);

    rc = rc ? rc : runlog_write(log, "DELETE FROM damages WHERE portion = ?", writing, err, "t",
                                portion);
    return rc || !gone ? rc : runlog_write(log, "DELETE FROM scrubs WHERE portion = ?", writing,
                                           err, "t", portion);
}
