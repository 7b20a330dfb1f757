/* newrun.c: the creation of a run, in the order that makes a kill harmless: folder, run.db.new with
 * the lock, settings, tokenizer, tokens, devices, and last the name run.db (newplace.h). */
#include "cmd/run/newrun.h"

#include "cmd/run/columns.h"
#include "cmd/run/corpus.h"
#include "cmd/run/labelled.h"
#include "cmd/run/labels.h"
#include "cmd/run/newplace.h"
#include "cmd/run/settings.h"
#include "cmd/run/tokenise.h"
#include "cmd/run/training_plan.h"
#include "data/base/machine.h"
#include "data/base/version.h"
#include "model/finite.h"
#include "model/hf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

/* Rows of the larger development set; 0: none. */
static uint64_t dev_rows(const struct newrun *n)
{
    uint64_t most = 0;

    for (size_t i = 0; i < n->n_examples; i++)
        if (!strncmp(n->examples[i].name, "dev", 3) && n->examples[i].rows > most)
            most = n->examples[i].rows;
    return most;
}

/* Refusals that need no folder. Nothing on disk is changed. */
static int check(const struct newrun *n, struct err *err)
{
    uint64_t seq = n->o->seq ? n->o->seq : n->gpt.n_positions;
    int      rc = newplace_check(n->dir, n->o, err);

    if (!rc && n->tokenizer && !tokenise_has_files(n->tokenizer))
        rc = err_misuse(err,
                        "%s: no tokenizer there: tokenizer.json, or vocab.json and merges.txt, is "
                        "expected",
                        n->tokenizer);
    if (!rc && n->o->keep_best && !n->eval_data && !dev_rows(n))
        rc = err_misuse(err, "--keep-best needs something to evaluate on: give %s",
                        n->examples ? "--eval-file FILE" : "--eval-data FILE");
    if (!rc && n->data)
        rc = corpus_check(n->data, n->tokenizer, n->gpt.vocab, seq, n->events, err);
    if (!rc && n->eval_data)
        rc = corpus_check(n->eval_data, n->tokenizer, n->gpt.vocab, seq, n->events, err);
    return rc;
}

/* ---- what the run's row says of where it was made ---- */

static int store_origin(struct session *s, const struct newrun *n, struct err *err)
{
    char           command[4096] = "siTrain", created[32], system[512], cpu[256];
    time_t         now = time(NULL);
    struct tm      tm;
    struct utsname u;
    size_t         at = strlen(command);
    int            rc;

    for (int i = 0; i < n->argc && at < sizeof command - 1; i++)
        at += (size_t)snprintf(command + at, sizeof command - at, " %s", n->argv[i]);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    uname(&u);
    snprintf(system, sizeof system, "%s %s %s", u.sysname, u.release, u.machine);
    machine_cpu(cpu, sizeof cpu);
    const char *const rows[][2] = { { "id", s->id },        { "command", command },
                                    { "created", created }, { "version", SITRAIN_VERSION },
                                    { "host", u.nodename }, { "system", system },
                                    { "cpu", cpu } };

    rc = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
        rc = settings_set(s->log, err, "%s=%s", rows[i][0], rows[i][1]);
    return rc;
}

/* ---- creation ---- */

static int init_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct session *s = ctx;

    (void)err;
    gpt_init_values(out, &s->gpt, block, first, n, s->o.seed);
    return 0;
}

/* A model with another head: all but score.weight is the source's. */
struct new_head {
    const struct session *s;
    struct params_source  body;
};

static int new_head_read(void *ctx, size_t block, size_t first, size_t n, float *out,
                         struct err *err)
{
    const struct new_head   *h = ctx;
    const struct gpt_config *g = &h->s->gpt;
    size_t                   head = block == g->n_layer + 1 ? gpt_offset(g, GPT_SCORE_W) : SIZE_MAX;
    size_t                   old = first >= head ? 0 : n < head - first ? n : head - first;
    int                      rc = old ? h->body.read(h->body.ctx, block, first, old, out, err) : 0;

    if (!rc && old < n)
        gpt_init_values(out + old, g, block, first + old, n - old, h->s->o.seed);
    return rc;
}

static int format_run(struct session *s, const struct newrun *n, struct err *err)
{
    struct params_source source = n->source ? *n->source : (struct params_source){ init_read, s };
    struct new_head      head = { s, source };
    struct hf           *hf = NULL;
    struct finite        init;
    struct watch         w;
    size_t               labels = n->source_labels;
    int                  rc = 0;

    if (n->init) {
        w = work_begin(n->events, "checking %s", n->init);
        rc = hf_open(&hf, n->init, &w, err);
        work_end(n->events);
        if (!rc) {
            init = (struct finite){ hf_source(hf), hf_gpt(hf), n->init };
            source = head.body = finite_source(&init);
            labels = hf_gpt(hf)->n_labels;
        }
    }
    if ((n->init || n->source) && labels != s->gpt.n_labels)
        source = (struct params_source){ new_head_read, &head };
    w = work_begin(n->events, "making the states of %s", n->dir);
    s->run.watch = &w;
    if (!rc)
        rc = run_format(&s->run, &source, err);
    s->run.watch = NULL;
    work_end(n->events);
    hf_close(hf);
    return rc;
}

