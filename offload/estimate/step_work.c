/* step_work.c: computes from a run's bytes how many seconds its drives and links need for a
 * step. */
#include "offload/estimate/step_work.h"

#include "offload/estimate/traffic.h"
#include "offload/layout/store.h"

#include <math.h>

/* Bytes of one move: to memory (read), from memory (write), and the kind of link that they use.
 * computed: bytes that accelerators read or compute. files: bytes that the first drive reads in
 * addition, over no link. */
struct bytes { double read, write; int internal, computed; double files; };

/* ---- shares ---- */

/* Parameters of some blocks with padding: the most on one device, and the sum. */
struct padded { double most, sum; };

static struct padded padded_of(const struct store *st, struct route_span of)
{
    struct padded p = { 0 };

    for (size_t d = 0; d < st->n_devices; d++) {
        double has = 0;

        for (size_t i = st->block_sub[of.first]; i < st->block_sub[of.end]; i++)
            has += st->subs[i].device == d ? (double)st->subs[i].n_pad : 0;
        p.most = fmax(p.most, has);
        p.sum += has;
    }
    return p;
}

static struct route_span all_blocks(const struct run_config *cfg)
{
    return (struct route_span){ 0, run_blocks(cfg) };
}

static double params_in(const size_t *params, struct route_span of)
{
    double sum = 0;

    for (size_t b = of.first; b < of.end; b++)
        sum += (double)params[b];
    return sum;
}

/* Parameters of some blocks, and of all, on the devices. */
static double params_of(const struct run_config *cfg, struct route_span of)
{
    return params_in(run_held(cfg), of);
}

static double parameters(const struct run_config *cfg) { return params_of(cfg, all_blocks(cfg)); }

/* Those of them that are trained, and so are updated. */
static double trained_of(const struct run_config *cfg, struct route_span of)
{
    double sum = 0;

    for (size_t b = of.first; b < of.end; b++)
        sum += run_trains(cfg, b) ? (double)cfg->block_params[b] : 0;
    return sum;
}

static double trained(const struct run_config *cfg) { return trained_of(cfg, all_blocks(cfg)); }

/* Parameters that are updated before forward may begin with its first layer, and those of the next
 * block that is updated. */
static double params_first(const struct run_config *cfg)
{
    return trained_of(cfg, route_first(&cfg->route));
}

static double params_second(const struct run_config *cfg)
{
    size_t b = route_first(&cfg->route).end;

    while (b < run_blocks(cfg) && !run_trains(cfg, b))
        b++;
    return b < run_blocks(cfg) ? (double)cfg->block_params[b] : 0;
}

/* Parameters of the block whose gradient is written last, with which the norm is known. Where it
 * is in pieces, all of them. */
static double params_sent_last(const struct run_config *cfg)
{
    double first = params_first(cfg);

    return first > 0 ? first : (double)cfg->block_params[route_last(&cfg->route)];
}

/* The part that x is of a whole, which may be nothing. */
static double part(double x, double whole) { return whole > 0 ? x / whole : 0; }

/* *padding: by what factor all devices together move more than the parameters. */
static int shares(struct step_share *out, double *padding, const struct run_config *cfg,
                  struct err *err)
{
    struct route_span first = route_first(&cfg->route);
    struct store      st;
    int               rc = store_init(&st, cfg, err);

    if (rc)
        return rc;
    struct padded all = padded_of(&st, all_blocks(cfg));
    *padding = all.sum / parameters(cfg);
    *out = (struct step_share){ .all = all.most / parameters(cfg),
                                .block_0 = part(padded_of(&st, first).most,
                                                params_of(cfg, first)) };
    store_release(&st);
    return 0;
}

int step_work_share(struct step_share *out, const struct run_config *cfg, struct err *err)
{
    return shares(out, &(double){ 0 }, cfg, err);
}

/* Parameters of the last layer, which is updated after nearly all others. Where layers are frozen:
 * of the last block that trains. */
