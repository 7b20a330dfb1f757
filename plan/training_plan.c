/* training_plan.c: turns a session into the options of its trainer, and plans its memory. */
#include "plan/training_plan.h"

#include <unistd.h>

int training_varies(const struct session *s)
{
    return arch_classifies(&s->config) || s->rows != SESSION_WHOLE;
}

struct trainer_options training_options(const struct session *s)
{
    const struct train_opts *o = &s->o;
    struct model_config      g = s->config;
    size_t                   ranks = size_max(s->ranks.size, 1);

    if (!training_varies(s)) // a fine-tuned model drops as its config.json says
        arch_drop(&g, (float)o->dropout);
    return (struct trainer_options){
        .model = { .config = g,
                   .batch = o->batch,
                   .seq = o->seq,
                   .grad_accum = o->grad_accum / ranks,
                   .micros = o->grad_accum,
                   .first_micro = o->grad_accum / ranks * s->ranks.rank,
                   .dtype = (enum dtype)o->dtype,
                   .engine = (enum matmul_engine)o->blas,
                   .threads = (int)o->threads,
                   .training = 1,
                   .varying = training_varies(s),
                   .packed = s->rows == SESSION_PACKED,
                   .paired = s->rows == SESSION_PAIRS,
                   .dropout = { g.drop_embd, g.drop_attn, g.drop_resid, o->seed },
                   .smoothing = s->rows == SESSION_PAIRS ? 0 : (float)o->label_smoothing,
                   .neftune = (float)o->neftune_alpha },
        .schedule = train_opts_schedule(o),
        .clip = o->clip,
        .optim = (enum optim_kind)o->optimizer,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .comm = s->ranks.comm,
        .groups = run_groups(&s->run),
        .pairs = s->pairs,
    };
}

static struct memory_request request(struct session *s, uint64_t rows)
{
    return (struct memory_request){ .host_mem = s->o.host_mem,
                                    .model = training_options(s).model,
                                    .run = &s->run,
                                    .acts = &train_activations[s->o.activations],
                                    .exporting = s->o.keep_best || s->o.export_every,
                                    .rows = rows };
}

int training_plan(struct budget *out, struct session *s, uint64_t rows, struct err *err)
{
    struct memory_request r = request(s, rows);

    return memory_plan(out, &r, err);
}

int training_plan_here(struct budget *out, struct session *s, uint64_t rows, struct err *err)
{
    uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int      rc = training_plan(out, s, rows, err);
    uint64_t all = out->total + out->arenas;
    struct memory_request r = request(s, rows);
    rc = rc ? rc : memory_limits(out, &r, err);
    if (rc || all <= ram)
        return rc;
    return err_misuse(err,
                      "within this --host-mem the run would take %s of memory, and this machine "
                      "has %s: expected --host-mem of %s at most", SIZE_TEXT(all), SIZE_TEXT(ram),
                      SIZE_TEXT(ram > out->arenas ? ram - out->arenas : 0));
}
