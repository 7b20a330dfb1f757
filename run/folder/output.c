/* output.c: checks where a path leads, then what exists there. Names are compared with links
 * resolved; the last component must not be a link. */
#include "run/folder/output.h"

#include "data/file/file.h"
#include "data/file/file_names.h"
#include "data/file/file_walk.h"
#include "data/text/tokenizer.h"
#include "data/text/tokens.h"
#include "offload/layout/store.h"
#include "run/folder/run_files.h"

#include <ctype.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { HEAD_BYTES = SUPERBLOCK_BYTES };

static const char attribute[] = "user.sitrain", predictions[] = "predictions";

/* In the order of enum output_kind. */
static const char *const kind_names[] = {
    "pages of siTrain report --html",
    "timelines of siTrain report --trace",
    "token files of siTrain prepare",
    "predictions of siTrain eval --predict",
    "predictions of siTrain plan --json",
    "figures of siTrain bench --json",
    "machines of siTrain bench --save",
    "GGUF files of siTrain export",
};

/* How files begin that siTrain writes, and what else their first 4 KiB contain. If a kind has
 * several rows, this version writes the first; older versions wrote the others. */
static const struct mark { enum output_kind kind; const char *begins, *has[2]; } marks[] = {
    { OUTPUT_PAGE, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"siTrain ", { NULL } },
    { OUTPUT_PAGE, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\"", { "<style>\n/* page.css: how a report looks:" } },
    { OUTPUT_TIMELINE, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"siTrain ",
      { NULL } },
    { OUTPUT_PREDICTIONS, "index\tprediction\n", { NULL } }, // with the attribute, both
    { OUTPUT_PREDICTIONS, "index\tprediction\tp_", { NULL } },
    { OUTPUT_PLAN, "{\n  \"about\": \"siTrain plan\",\n", { NULL } },
    { OUTPUT_PLAN, "{\n  \"activations\": {\n    \"asked\": ", { "\n  \"predictions\": [" } },
    { OUTPUT_PLAN, "{\n  \"devices\": ", { "\n  \"flops\": ", "\n  \"predictions\": [" } },
    { OUTPUT_FIGURES, "{\n  \"about\": \"siTrain bench\",\n", { NULL } },
    { OUTPUT_FIGURES, "{\n  \"version\": \"", { "\",\n  \"machine\": {\n    \"cpu\": ",
                                                "\n    \"grad_accum\": " } },
    { OUTPUT_MACHINE, "# A machine as siTrain bench --save measured it;", { NULL } },
    { OUTPUT_GGUF, "GGUF\3", { "sitrain.family" } },
};

/* Names in a Hugging Face model's folder. Any of the first TELLING names marks a folder as a
 * model's. All names are then reserved in it. */
enum { TELLING = 9 };
static const char *const model_names[] = {
    "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt",
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "adapter_config.json", // TELLING
    "*.safetensors", "*.safetensors.index.json", "pytorch_model*", "tokenizer.*", "vocab.*",
    "encoder.json", "merges.txt", "spiece.model", "sentencepiece*.model", "generation_config.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template*", "preprocessor_config.json",
    "training_args.bin", "adapter_model*",
};

/* The files that prepare --train-tokenizer writes. */
static const char *const tokenizer_names[] = { "merges.txt", "special_tokens_map.json",
                                               "tokenizer.json", "tokenizer_config.json",
                                               "vocab.json" };
enum { TOKENIZER_NAMES = sizeof tokenizer_names / sizeof *tokenizer_names };

/* ---- where the path leads ---- */

/* dir: absolute, without links. name: the last component; "" for the root. st: the status of the
 * file, if it exists. */
struct target { char dir[PATH_MAX], name[NAME_MAX + 1]; struct stat st; int there; };

