/* plan.c: what a run would hold, move and store, before anything is allocated, computed by the same
 * functions that the run itself goes by. */
#include "cmd/cmd.h"
#include "cmd/run/train_opts.h"
#include "cmd/run/labelled.h"
#include "cmd/run/model_choice.h"
#include "cmd/bench/bench.h"
#include "cmd/run/training.h"
#include "cmd/run/wear.h"
#include "cmd/say/say.h"
#include "data/task/task.h"
#include "offload/traffic.h"

#include <libgen.h>

struct plan_opts {
    const char       *config, *run, *data, *eval_data, *tokenizer;
    int               probe;
    struct tune_opts  tune;
    struct task_names columns;
    struct model_opts model;
    struct train_opts train;
};

#define AT(field) offsetof(struct plan_opts, field)

enum { PROBE_ON, PROBE_OFF };
OPT_WORDS(probe_words, [PROBE_ON] = "on", [PROBE_OFF] = "off")

static const struct opt_row rows[] = {
    OPT_CONFIG_ROW(AT(config)),
    { "run", OPT_STRING, AT(run), .arg = "RUN",
      .help = "where it will be made: on that disk the probe works" },
    { "probe", OPT_WORD, AT(probe), "on", probe_words,
      .help = "on: a small model's steps are measured for some seconds, to say how long one takes; "
              "off: no time is said, as where another machine is planned for" },
    { "data", OPT_STRING, AT(data), .arg = "FILE|DIR",
      .help = "accepted, so that pretrain's line can be planned as it is; with --task its folder" },
    { "eval-data", OPT_STRING, AT(eval_data), .arg = "FILE", .help = "the same" },
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR",
      .help = "says how large the vocabulary is" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "A fine-tuning, as finetune has it", tune_rows, AT(tune) },
    { "Rows of one's own", column_rows, AT(columns) },
    { "Model", model_rows, AT(model) },
    { "Training", train_rows, AT(train) },
    { 0 }
};

static void print_model(const struct session *s)
{
    const struct gpt_config *g = &s->gpt;
    const struct train_opts *o = &s->o;
    double                   tokens = (double)(o->batch * o->seq * o->grad_accum);

    printf("Model: %zu layers, %zu heads, %zu wide, %zu words, %zu positions: %.4g million "
           "parameters (M = %.1f MiB)\n", g->n_layer, g->n_head, g->n_embd, g->vocab,
           g->n_positions, (double)gpt_total(g) / 1e6, 2.0 * (double)gpt_total(g) / (1 << 20));
    printf("Step: %" PRIu64 " x %" PRIu64 " x %" PRIu64 " tokens%s, %.1f GFLOP\n", o->grad_accum,
           o->batch, o->seq, g->n_labels ? " at most" : "",
           tokens * gpt_flops_per_token(g, o->seq) / 1e9);
}

static void print_traffic(const struct session *s)
{
    struct link_meter m;
    uint64_t          all = 0, n;
    double            M = 2.0 * (double)gpt_total(&s->gpt);
    // rows of varying length, or layers that the run chooses
    int at_most = s->gpt.n_labels || train_activations[s->o.activations].offload == ACTS_AUTO;

    traffic_computed(&m, &s->run);
    printf("\nTraffic of a step, all devices together (computed)\n");
    for (int l = 0; l < LINK_KINDS; l++)
        for (int k = 0; k < LINK_CLASSES; k++)
            for (int d = 0; d < LINK_DIRS; d++, all |= n)
                if ((n = m.bytes[l][k][d]))
                    printf("  %-8s %-10s %-5s %15" PRIu64 " bytes  %7.3f M%s\n", link_kind_names[l],
                           link_class_names[k], link_dir_names[d], n, (double)n / M,
                           k == CLASS_ACTIVATION && at_most ? ", at most" : "");
    if (!all)
        printf("  none: everything stays in RAM\n");
}

/* What is stored and what is written, and how much of a drive's life that is where --endurance says
 * it. */
