/* run_files.c: a table, and what its patterns mean. A number is nothing but digits: image001.jpg
 * and dev2024-backup are no run's. */
#include "run/folder/run_files.h"

#include <ctype.h>
#include <stddef.h>

static const struct run_file files[] = {
    { "run.db*", "its journal" },    // with run.db-wal, -shm, -journal, and run.db.new
    { "run.new-*", "what makes it" },
    { "run.lock*", "its lock" },
    { "tokenizer", "its tokenizer" },
    { "data.bin", "its tokens" },
    { "eval.bin", "its tokens" },
    { "*.ex", "its rows" },
    { "dev#", "a device's folder" },
    { "image#", "an image" },
    { "best", "its best model" },
    { "best.new-*", "its best model" }, // under way
    { "best.old.new-*", "its best model" },
    { "tensorboard", "TensorBoard's folder" },
    { "train_results.json", "its results" },
    { "eval_results.json", "its results" },
    { "all_results.json", "its results" },
    { "trainer_state.json", "its results" },
    { "predict_results_*.txt", "its predictions" },
    { "*.tmp", "a file under way" }, // PATH.HEX.tmp is; what is removed, file_new.c says
};

static int fits(const char *pattern, const char *name)
{
    if (*pattern == '*') {
        while (!fits(pattern + 1, name))
            if (!*name++)
                return 0;
        return 1;
    }
    if (*pattern == '#') {
        if (!isdigit((unsigned char)*name))
            return 0;
        while (isdigit((unsigned char)*name))
            name++;
        return fits(pattern + 1, name);
    }
    return *pattern == *name && (!*pattern || fits(pattern + 1, name + 1));
}

const struct run_file *run_file_find(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (fits(files[i].pattern, name))
            return &files[i];
    return NULL;
}
