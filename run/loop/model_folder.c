/* model_folder.c: opens a run, a Hugging Face folder, or an adapter folder as one params_source. */
#include "run/loop/model_folder.h"

#include "data/base/machine.h"
#include "offload/stream/stream_open.h"
#include "run/folder/base_folder.h"
#include "run/folder/settings.h"
#include "run/loop/best.h"
#include "run/ranks/job_run.h"
#include "run/snapshots/snapshots.h"
#include "run/texts/tokenise.h"

#include <strings.h>
#include <unistd.h>

enum { LIVE_TRIES = 40, LIVE_US = 50000 };

/* Opens the adapter in this folder on the source that is open. */
static int open_adapter(struct model_folder *r, const char *path, size_t labels, struct err *err)
{
    struct peft_base base = { r->source, labels, 0 };
    struct watch     w = work_begin(r->events, "checking %s", path);
    int              rc = peft_open(&r->adapter, &r->run.config, &base, path, &w, err);

    work_end(r->events);
    if (!rc)
        r->source = peft_source(r->adapter);
    return rc;
}

/* Opens the model's folder, and the adapter, if `path` is the folder of one. */
static int open_hf(struct model_folder *r, const char *path, const char *base, struct err *err)
{
    int adapter = peft_is_folder(path),
        rc = adapter ? peft_base(r->base, path, base, err) : 0;

    if (!adapter && base)
        return err_misuse(err, "--base is for adapter folders (with adapter_config.json), and "
                          "%.200s is none: leave it out", path);
    if (!adapter)
        snprintf(r->base, sizeof r->base, "%s", path);
    struct watch w = work_begin(r->events, "checking %s", r->base);
    rc = rc ? rc : hf_open(&r->hf, r->base, &w, err);
    work_end(r->events);
    if (rc)
        return rc;
    r->source = hf_source(r->hf);
    r->run.config = *hf_model(r->hf);
    snprintf(r->tokenizer, sizeof r->tokenizer, "%s", adapter && tokenizer_is_there(path)
                                                          ? path : r->base);
    if (adapter && ((rc = peft_config(&r->run.config, path, err)) ||
                    (rc = open_adapter(r, path, hf_model(r->hf)->n_labels, err))))
        return rc;
    if (adapter)
        base_folder_other(r->events, r->adapter, path, r->base);
    return session_config(&r->run, err);
}

static int open_masters(struct model_folder *r, struct err *err)
{
    struct watch w = work_begin(r->events, "checking %s", r->run.dir);

    r->run.run.watch = &w;
    int rc = run_reader(&r->masters, &r->source, &r->run.run, err);
    r->run.run.watch = NULL;
    work_end(r->events);
    if (rc || !r->run.run.packed.end)
        return rc;
    rc = packed_open(&r->unpacked, &r->run.config, r->run.run.wire_dt, PACKED_UNPACKS, &r->source,
                     err);
    r->source = rc ? r->source : packed_source(r->unpacked);
    r->bytes += packed_memory(&r->run.config, r->run.run.wire_dt, PACKED_UNPACKS);
    return rc;
}

/* The blocks of r->best may differ from the run's, if an older version made the run. */
static int take_blocks(struct model_folder *r, struct err *err)
{
    r->run.config.pieces = hf_model(r->best)->pieces;
    return session_config(&r->run, err);
}

/* Takes what a training has answered: a model, with its adapters next to it, if it has any. */
static int take_answer(struct model_folder *r, struct err *err)
{
    int rc = hf_open(&r->best, r->live.path, NULL, err);

    if (rc)
        return rc;
    r->source = hf_source(r->best);
    r->step = r->live.step;
    rc = take_blocks(r, err);
    if (!rc && r->run.config.lora.rank)
        rc = open_adapter(r, r->live.path, hf_model(r->best)->n_labels, err);
    return rc;
}

