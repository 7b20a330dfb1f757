/* corpus_kept.c: reads and writes the settings of a run's data. Source 0 has the names that runs of
 * one source always had, so that older runs are read as runs of one source. */
#include "run/sources/corpus_kept.h"

#include "run/folder/settings.h"

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
