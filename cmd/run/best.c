/* best.c: makes RUN/best, beside the one that is there, and exchanges the two. */
#include "cmd/run/best.h"

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

static int get_number(double *out, struct session *s, const char *key)
{
    char *text = session_get(s, key);

    if (text)
        *out = strtod(text, NULL);
    free(text);
    return text != NULL;
}

static int set_number(struct session *s, const char *key, double value, struct err *err)
{
    char text[48];

    snprintf(text, sizeof text, "%.17g", value);
    return session_set(s, key, text, err);
}

int best_load(struct best *out, struct session *s, struct err *err)
{
    char *step = session_get(s, "best.step");
    int   whole = 1;

    *out = (struct best){ .any = step != NULL };
    if (step) {
        out->step = strtoull(step, NULL, 10);
        whole = get_number(&out->value, s, "best.value");
        get_number(&out->seconds[0], s, "best.seconds");
        get_number(&out->seconds[1], s, "best.seconds_mm");
    }
    free(step);
    return whole ? 0 : err_set(err, -EBADMSG, "%s/run.db has best.step, but no best.value", s->dir);
}

int best_store(struct best *b, struct session *s, uint64_t step, const struct feed_values *v,
               struct err *err)
{
    char text[32];
    int  rc;

    snprintf(text, sizeof text, "%" PRIu64, step);
    if ((rc = session_set(s, "best.step", text, err)) ||
        (rc = session_set(s, "best.name", v->value[0].name, err)) ||
        (rc = set_number(s, "best.value", v->value[0].value, err)) ||
        (rc = set_number(s, "best.seconds", v->seconds[0], err)) ||
        (rc = set_number(s, "best.seconds_mm", v->seconds[1], err)))
        return rc;
    *b = (struct best){ .any = 1,
                        .step = step,
                        .value = v->value[0].value,
                        .seconds = { v->seconds[0], v->seconds[1] } };
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

/* The id of <|endoftext|>: stored when the run is made, since a tokenizer is larger than what the
 * memory plan has room for. */
static long endoftext(struct session *s)
{
    double id = -1;

    get_number(&id, s, "endoftext");
    return (long)id;
}

static int write_next(struct session *s, const struct params_source *source, struct err *err)
{
    long             end = endoftext(s);
    struct hf_export x = {
        .gpt = s->gpt, .dtype = ST_F32, .source = *source, .endoftext = end, .pad = end
    };
    struct hf_labels labels = { 0 };
    char             next[BEST_PATH], tokenizer[BEST_PATH];
    struct watch     w;
    int              rc = session_labels(s, &labels, err);

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
