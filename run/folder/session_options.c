/* session_options.c: stores the options of a run, loads them, and says which of them a resume may
 * change. A resume that names the devices anew (--device) takes them here. */
#include "run/folder/session.h"

#include "comm/comm.h"
#include "csd/csd.h"
#include "data/base/machine.h"
#include "data/base/text_made.h"
#include "data/file/file.h"
#include "offload/devices/slots.h"
#include "run/folder/drives.h"
#include "run/folder/moved.h"
#include "run/folder/settings.h"
#include "run/folder/tensorboard.h"

static char *absolute(const char *path) { return *path ? file_absolute(path, NULL) : strdup(""); }

/* The text of an option as stored, malloced. Paths, one per line, become absolute, because a resume
 * may start in another directory. */
static char *stored_text(const struct opt_row *row, const char *text)
{
    if ((row->type != OPT_PATHS && row->type != OPT_PATH && row->type != OPT_FILES) ||
        (row->words && opt_words_find(row->words, text, strlen(text)) >= 0))
        return strdup(text);
    return opt_place_lines(text, absolute);
}

/* places: store only the options that locate the devices. */
struct storing { struct session *s; int places; struct err *err; };

static int store_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct storing *c = ctx;

    (void)given;
    if (row->kept == OPT_COMMAND || (lora_opts_has(row->name) && !c->s->o.lora.rank))
        return 0;
    if (c->places && strcmp(row->name, "device") && strcmp(row->name, "devices") &&
        strcmp(row->name, "fpga") && strcmp(row->name, "csd-mem"))
        return 0;
    char *stored = stored_text(row, text);
    int rc = stored ? settings_set(c->s->log, c->err, "option.%s=%s", row->name, stored) : -ENOMEM;
    free(stored);
    return rc;
}

int session_store_options(struct session *s, int places, struct err *err)
{
    struct storing  c = { s, places, err };
    struct opt_line line = train_opts_line(&s->o);
    int             rc = opt_each(&line, store_option, &c);

    if (rc == -ENOMEM)
        return err_set(err, rc, "%s: out of memory for the options", s->dir);
    if (!rc && train_opts_newer(&s->o))
        rc = runlog_raise(s->log, FORMAT_ARITHMETIC, err);
    return rc || !places || !*s->layout ? rc : settings_set(s->log, err, "layout=%s", s->layout);
}

int session_load_options(struct session *s, struct err *err)
{
    struct opt_line       line = train_opts_line(&s->o);
    const struct opt_row *row;
    int                   rc = opt_parse(&line, err);

    if (rc)
        return rc;
    s->has_opts = 1;
    for (size_t i = 0; (row = train_opts_row(i)) && !rc; i++) {
        // absent in a run of an older version: the default stays
        char *text = settings_get(s->log, "option.%s", row->name);

        if (text && *text)
            rc = opt_set(&line, row->name, text, err);
        free(text);
    }
    if (!rc && s->o.mode == TRAIN_SU_O_C)
        rc = err_set(err, -EBADMSG, "%s/run.db: option.mode is su+o+c, which no run stores: it is "
                     "su+o with compress", s->dir);
    return rc;
}

int session_reload_options(struct session *s, struct err *err)
{
    struct opt_line line = train_opts_line(&s->o);

    opt_release(&line);
    s->has_opts = 0;
    s->o = (struct train_opts){ 0 };
    int rc = session_load_options(s, err);
    return rc ? rc : session_config(s, err);
}

struct overlay {
    struct session *s;
    int             first;
    struct err     *err;
};

/* True if a resume may change this option. A change between fake and real storage is refused,
 * because the states would be lost. */
static int may_change(const struct overlay *c, const struct opt_row *row, const char *text)
{
    const struct train_opts *o = &c->s->o;
    int disk = !strcmp(row->name, "disk") ? opt_words_find(disk_name, text, strlen(text)) : -1;
    int csd = !strcmp(row->name, "csd") ? opt_words_find(csd_name, text, strlen(text)) : -1;

    if (disk >= 0 && (disk_at((size_t)o->disk)->flags ^ disk_at((size_t)disk)->flags) & DISK_FAKE)
        return 0;
    if (csd >= 0 && (csd_at((size_t)o->csd)->flags ^ csd_at((size_t)csd)->flags) & CSD_FAKE)
        return 0;
    return row->kept >= OPT_CHANGES || (c->first && row->kept != OPT_LAYOUT);
}

static int overlay_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct overlay *c = ctx;
    struct opt_line line = train_opts_line(&c->s->o);
    const char     *name = row->name;
    int             rc = 0;

    if (row->kept < OPT_FIXED || !given)
        return 0;
    char *old = settings_get(c->s->log, "option.%s", name);
    char *new = stored_text(row, text);
    if (!new || (old && !strcmp(old, new)))
        goto out;
    int moved = !strcmp(name, "device") && c->s->run.mode != RUN_MEM;
    c->s->renames |= moved;
    if (moved || may_change(c, row, new))
        rc = opt_set(&line, name, new, c->err);
    else if (!strcmp(name, "devices"))
        rc = err_misuse(c->err, "--devices is %s in this run and a resume keeps it; siTrain "
                        "reshard %s --devices %s moves it", old ? old : "not set", c->s->dir, new);
    else
        rc = err_misuse(c->err, "--%s is %s in this run and a resume keeps it: leave the option "
                        "out, or make a new run with --%s %s%s", name,
                        old && *old ? old : "not set", name, new,
                        row->kept == OPT_BRANCH ? ", or go back to a snapshot with --from STEP"
                                                : "");
