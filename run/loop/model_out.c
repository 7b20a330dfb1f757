/* model_out.c: writes a run's model folder: the parameters, and everything else that belongs there.
 * A training has no room for a tokenizer, so the ids that it would give were stored when the run
 * was made. */
#include "run/loop/model_out.h"

#include "model/file/hf.h"
#include "model/lora/adapted.h"
#include "run/folder/settings.h"
#include "run/ranks/gathered.h"
#include "run/texts/tokenise.h"

/* Writes the folder that *x describes, completed by what the run knows. Of a model with adapters:
 * an adapter folder, and unless that is written alone, both. */
static int write_folder(struct hf_export *x, struct session *s, const char *dir, int alone,
                        struct err *err)
{
    struct unadapted bare = { &s->config, x->source };
    char            *base = settings_get(s->log, "lora.base");
    char            *sum = settings_get(s->log, "lora.sum");
    int              adapted = s->config.lora.rank > 0, rc = 0;

    if (adapted) {
        x->base = base ? base : "";
        x->base_sum = sum;
        rc = hf_export_into(dir, x, err);
        x->base = NULL;
        x->config = lora_base(&s->config);
        x->source = unadapted_source(&bare);
    }
    if (!rc && !(adapted && alone))
        rc = hf_export_into(dir, x, err);
    free(base);
    free(sum);
    return rc;
}

int model_out(struct session *s, const struct params_source *source, const char *dir, int alone,
              const char *doing, struct err *err)
{
    struct hf_export x = { .config = s->config, .dtype = ST_F32, .source = *source, .endoftext = -1,
                           .shard_bytes = HF_SHARD_BYTES };
    struct hf_labels labels = { 0 };
    char             tokenizer[SESSION_PATH + 16];
    json_t          *generation = NULL;
    int              rc = session_labels(&labels, s, err);

    rc = rc ? rc : session_generation(&generation, s, err);
    settings_scan(s->log, "%ld", &x.endoftext, "endoftext");
    x.begin = x.endoftext; // runs of older versions have no begintext
    settings_scan(s->log, "%ld", &x.begin, "begintext");
    x.pad = session_pad(s, x.endoftext);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    x.labels = labels.n ? &labels : NULL;
    x.generation = generation;
    if (settings_has(s->log, "tokenizer.files") || tokenizer_is_there(tokenizer))
        x.tokenizer = tokenizer;
    struct watch w = work_begin(s->events, "%s", doing);
    x.watch = &w;
    rc = rc ? rc : session_same_files(s, err);
    rc = rc ? rc : write_folder(&x, s, dir, alone, err);
    work_end(s->events);
    hf_labels_free(&labels);
    json_decref(generation);
    return rc;
}

int model_out_between(struct model_writer *w, struct session *s, struct stream *stream,
                      uint64_t done, struct err *err)
{
    struct params_source own, source, model;
    struct gathered     *g;
    struct packed       *unpacked = NULL;
    struct err           unused;
    int                  rc = s->run.mode == RUN_MEM ? 0 : stream_drain(stream, err);

    w->rc = 0;
    rc = rc ? rc : stream_masters(stream, done, &own, err);
    if (rc)
        return rc;
    rc = gathered_begin(&g, &s->run, &own, &source, err);
    model = source;
    int writes = !rc && !s->ranks.rank;
    if (writes && s->run.packed.end) {
        w->rc = packed_open(&unpacked, &s->config, s->run.wire_dt, PACKED_UNPACKS, &source,
                            &w->why);
        model = w->rc ? source : packed_source(unpacked);
    }
    w->rc = w->rc || !writes ? w->rc : w->write(w->ctx, &model, &w->why);
    packed_close(unpacked);
    int ended = gathered_end(g, rc ? &unused : err);
    rc = rc ? rc : ended;
    ended = stream_masters_end(stream, rc ? &unused : err);
    return rc ? rc : ended;
}
