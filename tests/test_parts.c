/* test_parts.c: steps of which only a part counts, against PyTorch (tests/fixtures/make_parts.py),
 * in every family: targets and labels below 0, in micro-batches of several ranks; rows that are
 * several texts; parameters that are frozen, and blocks of which nothing is trained. Whatever
 * becomes of the activations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/comm_threads.h"
#include "tests/family.h"
#include "tests/rig.h"
#include "tests/tempdir.h"

static const char *const names[] = {
    "gpt2",        "llama_grouped", "mistral",        "qwen2",     "qwen3",
    "gemma3",      "bert_masked",   "roberta_masked", "gpt2_last", "gemma3_last",
    "qwen2_last",  "bert_labels",   "roberta_labels",
};

/* A step of MICROS micro-batches of a family's model. */
enum { MICROS = 3 };
struct part {
    struct family       family; // whose numbers are those of parts/
    struct fixture     *of_family;
    struct family_model model;
    size_t              batch, seq;
    int                 packed;
};

static void part_open(struct part *p, const char *name)
{
    const int32_t *sizes;
    char           path[256];

    snprintf(path, sizeof path, "tests/fixtures/parts/%s.fix", name);
    *p = (struct part){ 0 };
    family_open(&p->family, name);
    p->model = family_read(&p->family, 5);
    p->of_family = p->family.f;
    p->family.f = fixture_open(path);
    sizes = fixture_i32(p->family.f, "sizes", 4);
    p->batch = (size_t)sizes[0];
    p->seq = (size_t)sizes[1];
    assert_int_equal(sizes[2], MICROS);
}

static void part_close(struct part *p)
{
    fixture_close(p->family.f);
    p->family.f = p->of_family;
    family_close(&p->family);
    free(p->model.params);
}

/* A micro-batch's part of an array of all of them. */
static void take(int32_t *out, const struct part *p, const char *what, size_t micro, size_t n)
{
    if (out)
        memcpy(out, fixture_i32(p->family.f, what, MICROS * n) + micro * n, n * sizeof *out);
}

static int part_batch(void *ctx, uint64_t step, size_t micro, struct batch *b, struct err *err)
{
    const struct part *p = ctx;
    size_t             N = p->batch * p->seq;

    (void)step, (void)err;
    assert_true(b->rows == p->batch && b->seq == p->seq && micro < MICROS);
    assert_true(!b->begin == !p->packed);
    take(b->x, p, "x", micro, N);
    take(b->y, p, "y", micro, N);
    take(b->label, p, "y", micro, p->batch);
    take(b->types, p, "types", micro, N);
    take(b->begin, p, "begin", micro, N);
    take(b->last, p, "lengths", micro, p->batch);
    for (size_t i = 0; b->last && i < p->batch; i++)
        b->last[i]--;
    return 0;
}

static struct trainer_options part_options(const struct part *p, enum dtype dtype)
{
    struct trainer_options o = rig_options(p->model.config, p->batch, p->seq, dtype, MATMUL_AUTO);

    o.model.grad_accum = MICROS;
    o.model.packed = p->packed;
    o.model.threads = 1; // tiny products
    return o;
}

static void near(double a, double b, double tolerance, const char *what, const char *name)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%s: %s: %.9g, expected %.9g", name, what, a, b);
}

/* An array `KIND_what` of the fixture. */
static const float *expected(const struct part *p, const char *kind, const char *what, size_t n)
{
    char name[64];

    snprintf(name, sizeof name, "%s_%s", kind, what);
    return fixture_f32(p->family.f, name, n);
}

/* Its gradients against those of the fixture; the worst distance. */
static double compare(const struct part *p, const char *kind, const float *grads, enum dtype dtype)
{
    static int count;
    char       name[64], what[64];

    snprintf(name, sizeof name, "gradients-%d", count++);
    snprintf(what, sizeof what, "%s_grads", kind);
    return family_compare(&p->family, what, family_written(&p->model.config, grads, name),
                          dtype != DT_F32, 0, dtype == DT_F32 ? 1e-5 : 1);
}

/* Every token's loss, or a classifier's row's. */
static void losses(struct part *p, const char *kind)
{
    struct trainer_options o = part_options(p, DT_F32);
    struct rig          rig = rig_open(&o, p->model.params, 0, 0);
    int                 classifies = arch_classifies(&p->model.config);
    size_t              n = MICROS * p->batch * (classifies ? p->model.config.n_labels : p->seq);
    struct batch_source data = { part_batch, p };
    struct eval_result  sum = { 0 };
    struct err          err;
    float              *each = malloc(n * sizeof *each);

    assert_non_null(each);
    assert_int_equal(eval_step(rig.trainer, 0, &data, 0, MICROS, each, &sum, &err), 0);
    near(sum.loss_sum / (double)sum.tokens, (double)expected(p, kind, "loss", 1)[0], 1e-5,
         "an evaluation's loss", p->family.name);
    if (!classifies && !(max_distance(each, expected(p, kind, "losses", n), n, 0) <= 1e-5))
        fail_msg("%s: losses are off", p->family.name);
    free(each);
    rig_close(&rig);
}

