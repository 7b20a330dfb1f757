/* bench_scaling.c: `siTrain bench scaling`: steps on 1 to N modelled devices, predicted from the
 * run on one and measured.
 *
 * The prediction is step_time of offload/estimate/step_time.h. It knows the modelled bandwidths,
 * what a step moves, where shards end, and of the run on one device the time of a step and of its
 * computing. T_swap and T_grad, the drive's time for parameters that are read and gradients that
 * are written, are bytes over bandwidths; T_opt, that for updates, is what they and the computing
 * leave of the step on one device, which waits for nothing but its drive. Of two and more devices
 * nothing is known to it. Then all of them take turns, as everything that bench compares.
 *
 * A modelled drive is never faster than what is beneath it. So first that is measured: it must move
 * twice what all modelled drives move together. */
#include "bench/bench.h"

#include "offload/estimate/step_work.h"
#include "run/loop/training.h"

#include <math.h>

enum { UNSTEADY = 1 }; // measured steps of each opening that are left out: the first update looks
                       // at every value, and the step behind it waits for it
enum { DISK_ROUNDS = 3 };

#define LARGE_PART 0.25 // of a step: more computing than that is said
#define ROOM       2.0  // times what the modelled drives move: the disk beneath

static const struct opt_default defaults[] = {
    { "devices", "10" }, { "rounds", "4" }, { "steps", "2" }, { "n-layer", "4" },
    { "n-head", "4" }, { "n-embd", "256" }, { "vocab", "2048" }, { "seq", "16" },
    { "batch", "1" }, { "csd-mem", "16M" }, { "durability", "none" }, { "csd-read-bw", "48M" },
    { "csd-write-bw", "30M" }, { "link-bw", "90M" }, { 0 }
};

/* ---- one number of devices ---- */

/* The run as the program would make it: its plan, its links, what it moves. */
struct place {
    struct bench      bench; // with so many devices
    struct bench_opts opts;
    char              folder[32];
    struct step_work  work;  // by bandwidths alone
    struct step_share share;
};

static void place_options(struct place *p, const struct bench *b, size_t n)
{
    struct train_opts *o = &p->opts.train;

    p->opts = *b->o;
    p->bench = *b;
    p->bench.o = &p->opts;
    snprintf(p->folder, sizeof p->folder, "devices-%zu", n);
    o->devices = n;
    if (o->csd_read_bw.n > 1) // of each device: the first ones
        o->csd_read_bw.n = n;
    if (o->csd_write_bw.n > 1)
        o->csd_write_bw.n = n;
}

static int place_plan(struct place *p, const struct bench *b, size_t n, struct err *err)
{
    struct session         s = { .dir = "bench", .config = b->config };
    struct step_rates      none = { 0 };
    struct topology_config links;
    struct topology       *t = NULL;
    struct budget          plan;

    place_options(p, b, n);
    s.o = p->opts.train;
    links = train_opts_links(&s.o);
    int rc = session_config(&s, err);
    rc = rc ? rc : training_plan(&plan, &s, 0, err);
    rc = rc ? rc : topology_open(&t, &links, n, err);
    rc = rc ? rc : step_work_moves(&p->work, &s.run, t, &none, err);
    rc = rc ? rc : step_work_share(&p->share, &s.run, err);
    topology_close(t);
    session_close(&s);
    return rc;
}

/* ---- the disk beneath ---- */

/* Bytes a second that the modelled drives move together in an update, which reads and writes. */
static double drives_rate(const struct place *all, size_t n, const struct bench *b)
{
    double bytes = (double)arch_total(&b->config) * (8 * (1 + optim_moments((enum optim_kind)
                                                          b->o->train.optimizer)) + 6);

    return all[n - 1].work.update.drive > 0 ? (double)n * bytes / all[n - 1].work.update.drive : 0;
}

static int disk_check(struct bench *b, json_t *section, double needed, struct err *err)
{
    struct bench_place *disk;
    struct bench_item   mix = { 0 };
    int                 rc = bench_place_open(&disk, b, 0, err);

    if (!rc) {
        mix = bench_place_item(disk, BENCH_MIXED, 0);
        rc = bench_rounds(&mix, 1, DISK_ROUNDS, 0, err);
    }
    bench_place_close(disk);
    if (rc)
        return rc;
    json_object_set_new(section, "disk",
                        json_pack("{s:f, s:f, s:f, s:f}", "bytes_per_second", mix.median, "least",
                                  mix.least, "modelled_bytes_per_second", needed, "room",
                                  mix.median / needed));
    return mix.median >= ROOM * needed
               ? 0 : err_set(err, -ENOTSUP,
                             "the disk under %s moves %.0f MB/s in an update's mix of reads and "
                             "writes, and %llu modelled drives together move %.0f: more than half "
                             "of it, so they would not be as fast as they are modelled. Slower "
                             "drives (--csd-read-bw, --csd-write-bw, and --link-bw with them), "
                             "fewer --devices or another --dir would do", b->o->dir,
                             1e-6 * mix.median, (unsigned long long)b->o->train.devices,
                             1e-6 * needed);
}

