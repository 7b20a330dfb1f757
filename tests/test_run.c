/* test_run.c: the life of a run through run/sitrain.h alone: made, trained, stopped, gone on
 * with, evaluated, continued; and what is told of it, in which order, with which numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/sitrain.h"
#include "run/sources/corpus.h"
#include "tests/odd_text.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 6, EVERY = 3, SEQ = 16, WORDS = 4000 };

/* ---- who listens ---- */

struct heard {
    char     order[256];   // a letter an event: Training step evaluation notice, ( work )
    double   loss[STEPS];  // of each step,
    double   eval[STEPS];  // and of the evaluation after it
    uint64_t tokens, first;
    int      best, rates;  // evaluations that were the best so far; steps with sensible rates
    int      stop_step;    // stop once this step is over; -1: never
    int      stop_working; // stop within the evaluation after it
    int      working, polls, waits, costs;
    char     notice[512];
};

static void hear(struct heard *h, char letter)
{
    size_t n = strlen(h->order);

    if (n + 1 < sizeof h->order && !(letter == '(' && n && h->order[n - 1] == '('))
        h->order[n] = letter;
}

static void on_notice(void *ctx, const char *sentence)
{
    struct heard *h = ctx;

    hear(h, 'n');
    snprintf(h->notice, sizeof h->notice, "%s", sentence);
}

static void on_training(void *ctx, const struct training_begins *t)
{
    struct heard *h = ctx;

    hear(h, 'T');
    h->first = t->first;
    assert_int_equal(t->config->n_layer, 2);
    assert_true(t->plan->total > 0 && *t->engine);
    assert_int_equal(t->o->steps, STEPS);
}

static void on_step(void *ctx, const struct training_step *s)
{
    struct heard *h = ctx;

    hear(h, 's');
    assert_true(s->step < STEPS);
    h->loss[s->step] = s->result->loss;
    h->tokens += s->result->tokens;
    h->rates += s->rss_peak > 1 << 20 && s->hidden <= 1 && s->result->grad_norm > 0;
    if (h->stop_step == (int)s->step)
        h->polls = -1; // from here on
}

static void on_evaluation(void *ctx, const struct training_evaluation *e)
{
    struct heard *h = ctx;

    hear(h, 'e');
    assert_string_equal(e->value[0].name, "loss");
    assert_string_equal(e->value[1].name, "perplexity");
    assert_string_equal(e->counts, "tokens");
    assert_true(e->count > 0 && fabs(e->value[1].value - exp(e->value[0].value)) < 1e-9);
    h->eval[e->step] = e->value[0].value;
    h->best += e->best;
}

static void on_work(void *ctx, const char *what)
{
    struct heard *h = ctx;

    assert_false(h->working);
    h->working = 1;
    if (!strcmp(what, "evaluating"))
        hear(h, '(');
}

static void on_work_end(void *ctx)
{
    ((struct heard *)ctx)->working = 0;
}

static int on_asked(void *ctx)
{
    const struct heard *h = ctx;

    return h->polls < 0 && (!h->stop_working || h->working);
}

static void on_waits(void *ctx, const char *until, double seconds)
{
    struct heard *h = ctx;

    h->waits += strstr(until, "step") != NULL && seconds >= 0;
}

static void on_costs(void *ctx, const char *what)
{
    struct heard *h = ctx;

    h->costs += what && strstr(what, "--resume");
}

static struct events listening(struct heard *h)
{
    return (struct events){ .ctx = h, .notice = on_notice, .training = on_training,
                            .step = on_step, .evaluation = on_evaluation, .work_begins = on_work,
                            .work_ends = on_work_end, .asked_to_stop = on_asked,
                            .stop_waits = on_waits, .kill_costs = on_costs };
}

/* ---- a run ---- */

static char text[4096], tok[4096];

static void make_text(void)
{
    static char bytes[WORDS * 8];
    const char *path = text;
    struct err  err = { 0 };

    assert_int_equal(chdir(tempdir), 0);
    tempdir_put("text", bytes, word_text(bytes, WORDS));
    snprintf(text, sizeof text, "%s", tempdir_at("text"));
    snprintf(tok, sizeof tok, "%s", tempdir_at("tok"));
    struct tokenise_train t = { .texts = &path, .n = 1, .vocab = 260, .dir = tok };
    assert_int_equal(tokenise_train(&t, NULL, &err), 0);
    assert_int_equal(t.ids, 260);
}

