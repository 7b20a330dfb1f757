/* forecast.c: predicts a step's seconds of computing and moving on a machine. */
#include "plan/forecast.h"

#include "model/lora/packed.h"
#include "plan/forecast_acts.h"
#include "plan/snapshots_plan.h"
#include "run/folder/spares.h"

#include <math.h>

/* Bytes that a pass moves for each token and unit of width. Embeddings are read in the run's dtype
 * and written in fp32. Backward reads a gradient and adds it to those of both tables. Error
 * feedback adds the residual to a gradient. */
enum { EMBED_WRITTEN = 4, EMBED_BACKWARD = 20, FEEDBACK = 12 };

/* ---- computing ---- */

static double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

static struct machine_work work_of(const struct session *s)
{
    const struct train_opts *o = &s->o;
    struct machine_work      w = machine_work_of(&s->config, (enum dtype)o->dtype, o->seq);

    w.words = (double)s->config.vocab;
    w.tokens = (double)(o->batch * o->seq);
    w.threads = (double)o->threads;
    return w;
}

/* This rank's part of what all ranks do together. */
static double part_of(const struct session *s, double all)
{
    return s->ranks.size > 1 ? all / (double)s->ranks.size : all;
}

/* Seconds to unpack a layer of a packed base. Every pass does so once, whatever its micro-batches.
 * bf16 is widened: 2 bytes are read and 4 written. */
static double unpack_of(const struct session *s, const struct machine_file *m)
{
    const struct model_config *g = &s->config;
    double n = (double)arch_products(g), threads = machine_threads(m, (double)s->o.threads);

    if (!packed_is(g, arch_layer_block(g, 1), (enum dtype)s->o.dtype))
        return 0;
    switch ((enum quant)g->lora.base) {
    case QUANT_INT8: return over(n, m->unpack_int8) * threads;
    case QUANT_NF4:  return over(n, m->unpack_nf4) * threads;
    default:         return over(6 * n, m->memory);
    }
}

/* Predicts computing without recomputation. */
static void compute(struct forecast *f, struct step_work *w, const struct session *s,
                    const struct machine_file *m)
{
    const struct model_config  *g = &s->config;
    const struct train_opts  *o = &s->o;
    const struct machine_work of = work_of(s);
    struct machine_work       asked = of;
    double micros = part_of(s, (double)o->grad_accum), L = (double)g->n_layer,
           n = part_of(s, (double)run_trained(&s->run));
    double rows = micros * of.tokens * of.width;
    double unpack = unpack_of(s, m),
           forward = unpack + micros * machine_layer(m, &of, MACHINE_FORWARD),
           backward = unpack + micros * machine_layer(m, &of, MACHINE_BACKWARD);

    asked.tokens *= train_opts_asked(o, g);
    f->head = arch_classifies(g) ? 0 : micros * machine_head(m, &asked);
    if (arch_pieces(g) > 1 || s->rows == SESSION_PAIRS) // logits are computed twice
        f->head *= (of.head_products + 1) / of.head_products;
    f->norm = over(n, m->norm);
    if (o->compress > 0)
        f->norm += over(n, m->topk) + (o->error_feedback ? over(FEEDBACK * n, m->memory) : 0);
    w->last = forward;
    w->F = L * forward + over(rows * (2 * (double)dtype_bytes(of.dt) + EMBED_WRITTEN), m->memory);
    w->B = f->head + L * backward + f->norm;
    if (arch_trains(g, 0))
        w->B += over(rows * EMBED_BACKWARD, m->memory);
    w->h = f->head + backward + f->norm / L;
}

/* Predicts recomputation and offloading, and sets both in s->run. */
static int compute_acts(struct forecast *f, struct step_work *w, struct session *s,
                        const struct budget *plan, const struct forecast_step_so_far *so_far,
                        struct err *err)
{
    struct forecast_acts acts;
    int                  rc = forecast_acts(&acts, s, plan, so_far, err);

