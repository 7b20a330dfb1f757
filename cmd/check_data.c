/* check_data.c: prints a line for each kind of data and a sentence for each damage, and compares a
 * run's data with their checksums. */
#include "cmd/check_data.h"

#include "cmd/terminal/line.h"
#include "cmd/terminal/progress.h"
#include "cmd/terminal/say.h"
#include "data/text/tokenizer.h"
#include "run/folder/settings.h"
#include "run/sources/corpus_open.h"
#include "run/sources/task_files.h"
#include "run/sources/reference.h"

#include <stdarg.h>
#include <sys/stat.h>

/* ---- output ---- */

void check_remark(const char *fmt, ...)
{
    char    text[SESSION_PATH + 1024];
    va_list ap;

    progress_make_way();
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_line(stderr, "siTrain check: %s", text);
}

void check_say(void *ctx, int is_damage, const char *sentence)
{
    ((struct check *)ctx)->damaged += is_damage != 0;
    check_remark("%s", sentence);
}

void check_damage(void *ctx, const char *sentence) { check_say(ctx, 1, sentence); }

void check_denied(struct check *c, const char *sentence)
{
    c->denied++;
    check_remark("it cannot be read: %s", sentence);
}

void check_line(struct check *c, const char *kind, uint64_t bytes, const char *fmt, ...)
{
    char    text[SESSION_PATH + 128];
    va_list ap;

    c->bytes += bytes;
    if (c->o->quiet)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    progress_make_way();
    say_line(stdout, "%-16s %9s  %s", kind, bytes ? SIZE_TEXT(bytes) : "", text);
}

int check_part_over(struct check *c, int rc, struct err *err)
{
    if (!rc || rc == -ENOMEM || rc == -EBUSY || err->stopped)
        return rc;
    if (file_is_unknown(rc))
        check_denied(c, err->text);
    else
        check_damage(c, err->text);
    *err = (struct err){0};
    return 0;
}

/* ---- data ---- */

/* Prints the line of a file of tokens or examples. found: damages before it was checked. */
static void data_line(struct check *c, const char *what, uint64_t n, const char *path,
                      uint64_t found)
{
    struct stat st = { 0 };

    stat(path, &st);
    check_line(c, what, (uint64_t)st.st_size, "%" PRIu64 " in %s%s", n, path,
               c->damaged > found ? ", damaged" : "");
}

int check_tokens(struct check *c, const char *set, size_t i, struct err *err)
{
    struct tokens *t = NULL;
    uint64_t       found = c->damaged;
    char           name[CORPUS_NAME];
    int            rc = corpus_open_source(&t, &c->s, corpus_name(name, set, i), err);

    if (rc)
        return rc;
    struct watch w = work_begin(&say_events, "checking %s", t->path);
    for (size_t mib = 0; !rc && mib < tokens_sums(t); mib++) {
        struct err why = { 0 };

        if (tokens_verify(t, mib, &why))
            check_damage(c, why.text);
        rc = watch_look(&w, mib + 1, tokens_sums(t), err);
    }
    work_end(&say_events);
    data_line(c, "tokens", t->count, t->path, found);
    tokens_close(t);
    return rc;
}

/* What the reference model said to a run's pairs is not there before training. */
int check_reference(struct check *c, const char *name, struct err *err)
{
    struct examples *x = NULL;
    double          *logp = NULL;
    uint64_t         found = c->damaged;
    char             path[SESSION_PATH + 32];

    if (!settings_has(c->s.log, "%s.ref", name))
        return 0;
    snprintf(path, sizeof path, "%s/%s.ref", c->s.dir, name);
    int rc = task_files_open(&x, &c->s, name, err);
    if (!rc && !x)
        return 0;
    rc = rc ? rc : reference_read(&logp, &c->s, name, x, err);
    if (!rc && !logp)
        rc = err_set(err, -EBADMSG, "%s is missing", path);
    if (!rc)
        data_line(c, "reference", x->h.rows, path, found);
    examples_close(x);
    free(logp);
    return rc;
}

int check_examples(struct check *c, const char *name, struct err *err)
{
    struct examples *e = NULL;
    uint64_t         found = c->damaged;
    int              rc = task_files_open(&e, &c->s, name, err);

    if (rc || !e)
        return rc;
    int32_t *ids = malloc(e->h.longest * sizeof *ids);
    rc = ids ? 0 : err_set(err, -ENOMEM, "%s: out of memory", e->path);
    struct watch w = work_begin(&say_events, "checking %s", e->path);
    for (uint64_t i = 0; !rc && i < e->h.rows; i++) {
        struct example x;
        struct err     why = { 0 };
        size_t         n;

        if (examples_read(e, i, ids, e->h.longest, &n, &x, &why))
            check_damage(c, why.text);
        rc = watch_look(&w, i + 1, e->h.rows, err);
    }
    work_end(&say_events);
    data_line(c, "examples", e->h.rows, e->path, found);
    free(ids);
    examples_close(e);
    return rc;
}

int check_words(struct tokenizer **out, struct check *c, const char *path, struct err *err)
{
    int rc = tokenizer_open(out, path, err);

    if (rc == -ENOTSUP) {
        check_remark("%s", err->text);
        *err = (struct err){ 0 };
        rc = 0;
    } else if (!rc)
        check_line(c, "tokenizer", 0, "%zu ids", tokenizer_vocab(*out));
    return rc;
}

int check_tokenizer(struct check *c, struct err *err)
{
    char              path[SESSION_PATH + 16];
    struct tokenizer *t = NULL;

    snprintf(path, sizeof path, "%s/tokenizer", c->s.dir);
    if (!tokenizer_is_there(path))
        return session_check_tokenizer(&c->s, err); // whether there should be one
    int rc = check_words(&t, c, path, err);
    if (!rc && !t)
        check_line(c, "tokenizer", 0, "of a class that nothing names");
    rc = rc ? rc : session_check_opened(&c->s, t, err);
    tokenizer_close(t);
    return rc;
}
