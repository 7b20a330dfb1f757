/* plan.c: computes what a run would hold, move and store, before anything is allocated, with the
 * functions that the run itself uses. */
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "cmd/plan_rows.h"
#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "data/task/task.h"
#include "model/file/peft.h"
#include "offload/estimate/traffic.h"
#include "plan/forecast.h"
#include "plan/mem_choice.h"
#include "plan/prediction.h"
#include "plan/snapshots_plan.h"
#include "plan/wear.h"
#include "run/folder/base_folder.h"
#include "run/folder/spares.h"
#include "run/folder/train_opts.h"
#include "run/folder/tune_opts.h"
#include "run/model_opts.h"
#include "run/ranks/job_run.h"
#include "run/sources/corpus.h"
#include "run/sources/masking.h"
#include "run/sources/token_folders.h"

#include <libgen.h>
#include <unistd.h>

struct plan_opts {
    const char       *config, *run, *tokenizer, *machine, *json;
    struct corpus_opts corpus;
    int               probe, compare, traffic;
    uint64_t          ranks, network_bw;
    double            network_latency;
    struct tune_opts  tune;
    struct task_names columns;
    struct chat_opts  chat;
    struct pairs_opts pairs;
    struct model_opts model;
    struct train_opts train;
};

#define AT(field) offsetof(struct plan_opts, field)

enum { PROBE_ON, PROBE_OFF };
OPT_WORDS(probe_words, [PROBE_ON] = "on", [PROBE_OFF] = "off")

static const struct opt_row rows[] = {
    OPT_CONFIG_ROW(AT(config)),
    { "run", OPT_STRING, AT(run), .arg = "RUN",
      .help = "Folder of the planned run. The probe measures its disk." },
    { "probe", OPT_WORD, AT(probe), "on", probe_words,
      .help = "How the time of a step is found\n"
              "on: steps of a small model are measured for some seconds\n"
              "off: no time is given, as for a plan of another machine" },
    { "machine", OPT_PATH, AT(machine), .arg = "FILE",
      .help = "File that describes the machine to predict step times for "
              "(docs/lab/scaling-model.md). siTrain bench --save writes one. Nothing is measured. "
              "--topology, or --link-bw and --csd-..., describe the links." },
    { "compare", OPT_FLAG, AT(compare),
      .help = "Predict every mode that has devices. Requires --machine." },
    { "ranks", OPT_UINT, AT(ranks), "1", .min = 1, .max = 65535,
      .help = "Number of hosts like this one that train together (mpirun -n), 1 to 65535. "
              "Memory, traffic and storage are given for rank 0." },
    { "network-bw", OPT_SIZE, AT(network_bw),
      .help = "Network bandwidth of each rank in each direction, bytes/s, as siTrain bench "
              "network measures it (default: 0, unlimited)" },
    { "network-latency", OPT_DOUBLE, AT(network_latency), "0", .arg = "US",
      .help = "Network latency, in microseconds" },
    { "traffic", OPT_FLAG, AT(traffic),
      .help = "Print the bytes per step that cross each link and that are written, by class; with "
              "--snapshot-every, also those of a snapshot" },
    { "json", OPT_STRING, AT(json), .arg = "FILE",
      .help = "File for the prediction as JSON (-: stdout, instead of the plan). Only such a "
              "file is replaced." },
    { "data", OPT_FILES, AT(corpus.data), .arg = "FILE|DIR", .max = CORPUS_MOST,
      .help = "Training data, or folder of --task. The plan does not depend on it, but plan "
              "refuses data that pretrain refuses by their beginning." },
    { "mix", OPT_STRING, AT(corpus.mix), .arg = "WEIGHT,..",
      .help = "Weights of several --data or --train-file. The plan does not depend on them." },
    { "eval-data", OPT_FILES, AT(corpus.eval_data), .arg = "FILE|DIR", .max = CORPUS_MOST,
      .help = "Evaluation data, as --data" },
    OPT_DATA_FORMAT_ROW(AT(corpus.format)),
    { "tokenizer", OPT_STRING, AT(tokenizer), .arg = "DIR", .file = OPT_FILES_TOKENIZER,
      .help = "Tokenizer folder, which gives the vocabulary size" },
    { 0 }
};
static const struct opt_part parts[] = {
    { "Options", rows, 0 },
    { "Fine-tuning", tune_rows, AT(tune) },
    { "Your own rows", column_rows, AT(columns) },
    { "Conversations", chat_opt_rows, AT(chat) },
    { "Preferences", pairs_opt_rows, AT(pairs) },
    { "Model", model_rows, AT(model) },
    { "Training", train_rows, AT(train) },
    { "Adapters (LoRA)", lora_rows, AT(train.lora) },
    { 0 }
};

