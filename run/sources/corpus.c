/* corpus.c: checks token files and texts before a run uses them, adds them to it, and compares what
 * a resume names with what the run has. */
#include "run/sources/corpus.h"

#include "data/file/file.h"
#include "data/file/file_kind.h"
#include "data/file/file_walk.h"
#include "data/base/round.h"
#include "data/file/unpack.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"
#include "run/sources/mix_weights.h"
#include "run/texts/text_files.h"
#include "run/texts/tokenise.h"
#include "run/texts/tokenise_done.h"

#include <sys/stat.h>
#include <unistd.h>

enum { CHECK_IDS = 1 << 15 };

/* ---- checks ---- */

/* Check every id of a token file against the vocabulary, and its length against a row. */
static int check_tokens(const char *path, unsigned width, size_t vocab, uint64_t seq,
                        const struct events *events, struct err *err)
{
    struct tokens *t = NULL;
    int32_t       *ids = malloc(CHECK_IDS * sizeof *ids);
    int rc = ids ? tokens_open(&t, path, width, err)
                 : err_set(err, -ENOMEM, "%s: out of memory", path);
    uint64_t       count = rc ? 0 : t->count;
    struct watch   w = work_begin(events, "reading %s", path);

    if (!rc && count < seq + 1)
        rc = err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64 " needs %" PRIu64,
                        path, count, seq, seq + 1);
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

/* The beginning of a text says that it is one; what may be ids is looked at as a whole. */
int corpus_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                  const struct events *events, struct err *err)
{
    char             head[FILE_HEAD_BYTES];
    size_t           n;
    struct file_look look;
    struct stat      st;
    int              rc;

    *width = 0;
    if (!strcmp(path, "-") || (!stat(path, &st) && S_ISDIR(st.st_mode)))
        return 0;
    if ((rc = file_kind_begins(&look, head, &n, path, err)))
        return rc;
    int ids = as == TOKENS_U16 || as == TOKENS_U32 || tokens_named(path) ||
              look.kind == FILE_TOKENS || look.kind == FILE_EMPTY ||
              (!look.format && memchr(head, 0, n));
    return ids ? tokenise_detect(path, as, vocab, width, events, err) : 0;
}

int corpus_check_text(const char *path, const struct corpus_opts *o, struct err *err)
{
    struct text_files   *t = NULL;
    struct text_files_of of = { .texts = &path, .n = 1, .column = o->column,
                                .plain = o->format == TOKENS_TEXT };
    int                  rc = text_files_open(&t, &of, NULL, err);

    text_files_close(t);
    return rc;
}

static int check_text(const char *path, const struct corpus_opts *o, const char *tokenizer,
                      struct err *err)
{
    struct tokenizer *tok = NULL;
    int               rc = corpus_check_text(path, o, err);

    if (rc)
        return rc;
    if (!tokenizer || !tokenizer_is_there(tokenizer))
        return err_misuse(err, "%s is text: --tokenizer DIR is needed (siTrain prepare "
                          "--train-tokenizer makes one)", path);
    rc = tokenizer_open(&tok, tokenizer, err);
    tokenizer_close(tok);
    return rc;
}

size_t corpus_reads_input(const struct corpus_opts *o)
{
    return text_list_inputs(o->data.item, o->data.n) +
           text_list_inputs(o->eval_data.item, o->eval_data.n);
}

static int check_opts(const struct corpus_opts *o, struct err *err)
{
    uint64_t parts[CORPUS_MOST];

    if (corpus_reads_input(o) > 1)
        return err_misuse(err, "- (standard input) was given twice as data: it can be read once");
    if (o->split > 0 && o->eval_data.n)
        return err_misuse(err, "--eval-split takes a part of --data to evaluate on, and "
                          "--eval-data names other data for that: give one of them");
    return o->mix ? mix_weights_read(parts, o->mix, o->data.n, "data", err) : 0;
}

