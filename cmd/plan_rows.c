/* plan_rows.c: the plan of a fine-tuning: finetune's defaults, the model's head, how many rows
 * there are, and how full batches of them are. */
#include "cmd/plan_rows.h"

#include "cmd/terminal/say.h"
#include "data/task/task.h"
#include "run/sources/row_sources.h"

/* ---- conversations, preferences ---- */

static const struct pairs_opts *pairs_of(const struct plan_rows *p)
{
    return tune_pairs(p->tune) ? p->pairs : NULL;
}

/* The first row of each file, and then all. */
static int look(struct rows_look *out, const struct plan_rows *p, const struct train_opts *train,
                struct err *err)
{
    struct chat_template *chat = NULL;
    const struct tune_opts *t = p->tune;
    struct chat_files     f = { .o = p->chat, .split = t->split, .pairs = pairs_of(p),
                                .names = pairs_opts_names(pairs_of(p), p->chat, p->columns),
                                .host_mem = train->host_mem,
                                .most_train = t->max_train, .most_eval = t->max_eval };
    const char           *dir = p->folder;
    int                   rc = p->chat->date ? chat_date(&f.now, p->chat->date, err) : 0;

    rc = rc ? rc : text_list_make(&f.train, t->train_file.item, t->train_file.n, NULL, err);
    rc = rc ? rc : text_list_make(&f.eval, t->eval_file.item, t->eval_file.n, NULL, err);
    if (!p->chat->date)
        f.now = time(NULL);
    if (!rc && dir && tokenizer_is_there(dir)) {
        rc = chat_template_open(&chat, dir, p->chat->template, err);
        f.chat = chat;
        rc = rc ? rc : chat_files_check(&f, err);
    }
    rc = rc ? rc : chat_look(out, &f, dir, train, &say_events, err);
    chat_template_close(chat);
    text_list_free(&f.train);
    text_list_free(&f.eval);
    return rc;
}

static int plan_chat(struct rows_look *out, struct session *s, const struct plan_rows *p,
                     const struct opt_line *line, struct train_opts *train, struct err *err)
{
    const struct pairs_opts *pairs = pairs_of(p);

    if (!opt_given(line, "batch"))
        train->batch = CHAT_BATCH;
    int rc = chat_opts_check(p->chat, p->tune, p->columns, train, err);

    if (!rc && pairs)
        rc = pairs_opts_check(pairs, p->chat, train, err);
    rc = rc ? rc : chat_opts_seq(&train->seq, opt_given(line, "seq") ? train->seq
                                                                     : p->tune->max_seq,
                                 &s->config, p->folder, err);
    if (rc)
        return rc;
    s->rows = pairs              ? SESSION_PAIRS
              : p->chat->packing ? SESSION_PACKED
                                 : SESSION_PADDED;
    if (pairs)
        s->pairs = pairs_opts_of(pairs, train);
    return p->tune->train_file.n ? look(out, p, train, err) : 0;
}

/* ---- labelled rows ---- */

/* Counts the rows of own files or, if there are none, of the task's. The caller frees e->read. */
static int count_rows(struct task_file *e, const struct plan_rows *p, const struct task *task,
                      const struct text_list *own, const char *file, uint64_t most, struct err *err)
{
    *e = (struct task_file){ .task = task, .own = own, .labels = 1, .most = most,
                                 .asked = *p->columns, .split = own ? p->tune->split : 0,
                                 .events = &say_events };
    return task_file_check(e, p->data, file, err);
}

/* out->rows: those of the larger development set, which evaluations hold predictions of. */
static int look_labels(struct rows_look *out, const struct session *s, const struct plan_rows *p,
                       const struct task *task, const struct text_list *own,
                       const struct train_opts *train, struct err *err)
{
    const struct tune_opts *t = p->tune;
    struct task_file    e = { 0 };
    int                     rc = 0;

    if (!own && !p->data)
        return 0;
    for (size_t i = 0; !own && !rc && i < TASK_SPLITS && task->dev[i]; i++) {
        rc = count_rows(&e, p, task, NULL, task->dev[i], 0, err);
        out->rows = size_max(out->rows, e.rows);
        task_names_free(&e.read);
    }
    if (rc)
        return rc;
    rc = count_rows(&e, p, task, own, TASK_TRAIN_FILE, t->max_train, err);
    out->epoch = e.rows;
    rc = rc ? rc : task_files_look(out, &e, p->folder, &s->config, train, err);
    task_names_free(&e.read);
    return rc;
}

static int plan_labels(struct rows_look *out, struct session *s, const struct plan_rows *p,
                       const struct opt_line *line, struct train_opts *train, struct err *err)
{
    const struct tune_opts *t = p->tune;
    const struct task      *task = t->task ? task_find(t->task) : NULL;
    struct task            *own = NULL;
    struct task_names       columns = *p->columns;
    struct text_list         files = { 0 };

    if (t->task && !task)
        return opt_words_refuse("task", t->task, tune_task_word, err);

    if (!t->task && p->data)
        columns.text = NULL; // that of pretrain's rows
    int rc = columns_check(&columns, t->train_file.n > 0, err);
    rc = rc ? rc : text_list_make(&files, t->train_file.item, t->train_file.n, NULL, err);
    if (!rc && files.n)
        rc = task_own(&own, files.item, files.n, p->columns, t->regression, err);
    if (rc || (!task && !own)) {
        text_list_free(&files);
        return rc;
    }
    task = own ? own : task;
    s->config.n_labels = task->n_labels;
    if (!opt_given(line, "batch"))
        train->batch = 32; // finetune's default
    rc = tune_seq(&train->seq, opt_given(line, "seq") ? train->seq : t->max_seq, TUNE_SEQ,
                  s->config.n_positions, p->folder, err);
    rc = rc ? rc : look_labels(out, s, p, task, own ? &files : NULL, train, err);
    text_list_free(&files);
    task_own_free(own);
    return rc;
}

int plan_rows(struct rows_look *out, struct session *s, const struct plan_rows *p,
              const struct opt_line *line, struct train_opts *train, struct err *err)
{
    int rc = p->tune->train_file.n ? row_sources_check(p->tune, err) : 0;

    rc = rc ? rc : (tune_chats(p->tune) ? plan_chat : plan_labels)(out, s, p, line, train, err);

    if (!rc && opt_given(line, "dropout") && (s->rows != SESSION_WHOLE || s->config.n_labels))
        arch_drop(&s->config, (float)train->dropout);
    if (!rc && !opt_given(line, "steps") && out->epoch)
        train->steps = p->tune->epochs * task_files_epoch_steps(out->epoch, train);
    return rc;
}
