/* best.c: makes RUN/best, beside the one that is there, and exchanges the two. */
#include "cmd/run/best.h"

#include "cmd/run/settings.h"
#include "cmd/run/tokenise.h"
#include "data/base/file.h"
#include "model/hf.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#define NEXT "best.next" // an export under way

enum { BEST_PATH = SESSION_PATH + 16 };

int best_load(struct best *out, struct session *s, struct err *err)
{
    *out = (struct best){ 0 };
    out->any = settings_scan(s->log, "%" SCNu64, &out->step, "best.step");
    settings_scan(s->log, "%lf", &out->seconds[0], "best.seconds");
    settings_scan(s->log, "%lf", &out->seconds[1], "best.seconds_mm");
    if (out->any && !settings_scan(s->log, "%lf", &out->value, "best.value"))
        return err_set(err, -EBADMSG, "%s/run.db has best.step, but no best.value", s->dir);
    return 0;
}

int best_store(struct best *b, struct session *s, const struct feed_values *v, struct err *err)
{
    double value = v->told.value[0].value;

    *b = (struct best){ 1, v->told.step, value, { v->seconds[0], v->seconds[1] } };
    return settings_set(s->log, err,
                        "best.step=%" PRIu64 "\nbest.name=%s\nbest.value=%.17g\n"
                        "best.seconds=%.17g\nbest.seconds_mm=%.17g",
                        b->step, v->told.value[0].name, value, v->seconds[0], v->seconds[1]);
}

int best_beats(const struct best *b, const struct feed_values *v)
{
    double value = v->told.value[0].value;

    return !isnan(value) &&
           (!b->any || (v->larger_better ? value > b->value : value < b->value));
}

/* ---- the folder ---- */

void best_clean(const struct session *s)
{
    char path[BEST_PATH];

    snprintf(path, sizeof path, "%s/" NEXT, s->dir); // what is half made is file_new's
    file_remove_tree(path);
    strcat(path, ".old");
    file_remove_tree(path);
}

/* RUN/best.next, then in the place of RUN/best. */
static int write_best(struct session *s, const struct params_source *source, struct err *err)
{
    struct hf_export x = { .config = s->config, .dtype = ST_F32, .source = *source, .endoftext = -1,
                           .begin = -1, .shard_bytes = HF_SHARD_BYTES };
    struct hf_labels labels = { 0 };
    char             best[BEST_PATH], next[BEST_PATH], old[BEST_PATH], tokenizer[BEST_PATH];
    struct watch     w;
    struct stat      st; // of whatever has that name: a link that leads nowhere, too
    json_t          *generation = NULL;
    int              rc = session_labels(&labels, s, err);

    rc = rc ? rc : session_generation(&generation, s, err);
    // stored when the run is made: a tokenizer is larger than what the memory plan has room for
    settings_scan(s->log, "%ld", &x.endoftext, "endoftext");
    x.begin = x.pad = x.endoftext; // as older runs have it, which say no beginning
    settings_scan(s->log, "%ld", &x.begin, "begintext");
    snprintf(best, sizeof best, "%s/best", s->dir);
    snprintf(next, sizeof next, "%s/" NEXT, s->dir);
    snprintf(old, sizeof old, "%s/" NEXT ".old", s->dir);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    x.labels = labels.n ? &labels : NULL;
    x.generation = generation;
    x.tokenizer = tokenise_has_files(tokenizer) ? tokenizer : NULL;
    x.watch = &w;
    w = work_begin(s->events, "writing the best model");
    rc = rc ? rc : hf_export(next, &x, err);
    work_end(s->events);
    hf_labels_free(&labels);
    json_decref(generation);
    if (rc)
        return rc;
    int failed = lstat(best, &st) ? rename(next, best)
                                  : renameat2(AT_FDCWD, next, AT_FDCWD, best, RENAME_EXCHANGE);
    if (failed && errno == EINVAL) // a file system that cannot exchange: for a moment there is none
        failed = rename(best, old) || rename(next, best);
    if (failed)
        return err_set(err, -errno, "rename %s to %s: %s", next, best, strerror(errno));
    return file_sync_dir(s->dir, err);
}

int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err)
{
    struct params_source source;

    best_clean(s);
    int rc = stream_masters(stream, step, &source, err);
    if (rc)
        return rc;
    rc = write_best(s, &source, err);
    if (!rc || rc == -EINTR) { // who stopped it has a step to commit
        struct err why = *err;
        int        ended = stream_masters_end(stream, err);

        if (!ended)
            *err = why;
        rc = ended ? ended : rc;
    }
    best_clean(s);
    return rc;
}