static int target_find(struct target *out, const char *path, struct err *err)
{
    size_t      n = file_trimmed(path), begin = n;
    struct stat st;
    char        at[PATH_MAX];

    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (!n || n >= sizeof at || n - begin >= sizeof out->name)
        return err_misuse(err, n ? "%s: the name is too long" : "a name is expected, not \"%s\"",
                          path);
    snprintf(at, sizeof at, "%.*s", begin ? (int)begin : 1, begin ? path : ".");
    snprintf(out->name, sizeof out->name, "%.*s", (int)(n - begin), path + begin);
    int why = !realpath(at, out->dir) || stat(out->dir, &st) ? errno
              : S_ISDIR(st.st_mode)                          ? 0 : ENOTDIR;
    if (why && why != ELOOP && !file_is_absent(why))
        return err_set(err, -why, "%s: the folder %s cannot be read: %s", path, at, strerror(why));
    if (why)
        return err_misuse(err, "%s: there is no folder %s", path, at);
    snprintf(at, sizeof at, "%.*s", (int)n, path);
    int rc = file_stat(at, &out->st, err);
    out->there = rc > 0;
    return rc < 0 ? rc : 0;
}

/* Refuse an existing file of another type than the output: a folder, a link, a device. */
static int check_sort(const struct output *o, const struct target *p, struct err *err)
{
    int         folder = o->kind == OUTPUT_TOKENIZER;
    const char *last = strrchr(o->path, '/');

    if (o->kind == OUTPUT_MODEL) // hf_export checks it
        return 0;
    if (!*p->name || !strcmp(p->name, ".") || !strcmp(p->name, "..") ||
        (!folder && last && !last[1]))
        return err_misuse(err, "%s: the name of a %s is expected", o->path,
                          folder ? "folder, not dots," : "file");
    if (!p->there)
        return 0;
    if (folder && S_ISLNK(p->st.st_mode))
        return err_misuse(err, "%s is a symbolic link: give the name of the folder itself",
                          o->path);
    if (folder && !S_ISDIR(p->st.st_mode))
        return err_misuse(err, "%s is there and is not a folder: choose another name", o->path);
    if (!folder && !S_ISREG(p->st.st_mode))
        return err_misuse(err, "%s is there and is not a regular file: choose another name",
                          o->path);
    const char *fixed = file_fixed(o->path);
    return fixed ? err_misuse(err, "%s %s, or choose another name", o->path, fixed) : 0;
}

/* True if `path` is inside the folder with status `st`. */
static int is_within(const char *path, const struct stat *st)
{
    struct stat at;
    char        up[PATH_MAX], *slash;

    if (!realpath(path, up))
        return 0;
    while ((slash = strrchr(up, '/'))) {
        slash[slash == up] = '\0';
        if (!stat(up, &at) && file_same(&at, st))
            return 1;
        if (slash == up)
            break;
    }
    return 0;
}

static int check_inputs(const struct output *o, const struct target *p, struct err *err)
{
    struct target other;
    struct stat  st;

    for (size_t i = 0; i < o->n_inputs; i++) {
        const char *in = o->inputs[i];

        if (!in)
            continue;
        if (p->there && !stat(in, &st) && file_same(&st, &p->st))
            return err_misuse(err, "%s is also the input: choose another name to write to",
                              o->path);
        if (p->there && S_ISDIR(p->st.st_mode) && is_within(in, &p->st))
            return err_misuse(err, "%s holds %s, which is read: choose another name", o->path, in);
        if (!p->there && !target_find(&other, in, NULL) && !strcmp(other.dir, p->dir) &&
            !strcmp(other.name, p->name))
            return err_misuse(err, "%s is named twice: choose another name to write to", o->path);
    }
    return 0;
}

/* ---- reserved names: in any case, since a file system may not tell DATA.BIN from data.bin ---- */

static int has(const char *dir, const char *name)
{
    struct stat st;
    char        path[PATH_MAX + NAME_MAX + 2];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return !lstat(path, &st) || !file_is_absent(errno);
}

/* The name of a file that a run, or one that is being made, has in its folder; NULL: dir has none.
 * Another program may have a file of that name, so sentences name it. */