static double params_last(const struct run_config *cfg)
{
    struct route_span layers = route_shared(&cfg->route);
    size_t            b = layers.end;

    if (layers.end > layers.first && !run_trains(cfg, layers.end - 1))
        for (b = run_blocks(cfg); b > 0 && !run_trains(cfg, b - 1);)
            b--;
    return layers.end > layers.first && b > 0 ? (double)cfg->block_params[b - 1] : 0;
}

/* ---- seconds ---- */

double step_drive_seconds(const struct step_drive *d, double read, double write)
{
    double r = d->read > 0 ? 1 / d->read : 0, w = d->write > 0 ? 1 / d->write : 0, part = 1;

    if (d->mixed > 0 && r > 0 && w > 0)
        part = fmax(0, 30 / d->mixed - fmax(16 * r, 14 * w)) / fmin(16 * r, 14 * w);
    return fmax(read * r, write * w) + part * fmin(read * r, write * w);
}

struct machine {
    const struct topology   *t;
    const struct step_drive *drive; // (n) measured; NULL: none
    size_t                   first, n;
    double                   padding;
    struct step_share        share; // the busiest one's
    double (*busy)[LINK_DIRS]; // (links): seconds of one move
};

/* Seconds that the slowest drive needs for its bytes, also through its accelerator's own link. */
static double drive_seconds(const struct machine *m, const struct bytes *b)
{
    double most = 0;

    for (size_t i = 0; i < m->n && m->drive; i++)
        most = fmax(most, step_drive_seconds(&m->drive[i], b->read + (i ? 0 : b->files),
                                             b->write));
    for (size_t i = 0; i < m->n && m->t; i++) {
        const struct link_ends *e = topology_ends(m->t, m->first + i);
        double seconds = 0, way[LINK_DIRS] = { 0 };

        for (int i_dir = 0; i_dir < LINK_DIRS; i_dir++) {
            enum link_dir dir = (enum link_dir)i_dir;
            double bytes = dir == LINK_READ ? b->read : b->write, rate = link_rate(e->drive, dir);
            // what the drive reads goes down to the accelerator
            double own = e->engine && e->engine != link_above(e->drive)
                             ? link_rate(e->engine, dir == LINK_READ ? LINK_WRITE : LINK_READ) : 0;

            seconds += rate > 0 ? bytes / rate : 0;
            way[dir] = b->internal && own > 0 ? bytes / own : 0;
        }
        most = fmax(most, fmax(seconds, fmax(way[LINK_READ], way[LINK_WRITE])));
    }
    return most;
}

static struct step_move move_of(const struct machine *m, const struct bytes *b)
{
    struct topology_load load = { .up = b->read * m->padding, .down = b->write * m->padding,
                                  .computed = b->computed, .first = m->first };
    struct step_move     move = { .drive = drive_seconds(m, b) };

    for (size_t i = 0; i < topology_links(m->t); i++)
        m->busy[i][LINK_READ] = m->busy[i][LINK_WRITE] = 0;
    if (!b->internal)
        topology_load(m->busy, m->t, m->n, &load);
    for (size_t i = 0; i < topology_links(m->t); i++) {
        move.up = fmax(move.up, m->busy[i][LINK_READ]);
        move.down = fmax(move.down, m->busy[i][LINK_WRITE]);
    }
    return move;
}

/* Adds the activations that drives of their own move, at their modelled speed. Their time counts if
 * it is longer than that of the devices, each of which has about an equal share. */
static void acts_add(struct step_move *to, const struct machine *devices,
                     const struct run_config *cfg, const struct bytes *b)
{
    const struct machine m = { .t = devices->t, .first = devices->n, .n = cfg->n_act_devices,
                               .padding = 1, .busy = devices->busy };
    struct step_move     a = move_of(&m, b);

    to->up += a.up;
    to->down += a.down;
    to->drive = fmax(to->drive, a.drive / (double)m.n * (double)devices->n);
}

/* m->busy is the caller's to free. */
static int machine_open(struct machine *m, const struct run_config *cfg, const struct topology *t,
                        const struct step_rates *rates, struct err *err)
{
    *m = (struct machine){ .t = t, .drive = rates->drive, .n = cfg->n_devices,
                           .busy = calloc(topology_links(t) + 1, sizeof *m->busy) };
    int rc = m->busy ? shares(&m->share, &m->padding, cfg, err)
                     : err_set(err, -ENOMEM, "out of memory");

    if (rc) {
        free(m->busy);
        m->busy = NULL;
    }
    return rc;
}

