/* result_files.c: decides by checksum whether siTrain wrote a result file. */
#include "run/folder/result_files.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "run/folder/run_files.h"
#include "run/folder/settings.h"

#include <dirent.h>
#include <sys/stat.h>

enum { SUM_TEXT = 40, ROW_BYTES = 1024 };
enum whose { NOBODYS, OURS, ANOTHERS, UNREAD };

static void sum_text(char out[SUM_TEXT], const char *text, size_t n)
{
    snprintf(out, SUM_TEXT, "%08" PRIx32 "-%zu", crc32c(0, text, n), n);
}

/* The file's checksum text, if it is one of the two in `known`; otherwise "". 1: the file cannot be
 * read. */
static int sum_of_file(char out[SUM_TEXT], const char *path, const char *known)
{
    struct stat st;
    char       *text = NULL;
    size_t      n, sizes[2] = { SIZE_MAX, SIZE_MAX };

    *out = '\0';
    if (lstat(path, &st))
        return !file_is_absent(errno);
    if (!S_ISREG(st.st_mode) ||
        sscanf(known, "%*8x-%zu %*8x-%zu", &sizes[0], &sizes[1]) < 1 ||
        ((size_t)st.st_size != sizes[0] && (size_t)st.st_size != sizes[1]))
        return 0;
    int rc = file_read_whole(&text, &n, path, (uint64_t)st.st_size, NULL);
    if (rc)
        return file_is_unread(rc);
    sum_text(out, text, n);
    if (!strstr(known, out))
        *out = '\0';
    free(text);
    return 0;
}

/* Whose file is at `path`. next: the checksum of the new content, or "". sum: the checksum of the
 * existing file, if it is siTrain's. */
static enum whose look(const struct result_files *f, const char *name, const char *path,
                       const char *next, char sum[SUM_TEXT])
{
    struct stat st;
    char       *known = settings_get(f->log, "result.%s", name);
    int         unread = 0;

    *sum = '\0';
    if (known)
        unread = sum_of_file(sum, path, known);
    if (!*sum) // equal content: replacing it loses nothing
        unread |= sum_of_file(sum, path, next);
    free(known);
    return *sum                                        ? OURS
           : unread                                    ? UNREAD
           : lstat(path, &st) && file_is_absent(errno) ? NOBODYS
                                                       : ANOTHERS;
}

static void refuse(struct result_files *f, enum whose whose, const char *path)
{
    if (!*f->first.text && whose == UNREAD)
        err_set(&f->first, -EACCES, "%.1000s cannot be read, so nobody knows whether siTrain wrote "
                "it: allow reading it (chmod u+r), or move it elsewhere; then "
                "siTrain finetune --resume %.1000s writes the results", path, f->dir);
    else if (!*f->first.text)
        err_set(&f->first, -EEXIST, "%.1000s is there and is not what siTrain wrote: move it "
                "elsewhere; then siTrain finetune --resume %.1000s writes the results", path,
                f->dir);
}

/* Write one file. The file that is checked is the file that is replaced (file_new_open). */
static int put(struct result_files *f, const char *name, const char *path, const char *text,
               size_t n, struct err *err)
{
    char            next[SUM_TEXT], sum[SUM_TEXT];
    struct stat     st;
    struct file_new file = { 0 };
    int             rc = lstat(path, &st) || S_ISREG(st.st_mode) ? file_new_open(&file, path, err)
                                                                 : 0;

    sum_text(next, text, n);
    enum whose whose = file.path ? look(f, name, path, next, sum) : ANOTHERS;
    if (!rc && whose > OURS) {
        refuse(f, whose, path);
        file_new_abort(&file);
        return 0;
    }
    rc = rc ? rc : settings_set(f->log, err, "result.%s=%s %s", name, next, sum);
    rc = rc ? rc : file_pwrite(file.fd, text, n, 0, path, err);
    if (rc) {
        file_new_abort(&file);
    } else if ((rc = file_new_commit(&file, err)) == -EEXIST) {
        refuse(f, ANOTHERS, path);
        rc = 0;
    }
    return rc;
}