out:
    if (!new)
        rc = err_set(c->err, -ENOMEM, "%s: out of memory", c->s->dir);
    free(old);
    free(new);
    return rc;
}

/* ---- a branch ---- */

static int is_length(const struct opt_row *row)
{
    return !strcmp(row->name, "steps") || !strcmp(row->name, "schedule-steps");
}

/* True if a run takes this option from the snapshot to which it goes back. */
static int is_branchs(const struct opt_row *row)
{
    return row->kept == OPT_FIXED || row->kept == OPT_BRANCH || is_length(row);
}

struct branching {
    struct session       *s;
    const struct session *snapshot;
    FILE                 *changed;
    struct err           *err;
};

/* Options that the rows of this run have decided. */
static int is_rows(const struct session *s, const char *name)
{
    return (!strcmp(name, "dropout") && (s->rows != SESSION_WHOLE || s->config.n_labels)) ||
           (s->rows == SESSION_PAIRS &&
            (!strcmp(name, "batch") || !strcmp(name, "label-smoothing")));
}

static int branch_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    struct branching *b = ctx;
    struct opt_line   line = train_opts_line(&b->s->o);
    int               rc = 0;

    if (!given || !is_branchs(row))
        return 0;
    char *was = settings_get(b->snapshot->log, "option.%s", row->name);
    char *now = stored_text(row, text);
    const char *had = was && *was ? was : "the default";
    if (!now)
        rc = err_set(b->err, -ENOMEM, "%s: out of memory", b->s->dir);
    else if (was && !strcmp(was, now))
        ;
    else if (row->kept == OPT_FIXED || is_rows(b->s, row->name))
        rc = err_misuse(b->err, "--%s is %s in this run, and --from does not change it, either: "
                        "leave the option out, or make a new run with --%s %s", row->name, had,
                        row->name, now);
    else if (!(rc = opt_set(&line, row->name, now, b->err)) && !is_length(row))
        fprintf(b->changed, "%s: %s instead of %s\n", row->name, now, had);
    free(was);
    free(now);
    return rc;
}

/* The i-th option as text, malloced. */
static char *text_of(const struct train_opts *o, size_t i)
{
    size_t                at;
    const struct opt_row *row = opt_row_at(train_opts_line(NULL).cmd, i, &at);

    return opt_value_text(row, (const char *)o + at);
}

/* Take the snapshot's options; or, where `keep`, say in which ones the run's own differ. */
static int snapshot_options(struct branching *b, int keep)
{
    struct opt_line       own = train_opts_line(&b->s->o);
    const struct opt_row *row;
    int                   rc = 0;

    for (size_t i = 0; (row = train_opts_row(i)) && !rc; i++) {
        if (!is_branchs(row) || (keep && is_length(row)))
            continue;
        char *was = text_of(&b->snapshot->o, i), *now = text_of(&b->s->o, i);

        if (!was || !now)
            rc = err_set(b->err, -ENOMEM, "%s: out of memory", b->s->dir);
        else if (!keep)
            rc = opt_set(&own, row->name, was, b->err);
        else if (strcmp(was, now))
            fprintf(b->changed, "%s: %s instead of %s\n", row->name, now, was);
        free(was);
        free(now);
    }
    return rc;
}

int session_branch_options(char **changed, struct session *s, const struct session *snapshot,
                           const struct opt_line *line, struct err *err)
{
    size_t           size;
    struct branching b = { s, snapshot, open_memstream(changed, &size), err };
    int              rc;

    if (!b.changed)
        return err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    rc = snapshot_options(&b, !line);
    uint64_t steps = s->o.steps, horizon = s->o.schedule_steps;
    rc = rc || !line ? rc : opt_each(line, branch_option, &b);
    if (fclose(b.changed) && !rc)
        rc = err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    if (!rc && **changed)
        (*changed)[strlen(*changed) - 1] = '\0'; // the last line break
    rc = rc ? rc : train_opts_check(&s->o, err);
    s->o.steps = steps; // the resume that follows changes these
    s->o.schedule_steps = horizon;
    return rc;
}

static int put_given(void *ctx, const struct opt_row *row, int given, const char *text)
{
    char word[2 * SESSION_PATH], *one;

    if (!given || row->kept == OPT_COMMAND || row->kept == OPT_PASSING)
        return 0;
    char *stored = stored_text(row, text), *rest = stored;
    if (!stored)
        return -ENOMEM;
    while ((one = strsep(&rest, "\n"))) {
        fprintf(ctx, " --%s", row->name);
        if (row->type != OPT_FLAG)
            fprintf(ctx, " %s", machine_word(word, sizeof word, one));
    }
    free(stored);
    return 0;
}