/* ---- siTrain's own step ---- */

/* Adds an update's arithmetic. Devices compute while they move bytes, or after it (su). Emulated
 * ones use the host's cores, one per device at most. */
static void update_compute(struct step_move *m, const struct run_config *cfg, double n,
                           const struct step_rates *r)
{
    if (r->cores > 0 && r->engine > 0)
        m->host += n / r->engine / r->cores;
    if (cfg->mode == RUN_BASE && r->cores > 0 && r->engine > 0)
        m->drive = fmax(m->drive, n / r->engine);
    else if (cfg->mode == RUN_BASE && r->host > 0)
        m->host += n / r->host;
    else if (cfg->mode == RUN_SU && r->engine > 0)
        m->drive += n / r->engine;
    else if (cfg->mode == RUN_SUO && r->engine > 0)
        m->drive = fmax(m->drive, n / r->engine);
}

/* The time that updates take from forward: all but those of blocks 0 and 1 run at the same time. It
 * is more than their share of all cores, probably because an update stops one thread of several,
 * and the others wait for it (docs/lab/scaling-model.md). */
static double update_beside(const struct run_config *cfg, double n, const struct step_rates *r)
{
    double rate = r->engine * r->cores;

    n -= params_first(cfg) + params_second(cfg);
    if (r->beside > 0)
        rate = fmin(rate, r->beside);
    return rate > 0 ? n / rate : 0;
}

/* ---- between ranks ---- */

/* Adds bytes that come to this rank and leave it, in so many transfers one after the other. */
static void network_add(struct step_move *to, const struct step_rates *r, double in, double out,
                        double transfers)
{
    if (!(r->network > 0))
        return;
    to->in += in / r->network + transfers * r->latency;
    to->out += out / r->network + transfers * r->latency;
}

/* Adds the moves between ranks. Gathers follow what is read; exchanges follow blocks that train.
 * Block 0 stands for what forward waits for and for what backward does last. */
static void network_moves(struct step_work *out, const struct run_config *cfg,
                          const struct link_meter *all, const struct step_rates *r,
                          double part_forward)
{
    const uint64_t(*net)[LINK_DIRS] = all->bytes[LINK_NETWORK];
    double blocks = (double)run_blocks(cfg),
           sends = (double)route_uses(&cfg->route, STREAM_TRAIN, ROUTE_SEND);
    double read_0 = part(params_in(cfg->block_params, route_first(&cfg->route)),
                         params_in(cfg->block_params, all_blocks(cfg))),
           sent_0 = part(params_sent_last(cfg), trained(cfg));
    double came = (double)net[CLASS_WIRE][LINK_READ], went = (double)net[CLASS_WIRE][LINK_WRITE];
    double taken = (double)net[CLASS_GRADIENT][LINK_READ],
           given = (double)net[CLASS_GRADIENT][LINK_WRITE];
    struct step_move gather = { 0 }, exchange = { 0 };

    if (cfg->ranks.size < 2)
        return;
    network_add(&out->wire_forward, r, came * part_forward, went * part_forward, blocks);
    network_add(&out->wire_backward, r, came * (1 - part_forward), went * (1 - part_forward),
                blocks);
    network_add(&out->gradient, r, taken, given, sends);
    network_add(&gather, r, came * part_forward * read_0, went * part_forward * read_0, 1);
    network_add(&exchange, r, taken * sent_0, given * sent_0, 1);
    out->gather_0 = step_move(&gather, 1);
    out->exchange_0 = step_move(&exchange, 1);
}

/* ---- a base in place ---- */

/* Bytes of the base's files: of all blocks once, as forward reads them, and of a whole step. */
struct base_reads { double once, all; };

static struct base_reads base_reads(const struct run_config *cfg, const struct link_meter *all)
{
    struct base_reads r = { .all = (double)all->bytes[LINK_FILES][CLASS_BASE][LINK_READ] };

