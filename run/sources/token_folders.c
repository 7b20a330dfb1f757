/* token_folders.c: a folder is one of token files if its first file is one: by llm.c's header, by
 * its name (.bin), or since --data-format says so. */
#include "run/sources/token_folders.h"

#include "data/file/file_kind.h"
#include "run/sources/mix_weights.h"
#include "run/texts/text_list.h"

#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* A set of files ("data" or "eval"), and of each the name that it was found by. */
struct named { const char *item[CORPUS_MOST]; size_t of[CORPUS_MOST], n; };

struct token_folders {
    struct named     data, eval;
    struct text_list list[2 * CORPUS_MOST]; // of folders
    size_t           lists;
    char            *mix;
};

static int is_tokens(int *is, const char *path, int format, struct err *err)
{
    char             head[FILE_HEAD_BYTES];
    struct file_look look;
    const char      *dot = strrchr(path, '.');
    size_t           n;
    int              rc = file_kind_begins(&look, head, &n, path, err);

    if (rc)
        return rc;
    *is = format == TOKENS_U16 || format == TOKENS_U32 || look.kind == FILE_TOKENS ||
          (format != TOKENS_TEXT && dot && !strcasecmp(dot, ".bin"));
    return 0;
}

static int add(struct named *to, const char *path, size_t of, struct err *err)
{
    if (to->n == CORPUS_MOST)
        return err_misuse(err, "%s: more than %d token files: siTrain prepare makes one file of "
                          "texts", path, CORPUS_MOST);
    to->item[to->n] = path;
    to->of[to->n++] = of;
    return 0;
}

static int add_name(struct token_folders *t, struct named *to, const char *name, size_t of,
                    int format, struct err *err)
{
    struct text_list        *l = &t->list[t->lists];
    struct stat              st;
    int                      is = 0, rc;
    int                      there = !strcmp(name, "-") || !stat(name, &st);

    if (!there && !file_is_absent(errno)) // it may be a folder
        return err_set(err, -errno, "%s: %s", name, strerror(errno));
    if (!there || !strcmp(name, "-") || !S_ISDIR(st.st_mode))
        return add(to, name, of, err);
    t->lists++;
    if ((rc = text_list_make(l, &name, 1, NULL, err)) ||
        (rc = is_tokens(&is, l->file[0].path, format, err)))
        return rc;
    if (!is)
        return add(to, name, of, err);
    for (size_t i = 0; i < l->n && !rc; i++) {
        rc = is_tokens(&is, l->file[i].path, format, err);
        if (!rc && !is)
            rc = err_misuse(err, "%s is no token file, as others in the folder %s are: give texts "
                            "and token files as folders of their own", l->file[i].path, name);
        rc = rc ? rc : add(to, l->file[i].path, of, err);
    }
    return rc;
}

static int add_set(struct token_folders *t, struct named *to, const struct opt_strings *names,
                   int format, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < names->n && !rc; i++)
        rc = add_name(t, to, names->item[i], i, format, err);
    return rc;
}

/* Weights of the files: those of the names, divided by sizes. */
static int divide(struct token_folders *t, const char *mix, size_t names, struct err *err)
{
    const struct named *d = &t->data;
    uint64_t            part[CORPUS_MOST];
    double              bytes[CORPUS_MOST], all[CORPUS_MOST] = { 0 };
    size_t              size;
    int                 rc = mix_weights_read(part, mix, names, "data", err);
    FILE               *f = rc ? NULL : open_memstream(&t->mix, &size);

    for (size_t i = 0; i < d->n && f && !rc; i++) {
        struct stat st = { 0 };

        if (strcmp(d->item[i], "-") && stat(d->item[i], &st))
            rc = err_name(err, errno, "%s: %s", d->item[i], strerror(errno));
        bytes[i] = st.st_size ? (double)st.st_size : 1;
        all[d->of[i]] += bytes[i];
    }
    for (size_t i = 0; i < d->n && f && !rc; i++)
        fprintf(f, "%s%.17g", i ? "," : "", (double)part[d->of[i]] * bytes[i] / all[d->of[i]]);
    int failed = !f || fclose(f);
    return rc || !failed ? rc : err_set(err, -ENOMEM, "out of memory for --mix");
}

int token_folders_open(struct token_folders **out, struct corpus_opts *all,
                       const struct corpus_opts *given, struct err *err)
{
    struct token_folders *t = *out = calloc(1, sizeof *t);

    *all = *given;
    if (!t)
        return err_set(err, -ENOMEM, "out of memory for the names of files");
    int rc = add_set(t, &t->data, &given->data, given->format, err);

    rc = rc ? rc : add_set(t, &t->eval, &given->eval_data, given->format, err);
    if (!rc && given->mix && t->data.n != given->data.n)
        rc = divide(t, given->mix, given->data.n, err);
    if (rc)
        return rc;
    all->data = (struct opt_strings){ t->data.item, t->data.n };
    all->eval_data = (struct opt_strings){ t->eval.item, t->eval.n };
    all->mix = t->mix ? t->mix : given->mix;
    return 0;
}

void token_folders_close(struct token_folders *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->lists; i++)
        text_list_free(&t->list[i]);
    free(t->mix);
    free(t);
}