static const char *run_sign(const char *dir)
{
    static const char *const signs[] = { "run.db", "run.db.new", "run.lock" };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (has(dir, signs[i]))
            return signs[i];
    return NULL;
}

/* True for the name of a snapshot, or of what it becomes as it goes, in a folder NAME-ID of a run's
 * snapshots. */
static int is_snapshot(const char *dir, const char *name)
{
    size_t n = strlen(dir), id = 0;

    while (id < n && isxdigit((unsigned char)dir[n - 1 - id]))
        id++;
    return id == 32 && id < n && dir[n - 1 - id] == '-' &&
           !fnmatch("step-+([0-9])*", name, FNM_EXTMATCH | FNM_CASEFOLD);
}

/* Refuse a reserved name in a run, any name below a run's own folders, or in a snapshot. */
static int check_runs(const struct output *o, const struct target *p, struct err *err)
{
    char        dir[PATH_MAX], below[NAME_MAX + 1];
    const char *name = p->name, *own = o->kind == OUTPUT_EVENTS      ? "tensorboard"
                                       : o->kind == OUTPUT_SNAPSHOTS ? "snapshots"
                                                                     : "";

    snprintf(dir, sizeof dir, "%s", p->dir);
    for (;;) {
        const struct run_file *f = run_file_reserves(name);
        const char            *sign = f ? run_sign(dir) : NULL;
        char                  *slash = strrchr(dir, '/');

        if (sign && strcasecmp(name, own))
            return err_misuse(err, "%s: %s is the name of a part of a run (%s), and %s has %s: "
                              "choose another name", o->path, name, f->what, dir, sign);
        if (is_snapshot(dir, name))
            return err_misuse(err, "%s: %s is the name of a part of a run (a snapshot), and %s is "
                              "a folder of snapshots: choose another name", o->path, name, dir);
        if (!slash || !slash[1])
            return 0;
        snprintf(below, sizeof below, "%.*s", NAME_MAX, slash + 1);
        name = below;
        slash[slash == dir] = '\0';
    }
}

static int is_model_name(const char *name, int how)
{
    size_t i = 0, n = sizeof model_names / sizeof *model_names;

    while (i < n && fnmatch(model_names[i], name, how))
        i++;
    return i < n;
}

int output_is_model(const char *name) { return is_model_name(name, 0); }

static int check_models(const struct output *o, const struct target *p, struct err *err)
{
    size_t telling = 0;
    int    is_model = is_model_name(p->name, FNM_CASEFOLD);

    while (is_model && telling < TELLING && !has(p->dir, model_names[telling]))
        telling++;
    return !is_model || telling == TELLING
               ? 0
               : err_misuse(err, "%s: %s is the name of a part of a model, and %s holds one (%s): "
                            "choose another name", o->path, p->name, p->dir, model_names[telling]);
}

/* ---- existing files ---- */

static int fits(const struct mark *m, const char *head, size_t n)
{
    size_t begins = strlen(m->begins);
    int    ok = n >= begins && !memcmp(head, m->begins, begins);

    for (size_t i = 0; ok && i < sizeof m->has / sizeof *m->has && m->has[i]; i++)
        ok = memmem(head, n, m->has[i], strlen(m->has[i])) != NULL;
    return ok;
}

static int is_marked(int fd)
{
    char text[sizeof predictions];

    return fgetxattr(fd, attribute, text, sizeof text) == (ssize_t)sizeof predictions - 1 &&
           !memcmp(text, predictions, sizeof predictions - 1);
}

static int is_kind(enum output_kind kind, const char *head, size_t n)
{
    int ours = kind == OUTPUT_TOKENS && tokens_ours(head, n);

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        ours |= marks[i].kind == kind && fits(&marks[i], head, n);
    return ours;
}

/* The input folder that contains the existing file; NULL: none. */
static const char *read_folder(const struct output *o)
{
    struct stat st;

    for (size_t i = 0; i < o->n_inputs; i++)
        if (o->inputs[i] && !stat(o->inputs[i], &st) && S_ISDIR(st.st_mode) &&
            is_within(o->path, &st))
            return o->inputs[i];
    return NULL;
}