static void print_model(const struct session *s)
{
    const struct model_config *g = &s->config;
    const struct train_opts *o = &s->o;
    double                   tokens = (double)(o->batch * o->seq * o->grad_accum);
    char                     many[96];

    printf("Model: %zu layers, %zu heads, %zu wide, %zu words, %zu positions: %s (M = %.1f MiB)\n",
           g->n_layer, g->n_head, g->n_embd, g->vocab, g->n_positions,
           say_parameters(many, sizeof many, g), 2.0 * (double)arch_total(g) / (1 << 20));
    printf("Step: %" PRIu64 " x %" PRIu64 " x %" PRIu64 " tokens%s, %.1f GFLOP\n", o->grad_accum,
           o->batch, o->seq, training_varies(s) ? " at most" : "",
           tokens * arch_flops_per_token(g, o->seq, train_opts_asked(o, g)) / 1e9);
    if (s->ranks.size > 1)
        printf("Ranks: %zu; each computes %" PRIu64 " of these micro-batches and holds its portion "
               "of every block\n", s->ranks.size, o->grad_accum / s->ranks.size);
}

static void print_meter(const struct link_meter *m, double M, const char *note, uint64_t *all)
{
    uint64_t n;

    for (int l = 0; l < LINK_KINDS; l++)
        for (int k = 0; k < LINK_CLASSES; k++)
            for (int d = 0; d < LINK_DIRS; d++, *all |= n)
                if ((n = m->bytes[l][k][d]))
                    printf("  %-8s %-10s %-5s %15" PRIu64 " bytes  %7.3f M%s\n", link_kind_names[l],
                           link_class_names[k], link_dir_names[d], n, (double)n / M,
                           k == CLASS_ACTIVATION ? note : "");
}

static int print_traffic(const struct session *s, struct err *err)
{
    struct snapshots_plan p;
    struct link_meter m;
    uint64_t          all = 0;
    double            M = 2.0 * (double)arch_total(&s->config);
    const char *note = train_activations[s->o.activations].adapts ? ", as predicted"
                       : training_varies(s) ? ", at most" : ""; // rows of varying length

    traffic_computed(&m, &s->run);
    printf("\nTraffic of a step, all devices together%s (computed)\n",
           s->ranks.size > 1 ? ", of the first rank" : "");
    print_meter(&m, M, note, &all);
    if (!all)
        printf("  none: everything stays in RAM\n");
    int rc = snapshots_plan(&p, s, err);
    if (!rc && p.every) {
        printf("Moved for one snapshot, every %" PRIu64 " steps\n", p.every);
        print_meter(&p.moved, M, note, &all);
    }
    return rc;
}

static int print_written(const struct session *s, struct err *err)
{
    struct wear w;
    int         rc = snapshots_plan_wear(&w, s, err);

    if (rc)
        return rc;
    printf("\nWritten to each device in a step (computed, the mean of all)\n");
    for (int k = 0; k < LINK_CLASSES; k++)
        if (w.device[k] > 0)
            printf("  %-10s %18.0f bytes\n", link_class_names[k], w.device[k]);
    printf("  %-10s %18.0f bytes\n", "all", w.total);
    if (w.act_device > 0)
        printf("  and %.0f bytes of activations to each --act-device\n", w.act_device);
    if (w.journal > 0)
        printf("  and about %s in a step to the drive of RUN, for run.db\n", SIZE_TEXT(w.journal));
    return 0;
}

/* ---- the machine ---- */

