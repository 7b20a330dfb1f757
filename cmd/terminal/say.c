/* say.c: prints what happens to a run, in the same words for all commands. */
#include "cmd/terminal/say.h"

#include "cmd/terminal/job.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/stop.h"
#include "data/base/machine.h"
#include "data/base/number.h"
#include "plan/mem_choice.h"

static void say_notice(void *ctx, const char *sentence)
{
    (void)ctx;
    progress_make_way();
    say_line(stderr, "siTrain: %s", sentence);
}

enum { REPEATED = 4 }; // epochs of a source from which on its user hears of it

static size_t layers; // layers of the run that is trained

/* Warns if the process may use few cores: mpirun binds even a single process to one or two. */
static void say_binding(uint64_t threads, int by_threads)
{
    struct machine m;

    machine_here(&m);
    if (comm_by_starter() && m.cpus < m.cpus_online)
        fprintf(stderr, "siTrain: %smpirun or srun lets this process use %d of %d CPUs, and it "
                "computes with %llu thread%s; with mpirun --bind-to none (srun --cpus-per-task N) "
                "it has all%s\n", job_name(), m.cpus, m.cpus_online,
                (unsigned long long)threads, threads == 1 ? "" : "s",
                by_threads ? ", and the last bits of losses depend on --threads" : "");
}

static void say_mem(const struct mem_choice *m)
{
    if (m->fits)
        fprintf(stderr, "siTrain: --mode mem fits, too (memory %s): %s%s written a step, not %s\n",
                SIZE_TEXT(m->memory), m->as_fast ? "as fast or faster, and " : "",
                SIZE_TEXT(m->written), SIZE_TEXT(m->written_own));
}

static void say_sources(const struct training_begins *t)
{
    const struct train_opts *o = t->o;
    double                   rows = (double)o->steps * (double)t->step_rows;

    for (size_t i = 0; i < t->n_sources; i++) {
        const struct training_source *c = &t->sources[i];
        double                      epochs = rows * c->share / (double)c->rows;

        if (t->n_sources > 1)
            say_line(stderr, "siTrain: source %s: %" PRIu64 " tokens, %.4g%% of the rows", c->name,
                     c->tokens, 100 * c->share);
        if (epochs > REPEATED && t->first == 0 && (!t->tunes || c->weighted))
            say_line(stderr, "siTrain: %s is read %.3g times until step %" PRIu64 ": what is "
                     "repeated more than %d times teaches little more (more data, a smaller "
                     "weight in --mix or fewer --steps)", c->name, epochs, o->steps, REPEATED);
    }
}

const char *say_parameters(char *buf, size_t size, const struct model_config *g)
{
    const struct model_config base = lora_base(g);
    double                    all = (double)arch_total(&base), n = (double)lora_trained(g);

    if (g->lora.rank)
        snprintf(buf, size, "trains %.4g of %.4g million parameters (%.2f%%)", n / 1e6, all / 1e6,
                 100 * n / all);
    else
        snprintf(buf, size, "%.4g million parameters", all / 1e6);
    return buf;
}

static void say_training(void *ctx, const struct training_begins *t)
{
    const struct train_opts *o = t->o;
    char beside[64] = "", kept[64], many[96];

    (void)ctx;
    layers = t->config->n_layer;
    progress_begin(t->first, o->steps, o->log_every);
    if (progress_is_quiet())
        return;
    if (t->plan->arenas)
        snprintf(beside, sizeof beside, " and %s of emulated devices", SIZE_TEXT(t->plan->arenas));
    snprintf(kept, sizeof kept, "%zu of %zu layers kept", t->plan->kept, layers);
    if (t->plan->spare)
        snprintf(kept, sizeof kept, "activation placement is chosen during training");
    fprintf(stderr,
            "siTrain: %s, %s%s, %s%llu tokens a step, %s, %s, %llu thread%s%s; "
            "memory %s of %s planned%s, %s\n",
            say_parameters(many, sizeof many, t->config), train_mode_name((size_t)o->mode),
            o->compress > 0 ? " with compressed gradients" : "", t->varies ? "at most " : "",
            (unsigned long long)(o->batch * o->seq * o->grad_accum),
            dtype_name((size_t)o->dtype), t->engine, (unsigned long long)o->threads,
            o->threads == 1 ? "" : "s",
            t->by_threads ? " (the last bits depend on them)" : "", SIZE_TEXT(t->plan->total),
            SIZE_TEXT(t->plan->limit), beside, kept);
    say_sources(t);
    say_binding(o->threads, t->by_threads);
    say_mem(t->mem);
}

static void say_step(void *ctx, const struct training_step *s)
{
    const struct runlog_choice *c = &s->result->choice;

    (void)ctx;
    if (c->layers && !progress_is_quiet())
        progress_line("activations from step %llu on, of %llu layers kept + offloaded: inputs "
                      "%llu + %llu, attentions %llu + %llu, MLPs %llu + %llu (%s: a step took %.3g "
                      "s, %.3g s is expected)", (unsigned long long)s->step + 1,
                      (unsigned long long)c->layers, (unsigned long long)c->kept[0],
                      (unsigned long long)c->offloaded[0], (unsigned long long)c->kept[1],
                      (unsigned long long)c->offloaded[1], (unsigned long long)c->kept[2],
                      (unsigned long long)c->offloaded[2], c->why, c->step_seconds,
                      c->expected_seconds);
    progress_step(s);
}

static void say_evaluation(void *ctx, const struct training_evaluation *e)
{
    char   text[512];
    size_t at = 0;

    (void)ctx;
    for (size_t i = 0; i < e->n && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               fabs(e->value[i].value) < 1e9 ? "  %s %.4f" : "  %s %.4g",
                               e->value[i].name, nan_plain(e->value[i].value));
    if (!progress_is_quiet())
        progress_line("eval after step %llu%s  (%llu %s)%s", (unsigned long long)e->step + 1, text,
                      (unsigned long long)e->count, e->counts, e->best ? "  best so far" : "");
    progress_pause();
}

static void say_streaming(void *ctx, const struct streaming *s)
{
    (void)ctx;
    fprintf(stderr,
            "siTrain generate: the model's %zu blocks do not all fit in memory: each token reads "
            "%zu blocks, %s of parameters; at the measured %s/s, that takes %.3g s per token\n",
            s->blocks, s->streamed, SIZE_TEXT(s->token_bytes),
            SIZE_TEXT(s->byte_second), s->token_bytes / s->byte_second);
}

const struct events say_events = { .notice = say_notice,
                                   .training = say_training,
                                   .step = say_step,
                                   .evaluation = say_evaluation,
                                   .streaming = say_streaming,
                                   .work_begins = progress_work_begins,
                                   .work_goes_on = progress_work_goes_on,
                                   .work_ends = progress_work_ends,
                                   .asked_to_stop = stop_asked,
                                   .stop_waits = stop_waits,
                                   .kill_costs = stop_then };

static const struct events silent_events = { .asked_to_stop = stop_asked };

const struct events *say_events_of_job(void)
{
    return job_speaks() ? &say_events : &silent_events;
}
