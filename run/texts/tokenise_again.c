/* tokenise_again.c: saves the files of tokenise_files, so that another process goes on with them,
 * and finds the files that an earlier process has left. */
#include "run/texts/tokenise_again.h"

#include "data/base/clock.h"
#include "data/base/hash.h"
#include "data/base/machine.h"
#include "data/base/version.h"
#include "data/file/file.h"
#include "data/opt/opt_row.h"

int again_saves(const struct tokenise *t)
{
    return t->of->goes_on && !text_files_piped(t->files);
}

int again_save(struct tokenise *t, struct err *err)
{
    unsigned char bytes[TOKENS_STATE] = { 0 };
    uint64_t      begun = clock_ns();
    int           rc = 0;

    memcpy(bytes, &t->state, sizeof t->state);
    for (int s = t->sides; s-- > 0 && !rc;) // the first one's state says what is in both
        rc = t->out[s].ids.f.fd < 0 ? 0 : tokens_writer_save(&t->out[s], bytes, err);
    t->saved_ns = clock_ns();
    t->save_ns = t->saved_ns - begun;
    return rc;
}

int again_key(struct tokenise *t, struct err *err)
{
    const struct tokenise_files *f = t->of;
    uint64_t of[5] = { text_files_hash(t->files), tokenizer_sum(f->tok), f->vocab,
                       hash_bytes(SITRAIN_VERSION, strlen(SITRAIN_VERSION)),
                       f->split_out ? hash_bytes(f->split_out, strlen(f->split_out)) : 0 };
    uint64_t    key = hash_bytes(of, sizeof of);
    struct stat st;
    int         rc = 0;

    for (size_t i = 0; tokenizer_file(i) && rc >= 0; i++) {
        char *path = file_path(err, "%s/%s", f->goes_on, tokenizer_file(i));

        rc = path ? 0 : -ENOMEM;
        if (!rc && !stat(path, &st))
            rc = 1;
        else if (!rc && !file_is_absent(errno)) // a file that nobody can look at is no missing one
            rc = err_set(err, -errno, "%s: %s", path, strerror(errno));
        if (rc > 0) {
            uint64_t at[4] = { i, (uint64_t)st.st_size, file_ns(&st.st_mtim),
                               file_ns(&st.st_ctim) };

            key = hash_mix(key ^ hash_bytes(at, sizeof at));
        }
        free(path);
    }
    t->state.key = key;
    return rc < 0 ? rc : 0;
}

static int fits_first(void *ctx, const void *state)
{
    struct tokenise *t = ctx;
    uint64_t         key = t->state.key;
    struct state     found;

    memcpy(&found, state, sizeof found);
    if (found.key != key) {
        t->other = 1;
        return 0;
    }
    t->state = found;
    return 1;
}

static int fits_second(void *ctx, const void *state)
{
    const struct tokenise *t = ctx;
    struct state           found;

    memcpy(&found, state, sizeof found);
    return found.key == t->state.key && found.pair == t->state.pair;
}

const char *again_place(const struct tokenise *t)
{
    return t->of->place ? t->of->place : t->out[0].ids.f.temp;
}

int again_leave(struct tokenise *t, int rc, struct err *err)
{
    uint64_t   count = t->state.count[0] + t->state.count[1];
    struct err failed;
    int        unsaved;

    if (!again_saves(t) || !count)
        return rc;
    if ((unsaved = again_save(t, &failed))) {
        *err = failed;
        return unsaved;
    }
    if (t->late)
        rc = err_time(err, "stopped, since --time-limit %s is over; the same command goes on "
                      "behind the %" PRIu64 " tokens in %s",
                      TIME_TEXT((double)t->of->time_limit), count, again_place(t));
    else
        err_stopped(err, "stopped; the same command goes on behind the %" PRIu64 " tokens in %s",
                    count, again_place(t));
    for (int s = 0; s < t->sides; s++)
        tokens_writer_keep(&t->out[s]);
    return rc;
}

int again_time(struct tokenise *t, struct err *err)
{
    double needs = (double)(t->block_ns + t->save_ns) / 1e9;

    if (!t->of->time_limit || machine_age() + needs < (double)t->of->time_limit)
        return 0;
    if (!again_saves(t))
        return err_set(err, -EINTR, "--time-limit %s is over, and nothing is kept of the tokens of "
                       "standard input: give more time, or a file",
                       TIME_TEXT((double)t->of->time_limit));
    t->late = t->further && t->state.count[0] + t->state.count[1];
    return 0;
}

int again_find(struct tokenise *t, const char *const *paths, struct err *err)
{
    size_t   vocab = tokenizer_vocab(t->of->tok);
    uint64_t key = t->state.key;
    int      rc = tokens_writer_find(&t->out[0], paths[0], vocab, fits_first, t, err);

    if (rc > 0 && t->sides > 1)
        rc = tokens_writer_find(&t->out[1], paths[1], vocab, fits_second, t, err);
    if (!rc && t->out[0].saves && t->sides > 1) // the second file was completed, the first was not
        rc = tokens_writer_again(&t->out[1], paths[1], vocab, t->state.count[1],
                                 t->state.ids[1], err);
    for (int s = 0; s < t->sides && rc > 0; s++) {
        int cut = tokens_writer_cut(&t->out[s], t->state.count[s], t->state.ids[s], err);

        t->other |= cut == -EBADMSG;
        rc = cut == -EBADMSG ? 0 : cut ? cut : rc;
        t->documents[s] = t->state.documents[s];
    }
    if (rc > 0) {
        int went = text_files_go(t->files, &t->state.place, t->events, err);

        if (err_goes_on(went, err))
            return again_leave(t, went, err);
        return went ? went : 1;
    }
    for (int s = 0; s < SIDES && !rc; s++) {
        append_close(&t->out[s].ids);
        t->documents[s] = 0;
    }
    t->state = (struct state){ .key = key };
    return rc;
}