/* Check the sources of one set. *texts: how many are texts. */
static int check_set(const struct corpus_opts *o, const struct opt_strings *files,
                     const char *tokenizer, size_t vocab, uint64_t seq, size_t *texts,
                     const struct events *events, struct err *err)
{
    unsigned width;
    int      rc = 0;

    for (size_t i = 0; i < files->n && !rc; i++) {
        const char *path = files->item[i];

        rc = corpus_detect(path, (enum tokens_format)o->format, vocab, &width, events, err);
        *texts += !rc && !width;
        if (!rc && width && o->split > 0)
            rc = err_misuse(err, "%s holds token ids, and --eval-split chooses by documents, which "
                            "these no longer are: give the texts, or --eval-data FILE", path);
        if (!rc)
            rc = width ? check_tokens(path, width, vocab, seq, events, err)
                       : check_text(path, o, tokenizer, err);
    }
    return rc;
}

int corpus_check(const struct corpus_opts *o, const char *tokenizer, size_t vocab, uint64_t seq,
                 const struct events *events, struct err *err)
{
    size_t texts = 0;
    int    rc = check_opts(o, err);

    rc = rc ? rc : check_set(o, &o->data, tokenizer, vocab, seq, &texts, events, err);
    rc = rc ? rc : check_set(o, &o->eval_data, tokenizer, vocab, seq, &texts, events, err);
    return rc || texts || !o->column
               ? rc
               : err_misuse(err, "--text-column %s names the text in rows, and the data are token "
                            "ids: leave it out", o->column);
}

/* ---- adding ---- */

/* Refuse a file of RUN that is too short to train on. `named`: what it was made from. */
static int check_long(uint64_t count, const char *named, uint64_t seq, struct err *err)
{
    return count > seq ? 0
                       : err_misuse(err, "%s has %" PRIu64 " tokens; a row of --seq %" PRIu64
                                    " needs %" PRIu64, named, count, seq, seq + 1);
}

/* Refuse to replace a file of RUN that no ended process of siTrain made. In the folder of a new run
 * all files are its maker's. */
static int check_replaced(const struct session *s, const char *path, const char *first, int side,
                          struct err *err)
{
    struct stat st;
    int         rc = s->run.home ? 0 : file_stat(path, &st, err);

    if (rc <= 0 || (rc = tokenise_done_says(path, first, side, err)) < 0)
        return rc;
    return rc ? 0
              : err_misuse(err, "%s is there, and is not of this run: move it elsewhere, and try "
                           "again", path);
}

/* Tokenise the texts of source i of a set into RUN. */
static int add_text(struct session *s, const struct corpus_opts *o, const char *set, size_t i,
                    const char *path, const char *named, struct err *err)
{
    char out[SESSION_PATH + CORPUS_NAME], held[SESSION_PATH + CORPUS_NAME], dir[SESSION_PATH + 16];
    char name[CORPUS_NAME], held_name[CORPUS_NAME];
    struct tokenizer *tok = NULL;

    snprintf(dir, sizeof dir, "%s/tokenizer", s->dir);
    snprintf(out, sizeof out, "%s/%s.bin", s->dir, corpus_name(name, set, i));
    snprintf(held, sizeof held, "%s/%s.bin", s->dir, corpus_name(held_name, "eval", i));
    int rc = tokenizer_open(&tok, dir, err);
    struct tokenise_files f = { .tok = tok, .texts = &path, .n = 1, .vocab = s->config.vocab,
                                .column = o->column, .as = (enum tokens_format)o->format,
                                .threads = s->o.threads, .split = o->split, .split_or_none = 1,
                                .split_out = o->split > 0 ? held : NULL, .goes_on = o->tokenizer,
                                .remembers = 1, .place = s->run.home ? s->run.home : s->dir,
                                .time_limit = s->o.time_limit };
    rc = rc ? rc : check_replaced(s, out, out, 0, err);
    rc = rc || !f.split_out ? rc : check_replaced(s, held, out, 1, err);
    rc = rc ? rc : tokenise_files(&f, out, s->events, err);
    tokenizer_close(tok);
    if (rc && !f.count && f.split_count)
        return err_misuse(err, "--eval-split %g%%: all documents of %s would be evaluated on, and "
                          "none trained on: give another part, or --eval-data FILE", 100 * o->split,
                          named);
    if (rc || (rc = settings_set(s->log, err, "%s.text=%s", name, path)) ||
        (rc = settings_set(s->log, err, "%s.text.sums=%08" PRIx32, name, f.sum)) ||
        (rc = check_long(f.count, named, s->o.seq, err)) ||
        (rc = corpus_keep(s, name, out, 2, err)))
        return rc;
    return o->split > 0 ? corpus_keep(s, held_name, held, 2, err) : 0;
}

