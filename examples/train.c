/* train.c: a program that has siTrain in it: it makes a small GPT of its own from a text, trains
 * it, and says what it is worth. `make build/examples/train` builds it; run/sitrain.h is where the
 * functions are. TEXT is any file of some ten thousand words, DIR a folder that does not exist. */
#include "run/sitrain.h"

#include <sys/stat.h>

static void say_step(void *ctx, const struct training_step *s)
{
    (void)ctx;
    printf("step %2d: loss %.4f, norm %.3f\n", (int)s->step + 1, s->result->loss,
           s->result->grad_norm);
}

static void say_evaluation(void *ctx, const struct training_evaluation *e)
{
    (void)ctx;
    printf("%s %.4f over %d %s\n", e->value[0].name, e->value[0].value, (int)e->count, e->counts);
}

static int train(const char *text, const char *dir, struct err *err)
{
    struct events       events = { .step = say_step, .evaluation = say_evaluation };
    char                tok[4096], run[4096];
    struct train_opts   o;
    struct session      s;
    struct training_end end;
    int                 rc;

    snprintf(tok, sizeof tok, "%s/tokenizer", dir);
    snprintf(run, sizeof run, "%s/run", dir);
    if (mkdir(dir, 0777))
        return err_misuse(err, "%s: a folder that does not exist is expected", dir);
    struct tokenise_train t = { .texts = &text, .n = 1, .vocab = 320, .dir = tok };
    if ((rc = tokenise_train(&t, &events, err)) ||
        (rc = train_opts_default(&o, err)))
        return rc;
    o.steps = 20;
    o.lr = 1e-3;
    o.seq = 32;
    o.devices = 2; // emulated: folders in the run
    o.eval_every = 10;

    struct corpus_opts corpus = { .data = { &text, 1 }, .eval_data = { &text, 1 } };
    struct newrun n = {
        .dir = run, .o = &o, .tokenizer = tok, .corpus = &corpus, .events = &events,
        .config = arch_config(&gpt2_arch, (struct model_config){
            .n_layer = 2, .n_head = 2, .n_embd = 64, .vocab = t.ids, .n_positions = 64,
            .norm_eps = 1e-5f }),
    };
    rc = newrun_create(&n, err);
    train_opts_release(&o);
    if (rc)
        return rc;
    rc = session_open(&s, run, SESSION_WRITE, &events, err);
    if (!rc)
        rc = training_run(&s, &end, err); // a later program goes on from here with a larger o.steps
    session_close(&s);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = { 0 };

    int        rc = argc == 3 ? train(argv[1], argv[2], &err)
                              : err_misuse(&err, "usage: train TEXT DIR");

    if (rc) // err says something only then
        fprintf(stderr, "%s\n", err.text);
    return rc != 0;
}
