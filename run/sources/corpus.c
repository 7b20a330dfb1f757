/* corpus.c: checks token files and texts before a run uses them, and opens them again later. */
#include "run/sources/corpus.h"

#include "run/folder/settings.h"
#include "run/sources/tokenise.h"

enum { CHECK_IDS = 1 << 15 };

/* ---- checks ---- */

/* Check every id of a token file against the vocabulary, and its length against a row. of: the
 * user's file, for messages. width: bytes per id, if the file has no header. */
static int check_tokens(const char *path, const char *of, unsigned width, size_t vocab,
                        uint64_t seq, const struct events *events, struct err *err)
{
    struct tokens *t = NULL;
    int32_t       *ids = malloc(CHECK_IDS * sizeof *ids);
    int rc = ids ? tokens_open(&t, path, width, err)
                 : err_set(err, -ENOMEM, "%s: out of memory", path);
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
    tokens_close(t);
    free(ids);
    return rc;
}

int corpus_check(struct corpus_file file, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err)
{
    struct tokenizer *tok = NULL;
    unsigned          width;
    int rc = tokenise_detect(file.path, file.as, vocab, &width, events, err);

    if (rc)
        return rc;
    if (width)
        return check_tokens(file.path, file.path, width, vocab, seq, events, err);
    if (!tokenizer || !tokenizer_is_there(tokenizer))
        return err_misuse(err, "%s is text: --tokenizer DIR is needed (siTrain prepare "
                          "--train-tokenizer makes one)", file.path);
    rc = tokenizer_open(&tok, tokenizer, err);
    tokenizer_close(tok);
    return rc;
}

/* ---- stored settings ---- */

