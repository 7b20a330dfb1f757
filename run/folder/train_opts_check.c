/* train_opts_check.c: what several options of a training mean together: the values that follow from
 * them, and which of them exclude each other. It completes them. */
#include "run/folder/train_opts.h"

#include "csd/csd.h"
#include "data/file/file.h"
#include "offload/upkeep/parity.h"
#include "run/folder/output.h"
#include "run/folder/tensorboard.h"

/* ---- what follows ---- */

double train_opts_asked(const struct train_opts *o, const struct model_config *g)
{
    return arch_is_masked(g) ? o->mask.prob : 1;
}

int train_opts_newer(const struct train_opts *o)
{
    return o->schedule == SCHEDULE_WSD || o->label_smoothing > 0 || o->neftune_alpha > 0;
}

struct schedule train_opts_schedule(const struct train_opts *o)
{
    static const struct opt_warmup usual = { 0.1, 1 };
    struct opt_warmup              decay = o->decay_steps.value > 0 ? o->decay_steps : usual;
    uint64_t                       horizon = o->schedule_steps ? o->schedule_steps : o->steps;

    return (struct schedule){
        .kind = (enum schedule_kind)o->schedule,
        .lr = o->lr,
        .min_lr = o->min_lr,
        .warmup = opt_warmup_steps(o->warmup, horizon),
        .horizon = horizon,
        .decay = o->schedule == SCHEDULE_WSD ? opt_warmup_steps(decay, horizon) : 0,
    };
}

size_t train_opts_acts(const struct train_opts *o)
{
    const struct opt_strings *d = &o->act_device;

    return d->n == 1 && !strcmp(d->item[0], TRAIN_NO_ACT_DEVICE) ? 0 : d->n;
}

struct topology_config train_opts_links(const struct train_opts *o)
{
    return (struct topology_config){
        .file = o->topology && strcmp(o->topology, TRAIN_NO_TOPOLOGY) ? o->topology : NULL,
        .host_bw = o->link_bw,
        .read_bw = { o->csd_read_bw.item, o->csd_read_bw.n },
        .write_bw = { o->csd_write_bw.item, o->csd_write_bw.n },
        .latency_us = o->csd_latency,
        .others = train_opts_acts(o),
    };
}

/* ---- what excludes each other ---- */

/* Check that the options describe valid links. */
static int links_check(const struct train_opts *o, struct err *err)
{
    struct topology_config cfg = train_opts_links(o);
    struct topology       *t = NULL;
    int                    rc = topology_open(&t, &cfg, o->devices, err);

    topology_close(t);
    return rc;
}

/* Check --act-device against the other options. */
static int acts_check(const struct train_opts *o, struct err *err)
{
    for (size_t i = 0; i < o->act_device.n && o->act_device.n > 1; i++)
        if (!strcmp(o->act_device.item[i], TRAIN_NO_ACT_DEVICE))
            return err_misuse(err, "--act-device none removes all drives for activations: give it "
                              "alone");
    if (train_opts_acts(o) && o->mode == RUN_MEM)
        return err_misuse(err, "--act-device is for offloaded activations, and --mode mem keeps "
                          "everything in RAM: leave it out, or give another mode");
    if (train_opts_acts(o) && !train_activations[o->activations].offloads)
        return err_misuse(err, "--act-device is for offloaded activations, and --activations %s "
                          "offloads none: give offload, auto or ssdtrain, or leave --act-device "
                          "out (--act-device none removes the run's)",
                          train_activations[o->activations].name);
    return 0;
}

/* Check the parts of the learning-rate schedule. */
static int schedule_check(const struct train_opts *o, struct err *err)
{
    struct schedule s = train_opts_schedule(o);

    if (o->min_lr > o->lr)
        return err_misuse(err, "--min-lr %g is above --lr %g; it is where the schedule ends",
                          o->min_lr, o->lr);
    if (s.warmup > s.horizon)
        return err_misuse(err, "--warmup of %" PRIu64 " steps is longer than the schedule of %"
                          PRIu64 " steps", s.warmup, s.horizon);
    if (o->decay_steps.value > 0 && o->schedule != SCHEDULE_WSD)
        return err_misuse(err, "--decay-steps is for --schedule wsd: leave it out, or give that "
                          "schedule");
    if (s.warmup + s.decay > s.horizon)
        return err_misuse(err, "a warm-up of %" PRIu64 " steps (--warmup) and a decay of %" PRIu64
                          " (--decay-steps) do not fit into a schedule of %" PRIu64 " steps",
                          s.warmup, s.decay, s.horizon);
    return 0;
}