/* ---- what is read while it is made ---- */

static int add_examples(struct session *s, const struct newrun *n, struct tokenizer *tok,
                        struct err *err)
{
    int rc = settings_set(s->log, err, "task=%s", n->examples[0].task->name);

    if (!rc)
        rc = settings_set(s->log, err, "epochs=%" PRIu64, n->epochs);
    if (!rc)
        rc = columns_store(s, &n->examples[0].read, err);
    for (size_t i = 0; i < n->n_examples && !rc; i++) {
        const struct encode *e = &n->examples[i];
        char                 path[SESSION_PATH + 32];
        uint32_t             sum;

        snprintf(path, sizeof path, "%s/%s.ex", s->dir, e->name);
        rc = encode_file(e, tok, s->o.seq, tokenizer_endoftext(tok), path, &sum, err);
        if (!rc)
            rc = labelled_store(s, e, sum, err);
    }
    return rc;
}

/* The tokenizer into RUN, and what is made with it. */
static int add_tokenizer(struct session *s, const struct newrun *n, struct err *err)
{
    char              path[SESSION_PATH + 16];
    struct tokenizer *tok = NULL;
    int               copied, rc;

    snprintf(path, sizeof path, "%s/tokenizer", s->dir);
    if (mkdir(path, 0777))
        return err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    rc = hf_copy_tokenizer(n->tokenizer, path, &copied, err);
    if (!rc)
        rc = tokenizer_open(&tok, path, err);
    if (rc)
        return rc;
    rc = settings_set(s->log, err, "endoftext=%ld", (long)tokenizer_endoftext(tok));
    if (!rc && n->n_examples)
        rc = add_examples(s, n, tok, err);
    tokenizer_close(tok);
    return rc;
}

/* What else a classifier's folder says: its labels by name, and what it pads with. */
static int store_classifier(struct session *s, const struct newrun *n, struct err *err)
{
    long pad = n->init ? hf_pad(n->init) : -1;
    int  rc = 0;

    if (!n->gpt.n_labels)
        return 0;
    if (n->labels && n->labels->n)
        rc = labels_store(s->log, n->labels, err);
    for (size_t i = 0; i < NEWRUN_NOTICES && !rc; i++)
        if (n->notice[i] && *n->notice[i])
            rc = session_notice(s, n->notice[i], err);
    return rc || pad < 0 ? rc : settings_set(s->log, err, "config.pad=%ld", pad);
}

/* run.db.new with everything in it; closed again, so that one file holds it all. */
static int fill_folder(struct session *s, const struct newrun *n, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc)
        return rc;
    if ((rc = store_origin(s, n, err)) || (rc = session_store_config(s, err)) ||
        (rc = session_store_options(s, err)) || (rc = recipe_store(s, &n->recipe, err)) ||
        (s->spares && (rc = settings_set(s->log, err, "spares=1"))) ||
        (rc = store_classifier(s, n, err)) ||
        (rc = runlog_commit(s->log, err))) {
        runlog_rollback(s->log);
        return rc;
    }
    if (n->tokenizer)
        rc = add_tokenizer(s, n, err);
    if (!rc && n->data)
        rc = corpus_add(s, "data", n->data, err);
    if (!rc && n->eval_data)
        rc = corpus_add(s, "eval", n->eval_data, err);
    return rc ? rc : format_run(s, n, err);
}

int newrun_create(const struct newrun *n, struct err *err)
{
    // options stay the caller's: has_opts is 0
    struct session s = {
        .gpt = n->gpt, .o = *n->o, .spares = n->o->speculate, .events = n->events
    };
    struct newplace    place = { 0 };
    struct run_acts records = { 0 };
    int                rc = check(n, err);

    if (!rc && (n->data || n->n_examples)) { // it is to be trained as it is
        s.o.seq = s.o.seq ? s.o.seq : n->gpt.n_positions;
        s.o.threads = session_threads(s.o.threads);
        s.o.schedule_steps = s.o.schedule_steps ? s.o.schedule_steps : s.o.steps;
        rc = training_check_plan(&s.gpt, &s.o, n->dir, dev_rows(n), &records, err);
    }
    events_kill_costs(n->events, "leaves %s half made, which a new run of that name clears",
                      n->dir);
    if (!rc && !(rc = machine_hex(s.id, sizeof s.id - 1, err)) &&
        !(rc = newplace_claim(&place, &s, n->dir, err)) &&
        !(rc = session_config(&s, err))) {
        s.run.acts = records;
        rc = fill_folder(&s, n, err);
        if (!rc)
            rc = newplace_keep(&s, err);
    }
    if (rc)
        newplace_give_up(&place, &s, n->dir);
    session_close(&s);
    events_kill_costs(n->events, NULL);
    return rc;
}
