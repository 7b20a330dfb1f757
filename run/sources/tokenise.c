/* tokenise.c: tokenises text files in pieces. prepare, pretrain and eval share it. It connects the
 * tokenizer with the token files of tokens.c. */
#include "run/sources/tokenise.h"

#include "data/base/crc32c.h"
#include "data/base/file.h"
#include "data/base/file_kind.h"
#include "data/base/round.h"
#include "data/text/bpe_train.h"
#include "data/text/tokens.h"
#include "run/folder/output.h"

#include <strings.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

struct tokenise {
    const struct events  *events;
    struct tokenise_files *of;
    struct tokens_writer writer;
    struct token_buf      ids;
    char                 *piece;
};

int tokenise_known(const struct tokenizer *tok, const struct tokenise_ids *c, struct err *err)
{
    for (size_t i = 0; i < c->n; i++) {
        size_t      n = 0;
        const char *name = tokenizer_bytes(tok, c->ids[i], &n);

        if ((size_t)c->ids[i] >= c->vocab)
            return err_misuse(err, "%.300s: token %" PRIu64 " is \"%.*s\" (id %d), but the model "
                              "has the ids below %zu alone", c->where, c->first + i + 1,
                              (int)size_min(n, 60), name ? name : "", (int)c->ids[i], c->vocab);
    }
    return 0;
}

/* Append ids, from the file `path`, to the output. */
static int add_ids(struct tokenise *t, const int32_t *ids, size_t n, const char *path,
                   struct err *err)
{
    struct tokenise_ids c = { ids, n, t->of->vocab, path, t->writer.count };
    int                 rc = c.vocab ? tokenise_known(t->of->tok, &c, err) : 0;

    return rc ? rc : tokens_writer_add(&t->writer, ids, n, err);
}

/* Append the template's tokens for one place. */
static int add_around(struct tokenise *t, enum tokenizer_place place, const char *path,
                      struct err *err)
{
    const struct token_buf *ids = tokenizer_around(t->of->tok, place);

    return add_ids(t, ids->ids, ids->n, path, err);
}

/* Send a notice if the file's name is a table's, since only the name distinguishes a table from a
 * text. */
static void say_table(const struct tokenise *t, const char *path)
{
    const char *dot = strrchr(path, '.');

    if (dot && (!strcasecmp(dot, ".csv") || !strcasecmp(dot, ".tsv")))
        events_notice(t->events, "%s is read as one text, with the separators and all columns of a "
                      "table (finetune takes rows)", path);
}

static int add_file(struct tokenise *t, const char *path, struct err *err)
{
    uint64_t size, n;
    int      fd, rc = file_open_read(path, &fd, &size, err);

    if (rc)
        return rc;
    say_table(t, path);
    struct watch w = work_begin(t->events, "tokenising %s", path);
    for (uint64_t done = 0; done < size && !rc; done += n) {
        n = size_min(size - done, PIECE_BYTES);
        t->ids.n = 0;
        if (!(rc = file_pread(fd, t->piece, n, done, path, err)))
            t->of->sum = crc32c(t->of->sum, t->piece, n);
        if (!rc &&
            !(rc = tokenizer_feed(t->of->tok, t->piece, n, done + n == size, &t->ids, err)) &&
            !(rc = add_ids(t, t->ids.ids, t->ids.n, path, err)))
            rc = watch_look(&w, done + n, size, err);
    }
    work_end(t->events);
    close(fd);
    return rc;
}

int tokenise_sum(uint32_t *sum, const char *path, const struct events *events, struct err *err)
{
    uint64_t size = 0, n;
    char    *piece = malloc(PIECE_BYTES);
    int      fd = -1, rc = piece ? file_open_read(path, &fd, &size, err)
                                 : err_set(err, -ENOMEM, "%s: out of memory", path);

    *sum = 0;
    struct watch w = work_begin(events, "reading %s", path);
    for (uint64_t done = 0; done < size && !rc; done += n) {
        n = size_min(size - done, PIECE_BYTES);
        rc = file_pread(fd, piece, n, done, path, err);
        *sum = rc ? 0 : crc32c(*sum, piece, n);
        rc = rc ? rc : watch_look(&w, done + n, size, err);
    }
    work_end(events);
    if (fd >= 0)
        close(fd);
    free(piece);
    return rc;
}

int tokenise_detect(const char *path, enum tokens_format as, size_t vocab, unsigned *width,
                    const struct events *events, struct err *err)
{
    struct watch w = work_begin(events, "looking at %s", path);
    int          rc = tokens_detect(path, as, vocab, width, &w, err);
    work_end(events);
    return rc;
}

int tokenise_check(const char *const *texts, size_t n, int json, const struct events *events,
                   struct err *err)
{
    struct file_look look;

