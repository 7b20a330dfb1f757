/* eval_chat.c: a language model on files of conversations, whose answers count, or of preferences.
 * How rows are read and encoded is the run's choice (finetune --task chat or dpo), unless options
 * say otherwise. Rewards of preferences need the model that training began with: it speaks first,
 * and is closed before the other one is opened. */
#include "cmd/eval.h"

#include "cmd/terminal/say.h"
#include "data/base/machine.h"
#include "data/base/number.h"
#include "run/folder/settings.h"
#include "run/sources/chat_source.h"
#include "run/sources/chat_files.h"

#include <math.h>

/* ---- what both kinds of rows need ---- */

int eval_scratch(struct file_new *f, char *path, size_t size, struct err *err)
{
    int rc = file_new_scratch(f, P_tmpdir "/sitrain-eval", err);

    if (!rc)
        snprintf(path, size, "%s/rows", f->temp);
    return rc;
}

int eval_finite(double loss, const char *model, struct err *err)
{
    return isfinite(loss) ? 0 : err_set(err, -ERANGE, "%s: its loss is %f, no number: what it "
                                        "computes is too large", model, nan_plain(loss));
}

/* ---- conversations ---- */

struct chatting {
    const struct model_folder *r;
    struct eval_opts          *e;
    struct read_opts           read;
    struct evaluated           rows;
    const char                *dir;   // of tokenizer and template
    struct tokenizer          *tok;
    struct chat_template      *chat;
    struct chat_source        *source;
};

static int is_pairs(const struct chatting *c) { return c->rows.kind == SESSION_PAIRS; }

static int take_given(struct opt_line *line, const struct model_folder *r, const char *name,
                      struct err *err)
{
    char *text = opt_given(line, name) || r->hf ? NULL : settings_get(r->run.log, "given.%s", name);
    int   rc = text && *text ? opt_set(line, name, text, err) : 0;

    free(text);
    return rc;
}

/* The choices of the run. Its template is in its folder already; each file has its own form. */
static int take_choices(struct opt_line *line, const struct model_folder *r, struct err *err)
{
    static const char *const names[] = {
        "loss-on", "special-in-text", "date", "long-rows", "messages-column", "prompt-column",
        "completion-column", "text-column", "chosen-column", "rejected-column", "loss", "beta"
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names && !rc; i++)
        rc = take_given(line, r, names[i], err);
    return rc;
}

/* The options of training that the loss of pairs depends on. */
static struct train_opts train_of(const struct chatting *c)
{
    return (struct train_opts){ .batch = c->read.batch,
                                .label_smoothing = c->r->hf ? 0 : c->r->run.pairs.smoothing };
}

static int refuse_alone(const struct chatting *c, struct err *err)
{
    char *init = c->r->hf ? NULL : settings_get(c->r->run.log, "given.init");
    int   rc = err_misuse(err, "--reference RUN|HFDIR is missing: rewards compare %s with the "
                          "model that its training began with%s%s", c->e->model,
                          init ? ", which was " : "", init ? init : "");

    free(init);
    return rc;
}

static int check(struct chatting *c, const struct opt_line *line, struct err *err)
{
    const struct eval_opts *e = c->e;
    const struct tune_opts  t = { .task = is_pairs(c) ? TUNE_DPO : TUNE_CHAT,
                                  .test_file = e->test_file, .predict = e->predict != NULL,
                                  .max_predict = e->max_predict };
    const struct train_opts train = train_of(c);
    const char             *pairs = opt_given_of(line, pairs_opt_rows);

    if (e->data.n)
        return err_misuse(err, "--data is a text or tokens, and --eval-file has rows: give one of "
                               "them");
    if (!e->eval_files.n)
        return err_misuse(err, "--eval-file FILE is missing: a file of %s",
                          is_pairs(c) ? "preferences" : "conversations");
    if (e->chat.packing || e->chat.by_length)
        return err_misuse(err, "--%s is for training: leave it out",
                          e->chat.packing ? "packing" : "group-by-length");
    if (!is_pairs(c) && (pairs || e->reference))
        return err_misuse(err, "--%s is for preferences: give --task dpo, or leave it out",
                          pairs ? pairs : "reference");
    if (is_pairs(c) && !e->reference)
        return refuse_alone(c, err);
    int rc = chat_opts_check(&e->chat, &t, &e->columns, &train, err);

    return rc || !is_pairs(c) ? rc : pairs_opts_check(&e->pairs, &e->chat, &train, err);
}

static int open_rows(struct chatting *c, const struct chat_files *f, struct err *err)
{
    struct session   made = { .config = c->r->config, .events = &say_events,
                              .o = { .seq = c->read.seq, .threads = c->read.threads } };
    struct file_new  scratch = { 0 };
    struct examples *x = NULL;
    char             path[64];
    int              rc = eval_scratch(&scratch, path, sizeof path, err);

    rc = rc ? rc : chat_files_encode(&x, &made, f, c->tok, c->dir, path, err);
    file_new_abort(&scratch);
    if (rc)
        return rc;
    c->rows.n = x->h.rows;
    return chat_source_of(&c->source, x, c->read.batch, c->read.seq, is_pairs(c), err);
}