static int refuse(const struct output *o, int unmarked, struct err *err)
{
    const char *in = read_folder(o);

    if (unmarked)
        return err_misuse(err, "%s is there and is not marked as %s (by the attribute %s): choose "
                          "another name, or remove it", o->path, kind_names[o->kind], attribute);
    return err_misuse(err, "%s is there%s%s%s and does not begin as %s do: choose another name%s",
                      o->path, in ? ", in " : "", in ? in : "", in ? ", which is read," : "",
                      kind_names[o->kind], in ? "" : ", or remove it");
}

static int check_file(const struct output *o, struct err *err)
{
    char     head[HEAD_BYTES + 1] = "";
    uint64_t size;
    int      fd, rc = file_open_read(o->path, &fd, &size, err);

    if (rc)
        return rc;
    size_t n = size_min(size, HEAD_BYTES);
    rc = file_pread(fd, head, n, 0, o->path, err);
    if (!rc && n == HEAD_BYTES && superblock_present(head))
        rc = err_misuse(err, "%s holds a device's states: choose another name", o->path);
    else if (!rc && n && o->kind == OUTPUT_RENDERINGS) // anybody's JSON may begin so
        rc = err_misuse(err, "%s is there: choose another name, or remove it", o->path);
    else if (!rc && n && !is_kind(o->kind, head, n))
        rc = refuse(o, 0, err);
    else if (!rc && n && o->kind == OUTPUT_PREDICTIONS && !is_marked(fd))
        rc = refuse(o, 1, err);
    close(fd);
    return rc;
}

/* ---- a tokenizer's folder ---- */

/* 1 if the file dir/name begins with `text`, 0 if not; -errno if it cannot be read. */
static int begins(const char *dir, const char *name, const char *text, struct err *err)
{
    char     head[256] = "", *path = file_path(err, "%s/%s", dir, name);
    uint64_t size = 0;
    int      fd = -1, rc = path ? file_open_read(path, &fd, &size, err) : -ENOMEM;

    rc = rc ? rc : file_pread(fd, head, size_min(size, sizeof head), 0, path, err);
    file_close(fd);
    free(path);
    if (rc)
        return rc == -ENOENT ? 0 : rc;
    return size >= strlen(text) && !memcmp(head, text, strlen(text));
}

/* Accept an empty folder, or a folder with only the tokenizer's files, all regular. Two files must
 * begin as siTrain writes them: Hugging Face's libraries sort the keys of tokenizer_config.json and
 * write vocab.json in one line. */
static int check_tokenizer(const struct output *o, const char *path, struct err *err)
{
    struct file_walk w;
    struct stat      st;
    size_t           n = 0;
    int              rc = file_walk_begin(&w, path, NULL);

    if (rc)
        return rc == -ENOENT ? 0 : err_set(err, rc, "open folder %s: %s", o->path, strerror(-rc));
    for (; !rc && file_walk_next(&w); n++) {
        const char *fixed = file_fixed(w.path);
        size_t      i = 0;

        while (i < TOKENIZER_NAMES && strcmp(w.name, tokenizer_names[i]))
            i++;
        if ((rc = file_stat(w.path, &st, err)) < 0)
            break;
        rc = 0;
        if (i == TOKENIZER_NAMES || !S_ISREG(st.st_mode))
            rc = err_misuse(err, "%s is there and holds %s, which siTrain prepare did not write: "
                            "choose another folder", o->path, w.name);
        else if (fixed) // it would go along with the folder that is replaced
            rc = err_misuse(err, "%s/%s %s, or choose another folder", o->path, w.name, fixed);
    }
    int ours = rc || !n ? 1
                        : begins(path, "tokenizer_config.json",
                                 "{\n  \"tokenizer_class\": \"GPT2TokenizerFast\",\n"
                                 "  \"add_prefix_space\": false,\n  \"bos_token\": ", err);
    if (!rc && n && ours > 0)
        ours = begins(path, "vocab.json", "{\n  \"!\": 0,\n", err);
    if (ours < 0)
        rc = ours;
    else if (!ours)
        rc = err_misuse(err, "%s is there and does not begin as tokenizers of siTrain prepare "
                        "do: choose another folder, or remove it", o->path);
    return file_walk_end(&w, rc, err);
}