/* Check --snapshot-on devices: whether the states of a snapshot can lie on the devices' drives. */
static int portions_check(const struct train_opts *o, struct err *err)
{
    if (o->mode == RUN_MEM)
        return err_misuse(err, "--snapshot-on devices is for runs with devices, and --mode mem has "
                          "none: give a --snapshot-dir instead");
    if (!o->device.n)
        return err_misuse(err, "--snapshot-on devices keeps snapshots on the drives of the "
                          "devices, and without --device all of them lie in RUN: name a folder on "
                          "each drive with --device, or give --snapshot-on dir");
    for (size_t i = 0; i < o->device.n; i++)
        if (file_is_block(o->device.item[i]))
            return err_misuse(err, "--snapshot-on devices makes files next to those of the "
                              "devices, and --device %s is a whole drive, on which there are none: "
                              "name a folder on it (with a file system), or give --snapshot-on dir "
                              "and a --snapshot-dir", o->device.item[i]);
    return parity_can(o->device.n, o->parity, err);
}

int train_opts_check(struct train_opts *o, struct err *err)
{
    if (schedule_check(o, err))
        return -EINVAL;
    if (o->mode == TRAIN_SU_O_C) {
        o->mode = RUN_SUO;
        if (!(o->compress > 0))
            o->compress = TRAIN_COMPRESS;
    }
    if (o->error_feedback && !(o->compress > 0))
        return err_misuse(err, "--error-feedback needs compressed gradients: give --compress (2%% "
                          "is the paper's) too, or leave it out");
    if (o->speculate && o->mode != RUN_BASE && o->mode != RUN_SUO)
        return err_misuse(err, "--speculate is for --mode base, su+o and su+o+c, not %s: %s",
                          run_mode_name((size_t)o->mode),
                          o->mode == RUN_MEM ? "in mem nothing waits for the norm"
                                               : "su updates naively, after the norm is known");
    if (o->export_limit && !o->export_every)
        return err_misuse(err, "--export-limit needs --export-every N, which writes the folders: "
                          "give it too, or leave --export-limit out");
    if (o->snapshot_every && o->snapshot_on == TRAIN_SNAPSHOTS_DEVICES && portions_check(o, err))
        return -EINVAL;
    if (o->snapshot_on == TRAIN_SNAPSHOTS_HOSTS && o->snapshot_dir.n)
        return err_misuse(err, "--snapshot-on hosts keeps snapshots in RUN/snapshots of each rank, "
                          "where a link may lead to another drive: leave --snapshot-dir out");
    if (train_activations[o->activations].offloads && o->mode == RUN_MEM &&
        train_activations[o->activations].adapts != ADAPT_BEST)
        return err_misuse(err, "--activations %s writes to the devices, and --mode mem has none: "
                          "give keep or recompute, or another mode",
                          train_activations[o->activations].name);
    if (o->device.n && o->devices > 1 && o->devices != o->device.n)
        return err_misuse(err, "--devices %llu and %zu times --device disagree; give one of both",
                          (unsigned long long)o->devices, o->device.n);
    if (o->device.n)
        o->devices = o->device.n;
    if ((o->fpga.n || o->xclbin) && strcmp(csd_name((size_t)o->csd), "xrt"))
        return err_misuse(err, "--%s is for --csd xrt, and the devices are of --csd %s: leave it "
                          "out, or give --csd xrt", o->fpga.n ? "fpga" : "xclbin",
                          csd_name((size_t)o->csd));
    if (o->fpga.n && o->fpga.n != o->devices)
        return err_misuse(err, "--fpga names %zu card%s, and there %s %llu device%s: give one card "
                          "for each device, or none", o->fpga.n, o->fpga.n == 1 ? "" : "s",
                          o->devices == 1 ? "is" : "are",
                          (unsigned long long)o->devices, o->devices == 1 ? "" : "s");
    if (o->mode == RUN_MEM && csd_at((size_t)o->csd)->usable) // it needs something installed
        return err_misuse(err, "--mode mem has no devices, and updates on the host: give another "
                          "mode, or leave --csd %s out", csd_name((size_t)o->csd));
    if (o->mode == RUN_MEM && o->device.n)
        return err_misuse(err, "--mode mem keeps everything in RAM and its images in RUN: leave "
                          "--device out");
    if (acts_check(o, err) || links_check(o, err))
        return -EINVAL;
    return tensorboard_is_named(o->tensorboard) ? output_check_events(o->tensorboard, err) : 0;
}