/* Takes RUN/best. Of a run with adapters it is the adapter alone, and r->source has the model. */
static int open_best(struct model_folder *r, const struct best *b, const char *path,
                     struct err *err)
{
    char *name = settings_get(r->run.log, "best.name"), last[48] = "that is being trained";
    int   rc = best_folder(&r->best, &r->kept, &r->source, b, &r->run, 0, err);

    int   other = r->in_training || r->step != b->step + 1; // than the last model
    if (!r->in_training)
        snprintf(last, sizeof last, "after step %" PRIu64, r->step);
    if (!rc) {
        events_notice(r->events, "%s: the best model is taken, after step %" PRIu64 " (%s %.4f)%s"
                      "%s", path, b->step + 1, name ? name : "", b->value,
                      other ? "; --last takes the one " : ", the last step", other ? last : "");
        r->step = b->step + 1;
        r->source = r->kept ? peft_source(r->kept) : hf_source(r->best);
        rc = r->kept ? 0 : take_blocks(r, err);
    }
    free(name);
    return rc;
}

/* Opens the best model of a run in training. It may be replaced while it is opened. */
static int open_live_best(struct model_folder *r, const char *path, struct err *err)
{
    struct best best;
    int         rc = -EBADMSG;

    for (int i = 0; i < LIVE_TRIES && (rc == -EBADMSG || rc == -ENOENT); i++) {
        if (i)
            usleep(LIVE_US);
        rc = best_load(&best, &r->run, err);
        rc = rc ? rc : open_best(r, &best, path, err);
    }
    return rc;
}

/* Asks the training process for its model. *err has the sentence that says who uses the run.
 * -EAGAIN: nobody does any more. */
static int open_live(struct model_folder *r, const char *path, enum model_which which,
                     struct err *err)
{
    struct err  used = *err;
    struct best best = { 0 };
    int         rc;

    session_close(&r->run);
    if ((rc = session_open(&r->run, path, SESSION_LIVE, r->events, err)) ||
        (rc = best_load(&best, &r->run, err)))
        return rc;
    r->in_training = 1;
    snprintf(r->tokenizer, sizeof r->tokenizer, "%s/tokenizer", r->run.dir);
    int kept = which != MODEL_LAST && best.any;
    if (kept && !r->run.config.lora.rank)
        return open_live_best(r, path, err);
    if (which == MODEL_BEST && !kept)
        return err_misuse(err, "--best: %s has kept no best model yet: leave --best out", path);
    if (r->run.ranks.rank)
        return job_run_part(&r->run, path, err);
    rc = live_ask(&r->live, &r->run, err);
    if (rc == -EBUSY)
        *err = used;
    if (rc || (rc = take_answer(r, err)) || kept)
        return rc ? rc : open_live_best(r, path, err); // the adapter alone is kept
    events_notice(r->events, "%s is being trained: the model after step %" PRIu64 " is taken", path,
                  r->step);
    return 0;
}

static int open_run(struct model_folder *r, const char *path, const char *base_dir,
                    enum model_which which, const char *disk, struct err *err)
{
    struct best best = { 0 };
    uint64_t    applied;
    int         rc = session_open(&r->run, path, SESSION_EITHER, r->events, err);

