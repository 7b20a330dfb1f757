/* adapt.c: measures steps, proposes other placements of activations, tries them, and goes back if
 * steps do not become shorter. */
#include "model/adapt.h"

#include "data/base/clock.h"
#include "data/base/number.h"

#include <math.h>

enum { WARM = 2, LOOK_FIRST = 64, LOOK_MOST = 1024 };

/* A proposal must promise steps shorter than PROMISED times the best. A placement that was tried
 * must reach KEPT times the best. If steps differ from the best by the factor OTHER, the steps have
 * changed. */
static const double PROMISED = 0.97, KEPT = 0.985, OTHER = 1.2;

void adapt_open(struct adapt *a, enum adapt_policy policy, struct model *m, struct stream *s)
{
    *a = (struct adapt){ .policy = policy, .model = m, .stream = s, .skip = WARM, .scale = 1,
                         .interval = LOOK_FIRST };
}

/* ---- the measurements ---- */

static void window_begin(struct adapt *a, int skip)
{
    a->skip = skip;
    a->n = 0;
    a->sum = (struct adapt_sum){ 0 };
    for (enum acts_part p = 0; p < ACTS_PARTS; p++) {
        a->again_ns[p] = a->model->again[p].ns;
        a->again_tokens[p] = a->model->again[p].tokens;
    }
}

void adapt_disturb(struct adapt *a)
{
    a->skip = a->skip > 1 ? a->skip : 1; // an earlier disturbance may skip more steps
}

void adapt_head(struct adapt *a)
{
    if (a->policy)
        a->head = meter_io(a->stream->meter);
}

void adapt_count(struct adapt *a, double seconds, double F, double B, double before)
{
    if (!a->policy)
        return;
    struct meter_io now = meter_io(a->stream->meter);
    if (a->skip > 0) {
        if (--a->skip == 0 && a->n == 0)
            window_begin(a, 0);
        return;
    }
    a->each[a->n++] = seconds;
    a->sum.F += F;
    a->sum.B += B;
    a->sum.before += before;
    a->sum.forward += (double)(a->head.busy_ns - a->begin.busy_ns) * 1e-9;
    a->sum.backward += (double)(now.busy_ns - a->head.busy_ns) * 1e-9;
    a->sum.bytes += (double)(now.bytes - a->begin.bytes);
}

void adapt_end(struct adapt *a, uint64_t step, uint64_t start_ns, uint64_t before_ns, int skipped)
{
    static const enum runlog_phase after[] = { PHASE_LOSS, PHASE_BACKWARD, PHASE_GRAD_NORM,
                                               PHASE_GRAD_COMPRESS };
    struct meter *m = a->stream->meter;
    double F = (double)meter_total(m, step, PHASE_FORWARD) * 1e-9, B = 0;

    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        B += (double)meter_total(m, step, after[i]) * 1e-9;
    adapt_count(a, (double)(clock_ns() - start_ns) * 1e-9, F, B, (double)before_ns * 1e-9);
    if (skipped)
        adapt_disturb(a);
}

static size_t window(const struct adapt *a) { return a->model->o.varying ? ADAPT_WINDOW : 3; }

/* The result of a window: its median if lengths vary, otherwise its minimum. */
static double typical(struct adapt *a)
{
    qsort(a->each, a->n, sizeof *a->each, number_order);
    return a->each[a->model->o.varying ? a->n / 2 : 0];
}

/* Measures the seconds per token that recomputing a part takes. If a part was never recomputed,
 * this estimates it from the layer's forward: 3 of 12 products for attention, 5 of 12 (with
 * attention's projection) for the MLP. */
static void again_measure(struct adapt *a, double F)
{
    static const double part[ACTS_PARTS] = { 0, 3.0 / 12, 5.0 / 12 };
    double tokens = (double)(model_tokens(a->model) * a->model->o.grad_accum),
           layer = F / (double)a->model->o.config.n_layer / tokens;

    for (enum acts_part p = ACTS_ATTN; p < ACTS_PARTS; p++) {
        uint64_t n = a->model->again[p].tokens - a->again_tokens[p];

        if (n)
            a->again[p] = (double)(a->model->again[p].ns - a->again_ns[p]) * 1e-9 / (double)n;
        else if (!(a->again[p] > 0))
            a->again[p] = layer * part[p];
    }
}

/* ---- the problem ---- */

