/* restore.c: makes lost devices of a run again, and takes the run back to its newest snapshot. */
#include "cmd/cmd.h"
#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/file/file.h"
#include "model/together.h"
#include "run/folder/session.h"
#include "run/folder/settings.h"
#include "run/loop/going_back.h"
#include "run/ranks/back.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_again.h"
#include "run/ranks/rank_places.h"
#include "run/snapshots/damaged.h"
#include "run/snapshots/lost.h"
#include "run/snapshots/made_whole.h"

struct restore_opts {
    const char        *run;
    struct opt_strings device;
    int                force_device;
};

#define AT(field) offsetof(struct restore_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Run that has a lost or damaged device" },
    { "device", OPT_STRINGS, AT(device), .arg = "I=PATH", .max = 1024,
      .help = "New place of device I, counted from 0: folder, new file or block device (default: "
              "where it was)" },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "Use block devices even if they carry a signature" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* Make all snapshots whole. *sum: of all ranks. */
static int mend_snapshots(struct session *s, struct made_whole_sum *sum, struct err *err)
{
    struct snapshots list;
    int              rc = snapshots_list(&list, s, err);

    rc = rc ? rc : made_whole_all(s, &list, sum, err);
    if (!rc && list.unread) {
        rc = session_notice(s, err, "%s", list.unread_why.text);
        ++*(file_is_unknown(list.unread) ? &sum->unknown : &sum->left);
    }
    snapshots_free(&list);
    rc = rc ? rc : together_add(s->ranks.comm, &sum->mended, &sum->left, err);
    return rc ? rc : together_add(s->ranks.comm, &sum->unknown, NULL, err);
}

/* Says of how many snapshots it is not so that they are whole. */
static int say_left(const struct session *s, const char *run, const struct made_whole_sum *sum,
                    uint64_t wire, struct err *err)
{
    char left[64] = "", unknown[64] = "", repair[SESSION_PATH + 64] = "", line[SESSION_LINE];

    if (sum->left)
        snprintf(left, sizeof left, "%" PRIu64 " cannot be made whole", sum->left);
    if (sum->unknown)
        snprintf(unknown, sizeof unknown, "%s%" PRIu64 " could not be read or mended",
                 sum->left ? ", and " : "", sum->unknown);
    if (wire)
        snprintf(repair, sizeof repair, " that siTrain check --repair %s cannot make again", run);
    return err_set(err, -EBADMSG, "%s has lost nothing itself%s, and of its snapshots, %s%s; %s "
                   "--check lists all", run, repair, left, unknown,
                   session_ranks_line(line, s, "snapshots"));
}

/* No device is gone. Has any rank areas that cannot be read, or have other bytes than were written?
 * If there are none, snapshots are mended alone. *mended: parts of them. A snapshot that stays
 * damaged is a failure, as for siTrain snapshots --check. elsewhere: devices that were found where
 * --device says; run.db does not know it. */
static int find_damage(struct session *s, const char *run, uint64_t elsewhere, uint64_t *mended,
                       struct err *err)
{
    uint64_t              n, wire;
    struct made_whole_sum sum = { 0 };
    int                   rc = damaged_count(s, &n, &wire, err);

    rc = rc ? rc : together_add(s->ranks.comm, &n, &wire, err);
    rc = rc || n ? rc : mend_snapshots(s, &sum, err);
    *mended = sum.mended;
    if (rc || n)
        return rc;
    if (sum.left || sum.unknown)
        return say_left(s, run, &sum, wire, err);
    if (sum.mended && !wire && !elsewhere)
        return 0;
    if (wire)
        return err_misuse(err, "no device of %s is gone, and nothing of it is damaged that siTrain "
                          "check --repair %s cannot make again, without losing a step", run, run);
    if (elsewhere)
        return moved_refuse_restore(&s->run, sum.mended, err);
    return err_misuse(err, "no device of %s is gone, and all of its states were read and are "
                      "whole; --resume %s --from STEP goes back to a snapshot", run, run);
}

/* The blocks that were damaged have been written again. Can they be read now? */
static int look_again(struct session *s, const char *run, struct err *err)
{
    uint64_t n = 0, wire = 0;
    int      rc = damaged_count(s, &n, &wire, err);

    n += rc ? 0 : wire;
    rc = rc ? rc : together_add(s->ranks.comm, &n, NULL, err);
    return rc || !n ? rc : err_set(err, -EIO, "%s is at its snapshot, and its drive still cannot "
                                   "read what was written: move the run to another drive (siTrain "
                                   "reshard), or remove the device's file, and: siTrain restore %s "
                                   "--device I=PATH", run, run);
}

/* Put the devices where --device says. Of several ranks, which may be given different places, each
 * takes what it has lost. *elsewhere: how many devices of all ranks have another place now. */
static int places(struct session *s, const struct restore_opts *o, uint64_t *elsewhere,
                  struct err *err)
{
    struct comm *comm = s->ranks.comm;
    int          rc = 0;

