/* run_files.c: lists the files of a run, finds a name in the list, and removes what a maker left.
 * Numbers are matched as such (NUMBER), so image001.jpg and dev2024-backup are not files of a
 * run. */
#include "run/folder/run_files.h"

#include "data/file/file.h"
#include "data/file/file_walk.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER = RUN_FILE_FOLDER, FIRST = RUN_FILE_FIRST, COPIED = RUN_FILE_COPIED };

const char *const run_dev[TASK_SPLITS] = { "dev", "dev_mm" };
const char *const run_test[TASK_SPLITS] = { "test", "test_mm" };

#define NUMBER      "+([0-9])" // of fnmatch, in glibc's notation
#define TOKENS(set) { set ".bin", "its tokens", RUN_FILE_TOKENS, FIRST | COPIED, set }
// of the sources behind the first one, which are looked at with it
#define SOURCES(set) { set "." NUMBER ".bin", "its tokens", RUN_FILE_OTHER, FIRST | COPIED, set }
#define ROWS(set)   { set ".ex", "its rows", RUN_FILE_ROWS, FIRST | COPIED, set }
#define REFERENCE(set)                                                                             \
    { set ".ref", "its reference", RUN_FILE_REFERENCE, FIRST | COPIED, set }
#define RESULT(name) { name, "its results", RUN_FILE_RESULT, 0, NULL }

static const char under_way[] = "a file under way";

static const struct run_file files[] = {
    // includes run.db-wal, -shm, -journal, and run.db.new
    { RUN_DB "*", "its journal", RUN_FILE_OTHER, FIRST, NULL },
    { RUN_PART ".new-*", "what makes it", RUN_FILE_OTHER, FOLDER, NULL },
    { RUN_LOCK "*", "its lock", RUN_FILE_OTHER, FIRST, NULL },
    { "tokenizer", "its tokenizer", RUN_FILE_TOKENIZER, FOLDER | FIRST | COPIED, NULL },
    TOKENS("data"),
    TOKENS("eval"),
    SOURCES("data"),
    SOURCES("eval"),
    ROWS(RUN_TRAIN),
    ROWS("dev"),
    REFERENCE(RUN_TRAIN),
    REFERENCE("dev"),
    ROWS("dev_mm"),
    ROWS("test"),
    ROWS("test_mm"),
    { "dev" NUMBER, "a device's folder", RUN_FILE_OTHER, FOLDER | FIRST, NULL },
    { "image" NUMBER, "an image", RUN_FILE_OTHER, FIRST, NULL },
    { "frozen", "its frozen parameters", RUN_FILE_OTHER, FIRST, NULL },
    { "best", "its best model", RUN_FILE_OTHER, FOLDER, NULL },
    { "best.new-*", "its best model", RUN_FILE_OTHER, FOLDER, NULL }, // being written
    { "best.old.new-*", "its best model", RUN_FILE_OTHER, FOLDER, NULL },
    { "checkpoint-" NUMBER, "an exported model", RUN_FILE_OTHER, FOLDER, NULL },
    { "checkpoint-" NUMBER ".new-*", "an exported model", RUN_FILE_OTHER, FOLDER, NULL },
    { "checkpoint-" NUMBER ".gone*.new-*", "an exported model", RUN_FILE_OTHER, FOLDER, NULL },
    // a reader's, to which the training answers (run/loop/live.h)
    { "asked.new-*", "a model that is read", RUN_FILE_OTHER, FOLDER, NULL },
    { "snapshots", "its snapshots", RUN_FILE_OTHER, FOLDER, NULL },
    { "tensorboard", "TensorBoard's folder", RUN_FILE_OTHER, FOLDER, NULL },
    RESULT("train_results.json"),
    RESULT("eval_results.json"),
    RESULT("all_results.json"),
    RESULT("trainer_state.json"),
    { "predict_results_*.txt", "its predictions", RUN_FILE_OTHER, 0, NULL },
    // PATH.HEX.tmp; file_new.c decides which ones are removed
    { "*.tmp", under_way, RUN_FILE_OTHER, 0, NULL },
};
enum { FILES = sizeof files / sizeof *files };

