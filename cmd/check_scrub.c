/* check_scrub.c: reads a run while another process may train it: states, best model, snapshots. It
 * takes no lock of the run, so a training may begin or go on meanwhile. Of a snapshot it holds the
 * lock, so that nobody removes the snapshot while it is read. */
#include "cmd/check_scrub.h"

#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/file/file.h"
#include "offload/devices/devices.h"
#include "offload/upkeep/scrub.h"
#include "run/folder/exports.h"
#include "run/folder/settings.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_dir.h"
#include "run/snapshots/portions_scrub.h"
#include "run/snapshots/snapshots.h"

enum { SENTENCES = 16 }; // at most, about one run or snapshot

/* Counts damage of `of`, and says it unless SENTENCES were said. *found: such damage before. */
static void damage_some(struct check *c, const struct session *of, uint64_t *found,
                        const char *sentence)
{
    if (*found < SENTENCES)
        check_damage(c, sentence);
    else
        c->damaged++;
    if (++*found == SENTENCES + 1)
        check_remark("%s: there is more, which is counted only", of->dir);
}

static int scrub_states(struct check *c, struct scrub *s, const struct session *of, int still,
                        struct err *err)
{
    struct scrub_rows rows;
    struct area       area;
    uint64_t          found = 0;
    size_t            denied = SIZE_MAX; // the last file that may not be read: a sentence for each
    int               rc = scrub_rows_open(&rows, &of->run, still, err);

    s->cfg = &of->run;
    s->from = &rows.source;
    for (size_t i = 0; i < rows.source.n && rc >= 0; i++) {
        rc = scrub_read(s, i, &area, err);
        if (file_is_unknown(rc)) {
            if (area.file != denied)
                check_denied(c, err->text);
            denied = area.file;
            rc = SCRUB_NOTHING;
        }
        if (rc == SCRUB_DAMAGED)
            damage_some(c, of, &found, err->text);
    }
    for (size_t k = 0; k < VERIFY_KINDS && rc >= 0; k++) {
        const struct verify_count *n = &s->count[k];
        char                       damaged[48] = "";

        if (n->damaged)
            snprintf(damaged, sizeof damaged, ", %" PRIu64 " damaged", n->damaged);
        if (n->n)
            check_line(c, verify_names[k], n->bytes, "%" PRIu64 "%s", n->n, damaged);
    }
    if (s->changed)
        check_line(c, "not checked", 0, "%" PRIu64 " parts of states, which training wrote over "
                   "each time while they were read", s->changed);
    scrub_rows_close(&rows);
    *err = rc < 0 ? *err : (struct err){ 0 };
    return rc < 0 ? rc : 0;
}

static int look_at_best(struct check *c, struct scrub *s, const struct session *of, struct err *err)
{
    struct exported best;
    int             any = scrub_best(&best, s, of->log, of->dir, err);

    if (any <= 0)
        return any;
    if (best.state == EXPORTS_DAMAGED)
        check_damage(c, best.why.text);
    else if (best.state == EXPORTS_DENIED)
        check_denied(c, best.why.text);
    check_line(c, best.state == EXPORTS_INTACT || best.state == EXPORTS_DAMAGED ? "best"
                                                                               : "not checked",
               best.bytes, "%s, after step %" PRIu64 "%s", best.path, best.step,
               exports_state_text(best.state));
    return 0;
}

static int scrub_parity(struct check *c, struct scrub *s, const struct session *of, struct err *err)
{
    struct portions_scrub parity = { 0 };
    uint64_t              damaged = 0, pieces = 0, before = s->bytes;
    int                   rc = 0, more = 1;

    for (; more && rc >= 0; pieces++) {
        rc = portions_scrub(&parity, &more, s, of, pieces, err);
        if (rc == SCRUB_DAMAGED)
            damage_some(c, of, &damaged, err->text);
    }
    portions_scrub_close(&parity);
    if (file_is_unknown(rc)) {
        check_denied(c, err->text);
        rc = 0;
    }
    if (rc >= 0 && s->bytes > before)
        check_line(c, "parity", s->bytes - before, "%s", damaged ? "damaged" : "");
    return rc < 0 ? rc : 0;
}

static int scrub_open_run(struct check *c, const struct session *of, int still, struct err *err)
{
    struct watch w = work_begin(&say_events, "reading %s", of->dir);
    struct scrub s = { .bw = c->o->scrub_bw, .watch = &w };
    int          rc = scrub_open(&s, err);

    if (!rc && of->run.mode != RUN_MEM && devices_fake(&of->run))
        check_line(c, "not checked", 0, "the states: these devices store nothing");
    else
        rc = rc ? rc : scrub_states(c, &s, of, still, err);
    rc = rc ? rc : look_at_best(c, &s, of, err);
    rc = rc ? rc : scrub_parity(c, &s, of, err);
    scrub_close(&s);
    work_end(&say_events);
    return rc;
}