static int add_source(struct session *s, const struct corpus_opts *o, const char *set, size_t i,
                      const char *path, struct err *err)
{
    char     name[CORPUS_NAME];
    unsigned width;
    char    *full = !strcmp(path, "-") ? strdup(path) : file_real(path);
    int      rc = full ? corpus_detect(path, (enum tokens_format)o->format, s->config.vocab, &width,
                                    s->events, err)
                       : err_set(err, -errno, "%s: %s", path, strerror(errno));

    if (!rc)
        rc = width ? corpus_keep(s, corpus_name(name, set, i), full, width, err)
                   : add_text(s, o, set, i, full, unpack_shown(path), err);
    free(full);
    return rc;
}

/* Store how many tokens and rows each source has, which reports need and cannot count. *rows: of
 * all of them. */
static int store_counts(struct session *s, const char *set, uint64_t *rows, struct err *err)
{
    struct mixture m = { 0 };
    struct masking masking;
    int            masked = arch_is_masked(&s->config);
    char           name[CORPUS_NAME];
    int            rc = corpus_open(&m, s, set, err);

    rc = rc || !masked ? rc : corpus_masking(&masking, s, err);
    if (!rc)
        masking_rows(masked ? &masking : NULL, &m, s->o.seq);
    for (size_t i = 0; i < m.n && !rc; i++)
        rc = settings_set(s->log, err, "%s.tokens=%" PRIu64 "\n%s.rows=%" PRIu64,
                          corpus_name(name, set, i), m.source[i].tokens->count, name,
                          m.source[i].rows);
    *rows = m.rows;
    mixture_close(&m);
    return rc;
}

static int add_set(struct session *s, const struct corpus_opts *o, const char *set,
                   const struct opt_strings *files, struct err *err)
{
    uint64_t rows;
    int      rc = 0;

    for (size_t i = 0; i < files->n && !rc; i++)
        rc = add_source(s, o, set, i, files->item[i], err);
    return rc || !files->n ? rc : store_counts(s, set, &rows, err);
}

/* Whether 15 digits say all of a number. */
static int is_short(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.15g", v);
    return strtod(text, NULL) == v;
}

/* Store the options that decide, in addition to the files, which rows a step has. */
static int store_choices(struct session *s, const struct corpus_opts *o, struct err *err)
{
    char    *mix = NULL;
    uint64_t rows = 0;
    int      newer = o->data.n > 1 || o->eval_data.n > 1 || o->mix; // older programs misread it
    int      rc = newer ? runlog_raise(s->log, FORMAT_ARITHMETIC, err) : 0;

    rc = rc || !o->mix ? rc : mix_weights_text(&mix, o->mix, o->data.n, "data", err);
    if (!rc && mix)
        rc = settings_set(s->log, err, "data.mix=%s", mix);
    if (!rc && o->column && o->data.n)
        rc = settings_set(s->log, err, "data.column=%s", o->column);
    free(mix);
    if (rc || !(o->split > 0))
        return rc;
    rc = settings_set(s->log, err, "eval.split=%.*g", 15 + 2 * !is_short(o->split), o->split);
    rc = rc ? rc : store_counts(s, "eval", &rows, err);
    return rc || rows ? rc
                      : err_misuse(err, "--eval-split %g%% of --data is not one row of --seq "
                                   "%" PRIu64 ": give a larger part, or more data", 100 * o->split,
                                   s->o.seq);
}

/* Remove what was tokenised of a set whose adding failed, and what says of what it was made. */
static void remove_set(struct session *s, const struct corpus_opts *o, const char *set, size_t n)
{
    char name[CORPUS_NAME];

    for (size_t i = 0; i < n; i++) {
        if (!settings_has(s->log, "%s.text", corpus_name(name, set, i)))
            continue;
        char *file = file_path(NULL, "%s/%s.bin", s->dir, name);
        char *held = file_path(NULL, "%s/%s.bin", s->dir, corpus_name(name, "eval", i));

        if (file) {
            unlink(file);
            tokenise_done_forget(file);
        }
        if (held && o->split > 0)
            unlink(held);
        free(file);
        free(held);
    }
}