static int print_storage(const struct session *s, struct err *err)
{
    double            steps = (double)s->o.steps, endurance = (double)s->o.endurance;
    struct run_memory m;
    struct wear       w;
    char              text[32];
    int               rc = run_memory(&s->run, &m, err);

    rc = rc ? rc : wear_computed(&w, &s->run, err);
    if (rc)
        return rc;
    printf("\nDisk: %s ", opt_size_text(text, sizeof text, (double)m.device_bytes));
    if (s->run.mode == RUN_MEM)
        printf("for the images in RUN\n");
    else
        printf("on %zu device%s\n", s->run.n_devices, s->run.n_devices == 1 ? "" : "s");
    double total = w.total;
    printf("\nWritten to each device in a step (computed, the mean of all)\n");
    for (int k = 0; k < LINK_CLASSES; k++)
        if (w.device[k] > 0)
            printf("  %-10s %18.0f bytes\n", link_class_names[k], w.device[k]);
    printf("  %-10s %18.0f bytes: %s in %.0f steps\n", "all", total,
           opt_size_text(text, sizeof text, total * steps), steps);
    if (w.journal > 0)
        printf("  and about %s in a step to the drive of RUN, for run.db\n",
               opt_size_text(text, sizeof text, w.journal));
    if (endurance > 0)
        printf("  a drive of --endurance %s lasts %.3g million steps; they take %.3g %% of it\n",
               opt_size_text(text, sizeof text, endurance), endurance / total / 1e6,
               100 * total * steps / endurance);
    return 0;
}

