/* prediction.c: predicts a run for `siTrain plan --json`. The first part answers what a person
 * wants to know before making a run: how long a step takes and why; what more memory, a drive or a
 * core would bring; what the largest run is that fits; how long the drives last. The second part
 * predicts every mode. Each answer comes from forecast.h, for a changed session. */
#include "plan/prediction.h"

#include "plan/snapshots_plan.h"
#include "plan/training_plan.h"
#include "plan/wear.h"
#include "run/folder/train_opts.h"

#include <math.h>

#define GIB ((uint64_t)1 << 30)

static int forecast_own(struct forecast *f, const struct session *s,
                        const struct forecast_machine *m, struct err *err)
{
    return forecast_step(f, s, s->o.mode, s->o.compress, m, err);
}

/* ---- the step ---- */

static const char *const pace_names[] = {
    [FORECAST_COMPUTING] = "computing", [FORECAST_DRIVES] = "drives", [FORECAST_UP] = "link up",
    [FORECAST_DOWN] = "link down", [FORECAST_NETWORK] = "network",
    [FORECAST_FILES] = "files of the base",
    [FORECAST_UPDATES] = "updates' arithmetic" };

/* Times of a step: computing alone, and the rest of both halves. The rest is waits, and the cores
 * that emulated devices use. Where rows vary in length, this step is of full ones. */
static json_t *step_of(const struct session *s, const struct forecast *f)
{
    double tokens = (double)(s->o.batch * s->o.seq * s->o.grad_accum);
    double waits = s->o.mode == RUN_MEM ? 0 : fmax(f->own.step - f->F - f->B, 0);

    return json_pack("{s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:f,"
                     " s:I}",
                     "seconds", f->own.step,
                     training_varies(s) ? "padded_tokens_per_second" : "tokens_per_second",
                     tokens / f->own.step, "steps", (json_int_t)s->o.steps,
                     "run_seconds", f->own.step * (double)s->o.steps,
                     "forward", f->F, "head", f->head, "backward", f->B - f->head - f->norm,
                     "gradients", f->norm, "update",
                     s->o.mode == RUN_MEM ? f->host_update : f->update, "images", f->image,
                     "network", f->network, "waits", waits, "waits_forward",
                     s->o.mode == RUN_MEM ? 0 : fmax(f->own.forward - f->F, 0), "pace",
                     pace_names[f->by], "pace_seconds", f->by_seconds, "kept_layers",
                     (json_int_t)f->kept);
}

static json_t *ways_of_part(const struct forecast *f, enum acts_part part)
{
    return json_pack("{s:I, s:I}", "kept", (json_int_t)f->placement.of[part].kept, "offloaded",
                     (json_int_t)f->placement.of[part].offloaded);
}

static json_t *activations_of(const struct session *s, const struct forecast *f)
{
    return json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:o, s:o, s:o}", "asked",
                     train_activations[s->o.activations].name, "may_offload", f->offloads,
                     "whole", f->whole,
                     "bytes_written", (json_int_t)f->acts_written, "bytes_read",
                     (json_int_t)f->acts_read, "layers", (json_int_t)s->config.n_layer,
                     "inputs", ways_of_part(f, ACTS_INPUT), "attentions",
                     ways_of_part(f, ACTS_ATTN), "mlps", ways_of_part(f, ACTS_MLP));
}

/* ---- what more would bring ---- */

static void more_add(json_t *rows, const char *what, const struct session *s,
                     const struct forecast_machine *m, double step)
{
    struct forecast f;
    struct err      refusal = { 0 };

    if (!forecast_own(&f, s, m, &refusal)) // a topology may have no more drives
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:I}", "what", what, "seconds",
                                              f.own.step, "change", f.own.step / step - 1,
                                              "kept_layers", (json_int_t)f.kept));
}

/* Extends a list of one value per device by repeating its last value. */
static int sizes_extend(struct opt_sizes *to, const struct opt_sizes *from, size_t n)
{
    *to = (struct opt_sizes){ from->n > 1 ? calloc(n, sizeof *to->item) : from->item, from->n };
    if (from->n < 2)
        return 0;
    for (size_t i = 0; i < n && to->item; i++)
        to->item[i] = from->item[i < from->n ? i : from->n - 1];
    to->n = n;
    return to->item ? 0 : -ENOMEM;
}

