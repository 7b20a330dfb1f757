/* forecast_acts.c: predicts the placement of activations, and its cost. */
#include "plan/forecast_acts.h"

#include "model/acts_choice.h"

#include <math.h>

/* Seconds to recompute a part of a layer's micro-batch. fetch: of offloaded MLPs, to recompute what
 * was not offloaded, the residual stream (for GPT-2 one product of C x C; the whole part has two,
 * that and C x 4 C). */
struct parts { double attn, mlp, fetch; };

static struct parts parts_of(const struct forecast_step_so_far *f, const struct model_options *o)
{
    double all = machine_layer(f->m, f->of, MACHINE_AGAIN), mlp = machine_again_mlp(f->m, f->of);

    double fetched = o->whole ? 0 : (double)arch_fetched(&o->config);

    return (struct parts){ all - mlp, mlp, mlp * fetched / f->of->mlp_again };
}

/* Chooses as --activations auto would after measuring. */
static int choose(struct placement *out, const struct session *s, const struct budget *plan,
                  const struct model_options *model, const struct forecast_step_so_far *f,
                  struct err *err)
{
    const struct acts_sizes sizes = acts_sizes(model);
    const struct parts      part = parts_of(f, model);
    double                  micros = (double)model->grad_accum;
    struct step_halves      half;
    int rc = step_work_halves(&half, &s->run, f->t, f->rates, err);

    if (rc)
        return rc;
    struct choice_problem p = {
        .n_layer = model->config.n_layer, .pool = (double)plan->pool, .spare = (double)plan->spare,
        .may_offload = 1, .stays = acts_stay(&sizes, s->run.acts.buffers), .F = f->w->F,
        .B = f->w->B, .before = half.before, .forward = half.forward, .backward = half.backward,
        .write = half.write, .read = half.read };
    for (enum acts_part i = 0; i < ACTS_PARTS; i++)
        p.part[i] = (struct choice_part){ .kept = (double)sizes.kept_per_layer[i],
                                          .moved = (double)sizes.moved_per_layer[i] };
    p.part[ACTS_ATTN].again = micros * part.attn;
    p.part[ACTS_MLP].again = micros * part.mlp;
    p.part[ACTS_MLP].fetch = micros * part.fetch;
    if (train_activations[s->o.activations].adapts == ADAPT_SSDTRAIN)
        *out = choice_ssdtrain(&p);
    else if (choice_best(out, &p))
        *out = memory_placement(plan, model, &train_activations[s->o.activations]);
    return 0;
}

/* The number of times that a part is recomputed: once per layer and micro-batch, except for arrays
 * of the last one that are still in memory. These are all of an attention, and the last chunk of an
 * MLP. */
static double times(size_t layers, double micros, double stands)
{
    return layers ? (double)layers * micros - stands : 0;
}

int forecast_acts(struct forecast_acts *out, struct session *s, const struct budget *plan,
                  const struct forecast_step_so_far *so_far, struct err *err)
{
    const struct train_activations *asked = &train_activations[s->o.activations];
    struct model_options            model = training_options(s).model;
    struct parts part;
    size_t       L = model.config.n_layer;
    double       micros = (double)model.grad_accum, chunk;
    int          rc = 0;
    struct run_acts  *acts = &s->run.acts;
    struct acts_moves moves = { 0 };
    struct acts_sizes sizes;

    model.doubled = plan->doubled;
    model.whole = memory_whole(plan, &s->run, &model);
    chunk = (double)products_at_once(&model, CHUNK_ROWS) / so_far->of->tokens;
    sizes = acts_sizes(&model);
    part = parts_of(so_far, &model);
    *out = (struct forecast_acts){ .placement = memory_placement(plan, &model, asked),
                                   .whole = plan->record_buffers && model.whole };
    if (plan->record_buffers && asked->adapts && !so_far->first)
        rc = choose(&out->placement, s, plan, &model, so_far, err);
    if (!rc && plan->record_buffers)
        rc = acts_moves(&moves, &sizes, &out->placement, acts->buffers, err);
    acts->written = moves.written; // bytes that cross links
    acts->read = moves.read;
    const struct placement *w = &out->placement;
    size_t mlps = w->of[ACTS_MLP].offloaded,
           attn_again = L - w->of[ACTS_ATTN].kept - w->of[ACTS_ATTN].offloaded,
           mlp_again = L - w->of[ACTS_MLP].kept - mlps;
    out->again = times(attn_again, micros, 1) * part.attn +
                 times(mlp_again, micros, fmin(1, chunk)) * part.mlp +
                 (double)mlps * micros * part.fetch;
    if (!w->of[ACTS_ATTN].kept && attn_again)
        out->last += (micros - 1) * part.attn;
    if (!w->of[ACTS_MLP].kept && mlp_again)
        out->last += (micros - fmin(1, chunk)) * part.mlp;
    return rc;
}