    for (int i = 0; rc == -EBUSY && i < LIVE_TRIES; i++) {
        if ((rc = open_live(r, path, which, err)) != -EAGAIN)
            return rc;
        session_close(&r->run);
        r->in_training = 0;
        rc = session_open(&r->run, path, SESSION_EITHER, r->events, err);
    }
    rc = rc ? rc : job_run_see(&r->run, path, SESSION_EITHER, err);
    rc = rc ? rc : base_folder_named(&r->run, base_dir, err);
    rc = rc ? rc : best_load(&best, &r->run, err);
    if (rc)
        return rc;
    if ((rc = run_position(&r->run.run, &r->step, &applied, err)))
        return session_explain(&r->run, rc, err);
    snprintf(r->tokenizer, sizeof r->tokenizer, "%s/tokenizer", r->run.dir);
    if (which == MODEL_BEST && !best.any)
        return err_misuse(err, "--best: %s kept no best model, as it would with --keep-best in "
                          "training: leave --best out", path);
    int kept = which != MODEL_LAST && best.any;
    if (kept && !r->run.config.lora.rank)
        return open_best(r, &best, path, err);
    if (which == MODEL_KEPT && !kept && r->run.has_opts && r->run.o.keep_best)
        events_notice(r->events, "%s: --keep-best has no best model yet, since no evaluation has "
                      "given a number so far: the last model is taken, after step %" PRIu64, path,
                      r->step);
    if (disk)
        r->run.run.disk = disk;
    if (!r->adapters_alone && (rc = base_folder_open(&r->run, 0, err)))
        return rc;
    rc = run_reader_memory(&r->run.run, &r->bytes, err);
    rc = rc ? rc : open_masters(r, err);
    if (rc == -EBUSY && !(rc = session_recover(&r->run, err))) // complete an interrupted step
        rc = open_masters(r, err);
    rc = session_explain(&r->run, rc, err);
    return rc || !kept ? rc : open_best(r, &best, path, err);
}

static int open_any(struct model_folder *r, const char *path, const char *base,
                    enum model_which which, const char *disk, struct err *err)
{
    char hint[HF_HINT];
    int  rc;

    memory_baseline();
    if (session_may_be_run(path))
        rc = open_run(r, path, base, which, disk, err);
    else if (peft_is_folder(path) || hf_is_folder(path))
        rc = open_hf(r, path, base, err);
    else if (!(rc = runlog_refuse_begun(path, err)) && !(rc = hf_refuse_other(path, err)))
        rc = err_misuse(err, "%.200s: neither a run (with run.db) nor a Hugging Face folder (with "
                        "config.json) nor an adapter's (with adapter_config.json)%s", path,
                        hf_hub_hint(path, hint));
    r->config = r->run.config;
    r->config.lora.base = QUANT_NONE; // the source has it unpacked
    r->finite = (struct finite){ r->source, &r->run.config, path }; // r->config may be merged
    r->source = finite_source(&r->finite);
    if (!tokenizer_is_there(r->tokenizer))
        *r->tokenizer = '\0';
    return rc;
}

int model_folder_open(struct model_folder *r, const char *path, const char *base,
                      enum model_which which, const char *disk, const struct events *events,
                      struct err *err)
{
    *r = (struct model_folder){ .events = events };
    return open_any(r, path, base, which, disk, err);
}

int model_folder_open_adapters(struct model_folder *r, const char *path, const char *base,
                               enum model_which which, const struct events *events,
                               struct err *err)
{
    *r = (struct model_folder){ .events = events, .adapters_alone = 1 };
    return open_any(r, path, base, which, NULL, err);
}

/* The run may be in training. */
static int find_snapshot(const char **path, uint64_t step, struct err *err)
{
    struct session  s;
    struct snapshot found;
    int             rc = session_open(&s, *path, SESSION_LIVE, NULL, err);

    rc = rc ? rc : snapshots_step(&found, &s, step, err);
    session_close(&s);
    char *at = rc ? NULL : strdup(found.path);
    if (at) {
        free((void *)(uintptr_t)*path);
        *path = at;
    }
    return rc || at ? rc : err_set(err, -ENOMEM, "out of memory for a path");
}

int model_which(enum model_which *out, const char **path, const struct which_opts *o,
                const struct opt_line *line, struct err *err)
{
    int by_step = opt_given(line, "step");

    *out = o->best ? MODEL_BEST : o->last || by_step ? MODEL_LAST : MODEL_KEPT;
    if (o->best && o->last)
        return err_misuse(err, "--best and --last are two models of a run; give one of them");
    if (*out != MODEL_KEPT && !session_may_be_run(*path) &&
        (hf_is_folder(*path) || peft_is_folder(*path)))
        return err_misuse(err, "--%s is for a run, and %s is a folder with one model: leave it out",
                          o->best ? "best" : o->last ? "last" : "step", *path);
    return by_step ? find_snapshot(path, o->step, err) : 0;
}