    for (size_t b = 0; cfg->base_end && b < run_blocks(cfg); b++)
        r.once += (double)cfg->base_bytes[b];
    return r;
}

/* What such bytes are in struct bytes, if they lie on a device's drive: there they are mixed with
 * activations that are written. The first device has a part of the drive's rate if others share
 * it; its seconds are later multiplied by the busiest one's share. */
static double beside_bytes(const struct machine *m, const struct step_rates *r, double bytes)
{
    return r->files_beside && r->files > 0 && m->drive
               ? bytes * m->drive[0].read / r->files / m->share.all : 0;
}

/* Adds the reads of files on a drive of their own. */
static void files_moves(struct step_work *out, const struct step_rates *r,
                        const struct base_reads *base)
{
    if (r->files_beside || !(r->files > 0))
        return;
    out->wire_forward.files += base->once / r->files;
    out->wire_backward.files += (base->all - base->once) / r->files;
}

int step_work_moves(struct step_work *out, const struct run_config *cfg, const struct topology *t,
                    const struct step_rates *rates, struct err *err)
{
    enum link_kind    kind = run_modes[cfg->mode].update_link;
    struct machine    m;
    struct link_meter all;
    int               rc = machine_open(&m, cfg, t, rates, err);
    double n = trained(cfg), n_0 = params_first(cfg), n_1 = params_second(cfg);
    double part_0 = part(n_0, n), part_1 = part(n_1, n);

    traffic_computed(&all, cfg);
    const struct base_reads base = base_reads(cfg, &all);
    double states = (double)all.bytes[kind][CLASS_STATES][LINK_READ];
    double gradient = (double)all.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE];
    double made = (double)all.bytes[kind][CLASS_WIRE][LINK_WRITE];
    double wire = (double)all.bytes[LINK_HOST][CLASS_WIRE][LINK_READ];
    double once = (double)dtype_bytes(cfg->wire_dt) * parameters(cfg); // as forward reads it
    double pushed = (double)all.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_WRITE];
    double popped = (double)all.bytes[LINK_HOST][CLASS_ACTIVATION][LINK_READ];
    double left = (double)all.bytes[LINK_HOST][CLASS_RESIDUAL][LINK_READ];
    double owed = (double)all.bytes[LINK_HOST][CLASS_RESIDUAL][LINK_WRITE];
    const struct bytes pushed_aside = { 0, pushed, 0, 1, 0 },
                       popped_aside = { popped, 0, 0, 1, 0 };
    // a device that hands updates over writes the wire and the master first
    double first = run_modes[cfg->mode].handler == CSD_NAIVE ? states : sizeof(float) * n;
    double tail = (states - first) * part(params_last(cfg), n);
    double sent_0 = (gradient + owed) * part(params_sent_last(cfg), n);
    int    internal = kind == LINK_INTERNAL, aside = cfg->n_act_devices > 0;
    const struct { struct step_move *move; struct bytes bytes; } each[] = {
        { &out->update, { states + gradient, states + made, internal, 0, 0 } },
        { &out->load, { (states + gradient) * part_0, 0, internal, 0, 0 } },
        { &out->first, { (states + gradient) * part_0, (first + made) * part_0, internal, 0, 0 } },
        { &out->second, { (states + gradient) * part_1,
                          (states - first) * part_0 + (first + made) * part_1, internal, 0, 0 } },
        { &out->tail, { 0, tail, internal, 0, 0 } },
        { &out->wire_forward, { once, aside ? 0 : pushed, 0, 1,
                                beside_bytes(&m, rates, base.once) } },
        { &out->wire_backward, { wire - once + left + (aside ? 0 : popped), 0, 0, 1,
                                 beside_bytes(&m, rates, base.all - base.once) } },
        { &out->gradient, { 0, gradient + owed, 0, 1, 0 } },
        { &out->write_0, { 0, sent_0, 0, 1, 0 } },
    };

    for (size_t i = 0; i < sizeof each / sizeof *each && !rc; i++)
        *each[i].move = move_of(&m, &each[i].bytes);
    if (!rc && aside) {
        acts_add(&out->wire_forward, &m, cfg, &pushed_aside);
        acts_add(&out->wire_backward, &m, cfg, &popped_aside);
    }
    network_moves(out, cfg, &all, rates, wire > 0 ? once / wire : 1);
    if (!rc)
        files_moves(out, rates, &base);
    update_compute(&out->update, cfg, n, rates);
    update_compute(&out->first, cfg, n_0, rates);
    update_compute(&out->second, cfg, n_1, rates);
    out->A = update_beside(cfg, n, rates);
    free(m.busy);
    return rc;
}

