/* finetune_chat.c: a new run of `siTrain finetune --task chat` or dpo: a language model, its
 * tokenizer and chat template, and files of conversations or preferences. Everything that can be
 * refused is, before anything is made; then the run is made, with its rows encoded in it. */
#include "cmd/finetune_chat.h"

#include "cmd/terminal/line.h"
#include "cmd/terminal/say.h"
#include "cmd/train.h"
#include "data/base/number.h"
#include "model/together.h"
#include "run/folder/run_files.h"
#include "run/sources/row_sources.h"

#include <math.h>

/* What a new run is made from. */
struct material {
    struct model_folder   init;
    struct chat_template *chat;
    struct chat_files     files;
    struct newrun         n;
    json_t               *generation;
    char                  today[64];
};

static int check_source(const struct opt_line *line, struct err *err)
{
    const struct finetune_opts *o = line->options;
    const struct tune_opts     *t = &o->tune;
    int                         rc;

    if (o->data)
        return err_misuse(err, "--data is the folder of a GLUE task: with --task %s give "
                               "--train-file FILE", tune_pairs(t) ? TUNE_DPO : TUNE_CHAT);
    if (!tune_pairs(t) && opt_given_of(line, pairs_opt_rows))
        return err_misuse(err, "--%s is for preferences: give --task dpo, or leave it out",
                          opt_given_of(line, pairs_opt_rows));
    if (!t->train_file.n)
        return err_misuse(err, "--train-file FILE is missing: a file of %s",
                          tune_pairs(t) ? "preferences" : "conversations");
    if ((rc = finetune_check(line, err)))
        return rc;
    if (tune_pairs(t) && (rc = pairs_opts_check(&o->pairs, &o->chat, &o->train, err)))
        return rc;
    return chat_opts_check(&o->chat, t, &o->columns, &o->train, err);
}

static int take_model(struct material *m, struct opt_line *line, struct err *err)
{
    const struct finetune_opts *o = line->options;
    int rc = finetune_init(&m->init, &m->n, err);

    rc = rc ? rc : train_without_head(&m->n.config, o->init, m->n.events, err);
    if (rc)
        return rc;
    rc = lora_opts_begin(&m->n.config, line, &o->train.lora, m->init.adapter ? o->init : NULL, err);
    if (rc)
        return rc;
    if (m->init.hf)
        m->n.init = m->n.base = m->init.base;
    m->n.adapter = m->init.adapter ? o->init : NULL;
    if (!m->init.hf)
        m->n.source = &m->init.source;
    return m->init.hf ? 0 : model_folder_generation(&m->generation, &m->init, err);
}

static int take_rows(struct material *m, struct opt_line *line, struct err *err)
{
    struct finetune_opts *o = line->options;
    const char           *dir = m->n.tokenizer;
    struct chat_files    *f = &m->files;
    int                   rc;

    f->now = time(NULL);
    if (!*dir || !tokenizer_is_there(dir))
        return err_misuse(err, "there is no tokenizer with this model: give --tokenizer DIR");
    if ((rc = chat_opts_seq(&o->train.seq, o->train.seq ? o->train.seq : o->tune.max_seq,
                            &m->n.config, dir, err)) ||
        (rc = o->chat.date ? chat_date(&f->now, o->chat.date, err) : 0) ||
        (rc = chat_template_open(&m->chat, dir, o->chat.template, err)))
        return rc;
    const struct tune_opts *t = &o->tune;

    if ((rc = text_list_make(&f->train, t->train_file.item, t->train_file.n, NULL, err)) ||
        (rc = text_list_make(&f->eval, t->eval_file.item, t->eval_file.n, NULL, err)))
        return rc;
    f->o = &o->chat;
    f->pairs = tune_pairs(&o->tune) ? &o->pairs : NULL;
    f->names = pairs_opts_names(f->pairs, &o->chat, &o->columns);
    f->chat = m->chat;
    f->mix = o->tune.mix;
    f->most_train = o->tune.max_train;
    f->most_eval = o->tune.max_eval;
    f->split = o->tune.split;
    f->host_mem = o->train.host_mem;
    f->epochs = o->tune.epochs;
    f->evaluates_epochs = !opt_given(line, "eval-every");
    return chat_files_check(f, err);
}