/* A step in one process, with its activations kept, computed again and offloaded. */
static void one_process(struct part *p, const char *kind)
{
    struct trainer_options o = part_options(p, DT_F32);
    struct batch_source    data = { part_batch, p };
    struct step_result     result;
    struct err             err;
    double                 first = 0;

    for (size_t how = 0; how < 4; how++) {
        rig_placement(&o, how == 0   ? p->model.config.n_layer
                      : how == 1 ? 0
                                 : RIG_OFFLOAD * (how - 1));
        struct rig rig = rig_open(&o, p->model.params, 0, 0);

        assert_int_equal(train_step(rig.trainer, 0, &data, &result, &err), 0);
        near(result.loss, (double)expected(p, kind, "loss", 1)[0], 1e-5, "loss", p->family.name);
        assert_true(how == 0 || result.loss == first);
        first = result.loss;
        double worst = compare(p, kind, stream_plain_grads(rig.stream), DT_F32);
        if (how == 0)
            print_message("%s, %s: gradients off by %.1e\n", p->family.name, kind, worst);
        rig_close(&rig);
    }
}

/* In bf16 as near as it ever is: gradients by the norm of all together. */
static void rounded(struct part *p, const char *kind)
{
    struct trainer_options o = part_options(p, DT_BF16);
    struct batch_source    data = { part_batch, p };
    size_t                 total = arch_total(&p->model.config);
    float                 *exact = malloc(total * sizeof *exact);
    struct step_result     result;
    struct err             err;

    assert_non_null(exact);
    for (int narrow = 0; narrow < 2; narrow++) {
        o.model.dtype = narrow ? DT_BF16 : DT_F32;
        struct rig   rig = rig_open(&o, p->model.params, 0, 0);
        const float *grads = stream_plain_grads(rig.stream);

        assert_int_equal(train_step(rig.trainer, 0, &data, &result, &err), 0);
        if (!narrow)
            memcpy(exact, grads, total * sizeof *exact);
        else if (!(norm_distance(grads, exact, total, 0) < 3e-2))
            fail_msg("%s, %s: bf16 is off by %g", p->family.name, kind,
                     norm_distance(grads, exact, total, 0));
        near(result.loss, (double)expected(p, kind, "loss", 1)[0], 1e-2, "loss", p->family.name);
        rig_close(&rig);
    }
    free(exact);
}

/* ---- ranks: each has one of the micro-batches, and the mean is over all ---- */

struct rank {
    pthread_t    thread;
    struct part *part;
    struct comm *comm;
    size_t       rank;
    struct rig   rig;
    double       loss;
    int          rc;
};

static void *rank_step(void *arg)
{
    struct rank        *r = arg;
    struct batch_source data = { part_batch, r->part };
    struct step_result  result = { 0 };
    struct err          err;

    omp_set_num_threads(1);
    r->rc = train_step(r->rig.trainer, 0, &data, &result, &err);
    r->loss = result.loss;
    return NULL;
}

static void ranks(struct part *p, const char *kind)
{
    struct trainer_options o = part_options(p, DT_F32);
    struct comm_threads   *job = comm_threads_new(MICROS);
    size_t                 total = arch_total(&p->model.config);
    float                 *sum = calloc(total, sizeof *sum);
    struct rank            rank[MICROS];

    assert_true(job && sum);
    o.model.grad_accum = 1;
    o.model.micros = MICROS;
    for (size_t i = 0; i < MICROS; i++) {
        o.comm = comm_threads_rank(job, i);
        o.model.first_micro = i;
        rank[i] = (struct rank){ .part = p, .comm = o.comm, .rank = i,
                                 .rig = rig_open(&o, p->model.params, 0, 0) };
    }
    for (size_t i = 0; i < MICROS; i++)
        assert_int_equal(pthread_create(&rank[i].thread, NULL, rank_step, &rank[i]), 0);
    for (size_t i = 0; i < MICROS; i++)
        assert_int_equal(pthread_join(rank[i].thread, NULL), 0);
    for (size_t i = 0; i < MICROS; i++) {
        const float *grads = stream_plain_grads(rank[i].rig.stream);

        assert_int_equal(rank[i].rc, 0);
        near(rank[i].loss, (double)expected(p, kind, "loss", 1)[0], 1e-5, "loss of a rank",
             p->family.name);
        for (size_t k = 0; k < total; k++)
            sum[k] += grads[k];
        rig_close(&rank[i].rig);
    }
    compare(p, kind, sum, DT_F32);
    free(sum);
    assert_int_equal(comm_threads_free(job), 0);
}

/* ---- frozen ---- */

/* The embeddings and the first layer; or all matrices. */
static struct arch_frozen frozen_of(const struct model_config *g, int low)
{
    struct arch_frozen out = { .layers = low ? 1 : 0 };

    for (size_t t = 0; t < g->arch->n_params; t++)
        if (low ? arch_param(g, t)->block == ARCH_EMBEDDINGS : !arch_is_vector(g, t))
            out.tensors |= UINT64_C(1) << t;
    return out;
}