static const struct run_file *find(const char *name, int how)
{
    for (size_t i = 0; i < FILES; i++)
        if (!fnmatch(files[i].pattern, name, FNM_EXTMATCH | how))
            return &files[i];
    return NULL;
}

const struct run_file *run_file_find(const char *name) { return find(name, 0); }

const struct run_file *run_file_reserves(const char *name) { return find(name, FNM_CASEFOLD); }

const struct run_file *run_file_at(size_t i) { return i < FILES ? &files[i] : NULL; }

/* ---- cleanup after a maker ---- */

static int is_first(const char *path, const char *name)
{
    const struct run_file *f = run_file_find(name);
    struct stat            st;

    return f && f->flags & RUN_FILE_FIRST && !lstat(path, &st) &&
           (f->flags & RUN_FILE_FOLDER ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode));
}

int run_file_is_tokens(const char *name)
{
    const struct run_file *f = run_file_find(name);

    // RUN_FILE_OTHER: of the sources behind the first one
    return f && f->set && (f->kind == RUN_FILE_TOKENS || f->kind == RUN_FILE_OTHER);
}

static int is_no_tokens(const char *base) { return !run_file_is_tokens(base); }

/* Whether a file in a maker's folder has tokens, or is to have them. */
static int has_tokens(const struct file_walk *w)
{
    char base[NAME_MAX + 1];

    return file_new_base(base, w->name) ? run_file_is_tokens(base)
                                        : run_file_is_tokens(w->name) && is_first(w->path, w->name);
}

enum { REMOVES = 1 << 0, BUT_TOKENS = 1 << 1, BUT_DB = 1 << 2 };

/* Check all names in a maker's folder, and remove the files if asked to. */
static int walk(const char *dir, int how, struct err *err)
{
    struct file_walk w;
    int              rc = file_walk_begin(&w, dir, err);

    while (!rc && file_walk_next(&w)) {
        if (how & BUT_TOKENS && has_tokens(&w))
            continue;
        if (!is_first(w.path, w.name))
            rc = err_misuse(err, "%s holds %s, which no siTrain made there: move it elsewhere, and "
                            "try again", dir, w.name);
        else if (how & REMOVES &&
                 !(how & BUT_DB && !strncmp(w.name, RUN_DB_NEW, strlen(RUN_DB_NEW))))
            file_remove_tree(w.path);
    }
    return file_walk_end(&w, rc, err);
}

int run_files_remove(const char *dir, struct err *err)
{
    // opens as many folders at a time as what follows: creation.h counts them
    file_new_clean(dir, NULL);
    int rc = walk(dir, 0, err); // check all, then remove all

    rc = rc ? rc : walk(dir, REMOVES, err);
    if (!rc && rmdir(dir))
        rc = err_set(err, -errno, "remove %s: %s", dir, strerror(errno));
    return rc;
}

int run_files_but_tokens(const char *dir, int db, struct err *err)
{
    struct file_walk w;
    int              rc, any = 0;

    file_new_clean(dir, is_no_tokens);
    if ((rc = walk(dir, BUT_TOKENS, err)) || (rc = file_walk_begin(&w, dir, err)))
        return rc;
    while (file_walk_next(&w))
        any |= has_tokens(&w);
    if ((rc = file_walk_end(&w, 0, err)))
        return rc;
    if (!any)
        return run_files_remove(dir, err);
    rc = walk(dir, REMOVES | BUT_TOKENS | (db ? BUT_DB : 0), err);
    return rc ? rc : 1;
}

/* A file under way that is a run's, and not its user's: a page, or another output of a command. */
static int is_runs(const char *base)
{
    const struct run_file *f = run_file_find(base);

    return f && f->what != under_way;
}

static int is_runs_but_tokens(const char *base) { return is_runs(base) && is_no_tokens(base); }

void run_files_clean(const char *run, int tokens)
{
    struct file_walk w;

    file_new_clean(run, tokens ? is_runs : is_runs_but_tokens);
    file_walk_begin(&w, run, NULL);
    while (file_walk_next(&w)) {
        if (!file_new_is(w.name, RUN_PART, 1))
            continue;
        int fd = open(w.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
            run_files_remove(w.path, NULL);
        file_close(fd);
    }
    file_walk_end(&w, 0, NULL);
}