/* Subtracts from the measured times what the activations took in the placement `w`. */
static void without_activations(struct choice_problem *p, const struct placement *w)
{
    struct choice_sums s = choice_sums(p, w);

    p->F = fmax(p->F - s.push, 0);
    p->B = fmax(p->B - s.back, 0);
    p->forward.drive = fmax(p->forward.drive - s.moved * p->write.drive, 0);
    p->backward.drive = fmax(p->backward.drive - s.moved * p->read.drive, 0);
}

/* Seconds per byte of drives that are not modelled: the time that they were busy longer than the
 * links. */
static double drive_byte(const struct stream_work *links, double busy, double bytes)
{
    double link = step_move(&links->forward, 1) + step_move(&links->backward, 1);

    return bytes > 0 ? fmax(busy - link, 0) / bytes : 0;
}

static int problem_of(struct choice_problem *p, struct adapt *a, struct err *err)
{
    const struct model_options *o = &a->model->o;
    const struct acts_sizes    *sizes = &a->model->acts.sizes;
    struct stream_work          work = { 0 };
    int                         rc = stream_work(a->stream, &work, err);
    double n = (double)a->n, tokens = (double)(model_tokens(a->model) * o->grad_accum);

    if (rc)
        return rc;
    again_measure(a, a->sum.F / n);
    *p = (struct choice_problem){
        .n_layer = o->config.n_layer, .pool = (double)o->pool, .spare = (double)o->spare,
        .may_offload = work.may_offload, .F = a->sum.F / n, .B = a->sum.B / n,
        .before = a->sum.before / n, .forward = work.forward, .backward = work.backward,
        .write = work.write, .read = work.read,
    };
    double busy = (a->sum.forward + a->sum.backward) / n;
    double own = drive_byte(&work, busy, a->sum.bytes / n);
    p->forward.drive = a->sum.forward / n;
    p->backward.drive = a->sum.backward / n;
    p->write.drive = fmax(p->write.drive, own);
    p->read.drive = fmax(p->read.drive, own);
    for (enum acts_part i = 0; i < ACTS_PARTS; i++)
        p->part[i] = (struct choice_part){
            .kept = (double)sizes->kept_per_layer[i], .moved = (double)sizes->moved_per_layer[i],
            .again = a->again[i] * tokens };
    a->buffers = work.buffers;
    p->stays = acts_stay(sizes, a->buffers);
    if (!o->whole) // attention's projection, 1 of the 5 products
        p->part[ACTS_MLP].fetch = p->part[ACTS_MLP].again / 5;
    without_activations(p, &a->model->acts.placement);
    return 0;
}

/* The problem with its offloading costs scaled by what earlier trials have shown. */
static struct choice_problem scaled(const struct adapt *a, struct choice_problem p)
{
    struct step_move *of[] = { &p.write, &p.read };

    for (size_t i = 0; i < 2; i++)
        *of[i] = step_move_times(of[i], a->scale);
    return p;
}

/* ---- choosing ---- */