/* Adds a drive like the others, with as many devices on it. */
static void more_drive(json_t *rows, const struct session *s, const struct forecast_machine *m,
                       double step)
{
    struct session more = *s;
    size_t         n = s->run.n_devices + (m->m->n_drives ? m->sharers : 1);

    more.o.devices = n;
    more.o.device = (struct opt_strings){ 0 };
    int rc = sizes_extend(&more.o.csd_read_bw, &s->o.csd_read_bw, n);
    rc = sizes_extend(&more.o.csd_write_bw, &s->o.csd_write_bw, n) || rc;
    if (!rc)
        more_add(rows, "one more drive", &more, m, step);
    if (s->o.csd_read_bw.n > 1)
        free(more.o.csd_read_bw.item);
    if (s->o.csd_write_bw.n > 1)
        free(more.o.csd_write_bw.item);
}

static json_t *more_of(const struct session *s, const struct forecast_machine *m,
                       const struct budget *plan, double step)
{
    json_t        *rows = json_array();
    struct session more = *s;

    more.o.host_mem = plan->limit + GIB;
    more_add(rows, "1 GiB more of --host-mem", &more, m, step);
    if (s->o.mode != RUN_MEM)
        more_drive(rows, s, m, step);
    more = *s;
    more.o.threads = s->o.threads + 1;
    if (m->m->threads > 0)
        more_add(rows, "one more core", &more, m, step);
    return rows;
}

/* ---- the largest run ---- */

/* A copy of the session in which one size is changed. follow: adapts what depends on it. */
struct trial {
    struct session s;
    uint64_t       disk;
    size_t         head, batch;
};

static void follow_width(struct trial *t)
{
    t->s.config.n_head = t->s.config.n_embd / t->head;
    t->s.config = arch_config(t->s.config.arch, t->s.config);
}

static void follow_batch(struct trial *t) { t->s.o.batch = t->batch; }

/* Whether the run fits with n times `unit`. */
static int tries(struct trial *t, size_t *size, size_t n, size_t unit,
                 void (*follow)(struct trial *t))
{
    *size = n * unit;
    if (follow)
        follow(t);
    return forecast_fits(&t->s, t->disk);
}

/* The largest *size up to most, in multiples of unit, with which the run fits. It fits as it is. */
static size_t largest(struct trial *t, size_t *size, size_t unit, size_t most,
                      void (*follow)(struct trial *t))
{
    size_t was = *size, low = was / unit, high = most / unit + 1, middle;

    // doubles first, because sizes far above take longer to check
    for (middle = 2 * low; middle < high && tries(t, size, middle, unit, follow); middle *= 2)
        low = middle;
    high = middle < high ? middle : high;
    while (high - low > 1) {
        middle = low + (high - low) / 2;
        *(tries(t, size, middle, unit, follow) ? &low : &high) = middle;
    }
    *size = was;
    if (follow)
        follow(t);
    return low * unit;
}

/* The last named model that fits, with this vocabulary and these rows, or NULL. */
static const char *largest_preset(const struct trial *t)
{
    const char *name, *found = NULL;

    for (size_t i = 0; (name = arch_preset_name(i)); i++) {
        struct trial      other = *t;
        struct model_config g;

        if (arch_preset(&g, name) || g.arch != t->s.config.arch || t->s.o.seq > g.n_positions)
            continue;
        g.vocab = t->s.config.vocab;
        g.n_positions = t->s.config.n_positions;
        g.n_labels = t->s.config.n_labels;
        other.s.config = g;
        if (forecast_fits(&other.s, t->disk))
            found = name;
    }
    return found;
}

static json_t *largest_of(const struct session *from, uint64_t disk)
{
    struct trial t = { .disk = disk ? disk : UINT64_MAX,
                       .head = from->config.n_embd / from->config.n_head,
                       .batch = (size_t)from->o.batch };
    json_t      *out = json_object();

    forecast_session(&t.s, from);
    int fits = forecast_fits(&t.s, t.disk);
    json_object_set_new(out, "fits", json_boolean(fits));
    json_object_set_new(out, "disk_free", json_real((double)disk));
    if (!fits)
        return out;
    size_t most = TRAIN_MOST_HEADS * t.head,
           layers = largest(&t, &t.s.config.n_layer, 1, TRAIN_MOST_LAYERS, NULL),
           width = largest(&t, &t.s.config.n_embd, t.head,
                           most < TRAIN_MOST_WIDTH ? most : TRAIN_MOST_WIDTH, follow_width),
           batch = largest(&t, &t.batch, 1, TRAIN_MOST_BATCH, follow_batch);
    const char *preset = largest_preset(&t);
    json_object_set_new(out, "batch", json_real((double)batch));
    json_object_set_new(out, "n_layer", json_real((double)layers));
    json_object_set_new(out, "n_embd", json_real((double)width));
    json_object_set_new(out, "preset", preset ? json_string(preset) : json_null());
    return out;
}

/* ---- drives ---- */