/* ---- measuring ---- */

/* Steps of one more opening, the steady ones of which go to `to`. */
static int measure_steps(const struct place *p, json_t *to, struct err *err)
{
    json_t *steps = json_array();
    int     rc = bench_run(&p->bench, p->folder, BENCH_TRAIN, UNSTEADY + p->opts.train.steps, steps,
                           err);

    for (size_t i = UNSTEADY; i < json_array_size(steps) && !rc; i++)
        json_array_append(to, json_array_get(steps, i));
    json_decref(steps);
    return rc;
}

static int measure(const struct place *all, size_t n, json_t **steps, struct err *err)
{
    uint64_t rounds = all->opts.rounds;
    int      rc = 0;

    for (size_t i = 0; i < n && !rc; i++)
        rc = bench_run_make(&all[i].bench, all[i].folder, all[i].opts.train.mode, 0, 0, err);
    for (uint64_t r = 0; r < rounds && !rc; r++)
        for (size_t i = 0; i < n && !rc; i++) // each round begins with another one
            rc = measure_steps(&all[(i + r) % n], steps[(i + r) % n], err);
    return rc;
}

/* ---- predicting ---- */

/* The work of the step on one device: its computing as it was measured, T_opt what is left. */
static struct step_work work_of_one(const struct place *one, const json_t *steps,
                                    double arithmetic)
{
    struct step_work w = one->work;
    json_t          *lived = bench_run_medians(steps);
    struct step_share share = one->share;
    double           modelled = w.update.drive, forward;

    w.last = json_num(lived, "forward") / (double)one->bench.config.n_layer;
    w.F = json_num(lived, "forward") + arithmetic;
    w.B = json_num(lived, "loss") + json_num(lived, "backward") + json_num(lived, "gradient");
    w.h = json_num(lived, "head");
    forward = json_num(lived, "seconds") - step_time(&w, share).backward;
    w.update.drive = (forward - w.last - w.wire_forward.drive * share.all) /
                     (share.all + w.load.drive / modelled * (share.block_0 - share.all));
    w.first.drive *= w.update.drive / modelled;
    w.second.drive *= w.update.drive / modelled;
    w.load.drive *= w.update.drive / modelled;
    json_decref(lived);
    return w;
}

/* The drive's times of one device with the links' of n. */
static struct step_work work_of(const struct step_work *one, const struct step_work *n)
{
    struct step_work w = *one;
    const struct { struct step_move *to; const struct step_move *links; } moves[] = {
        { &w.update, &n->update }, { &w.first, &n->first }, { &w.load, &n->load },
        { &w.second, &n->second }, { &w.tail, &n->tail },
        { &w.wire_forward, &n->wire_forward }, { &w.wire_backward, &n->wire_backward },
        { &w.gradient, &n->gradient }, { &w.write_0, &n->write_0 },
    };

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        moves[i].to->up = moves[i].links->up;
        moves[i].to->down = moves[i].links->down;
    }
    return w;
}

/* What a phase waits for. */
static const char *bound_by(const struct step_move *m, double share, double computing)
{
    double drive = m->drive * share, most = fmax(drive, fmax(m->up, m->down));

    return computing >= most ? "computing" : drive >= most ? "drives" : "link";
}