    if (rc)
        return rc;
    w->B += acts.again;
    w->h += acts.last;
    f->F = w->F;
    f->B = w->B;
    f->placement = acts.placement;
    f->offloads = plan->record_buffers > 0;
    f->whole = acts.whole;
    f->acts_written = s->run.acts.written;
    f->acts_read = s->run.acts.read;
    f->kept = acts.placement.of[ACTS_MLP].kept;
    return 0;
}

/* Times of the papers' systems, where the head's products are no part of backward, and layers are
 * recomputed as a whole. */
static void compute_serial(struct step_serial *serial, const struct forecast *f,
                           const struct session *s, const struct budget *plan)
{
    double layers = f->F, L = (double)s->config.n_layer;
    double again = plan->record_buffers ? 0 : (L - (double)f->kept) * layers / L;

    serial->F = f->F + f->head / 3;
    serial->B = 2 * serial->F + again;
}

/* ---- what limits the step ---- */

static void pace(struct forecast *f, const struct step_work *w, const struct step_rates *r,
                 double parameters)
{
    static const enum forecast_by of[STEP_RESOURCES] = {
        [STEP_COMPUTING] = FORECAST_COMPUTING, [STEP_DRIVES] = FORECAST_DRIVES,
        [STEP_UP] = FORECAST_UP, [STEP_DOWN] = FORECAST_DOWN, [STEP_HOST] = FORECAST_UPDATES,
        [STEP_NETWORK] = FORECAST_NETWORK, [STEP_FILES] = FORECAST_FILES };
    double           seconds[FORECAST_UPDATES + 1] = { 0 };
    enum forecast_by forward = of[f->own.forward_by];

    // a device's arithmetic takes longer than its drive
    if (forward == FORECAST_DRIVES && r->engine > 0 &&
        parameters / r->engine >= 0.999 * w->update.drive)
        forward = FORECAST_UPDATES;
    seconds[forward] += f->own.forward;
    seconds[of[f->own.backward_by]] += f->own.backward;
    for (enum forecast_by i = 0; i <= FORECAST_UPDATES; i++)
        if (seconds[i] > f->by_seconds) {
            f->by = i;
            f->by_seconds = seconds[i];
        }
}

/* ---- the whole ---- */

void forecast_session(struct session *out, const struct session *from)
{
    *out = (struct session){ .config = from->config, .rows = from->rows, .o = from->o,
                              .spares = from->spares, .ranks = from->ranks };
    snprintf(out->dir, sizeof out->dir, "%s", from->dir);
}

static void mode_set(struct session *s, const struct session *from, int mode, double compress)
{
    forecast_session(s, from);
    s->base = from->base;
    s->o.mode = mode;
    s->o.compress = compress;
    s->o.error_feedback = from->o.error_feedback && compress > 0;
    s->o.speculate = from->o.speculate && mode != RUN_SU && mode != RUN_MEM;
}

static int beside_snapshots(struct forecast *f, const struct step_work *w, const struct session *s,
                            const struct forecast_step_so_far *so_far, struct step_share share,
                            struct err *err)
{
    struct snapshots_plan p;
    struct step_beside    b = { .evenly = s->o.snapshot_bw > 0, .speculates = s->o.speculate };
    int                   rc = snapshots_plan(&p, s, err);

    if (rc || !p.every)
        return rc;
    struct step_bytes bytes = snapshots_plan_bytes(&p, s);
    rc = step_work_other(&b.extra, &s->run, so_far->t, so_far->rates, &bytes, err);
    if (rc)
        return rc;
    b.every = (double)p.every;
    // behind its time, a snapshot is copied at full speed, and training waits
    b.evenly &= snapshots_plan_seconds(&p, s) <= b.every * f->own.step;
    b.extra = step_move_times(&b.extra, 1 / b.every);
    f->beside = step_time_beside(w, share, &b);
    return 0;
}

