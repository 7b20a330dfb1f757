/* story.c: the stories, and how they go. Each run has two or more devices, or images, and is of a
 * GPT of some thousand parameters; a step takes a millisecond. */
#include "tests/cuts/story.h"

#include "kernels/rng.h"
#include "tests/crash/names.h"
#include "tests/crash/posix.h"
#include "tests/crash/power.h"
#include "tests/crash/storage.h"
#include "tests/cuts/command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4000, HELD = 40, LINE_BYTES = 1024, NAMES = 64 }; // NAMES: of one folder

#define MADE(steps) "pretrain --run " RUN " --steps " steps
#define RESUMED     "pretrain --resume " RUN
#define DRIVES      "--device /sim/drive0 --device /sim/drive1 --device /sim/drive2"
#define ON_DEVICES  DRIVES " --snapshot-on devices"
#define MODELS_TOO  "--export-every 2 --export-limit 2 --keep-best --eval-data /sim/held.bin " \
                    "--eval-every 1"
#define WHOLE       "no device of " RUN " is gone"
#define ROTATED     "has no snapshot after step 4" // it went back, and trained on for long

const struct story stories[] = {
    { .name = "taken su+o", .shape = "--mode su+o --devices 2", .before = { MADE("4") },
      .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2, .tries_back = 1 },
    { .name = "taken base speculate", .shape = "--mode base --devices 2 --speculate",
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .tries_back = 1 },
    { .name = "taken feedback", .shape = "--mode su+o+c --error-feedback --devices 2",
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .tries_back = 1, .shares = 1 },
    { .name = "taken mem", .shape = "--mode mem --commit-every 1 --lora-rank 2",
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .tries_back = 1, .brief = 1 },
    { .name = "taken few slots", .shape = "--mode su+o --devices 2 --spare-slots few",
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .tries_back = 1 },
    { .name = "taken two folders",
      .shape = "--mode su+o --devices 2 --snapshot-dir /sim/drive0 --snapshot-dir /sim/drive1",
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .tries_back = 1 },
    { .name = "taken parity", .shape = "--mode su+o " ON_DEVICES, .before = { MADE("4") },
      .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2, .tries_back = 1, .brief = 1 },
    { .name = "models", .shape = "--mode su+o --devices 2 " MODELS_TOO, .before = { MADE("4") },
      .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2, .models = 1, .tries_back = 1 },
    { .name = "models mem", .shape = "--mode mem --commit-every 1 " MODELS_TOO,
      .before = { MADE("4") }, .lines = { { RESUMED " --steps 8", NULL } }, .kept = 2,
      .models = 1, .brief = 1 },
    { .name = "models back", .shape = "--mode su+o --devices 2 " MODELS_TOO,
      .before = { MADE("8") }, .lines = { { RESUMED " --from 6", NULL } }, .kept = 2, .models = 1 },
    { .name = "models branch", .shape = "--mode su+o --devices 2 " MODELS_TOO,
      .before = { MADE("6") },
      .lines = { { RESUMED " --from 4 --steps 8 --schedule-steps 8 --lr 0.01 --schedule cosine",
                   ROTATED },
                 { RESUMED, NULL } }, .kept = 2, .models = 1 },
    { .name = "back su+o", .shape = "--mode su+o --devices 2", .before = { MADE("8") },
      .lines = { { RESUMED " --from 6", NULL } }, .kept = 2 },
    { .name = "back and on", .shape = "--mode su+o --devices 2",
      .before = { MADE("6"), RESUMED " --steps 7 --snapshot-every 0" },
      .lines = { { RESUMED " --from 4 --steps 7 --snapshot-every 2", ROTATED }, { RESUMED, NULL } },
      .kept = 2 },
    { .name = "back and undone", .shape = "--mode su+o --devices 2",
      .before = { MADE("6"), RESUMED " --steps 7 --snapshot-every 0",
                  RESUMED " --from 4 --steps 5 --lr 0.01 --snapshots 3" },
      .lines = { { RESUMED " --from 7", NULL } }, .kept = 3 },
    { .name = "branch", .shape = "--mode su+o --devices 2", .before = { MADE("6") },
      .lines = { { RESUMED " --from 4 --steps 8 --lr 0.01 --seed 7", ROTATED },
                 { RESUMED, NULL } }, .kept = 2, .brief = 1 },
    { .name = "back mem", .shape = "--mode mem --commit-every 1 --lora-rank 2",
      .before = { MADE("8") }, .lines = { { RESUMED " --from 6", NULL } }, .kept = 2 },
    { .name = "back parity", .shape = "--mode su+o " ON_DEVICES, .before = { MADE("8") },
      .lines = { { RESUMED " --from 6", NULL } }, .kept = 2 },
    { .name = "restore", .shape = "--mode su+o " DRIVES, .before = { MADE("5") },
      .lost = { { "/sim/drive1/sitrain-", 0 } },
      .lines = { { "restore " RUN " --device 1=/sim/drive3", WHOLE },
                 { RESUMED " --steps 6", NULL } }, .kept = 2 },
    { .name = "restore zeroed", .shape = "--mode su+o --devices 2", .before = { MADE("5") },
      .lost = { { RUN "/dev0/states", 1 } },
      .lines = { { "restore " RUN, WHOLE }, { RESUMED " --steps 6", NULL } }, .kept = 2 },
    { .name = "restore mem", .shape = "--mode mem --commit-every 1 --lora-rank 2",
      .before = { MADE("5") },
      .lost = { { RUN "/image0", 0 }, { RUN "/image1", 0 }, { RUN "/frozen", 0 } },
      .lines = { { "restore " RUN, WHOLE }, { RESUMED " --steps 6", NULL } }, .kept = 2 },
    { .name = "restore parity", .shape = "--mode su+o " ON_DEVICES, .before = { MADE("5") },
      .lost = { { "/sim/drive1/", 0 } },
      .lines = { { "restore " RUN " --device 1=/sim/drive3", WHOLE },
                 { RESUMED " --steps 6", NULL } }, .kept = 2, .parity = 1, .brief = 1 },
    { .name = "restore parity 2",
      .shape = "--mode su+o " ON_DEVICES " --device /sim/drive4 --parity 2",
      .before = { MADE("5") }, .lost = { { "/sim/drive1/", 0 }, { "/sim/drive4/", 1 } },
      .lines = { { "restore " RUN " --device 1=/sim/drive3", WHOLE },
                 { RESUMED " --steps 6", NULL } }, .kept = 2, .parity = 1 },
};
const size_t n_stories = sizeof stories / sizeof *stories;

