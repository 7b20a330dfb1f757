/* mem_choice.c: plans the same run with --mode mem, to say whether it would fit into RAM. */
#include "plan/mem_choice.h"

#include "offload/devices/devices.h"
#include "plan/forecast.h"
#include "plan/training_plan.h"
#include "plan/wear.h"

void mem_choice_session(struct session *out, const struct session *s)
{
    struct train_opts *o = &out->o;

    forecast_session(out, s);
    o->mode = RUN_MEM;
    o->speculate = 0;
    o->device = o->act_device = (struct opt_strings){ 0 };
    if (train_activations[o->activations].offloads &&
        train_activations[o->activations].adapts != ADAPT_BEST)
        o->activations = TRAIN_KEEP;
}

static int written(double *out, const struct session *s, struct err *err)
{
    const struct run_config *r = &s->run;
    struct wear              w;
    int                      rc = wear_computed(&w, r, err);

    *out = r->mode == RUN_MEM ? w.total
                              : w.total * (double)r->n_devices +
                                    w.act_device * (double)r->n_act_devices + w.journal;
    return rc;
}

void mem_choice_make(struct mem_choice *out, const struct session *s, const struct budget *own,
                     uint64_t rows)
{
    struct session mem;
    struct budget  plan;
    struct err     refusal = { 0 };

    *out = (struct mem_choice){ 0 };
    if (s->run.mode == RUN_MEM || s->ranks.size > 1 || s->run.csd->usable || devices_fake(&s->run))
        return;
    mem_choice_session(&mem, s);
    int rc = session_config(&mem, &refusal);
    rc = rc ? rc : training_plan(&plan, &mem, rows, &refusal);
    rc = rc ? rc : written(&out->written, &mem, &refusal);
    rc = rc ? rc : written(&out->written_own, s, &refusal);
    out->fits = !rc && out->written < out->written_own; // an image per step may be more
    out->as_fast = !rc && plan.kept >= own->kept;
    out->memory = rc ? 0 : plan.total;
    out->limit = rc ? 0 : plan.limit;
    session_close(&mem);
}