void model_folder_close(struct model_folder *r)
{
    merged_close(r->merged);
    peft_close(r->kept);
    peft_close(r->adapter);
    packed_close(r->unpacked);
    run_reader_close(r->masters);
    hf_close(r->hf);
    hf_close(r->best);
    live_done(&r->live);
    session_close(&r->run);
    memset(r, 0, sizeof *r);
}

int model_folder_merge(struct model_folder *r, struct err *err)
{
    int rc = r->config.lora.rank ? merged_open(&r->merged, &r->config, &r->source, err) : 0;

    if (rc || !r->merged)
        return rc;
    r->config = lora_base(&r->config);
    r->whole = (struct finite){ merged_source(r->merged), &r->config, r->finite.what };
    r->source = finite_source(&r->whole); // sums of finite values may be too large
    return 0;
}

int model_folder_begin(struct model_folder *r, const char *path, const char *base,
                       const struct events *events, struct err *err)
{
    int rc = model_folder_open(r, path, base, MODEL_LAST, NULL, events, err);

    if (!rc && r->config.lora.rank && !r->adapter)
        events_notice(events, "%s has adapters: they are merged into its model, with which "
                      "training begins", path);
    return rc || r->adapter ? rc : model_folder_merge(r, err);
}

int model_folder_labels(struct hf_labels *out, const struct model_folder *r, const char *path,
                        struct err *err)
{
    int rc = !r->hf ? session_labels(out, &r->run, err)
             : hf_labels(out, r->adapter && hf_is_folder(path) ? path : r->base, err);

    if (!rc && out->n && out->n != r->config.n_labels) // those of an adapter's base
        hf_labels_free(out);
    return rc;
}

int model_folder_dtype(const struct model_folder *r)
{
    return r->run.has_opts ? r->run.o.dtype : DT_BF16;
}

int model_folder_given(const struct model_folder *r, const char *dir, struct err *err)
{
    return dir && *r->tokenizer ? tokenise_same(dir, r->tokenizer, err) : 0;
}

int model_folder_tokenizer(struct tokenizer **out, const struct model_folder *r, const char *dir,
                           struct err *err)
{
    if (!dir && !*r->tokenizer)
        return err_misuse(err, "there is no tokenizer with this model: give --tokenizer DIR");
    int rc = tokenizer_open(out, dir ? dir : r->tokenizer, err);

    if (rc || dir || r->hf || !(rc = session_same_tokenizer(&r->run, *out, err)))
        return rc;
    tokenizer_close(*out);
    *out = NULL;
    return rc;
}

int model_folder_pad(long *pad, const struct model_folder *r, const struct tokenizer *tok,
                     struct err *err)
{
    int rc = r->hf ? hf_pad(pad, r->base, err) : 0;

    if (!r->hf)
        *pad = session_pad(&r->run, tok ? tokenizer_endoftext(tok) : -1);
    if (*pad < 0 && tok && arch_classifies(&r->config))
        *pad = tokenizer_pad(tok, r->config.vocab);
    return rc;
}

int model_folder_generation(json_t **out, const struct model_folder *r, struct err *err)
{
    return r->hf ? hf_generation(out, r->base, r->config.vocab, err)
                 : session_generation(out, &r->run, err);
}

int model_folder_evaluator(struct evaluator *out, const struct model_folder *r,
                           const struct read_opts *o, const struct evaluated *rows,
                           struct err *err)
{
    const struct evaluated whole = { 0 }, *v = rows ? rows : &whole;
    size_t                 seq = o->seq ? o->seq : arch_usual_seq(&r->config);
    enum dtype             dtype = (enum dtype)(o->dtype < 0 ? model_folder_dtype(r) : o->dtype);
    struct trainer_options t = { .model = { .config = r->config,
                                            .batch = o->batch,
                                            .seq = seq,
                                            .grad_accum = 1,
                                            .dtype = dtype,
                                            .engine = (enum matmul_engine)o->blas,
                                            .threads = (int)threads_here(o->threads),
                                            .varying = arch_classifies(&r->config) ||
                                                       v->kind != SESSION_WHOLE,
                                            .paired = v->kind == SESSION_PAIRS },
                                 .pairs = v->pairs };
    struct memory_request  want = {
        .host_mem = o->host_mem, .model = t.model, .reads = &r->run.run, .rows = v->n,
        .source_bytes = r->bytes
    };
    struct budget          plan;

