// opt_place.c: the paths of drives and folders that a run keeps for other processes
#include "data/opt/opt_row.h"

#include "data/base/text_made.h"
#include "data/file/file.h"

int opt_place_missing(const struct opt_row *r, const char *text, struct err *err)
{
    if (r->arg && !strcmp(r->arg, "DIR"))
        return err_misuse(err, "--%s %s: nothing here has this name, and an existing folder is "
                          "expected", r->name, text);
    return err_misuse(err, "--%s %s: nothing here has this name. --%s names a drive, a folder or a "
                      "file for one device's %s (siTrain trains on the CPU); ./%s makes a file of "
                      "this name", r->name, text, r->name, r->words ? "activations" : "states",
                      text);
}

int opt_place(char **out, const char *option, const char *text, struct err *err)
{
    int rc = 0;

    if (!(*out = file_absolute(text, err)))
        return -ENOMEM;
    if (strchr(*out, '\n'))
        rc = err_misuse(err, "--%s: the path contains a line break after %.*s; run.db has one path "
                        "on each line: give a path without line breaks", option,
                        (int)strcspn(*out, "\n"), *out);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}

char *opt_place_lines(const char *text, char *(*place)(const char *path))
{
    char  *copy = strdup(text), *rest = copy, *out = NULL, *line;
    size_t size;
    FILE  *f = copy ? open_memstream(&out, &size) : NULL;
    int    missing = !f;

    while (!missing && (line = strsep(&rest, "\n"))) {
        char *path = place(line);

        missing = !path;
        fprintf(f, "%s%s", path ? path : "", rest ? "\n" : "");
        free(path);
    }
    free(copy);
    return text_made(f, &out, missing);
}

int opt_place_typed(const char *option, const char *text, struct err *err)
{
    if (!file_is_in_proc(text))
        return 0;
    return err_misuse(err, "--%s %s: this path leads through /proc, where each process sees "
                      "another file: give the path of the drive, folder or file itself", option,
                      text);
}