/* The checksums of a token file as stored text; malloced, also after a failure. */
static int sums_text(char **out, const char *path, unsigned width, const struct events *events,
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

/* The stored settings of a file; all NULL: there is none. */
struct kept {
    char    *path, *text, *sums;
    char    *text_sum; // NULL: an older version made the run
    unsigned width;
};

static void kept_release(struct kept *k)
{
    free(k->path);
    free(k->text);
    free(k->sums);
    free(k->text_sum);
}

/* Load the settings of a file. The caller releases *k, also after a failure. Runs of versions with
 * uint16 only have no setting for the width of ids. */
static int kept_find(struct kept *k, struct session *s, const char *what, struct err *err)
{
    char *format = NULL;

    *k = (struct kept){ 0 };
    int rc = settings_find(&k->path, s->log, err, "%s.path", what);
    rc = rc ? rc : settings_find(&k->text, s->log, err, "%s.text", what);
    rc = rc ? rc : settings_find(&k->text_sum, s->log, err, "%s.text.sums", what);
    rc = rc ? rc : settings_find(&k->sums, s->log, err, "%s.sums", what);
    rc = rc ? rc : settings_find(&format, s->log, err, "%s.format", what);
    k->width = format && !strcmp(format, tokens_format_name(TOKENS_U32)) ? 4 : 2;
    free(format);
    return rc;
}

/* Store the path of a token file; inside RUN it is relative. */
static int store_path(struct session *s, const char *what, const char *path, struct err *err)
{
    size_t n = strlen(s->dir);
    int    inside = !strncmp(path, s->dir, n) && path[n] == '/';

    return settings_set(s->log, err, "%s.path=%s", what, inside ? path + n + 1 : path);
}

static int store(struct session *s, const char *what, const char *path, unsigned width,
                 struct err *err)
{
    char *sums;
    int   rc = sums_text(&sums, path, width, s->events, err);

    rc = rc ? rc : settings_set(s->log, err, "%s.sums=%s", what, sums);
    free(sums);
    if (!rc && width != 2)
        rc = settings_set(s->log, err, "%s.format=%s", what, tokens_format_name(TOKENS_U32));
    return rc ? rc : store_path(s, what, path, err);
}

/* Tokenise a text into RUN. */
static int add_text(struct session *s, const char *what, const char *path, const char *named,
                    enum tokens_format as, struct err *err)
{
    char              out[SESSION_PATH + 16], dir[SESSION_PATH + 16];
    struct tokenizer *tok = NULL;

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    snprintf(out, sizeof out, "%s/%s.bin", s->dir, what);
    int rc = tokenizer_open(&tok, dir, err);
    struct tokenise_files f = { .tok = tok, .texts = &path, .n = 1, .vocab = s->config.vocab,
                                .as = as };
    rc = rc ? rc : tokenise_files(&f, out, s->events, err);
    tokenizer_close(tok);
    if (rc || (rc = settings_set(s->log, err, "%s.text=%s", what, path)) ||
        (rc = settings_set(s->log, err, "%s.text.sums=%08" PRIx32, what, f.sum)) ||
        (rc = check_tokens(out, named, 2, s->config.vocab, s->o.seq, s->events, err)))
        return rc;
    return store(s, what, out, 2, err);
}

int corpus_add(struct session *s, const char *what, struct corpus_file file, struct err *err)
{
    unsigned width;
    char    *full = realpath(file.path, NULL);
    int      rc = full ? tokenise_detect(file.path, file.as, s->config.vocab, &width, s->events,
                                         err)
                       : err_set(err, -errno, "%s: %s", file.path, strerror(errno));

    if (!rc)
        rc = width ? store(s, what, full, width, err)
                   : add_text(s, what, full, file.path, file.as, err);
    free(full);
    return rc;
}

static const char *option_of(const char *what) { return strcmp(what, "data") ? "eval-data" : what; }

/* Refuse another file. A run on a text only uses its stored tokens. */
static int refuse_other(const char *what, const char *path, const struct kept *k, int there,
                        struct err *err)
{
    return err_misuse(err, "--%s %s: %sthis run has %s and a resume keeps it: leave the option "
                      "out%s", option_of(what), path,
                      there ? "" : "there is no such file; ", k->text ? k->text : k->path,
                      k->text ? "" : ", or name a file with the same tokens");
}

/* Refuse a text that was changed since it was tokenised. */
static int check_text(struct session *s, const char *what, const char *path, const struct kept *k,
                      struct err *err)
{
    char     found[16];
    uint32_t sum;
    int      rc = tokenise_sum(&sum, path, s->events, err);

    snprintf(found, sizeof found, "%08" PRIx32, sum);
    if (rc || !strcmp(found, k->text_sum))
        return rc;
    return err_misuse(err, "--%s %s: this file was changed after the run took its tokens, which a "
                      "resume keeps: leave the option out, or make a new run", option_of(what),
                      path);
}

/* Accept another path of the run's own file, or another token file with the same checksums. */
static int resume_other(struct session *s, const char *what, const char *path,
                        const struct kept *k, struct err *err)
{
    char *there = NULL, *full = realpath(path, NULL);
    int   rc = 0, why = full ? 0 : errno;
    int   text = full && k->text && !strcmp(full, k->text);
    int   same = text || (full && !strcmp(full, k->path));

    if (why && why != ENOENT)
        rc = err_name(err, why, "%s: %s", path, strerror(why));
    else if (!full || (!same && (k->text || !k->sums)))
        rc = refuse_other(what, path, k, full != NULL, err);
    else if (text && k->text_sum)
        rc = check_text(s, what, full, k, err);
    else if (!same && !(rc = sums_text(&there, full, k->width, s->events, err)))
        rc = strcmp(there, k->sums) ? refuse_other(what, path, k, 1, err)
                                    : store_path(s, what, full, err);
    free(there);
    free(full);
    return rc;
}

/* Refuse a --data-format that differs from the run's. */
static int check_format(const struct kept *k, struct corpus_file file, struct err *err)
{
    enum tokens_format has = k->text        ? TOKENS_TEXT
                             : k->width > 2 ? TOKENS_U32
                                            : TOKENS_U16;

    if (file.as == TOKENS_AUTO || file.as == has)
        return 0;
    return err_misuse(err, "--data-format %s: this run took %s as %s and keeps it: leave the "
                      "option out", tokens_format_name(file.as), file.path,
                      tokens_format_name(has));
}

int corpus_resume(struct session *s, const char *what, struct corpus_file file, struct err *err)
{
    char        tokenizer[SESSION_PATH + 16];
    struct kept k = { 0 };
    int         rc = file.path ? kept_find(&k, s, what, err) : 0;

    if (!rc && file.path && !k.path) { // check and add it as for a new run
        snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
        rc = corpus_check(file, tokenizer, s->config.vocab, s->o.seq, s->events, err);
        rc = rc ? rc : corpus_add(s, what, file, err);
    } else if (!rc && file.path) {
        rc = check_format(&k, file, err);
        rc = rc ? rc : resume_other(s, what, file.path, &k, err);
    }
    kept_release(&k);
    return rc;
}

int corpus_masking(struct masking *out, const struct session *s, struct err *err)
{
    char tokenizer[SESSION_PATH + 16];

    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", s->dir);
    return masking_find(out, &s->config, &s->o.mask,
                        tokenizer_is_there(tokenizer) ? tokenizer : NULL, err);
}

static int expect_sums(const struct session *s, const char *what, const char *text,
                       struct tokens *t, struct err *err)
{
    size_t    n = text ? strlen(text) / 8 : 0;
    uint32_t *sums = calloc(n + 1, sizeof *sums);

    for (size_t i = 0; sums && i < n; i++)
        sscanf(text + 8 * i, "%8" SCNx32, &sums[i]);
    int rc = !sums   ? err_set(err, -ENOMEM, "%s: out of memory", s->dir)
             : !text ? err_set(err, -EBADMSG, "%s/run.db has no %s.sums", s->dir, what)
                     : tokens_expect(t, sums, n, err);
    free(sums);
    return rc;
}

int corpus_open(struct tokens **out, struct session *s, const char *what, struct err *err)
{
    char        path[2 * SESSION_PATH];
    struct kept k;
    int         rc = kept_find(&k, s, what, err);

    *out = NULL;
    if (!rc && k.path) {
        snprintf(path, sizeof path, "%s%s%s", *k.path == '/' ? "" : s->dir,
                 *k.path == '/' ? "" : "/", k.path);
        rc = tokens_open(out, path, k.width, err);
        if (!rc && (rc = expect_sums(s, what, k.sums, *out, err))) {
            tokens_close(*out);
            *out = NULL;
        }
    }
    kept_release(&k);
    return rc;
}