/* The folder at `path` was, or is, o->path: refuse one whose files are not as at the beginning. */
static int check_state(const struct output *o, const char *path, const struct file_names *files,
                       struct err *err)
{
    int rc = check_tokenizer(o, path, err);

    rc = rc ? rc : file_names_same(files, path, err);
    if (rc)
        return rc < 0 ? rc : 0;
    return err_set(err, -EEXIST, "%s was made or changed by another program meanwhile: it stays; "
                   "move it elsewhere, or choose another name, and try again", o->path);
}

/* Call the new folder DIR.old-HEX before the exchange, so that the old one gets that name from its
 * first moment. No command removes a folder of that name. */
static int name_old(struct file_new *f, struct err *err)
{
    char *old = file_path(err, "%s.old-%s", f->path, strrchr(f->temp, '-') + 1);
    int   rc = old ? file_new_rename(f, old, err) : -ENOMEM;

    free(old);
    return rc;
}

/* Exchange the new folder f->temp with the existing f->path, which has these files. The old folder,
 * now f->temp, is checked again, because somebody may have added or changed a file meanwhile. What
 * comes to it even later stays. */
static int exchange(const struct output *o, struct file_new *f, const struct file_names *files,
                    struct err *err)
{
    int rc = check_state(o, f->path, files, err);

    rc = rc ? rc : name_old(f, err);
    if (rc)
        return rc;
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE))
        return file_lacks_flags(errno) || errno == EXDEV // a lower layer of an overlay
                   ? err_set(err, -errno, "the file system of %s cannot exchange two folders in "
                             "one step: remove %s, or choose another name", o->path, o->path)
                   : err_set(err, -errno, "exchange %s and %s: %s", f->temp, f->path,
                             strerror(errno));
    rc = check_state(o, f->temp, files, err);
    if (rc && !renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->path, RENAME_EXCHANGE))
        return rc;
    if (!rc && !file_names_remove(files, f->temp))
        return 0;
    rc = err_set(err, rc ? rc : -EEXIST, "%s is the new tokenizer, but the old folder now holds "
                 "other files: it is kept as %s", o->path, f->temp);
    file_new_keep(f);
    return rc;
}

int output_tokenizer(const struct output *o, const struct tokenizer *tok, struct err *err)
{
    struct file_names files = { 0 };
    struct file_new   f;
    int               rc = file_new_folder(&f, o->path, err);

    if (rc)
        return rc;
    if (file_may_be(f.path))
        rc = file_names_take(&files, f.path, err);
    rc = rc ? rc : tokenizer_save(tok, f.temp, err);
    file_new_like_folder(&f);
    rc = rc ? rc : output_check(o, err);
    if (!rc && rename(f.temp, f.path)) // replaces nothing or an empty folder
        rc = errno == ENOTEMPTY || errno == EEXIST
                 ? exchange(o, &f, &files, err)
                 : err_set(err, -errno, "rename %s to %s: %s", f.temp, f.path, strerror(errno));
    rc = rc ? rc : file_sync_parent(f.path, err);
    file_names_release(&files);
    file_new_abort(&f); // removes the new folder, if it does not have the name
    return rc;
}

/* ---- the check ---- */