static void row_add(json_t *rows, const struct step_work *w, struct step_share share, size_t n,
                    const json_t *steps)
{
    struct step_time t = step_time(w, share);
    struct step_move ahead = step_move_sum(&w->update, &w->wire_forward),
                     behind = step_move_sum(&w->wire_backward, &w->gradient);
    double           seconds[BENCH_MOST_ROUNDS * BENCH_MOST_STEPS];
    size_t           m = json_array_size(steps);

    for (size_t i = 0; i < m; i++)
        seconds[i] = json_num(json_array_get(steps, i), "seconds");
    double median = bench_median(seconds, m);
    double base = json_num(json_array_get(rows, 0), "seconds");
    json_array_append_new(
        rows, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "devices",
                        (json_int_t)n, "predicted", t.step, "seconds", median, "least", seconds[0],
                        "most", seconds[m - 1], "difference", t.step / median - 1, "speedup",
                        n > 1 ? base / median : 1.0, "forward", t.forward, "backward", t.backward,
                        "forward_by", bound_by(&ahead, share.all, w->F), "backward_by",
                        bound_by(&behind, share.all, w->B)));
    json_object_set(json_array_get(rows, n - 1), "steps", (json_t *)(uintptr_t)steps);
}

/* B_link / B_drive: from so many devices on the links are what a move waits for; 0: from none. */
static double fills(const struct step_move *m)
{
    double link = fmax(m->up, m->down);

    return link > 0 && m->drive > 0 ? m->drive / link : 0;
}

static void figures_add(json_t *section, const struct step_work *w, double arithmetic)
{
    struct step_move wire = step_move_sum(&w->wire_forward, &w->wire_backward);

    json_object_set_new(
        section, "one",
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "F", w->F - arithmetic, "B", w->B, "h",
                  w->h, "A", arithmetic, "T_opt", w->update.drive, "T_swap", wire.drive, "T_grad",
                  w->gradient.drive));
    json_object_set_new(section, "saturation",
                        json_pack("{s:f, s:f, s:f}", "T_opt", fills(&w->update), "T_swap",
                                  fills(&wire), "T_grad", fills(&w->gradient)));
    bench_put(json_object_get(section, "one"), "u0", w->first.drive);
}

/* ---- the section ---- */

/* A place for each number of devices, to be freed also after a failure. */
static int places_plan(struct place **all, const struct bench *b, struct err *err)
{
    size_t n = b->o->train.devices;
    int    rc = 0;

    *all = calloc(n, sizeof **all);
    if (!*all)
        return err_set(err, -ENOMEM, "out of memory for %zu runs", n);
    for (size_t i = 0; i < n && !rc; i++)
        rc = place_plan(*all + i, b, i + 1, err);
    return rc;
}

/* Does the link need longer for a move than the drive of one device? */
static int link_is_slower(const struct step_move *m, double share)
{
    return fmax(m->up, m->down) > m->drive * share;
}

static int place_check(const struct place *one, struct err *err)
{
    const struct step_work *w = &one->work;
    double                  share = one->share.all; // above 1: padding

    if (!(w->update.drive > 0) || !(w->gradient.drive > 0))
        return err_misuse(err, "the drives have no modelled speed: --csd-read-bw and "
                               "--csd-write-bw, or --topology, say it");
    if (link_is_slower(&w->update, share) || link_is_slower(&w->wire_forward, share) ||
        link_is_slower(&w->gradient, share))
        return err_misuse(err, "the modelled links are slower than one drive, and from what one "
                               "drive takes the rest is predicted: a faster --link-bw is expected");
    return 0;
}

static int scaling_check(const struct bench *b, struct err *err)
{
    struct place *all = NULL;

    if (b->o->train.mode == RUN_MEM)
        return err_misuse(err, "--mode mem has no devices; base, su, su+o and su+o+c scale with "
                               "theirs");
    int rc = places_plan(&all, b, err);
    rc = rc ? rc : place_check(all, err);
    free(all);
    return rc;
}

/* Devices compute on the cores that the model computes on. */
static void computing_note(json_t *section, const json_t *rows, const struct step_work *w)
{
    size_t n = json_array_size(rows);
    double step = json_num(json_array_get(rows, n - 1), "predicted"), part = (w->F + w->B) / step;
    char   text[256];

    bench_put(section, "computing_share", part);
    snprintf(text, sizeof text, "computing takes %.0f ms of the %.0f that a step on %zu devices "
             "takes: this machine is too slow, or too busy, to model so many; slower drives and "
             "links (all by the same factor) make it a smaller part",
             1e3 * (w->F + w->B), 1e3 * step, n);
    if (part > LARGE_PART)
        json_object_set_new(section, "note", json_string(text));
}

