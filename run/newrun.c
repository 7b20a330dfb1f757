/* newrun.c: creates a run. First it makes every check that needs no folder (newrun_check.c). Then
 * it fills the folder (creation.h) in this order: settings, tokenizer, tokens, devices with the
 * initial parameters. */
#include "run/newrun.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "data/base/version.h"
#include "model/file/finite.h"
#include "model/file/peft.h"
#include "model/lora/adapted.h"
#include "run/folder/base_folder.h"
#include "run/folder/creation.h"
#include "run/folder/settings.h"
#include "run/folder/spares.h"
#include "run/loop/training.h"
#include "run/newrun_check.h"
#include "run/ranks/job_run.h"
#include "run/sources/source.h"
#include "run/texts/tokenise.h"

#include <time.h>

/* ---- where it comes from, as run.db stores it (settings.h lists the keys): report --config makes
 * the same run again ---- */

/* Store the command line, the time, the version and the machine that created the run. */
static int store_origin(struct session *s, const struct newrun *n, struct err *err)
{
    char           command[4096] = "siTrain", created[32];
    time_t         now = time(NULL);
    struct machine here;
    struct tm      tm;
    size_t         at = strlen(command);

    for (int i = 0; n->line && i < n->line->argc && at < sizeof command - 1; i++)
        at += (size_t)snprintf(command + at, sizeof command - at, " %s", n->line->argv[i]);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    machine_here(&here);
    int rc = settings_set(s->log, err, "command=%s", command);
    return rc ? rc
              : settings_set(s->log, err,
                             "id=%s\ncreated=%s\nversion=%s\nhost=%s\nsystem=%s\ncpu=%s", s->id,
                             created, SITRAIN_VERSION, here.host, here.system, here.cpu);
}

struct keeping { struct session *s; struct err *err; };

/* The path of a file without links, malloced. "-" (standard input) and a missing file stay as they
 * are. */
static char *real_path(const char *path)
{
    char *full = strcmp(path, "-") ? file_real(path) : NULL;

    return full ? full : strdup(path);
}

static int keep_option(void *ctx, const struct opt_row *row, int given, const char *text)
{
    const struct keeping *k = ctx;
    char                 *full = NULL;

    if (row->kept != OPT_SOURCE || !given)
        return 0;
    if (row->type == OPT_PATH)
        full = file_real(text);
    if (row->type == OPT_FILES && !(full = opt_place_lines(text, real_path)))
        return err_set(k->err, -ENOMEM, "%s: out of memory", k->s->dir);
    int rc = settings_set(k->s->log, k->err, "given.%s=%s", row->name, full ? full : text);
    free(full);
    return rc;
}

/* Store the given options that name the run's inputs. The command import has no --init, so its
 * folder is stored as init. */
static int store_recipe(struct session *s, const struct newrun *n, struct err *err)
{
    static const struct opt_row init = { "init", OPT_PATH, .kept = OPT_SOURCE };
    struct keeping              k = { s, err };
    int                         rc = n->line ? opt_each(n->line, keep_option, &k) : 0;

    if (rc || !n->line || !n->init || opt_row_find(n->line->cmd, "init", 4) >= 0)
        return rc;
    return keep_option(&k, &init, 1, n->init);
}

/* Store a classifier's class names and padding id, and send the notices about its data. */
static int store_classifier(struct session *s, const struct newrun *n, struct err *err)
{
    int  classifies = arch_classifies(&n->config);
    long pad = classifies && n->source ? n->pad : -1;
    int  rc = classifies && n->init ? hf_pad(&pad, n->init, err) : 0;
    char text[768];

    rc = rc || !n->labels || !n->labels->n ? rc : session_store_labels(s, n->labels, err);
    if (!rc && n->notice && *n->notice)
        rc = session_notice(s, err, "%s", n->notice);
    for (int i = 0; i < TASK_FILE_NOTICES && n->examples && !rc; i++) {
        task_file_notice(n->examples, i, text, sizeof text);
        rc = *text ? session_notice(s, err, "%s", text) : 0;
    }
    return rc || pad < 0 ? rc : settings_set(s->log, err, "config.pad=%ld", pad);
}

/* Store a language model's generation_config.json, which `generate` and `export` use. */
static int store_generation(struct session *s, const struct newrun *n, struct err *err)
{
    json_t *generation;
    char   *text;
    long    pad = n->pad;
    int     rc;

    if ((!n->init && !n->generation) || arch_classifies(&n->config))
        return 0;
    rc = n->init ? hf_generation(&generation, n->init, n->config.vocab, err) : 0;
    if (rc)
        return rc;
    if (!n->init)
        generation = json_incref((json_t *)(uintptr_t)n->generation);
    text = json_dumps(generation, JSON_COMPACT);
    rc = text ? settings_set(s->log, err, "config.generation=%s", text)
              : err_set(err, -ENOMEM, "out of memory");
    free(text);
    json_decref(generation);
    rc = rc || !n->init ? rc : hf_pad(&pad, n->init, err);
    if (!rc && pad >= 0)
        rc = settings_set(s->log, err, "config.pad_id=%ld", pad);
    return rc;
}