static int make(const char *dir, int mode, const struct events *events, struct err *err)
{
    struct train_opts o;
    const char        *path = text;
    struct corpus_opts corpus = { .data = { &path, 1 }, .eval_data = { &path, 1 } };
    struct newrun     n = { .dir = dir, .o = &o, .tokenizer = tok, .corpus = &corpus,
                            .events = events,
                            .config = arch_config(&gpt2_arch, (struct model_config){
                                .n_layer = 2, .n_head = 2, .n_embd = 16, .vocab = 260,
                                .n_positions = SEQ, .norm_eps = 1e-5f }) };

    assert_int_equal(train_opts_default(&o, err), 0);
    o.mode = mode;
    o.steps = STEPS;
    o.eval_every = EVERY;
    o.batch = 2;
    o.lr = 1e-2;
    o.devices = 2;
    o.device_in_ram = 1;
    o.threads = 1;
    o.keep_best = 1;
    int rc = newrun_create(&n, err);
    train_opts_release(&o);
    return rc;
}

static struct training_end train(const char *dir, const struct events *events)
{
    struct session      s;
    struct training_end end = { 0 };
    struct err          err = { 0 };
    int                 rc = session_open(&s, dir, SESSION_WRITE, events, &err);

    if (!rc)
        rc = training_run(&s, &end, &err);
    session_close(&s);
    if (rc)
        fail_msg("%s", err.text);
    return end;
}

/* Every parameter of the model in dir; freed by the caller. */
static float *parameters(const char *dir, size_t *n)
{
    struct model_folder m;
    struct err          err = { 0 };
    float              *all, *at;

    if (model_folder_open(&m, dir, NULL, MODEL_LAST, NULL, NULL, &err))
        fail_msg("%s", err.text);
    *n = arch_total(&m.config);
    all = at = malloc(*n * sizeof *all);
    for (size_t b = 0; b < arch_blocks(&m.config); at += m.run.block_params[b++])
        assert_int_equal(m.source.read(m.source.ctx, b, 0, m.run.block_params[b], at, &err), 0);
    model_folder_close(&m);
    return all;
}