    for (size_t i = 0; i < n; i++) {
        struct watch w = work_begin(events, "looking at %s", texts[i]);
        int          rc = file_kind_look(&look, texts[i], &w, err);

        work_end(events);
        if (rc)
            return rc;
        if (look.kind != FILE_TEXT && !(json && look.kind == FILE_JSON))
            return file_kind_refuse(&look, texts[i], FILE_FOR_TEXT, err);
    }
    return 0;
}

int tokenise_files(struct tokenise_files *f, const char *out, const struct events *events,
                   struct err *err)
{
    struct tokenise t = { .events = events, .of = f, .piece = malloc(PIECE_BYTES) };
    int32_t         between = tokenizer_endoftext(f->tok);
    int             template = tokenizer_has_template(f->tok);
    int             rc = 0;

    if (!t.piece)
        rc = err_set(err, -ENOMEM, "%s: out of memory", out);
    else if (f->n > 1 && between < 0 && !template)
        rc = err_misuse(err, "the tokenizer has neither an eos_token nor a template to put "
                              "between two files");
    if (!rc)
        rc = tokens_writer_open(&t.writer, out, tokenizer_vocab(f->tok), err);
    for (size_t i = 0; i < f->n && !rc; i++) {
        const char *path = f->texts[i];

        if (i > 0 && !template)
            rc = add_ids(&t, &between, 1, path, err);
        rc = rc ? rc : add_around(&t, TOKENIZER_BEFORE, path, err);
        rc = rc ? rc : add_file(&t, path, err);
        rc = rc ? rc : add_around(&t, TOKENIZER_BEHIND, path, err);
    }
    rc = rc || !f->checked ? rc : output_check(f->checked, err);
    rc = rc ? rc : tokens_writer_commit(&t.writer, err);
    f->count = t.writer.count;
    append_close(&t.writer.ids);
    token_buf_free(&t.ids);
    free(t.piece);
    return rc;
}

int tokenise_train(const char *const *texts, size_t n, size_t vocab, const char *dir, size_t *ids,
                   const struct events *events, struct err *err)
{
    struct bpe_train *b = NULL;
    struct tokenizer *tok = NULL;
    struct output     out = { dir, OUTPUT_TOKENIZER, texts, n };
    int               rc = output_check(&out, err);

    rc = rc ? rc : output_check_folder_name(dir, "a tokenizer is a folder", err);
    rc = rc ? rc : tokenise_check(texts, n, 1, events, err);
    rc = rc ? rc : bpe_train_open(&b, err);
    for (size_t i = 0; i <= n && !rc; i++) {
        struct watch w = i < n ? work_begin(events, "reading %s", texts[i])
                               : work_begin(events, "training a tokenizer");
        rc = i < n ? bpe_train_file(b, texts[i], &w, err)
                   : bpe_train_finish(b, vocab, &tok, &w, err);
        work_end(events);
    }
    rc = rc ? rc : output_tokenizer(&out, tok, err);
    if (!rc)
        *ids = tokenizer_vocab(tok);
    tokenizer_close(tok);
    bpe_train_close(b);
    return rc;
}

/* The first id with different words in a and b; -1: none. */
static int32_t first_other(const struct tokenizer *a, const struct tokenizer *b)
{
    size_t most = size_max(tokenizer_vocab(a), tokenizer_vocab(b)), n, m;

    for (size_t id = 0; id < most; id++) {
        const char *one = tokenizer_bytes(a, (int32_t)id, &n),
                   *other = tokenizer_bytes(b, (int32_t)id, &m);

        if (!one != !other || (one && (n != m || memcmp(one, other, n))))
            return (int32_t)id;
    }
    return -1;
}

int tokenise_same(const char *given, const char *own, struct err *err)
{
    struct tokenizer *a = NULL, *b = NULL;
    struct err        why = { 0 };
    int               rc = strcmp(given, own) ? tokenizer_open(&b, own, &why) : 0;
    int32_t           id;

    if (rc && !why.misuse)
        rc = err_set(err, rc, "%s", why.text);
    else if (rc)
        rc = 0; // an unknown kind of tokenizer: nothing to compare
    else if (b) {
        rc = tokenizer_open(&a, given, err);
        if (!rc && (id = first_other(a, b)) >= 0)
            rc = err_misuse(err, "--tokenizer %s is not the tokenizer of %s, whose id %d is "
                            "another word: leave --tokenizer out", given, own, (int)id);
        else if (!rc && !tokenizer_same_merges(a, b))
            rc = err_misuse(err, "--tokenizer %s is not the tokenizer of %s, whose merges are "
                            "others or in another order: leave --tokenizer out", given, own);
    }
    tokenizer_close(a);
    tokenizer_close(b);
    return rc;
}