int output_check(const struct output *o, struct err *err)
{
    struct target p;
    int          rc = target_find(&p, o->path, err);

    if (!rc && !strcmp(o->path, "-"))
        rc = err_misuse(err, "-: the name of a file is expected, and this is not written to "
                        "standard output; ./- is a file of that name");
    if (!rc && strlen(p.name) + FILE_NEW_TAIL > NAME_MAX) // now, not after the work
        rc = err_misuse(err, "%s: the name is too long: at most %d bytes, since the file is made "
                        "under a longer one", o->path, NAME_MAX - FILE_NEW_TAIL);
    rc = rc ? rc : check_sort(o, &p, err);
    rc = rc ? rc : check_inputs(o, &p, err);
    rc = rc ? rc : check_runs(o, &p, err);
    rc = rc ? rc : check_models(o, &p, err);
    if (rc || !p.there)
        return rc;
    return o->kind == OUTPUT_TOKENIZER ? check_tokenizer(o, o->path, err)
           : o->kind == OUTPUT_MODEL   ? 0
                                       : check_file(o, err);
}

/* Checks the first missing folder on the path, because it would be created. */
int output_check_events(const char *dir, struct err *err)
{
    const struct output o = { .path = dir, .kind = OUTPUT_EVENTS };
    struct target       p;
    struct stat         st;
    char                at[PATH_MAX], *slash;
    int                 why = !stat(dir, &st) ? S_ISDIR(st.st_mode) ? 0 : ENOTDIR : errno;

    if (why && why != ENOENT) // before a run is made
        return err_name(err, why, "--tensorboard %s: %s; expected a folder, or a name that is free",
                        dir, strerror(why));
    if (snprintf(at, sizeof at, "%s/x", dir) >= (int)sizeof at)
        return err_misuse(err, "%s: the name is too long", dir);
    while (target_find(&p, at, NULL)) {
        if (!(slash = strrchr(at, '/')) || slash == at)
            return 0; // creating the folders will report the error
        *slash = '\0';
    }
    return check_runs(&o, &p, err);
}

/* Check the path as it is written, and where it leads: it may be a link into a run. */
static int check_name(const struct output *o, const char *option, struct err *err)
{
    char          real[PATH_MAX];
    const char   *paths[] = { o->path, realpath(o->path, real) };
    struct target p;
    struct err    why;

    for (size_t i = 0; i < 2 && paths[i]; i++)
        if (!target_find(&p, paths[i], NULL) && check_runs(o, &p, &why))
            return err_misuse(err, "%s%s%s", option ? option : "", option ? " " : "", why.text);
    return 0;
}

int output_check_name(const char *option, const char *path, struct err *err)
{
    return check_name(&(struct output){ .path = path, .kind = OUTPUT_NAME }, option, err);
}

int output_check_snapshots(const char *dir, struct err *err)
{
    return check_name(&(struct output){ .path = dir, .kind = OUTPUT_SNAPSHOTS }, "--snapshot-dir",
                      err);
}

int output_put(const struct output *o, const void *bytes, size_t n, struct err *err)
{
    struct file_new f;
    int             rc = file_new_open(&f, o->path, err);

    if (rc)
        return rc;
    rc = output_check(o, err);
    rc = rc ? rc : file_pwrite(f.fd, bytes, n, 0, o->path, err);
    int unmarked = o->kind == OUTPUT_PREDICTIONS &&
                   fsetxattr(f.fd, attribute, predictions, sizeof predictions - 1, 0);
    (void)unmarked; // without the attribute it is never replaced
    if (!rc)
        return file_new_commit(&f, err);
    file_new_abort(&f);
    return rc;
}

int output_check_folder_name(const char *dir, const char *it, struct err *err)
{
    static const char *const endings[] = { ".ggml", ".gguf", ".safetensors", ".bin", ".pt", ".pth",
                                           ".onnx", ".json", ".model", ".txt" };
    size_t                   n = strlen(dir);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);

        if (n > m && !strcasecmp(dir + n - m, endings[i]))
            return err_misuse(err, "%s: %s, and %s is the name of a file%s: give a folder's name",
                              dir, it, endings[i],
                              i ? "" : ", which a llama.cpp of today no longer reads: one that "
                                       "ends in .gguf makes a file that it reads");
    }
    return 0;
}