/* Returns how many devices share a drive at most. *disk: free bytes on all drives together, or 0 if
 * a drive does not say. */
static size_t drives_look(const struct session *s, uint64_t *disk)
{
    size_t   n = s->run.n_devices, most = 1;
    uint64_t least = UINT64_MAX, has;
    int      own;

    for (size_t i = 0; i < n; i++) {
        size_t same = size_max(spares_room(s, i, &has, &own), 1);

        most = same > most ? same : most;
        least = has / same < least ? has / same : least;
    }
    *disk = least * n;
    return most;
}

/* Reads the machine of --machine, or measures this one. Returns 1 if that failed: a sentence says
 * so, and the plan has no times. With --json, which has nothing but times, it is an error. */
static int machine_find(struct machine_file *m, const struct session *s, const struct plan_opts *o,
                        struct err *err)
{
    char      *copy;
    struct err why = { .text = "out of memory" };

    if (o->machine)
        return machine_file_read(m, o->machine, err);
    copy = strdup(o->run ? o->run : "RUN");
    struct watch w = work_begin(&say_events, "measuring how fast this machine is");
    int rc = copy ? probe_machine(m, s, dirname(copy), &w, &why) : -ENOMEM;
    work_end(&say_events);
    free(copy);
    if (why.stopped) {
        *err = why;
        return rc;
    }
    if (rc && o->json)
        return err_set(err, -EIO, "--json prints the time of a step, which could not be measured: "
                       "%s", why.text);
    if (rc)
        printf("Time: not measured: %s\n", why.text);
    return !!rc;
}

static void load_note(const struct session *s)
{
    const struct train_opts *o = &s->o;
    double                   load = 0;

    getloadavg(&load, 1);
    if (load > 1.5 * (double)o->threads)
        printf("  Others are at work (a load of %.1f on %" PRIu64 " threads): without them it "
               "takes less\n", load, o->threads);
    if (s->run.csd->usable && s->run.mode != RUN_BASE)
        printf("  Updates are as this processor makes them: no accelerator was asked\n");
}

/* Predicts a step's time. *out stays NULL if that could not be measured. */
static int time_find(json_t **out, const struct session *s, const struct plan_opts *o,
                     const struct mem_choice *mem, const struct rows_look *look, struct err *err)
{
    struct machine_file    *file = calloc(1, sizeof *file);
    struct forecast_machine m = { .m = file, .network = (double)o->network_bw,
                                  .latency = o->network_latency * 1e-6 };
    uint64_t                disk;
    int rc = file ? machine_find(file, s, o, err) : err_set(err, -ENOMEM, "out of memory");

    if (!rc) {
        m.sharers = drives_look(s, &disk);
        m.base_beside = spares_base_beside(s);
        rc = prediction_of(out, s, &m, o->compare, err);
        rc = rc || o->compare ? rc : prediction_add_step(*out, s, &m, mem, disk, err);
        if (!rc && !o->compare && look->filled > 0)
            rc = prediction_add_rows(*out, s, &m, look->computed, look->filled, err);
    }
    free(file);
    return rc > 0 ? 0 : rc;
}

/* Checks where --json is to be written; with `found`, writes it. */
static int json_file(const struct plan_opts *o, const json_t *found, struct err *err)
{
    const char *const inputs[] = { o->config, o->run, opt_first(&o->corpus.data),
                                   opt_first(&o->corpus.eval_data), o->tokenizer, o->machine,
                                   o->model.init, opt_first(&o->tune.train_file),
                                   opt_first(&o->tune.eval_file), o->tune.test_file,
                                   o->train.topology, o->train.xclbin };
    const struct output file = { o->json, OUTPUT_PLAN, inputs, sizeof inputs / sizeof *inputs };

    if (!o->json || !strcmp(o->json, "-"))
        return 0;
    if (!found)
        return output_check(&file, err);
    char *text = json_written(found, JSON_INDENT(2) | JSON_FIGURES);
    int   rc = text ? output_put(&file, text, strlen(text), err)
                    : err_set(err, -ENOMEM, "no memory to write %s as JSON", o->json);
    free(text);
    return rc;
}