int result_files_put(void *ctx, const char *name, const char *text, size_t n, struct err *err)
{
    struct result_files *f = ctx;
    char                 next[SUM_TEXT], sum[SUM_TEXT];
    char                *path = file_path(err, "%s/%s", f->dir, name);
    int                  rc = path ? 0 : -ENOMEM;

    sum_text(next, text, n);
    if (!rc && f->known) {
        sum_of_file(sum, path, next);
        rc = *sum ? settings_set(f->log, err, "result.%s=%s", name, sum) : 0;
    } else if (!rc) {
        rc = put(f, name, path, text, n, err);
    }
    free(path);
    return rc;
}

int result_files_know(struct result_files *f, const char *name, const char *head, uint64_t rows,
                      struct err *err)
{
    char   sum[SUM_TEXT], *text = NULL, *path = file_path(err, "%s/%s", f->dir, name);
    size_t n;
    int    rc = path ? 0 : -ENOMEM;

    if (!rc && !file_check_own(path, 0, NULL) &&
        !file_read_whole(&text, &n, path, strlen(head) + rows * ROW_BYTES, NULL) &&
        !strncmp(text, head, strlen(head))) {
        uint64_t lines = 0;

        for (size_t i = strlen(head); i < n; i++)
            lines += text[i] == '\n';
        sum_text(sum, text, n);
        if (lines == rows)
            rc = settings_set(f->log, err, "result.%s=%s", name, sum);
    }
    free(text);
    free(path);
    return rc;
}

void result_files_check(struct result_files *f, const char *name)
{
    char sum[SUM_TEXT], *path = file_path(NULL, "%s/%s", f->dir, name);

    enum whose whose = path ? look(f, name, path, "", sum) : NOBODYS;

    if (whose > OURS)
        refuse(f, whose, path);
    free(path);
}

int result_files_blank(struct result_files *f, const char *name, struct err *err)
{
    char  sum[SUM_TEXT], *path = file_path(err, "%s/%s", f->dir, name);
    int   rc = !path                                    ? -ENOMEM
               : look(f, name, path, "", sum) == OURS ? put(f, name, path, "", 0, err)
                                                      : 0;

    free(path);
    return rc;
}

int result_files_end(const struct result_files *f, struct err *err)
{
    return *f->first.text ? err_set(err, -EEXIST, "%s", f->first.text) : 0;
}

/* ---- what is there */

/* 1: a file to tell of. */
static int is_told(const char *name, struct runlog *log, int *is_data)
{
    const struct run_file *f = run_file_find(name);
    int                    stem = (int)(strrchr(name, '.') ? strrchr(name, '.') - name : 0);

    *is_data = f && f->set;
    if (*is_data)
        return !settings_has(log, "%.*s.sum", stem, name) &&
               !settings_has(log, "%.*s.path", stem, name);
    return f && (f->kind == RUN_FILE_RESULT || !strncmp(name, "predict_results_", 16));
}

static enum result_state state_of(enum whose whose, int is_known)
{
    return whose == OURS     ? RESULT_OURS
           : whose == UNREAD ? RESULT_UNREAD
           : is_known        ? RESULT_OTHERS
                             : RESULT_UNKNOWN;
}

int result_files_each(const char *dir, struct runlog *log,
                      void (*tell)(void *ctx, const char *name, uint64_t bytes,
                                   enum result_state state), void *ctx, struct err *err)
{
    struct result_files f = { .dir = dir, .log = log };
    struct dirent     **names = NULL;
    int                 n = scandir(dir, &names, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        char       *path = file_path(NULL, "%s/%s", dir, name), sum[SUM_TEXT];
        struct stat st;
        int         is_data;

        if (path && is_told(name, log, &is_data) && !lstat(path, &st))
            tell(ctx, name, (uint64_t)st.st_size,
                 state_of(is_data ? ANOTHERS : look(&f, name, path, "", sum),
                          is_data || settings_has(log, "result.%s", name)));
        free(path);
        free(names[i]);
    }
    free(names);
    return n < 0 ? err_set(err, -errno, "read %s: %s", dir, strerror(errno)) : 0;
}