int corpus_clear_others(struct session *s, struct err *err)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, s->dir, err);

    while (!rc && file_walk_next(&w)) {
        if (!run_file_is_tokens(w.name))
            continue;
        int   n = (int)strlen(w.name) - (int)strlen(".bin");
        char *path = settings_get(s->log, "%.*s.path", n, w.name);

        if ((!path || strcmp(path, w.name)) && unlink(w.path))
            rc = err_set(err, -errno, "remove %s: %s", w.path, strerror(errno));
        free(path);
    }
    return file_walk_end(&w, rc, err);
}

int corpus_add(struct session *s, const struct corpus_opts *o, struct err *err)
{
    int rc = add_set(s, o, "data", &o->data, err);

    rc = rc ? rc : add_set(s, o, "eval", &o->eval_data, err);
    rc = rc ? rc : store_choices(s, o, err);
    if (rc && !tokenise_stays(rc, err)) {
        remove_set(s, o, "data", o->data.n);
        remove_set(s, o, "eval", o->eval_data.n);
    }
    return rc;
}

/* ---- resuming ---- */

static const char *option_of(const char *set) { return strcmp(set, "data") ? "eval-data" : set; }

/* Refuse another file. A run on a text only uses its stored tokens. */
static int refuse_other(const char *set, const char *path, const struct corpus_kept *k, int there,
                        struct err *err)
{
    return err_misuse(err, "--%s %s: %sthis run has %s and a resume keeps it: leave the option "
                      "out%s", option_of(set), path,
                      there ? "" : "there is no such file; ", k->text ? k->text : k->path,
                      k->text ? "" : ", or name a file with the same tokens");
}

/* Refuse a text that was changed since it was tokenised. */
static int check_unchanged(struct session *s, const char *set, const char *path,
                      const struct corpus_kept *k, struct err *err)
{
    char     found[16];
    uint32_t sum;
    int      rc = tokenise_sum(&sum, path, s->events, err);

    snprintf(found, sizeof found, "%08" PRIx32, sum);
    if (rc || !strcmp(found, k->text_sum))
        return rc;
    return err_misuse(err, "--%s %s: this file was changed after the run took its tokens, which a "
                      "resume keeps: leave the option out, or make a new run", option_of(set),
                      path);
}

/* Accept another path of the run's own file, or another token file with the same checksums. */
static int resume_other(struct session *s, const char *set, const char *name, const char *path,
                        const struct corpus_kept *k, struct err *err)
{
    char *there = NULL, *full = file_real(path);
    int   rc = 0, why = full ? 0 : errno;
    int   text = full && k->text && !strcmp(full, k->text);
    int   same = text || (full && !strcmp(full, k->path));

    if (!strcmp(path, "-"))
        rc = err_misuse(err, "--%s -: a resume keeps the run's data, and does not read them again: "
                        "leave the option out", option_of(set));
    else if (why && why != ENOENT)
        rc = err_name(err, why, "%s: %s", path, strerror(why));
    else if (!full || (!same && (k->text || !k->sums)))
        rc = refuse_other(set, path, k, full != NULL, err);
    else if (text && k->text_sum)
        rc = check_unchanged(s, set, full, k, err);
    else if (!same && !(rc = corpus_sums(&there, full, k->width, s->events, err)))
        rc = strcmp(there, k->sums) ? refuse_other(set, path, k, 1, err)
                                    : corpus_keep_path(s, name, full, err);
    free(there);
    free(full);
    return rc;
}

/* Refuse a --data-format that differs from the run's. */
static int check_format(const struct corpus_kept *k, const char *path, enum tokens_format as,
                        struct err *err)
{
    enum tokens_format has = k->text        ? TOKENS_TEXT
                             : k->width > 2 ? TOKENS_U32
                                            : TOKENS_U16;

    if (as == TOKENS_AUTO || as == has)
        return 0;
    return err_misuse(err, "--data-format %s: this run took %s as %s and keeps it: leave the "
                      "option out", tokens_format_name(as), path, tokens_format_name(has));
}