/* ---- what happens ---- */

static const char *const common =
    "--data /sim/text.bin --vocab 50 --n-layer 2 --n-head 1 --n-embd 8 --seq 8 --batch 1 "
    "--csd-mem 128K --threads 1 --schedule constant --disk sync --snapshot-every 2 --snapshots 2 "
    "--quiet";

/* Give an option that the line has this number. */
static void renumber(char *line, const char *option, const char *number)
{
    char *at = strstr(line, option), rest[LINE_BYTES];

    if (!at)
        return;
    at += strlen(option);
    snprintf(rest, sizeof rest, "%s", at + strspn(at, "0123456789"));
    snprintf(at, LINE_BYTES - (size_t)(at - line), "%s%s", number, rest);
}

/* A command line of the story. A new run has its shape; all: snapshots of all steps stay. */
static int type(const struct story *t, const char *text, int all, struct err *err)
{
    char line[LINE_BYTES];
    int  made = !strncmp(text, MADE(""), strlen(MADE("")));
    int  n = made ? snprintf(line, sizeof line, "%s %s %s", text, common, t->shape)
                  : snprintf(line, sizeof line, "%s%s", text,
                             strncmp(text, RESUMED, strlen(RESUMED)) ? "" : " --quiet");

    assert(n > 0 && n < LINE_BYTES - 16);
    if (all) {
        renumber(line, "--snapshot-every ", "1");
        renumber(line, "--snapshots ", "99");
        renumber(line, "--export-every ", "1");
        renumber(line, "--export-limit ", "99");
    }
    return command_do(line, err);
}

static void text_make(const char *path, size_t n)
{
    uint16_t tokens[TOKENS];
    int      file = storage_create(path, 0);

    for (size_t i = 0; i < n; i++)
        tokens[i] = (uint16_t)(rng_bits(1, 90, i) % 50);
    assert(file >= 0);
    storage_write(file, tokens, n * sizeof *tokens, 0);
}

static void zero(int file)
{
    size_t         n = (size_t)storage_size(file);
    unsigned char *none = calloc(1, n + 1);

    assert(none);
    storage_write(file, none, n, 0);
    free(none);
}

/* All files whose paths begin so. */
static void lose(const char *folder, const struct loss *l)
{
    char        paths[NAMES][PATH_BYTES];
    size_t      n = 0;
    const char *path;

    for (size_t at = 0; (path = storage_next(folder, &at));) {
        assert(n < NAMES);
        snprintf(paths[n++], sizeof paths[0], "%s", path);
    }
    while (n-- > 0) {
        int file = storage_find(paths[n]), begins = !strncmp(paths[n], l->path, strlen(l->path));

        if (storage_is_dir(file))
            lose(paths[n], l);
        if (begins && storage_is_dir(file))
            storage_remove_folder(paths[n]); // if it is empty by now
        else if (begins && l->zeroed)
            zero(file);
        else if (begins)
            storage_unlink(paths[n]);
    }
}

int story_begin(const struct story *t, int all, struct err *err)
{
    static const char *const folders[] = { "/sim", "/sim/drive0", "/sim/drive1", "/sim/drive2",
                                           "/sim/drive3", "/sim/drive4" };
    int rc = 0;

    posix_share(t->shares);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        storage_create(folders[i], 1);
    text_make("/sim/text.bin", TOKENS);
    text_make("/sim/held.bin", HELD);
    for (size_t i = 0; i < LINES && t->before[i] && !rc; i++)
        rc = type(t, t->before[i], all, err);
    for (size_t i = 0; i < sizeof t->lost / sizeof *t->lost && t->lost[i].path; i++)
        lose("/sim", &t->lost[i]);
    return rc;
}

int story_go_on(const struct story *t, int all, int again, size_t *at, struct err *err)
{
    int rc = 0;

    posix_share(t->shares);
    for (; *at < LINES && t->lines[*at].text && !rc; ++*at, again = 0) {
        const char *over = again ? t->lines[*at].over : NULL;

        rc = type(t, t->lines[*at].text, all, err);
        if (power_was_cut())
            return rc ? rc : 1;
        if (rc && over && strstr(err->text, over))
            rc = 0;
        if (rc)
            return rc;
    }
    return rc;
}