static int time_say(const json_t *found, const struct session *s, const struct plan_opts *o,
                    struct err *err)
{
    if (o->json && !strcmp(o->json, "-")) {
        say_json(found, JSON_FIGURES);
        return 0;
    }
    (o->compare ? plan_modes_print : plan_step_print)(found);
    if (s->run.n_act_devices)
        printf("  Drives of --act-device were not measured: they count as fast as the last drive "
               "that\n  was, or as a topology says where that is slower\n");
    if (!o->machine)
        load_note(s);
    return json_file(o, found, err);
}

/* Refuses data that pretrain would refuse, if the files exist. */
static int files_check(const struct plan_opts *o, const struct corpus_opts *all, size_t vocab,
                       struct err *err)
{
    const struct opt_strings *sets[] = { &all->data, &all->eval_data };
    struct corpus_opts        texts = *all;
    unsigned                  width;
    int                       rc = 0;

    texts.column = o->columns.text;
    for (int k = 0; k < 2 && !o->tune.task; k++)
        for (size_t i = 0; i < sets[k]->n && !rc; i++)
            if (!access(sets[k]->item[i], F_OK)) {
                rc = corpus_detect(sets[k]->item[i], (enum tokens_format)o->corpus.format, vocab,
                                   &width, &say_events, err);
                if (!rc && !width)
                    rc = corpus_check_text(sets[k]->item[i], &texts, err);
            }
    return rc;
}

static int data_check(const struct plan_opts *o, size_t vocab, struct err *err)
{
    struct token_folders *folders = NULL;
    struct corpus_opts    all;
    int rc = o->tune.task || o->tune.train_file.n
                 ? 0 : token_folders_open(&folders, &all, &o->corpus, err);

    if (!rc && folders)
        rc = files_check(o, &all, vocab, err);
    token_folders_close(folders);
    return rc;
}

static int machine_check(const struct plan_opts *o, struct err *err)
{
    if (!o->machine && o->compare)
        return err_misuse(err, "--compare needs --machine FILE, which describes the machine");
    if (!o->machine && o->probe == PROBE_OFF && o->json)
        return err_misuse(err, "--json prints the time of a step, and --probe off does not measure "
                               "it: leave one of them out, or give --machine FILE");
    if (o->ranks < 2 && (o->network_bw || o->network_latency > 0))
        return err_misuse(err, "--network-bw and --network-latency are between ranks: give --ranks "
                               "N, 2 or more");
    return json_file(o, NULL, err);
}

/* Takes the prediction's choice, for --activations auto. 0: it has none. */
static int acts_take(struct session *s, const json_t *found)
{
    const json_t *acts = json_object_get(found, "activations");

    if (acts) {
        s->run.acts.written = (uint64_t)json_num(acts, "bytes_written");
        s->run.acts.read = (uint64_t)json_num(acts, "bytes_read");
    }
    return !!acts;
}

/* Prints the answer and its origin. predicted: it is known what a run will offload. */
static int print_plan(const struct session *s, const struct plan_opts *o, const struct budget *b,
                      const struct mem_choice *mem, const json_t *found, int predicted,
                      struct err *err)
{
    int rc = plan_answer_print(s, b, mem, found, err);

    if (rc)
        return rc;
    if (!predicted && s->run.acts.buffers && train_activations[s->o.activations].adapts)
        printf("  Activations that it will choose to offload are not in what is written: with\n"
               "  --machine FILE, or measured, they are predicted\n");
    putchar('\n');
    print_model(s);
    rc = found ? time_say(found, s, o, err) : 0;
    if (rc || !o->traffic)
        return rc;
    rc = print_traffic(s, err);
    return rc ? rc : print_written(s, err);
}

static void print_memory(const struct budget *b)
{
    char table[8192];

    if (!b->n_items)
        return;
    budget_print(b, table, sizeof table);
    printf("\nMemory\n%s", table);
}

