/* tokenise_done.c: writes and reads the file that says of what a token file was made. Its state
 * begins with a word that no unfinished token file has there: see struct state in
 * tokenise_files.c, which begins with a hash. */
#include "run/texts/tokenise_done.h"

#include "data/text/tokens.h"
#include "data/text/tokens_writer.h"

#include <unistd.h>

/* VOCAB: the file never has an id. */
enum { VOCAB = 1 };

struct said {
    char                 mark[16];
    struct tokenise_done done;
};
_Static_assert(sizeof(struct said) <= TOKENS_STATE, "it fits into a token file's header");

static const char mark[sizeof((struct said *)0)->mark] = "siTrain is done";

int tokenise_done_put(const struct tokenise_done *d, const char *first, struct err *err)
{
    unsigned char        bytes[TOKENS_STATE] = { 0 };
    struct said          said = { .done = *d };
    struct tokens_writer w;
    int                  rc = tokens_writer_open(&w, first, VOCAB, err);

    memcpy(said.mark, mark, sizeof mark);
    memcpy(bytes, &said, sizeof said);
    if (rc)
        return rc;
    rc = tokens_writer_save(&w, bytes, err);
    if (!rc)
        tokens_writer_keep(&w);
    append_close(&w.ids);
    return rc;
}

struct finding { uint64_t key; int other; struct tokenise_done done; };

/* Whether the state of an unfinished file is one of this file's. */
static int is_said(void *ctx, const void *state)
{
    (void)ctx;
    return !memcmp(state, mark, sizeof mark);
}

static int fits(void *ctx, const void *state)
{
    struct finding *f = ctx;
    struct said     said;

    if (!is_said(NULL, state))
        return 0;
    memcpy(&said, state, sizeof said);
    f->done = said.done;
    f->other |= !f->key || said.done.key != f->key;
    return f->key && said.done.key == f->key;
}

/* Whether this is the complete token file of a side; or -errno. */
static int is_whole(const char *path, const struct tokenise_done *d, int side, struct err *err)
{
    struct tokens *t = NULL;
    int            rc = tokens_open(&t, path, 2, err);

    if (rc)
        return file_is_unread(rc) ? rc : 0;
    rc = t->count == d->count[side]
             ? tokens_ids_are(t->fd, t->count * t->width, d->ids[side]) : 0;
    tokens_close(t);
    return rc < 0 ? err_set(err, rc, "read %s: %s", path, strerror(-rc)) : rc;
}

/* Whether all files are complete, by now. The last one of the maker's names is the first file. */
static int are_whole(const char *const files[TOKENISE_SIDES], const struct tokenise_done *d,
                     struct err *err)
{
    int rc = 1;

    for (int s = TOKENISE_SIDES; s-- > 0 && rc > 0;) {
        rc = files[s] ? is_whole(files[s], d, s, err) : 1;
        rc = rc ? rc : tokens_writer_finish(files[s], (size_t)d->vocab, d->count[s], d->ids[s],
                                            err);
    }
    return rc;
}

int tokenise_done_find(struct tokenise_done *d, const char *const files[TOKENISE_SIDES],
                       int *other, struct err *err)
{
    struct finding       f = { .key = d->key };
    struct tokens_writer w;
    int                  rc = tokens_writer_find(&w, files[0], VOCAB, fits, &f, err);

    if (rc > 0) {
        tokens_writer_keep(&w);
        *d = f.done;
        return are_whole(files, d, err);
    }
    for (int s = 0; !rc && f.other && s < TOKENISE_SIDES; s++) {
        int whole = files[s] ? is_whole(files[s], &f.done, s, err) : 0;

        if (whole > 0) {
            *other = 1;
            unlink(files[s]);
        }
        rc = whole < 0 ? whole : 0;
    }
    return rc;
}

int tokenise_done_says(const char *path, const char *first, int side, struct err *err)
{
    struct finding       f = { 0 };
    struct tokens_writer w;
    int                  rc = tokens_writer_find(&w, first, VOCAB, fits, &f, err);

    if (rc > 0)
        tokens_writer_keep(&w);
    return rc < 0 ? rc : rc || f.other ? is_whole(path, &f.done, side, err) : 0;
}

void tokenise_done_forget(const char *first)
{
    struct tokens_writer w;
    int                  rc = tokens_writer_find(&w, first, VOCAB, is_said, NULL, NULL);

    if (rc > 0)
        append_close(&w.ids); // a file that was not committed goes
}
