/* reshard.c: moves a run to other drives, or to another number of devices or ranks.
 * offload/upkeep/reshard.h moves the states and says why a kill loses nothing. This file says where
 * they go, and stores that. */
#include "cmd/cmd.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/base/clock.h"
#include "data/base/machine.h"
#include "offload/upkeep/reshard.h"
#include "run/folder/drives.h"
#include "run/folder/output.h"
#include "run/ranks/job_run.h"
#include "run/ranks/rank_reshard.h"
#include "run/snapshots/lost.h"

struct reshard_opts {
    const char        *run, *new_run;
    uint64_t           devices, csd_mem, ranks;
    struct opt_strings device, fpga;
    int                force_device, device_in_ram, quiet;
};

#define AT(field) offsetof(struct reshard_opts, field)

static const struct opt_row rows[] = {
    { "RUN", OPT_ARG, AT(run), .help = "Run to move" },
    { "device", OPT_PATHS, AT(device), .arg = "PATH", .max = 1024,
      .help = "Folder, new file or block device of one device" },
    { "devices", OPT_UINT, AT(devices), .min = 1, .max = 1024,
      .help = "Number of devices, made as folders in RUN, 1 to 1024" },
    { "fpga", OPT_STRINGS, AT(fpga), .arg = "ADDRESS", .max = 1024,
      .help = "Card of one new device (default: the card next to each drive). Requires --csd "
              "xrt. Give one card for every device, or none." },
    { "ranks", OPT_UINT, AT(ranks), .min = 1, .max = 1024,
      .help = "Number of ranks of the new run, 1 to 1024. --devices is then the number per rank "
              "(default: as before)." },
    { "new-run", OPT_STRING, AT(new_run), .arg = "NEW",
      .help = "Folder of the new run, with --ranks. The folders of its other ranks are made next "
              "to it." },
    { "csd-mem", OPT_SIZE, AT(csd_mem), .min = 131072,
      .help = "Accelerator memory per device, 128K or more (default: as before)" },
    { "force-device", OPT_FLAG, AT(force_device),
      .help = "Use block devices even if they carry a signature or another run" },
    { "device-in-ram", OPT_FLAG, AT(device_in_ram), .help = "Allow device files on a tmpfs" },
    { "quiet", OPT_FLAG, AT(quiet), .help = "Print nothing" },
    { 0 }
};
static const struct opt_part parts[] = { { "Options", rows, 0 }, { 0 } };

struct switching { struct session *was, now; struct reshard r; };

/* Records that a copied run is a run of its own, before new devices are listed for removal. Once
 * something is listed, moved_settle does not do so, because the list may be the original's. A kill
 * would then leave a copy that does not know its new devices. */
static int settle(void *ctx, struct err *err)
{
    struct switching *w = ctx;
    int               rc = runlog_begin(w->was->log, err);

    if (rc)
        return rc;
    rc = session_settle(w->was, err);
    w->now.o.tensorboard = w->was->o.tensorboard;
    return runlog_end(w->was->log, rc, err);
}

/* Stores the new settings, in the transaction that switches. */
static int settings(void *ctx, struct err *err)
{
    struct switching *w = ctx;
    int               rc = session_store_options(&w->now, 1, err);

    w->now.run = w->r.to;
    rc = rc ? rc : moved_note(&w->now.run, err);
    return rc ? rc : drives_record(&w->now, err);
}

/* Values for each device must fit the new ones, and snapshots on the devices, too. */
static int options_check(struct train_opts *now, const char *run, struct err *err)
{
    int rc = train_opts_check(now, err);

    if (!rc || !now->snapshot_every || now->snapshot_on != TRAIN_SNAPSHOTS_DEVICES)
        return rc;
    return err_misuse(err, "%s; --snapshot-on and --parity of this run are changed before, by "
                      "siTrain pretrain --resume %s", err->text, run);
}

