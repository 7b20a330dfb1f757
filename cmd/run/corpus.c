/* corpus.c: checks tokens before a run takes them, and finds them again. */
#include "cmd/run/corpus.h"

#include "cmd/run/settings.h"
#include "cmd/run/tokenise.h"

#include <sys/stat.h>

enum { CHECK_IDS = 1 << 15 };

/* ---- before they are taken ---- */

/* Every id of a token file against the vocabulary, and its length against a row. of: the user's
 * file, which the tokens are those of. */
static int check_tokens(const char *path, const char *of, size_t vocab, uint64_t seq,
                        const struct events *events, struct err *err)
{
    struct tokens *t = NULL;
    int32_t       *ids = malloc(CHECK_IDS * sizeof *ids);
    int rc = ids ? tokens_open(&t, path, err) : err_set(err, -ENOMEM, "%s: out of memory", path);
    uint64_t       count = rc ? 0 : t->count;
    struct watch   w = work_begin(events, "reading %s", path);

    if (!rc && count < seq + 1)
        rc = err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64 " needs %" PRIu64,
                        of, count, seq, seq + 1);
    for (uint64_t at = 0, n; at < count && !rc; at += n) {
        n = count - at < CHECK_IDS ? count - at : CHECK_IDS;
        rc = tokens_read(t, at, n, vocab, ids, err);
        rc = rc ? rc : watch_look(&w, at + n, count, err);
    }
    work_end(events);
    if (rc && err)
        err->misuse = 1;
    tokens_close(t);
    free(ids);
    return rc;
}

int corpus_check(const char *path, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err)
{
    enum tokens_kind  kind;
    struct tokenizer *tok = NULL;
    struct stat       st;

    if (stat(path, &st))
        return err_misuse(err, "%s: %s: a token file or a text is expected", path, strerror(errno));
    int rc = tokenise_detect(path, &kind, events, err);
    if (rc)
        return rc;
    if (kind != TOKENS_TEXT)
        return check_tokens(path, path, vocab, seq, events, err);
    if (!tokenizer || !tokenise_has_files(tokenizer))
        return err_misuse(err, "%s is text: --tokenizer DIR is needed (siTrain prepare "
                          "--train-tokenizer makes one)", path);
    rc = tokenizer_open(&tok, tokenizer, err);
    tokenizer_close(tok);
    return rc;
}

/* ---- what a run keeps of them ---- */

/* The checksums of a token file, as they are stored; malloced, also after a failure. */
static int sums_text(char **out, const char *path, const struct events *events, struct err *err)
{
    struct watch   w = work_begin(events, "reading %s", path);
    struct tokens *t = NULL;
    int            rc = tokens_open(&t, path, err);
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

/* Where a token file is, and its checksums: `known` where they must be these, else -ENOENT. */
static int store(struct session *s, const char *what, const char *path, const char *known,
                 struct err *err)
{
    size_t n = strlen(s->dir);
    int    inside = !strncmp(path, s->dir, n) && path[n] == '/';
    char  *sums;
    int    rc = sums_text(&sums, path, s->events, err);

    if (known && (rc || strcmp(sums, known)))
        rc = -ENOENT;
    rc = rc ? rc : settings_set(s->log, err, "%s.sums=%s", what, sums);
    free(sums);
    return rc ? rc
              : settings_set(s->log, err, "%s.path=%s", what, inside ? path + n + 1 : path);
}

/* A text's tokens go into RUN. */
static int add_text(struct session *s, const char *what, const char *path, const char *named,
                    struct err *err)
{
    char              out[SESSION_PATH + 16], dir[SESSION_PATH + 16];
    struct tokenizer *tok = NULL;

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    snprintf(out, sizeof out, "%s/%s.bin", s->dir, what);
    int rc = tokenizer_open(&tok, dir, err);
    struct tokenise_files f = { .tok = tok, .texts = &path, .n = 1, .vocab = s->config.vocab };
    rc = rc ? rc : tokenise_files(&f, out, s->events, err);
    tokenizer_close(tok);
    if (rc || (rc = settings_set(s->log, err, "%s.text=%s", what, path)) ||
        (rc = check_tokens(out, named, s->config.vocab, s->o.seq, s->events, err)))
        return rc;
    return store(s, what, out, NULL, err);
}

int corpus_add(struct session *s, const char *what, const char *path, struct err *err)
{
    enum tokens_kind kind;
    char            *full = realpath(path, NULL);
    int              rc = full ? tokenise_detect(path, &kind, s->events, err)
                               : err_set(err, -errno, "%s: %s", path, strerror(errno));

    if (!rc)
        rc = kind == TOKENS_TEXT ? add_text(s, what, full, path, err)
                                 : store(s, what, full, NULL, err);
    free(full);
    return rc;
}

int corpus_resume(struct session *s, const char *what, const char *path, struct err *err)
{
    char *have = settings_get(s->log, "%s.path", what), *full = path ? realpath(path, NULL) : NULL,
         *text = settings_get(s->log, "%s.text", what), tokenizer[SESSION_PATH + 16],
         *sums = settings_get(s->log, "%s.sums", what);
    int   rc = 0;

    if (path && !have) { // taken as by a new run
        snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
        rc = corpus_check(path, tokenizer, s->config.vocab, s->o.seq, s->events, err);
        rc = rc ? rc : corpus_add(s, what, path, err);
    } else if (path && (!full || (strcmp(full, have) && (!text || strcmp(full, text))))) {
        rc = full && !text && sums ? store(s, what, full, sums, err) : -ENOENT;
        if (rc == -ENOENT)
            rc = err_misuse(err,
                            "--%s %s: this run has %s and a resume keeps it: leave the option out, "
                            "or name a file with the same tokens",
                            !strcmp(what, "data") ? "data" : "eval-data", path, text ? text : have);
    }
    free(have);
    free(text);
    free(sums);
    free(full);
    return rc;
}

int corpus_masking(struct masking *out, const struct session *s, struct err *err)
{
    char tokenizer[SESSION_PATH + 16];

    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    return masking_find(out, &s->config, &s->o.mask,
                        tokenise_has_files(tokenizer) ? tokenizer : NULL, err);
}

static int expect_sums(struct session *s, const char *what, struct tokens *t, struct err *err)
{
    char     *text = settings_get(s->log, "%s.sums", what);
    size_t    n = text ? strlen(text) / 8 : 0;
    uint32_t *sums = calloc(n + 1, sizeof *sums);

    for (size_t i = 0; sums && i < n; i++)
        sscanf(text + 8 * i, "%8" SCNx32, &sums[i]);
    int rc = text && sums ? tokens_expect(t, sums, n, err)
                          : err_set(err, -EBADMSG, "%s/run.db has no %s.sums", s->dir, what);
    free(text);
    free(sums);
    return rc;
}

int corpus_open(struct tokens **out, struct session *s, const char *what, struct err *err)
{
    char path[2 * SESSION_PATH], *name = settings_get(s->log, "%s.path", what);

    *out = NULL;
    if (!name)
        return 0;
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : s->dir, *name == '/' ? "" : "/",
             name);
    free(name);
    int rc = tokens_open(out, path, err);
    if (!rc && (rc = expect_sums(s, what, *out, err))) {
        tokens_close(*out);
        *out = NULL;
    }
    return rc;
}
