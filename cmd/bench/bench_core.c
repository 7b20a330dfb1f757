/* bench_core.c: OpenBLAS chooses its kernels when it is loaded, by the processor's name; an old
 * library does not know a new processor and takes slow ones. Its variable OPENBLAS_CORETYPE says
 * otherwise. So the program starts itself once with each that this processor can run, and lets it
 * run the model's products in fp32. */
#include "cmd/bench/bench.h"

#include "kernels/simd.h"

enum { CORES = 5, TURNS = 3, TURNS_QUICK = 2 };

/* Names of OpenBLAS's kernels for x86-64 of which this processor has the instructions. */
static size_t cores_possible(const char *names[CORES])
{
    const struct { const char *name; int there; } all[] = {
        {"Haswell", simd_avx2()}, {"Zen", simd_avx2()}, {"SkylakeX", simd_avx512()},
        {"Cooperlake", simd_avx512_bf16()}};
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there)
            names[n++] = all[i].name;
    return n;
}

/* "openblas 0.3.21 Haswell": the last word. */
static const char *core_of(const char *library)
{
    const char *blank = strrchr(library, ' ');

    return blank ? blank + 1 : library;
}

static const json_t *openblas_row(const json_t *products)
{
    return bench_row(json_object_get(products, "engines"), "name", "openblas fp32");
}

struct core {
    const struct bench *bench;
    const char         *name;
};

/* One process with this core type: its rate; 0 where it took another core, since this library does
 * not have it. */
static int core_measure(void *ctx, double *rate, struct err *err)
{
    const struct core       *c = ctx;
    const struct train_opts *o = &c->bench->o->train;
    struct bench_args        a = {0};
    char                     setting[64];
    json_t                  *found = NULL;

    bench_words(&a, BENCH_SELF " bench --only products --blas openblas --dtype fp32 --json - "
                    "--rounds 1");
    bench_arg(&a, "--dir=", c->bench->scratch);
    bench_args_model(&a, &c->bench->gpt, o->batch, o->seq, o->threads);
    snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", c->name);
    int           rc = bench_child(&found, &a, setting, err);
    const json_t *row = openblas_row(json_object_get(found, "products"));

    *rate = strcmp(core_of(json_str(row, "library")), c->name) ? 0 : json_num(row, BENCH_BEST);
    json_decref(found);
    return rc;
}

int bench_cores(struct bench *b, const json_t *products, json_t *rows, struct err *err)
{
    const char       *names[CORES], *used = core_of(json_str(openblas_row(products), "library"));
    size_t            n = cores_possible(names);
    struct core       cores[CORES];
    struct bench_item items[CORES];

    if ((getenv("OPENBLAS_CORETYPE") && !getenv(BENCH_CORE_IS_OURS)) || !openblas_row(products))
        return 0; // it is the user's choice already
    unsetenv(BENCH_CORE_IS_OURS); // what a child runs with is chosen here: it compares no further
    for (size_t i = 0; i < n; i++) {
        cores[i] = (struct core){b, names[i]};
        items[i] = (struct bench_item){.measure = core_measure, .ctx = &cores[i]};
    }
    int rc = bench_rounds(items, n, b->o->quick ? TURNS_QUICK : TURNS, 0, err);
    for (size_t i = 0; i < n && !rc; i++) {
        int in_use = !strcmp(names[i], used);

        if (items[i].least > 0)
            json_array_append_new(
                rows, json_pack("{s:s, s:f, s:f, s:f, s:b, s:s}", "core", names[i],
                                "flops_per_second", items[i].median, "least", items[i].least,
                                "most", items[i].most, "in_use", in_use, "note",
                                in_use ? "in use" : ""));
    }
    return rc;
}

/* Another core type is worth a word where its slowest turn beats the fastest of the one in use. */
void bench_cores_print(const json_t *rows)
{
    static const struct bench_column columns[] = {
        {"core", "OPENBLAS_CORETYPE", NULL, 0}, {"flops_per_second", "GFLOP/s", "%.0f", 1e-9},
        {"least", "least", "%.0f", 1e-9}, {"most", "most", "%.0f", 1e-9}, {"note", "", NULL, 0},
        {0}};
    const json_t *best = bench_largest(rows, "flops_per_second"),
                 *used = bench_row(rows, "note", "in use");

    if (json_array_size(rows) < 2)
        return;
    printf("\n");
    bench_table(rows, columns, NULL);
    if (used && json_num(best, "least") > json_num(used, "most"))
        printf("=> OPENBLAS_CORETYPE=%s in the environment makes OpenBLAS %.2f times as fast\n",
               json_str(best, "core"),
               json_num(best, "flops_per_second") / json_num(used, "flops_per_second"));
    else if (used)
        printf("=> no other OPENBLAS_CORETYPE is surely faster than %s, the one in use\n",
               json_str(used, "core"));
}