/* What a drive under `sharers` devices is written per day, and how long it lasts. */
static json_t *drives_of(const struct session *s, size_t sharers, double step, struct err *err)
{
    double      endurance = (double)s->o.endurance;
    struct wear w;

    if (snapshots_plan_wear(&w, s, err))
        return NULL;
    double bytes = w.total * (double)(s->o.mode == RUN_MEM ? 1 : sharers);
    json_t *out = json_pack("{s:f, s:f}", "bytes_per_step", bytes, "bytes_per_day",
                            wear_day(bytes, step));
    if (endurance > 0) {
        json_object_set_new(out, "endurance", json_real(endurance));
        json_object_set_new(out, "years", json_real(wear_years(bytes, step, endurance)));
    }
    return out;
}

/* ---- snapshots ---- */

static json_t *moved_of(const struct link_meter *m)
{
    static const enum link_class classes[] = { CLASS_SNAPSHOT, CLASS_PARITY };
    json_t                      *rows = json_array();

    for (int l = 0; l < LINK_KINDS; l++)
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
            for (int d = 0; d < LINK_DIRS; d++)
                if (m->bytes[l][classes[c]][d])
                    json_array_append_new(
                        rows, json_pack("{s:s, s:s, s:s, s:I}", "link", link_kind_names[l], "class",
                                        link_class_names[classes[c]], "direction",
                                        link_dir_names[d], "bytes",
                                        (json_int_t)m->bytes[l][classes[c]][d]));
    return rows;
}

static json_t *snapshots_of(const struct session *s, const struct forecast *f, struct err *err)
{
    struct snapshots_plan p;

    if (snapshots_plan(&p, s, err))
        return NULL;
    if (!p.every)
        return json_null();
    json_t *out = json_pack("{s:I, s:f, s:f, s:f, s:o, s:f}", "every", (json_int_t)p.every,
                            "bytes", p.each, "parity_bytes", p.parity, "room",
                            p.each * (double)(s->o.snapshots + 1), "moved", moved_of(&p.moved),
                            "bytes_per_day",
                            wear_day(p.each / (double)p.every, fmax(f->own.step, f->beside)));
    if (s->o.snapshot_bw)
        json_object_set_new(out, "seconds", json_real(snapshots_plan_seconds(&p, s)));
    if (f->beside > 0) {
        json_object_set_new(out, "step_seconds", json_real(f->beside));
        json_object_set_new(out, "longer", json_real(f->beside / f->own.step));
    }
    return out;
}

/* ---- in RAM ---- */

/* The same run with --mode mem, if it fits: its step, and what all drives are written per day. The
 * latter also for the run as it is. */
static json_t *mem_of(const struct session *s, const struct forecast_machine *m,
                      const struct mem_choice *mem, double own_step)
{
    struct session  other;
    struct forecast f;
    struct err      refusal = { 0 };

    if (!mem->fits)
        return json_pack("{s:b}", "fits", 0);
    mem_choice_session(&other, s);
    // the machine's file may lack the host's update speed
    double step = m->m->update.host > 0 &&
                          !forecast_step(&f, &other, RUN_MEM, s->o.compress, m, &refusal)
                      ? f.own.step
                      : 0;
    session_close(&other);
    json_t *out = json_pack("{s:b, s:I, s:f, s:f}", "fits", 1, "memory", (json_int_t)mem->memory,
                            "bytes_per_step", mem->written, "own_bytes_per_step",
                            mem->written_own);
    if (step > 0) {
        json_object_set_new(out, "seconds", json_real(step));
        json_object_set_new(out, "bytes_per_day", json_real(wear_day(mem->written, step)));
        json_object_set_new(out, "own_bytes_per_day",
                            json_real(wear_day(mem->written_own, own_step)));
    }
    return out;
}

int prediction_add_step(json_t *found, const struct session *s, const struct forecast_machine *m,
                        const struct mem_choice *mem, uint64_t disk, struct err *err)
{
    struct session  planned;
    struct budget   plan;
    struct forecast f;
    int             rc = forecast_own(&f, s, m, err);

    forecast_session(&planned, s);
    rc = rc ? rc : session_config(&planned, err);
    rc = rc ? rc : training_plan(&plan, &planned, 0, err);
    planned.run.acts.written = f.acts_written; // the expected choice of --activations auto
    planned.run.acts.read = f.acts_read;
    if (!rc) {
        json_t *drives = drives_of(&planned, m->sharers, f.own.step, err);

        json_t *copied = drives ? snapshots_of(&planned, &f, err) : NULL;

        rc = drives && copied ? 0 : -EINVAL;
        json_object_set_new(found, "step", step_of(s, &f));
        json_object_set_new(found, "activations", activations_of(s, &f));
        json_object_set_new(found, "more", more_of(s, m, &plan, f.own.step));
        json_object_set_new(found, "largest", largest_of(s, disk));
        json_object_set_new(found, "mem", mem_of(s, m, mem, f.own.step));
        json_object_set_new(found, "drives", drives ? drives : json_null());
        json_object_set_new(found, "snapshots", copied ? copied : json_null());
    }
    session_close(&planned);
    return rc;
}