static int store_spares(struct session *s, struct err *err)
{
    if (s->spares == RUN_SPARES_HALF)
        return 0;
    return settings_set(s->log, err, "spares=%s", s->spares == RUN_SPARES_FEW ? "few" : "1");
}

static int record(struct session *s, const struct newrun *n, struct err *err)
{
    int rc;

    if (s->ranks.size > 1 && (rc = settings_set(s->log, err, "ranks=%zu\nrank=%zu", s->ranks.size,
                                                s->ranks.rank)))
        return rc;
    if ((rc = store_origin(s, n, err)) || (rc = session_store_config(s, err)) ||
        (rc = session_store_options(s, 0, err)) || (rc = store_recipe(s, n, err)) ||
        (rc = store_spares(s, err)) || (rc = store_generation(s, n, err)) ||
        (rc = base_folder_store(s, n->base, err)))
        return rc;
    return store_classifier(s, n, err);
}

/* ---- its parameters ---- */

/* Initial parameters: those of a model, with new values for a head or adapters that it does not
 * have; or, without a model, all new values. */
struct beginning {
    const struct session *s;
    struct params_source  body;
    int                   bare; // an encoder with another kind of head: the whole head is new
};

static int begin_read(void *ctx, size_t block, size_t first, size_t n, float *out, struct err *err)
{
    const struct beginning  *b = ctx;
    const struct model_config *g = &b->s->config;
    size_t head = b->bare && block == arch_final_block(g) ? 0 : arch_score_offset(g, block);
    size_t old = !b->body.read || first >= head ? 0 : n < head - first ? n : head - first;
    int    rc = old ? b->body.read(b->body.ctx, block, first, old, out, err) : 0;

    if (!rc && old < n)
        arch_init_values(out + old, g, block, first + old, n - old, b->s->o.seed);
    return rc;
}

/* Store a checksum of sample values from each block. Each rank reads the initial parameters itself,
 * and job_run_alike compares the checksums. */
static int store_sample(struct session *s, const struct params_source *source, struct err *err)
{
    enum { VALUES = 64 };
    float    values[VALUES];
    uint32_t sum = 0;
    int      rc = 0;

    for (size_t b = 0; b < arch_blocks(&s->config) && !rc; b++) {
        size_t all = arch_block_size(&s->config, b), n = size_min(all - all / 2, VALUES);

        rc = source->read(source->ctx, b, all / 2, n, values, err); // skips norms, which are all 1
        sum = rc ? sum : crc32c(sum, values, n * sizeof *values);
    }
    return rc ? rc : settings_set(s->log, err, "init.sum=%08" PRIx32, sum);
}

/* Stores the checksum of the base, which exported adapters have. */
static int store_base(struct session *s, const struct params_source *source, struct err *err)
{
    char sum[BASE_SUM];
    int  rc = base_sum(sum, &s->config, source, err);

    return rc ? rc : settings_set(s->log, err, "lora.sum=%s", sum);
}

/* What a run begins with, while it is made. */
struct begun {
    struct beginning     new;
    struct params_source source;
    struct hf           *hf;
    struct peft         *adapter;
    struct finite        init;
    struct adapted       adapted; // of new adapters
};

/* Open the folders of the model and of its adapters. */
static int open_begun(struct begun *o, const struct session *s, const struct newrun *n,
                      struct err *err)
{
    struct watch w = work_begin(n->events, "checking %s", n->init);
    int          rc = hf_open(&o->hf, n->init, &w, err);

    if (!rc && n->adapter) {
        struct peft_base base = { hf_source(o->hf), hf_model(o->hf)->n_labels, 0 };

        rc = peft_open(&o->adapter, &s->config, &base, n->adapter, &w, err);
    }
    work_end(n->events);
    if (!rc && n->adapter)
        base_folder_other(n->events, o->adapter, n->adapter, n->init);
    if (rc)
        return rc;
    if (o->adapter)
        o->init = (struct finite){ peft_source(o->adapter), &s->config, n->adapter };
    else
        o->init = (struct finite){ hf_source(o->hf), hf_model(o->hf), n->init };
    o->new.body = finite_source(&o->init);
    return 0;
}

/* Find the initial parameters, by the blocks of the run's model. */
static int find_begun(struct begun *o, struct session *s, const struct newrun *n,
                      struct err *err)
{
    size_t labels = n->source_labels;
    int    headless = 0, rc = n->init ? open_begun(o, s, n, err) : 0;