static int placement_same(const struct placement *a, const struct placement *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static int was_tried(const struct adapt *a, const struct placement *w)
{
    for (size_t i = 0; i < a->n_tried; i++)
        if (placement_same(&a->tried[i], w))
            return 1;
    return a->n_tried == ADAPT_TRIES;
}

/* Uses the placement `w` from this step on. */
static int take(struct adapt *a, const struct placement *w, uint64_t step, const char *why,
                double expected, struct runlog_choice *out, struct err *err)
{
    const struct choice_problem *p = &a->best.problem;
    struct acts_moves            moves;
    int rc = acts_moves(&moves, &a->model->acts.sizes, w, a->buffers, err);

    if (rc)
        return rc;
    acts_place(&a->model->acts, w);
    if (!placement_offloads(w))
        stream_rest(a->stream);
    window_begin(a, 1);
    *out = (struct runlog_choice){
        .step = step, .layers = p->n_layer, .why = why,
        .kept_bytes = (uint64_t)choice_sums(p, w).kept, .moved_bytes = moves.written,
        .step_seconds = a->best.seconds, .expected_seconds = expected,
    };
    for (enum acts_part i = 0; i < ACTS_PARTS; i++) {
        out->kept[i] = w->of[i].kept;
        out->offloaded[i] = w->of[i].offloaded;
    }
    return 0;
}

/* Finds the next placement to try; 0 if there is none. *expected: seconds of a step with it. */
static int propose(struct adapt *a, struct placement *w, double *expected)
{
    struct choice_problem p = scaled(a, a->best.problem);

    if (a->policy == ADAPT_SSDTRAIN)
        *w = choice_ssdtrain(&p);
    else if (choice_best(w, &p))
        return 0;
    // what the formula leaves out cancels in the difference
    double was = choice_seconds(&p, &a->best.placement), will = choice_seconds(&p, w);
    *expected = fmax(a->best.seconds + will - was, 0);
    if (was_tried(a, w) || placement_same(w, &a->best.placement))
        return 0;
    return a->policy == ADAPT_SSDTRAIN || *expected < a->best.seconds * PROMISED;
}

/* A placement that was tried made steps no shorter. The scale of offloading costs goes up if it
 * offloads more than the best placement, and down if it offloads less. */
static void disappointed(struct adapt *a, const struct adapt_measured *now)
{
    struct choice_problem p = scaled(a, a->best.problem);
    double expected = a->best.seconds + choice_seconds(&p, &now->placement) -
                      choice_seconds(&p, &a->best.placement);

    double times = fmin(fmax(expected > 0 ? now->seconds / expected : 4, 1.1), 4);
    int    less = choice_sums(&p, &now->placement).moved <
                  choice_sums(&p, &a->best.placement).moved;

    a->scale *= less ? 1 / times : times;
}

/* Judges a full window. Returns 1 if the best placement must be measured once more, to confirm
 * the new one. */
static int judge(struct adapt *a, const struct adapt_measured *now)
{
    if (a->state == ADAPT_CONFIRMING) { // `now` has the old best placement
        a->state = ADAPT_SEARCHING;
        a->best.seconds = fmin(a->best.seconds, now->seconds);
        if (a->other.seconds < a->best.seconds * KEPT)
            a->best = a->other;
        else
            disappointed(a, &a->other);
    } else if (a->n_tried == 0 || a->policy == ADAPT_SSDTRAIN) {
        a->best = *now;
    } else if (now->seconds < a->best.seconds * KEPT) {
        a->other = *now;
        return 1;
    } else {
        disappointed(a, now);
    }
    return 0;
}

static void settle(struct adapt *a, uint64_t step)
{
    a->state = ADAPT_SETTLED;
    a->odd = 0;
    a->n_tried = 0;
    a->look = step + a->interval;
    a->interval = a->interval * 2 < LOOK_MOST ? a->interval * 2 : LOOK_MOST;
    window_begin(a, 1);
}

static int search(struct adapt *a, uint64_t step, struct runlog_choice *out, struct err *err)
{
    struct adapt_measured now = { .placement = a->model->acts.placement, .seconds = typical(a) };
    struct placement  w;
    double            expected;
    int               rc = problem_of(&now.problem, a, err);

    if (rc)
        return rc;
    if (judge(a, &now)) {
        a->state = ADAPT_CONFIRMING;
        return take(a, &a->best.placement, step, "to compare once more", a->best.seconds, out, err);
    }
    if (a->n_tried == 0)
        a->tried[a->n_tried++] = now.placement;
    if (propose(a, &w, &expected)) {
        a->tried[a->n_tried++] = w;
        return take(a, &w, step, "expected to be shorter", expected, out, err);
    }
    if (!placement_same(&now.placement, &a->best.placement))
        rc = take(a, &a->best.placement, step, "the shortest that was measured", a->best.seconds,
                  out, err);
    settle(a, step);
    return rc;
}

/* Goes back to searching if steps have changed, or if it is time to look again. */
static void watch_steps(struct adapt *a, uint64_t step)
{
    double seconds = typical(a);
    int    other = seconds > a->best.seconds * OTHER || seconds * OTHER < a->best.seconds;

    a->odd = other ? a->odd + 1 : 0;
    if (a->odd < 3 && step < a->look) {
        window_begin(a, a->skip);
        return;
    }
    if (a->odd)
        a->interval = LOOK_FIRST;
    a->state = ADAPT_SEARCHING;
    a->scale = 1;
}

int adapt_begin(struct adapt *a, uint64_t step, struct runlog_choice *out, struct err *err)
{
    int rc = 0;

    if (!a->policy)
        return 0;
    if (a->n == window(a) && a->state == ADAPT_SETTLED)
        watch_steps(a, step);
    if (a->n == window(a))
        rc = search(a, step, out, err);
    a->begin = meter_io(a->stream->meter);
    return rc;
}