/* "3 h 20 min" and the like. */
static const char *duration_text(char *buf, size_t size, double seconds)
{
    unsigned long s = (unsigned long)(seconds + 0.5);

    if (seconds < 60)
        snprintf(buf, size, "%.2g s", seconds);
    else if (s < 3600)
        snprintf(buf, size, "%lu min %lu s", s / 60, s % 60);
    else if (s < 48 * 3600)
        snprintf(buf, size, "%lu h %lu min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, size, "%.1f days", seconds / 86400);
    return buf;
}

/* What cannot be measured is said; a plan is a plan without it. */
static void print_time(const struct session *s, const struct budget *plan, const char *run)
{
    const struct train_opts    *o = &s->o;
    char                       *copy = strdup(run ? run : "RUN"), all[64];
    struct probe                p;
    const struct bench_figures *f = &p.parts;
    struct err                  why = { .text = "out of memory" };
    double                      load = 0;

    fflush(stdout);
    getloadavg(&load, 1);
    if (!copy || probe_step(&p, s, plan, dirname(copy), &why)) {
        printf("\nTime: not measured: %s\n", why.text);
        free(copy);
        return;
    }
    free(copy);
    printf("\nTime (estimated from %zu layer%s with %zu tokens, measured here just now%s)\n",
           p.layers, p.layers == 1 ? "" : "s", p.tokens,
           s->gpt.n_labels ? "; at most: shorter rows take less" : "");
    printf("  a step  %.3g s, %.0f tokens/s: forward %.3g s, backward %.3g s; beside them updates "
           "%.3g s, other traffic %.3g s\n", p.step,
           (double)(o->batch * o->seq * o->grad_accum) / p.step, f->F, f->B, f->U, f->W);
    printf("  %" PRIu64 " steps  %s, without evaluations\n", o->steps,
           duration_text(all, sizeof all, p.step * (double)o->steps));
    if (s->run.csd->usable && s->run.mode != RUN_BASE)
        printf("  Updates are as this processor makes them: no accelerator was asked\n");
    if (load > 1.5 * (double)o->threads)
        printf("  Other programs were at work (a load of %.1f on %" PRIu64 " threads): without "
               "them it takes less\n", load, o->threads);
}

/* Rows of a file, as finetune counts them: of the folder's, or where dir is NULL of one's own. */
static int count_rows(uint64_t *n, const struct plan_opts *o, const struct task *task,
                      const char *dir, const char *file, uint64_t most, struct err *err)
{
    struct labelled_file e = { .task = task, .own = !dir, .labels = 1, .most = most,
                               .asked = o->columns, .events = &say_events };
    int                  rc = labelled_check(&e, dir, file, err);

    *n = e.rows;
    task_names_free(&e.read);
    return rc;
}

/* A fine-tuning: the classes of its head, finetune's defaults, its epochs where --steps does not
 * say otherwise, and the rows of the larger development set, where they are known. */
static int plan_task(struct session *s, uint64_t *evaluated, const struct opt_line *line,
                     struct err *err)
{
    struct plan_opts  *o = line->options;
    struct train_opts *train = &o->train;
    struct tune_opts  *t = &o->tune;
    const struct task *task = t->task ? task_find(t->task) : NULL;
    struct task       *own = NULL;
    uint64_t           rows_there;

    if (t->task && !task)
        return opt_words_refuse("task", t->task, task_word, err);
    int rc = columns_check(&o->columns, !!t->train_file, err);
    for (size_t i = 0; !rc && task && o->data && i < TASK_SPLITS && task->dev[i]; i++) {
        rc = count_rows(&rows_there, o, task, o->data, task->dev[i], 0, err);
        *evaluated = rows_there > *evaluated ? rows_there : *evaluated;
    }
    if (!rc && t->train_file)
        rc = task_own(&own, t->train_file, &o->columns, t->regression, err);
    if (rc || (!task && !own))
        return rc;
    task = task ? task : own;
    s->gpt.n_labels = task->n_labels;
    if (!opt_given(line, "batch"))
        train->batch = 32; // finetune's
    if (!opt_given(line, "steps") && (t->train_file || o->data)) {
        rc = count_rows(&rows_there, o, task, t->train_file ? NULL : o->data,
                        t->train_file ? t->train_file : TASK_TRAIN_FILE, t->max_train, err);
        train->steps = t->epochs * labelled_epoch_steps(rows_there, train);
    }
    task_own_free(own);
    if (opt_given(line, "dropout"))
        s->gpt.drop_embd = s->gpt.drop_attn = s->gpt.drop_resid = (float)train->dropout;
    return rc ? rc : labelled_seq(&train->seq, opt_given(line, "seq") ? train->seq : t->max_seq,
                                  s->gpt.n_positions, err);
}

static int run(struct opt_line *line, struct err *err)
{
    struct plan_opts *o = line->options;
    struct session    s = { .dir = "RUN" };
    struct budget     b;
    char              table[8192];
    uint64_t          evaluated = 0;
    int               rc = train_opts_check(&o->train, err);

    rc = rc ? rc : model_choose(&s.gpt, &o->tokenizer, &o->model, &o->train, err);
    s.gpt.n_labels = 0;
    rc = rc ? rc : plan_task(&s, &evaluated, line, err);
    s.o = o->train;
    s.spares = o->train.speculate;
    if (rc || (rc = session_config(&s, err)))
        goto out;
    rc = training_plan(&b, &s, evaluated, err);
    print_model(&s);
    if (b.n_items) {
        budget_print(&b, table, sizeof table);
        printf("\nMemory\n%s", table);
    }
    if (!rc) {
        print_traffic(&s);
        rc = print_storage(&s, err);
    }
    if (!rc && o->probe == PROBE_ON)
        print_time(&s, &b, o->run);
    fflush(stdout);
out:
    session_close(&s);
    return rc;
}

const struct opt_command plan_command = {
    .name = "plan",
    .usage = "(--init HFDIR | --model NAME | --n-layer N --n-head N --n-embd N) [pretrain's or "
             "finetune's options]",
    .summary = "the memory, the traffic, the disk space and the time of a run, before it is made",
    .text = "With --task or --train-file it is a fine-tuning that is planned, in finetune's "
            "batches and rows. So that finetune's line can be planned as it is, what it says of "
            "rows to evaluate and predict is accepted; nothing depends on it.",
    .parts = parts, .size = sizeof(struct plan_opts), .killed = 1, .run = run,
};
