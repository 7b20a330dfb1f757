/* bench_core.c: OpenBLAS chooses its kernels when it is loaded, by the processor's name; an old
 * library does not know a new processor and takes slow ones. Its variable OPENBLAS_CORETYPE says
 * otherwise. So the program starts itself once with each that this processor can run, and lets it
 * run the model's products in fp32. */
#include "cmd/bench/bench.h"

#include "kernels/matmul.h"
#include "kernels/simd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORES = 5, TURNS = 3, TURNS_QUICK = 2 };

/* Names of OpenBLAS's kernels for x86-64, and whether this processor has the instructions. */
static size_t cores_possible(const char *names[CORES])
{
    size_t n = 0;

    if (simd_avx2()) {
        names[n++] = "Haswell";
        names[n++] = "Zen";
    }
    if (simd_avx512())
        names[n++] = "SkylakeX";
    if (simd_avx512_bf16())
        names[n++] = "Cooperlake";
    return n;
}

/* "openblas 0.3.21 Haswell": the last word. */
static const char *core_of(const char *library)
{
    const char *blank = strrchr(library, ' ');

    return blank ? blank + 1 : library;
}

static const json_t *openblas_row(const json_t *report)
{
    return bench_row(json_object_get(json_object_get(report, "products"), "engines"), "name",
                     "openblas fp32");
}

/* One process with this core type: its rate; 0 where it took another core, since this library does
 * not have it. */
static int core_rate(double *rate, const struct bench *b, const char *core, struct err *err)
{
    const struct train_opts *o = &b->o->train;
    char                     number[8][32], setting[64];
    uint64_t values[8] = { b->gpt.n_layer, b->gpt.n_head, b->gpt.n_embd, b->gpt.vocab,
                           o->batch,       o->seq,        o->threads,    1 };
    const char *const        names[8] = {"--n-layer", "--n-head", "--n-embd",  "--vocab",
                                         "--batch",   "--seq",    "--threads", "--rounds"};
    const char              *argv[32] = {
                     "/proc/self/exe", "bench", "--only", "products", "--blas", "openblas",
                     "--dtype",        "fp32",  "--json", "-",        "--dir",  b->scratch
    };
    size_t        n = 12;
    json_t       *found = NULL;
    const json_t *row;
    int           rc;

    for (size_t i = 0; i < 8; i++) {
        snprintf(number[i], sizeof number[i], "%llu", (unsigned long long)values[i]);
        argv[n++] = names[i];
        argv[n++] = number[i];
    }
    snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", core);
    rc = bench_child(&found, (char *const *)(uintptr_t)argv, setting, err);
    if (rc)
        return rc == -ENOENT ? err_set(err, rc, "/proc is not there to start this program from")
                             : rc;
    row = openblas_row(found);
    *rate = row && !strcmp(core_of(bench_text(row, "library")), core)
                ? bench_number(row, "step_flops_per_second")
                : 0;
    json_decref(found);
    return 0;
}

static void rate_row(json_t *rows, const char *core, int in_use, double *rates, size_t n)
{
    double median = bench_median(rates, n); // which sorts them

    if (rates[0] > 0)
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:f, s:b, s:s}", "core", core,
                                              "flops_per_second", median, "least", rates[0], "most",
                                              rates[n - 1], "in_use", in_use, "note",
                                              in_use ? "in use" : ""));
}

int bench_cores(struct bench *b, json_t **rows, struct err *err)
{
    const char *names[CORES], *used = core_of(bench_text(openblas_row(b->report), "library"));
    size_t      n = cores_possible(names), turns = b->o->quick ? TURNS_QUICK : TURNS;
    double      rates[CORES][TURNS];
    int         rc = 0;

    *rows = json_array();
    if ((getenv("OPENBLAS_CORETYPE") && !getenv(BENCH_CORE_IS_OURS)) || !openblas_row(b->report))
        return 0; // it is the user's choice already
    unsetenv(BENCH_CORE_IS_OURS); // what a child runs with is chosen here: it compares no further
    for (size_t t = 0; t < turns; t++)
        for (size_t i = 0; i < n && !rc; i++)
            rc = core_rate(&rates[i][t], b, names[i], err);
    for (size_t i = 0; i < n && !rc; i++)
        rate_row(*rows, names[i], !strcmp(names[i], used), rates[i], turns);
    return rc;
}
