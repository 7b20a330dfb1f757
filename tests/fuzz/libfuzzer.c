/* libfuzzer.c: the targets for libFuzzer. --target=NAME picks one; --seeds=DIR writes its seeds
 * there and ends. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

static const struct fuzz_target *target;
static const char               *seeds;

static void write_seed(const uint8_t *in, size_t n)
{
    static int number;
    char       path[512];
    FILE      *f;

    snprintf(path, sizeof path, "%s/seed%03d", seeds, number++);
    f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(in, 1, n, f) == n && fclose(f) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    for (int i = 1; i < *argc; i++) {
        if (!strncmp((*argv)[i], "--target=", 9))
            target = fuzz_find((*argv)[i] + 9);
        if (!strncmp((*argv)[i], "--seeds=", 8))
            seeds = (*argv)[i] + 8;
    }
    if (!target) {
        fprintf(stderr, "--target=NAME is missing; the names:");
        for (size_t i = 0; fuzz_targets[i]; i++)
            fprintf(stderr, " %s", fuzz_targets[i]->name);
        fputs("\n", stderr);
        exit(2);
    }
    if (target->open)
        target->open();
    if (seeds) {
        fuzz_seeds_each(target, write_seed);
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    fuzz_watch(target, in, n);
    return 0;
}