static struct step_move shared_move(struct step_move m, double share)
{
    m.drive *= share;
    return m;
}

int step_work_halves(struct step_halves *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err)
{
    const struct bytes      written = { 0, 1, 0, 1, 0 }, read = { 1, 0, 0, 1, 0 };
    struct run_config       bare = *cfg;
    struct step_work        w = { 0 };
    struct machine          m;
    int                     rc;

    bare.acts = (struct run_acts){ 0 };
    rc = step_work_moves(&w, &bare, t, rates, err);
    if (rc || (rc = machine_open(&m, &bare, t, rates, err)))
        return rc;
    struct step_move before = step_move_sum(&w.update, &w.wire_forward),
                     after = step_move_sum(&w.wire_backward, &w.gradient), none = { 0 };
    *out = (struct step_halves){ .forward = shared_move(before, m.share.all),
                                 .backward = shared_move(after, m.share.all),
                                 .write = none, .read = none,
                                 .before = step_time_first(&w, m.share) };
    if (cfg->n_act_devices) {
        acts_add(&out->write, &m, cfg, &written);
        acts_add(&out->read, &m, cfg, &read);
    } else {
        out->write = move_of(&m, &written);
        out->read = move_of(&m, &read);
    }
    double one = 1 / (double)cfg->n_devices; // each device has an equal part of an item
    out->write.drive *= one;
    out->read.drive *= one;
    free(m.busy);
    return 0;
}

int step_work_other(struct step_move *out, const struct run_config *cfg, const struct topology *t,
                    const struct step_rates *rates, const struct step_bytes *bytes,
                    struct err *err)
{
    struct machine m;
    int            rc = machine_open(&m, cfg, t, rates, err);

    if (rc)
        return rc;
    m.padding = 1;
    *out = move_of(&m, &(struct bytes){ bytes->read, bytes->write, 0, 0, 0 });
    m.t = NULL;
    out->drive += drive_seconds(&m, &(struct bytes){ bytes->read_beneath, bytes->write_beneath,
                                                     0, 0, 0 });
    free(m.busy);
    return 0;
}

/* ---- phases one after the other ---- */

int step_work_serial(struct step_serial *out, const struct run_config *cfg,
                     const struct topology *t, const struct step_rates *rates, struct err *err)
{
    struct machine    m;
    struct link_meter all;
    enum link_kind    kind = run_modes[cfg->mode].update_link;
    int               base = kind == LINK_HOST, rc = machine_open(&m, cfg, t, rates, err);
    double            n = trained(cfg);

    traffic_computed(&all, cfg);
    double gradient = (double)all.bytes[LINK_HOST][CLASS_GRADIENT][LINK_WRITE];
    double states = (double)all.bytes[kind][CLASS_STATES][LINK_READ];
    const struct bytes sent = { 0, gradient, 0, 1, 0 },
                       read = { states + gradient, 0, !base, 0, 0 },
                       write = { 0, states, !base, 0, 0 },
                       upload = { base ? 0 : sizeof(float) * n, 0, 0, 0, 0 };

    if (!rc) {
        out->gradient = move_of(&m, &sent);
        out->read = move_of(&m, &read);
        out->write = move_of(&m, &write);
        out->upload = move_of(&m, &upload);
        out->host = base && rates->host > 0 ? n / rates->host : 0;
        out->engine = !base && rates->engine > 0 ? n / rates->engine : 0;
        out->overlapped = cfg->mode == RUN_SUO;
    }
    free(m.busy);
    return rc;
}