/* What is frozen is as it was, to the bit, and has no gradient. How many parameters that are. */
static size_t untouched(const struct model_config *g, const float *was, const float *is,
                        const float *grads)
{
    size_t n = 0;

    for (size_t b = 0, first = 0; b < arch_blocks(g); first += arch_block_size(g, b++))
        for (size_t i = 0, left; i < arch_block_size(g, b); i += left) {
            struct arch_place place = arch_place(g, b, i);
            size_t            at = first + i;

            left = place.left;
            if (!arch_is_frozen(g, place.t) && arch_trains(g, b))
                continue;
            n += left;
            assert_memory_equal(was + at, is + at, left * sizeof *was);
            for (size_t k = at; k < at + left; k++)
                assert_true(grads[k] == 0.0f);
        }
    return n;
}

static void frozen_steps(struct part *p, const char *kind, struct arch_frozen frozen, size_t how)
{
    struct trainer_options o = part_options(p, DT_F32);
    size_t                 steps = (size_t)fixture_i32(p->family.f, "sizes", 4)[3];
    const float           *loss = expected(p, kind, "loss", steps);
    const float           *norm = expected(p, kind, "norms", steps);
    struct batch_source    data = { part_batch, p };
    struct step_result     result;
    struct err             err;
    char                   what[64], name[64];

    o.model.config.frozen = frozen;
    o.schedule.lr = 2e-3;
    o.clip = 1.0;
    rig_placement(&o, how);
    struct rig rig = rig_open(&o, p->model.params, 0.1f, 0);
    for (uint64_t s = 0; s < steps; s++) {
        assert_int_equal(train_step(rig.trainer, s, &data, &result, &err), 0);
        near(result.loss, (double)loss[s], 1e-5, "a step's loss", p->family.name);
        near(result.grad_norm, (double)norm[s], 1e-4, "a step's norm", p->family.name);
    }
    const float *params = stream_plain_params(rig.stream);
    size_t n = untouched(&o.model.config, p->model.params, params, stream_plain_grads(rig.stream));
    assert_true(n > 0);
    snprintf(what, sizeof what, "%s_params", kind);
    snprintf(name, sizeof name, "%s-%zu", kind, how);
    double worst = family_compare(&p->family, what, family_written(&p->model.config, params, name),
                                  0, 0, p->model.config.qkv_bias ? 1e-3 : 1e-4);
    if (how == 0)
        print_message("%s, %s: %zu parameters frozen, the others off by %.1e\n", p->family.name,
                      kind, n, worst);
    rig_close(&rig);
}

static void test_frozen(void **state)
{
    static const size_t    ways[] = { 2, 0, RIG_OFFLOAD, RIG_OFFLOAD + 1, RIG_MIXED + 3 };
    struct part            p;
    struct trainer_options o;
    struct trainer        *t;
    struct err             err;

    part_open(&p, *state);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        frozen_steps(&p, "low", frozen_of(&p.model.config, 1), ways[i]);
        frozen_steps(&p, "vectors", frozen_of(&p.model.config, 0), ways[i]);
    }
    o = part_options(&p, DT_F32);
    o.model.config.frozen.tensors = UINT64_MAX;
    assert_int_equal(trainer_open(&t, &o, NULL, &err), -EINVAL);
    assert_true(err.misuse && strstr(err.text, "nothing to train"));
    o.model.config.frozen = (struct arch_frozen){ .layers = p.model.config.n_layer + 1 };
    assert_int_equal(trainer_open(&t, &o, NULL, &err), -EINVAL);
    assert_true(err.misuse && strstr(err.text, "cannot be frozen"));
    part_close(&p);
}

/* ---- */

static void test_counts(void **state)
{
    struct part p;

    part_open(&p, *state);
    losses(&p, "counts");
    one_process(&p, "counts");
    ranks(&p, "counts");
    part_close(&p);
}

static void test_packed(void **state)
{
    struct part            p;
    struct trainer_options o;
    struct trainer        *t;
    struct err             err;

    part_open(&p, *state);
    p.packed = 1;
    if (arch_classifies(&p.model.config)) {
        o = part_options(&p, DT_F32);
        assert_int_equal(trainer_open(&t, &o, NULL, &err), -EINVAL);
        assert_true(err.misuse && strstr(err.text, "several"));
    } else {
        losses(&p, "packed");
        one_process(&p, "packed");
        if (rig_runs_bf16(MATMUL_AUTO))
            rounded(&p, "packed");
    }
    part_close(&p);
}

int main(void)
{
    enum { N = sizeof names / sizeof *names };
    static const CMUnitTestFunction functions[] = { test_counts, test_packed, test_frozen };
    enum { KINDS = sizeof functions / sizeof *functions };
    static const char *const kinds[KINDS] = { "what counts", "packed", "frozen" };
    static char              titles[KINDS * N][64];
    struct CMUnitTest        tests[KINDS * N];

    for (size_t i = 0; i < KINDS * N; i++) {
        snprintf(titles[i], sizeof titles[i], "%s, %s", names[i % N], kinds[i / N]);
        tests[i] = (struct CMUnitTest){ titles[i], functions[i / N], tempdir_set_up,
                                        tempdir_tear_down, (void *)(uintptr_t)names[i % N] };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
