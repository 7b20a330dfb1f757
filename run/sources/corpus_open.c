/* corpus_open.c: finds a run's token files by its settings, and puts them in the order in which
 * they are trained on. Source 0 has the names that runs of one source always had, so that older
 * runs are read as runs of one source. */
#include "run/sources/corpus_open.h"

#include "data/text/tokenizer.h"
#include "run/folder/settings.h"
#include "run/sources/mix_weights.h"

const char *corpus_name(char out[CORPUS_NAME], const char *set, size_t i)
{
    if (i)
        snprintf(out, CORPUS_NAME, "%.8s.%zu", set, i);
    else
        snprintf(out, CORPUS_NAME, "%.8s", set);
    return out;
}

int corpus_count(size_t *n, struct runlog *log, const char *set, struct err *err)
{
    char name[CORPUS_NAME], *path = NULL;
    int  rc = 0, more = 1;

    for (*n = 0; !rc && more && *n < CORPUS_MOST; *n += (size_t)more) {
        rc = settings_find(&path, log, err, "%s.path", corpus_name(name, set, *n));
        more = !rc && path && *path;
        free(path);
    }
    return rc;
}

void corpus_kept_release(struct corpus_kept *k)
{
    free(k->path);
    free(k->text);
    free(k->sums);
    free(k->text_sum);
}

/* Runs of versions with uint16 only have no setting for the width of ids. */
int corpus_kept_find(struct corpus_kept *k, struct runlog *log, const char *name, struct err *err)
{
    char *format = NULL;

    *k = (struct corpus_kept){ 0 };
    int rc = settings_find(&k->path, log, err, "%s.path", name);
    rc = rc ? rc : settings_find(&k->text, log, err, "%s.text", name);
    rc = rc ? rc : settings_find(&k->text_sum, log, err, "%s.text.sums", name);
    rc = rc ? rc : settings_find(&k->sums, log, err, "%s.sums", name);
    rc = rc ? rc : settings_find(&format, log, err, "%s.format", name);
    k->width = format && !strcmp(format, tokens_format_name(TOKENS_U32)) ? 4 : 2;
    free(format);
    return rc;
}

int corpus_sums(char **out, const char *path, unsigned width, const struct events *events,
                struct err *err)
{
    struct watch   w = work_begin(events, "reading %s", path);
    struct tokens *t = NULL;
    int            rc = tokens_open(&t, path, width, err);
    size_t         n = rc ? 0 : tokens_sums(t);
    uint32_t      *sums = calloc(n + 1, sizeof *sums);

    *out = calloc(n + 1, 8);
    if (!rc)
        rc = sums && *out ? tokens_hash(t, sums, &w, err)
                          : err_set(err, -ENOMEM, "%s: out of memory", path);
    work_end(events);
    for (size_t i = 0; i < n && !rc; i++)
        snprintf(*out + 8 * i, 9, "%08" PRIx32, sums[i]);
    free(sums);
    tokens_close(t);
    return rc;
}

int corpus_keep_path(struct session *s, const char *name, const char *path, struct err *err)
{
    size_t n = strlen(s->dir);
    int    inside = !strncmp(path, s->dir, n) && path[n] == '/';

    return settings_set(s->log, err, "%s.path=%s", name, inside ? path + n + 1 : path);
}

int corpus_keep(struct session *s, const char *name, const char *path, unsigned width,
                struct err *err)
{
    char *sums;
    int   rc = corpus_sums(&sums, path, width, s->events, err);

    rc = rc ? rc : settings_set(s->log, err, "%s.sums=%s", name, sums);
    free(sums);
    if (!rc && width != 2)
        rc = settings_set(s->log, err, "%s.format=%s", name, tokens_format_name(TOKENS_U32));
    return rc ? rc : corpus_keep_path(s, name, path, err);
}

int corpus_masking(struct masking *out, const struct session *s, struct err *err)
{
    char tokenizer[SESSION_PATH + 16];

    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    return masking_find(out, &s->config, &s->o.mask,
                        tokenizer_is_there(tokenizer) ? tokenizer : NULL, err);
}

static int expect_sums(const struct session *s, const char *name, const char *text,
                       struct tokens *t, struct err *err)
{
    size_t    n = text ? strlen(text) / 8 : 0;
    uint32_t *sums = calloc(n + 1, sizeof *sums);

    for (size_t i = 0; sums && i < n; i++)
        sscanf(text + 8 * i, "%8" SCNx32, &sums[i]);
    int rc = !sums   ? err_set(err, -ENOMEM, "%s: out of memory", s->dir)
             : !text ? err_set(err, -EBADMSG, "%s/run.db has no %s.sums", s->dir, name)
                     : tokens_expect(t, sums, n, err);
    free(sums);
    return rc;
}

