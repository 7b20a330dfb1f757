/* restore.c: makes lost devices of a run again, and takes the run back to its newest snapshot. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "run/folder/session.h"
#include "run/folder/settings.h"
#include "run/loop/damaged.h"
#include "run/loop/going_back.h"
#include "run/loop/lost.h"

struct restore_opts {
    const char        *run;
    struct opt_strings device;
    int                force_device;
};

#define AT(field) offsetof(struct restore_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Run of which a device is gone or damaged" },
    { "device", OPT_STRINGS, AT(device), .arg = "I=PATH", .max = 1024,
      .help = "New place of device I, counted from 0: folder, new file or block device (default: "
              "where it was)" },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "Use block devices even if they carry a signature or another run" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

/* No device is gone: are there areas that cannot be read, or have other bytes than were written? */
static int find_damage(struct session *s, const char *run, struct err *err)
{
    uint64_t n, wire;
    int      rc = damaged_count(s, &n, &wire, err);

    if (rc || n)
        return rc;
    if (wire)
        return err_misuse(err, "no device of %s is gone, and nothing of it is damaged that siTrain "
                          "check --repair %s cannot make again, without losing a step", run, run);
    return err_misuse(err, "no device of %s is gone, and all of its states were read and are "
                      "whole; --resume %s --from STEP goes back to a snapshot", run, run);
}

/* The blocks that were damaged have been written again. Can they be read now? */
static int look_again(struct session *s, const char *run, struct err *err)
{
    uint64_t n, wire;
    int      rc = damaged_count(s, &n, &wire, err);

    return rc || !(n + wire) ? rc : err_set(err, -EIO, "%s is at its snapshot, and its drive still "
                                            "cannot read what was written: move the run to another "
                                            "drive (siTrain reshard), or remove the device's file, "
                                            "and: siTrain restore %s --device I=PATH", run, run);
}

static int restore(struct session *s, const struct restore_opts *o, struct err *err)
{
    uint64_t step;
    size_t   gone;
    char     line[SESSION_LINE];
    int      rc = lost_count(s, &gone, err);

    int damaged = !rc && !gone && !settings_has(s->log, "going_back");

    rc = damaged ? find_damage(s, o->run, err) : rc;
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = lost_place(s, o->device.item[i], err);
    s->o.force_device = s->run.force_device = o->force_device;
    rc = rc ? rc : lost_check(s, &o->device, err);
    rc = rc ? rc : going_back_restore(s, &step, err);
    rc = rc || !damaged ? rc : look_again(s, o->run, err);
    if (!rc)
        say_line(stdout, "%s is whole, after step %" PRIu64 "; go on with: %s", o->run, step,
                 session_resume_line(line, s));
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct restore_opts *o = line->options;
    struct session       s = { 0 };

    events_kill_costs(&say_events, "the same command goes on");
    int rc = session_open(&s, o->run, SESSION_RESTORE, &say_events, err);
    rc = rc ? rc : restore(&s, o, err);
    session_close(&s);
    return rc;
}

const struct opt_command restore_command = {
    .name = "restore",
    .usage = "RUN [--device I=PATH]",
    .summary = "make lost devices of a run again, from its newest snapshot",
    .text = "Devices that are gone or cut are made again. If none is, siTrain reads all states "
            "first, and goes on only if some cannot be read, or differ from their checksums. All "
            "states then come from the newest whole snapshot (--snapshot-every), and --resume "
            "computes the steps since again. What snapshots with --snapshot-on devices have lost "
            "is made again first. A drive that is merely not mounted is not lost: mount it "
            "instead.",
    .parts = parts, .size = sizeof(struct restore_opts), .run = run,
    .examples = { "siTrain restore first", "siTrain restore first --device 1=/mnt/new" },
};