/* A snapshot is held while it is read, so nobody removes it. */
static int scrub_snapshot(struct check *c, const struct snapshot *at, struct err *err)
{
    struct session      s;
    struct runlog_check db;
    int                 rc = session_open(&s, at->path, SESSION_READ, &say_events, err);

    if (rc == -ENOMEM)
        return rc;
    if (rc == -EBUSY || rc == -ENOENT || !file_may_be(at->path)) { // a training removes it just now
        check_line(c, "not checked", 0, "%s: it is being removed", at->path);
    } else if (file_is_unknown(rc)) {
        check_denied(c, err->text);
    } else if (rc || !at->whole) {
        struct err text;

        err_set(&text, 0, "%s: %s", at->path,
                rc ? err->text : "not all files of this snapshot are there with their sizes");
        check_damage(c, rc && strstr(err->text, at->path) ? err->text : text.text);
    } else {
        check_line(c, "snapshot", 0, "%s, after step %" PRIu64, at->path, at->step);
        rc = runlog_check(s.log, 0, check_damage, c, &db, err);
        rc = rc ? rc : scrub_open_run(c, &s, 1, err);
    }
    session_close(&s);
    if (rc && err->stopped)
        return rc;
    if (rc && !file_may_be(at->path))
        rc = 0;
    else if (rc && !file_is_unknown(rc))
        check_damage(c, err->text);
    *err = (struct err){ 0 };
    return 0;
}

static int scrub_snapshots(struct check *c, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, &c->s, err);

    for (size_t i = 0; i < list.n && !rc; i++)
        rc = scrub_snapshot(c, &list.at[i], err);
    if (!rc && file_is_unknown(list.unread))
        check_denied(c, list.unread_why.text);
    else if (!rc && list.unread)
        check_damage(c, list.unread_why.text);
    snapshots_free(&list);
    return rc;
}

static int scrub_folder(struct check *c, struct err *err)
{
    int still = settings_has(c->s.log, "snapshot");
    int rc = scrub_open_run(c, &c->s, still, err);

    return rc || still ? rc : scrub_snapshots(c, err);
}

static int scrub_rank(struct check *first, size_t rank, struct err *err)
{
    char         dir[SESSION_PATH];
    struct check c = { .o = first->o };

    rank_dir(dir, first->o->what, rank);
    if (!session_may_be_run(dir)) {
        check_line(first, "not checked", 0, "%s, which is not here", dir);
        return 0;
    }
    int rc = session_open(&c.s, dir, SESSION_LIVE, &say_events, err);
    rc = rc ? rc : scrub_folder(&c, err);
    session_close(&c.s);
    first->damaged += c.damaged;
    first->denied += c.denied;
    first->bytes += c.bytes;
    return rc;
}

int check_scrub(struct check *c, struct err *err)
{
    int rc;

    if (c->o->repair)
        return err_misuse(err, "--scrub writes nothing, and --repair does: leave one of them out");
    scrub_yields();
    rc = session_open(&c->s, c->o->what, SESSION_LIVE, &say_events, err);
    rc = rc ? rc : scrub_folder(c, err);
    for (size_t i = 1; i < c->s.ranks.size && !c->s.ranks.rank && !rc; i++)
        rc = scrub_rank(c, i, err);
    if (rc || c->o->quiet)
        return rc;
    check_line(c, "not checked", 0, "data, tokenizer, exports, run.db: siTrain check reads them, "
               "while nobody trains the run");
    if (c->damaged)
        say_line(stdout, "%s is damaged: %" PRIu64 " part%s", c->o->what, c->damaged,
                 c->damaged > 1 ? "s" : "");
    else if (c->denied)
        say_line(stdout, "%s is not known to be whole: %" PRIu64 " of its parts cannot be read",
                 c->o->what, c->denied);
    else
        say_line(stdout, "what was read of %s is whole: %s", c->o->what, SIZE_TEXT(c->bytes));
    return 0;
}

static int recorded_row(void *ctx, int n, const char **values, const char **names)
{
    (void)ctx, (void)n, (void)names;
    if (values[0] && values[1] && values[2] && *values[0] == '/' && file_may_be(values[0]))
        check_remark("found by --scrub-bw at %s: %s", values[1], values[2]);
    return 0;
}

int check_recorded(struct check *c, struct err *err)
{
    char any[8];
    int  rc = runlog_value(c->s.log, any, sizeof any, err, "SELECT 1 FROM sqlite_schema WHERE"
                           " type = 'table' AND name = 'damages'");

    return rc || !*any ? rc : runlog_query(c->s.log, "SELECT portion, found, text FROM damages",
                                          recorded_row, c, err);
}
