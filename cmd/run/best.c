/* best.c: makes RUN/best, beside the one that is there, and exchanges the two. */
#include "cmd/run/best.h"

#include "cmd/run/labels.h"
#include "cmd/run/settings.h"
#include "cmd/run/tokenise.h"
#include "data/base/file.h"
#include "data/text/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NEXT "best.next" // and what begins with it: an export under way

enum { BEST_PATH = SESSION_PATH + 300 };

void best_path(const struct session *s, char *path, size_t size)
{
    snprintf(path, size, "%s/best", s->dir);
}

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

int best_store(struct best *b, struct session *s, uint64_t step, const struct feed_values *v,
               struct err *err)
{
    int rc;

    if ((rc = settings_set(s->log, err, "best.step=%" PRIu64, step)) ||
        (rc = settings_set(s->log, err, "best.name=%s", v->value[0].name)) ||
        (rc = settings_set(s->log, err, "best.value=%.17g", v->value[0].value)) ||
        (rc = settings_set(s->log, err, "best.seconds=%.17g", v->seconds[0])) ||
        (rc = settings_set(s->log, err, "best.seconds_mm=%.17g", v->seconds[1])))
        return rc;
    *b = (struct best){ 1, step, v->value[0].value, { v->seconds[0], v->seconds[1] } };
    return 0;
}

int best_beats(const struct best *b, const struct feed_values *v)
{
    double value = v->value[0].value;

    if (isnan(value))
        return 0;
    return !b->any || (v->larger_better ? value > b->value : value < b->value);
}

/* ---- the folder ---- */

void best_clean(const struct session *s)
{
    DIR           *d = opendir(s->dir);
    struct dirent *e;
    char           path[BEST_PATH];

    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, NEXT, strlen(NEXT)))
            continue;
        snprintf(path, sizeof path, "%s/%s", s->dir, e->d_name);
        file_remove_tree(path);
    }
    if (d)
        closedir(d);
}

/* RUN/best.next becomes RUN/best; the old one, if there is one, gets the other name. */
static int take_place(const struct session *s, struct err *err)
{
    char        next[BEST_PATH], best[BEST_PATH], old[BEST_PATH];
    struct stat st; // of whatever has that name: a link that leads nowhere, too
    int         failed;

    snprintf(next, sizeof next, "%s/" NEXT, s->dir);
    snprintf(old, sizeof old, "%s/" NEXT ".old", s->dir);
    best_path(s, best, sizeof best);
    failed = lstat(best, &st) ? rename(next, best)
                              : renameat2(AT_FDCWD, next, AT_FDCWD, best, RENAME_EXCHANGE);
    if (failed && errno == EINVAL) // a file system that cannot exchange: for a moment there is none
        failed = rename(best, old) || rename(next, best);
    if (failed)
        return err_set(err, -errno, "rename %s to %s: %s", next, best, strerror(errno));
    return file_sync_dir(s->dir, err);
}

static int write_next(struct session *s, const struct params_source *source, struct err *err)
{
    struct hf_export x = { .gpt = s->gpt, .dtype = ST_F32, .source = *source, .endoftext = -1 };
    struct hf_labels labels = { 0 };
    char             next[BEST_PATH], tokenizer[BEST_PATH];
    struct watch     w;
    int              rc = labels_load(&labels, s->log, s->dir, s->gpt.n_labels, err);

    // stored when the run is made: a tokenizer is larger than what the memory plan has room for
    settings_scan(s->log, "%ld", &x.endoftext, "endoftext");
    x.pad = x.endoftext;
    snprintf(next, sizeof next, "%s/" NEXT, s->dir);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    x.labels = labels.n ? &labels : NULL;
    x.tokenizer = tokenise_has_files(tokenizer) ? tokenizer : NULL;
    x.watch = &w;
    w = work_begin(s->events, "writing the best model");
    if (!rc)
        rc = hf_export(next, &x, err);
    work_end(s->events);
    hf_labels_free(&labels);
    return rc;
}

int best_export(struct session *s, struct stream *stream, uint64_t step, struct err *err)
{
    struct params_source source;
    int                  rc;

    best_clean(s);
    rc = stream_masters(stream, step, &source, err);
    if (rc)
        return rc;
    rc = write_next(s, &source, err);
    if (!rc)
        rc = take_place(s, err);
    if (!rc || rc == -EINTR) { // who stopped it has a step to commit
        struct err why = *err;
        int        ended = stream_masters_end(stream, err);

        if (ended)
            rc = ended;
        else
            *err = why;
    }
    best_clean(s);
    return rc;
}
