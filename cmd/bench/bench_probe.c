/* bench_probe.c: the parts of a step on this machine in a few seconds, for `siTrain plan`, which
 * names a model small enough and makes the whole of them. Computing is measured on that model with
 * devices that answer at once; what moves is measured without a model, on parameters few enough to
 * be written quickly. */
#include "cmd/bench/bench.h"

#include "data/base/file.h"
#include "data/base/round.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_LAYERS = 2, MOST_WIDE = 256, MOST_WORDS = 16384 };

/* Of the same precision and rows, with a few million parameters. */
static struct gpt_config small_of(const struct gpt_config *g)
{
    struct gpt_config small = *g;

    small.n_layer = size_min(g->n_layer, MOST_LAYERS);
    small.vocab = size_min(g->vocab, MOST_WORDS);
    if (g->n_embd > MOST_WIDE) {
        small.n_embd = MOST_WIDE;
        small.n_head = 4;
    }
    return small;
}

/* The medians of a run's steps, under `name`. */
static int part_run(struct bench *b, json_t *section, const char *name, int mode, int fake,
                    json_t **out, struct err *err)
{
    json_t *steps = json_array();
    int     rc = bench_run_make(b, "probe", mode, fake, 0, err);

    *out = NULL;
    if (!rc)
        rc = fake || mode == RUN_MEM
                 ? bench_run_train(b, "probe", b->o->train.steps, steps, err)
                 : bench_run_drive(b, "probe", b->o->train.steps, 1, steps, err);
    if (!rc) {
        *out = bench_run_medians(steps);
        json_object_set_new(section, name, *out);
    }
    json_decref(steps);
    return rc;
}

static int moving(struct bench *b, json_t *section, struct err *err)
{
    struct bench small = *b;
    char        *scratch = file_path(err, "%s/small", b->scratch);
    double       arithmetic = 0;
    json_t      *row = NULL;
    int          rc = 0;

    small.gpt = small_of(&b->gpt);
    if (!scratch)
        return -ENOMEM;
    small.scratch = scratch;
    if (mkdir(scratch, 0777))
        rc = err_set(err, -errno, "mkdir %s: %s", scratch, strerror(errno));
    if (!rc)
        rc = part_run(&small, section, "moving", b->o->train.mode, 0, &row, err);
    if (!rc && b->o->train.mode != RUN_MEM)
        rc = bench_update_arithmetic(&small, &arithmetic, err);
    if (!rc) {
        bench_put(row, "parameters", (double)gpt_total(&small.gpt));
        bench_put(row, "block_0", (double)gpt_block_size(&small.gpt, 0));
        bench_put(row, "arithmetic", arithmetic);
    }
    free(scratch);
    return rc;
}

static int probe_run(struct bench *b, json_t *section, struct err *err)
{
    int     mode = b->o->train.mode == RUN_MEM ? RUN_SUO : b->o->train.mode;
    json_t *row;
    int     rc = part_run(b, section, "computing", mode, 1, &row, err);

    return rc ? rc : moving(b, section, err);
}

static void probe_print(const json_t *section)
{
    const char *const names[] = {"computing", "moving"};

    printf("Parts of a step, in seconds: computing is this model's, moving that of a small one\n");
    for (size_t i = 0; i < 2; i++) {
        json_t     *row = json_object_get(section, names[i]), *value;
        const char *key;

        json_object_foreach(row, key, value)
            printf("  %-10s %-12s %.6g\n", names[i], key, json_number_value(value));
    }
}

const struct bench_section bench_probe = {"probe", 0, {NULL}, probe_run, probe_print};