/* The same in RAM. The drive of RUN copies images while it writes none. */
static int beside_snapshots_mem(struct forecast *f, const struct session *s,
                                const struct machine_file *m, struct err *err)
{
    struct snapshots_plan p;
    int                   rc = snapshots_plan(&p, s, err);

    if (rc || !p.every || !m->n_drives)
        return rc;
    const uint64_t *moved = p.moved.bytes[LINK_FILES][CLASS_SNAPSHOT];
    double seconds = step_drive_seconds(&m->drive[0], (double)moved[LINK_READ],
                                        (double)moved[LINK_WRITE]) / (double)p.every;
    f->beside = fmax(f->own.step, f->image + seconds);
    return 0;
}

/* Predicts a run in RAM: the update follows backward, and each --commit-every steps an image is
 * written. */
static int forecast_mem(struct forecast *f, struct step_work *w, struct session *s,
                        const struct budget *plan, const struct machine_file *m, struct err *err)
{
    const struct machine_work         of = work_of(s);
    const struct forecast_step_so_far so_far = { .m = m, .of = &of, .w = w };
    struct run_memory                 memory;
    int                               rc = compute_acts(f, w, s, plan, &so_far, err);

    rc = rc ? rc : run_memory(&s->run, &memory, err);

    if (rc)
        return rc;
    f->host_update = over((double)run_trained(&s->run), m->update.host);
    if (m->n_drives)
        f->image = (double)memory.image / (double)s->o.commit_every / m->drive->write;
    f->own = (struct step_time){ .forward = f->F, .backward = f->B,
                                 .step = f->F + f->B + f->host_update + f->image };
    f->by_seconds = f->own.step - f->image;
    return beside_snapshots_mem(f, s, m, err);
}

/* Gives each device its part of a drive, and each --act-device a drive. */
static struct step_drive *drives_of(const struct forecast_machine *m, size_t n, size_t others)
{
    const struct machine_file *file = m->m;
    struct step_drive *d = file->n_drives ? calloc(n + others, sizeof *d) : NULL;
    double             part = m->sharers > 1 ? 1 / (double)m->sharers : 1;

    for (size_t i = 0; i < n && d; i++) {
        const struct step_drive *of = &file->drive[i < file->n_drives ? i : file->n_drives - 1];

        d[i] = (struct step_drive){ of->read * part, of->write * part, of->mixed * part };
    }
    for (size_t i = 0; i < others && d; i++)
        d[n + i] = file->drive[file->n_drives - 1];
    return d;
}

static int forecast_devices(struct forecast *f, struct step_work *w, struct session *s,
                            const struct budget *plan, const struct forecast_machine *m,
                            struct err *err)
{
    struct topology_config links = train_opts_links(&s->o);
    struct step_serial      serial = { 0 };
    struct topology       *t = NULL;
    struct step_rates      rates = m->m->update;
    struct step_drive     *drives = drives_of(m, s->run.n_devices, s->run.n_act_devices);
    struct step_share      share;
    double                 n = part_of(s, (double)run_trained(&s->run));