    for (uint64_t i = 0, any = 1; any && !rc; i++) {
        const char *text = i < o->device.n ? o->device.item[i] : NULL;
        uint64_t    lost = text && lost_is(s, text), here = lost;

        any = text != NULL;
        rc = together_add(comm, &lost, &any, err);
        if (!rc && text && (here || !lost || !comm))
            rc = lost_place(s, text, err);
        *elsewhere += rc > 0;
        rc = rc > 0 ? 0 : rc;
    }
    return rc ? rc : together_add(comm, elsewhere, NULL, err);
}

/* options: those with which a killed process was going back; the resume has to be given them. */
static void say_whole(const struct session *s, const char *run, uint64_t step, const char *options)
{
    char line[SESSION_LINE], from[32] = "";

    if (options)
        snprintf(from, sizeof from, " --from %" PRIu64, step);
    say_line(stdout, "%s is whole, after step %" PRIu64 "; go on with: %s%s%s", run, step,
             session_resume_line(line, s), from, options ? options : "");
}

static int restore(struct session *s, const struct restore_opts *o, size_t made, struct err *err)
{
    uint64_t step, all, mended = 0, elsewhere = 0;
    size_t   gone;
    int      rc = lost_apart_check(s, &o->device, err);

    // before counting: recorded places may be another's
    rc = rc ? rc : places(s, o, &elsewhere, err);
    rc = rc ? rc : lost_places_check(s, NULL, err);
    rc = rc ? rc : lost_count(s, &gone, err);

    all = rc ? 0 : gone + made + (uint64_t)settings_has(s->log, "going_back");
    rc = rc ? rc : together_add(s->ranks.comm, &all, NULL, err);
    int damaged = !rc && !all;
    rc = damaged ? find_damage(s, o->run, elsewhere, &mended, err) : rc;
    if (!rc && mended && job_speaks())
        say_line(stdout, "%s has lost nothing, and its snapshots with parity are whole again",
                 o->run);
    if (rc || mended)
        return rc;
    s->o.force_device = s->run.force_device = o->force_device;
    rc = lost_check(s, &o->device, err);
    rc = rc ? rc : rank_places_check(s->ranks.comm, s->o.device.item, s->o.device.n, err);
    rc = rc ? rc : back_wait(s, err);
    char *options = settings_get(s->log, "going_back.options");
    rc = rc ? rc : going_back_restore(s, &step, err);
    rc = rc || !damaged ? rc : look_again(s, o->run, err);
    rc = rc ? rc : back_wait(s, err);
    if (!rc && job_speaks())
        say_whole(s, o->run, step, options);
    free(options);
    return rc;
}

static int open_run(struct session *s, const struct restore_opts *o, size_t *made,
                    struct err *err)
{
    const char  *run = o->run;
    struct comm *comm;
    char         dir[SESSION_PATH], line[SESSION_LINE];
    int          rc = job_open(&comm, err);

    if (rc)
        return rc;
    progress_quiet(!job_speaks());
    if ((rc = job_run_own_dir(dir, run, comm, err)))
        return rc;
    if (comm)
        return rank_again_open(s, dir, &o->device, comm, say_events_of_job(), made, err);
    rc = session_open(s, run, SESSION_RESTORE, &say_events, err);
    return rc || s->ranks.size < 2 ? rc
                                   : err_misuse(err, "%s has %zu ranks, which are restored "
                                                "together: %s", run, s->ranks.size,
                                                session_ranks_line(line, s, "restore"));
}

static int run(struct opt_line *line, struct err *err)
{
    struct restore_opts *o = line->options;
    struct session       s = { 0 };
    size_t               made = 0;

    events_kill_costs(&say_events, "the same command goes on");
    int rc = open_run(&s, o, &made, err);
    rc = rc ? rc : restore(&s, o, made, err);
    session_close(&s);
    return rc;
}

const struct opt_command restore_command = {
    .name = "restore",
    .usage = "RUN [--device I=PATH]",
    .summary = "make lost devices of a run again, from its newest snapshot",
    .text = "siTrain makes devices that are lost or cut again, and takes all states from the "
            "newest whole snapshot (--snapshot-every). --resume then computes the later steps "
            "again. If no device is lost, siTrain first reads all states. It changes the run only "
            "if it finds damage that check --repair cannot mend. Snapshots of --snapshot-on "
            "devices are mended by their parity: first the newest, then, when the run has its "
            "states again, the others. If the run has lost nothing, and a snapshot cannot be made "
            "whole, the exit code is 1. A drive that is only not mounted is not lost: mount it. To "
            "restore a run of several ranks, start all ranks with mpirun. A rank's lost folder is "
            "made again, too.",
    .parts = parts, .size = sizeof(struct restore_opts), .by_ranks = 1, .run = run,
    .examples = { "siTrain restore first", "siTrain restore first --device 1=/mnt/new" },
};
