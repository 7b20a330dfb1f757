/* training_plan.c: from a session to a trainer's options and to the plan of what it will hold. */
#include "cmd/run/training_plan.h"

#include <stdio.h>
#include <unistd.h>

struct trainer_options training_options(const struct session *s)
{
    const struct train_opts *o = &s->o;
    const struct gpt_config *g = &s->gpt;
    float                    p = (float)o->dropout;
    uint64_t                 horizon = o->schedule_steps ? o->schedule_steps : o->steps;
    const struct train_activations *acts = &train_activations[o->activations];

    return (struct trainer_options){
        .model = { .gpt = *g,
                   .batch = o->batch,
                   .seq = o->seq,
                   .grad_accum = o->grad_accum,
                   .dtype = (enum dtype)o->dtype,
                   .engine = (enum matmul_engine)o->blas,
                   .threads = (int)o->threads,
                   .training = 1,
                   .varying = g->n_labels > 0,
                   // in mem there are no devices to offload to
                   .offload = o->mode == RUN_MEM ? ACTS_STAY : acts->offload,
                   .dropout = { g->n_labels ? g->drop_embd : p, g->n_labels ? g->drop_attn : p,
                                g->n_labels ? g->drop_resid : p, o->seed } },
        .schedule = { .kind = (enum schedule_kind)o->schedule,
                      .lr = o->lr,
                      .min_lr = o->min_lr,
                      .warmup = opt_warmup_steps(o->warmup, horizon),
                      .horizon = horizon },
        .clip = o->clip,
        .optim = (enum optim_kind)o->optimizer,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
    };
}

int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err)
{
    struct memory_request r = { .host_mem = s->o.host_mem,
                                .model = training_options(s).model,
                                .run = &s->run,
                                .keep = train_activations[s->o.activations].keep,
                                .exporting = s->o.keep_best,
                                .rows = rows };

    return memory_plan(out, &r, err);
}

/* `plan` may be asked about another machine; what trains here must fit into its RAM (a container's
 * limit is not looked at), whatever --host-mem says. */
static int machine_holds(const struct budget *plan, struct err *err)
{
    uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char     needs[32], has[32], most[32];

    if (plan->total + plan->arenas <= ram)
        return 0;
    return err_misuse(err,
                      "within this --host-mem the run would take %s of memory, and this machine "
                      "has %s: expected --host-mem of %s at most",
                      opt_size_text(needs, sizeof needs, (double)(plan->total + plan->arenas)),
                      opt_size_text(has, sizeof has, (double)ram),
                      opt_size_text(most, sizeof most,
                                    ram > plan->arenas ? (double)(ram - plan->arenas) : 0));
}

int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err)
{
    int rc = training_plan(out, s, rows, err);

    return rc ? rc : machine_holds(out, err);
}

int training_check_plan(const struct gpt_config *gpt, const struct train_opts *o, const char *dir,
                        uint64_t rows, struct run_acts *acts, struct err *err)
{
    struct session s = { .gpt = *gpt, .o = *o, .spares = o->speculate };
    struct budget  plan;
    int            rc;

    snprintf(s.dir, sizeof s.dir, "%s", dir);
    rc = session_config(&s, err);
    if (!rc)
        rc = training_plan_here(&plan, &s, rows, err);
    *acts = s.run.acts;
    session_close(&s);
    return rc;
}