int corpus_open_source(struct tokens **out, struct session *s, const char *name, struct err *err)
{
    char               path[2 * SESSION_PATH];
    struct corpus_kept k;
    int                rc = corpus_kept_find(&k, s->log, name, err);

    *out = NULL;
    if (!rc && !k.path)
        rc = err_set(err, -EBADMSG, "%s/run.db has no %s.path", s->dir, name);
    if (!rc) {
        snprintf(path, sizeof path, "%s%s%s", *k.path == '/' ? "" : session_data_dir(s),
                 *k.path == '/' ? "" : "/", k.path);
        rc = tokens_open(out, path, k.width, err);
        if (!rc && (rc = expect_sums(s, name, k.sums, *out, err))) {
            tokens_close(*out);
            *out = NULL;
        }
    }
    corpus_kept_release(&k);
    return rc;
}

/* How a training orders the rows of its sources. */
static int begin_order(struct mixture *out, struct session *s, struct err *err)
{
    char  where[SESSION_PATH + 32], *mix = NULL;
    int   rc = settings_find(&mix, s->log, err, "data.mix");

    snprintf(where, sizeof where, "%s/run.db: data.mix", s->dir);
    out->shuffled = s->o.order == TRAIN_SHUFFLED;
    out->seed = s->o.seed;
    rc = rc ? rc : mix_weights_apply(out, mix, where, err);
    free(mix);
    return rc;
}

/* Memory for the sources of a set, and how they are ordered. mixture_close frees it, also after a
 * failure. */
static int begin(struct mixture *out, struct session *s, const char *set, struct err *err)
{
    size_t n;
    int    rc = corpus_count(&n, s->log, set, err);

    *out = (struct mixture){ .source = rc ? NULL : calloc(n + 1, sizeof *out->source) };
    if (!rc && !out->source)
        rc = err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    out->n = rc ? 0 : n;
    return rc || strcmp(set, "data") ? rc : begin_order(out, s, err);
}

int corpus_open(struct mixture *out, struct session *s, const char *set, struct err *err)
{
    char name[CORPUS_NAME];
    int  rc = begin(out, s, set, err);

    for (size_t i = 0; i < out->n && !rc; i++)
        rc = corpus_open_source(&out->source[i].tokens, s, corpus_name(name, set, i), err);
    if (rc)
        mixture_close(out);
    return rc;
}

/* ---- what was read ---- */

void corpus_sources_free(struct training_source *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(all[i].name);
    free(all);
}

/* Take the stored numbers of a source. 0: there are none, or none that a file can have. */
static int counted(struct training_source *c, struct session *s, const char *name)
{
    c->name = settings_get(s->log, "%s.text", name);
    if (!c->name)
        c->name = settings_get(s->log, "%s.path", name);
    return c->name && settings_scan(s->log, "%" SCNu64, &c->tokens, "%s.tokens", name) &&
           settings_scan(s->log, "%" SCNu64, &c->rows, "%s.rows", name) && c->rows &&
           c->rows < UINT64_C(1) << 48;
}

int corpus_sources(struct training_source **out, size_t *n, struct session *s, uint64_t steps,
                   struct err *err)
{
    struct mixture m;
    char           name[CORPUS_NAME];
    int            rc = begin(&m, s, "data", err), known = !rc;
    uint64_t      *taken = calloc(m.n + 1, sizeof *taken);

    *out = calloc(m.n + 1, sizeof **out);
    if (!rc && (!*out || !taken))
        rc = err_set(err, -ENOMEM, "%s: out of memory", s->dir);
    for (size_t i = 0; i < m.n && !rc && known; i++) {
        known = counted(&(*out)[i], s, corpus_name(name, "data", i));
        m.source[i].rows = (*out)[i].rows;
        m.rows += m.source[i].rows;
    }
    *n = !rc && known ? m.n : 0;
    if (*n)
        mixture_taken(&m, steps * s->o.grad_accum * s->o.batch, taken);
    for (size_t i = 0; i < *n; i++) {
        struct training_source *c = &(*out)[i];

        c->share = m.weighted ? (double)m.source[i].part / MIXTURE_BLOCK
                              : (double)c->rows / (double)m.rows;
        c->taken = taken[i];
        c->tokens_taken = taken[i] * s->o.seq;
        c->weighted = m.weighted;
    }
    if (!*n) {
        corpus_sources_free(*out, *out ? m.n : 0);
        *out = NULL;
    }
    free(taken);
    mixture_close(&m);
    return rc;
}