/* ---- modes ---- */

/* The modes in the papers' order. The last has compressed gradients. */
static const int modes[] = { RUN_BASE, RUN_SU, RUN_SUO, TRAIN_SU_O_C };
enum { MODES = sizeof modes / sizeof *modes };

static json_t *row_of(const char *mode, const struct forecast *f)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:{s:f, s:f, s:f, s:f}}",
                     "mode", mode, "step", f->own.step, "forward", f->own.forward, "backward",
                     f->own.backward, "F", f->F, "B", f->B, "T_opt", f->update, "T_grad",
                     f->gradient, "T_swap", f->wire, "turns", "forward", f->serial.forward,
                     "backward", f->serial.backward, "update", f->serial.update, "step",
                     f->serial.step);
}

static int predict(json_t *rows, const struct session *s, int mode, double compress,
                   const struct forecast_machine *m, struct err *err)
{
    struct forecast f;
    int             rc = forecast_step(&f, s, mode, compress, m, err);
    int             sparse = mode == RUN_SUO && compress > 0;

    if (!rc)
        json_array_append_new(
            rows, row_of(train_mode_name(sparse ? TRAIN_SU_O_C : (size_t)mode), &f));
    return rc;
}

static void speedups_add(json_t *rows)
{
    double  base = json_num(json_array_get(rows, 0), "step"),
            base_serial = json_num(json_object_get(json_array_get(rows, 0), "turns"), "step");
    json_t *row;
    size_t  i;

    json_array_foreach(rows, i, row) {
        json_t *serial = json_object_get(row, "turns");

        json_object_set_new(row, "speedup", json_real(base / json_num(row, "step")));
        json_object_set_new(serial, "speedup", json_real(base_serial / json_num(serial, "step")));
    }
}

int prediction_of(json_t **out, const struct session *s, const struct forecast_machine *m,
                  int compare, struct err *err)
{
    const struct model_config *g = &s->config;
    json_t                  *rows = json_array();
    double                   c = s->o.compress;
    int                      rc = 0;

    for (size_t i = 0; i < MODES && compare && !rc; i++)
        rc = modes[i] == TRAIN_SU_O_C
                 ? predict(rows, s, RUN_SUO, c > 0 ? c : TRAIN_COMPRESS, m, err)
                 : predict(rows, s, modes[i], 0, m, err);
    if (!rc && !compare)
        rc = predict(rows, s, s->o.mode, c, m, err);
    if (!rc && compare)
        speedups_add(rows);
    *out = rc ? NULL
              : json_pack("{s:s, s:s, s:f, s:{s:I, s:I, s:I, s:I}, s:I, s:I, s:I, s:O}",
                          "about", "siTrain plan", // output.c knows the file by this
                          "machine", m->m->name, "flops", m->m->flops, "model", "parameters",
                          (json_int_t)arch_total(g), "n_layer", (json_int_t)g->n_layer, "n_embd",
                          (json_int_t)g->n_embd, "vocab", (json_int_t)g->vocab, "tokens",
                          (json_int_t)(s->o.batch * s->o.seq * s->o.grad_accum), "devices",
                          (json_int_t)(s->o.mode == RUN_MEM ? 0 : s->run.n_devices),
                          "ranks", (json_int_t)(s->ranks.size > 1 ? s->ranks.size : 1),
                          "predictions", rows);
    json_decref(rows);
    return rc;
}

/* A step of rows as long as they are on average. */
int prediction_add_rows(json_t *found, const struct session *s, const struct forecast_machine *m,
                        double computed, double filled, struct err *err)
{
    struct session  shorter = *s;
    struct forecast f;
    double          tokens = (double)(s->o.batch * s->o.seq * s->o.grad_accum) * filled;

    shorter.o.seq = (uint64_t)fmax(1, ceil(computed * (double)s->o.seq));
    int rc = forecast_own(&f, &shorter, m, err);

    if (!rc)
        json_object_set_new(found, "rows",
                            json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", f.own.step,
                                      "tokens_per_second", tokens / f.own.step, "run_seconds",
                                      f.own.step * (double)s->o.steps, "computed", computed,
                                      "filled", filled));
    return rc;
}