    if (rc)
        return rc;
    if (n->source)
        o->new.body = *n->source;
    if (o->hf) {
        labels = hf_model(o->hf)->n_labels;
        headless = hf_model(o->hf)->headless != 0;
    }
    if (o->new.body.read && s->config.lora.rank && !o->adapter && !n->adapted) {
        o->adapted = (struct adapted){ &s->config, o->new.body, s->o.seed };
        o->new.body = adapted_source(&o->adapted);
    }
    o->new.bare = s->config.arch->encoder && (headless || !labels != !s->config.n_labels);
    o->source = o->new.body.read && labels == s->config.n_labels && !headless
                    ? o->new.body : (struct params_source){ begin_read, &o->new };
    return 0;
}

static int make_states(struct session *s, const struct newrun *n, struct err *err)
{
    struct begun o = { .new = { .s = s } };
    int           rc = find_begun(&o, s, n, err);

    rc = rc ? rc : base_folder_make(s, n->base, o.hf ? o.hf : n->source_hf, &o.source, err);
    struct watch w = work_begin(n->events, "making the states of %s", n->dir);

    s->run.watch = &w;
    if (!rc && s->ranks.size > 1)
        rc = store_sample(s, &o.source, err);
    if (!rc && s->config.lora.rank && n->base)
        rc = store_base(s, &o.source, err);
    rc = rc ? rc : packed_format(&s->run, &s->config, &o.source, err);
    s->run.watch = NULL;
    work_end(n->events);
    peft_close(o.adapter);
    hf_close(o.hf);
    return rc;
}

/* ---- its folder ---- */

/* Conversations: how many there are is known only now, and may be too much for the memory. */
static int add_chat(struct session *s, const struct newrun *n, struct tokenizer *tok,
                    struct err *err)
{
    struct budget plan;
    int           rc = chat_files_add(s, n->chat, tok, err);

    return rc ? rc : training_plan_here(&plan, s, source_rows(s), err);
}

/* Add the tokenizer to RUN, and the rows that are encoded with it. */
static int add_tokenizer(struct session *s, const struct newrun *n, struct err *err)
{
    char              path[SESSION_PATH + 16], notice[512];
    struct tokenizer *tok = NULL;
    int32_t           pad;
    int               rc;

    snprintf(path, sizeof path, "%s/tokenizer", s->dir);
    if (file_make_folder(path))
        return err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    if ((rc = tokenizer_take(n->tokenizer, path, notice, sizeof notice, err)) ||
        (*notice && (rc = session_notice(s, err, "%s", notice))) ||
        (rc = tokenizer_keep_class(n->tokenizer, path, err)) ||
        (rc = tokenizer_open(&tok, path, err)))
        return rc;
    rc = settings_set(s->log, err, "endoftext=%ld\nbegintext=%ld", (long)tokenizer_endoftext(tok),
                      (long)tokenizer_begin(tok));
    rc = rc ? rc : session_keep_tokenizer(s, tok, err);
    pad = tokenizer_pad(tok, n->config.vocab);
    if (!rc && arch_classifies(&n->config) && !settings_has(s->log, "config.pad") &&
        pad != tokenizer_endoftext(tok)) // the default if nothing is stored
        rc = settings_set(s->log, err, "config.pad=%ld", (long)pad);
    if (!rc && n->n_examples)
        rc = task_files_add(s, n->examples, n->n_examples, n->epochs, tok, err);
    if (!rc && n->chat && n->chat->chat)
        rc = chat_template_keep(n->chat->chat, path, err);
    rc = rc ? rc : session_keep_template(s, err);
    rc = rc ? rc : session_keep_files(s, err);
    if (!rc && n->chat)
        rc = add_chat(s, n, tok, err);
    tokenizer_close(tok);
    return rc;
}

static int add_corpus(struct session *s, const struct corpus_opts *o, struct err *err)
{
    int rc = corpus_add(s, o, err);

    rc = job_run_in_time(s->ranks.comm, rc, err);
    return rc ? rc : corpus_clear_others(s, err);
}

/* Fill the folder, and check that all ranks have read the same data. *has_texts: all texts are
 * there, so that a failure is not theirs. */
static int fill_folder(struct creation *place, struct session *s, const struct newrun *n,
                       int *has_texts, struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc || (rc = runlog_end(s->log, record(s, n, err), err)) ||
        (n->tokenizer && (rc = add_tokenizer(s, n, err))) ||
        (n->corpus && (rc = add_corpus(s, n->corpus, err))))
        return rc;
    *has_texts = 1;
    if ((rc = make_states(s, n, err)))
        return rc;
    place->devices = 1;
    if (s->spares == RUN_SPARES_FEW && s->o.spare_slots == TRAIN_SPARES_AUTO)
        rc = session_notice(s, err, "the drives have little free space, so spare slots are few and "
                            "steps commit more often (--spare-slots)");
    return rc ? rc : job_run_alike(s, err);
}