/* Compare the files of a set with those that the run has. */
static int resume_set(struct session *s, const struct corpus_opts *o, const char *set,
                      const struct opt_strings *files, struct err *err)
{
    size_t n;
    int    rc = corpus_count(&n, s->log, set, err);

    if (rc)
        return rc;
    if (files->n && files->n != n)
        return err_misuse(err, "--%s was given %zu time%s, and this run has %zu source%s, which a "
                          "resume keeps: leave the option out", option_of(set), files->n,
                          files->n == 1 ? "" : "s", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < files->n && !rc; i++) {
        struct corpus_kept k;
        char               name[CORPUS_NAME];

        rc = corpus_kept_find(&k, s->log, corpus_name(name, set, i), err);
        rc = rc ? rc : check_format(&k, files->item[i], (enum tokens_format)o->format, err);
        rc = rc ? rc : resume_other(s, set, name, files->item[i], &k, err);
        corpus_kept_release(&k);
    }
    return rc;
}

/* The same rows by the same weights. */
static int resume_mix(struct session *s, const char *asked, size_t n, struct err *err)
{
    char *mix = NULL, *parts = NULL;
    int   rc = settings_find(&mix, s->log, err, "data.mix");

    rc = rc ? rc : mix_weights_text(&parts, asked, n, "data", err);
    if (!rc && (!mix || strcmp(mix, parts)))
        rc = err_misuse(err, "--mix %s: this run %s and a resume keeps it: leave the option out",
                        asked,
                        mix ? "has other weights" : "has one pool of rows, without weights,");
    free(mix);
    free(parts);
    return rc;
}

/* Refuse weights, a column or a split that differ from the run's. */
static int resume_choices(struct session *s, const struct corpus_opts *o, size_t n,
                          struct err *err)
{
    char  *column = NULL;
    double split = 0;
    int    rc = o->mix ? resume_mix(s, o->mix, n, err) : 0;

    rc = rc ? rc : settings_find(&column, s->log, err, "data.column");
    settings_scan(s->log, "%lf", &split, "eval.split");
    if (!rc && o->column && (o->data.n || !o->eval_data.n) &&
        strcmp(o->column, column ? column : "text"))
        rc = err_misuse(err, "--text-column %s: this run took its texts from %s and keeps them: "
                        "leave the option out", o->column, column ? column : "text");
    if (!rc && o->split > 0 && o->split != split)
        rc = err_misuse(err, "--eval-split: this run %s and a resume keeps it: leave the option "
                        "out", split > 0 ? "has another part to evaluate on"
                                         : "took all of its documents to train on");
    free(column);
    return rc;
}

/* *new: the data that the run does not have yet. */
static int resume_check(struct corpus_opts *new, struct session *s, const struct corpus_opts *o,
                        char tokenizer[SESSION_PATH + 16], struct err *err)
{
    size_t has_data, has_eval;
    int    rc = corpus_count(&has_data, s->log, "data", err);

    *new = *o;
    rc = rc ? rc : corpus_count(&has_eval, s->log, "eval", err);
    if (!rc && has_data) {
        rc = resume_set(s, o, "data", &o->data, err);
        rc = rc ? rc : resume_choices(s, o, has_data, err);
        new->data.n = 0;
        new->mix = NULL;
        new->split = 0;
    }
    if (!rc && has_eval) {
        rc = resume_set(s, o, "eval", &o->eval_data, err);
        new->eval_data.n = 0;
    }
    if (rc || !(new->data.n + new->eval_data.n))
        return rc;
    snprintf(tokenizer, SESSION_PATH + 16, "%s/tokenizer", s->dir);
    new->tokenizer = tokenizer;
    return corpus_check(new, tokenizer, s->config.vocab, s->o.seq, s->events, err);
}

int corpus_resume_check(struct session *s, const struct corpus_opts *o, struct err *err)
{
    struct corpus_opts new;
    char               tokenizer[SESSION_PATH + 16];

    return resume_check(&new, s, o, tokenizer, err);
}

int corpus_resume(struct session *s, const struct corpus_opts *o, struct err *err)
{
    struct corpus_opts new;
    char               tokenizer[SESSION_PATH + 16];
    int                rc = resume_check(&new, s, o, tokenizer, err);

    if (rc || !(new.data.n + new.eval_data.n))
        return rc;
    rc = runlog_begin(s->log, err);
    rc = rc ? rc : runlog_end(s->log, corpus_add(s, &new, err), err);
    if (!rc)
        run_files_clean(s->dir, 1); // what says of which texts the tokens are
    return rc;
}