char *session_given_options(const struct opt_line *line)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);
    int    rc = f ? opt_each(line, put_given, f) : -ENOMEM;

    return text_made(f, &text, rc);
}

/* ---- devices that moved ---- */

struct finding { struct session *s; struct devices *d; };

static int devices_settle(void *ctx, struct err *err)
{
    const struct finding *f = ctx;
    struct session       *s = f->s;
    int                   rc = session_store_options(s, 1, err);

    rc = rc ? rc : devices_record(f->d, s->log, err);
    rc = rc ? rc : drives_record(s, err);
    return rc ? rc : moved_settle(s->moved, &s->run, err);
}

/* Open the devices at their new paths, given by --device. Are they this run's, each in its
 * place? */
static int devices_look(struct devices *d, struct session *s, struct err *err)
{
    char original[PATH_MAX]; // a step later some of a copy's states are still there
    int  rc = moved_original(original, s->log, s->dir, err);

    rc = rc ? rc : session_config(s, err);
    rc = rc ? rc : moved_original_rests(&s->run, err);
    rc = rc ? rc : devices_open(d, &s->run, DEVICES_MEND, NULL, err);
    return rc ? rc : slots_fit(d, *original != '\0', err);
}

/* Whether a rank of the job names its devices anew: 0 or 1, or -errno. */
static int any_renames(const struct session *s, struct err *err)
{
    struct comm *comm = s->ranks.comm;
    int          rc = 0, any = 0;
    int         *of = comm ? comm_collect(comm, &s->renames, sizeof *of, &rc, err) : NULL;

    for (size_t r = 0; of && r < comm->size; r++)
        any |= of[r];
    free(of);
    return !comm ? s->renames : rc ? rc : any;
}

int session_take_devices(struct session *s, struct err *err)
{
    struct devices d = { 0 };
    int            rc = any_renames(s, err);

    rc = rc > 0 ? devices_look(&d, s, err) : rc;
    if (!rc && s->ranks.comm) // what one rank refuses is taken by none
        rc = comm_share(s->ranks.comm, NULL, 0, NULL, err);
    if (!rc && s->renames)
        rc = owner_take(&d, s->owner, s->owner_next, devices_settle, &(struct finding){ s, &d },
                        err);
    devices_close(&d);
    s->renames = 0;
    return rc;
}

/* Whether the stored TensorBoard folder of a copied or renamed run belongs to the original or is in
 * the old folder. */
static int board_is_left(const struct session *s)
{
    const char *dir = s->o.tensorboard;
    size_t      n = strlen(s->dir);

    return s->moved >= MOVED_RENAMED && dir && *dir == '/' &&
           !s->ranks.rank && // only rank 0 writes
           (strncmp(dir, s->dir, n) || dir[n] != '/') &&
           (s->moved != MOVED_RENAMED || moved_was_in(s->log, dir));
}

/* Refuse such a folder. The user must name one again. */
static int board_check(const struct session *s, const struct opt_line *line, struct err *err)
{
    const char *dir = s->o.tensorboard;

    if (opt_given(line, "tensorboard") || !board_is_left(s))
        return 0;
    return err_set(err, -EXDEV, "%s was copied or moved since it was last used, and its "
                   "TensorBoard files would go to %s, which may be another run's: name the folder "
                   "with --tensorboard DIR (auto: %s/tensorboard; none: no files)", s->dir, dir,
                   s->dir);
}

static int leave_board(struct session *s, struct err *err)
{
    struct opt_line line = train_opts_line(&s->o);
    char            text[2 * SESSION_PATH + 256];

    if (!board_is_left(s))
        return 0;
    snprintf(text, sizeof text, "%s was copied or moved since it was last used, and its TensorBoard"
             " files would go to %s, which may be another run's: it writes none until --resume "
             "names a folder with --tensorboard DIR", s->dir, s->o.tensorboard);
    events_notice(s->events, "%s", text);
    int rc = runlog_notice(s->log, text, err);
    rc = rc ? rc : opt_set(&line, "tensorboard", TENSORBOARD_NONE, err);
    return rc ? rc : settings_set(s->log, err, "option.tensorboard=" TENSORBOARD_NONE);
}

int session_settle(struct session *s, struct err *err)
{
    int rc = leave_board(s, err);

    return rc ? rc : moved_settle(s->moved, &s->run, err);
}

int session_overlay(struct session *s, const struct opt_line *line, int first, struct err *err)
{
    struct overlay c = { s, first, err };
    int            rc = board_check(s, line, err);

    s->renames = s->moved == MOVED_APART; // which implies --device
    rc = rc ? rc : opt_each(line, overlay_option, &c);
    if (!rc && s->renames && s->o.device.n != s->run.n_devices)
        rc = err_misuse(err, "%s has %zu device%s, but --device names %zu: name each device, in "
                        "the run's order (siTrain reshard changes the number)", s->dir,
                        s->run.n_devices, s->run.n_devices > 1 ? "s" : "", s->o.device.n);
    return rc;
}