static int predict_and_measure(struct bench *b, json_t *section, struct place *all, size_t n,
                               json_t **steps, struct err *err)
{
    double  arithmetic = 0;
    json_t *rows = json_array();

    json_object_set_new(section, "rows", rows);
    int rc = disk_check(b, section, drives_rate(all, n, b), err);
    rc = rc ? rc : bench_update_arithmetic(&all->bench, &arithmetic, err);
    rc = rc ? rc : measure(all, n, steps, err);
    if (rc)
        return rc;
    arithmetic *= (double)arch_total(&b->config) / (double)b->o->train.threads;
    struct step_work one = work_of_one(all, steps[0], arithmetic);
    if (one.F + one.B > one.update.drive)
        return err_set(err, -ENOTSUP, "computing takes %.3f s of a step on one device, more than "
                       "updates: T_opt cannot be told from it. Slower drives (--csd-read-bw, "
                       "--csd-write-bw), or fewer tokens a step, would do", one.F + one.B);
    for (size_t i = 0; i < n; i++) {
        struct step_work w = work_of(&one, &all[i].work);

        row_add(rows, &w, all[i].share, i + 1, steps[i]);
    }
    figures_add(section, &one, arithmetic);
    computing_note(section, rows, &one);
    return 0;
}

static int scaling_run(struct bench *b, json_t *section, struct err *err)
{
    const struct train_opts *o = &b->o->train;
    int           sparse = o->compress > 0 && o->mode == RUN_SUO;
    size_t        n = o->devices;
    struct place *all = NULL;
    json_t      **steps = calloc(n, sizeof *steps);
    int           rc = steps ? places_plan(&all, b, err) : err_set(err, -ENOMEM, "out of memory");

    json_object_set_new(section, "mode",
                        json_string(train_mode_name(sparse ? TRAIN_SU_O_C : (size_t)o->mode)));
    for (size_t i = 0; i < n && steps; i++)
        steps[i] = json_array();
    rc = rc ? rc : predict_and_measure(b, section, all, n, steps, err);
    for (size_t i = 0; i < n && steps; i++)
        json_decref(steps[i]);
    free(steps);
    free(all);
    return rc;
}

/* ---- printing ---- */

static void saturation_print(const json_t *section)
{
    static const struct { const char *key, *what; } moves[] = {
        { "T_opt", "updates" }, { "T_swap", "reads of parameters" },
        { "T_grad", "writes of gradients" } };
    const json_t *saturation = json_object_get(section, "saturation");
    int           any = 0;

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        double n = json_num(saturation, moves[i].key);

        if (n > 0)
            printf("%s %s from %.1f devices on", any++ ? "," : "=> the links are full of",
                   moves[i].what, n);
    }
    printf("%s\n", any ? "" : "=> no link is shared: nothing is saturated");
}

static void scaling_print(const json_t *section)
{
    static const struct bench_column columns[] = {
        {"devices", "devices", "%.0f", 1}, {"predicted", "predicted", "%.3f", 1},
        {"seconds", "measured", "%.3f", 1}, {"difference", "difference", "%+.1f %%", 100},
        {"least", "least", "%.3f", 1}, {"most", "most", "%.3f", 1},
        {"speedup", "speed-up", "%.2f", 1}, {"forward_by", "update and forward", NULL, 0},
        {"backward_by", "backward", NULL, 0}, {0}};
    const json_t *one = json_object_get(section, "one"), *disk = json_object_get(section, "disk"),
                 *rows = json_object_get(section, "rows");
    double        worst = 0;
    json_t       *row;
    size_t        i;

    printf("Steps of mode %s on modelled devices, seconds\n", json_str(section, "mode"));
    bench_table(rows, columns, NULL);
    printf("\n  of one device: T_opt %.3f s, T_swap %.3f s, T_grad %.3f s, u0 %.3f s; computing F "
           "%.3f s, B %.3f s, A %.3f s\n", json_num(one, "T_opt"), json_num(one, "T_swap"),
           json_num(one, "T_grad"), json_num(one, "u0"), json_num(one, "F"), json_num(one, "B"),
           json_num(one, "A"));
    printf("  the disk beneath moves %.0f MB/s, %.1f times what all modelled drives move\n",
           1e-6 * json_num(disk, "bytes_per_second"), json_num(disk, "room"));
    if (*json_str(section, "note"))
        printf("  %s\n", json_str(section, "note"));
    json_array_foreach(rows, i, row)
        worst = fmax(worst, i ? fabs(json_num(row, "difference")) : 0);
    saturation_print(section);
    printf("=> predicted from one device: at most %.1f %% off\n", 100 * worst);
}

const struct bench_section bench_scaling = {
    .name = "scaling", .run = scaling_run, .print = scaling_print, .check = scaling_check,
    .defaults = defaults, .plot = bench_plot_scaling};