    if (r->masters)
        run_reader_rounded(r->masters, dtype);
    *out = (struct evaluator){ .batch = o->batch, .seq = seq, .grad_accum = 1,
                               .vocab = r->config.vocab, .events = r->events };
    if (seq > r->config.n_positions)
        return err_misuse(err, "--seq %zu: the model has %zu positions", seq,
                          r->config.n_positions);
    int rc = memory_plan(&plan, &want, err);
    rc = rc ? rc : memory_limits(&plan, &want, err);
    rc = rc ? rc
            : stream_read_open(&out->stream, &r->source, &r->run.run.route, r->run.run.unpacked,
                               dtype, plan.frames, err);
    return rc ? rc : trainer_open(&out->trainer, &t, out->stream, err);
}

void evaluator_close(struct evaluator *e)
{
    trainer_close(e->trainer);
    stream_close(e->stream);
    *e = (struct evaluator){ 0 };
}

/* ---- classes ---- */

static void own_order(struct classes *c)
{
    for (size_t i = 0; i < c->config->n_labels; i++)
        c->place[i] = i;
}

int classes_open(struct classes *c, const struct model_folder *r, const char *path, struct err *err)
{
    *c = (struct classes){ .config = &r->config, .body = r->source };
    c->place = calloc(r->config.n_labels + 1, sizeof *c->place);
    if (!c->place)
        return err_set(err, -ENOMEM, "out of memory");
    own_order(c);
    return model_folder_labels(&c->names, r, path, err);
}

void classes_close(struct classes *c)
{
    hf_labels_free(&c->names);
    free(c->place);
    *c = (struct classes){ 0 };
}

int classes_named(const struct classes *c)
{
    for (size_t i = 0; i < c->names.n; i++) {
        char plain[32];

        snprintf(plain, sizeof plain, "LABEL_%zu", i);
        if (strcmp(plain, c->names.name[i]))
            return 1;
    }
    return 0;
}

int classes_match(struct classes *c, const char *const *names, size_t n)
{
    size_t found = 0, k;

    if (!names || n != c->config->n_labels || n != c->names.n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        for (k = 0; k < n && strcasecmp(names[i], c->names.name[k]); k++)
            ;
        c->place[i] = k;
        found += k < n;
    }
    if (found < n)
        own_order(c);
    return found == n;
}

static int read_ordered(void *ctx, size_t block, size_t first, size_t n, float *out,
                        struct err *err)
{
    const struct classes    *c = ctx;
    const struct model_config *g = c->config;
    size_t head = arch_score_offset(g, block), rows = g->n_labels * g->n_embd;
    int    rc = 0;

    while (n > 0 && !rc) {
        size_t from = first, part = first < head && n > head - first ? head - first : n;

        if (first >= head && first - head >= rows) { // the bias: one value per row
            from = head + rows + c->place[first - head - rows];
            part = 1;
        } else if (first >= head) {
            size_t row = (first - head) / g->n_embd, col = (first - head) % g->n_embd;

            from = head + c->place[row] * g->n_embd + col;
            part = g->n_embd - col < n ? g->n_embd - col : n;
        }
        rc = c->body.read(c->body.ctx, block, from, part, out, err);
        first += part;
        out += part;
        n -= part;
    }
    return rc;
}

struct params_source classes_source(const struct classes *c)
{
    return (struct params_source){ read_ordered, (struct classes *)(uintptr_t)c };
}