static int take_rows(struct chatting *c, struct err *err)
{
    const struct eval_opts *e = c->e;
    const struct chat_opts *o = &e->chat;
    struct chat_files       f = { .o = o, .now = time(NULL),
                                  .pairs = is_pairs(c) ? &e->pairs : NULL,
                                  .most_eval = e->max_eval, .host_mem = c->read.host_mem };
    int                     rc = model_folder_tokenizer(&c->tok, c->r, e->tokenizer, err);

    if (rc || (rc = chat_opts_seq(&c->read.seq, c->read.seq, &c->r->config, c->dir, err)) ||
        (rc = o->date ? chat_date(&f.now, o->date, err) : 0) ||
        (rc = chat_template_open(&c->chat, c->dir, o->template, err)))
        return rc;
    f.names = pairs_opts_names(f.pairs, o, &e->columns);
    f.chat = c->chat;
    rc = text_list_make(&f.eval, e->eval_files.item, e->eval_files.n, NULL, err);
    rc = rc ? rc : chat_files_check(&f, err);
    rc = rc ? rc : open_rows(c, &f, err);
    text_list_free(&f.eval);
    return rc;
}

/* What the reference model says to the rows. It must have the same tokenizer. */
static int refer(struct chatting *c, struct err *err)
{
    struct model_folder ref;
    struct evaluator    by = { 0 };
    const char         *base = peft_is_folder(c->e->reference) ? c->e->read.base : NULL;
    int rc = model_folder_open(&ref, c->e->reference, base, MODEL_LAST, NULL, &say_events, err);

    if (!rc && ref.config.vocab != c->r->config.vocab)
        rc = err_misuse(err, "--reference %s has %zu words, and %s has %zu", c->e->reference,
                        ref.config.vocab, c->e->model, c->r->config.vocab);
    rc = rc ? rc : model_folder_given(&ref, c->dir, err);
    rc = rc ? rc : model_folder_evaluator(&by, &ref, &c->read, &c->rows, err);
    rc = rc ? rc : chat_source_refer(c->source, &by, err);
    evaluator_close(&by);
    model_folder_close(&ref);
    return rc;
}

static void print_result(const struct eval_result *v, int of_pairs)
{
    struct runlog_rewards w = pairs_rewards(&v->pairs, v->tokens);
    const double          of[] = { w.chosen, w.rejected, w.accuracy, w.chosen - w.rejected };

    printf("loss %.6f\n", v->loss_sum);
    if (!of_pairs)
        printf("perplexity %.6f\n", exp(v->loss_sum));
    for (size_t i = 0; of_pairs && i < RESULTS_REWARDS; i++)
        printf("%s %.6f\n", results_rewards[i], nan_plain(of[i]));
}

static int evaluate(struct chatting *c, struct err *err)
{
    struct evaluator   by = { 0 };
    struct eval_result v;
    int                rc = is_pairs(c) ? refer(c, err) : 0;

    rc = rc ? rc : model_folder_evaluator(&by, c->r, &c->read, &c->rows, err);
    rc = rc ? rc : chat_source_evaluate(c->source, &by, 0, &v, err);
    rc = rc ? rc : eval_finite(v.loss_sum, c->e->model, err);
    if (!rc)
        print_result(&v, is_pairs(c));
    evaluator_close(&by);
    return rc;
}

int eval_chat(const struct model_folder *r, struct opt_line *line, struct err *err)
{
    struct eval_opts      *e = line->options;
    const struct tune_opts given = { .task = e->task };
    enum session_rows      run = r->hf ? SESSION_WHOLE : r->run.rows;
    struct chatting        c = { .r = r, .e = e, .read = e->read,
                                 .dir = e->tokenizer ? e->tokenizer : r->tokenizer };
    int                    rc = take_choices(line, r, err);

    c.rows.kind = (e->task ? tune_pairs(&given) : run == SESSION_PAIRS) ? SESSION_PAIRS
                                                                       : SESSION_PADDED;
    c.read.seq = e->max_seq ? e->max_seq : c.read.seq ? c.read.seq
                 : run != SESSION_WHOLE               ? r->run.o.seq
                                                      : 0;
    c.read.threads = threads_here(c.read.threads);
    const struct train_opts train = train_of(&c);
    c.rows.pairs = pairs_opts_of(&e->pairs, &train);
    rc = rc ? rc : check(&c, line, err);
    rc = rc ? rc : take_rows(&c, err);
    rc = rc ? rc : evaluate(&c, err);
    chat_source_close(c.source);
    chat_template_close(c.chat);
    tokenizer_close(c.tok);
    return rc;
}