/* Turn the folder into a run. With several ranks, all folders are completed first, then rank 0's
 * becomes a run. From then on the other ranks' folders are not removed after an error, because
 * job_run_finish completes them. */
static int keep(struct creation *place, struct session *s, struct comm *comm, struct err *err)
{
    int first = s->ranks.rank == 0, rc = creation_close(place, s, err);

    place->kept = !rc && !first;
    if (!rc && comm)
        rc = comm_share(comm, NULL, 0, NULL, err); // wait: all folders are complete
    if (!rc && first)
        rc = creation_name(place, err);
    if (!rc && comm)
        rc = comm_share(comm, NULL, 0, NULL, err); // wait: rank 0's folder is a run
    return rc || first ? rc : creation_name(place, err);
}

/* Check a run with training data before anything is created: make all checks that training would
 * make. *acts: the activations that its devices need room for. */
static int check_training(struct session *s, const struct newrun *n, struct run_acts *acts,
                          struct err *err)
{
    struct budget plan;

    s->o.seq = s->o.seq ? s->o.seq : arch_usual_seq(&n->config);
    s->o.threads = threads_here(s->o.threads);
    s->o.schedule_steps = s->o.schedule_steps ? s->o.schedule_steps : s->o.steps;
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = job_run_groups(s, err);
    rc = rc ? rc : job_run_alike(s, err);
    rc = rc ? rc : session_config(s, err);
    rc = rc ? rc : training_plan_here(&plan, s, newrun_dev_rows(n), err);
    if (!rc && (rc = spares_choose(s, 1, err)) > 0)
        rc = training_plan_here(&plan, s, newrun_dev_rows(n), err);
    *acts = s->run.acts;
    return rc;
}

/* Check a run without training data: only the room for its devices matters. */
static int check_room(struct session *s, const struct newrun *n, struct err *err)
{
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = session_config(s, err);
    rc = rc ? rc : spares_choose(s, 1, err);
    return rc < 0 ? rc : 0;
}

/* Nothing is made. After a stop, when the time of the process is up, and after a call that failed
 * as texts were read, tokens stay for the next process. */
static void give_up(struct creation *place, struct session *s, int has_texts, int rc,
                    struct err *err)
{
    if (!(has_texts ? err_goes_on(rc, err) : tokenise_stays(rc, err)))
        creation_give_up(place, s);
    else if (creation_leave(place, s) && err->stopped)
        err_stopped(err, "stopped; the same command goes on behind the tokens that are left in %s",
                    place->dir);
}

int newrun_create(const struct newrun *n, struct err *err)
{
    // the caller keeps the options: has_opts is 0
    struct session s = { .config = n->config, .o = *n->o, .events = n->events,
                         .ranks = { .comm = n->comm, .size = n->comm ? n->comm->size : 1,
                                    .rank = n->comm ? n->comm->rank : 0 } };
    struct creation    place = CREATION_NONE;
    struct run_acts acts = { 0 };
    int             has_texts = 0, rc = newrun_check(n, err);

    if (n->chat)
        s.rows = n->chat->pairs        ? SESSION_PAIRS
                 : n->chat->o->packing ? SESSION_PACKED
                                       : SESSION_PADDED;
    if (n->chat && n->chat->pairs)
        s.pairs = pairs_opts_of(n->chat->pairs, n->o);
    if (!rc && (newrun_has_data(n) || n->n_examples || n->chat))
        rc = check_training(&s, n, &acts, err);
    else if (!rc)
        rc = check_room(&s, n, err);
    events_kill_costs(n->events, "leaves %s incomplete; the same command then begins anew, or "
                      "goes on behind the tokens that were kept", n->dir);
    if (!rc && !(rc = job_run_id(&s, err)) && !(rc = comm_first_begin(n->comm, err)) &&
        !(rc = creation_claim(&place, &s, n->dir, n->corpus != NULL, err)) &&
        !(rc = comm_first_end(n->comm, err)) &&
        !(rc = newrun_names(&s.o, err)) && !(rc = session_config(&s, err))) {
        s.run.acts = acts;
        s.run.home = place.dir;
        rc = fill_folder(&place, &s, n, &has_texts, err);
        rc = rc ? rc : moved_note(&s.run, err);
        rc = rc ? rc : keep(&place, &s, n->comm, err);
    }
    if (rc)
        give_up(&place, &s, has_texts, rc, err);
    session_close(&s);
    events_kill_costs(n->events, NULL);
    return rc;
}