/* Opens the folder of a base in place, whose number formats decide how many bytes a step reads. */
static int plan_base(struct session *s, const struct plan_opts *o, struct err *err)
{
    char        dir[HF_PATH_BYTES];
    const char *adapter;

    if (!s->o.lora.in_place || (!o->model.init && o->model.model)) // a named model: as --dtype
        return 0;
    int rc = model_init(dir, &adapter, &o->model, err);

    rc = rc ? rc : base_folder_refuse(&s->o.lora, *dir && !session_is_run(dir) ? dir : NULL, err);
    rc = rc ? rc : base_folder_look(s, dir, err);
    return rc ? rc : session_config(s, err);
}

static int run(struct opt_line *line, struct err *err)
{
    struct plan_opts *o = line->options;
    struct session    s = { 0 };
    struct budget     b = { .n_items = 0 };
    struct mem_choice mem = { 0 };
    json_t           *found = NULL;
    struct rows_look  look = { 0 };
    int               here = o->probe == PROBE_ON && !o->machine; // the run will be made here
    int               rc = machine_check(o, err);

    rc = rc ? rc : train_opts_check(&o->train, err);
    if (!o->tune.task && !o->tune.train_file.n) // the plan of a pretraining
        rc = rc ? rc : model_folder_only(&o->model, err);
    rc = rc ? rc : model_choose(&s.config, &o->tokenizer, &o->model, &o->train, err);
    s.config.n_labels = 0;
    o->tune.mix = o->corpus.mix;
    struct plan_rows of_rows = { &o->tune, &o->columns, &o->chat, &o->pairs,
                                 opt_first(&o->corpus.data),
                                 o->tokenizer ? o->tokenizer : o->model.init };
    rc = rc ? rc : data_check(o, s.config.vocab, err);
    rc = rc ? rc : plan_rows(&look, &s, &of_rows, line, &o->train, err);
    const char *adapter = o->model.init && peft_is_folder(o->model.init) ? o->model.init : NULL;
    rc = rc ? rc : lora_opts_begin(&s.config, line, &o->train.lora, adapter, err);
    rc = rc ? rc : arch_check_head(&s.config, err);
    rc = rc ? rc : masking_opts_check(line, &o->train.mask, &s.config, err);
    s.o = o->train;
    s.ranks = (struct run_ranks){ .size = o->ranks };
    snprintf(s.dir, sizeof s.dir, "%s", o->run ? o->run : "RUN");
    if (rc || (rc = job_run_groups(&s, err)) || (rc = session_config(&s, err)))
        goto out;
    if ((rc = plan_base(&s, o, err)))
        goto out;
    int only_json = o->json && !strcmp(o->json, "-");
    int refused = training_plan(&b, &s, look.rows, err);
    if (!refused && (refused = spares_choose(&s, here, err)) > 0)
        refused = training_plan(&b, &s, look.rows, err);
    if (!refused)
        mem_choice_make(&mem, &s, &b, look.rows);
    // refuse files before anything is printed
    if (!refused && (o->machine || o->probe == PROBE_ON))
        rc = time_find(&found, &s, o, &mem, &look, err);
    int predicted = acts_take(&s, found);
    if (!rc && only_json && found)
        rc = time_say(found, &s, o, err);
    else if (!rc && !only_json && refused)
        print_model(&s);
    else if (!rc && !only_json)
        rc = print_plan(&s, o, &b, &mem, found, predicted, err);
    if (!rc && !only_json)
        print_memory(&b);
    rc = rc ? rc : refused;
    fflush(stdout);
out:
    json_decref(found);
    session_close(&s);
    return rc;
}

const struct opt_command plan_command = {
    .name = "plan",
    .usage = "(--init HFDIR|RUN | --model NAME [sizes] | --n-layer N --n-head N --n-embd N) "
             "[pretrain's or finetune's options]",
    .summary = "predict memory, traffic, disk space and time of a run before it is made",
    .text = "With --task or --train-file, the plan is of a fine-tuning, with finetune's rows and "
            "defaults. finetune's options for evaluation and prediction are accepted; the plan "
            "does not depend on them.",
    .parts = parts, .size = sizeof(struct plan_opts), .killed = 1, .run = run,
    .examples = { "siTrain plan --model gpt2-xl --devices 4 --host-mem 8G",
                  "siTrain plan --init path/to/gpt2 --train-file mine.csv" },
};