    rates.drive = drives;
    rates.cores = m->m->emulated > 0 ? (double)s->o.threads : 0;
    if (s->run.csd->flags & CSD_FAKE) // devices that answer at once
        rates = (struct step_rates){ 0 };
    rates.network = m->network;
    rates.latency = m->latency;
    rates.files = m->m->n_drives ? m->m->drive[0].read : 0; // on the first drive, or one like it
    int rc = m->m->n_drives && !drives ? err_set(err, -ENOMEM, "out of memory") : 0;
    rc = rc ? rc : topology_open(&t, &links, s->run.n_devices, err);
    rates.files_beside = m->base_beside && drives && !t; // a modelled drive is not the file's
    const struct machine_work         of = work_of(s);
    const struct forecast_step_so_far so_far = { m->m, &of, w, t, &rates, f->first };
    rc = rc ? rc : compute_acts(f, w, s, plan, &so_far, err);
    rc = rc ? rc : step_work_moves(w, &s->run, t, &rates, err);
    rc = rc ? rc : step_work_serial(&serial, &s->run, t, &rates, err);
    rc = rc ? rc : step_work_share(&share, &s->run, err);
    if (!rc && !(w->gradient.drive > 0) && !(s->run.csd->flags & CSD_FAKE))
        rc = err_misuse(err, "--machine: the drives have no speed; --topology FILE says it, or "
                             "--csd-read-bw and --csd-write-bw, or the machine's own drive lines");
    if (!rc) {
        struct step_move wire = step_move_sum(&w->wire_forward, &w->wire_backward);

        compute_serial(&serial, f, s, plan);
        f->own = s->o.speculate ? step_time_speculating(w, share) : step_time(w, share);
        f->serial = step_time_serial(&serial, share.all);
        f->update = step_move(&w->update, share.all);
        f->gradient = step_move(&w->gradient, share.all);
        f->wire = step_move(&wire, share.all);
        f->network = fmax(wire.in + w->gradient.in, wire.out + w->gradient.out);
        pace(f, w, &rates, n);
        rc = beside_snapshots(f, w, s, &so_far, share, err);
    }
    topology_close(t);
    free(drives);
    return rc;
}

static int forecast_once(struct forecast *out, const struct session *from, int mode,
                         double compress, const struct forecast_machine *m, struct err *err)
{
    struct step_work w = { 0 };
    struct session   s;
    struct budget    plan;

    if (!machine_has(m->m, (enum dtype)from->o.dtype))
        return err_misuse(err, "--machine: there are no figures of %s in it; siTrain bench --save "
                               "measures them", dtype_name((size_t)from->o.dtype));
    if (!machine_has_kind(m->m, (enum dtype)from->o.dtype, machine_kind_of(from->config.arch)))
        return err_misuse(err, "--machine: there are no figures of layers like %s's in %s in it; "
                               "siTrain bench --save measures them", from->config.arch->title,
                          dtype_name((size_t)from->o.dtype));
    mode_set(&s, from, mode, compress);
    int rc = session_config(&s, err);
    rc = rc ? rc : training_plan(&plan, &s, 0, err);
    if (!rc) {
        compute(out, &w, &s, m->m);
        rc = mode == RUN_MEM ? forecast_mem(out, &w, &s, &plan, m->m, err)
                             : forecast_devices(out, &w, &s, &plan, m, err);
    }
    s.base = NULL; // it is the other's
    session_close(&s);
    return rc;
}

int forecast_step(struct forecast *out, const struct session *from, int mode, double compress,
                  const struct forecast_machine *m, struct err *err)
{
    struct forecast first = { .first = 1 };

    *out = (struct forecast){ 0 };
    int rc = forecast_once(out, from, mode, compress, m, err);
    // a choice that turns out slower than the first is taken back
    if (rc || !out->offloads || train_activations[from->o.activations].adapts != ADAPT_BEST)
        return rc;
    rc = forecast_once(&first, from, mode, compress, m, err);
    if (!rc && first.own.step < out->own.step)
        *out = first;
    return rc;
}

int forecast_fits(const struct session *from, uint64_t disk)
{
    struct session    s;
    struct budget     plan;
    struct run_memory memory = { 0 };
    struct err        refusal = { 0 };

    mode_set(&s, from, from->o.mode, from->o.compress);
    int rc = arch_check(&s.config, &refusal);
    rc = rc ? rc : session_config(&s, &refusal);
    rc = rc ? rc : training_plan(&plan, &s, 0, &refusal);
    rc = rc ? rc : run_memory(&s.run, &memory, &refusal);
    uint64_t least = memory.device_bytes;
    if (!rc && least > disk && s.o.spare_slots == TRAIN_SPARES_AUTO && s.o.mode != RUN_MEM)
        rc = spares_bytes(&least, &s, RUN_SPARES_FEW, &refusal);
    s.base = NULL;
    session_close(&s);
    return !rc && least <= disk;
}
