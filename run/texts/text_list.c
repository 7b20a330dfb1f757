/* text_list.c: walks folders, and sorts what it finds. */
#include "run/texts/text_list.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/base/grow.h"
#include "data/base/hash.h"
#include "data/file/unpack.h"
#include "data/opt/opt_row.h"

#include <limits.h>
#include <sys/stat.h>

void text_list_free(struct text_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->file[i].path);
    free(l->file);
    free(l->item);
    *l = (struct text_list){ 0 };
}

size_t text_list_inputs(const char *const *names, size_t n)
{
    size_t inputs = 0;

    for (size_t i = 0; i < n; i++)
        inputs += !strcmp(names[i], "-");
    return inputs;
}

static int add(struct text_list *l, const char *path, const struct stat *st, int found,
               struct err *err)
{
    struct text_file f = { .path = strdup(path), .found = found };

    if (st) {
        f.size = (uint64_t)st->st_size;
        f.time_ns = file_ns(&st->st_mtim);
        f.changed_ns = file_ns(&st->st_ctim);
    }
    int rc = f.path ? grow(&l->file, &l->cap, l->n + 1, sizeof *l->file, "names of files", err)
                    : err_set(err, -ENOMEM, "no memory for the names of files");
    if (rc) {
        free(f.path);
        return rc;
    }
    l->bytes += f.size;
    l->file[l->n++] = f;
    return 0;
}

/* The folders around the one that is walked. */
struct above { const struct above *above; dev_t dev; ino_t ino; };

static int walk(struct text_list *l, const char *dir, const struct above *above, struct err *err);

/* A name in a folder: a file, or a folder to walk. */
static int walk_name(struct text_list *l, const char *path, const struct above *above,
                     struct err *err)
{
    struct stat st;

    if (stat(path, &st) && errno == ENOENT)
        return err_misuse(err, "%s is a link to a file that is not there: remove the link, or name "
                          "the files to read", path);
    if (stat(path, &st))
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) && !st.st_size ? 0 : add(l, path, &st, 1, err);
    for (const struct above *a = above; a; a = a->above)
        if (a->dev == st.st_dev && a->ino == st.st_ino)
            return err_misuse(err, "%s leads back to a folder around it: remove the link, or name "
                              "the folders to read", path);
    return walk(l, path, &(struct above){ above, st.st_dev, st.st_ino }, err);
}

static int walk(struct text_list *l, const char *dir, const struct above *above, struct err *err)
{
    char            *trimmed = file_path(err, "%.*s", (int)file_trimmed(dir), dir);
    struct file_walk w;
    int              rc = trimmed ? file_walk_begin(&w, trimmed, err) : -ENOMEM;

    while (!rc && file_walk_next(&w))
        rc = *w.name == '.' ? 0 : walk_name(l, w.path, above, err);
    rc = trimmed ? file_walk_end(&w, rc, err) : rc;
    free(trimmed);
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct text_file *one = a, *other = b;

    return strcmp(one->path, other->path);
}

/* Refuses a folder in which the output is, because the next command would read that, too. */
static int check_within(const char *dir, const char *written, struct err *err)
{
    char        in[PATH_MAX], of[PATH_MAX];
    char       *around = file_beside(written, ".", err);
    size_t      n;

    if (!around)
        return -ENOMEM;
    int inside = realpath(dir, in) && realpath(around, of) &&
                 !strncmp(of, in, n = strlen(in)) && (of[n] == '/' || !of[n] || n == 1);

    free(around);
    return inside ? err_misuse(err, "%s lies in the folder %s, which is read: choose another place "
                               "to write to", written, dir) : 0;
}

static int add_folder(struct text_list *l, const char *dir, const struct stat *st,
                      const char *const written[TEXT_WRITTEN], struct err *err)
{
    size_t first = l->n;
    int    rc = 0;

    for (size_t i = 0; written && i < TEXT_WRITTEN && !rc; i++)
        rc = written[i] ? check_within(dir, written[i], err) : 0;
    rc = rc ? rc : walk(l, dir, &(struct above){ NULL, st->st_dev, st->st_ino }, err);
    if (!rc && l->n == first)
        rc = err_misuse(err, "%s is a folder without files to read: hidden and empty files are "
                        "left out", dir);
    if (!rc)
        qsort(l->file + first, l->n - first, sizeof *l->file, compare);
    return rc;
}

int text_list_make(struct text_list *out, const char *const *names, size_t n,
                   const char *const written[TEXT_WRITTEN], struct err *err)
{
    int rc = text_list_inputs(names, n) > 1
                 ? err_misuse(err, "standard input (-) is named twice") : 0;

    *out = (struct text_list){ .name = names, .n_names = n };
    for (size_t i = 0, first = 0; i < n && !rc; i++) {
        struct stat st;

        if (!strcmp(names[i], "-"))
            rc = add(out, names[i], NULL, 0, err);
        else if (stat(names[i], &st))
            rc = err_name(err, errno, "%s: %s", names[i], strerror(errno));
        else if (S_ISDIR(st.st_mode))
            rc = add_folder(out, names[i], &st, written, err);
        else
            rc = add(out, names[i], &st, 0, err);
        for (; first < out->n; first++)
            out->file[first].of = i;
    }
    if (!rc && !(out->item = calloc(out->n + 1, sizeof *out->item)))
        rc = err_set(err, -ENOMEM, "no memory for the names of files");
    for (size_t i = 0; i < out->n && !rc; i++)
        out->item[i] = out->file[i].path;
    return rc;
}

const char *text_list_title(char *out, size_t size, const struct text_list *l)
{
    const char *first = l->n ? unpack_shown(*l->item) : "";

    if (l->n < 2)
        snprintf(out, size, "%s", first);
    else
        snprintf(out, size, "%s and %zu other file%s", first, l->n - 1, l->n == 2 ? "" : "s");
    return out;
}

char *text_list_text(const struct text_list *l)
{
    const struct opt_row     row = { .type = OPT_ARGS };
    const struct opt_strings paths = { (const char **)(uintptr_t)l->item, l->n };

    return opt_value_text(&row, &paths);
}

uint64_t text_list_hash(const struct text_list *l)
{
    uint64_t h = hash_mix(l->n);

    for (size_t i = 0; i < l->n; i++) {
        const struct text_file *f = &l->file[i];
        uint64_t                of[4] = { hash_bytes(f->path, strlen(f->path)), f->size,
                                          f->time_ns, f->changed_ns };

        h = hash_mix(h ^ hash_bytes(of, sizeof of));
    }
    return h;
}
