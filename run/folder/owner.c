/* owner.c: draws the owner word, writes it to run.db and to the devices. */
#include "run/folder/owner.h"

#include "data/base/machine.h"

/* Draw a new word, unless one was drawn before a kill: some devices may have it. */
static int draw(struct runlog *log, char next[SUPERBLOCK_WORD], struct err *err)
{
    int rc = *next ? 0 : machine_hex(next, SUPERBLOCK_WORD - 1, err);

    return rc ? rc : runlog_set(log, "owner.next", next, err);
}

static int store(struct runlog *log, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
                 struct err *err)
{
    snprintf(owner, SUPERBLOCK_WORD, "%s", next);
    *next = '\0';
    int rc = runlog_set(log, "owner", owner, err);
    return rc ? rc : runlog_unset(log, "owner.next", err);
}

int owner_take(struct devices *d, char owner[SUPERBLOCK_WORD], char next[SUPERBLOCK_WORD],
               int (*settle)(void *ctx, struct err *err), void *ctx, struct err *err)
{
    struct runlog *log = d->cfg.log;
    int            rc = draw(log, next, err);

    d->cfg.owner_next = next;
    if (rc || (rc = devices_take(d, err)) || (rc = runlog_begin(log, err)))
        return rc;
    rc = settle(ctx, err);
    rc = rc ? rc : store(log, owner, next, err);
    return runlog_end(log, rc, err);
}