/* The day on which rank 0 makes the run. */
static int today(char *out, size_t size, struct comm *comm, struct err *err)
{
    time_t    now = time(NULL);
    uint64_t  year = 0, day = 0; // of rank 0; day: 100 a month
    struct tm tm;

    if (!comm || !comm->rank) {
        localtime_r(&now, &tm);
        year = (uint64_t)tm.tm_year + 1900;
        day = (uint64_t)(tm.tm_mon + 1) * 100 + (uint64_t)tm.tm_mday;
    }
    int rc = together_add(comm, &year, &day, err);

    snprintf(out, size, "%04" PRIu64 "-%02" PRIu64 "-%02" PRIu64, year, day / 100, day % 100);
    return rc;
}

/* Choices that were left to siTrain are kept with the run as if they were given, so that it can be
 * made again, another day, from another folder, and by a version with other defaults. */
static int keep_choices(struct material *m, struct opt_line *line, struct err *err)
{
    static const char *const    of_pairs[] = { "loss", "beta" };
    const struct finetune_opts *o = line->options;

    opt_mark_given(line, "rows");
    opt_mark_given(line, "loss-on");
    opt_mark_given(line, "long-rows");
    for (size_t i = 0; tune_pairs(&o->tune) && i < sizeof of_pairs / sizeof *of_pairs; i++)
        opt_mark_given(line, of_pairs[i]);
    if (chat_template_is_file(m->chat)) {
        char *full = file_real(o->chat.template);
        int   rc = full ? opt_set(line, "chat-template", full, err)
                        : err_set(err, -errno, "open %s: %s", o->chat.template, strerror(errno));

        free(full);
        if (rc)
            return rc;
    }
    if (!opt_given(line, "date")) {
        int rc = today(m->today, sizeof m->today, m->n.comm, err);

        if (rc || (rc = opt_set(line, "date", m->today, err)))
            return rc;
        opt_mark_given(line, "date");
    }
    return chat_date(&m->files.now, o->chat.date, err);
}

/* The options, as far as they are known: how many steps there are is not yet. */
static int check_training(struct train_opts *o, struct err *err)
{
    uint64_t asked = o->steps;

    o->steps = asked ? asked : UINT32_MAX;
    int rc = train_opts_check(o, err);
    o->steps = asked;
    return rc;
}

static int gather(struct material *m, struct opt_line *line, struct err *err)
{
    struct finetune_opts *o = line->options;
    int                   rc;

    if (!opt_given(line, "batch"))
        o->train.batch = CHAT_BATCH;
    rc = check_source(line, err);
    if (!rc && tune_pairs(&o->tune) && !opt_given(line, "lr"))
        rc = opt_set(line, "lr", PAIRS_LR, err);
    if (!rc)
        rc = row_sources_spool(&o->tune, m->n.dir, m->n.comm ? m->n.comm->size : 1, m->n.events,
                               err);
    if (rc || (rc = take_model(m, line, err)) || (rc = take_rows(m, line, err)) ||
        (rc = keep_choices(m, line, err)) || (rc = check_training(&o->train, err)))
        return rc;
    m->n.generation = m->generation;
    m->n.chat = &m->files;
    return 0;
}

int finetune_chat_make(const char *dir, struct opt_line *line, struct comm *comm, struct err *err)
{
    struct finetune_opts *o = line->options;
    struct material       m = { .n = { .dir = dir, .o = &o->train, .line = line, .comm = comm,
                                       .events = say_events_of_job() } };
    int                   rc = gather(&m, line, err);

    rc = rc ? rc : newrun_create(&m.n, err);
    chat_template_close(m.chat);
    text_list_free(&m.files.train);
    text_list_free(&m.files.eval);
    model_folder_close(&m.init);
    json_decref(m.generation);
    return rc;
}

void finetune_chat_print(const struct finetune_results *o)
{
    const struct results      *r = &o->results;
    const struct results_eval *v = &r->eval[0];

    say_line(stdout, "evaluation rows after step %" PRIu64 " of %" PRIu64, o->step + 1,
             r->max_steps);
    if (r->paired) {
        printf("%-8s %8s  %10s  %10s  %10s\n", "", "pairs", "loss", "accuracy", "margin");
        printf("%-8s %8" PRIu64 "  %10.4f  %10.4f  %10.4f\n", run_dev[0], v->samples,
               nan_plain(v->loss), nan_plain(v->rewards[2]), nan_plain(v->rewards[3]));
        return;
    }
    printf("%-8s %8s  %10s  %10s\n", "", "rows", "loss", "perplexity");
    printf("%-8s %8" PRIu64 "  %10.4f  %10.4f\n", run_dev[0], v->samples, nan_plain(v->loss),
           nan_plain(exp(v->loss)));
}
