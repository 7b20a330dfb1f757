/* tokenise.c: looks at texts, compares tokenizers and trains them: what prepare, pretrain and eval
 * share, but for tokenise_files.c. */
#include "run/texts/tokenise.h"

#include "data/base/round.h"
#include "data/file/unpack.h"
#include "data/text/bpe_train.h"
#include "run/folder/output.h"
#include "run/texts/text_files.h"

enum { PIECE_BYTES = 1 << 20 };

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

int tokenise_sum(uint32_t *sum, const char *path, const struct events *events, struct err *err)
{
    struct text_list list;
    struct unpack   *u = NULL;
    char            *piece = malloc(PIECE_BYTES);
    int              rc = text_list_make(&list, &path, 1, NULL, err);
    uint64_t         done, total;

    *sum = 0;
    if (!rc && !piece)
        rc = err_set(err, -ENOMEM, "%s: out of memory", path);
    struct watch w = work_begin(events, "reading %s", path);
    for (size_t i = 0; i < list.n && !rc; i++) {
        size_t n = 0;

        if ((rc = unpack_begin(&u, list.file[i].path, err)))
            break;
        unpack_sum_begin(u, *sum);
        do {
            rc = unpack_read(u, piece, PIECE_BYTES, &n, err);
            unpack_progress(u, &done, &total);
            rc = rc ? rc : watch_look(&w, done, total, err);
        } while (!rc && n);
        *sum = unpack_sum(u);
        unpack_end(u);
    }
    work_end(events);
    text_list_free(&list);
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

/* Counts the words of a block. */
static int train_block(struct bpe_train *b, const struct text_files *files,
                       const struct text_block *block, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < block->n_pieces && !rc; i++) {
        const struct text_piece *p = &block->piece[i];
        struct text_reading      how = text_files_reading(files, p->file);
        struct text_found        found;

        rc = text_find(&found, &how, p, block->text + p->from, err);
        rc = rc ? rc : bpe_train_feed(b, found.text, found.n, p->ends, err);
        free(found.made);
    }
    if (!rc && block->rc) {
        rc = block->rc;
        *err = block->err;
    }
    return rc;
}

/* Counts the words of all texts. */
static int train_on(struct bpe_train *b, const struct tokenise_train *t,
                    const struct events *events, struct err *err)
{
    struct text_files_of of = { .texts = t->texts, .n = t->n, .column = t->column,
                                .plain = t->as == TOKENS_TEXT };
    struct text_files *files = NULL;
    struct text_block  block = { 0 };
    int                rc = text_files_open(&files, &of, events, err);
    struct watch       w = t->n == 1
                               ? work_begin(events, "reading %s", unpack_shown(t->texts[0]))
                               : work_begin(events, "reading %zu inputs", t->n);

    while (!rc && !block.end) {
        text_files_read(files, &block);
        rc = train_block(b, files, &block, err);
        rc = rc ? rc : watch_look(&w, block.done, text_files_bytes(files), err);
    }
    work_end(events);
    text_block_free(&block);
    text_files_close(files);
    return rc;
}

int tokenise_train(struct tokenise_train *t, const struct events *events, struct err *err)
{
    struct bpe_train *b = NULL;
    struct tokenizer *tok = NULL;
    struct output     out = { t->dir, OUTPUT_TOKENIZER, t->texts, t->n };
    int               rc = output_check(&out, err);

    rc = rc ? rc : output_check_folder_name(t->dir, "a tokenizer is a folder", err);
    rc = rc ? rc : bpe_train_open(&b, err);
    rc = rc ? rc : train_on(b, t, events, err);
    if (!rc) {
        struct watch w = work_begin(events, "training a tokenizer");

        rc = bpe_train_finish(b, t->vocab, &tok, &w, err);
        work_end(events);
    }
    rc = rc ? rc : output_tokenizer(&out, tok, err);
    if (!rc)
        t->ids = tokenizer_vocab(tok);
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