static int move_run(struct session *s, const struct reshard_opts *o, struct err *err)
{
    struct watch watch = work_begin(&say_events, "moving the states of %s", o->run);
    struct switching w = {
        .was = s,
        .now = *s, // what will be stored; it borrows from *s
        .r = { .from = s->run, .to = s->run, .settle = settle, .settings = settings, .ctx = &w,
               .watch = &watch },
    };
    struct session *now = &w.now;
    struct reshard *r = &w.r;
    char            notice[512] = "";
    uint64_t        start = clock_ns();

    int rc = machine_hex(now->layout, sizeof now->layout - 1, err); // names the new set
    now->o.device = o->device;
    now->o.fpga = o->fpga; // old cards belong to the old drives
    now->o.devices = r->to.n_devices = o->device.n ? o->device.n : o->devices;
    now->o.csd_mem = r->to.csd_mem = o->csd_mem ? o->csd_mem : s->run.csd_mem;
    r->to.device_paths = o->device.n ? o->device.item : NULL;
    r->to.fpgas = o->fpga.n ? o->fpga.item : NULL;
    r->to.force_device = o->force_device;
    r->to.device_in_ram = o->device_in_ram;
    r->to.layout = now->layout;
    rc = rc ? rc : options_check(&now->o, o->run, err);
    rc = rc ? rc : reshard_run(r, err);
    // a step is half done: finish it where its gradients are
    if (rc == -EBUSY && !(rc = session_recover(s, err)))
        rc = reshard_run(r, err);
    rc = lost_explain(s, rc, err);
    work_end(&say_events);
    rc = rc ? rc : reshard_clean(&r->to, 1, notice, sizeof notice, err);
    if (!rc && *notice)
        rc = session_notice(s, err, "%s", notice);
    if (!rc && !o->quiet)
        say_line(stdout, "%s is on %zu device%s now: %s written in %.1f s", o->run, r->to.n_devices,
                 r->to.n_devices > 1 ? "s" : "", SIZE_TEXT(r->bytes),
                 (double)(clock_ns() - start) * 1e-9);
    return rc;
}

/* Makes a run for other ranks. The old run stays as it is. */
static int new_ranks(const struct reshard_opts *o, struct err *err)
{
    struct rank_reshard n = { .dir = o->new_run, .ranks = o->ranks, .devices = o->devices };
    struct session  s = { 0 };

    if (!o->ranks || !o->new_run)
        return err_misuse(err, "--ranks N and --new-run NEW go together: the ranks, and where "
                          "their folders are made");
    if (o->device.n || o->fpga.n || o->csd_mem)
        return err_misuse(err, "--ranks makes devices in the new folders: leave --device, --fpga "
                          "and --csd-mem out, and reshard each rank's folder then");
    int rc = session_open(&s, o->run, SESSION_WRITE, &say_events, err);
    rc = rc ? rc : job_run_see(&s, o->run, SESSION_WRITE, err);
    rc = rc ? rc : rank_reshard_create(&s, &n, err);
    rc = session_explain(&s, rc, err);
    session_close(&s);
    if (!rc && !o->quiet)
        say_line(stdout, "%s is %s for %" PRIu64 " rank%s: %s is whole still, and may be removed",
                 o->new_run, o->run, o->ranks, o->ranks > 1 ? "s" : "", o->run);
    return rc;
}

static int run(struct opt_line *line, struct err *err)
{
    struct reshard_opts *o = line->options;
    struct session       s = { 0 };

    events_kill_costs(&say_events, "the run is whole even so");
    progress_quiet(o->quiet);
    if (o->ranks || o->new_run)
        return new_ranks(o, err);
    if (!o->device.n == !o->devices)
        return err_misuse(err, "where to? give --device PATH for each device, or --devices N for "
                          "folders in RUN");
    int rc = session_open(&s, o->run, SESSION_WRITE, &say_events, err);
    for (size_t i = 0; i < o->device.n && !rc; i++)
        rc = output_check_name("--device", o->device.item[i], err);
    rc = rc ? rc : move_run(&s, o, err);
    session_close(&s);
    return rc;
}

const struct opt_command reshard_command = {
    .name = "reshard",
    .usage = "RUN (--device PATH... | --devices N) [--fpga ADDRESS...] [--csd-mem SIZE] | RUN "
             "--ranks N --new-run NEW",
    .summary = "move a run to other drives, or to another number of devices or ranks",
    .text = "The run's bits stay the same: later training and exports give the results of a run "
            "that never moved. The new devices are filled first. One transaction then switches "
            "to them, and the old devices' files are removed. A kill at any time leaves the run "
            "whole, on the old devices or on the new ones. A run whose devices were only moved "
            "to other paths needs no reshard: --resume RUN --device NEWPATH... finds them. With "
            "--ranks, a new run is made next to the old one, which stays. Its folders are NEW, "
            "NEW.rank1 and so on. Folders left by a kill are cleared by the next try.",
    .parts = parts, .size = sizeof(struct reshard_opts), .run = run,
    .examples = { "siTrain reshard first --devices 4",
                  "siTrain reshard first --device /mnt/a/first --device /mnt/b/first" },
};
