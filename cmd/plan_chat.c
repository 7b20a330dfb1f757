/* plan_chat.c: the plan of a fine-tuning on conversations or preferences: finetune's defaults, how
 * many rows there are, and how full batches of them are. */
#include "cmd/plan_chat.h"

#include "cmd/terminal/say.h"
#include "run/sources/chat_folder.h"
#include "run/sources/labelled.h"

/* The first row of each file, and then all. */
static int look(struct chat_look *out, const struct plan_chat *p, const struct train_opts *train,
                struct err *err)
{
    struct chat_template *chat = NULL;
    const struct tune_opts *t = p->tune;
    struct text_list      list[2] = { 0 };
    struct chat_files     f = { .o = p->o, .pairs = p->pairs,
                                .names = pairs_opts_names(p->pairs, p->o, p->columns),
                                .host_mem = train->host_mem,
                                .most_train = t->max_train, .most_eval = t->max_eval };
    const char           *dir = p->folder;
    int                   rc = p->o->date ? chat_date(&f.now, p->o->date, err) : 0;

    rc = rc ? rc : chat_folder_open(&list[0], &f.train, &t->train_file, err);
    rc = rc ? rc : chat_folder_open(&list[1], &f.eval, &t->eval_file, err);
    if (!p->o->date)
        f.now = time(NULL);
    if (!rc && dir && tokenizer_is_there(dir)) {
        rc = chat_template_open(&chat, dir, p->o->template, err);
        f.chat = chat;
        rc = rc ? rc : chat_files_check(&f, err);
    }
    rc = rc ? rc : chat_look(out, &f, dir, train, &say_events, err);
    chat_template_close(chat);
    chat_folder_close(&list[0], &f.train);
    chat_folder_close(&list[1], &f.eval);
    return rc;
}

int plan_chat(struct chat_look *out, struct session *s, const struct plan_chat *p,
              const struct opt_line *line, struct train_opts *train, struct err *err)
{
    if (!opt_given(line, "batch"))
        train->batch = CHAT_BATCH;
    int rc = chat_opts_check(p->o, p->tune, p->columns, train, err);

    if (!rc && p->pairs)
        rc = pairs_opts_check(p->pairs, p->o, train, err);
    rc = rc ? rc : chat_opts_seq(&train->seq, opt_given(line, "seq") ? train->seq
                                                                     : p->tune->max_seq,
                                 &s->config, p->folder, err);
    if (rc)
        return rc;
    s->rows = p->pairs         ? SESSION_PAIRS
              : p->o->packing ? SESSION_PACKED
                              : SESSION_PADDED;
    if (p->pairs)
        s->pairs = pairs_opts_of(p->pairs);
    if (opt_given(line, "dropout"))
        arch_drop(&s->config, (float)train->dropout);
    rc = p->tune->train_file.n ? look(out, p, train, err) : 0;
    if (!rc && !opt_given(line, "steps") && out->epoch)
        train->steps = p->tune->epochs * labelled_epoch_steps(out->epoch, train);
    return rc;
}