static void same_parameters(const char *a, const char *b)
{
    size_t n, m;
    float *x = parameters(a, &n), *y = parameters(b, &m);

    assert_int_equal(n, m);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

/* ---- tests ---- */

static void everything_is_told_and_nothing_printed(void **state)
{
    struct heard        h = { .stop_step = -1 };
    struct events       events = listening(&h);
    struct err          err = { 0 };
    struct training_end end;
    FILE               *out = tmpfile();
    int                 kept[2] = { dup(1), dup(2) };

    (void)state;
    make_text();
    fflush(NULL);
    dup2(fileno(out), 1);
    dup2(fileno(out), 2);
    assert_int_equal(make("run", RUN_SUO, &events, &err), 0);
    end = train("run", &events);
    fflush(NULL);
    dup2(kept[0], 1);
    dup2(kept[1], 2);
    assert_int_equal(lseek(fileno(out), 0, SEEK_END), 0);
    fclose(out);

    assert_string_equal(h.order, "Tsss(esss(e");
    assert_int_equal(end.how, TRAINING_DONE);
    assert_int_equal(end.step, STEPS);
    assert_int_equal(h.rates, STEPS);
    assert_int_equal(h.tokens, STEPS * 2 * SEQ);
    assert_int_equal(h.best, 2);
    assert_true(h.loss[STEPS - 1] < h.loss[0] && h.eval[STEPS - 1] < h.eval[EVERY - 1]);
    assert_true(h.waits >= STEPS && h.costs >= STEPS);

    memset(&h, 0, sizeof h);
    end = train("run", &events);
    assert_int_equal(end.how, TRAINING_NOTHING_LEFT);
    assert_int_equal(end.step, STEPS);
    assert_string_equal(h.order, "");

    assert_int_equal(make("run", RUN_SUO, &events, &err), -EINVAL);
    assert_true(err.misuse && strstr(err.text, "run is a run already"));
}

/* Stopped after a step, in an evaluation, and never, with somebody who listens and with nobody. */
static void a_stopped_run_goes_on_to_the_same_bits(void **state)
{
    static const int modes[] = { RUN_MEM, RUN_SUO };
    struct err       err = { 0 };

    (void)state;
    make_text();
    for (size_t m = 0; m < 2; m++) {
        struct heard        whole = { .stop_step = -1 }, h = { .stop_step = 1 };
        struct events       hearing = listening(&whole), stopping = listening(&h);
        struct training_end end;
        char                a[16], b[16];

        snprintf(a, sizeof a, "whole%zu", m);
        snprintf(b, sizeof b, "parts%zu", m);
        assert_int_equal(make(a, modes[m], NULL, &err), 0);
        train(a, &hearing);

        assert_int_equal(make(b, modes[m], NULL, &err), 0);
        end = train(b, &stopping);
        assert_int_equal(end.how, TRAINING_STOPPED);
        assert_int_equal(end.step, 2);
        assert_int_equal(end.steps, STEPS);
        assert_false(end.within_evaluation);
        assert_string_equal(h.order, "Tss");

        memset(h.order, 0, sizeof h.order);
        h.polls = 0;
        h.stop_step = EVERY - 1;
        h.stop_working = 1;
        end = train(b, &stopping);
        assert_int_equal(h.first, 2);
        assert_int_equal(end.how, TRAINING_STOPPED);
        assert_int_equal(end.step, EVERY);
        assert_true(end.within_evaluation);
        assert_string_equal(h.order, "Ts(");

        memset(h.order, 0, sizeof h.order);
        h.polls = 0;
        h.stop_step = -1;
        end = train(b, &stopping);
        assert_int_equal(end.how, TRAINING_DONE);
        assert_string_equal(h.order, "T(esss(e");

        assert_memory_equal(h.loss, whole.loss, sizeof h.loss);
        assert_memory_equal(h.eval, whole.eval, sizeof h.eval);
        same_parameters(a, b);
    }
}

static void a_trained_run_is_evaluated_and_continued(void **state)
{
    struct heard           h = { .stop_step = -1 };
    struct events          events = listening(&h);
    struct read_opts       read;
    const struct sampling  greedy = { .seed = 1 };
    struct model_folder    m;
    struct evaluator       e = { 0 };
    struct generator       g;
    struct session         s;
    struct mixture         data;
    struct token_buf       prompt = { 0 };
    struct err             err = { 0 };
    char                   said[512] = "";
    double                 loss;
    uint64_t               n;

    (void)state;
    make_text();
    assert_int_equal(make("run", RUN_SUO, NULL, &err), 0);
    train("run", &events);

    assert_int_equal(session_open(&s, "run", SESSION_READ, NULL, &err), 0);
    assert_int_equal(corpus_open(&data, &s, "eval", &err), 0);
    session_close(&s);
    assert_int_equal(read_opts_default(&read, &err), 0);
    read.batch = 2;
    read.threads = 1;
    assert_int_equal(model_folder_open(&m, "run", NULL, MODEL_KEPT, NULL, NULL, &err), 0);
    assert_int_equal(model_folder_evaluator(&e, &m, &read, NULL, &err), 0);
    assert_int_equal(evaluate_tokens(&e, &data, 0, &loss, &n, &err), 0);
    assert_true(loss == h.eval[STEPS - 1]);
    evaluator_close(&e);
    model_folder_close(&m);
    mixture_close(&data);

    assert_int_equal(generator_open(&g, "run", MODEL_KEPT, NULL, &read, &greedy, NULL, &err), 0);
    assert_int_equal(tokenizer_encode(g.tok, "the", 3, &prompt, &err), 0);
    assert_int_equal(generator_start(&g, 1, SEQ, prompt.n, &err), 0);
    for (size_t at = 0; prompt.n + at < SEQ; at++) {
        const int32_t *ids = at ? &prompt.ids[0] : prompt.ids;
        size_t         count = at ? 1 : prompt.n, bytes = 0;
        const float   *logits;
        const char    *piece;

        assert_int_equal(generator_feed(&g, &ids, &count, &logits, &err), 0);
        prompt.ids[0] = generator_choose(&g, logits, 0, at, &prompt);
        piece = tokenizer_bytes(g.tok, prompt.ids[0], &bytes);
        snprintf(said + strlen(said), sizeof said - strlen(said), "%.*s", (int)bytes, piece);
    }
    generator_close(&g);
    token_buf_free(&prompt);
    assert_true(strlen(said) >= SEQ / 2);
}

static void what_cannot_be_made_leaves_nothing(void **state)
{
    struct err err = { 0 };

    (void)state;
    make_text();
    tempdir_put("short", "the sea\n", 8);
    snprintf(text, sizeof text, "%s", tempdir_at("short"));
    assert_int_equal(make("run", RUN_SUO, NULL, &err), -EINVAL);
    assert_true(err.misuse && strstr(err.text, "a row of --seq 16 needs 17"));
    assert_int_equal(access("run", F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TEMPDIR(everything_is_told_and_nothing_printed),
        IN_TEMPDIR(a_stopped_run_goes_on_to_the_same_bits),
        IN_TEMPDIR(a_trained_run_is_evaluated_and_continued),
        IN_TEMPDIR(what_cannot_be_made_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
